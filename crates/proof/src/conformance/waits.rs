//! Which job waits for which.

use lastword_core::event::{DependencyRemoved, DependencySettled};
use lastword_core::outcome::Outcome;
use lastword_core::spec::{Dependency, Needs, Spec};
use lastword_core::{Fact, Job};
use lastword_store::{Removal, Store, WaitOver};

use super::stage::{QUEUE, at_once, held, live_out, register, submit, write};
use crate::jobs::{self, NOW, id};

/// Returns a spec that waits for these jobs.
fn after(others: &[u64]) -> Spec {
    let after = others.iter().map(|n| Dependency { job: id(*n), on: Needs::AnyEnd }).collect();
    Spec { after, ..jobs::spec(QUEUE) }
}

fn settled(n: u64) -> Fact {
    DependencySettled { job: id(n), outcome: Outcome::Completed }.into()
}

/// Returns the waits that are over, page by page.
async fn over<J: Store>(journal: &J, page: u32) -> Vec<(u64, u64, Option<Outcome>)> {
    let (mut all, mut last) = (Vec::new(), None);
    loop {
        let waits = journal.waits_over(last, page).await.expect("waits can be read");
        let number = |job| (0..100).find(|n| id(*n) == job).expect("one of ours");
        all.extend(
            waits.iter().map(|WaitOver { other, job, outcome }| (number(*other), number(*job), *outcome)),
        );
        match waits.last() {
            Some(wait) if waits.len() == page as usize => last = Some((wait.other, wait.job)),
            _ => return all,
        }
    }
}

/// Ends a job as one that was never started.
async fn cancel<J: Store>(journal: &J, job: &mut Job) {
    write(journal, job, None, vec![jobs::cancelled_before_start()]).await;
}

/// A wait is there from the submission until the job is told or ends, however often it is listed.
pub async fn c86_a_wait_lasts_until_its_job_is_told_or_ends<J: Store>(journal: J) {
    let mut told = submit(&journal, 1, after(&[7, 8, 7])).await;
    let mut ends = submit(&journal, 2, after(&[7, 9])).await;
    assert_eq!(journal.dependents(id(7)).await, Ok(vec![id(1), id(2)]));
    assert_eq!(journal.dependents(id(8)).await, Ok(vec![id(1)]));
    assert_eq!(journal.dependents(id(1)).await, Ok(vec![]));
    write(&journal, &mut told, None, vec![settled(7)]).await;
    assert_eq!(journal.dependents(id(7)).await, Ok(vec![id(2)]));
    assert_eq!(journal.dependents(id(8)).await, Ok(vec![id(1)]));
    cancel(&journal, &mut ends).await;
    assert_eq!(journal.dependents(id(7)).await, Ok(vec![]));
    assert_eq!(journal.dependents(id(9)).await, Ok(vec![]));
    write(&journal, &mut told, None, vec![DependencyRemoved { job: id(8) }.into()]).await;
    assert_eq!(journal.dependents(id(8)).await, Ok(vec![]));
    assert_eq!(over(&journal, 9).await, []);
}

/// What is settled with the submission is never waited for.
pub async fn c86_a_wait_that_ends_with_its_submission_is_not_stored<J: Store>(journal: J) {
    let (first, _) = jobs::submit(1, after(&[7, 8]), jobs::NOW);
    let mut facts: Vec<Fact> = first.events.into_iter().map(|event| event.fact).collect();
    facts.push(settled(7));
    let (append, job) = jobs::append(&Job::unborn(id(1)), None, facts);
    assert_eq!(journal.append(append.clone()).await, Ok(job.version));
    assert_eq!(journal.append(append).await, Ok(job.version), "a repeat is a success");
    assert_eq!(journal.dependents(id(7)).await, Ok(vec![]));
    assert_eq!(journal.dependents(id(8)).await, Ok(vec![id(1)]));
}

/// Refused appends leave no wait behind, and end none.
pub async fn c86_a_refused_append_changes_no_wait<J: Store>(journal: J) {
    let job = submit(&journal, 1, after(&[7])).await;
    let (old, _) = jobs::submit(1, after(&[8]), jobs::NOW);
    assert!(journal.append(old).await.is_err());
    assert_eq!(journal.dependents(id(8)).await, Ok(vec![]));
    let mut other = job.clone();
    write(&journal, &mut other, None, vec![jobs::limit_changed(1)]).await;
    let (late, _) = jobs::append(&job, None, vec![settled(7)]);
    assert!(journal.append(late).await.is_err());
    assert_eq!(journal.dependents(id(7)).await, Ok(vec![id(1)]));
}

/// A wait is over when the other job has ended or is not there, and what is found says which.
pub async fn c86_waits_that_are_over_are_found_with_the_outcome<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut done, fence) = held(&journal, 7, jobs::spec(QUEUE), &ann).await;
    let live = submit(&journal, 8, jobs::spec("elsewhere")).await;
    for n in 1..=5 {
        submit(&journal, n, after(&[7, 8, 9])).await;
    }
    let gone: Vec<_> = (1..=5).map(|n| (9, n, None)).collect();
    for page in [1, 2, 5, 6, 99] {
        assert_eq!(over(&journal, page).await, gone, "pages of {page}");
    }
    live_out(&journal, &mut done, &fence).await;
    let outcome = done.last_word().map(|word| word.outcome);
    let ended: Vec<_> = (1..=5).map(|n| (7, n, outcome)).chain(gone).collect();
    for page in [1, 3, 5, 99] {
        assert_eq!(over(&journal, page).await, ended, "pages of {page}");
    }
    assert!(!live.is_ended());
}

/// A job that another one waits for is not removed: its outcome would be lost to that one.
pub async fn c86_a_job_that_is_waited_for_is_not_removed<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut done, fence) = held(&journal, 7, jobs::spec(QUEUE), &ann).await;
    let mut waits = submit(&journal, 1, after(&[7])).await;
    assert_eq!(journal.remove(done.id, NOW).await, Ok(Removal::NotEnded));
    live_out(&journal, &mut done, &fence).await;
    assert_eq!(journal.remove(done.id, NOW).await, Ok(Removal::Awaited));
    assert!(journal.row(done.id).await.expect("a row can be read").is_some());
    write(&journal, &mut waits, None, vec![settled(7)]).await;
    assert_eq!(journal.remove(done.id, NOW).await, Ok(Removal::Gone));
    assert_eq!(journal.remove(done.id, NOW).await, Ok(Removal::NotThere));
}

/// Whatever the order of an end and the submissions beside it: who reads after its own write finds the other's.
pub async fn c86_an_end_and_a_wait_at_once_do_not_miss_each_other<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for round in 0..8 {
        let (first, last) = (10 * round + 10, 10 * round + 19);
        let (mut ending, fence) = held(&journal, first, jobs::spec(QUEUE), &ann).await;
        let mut life = jobs::life(&ending);
        let end = life.pop().expect("a life ends");
        for facts in life {
            write(&journal, &mut ending, Some(&fence), facts).await;
        }
        let (end, _) = jobs::append(&ending, Some(&fence), end);
        let found = at_once(last - first + 1, |n| {
            let (journal, end) = (journal.clone(), end.clone());
            async move {
                if n == 0 {
                    journal.append(end).await.expect("it ends");
                    return journal.dependents(id(first)).await.expect("waits can be read");
                }
                let (append, _) = jobs::submit(first + n, after(&[first]), jobs::NOW);
                journal.append(append).await.expect("it goes in");
                let other = journal.row(id(first)).await.expect("a row can be read").expect("it is there");
                other.outcome.map(|_| id(first + n)).into_iter().collect()
            }
        })
        .await;
        for n in first + 1..=last {
            assert!(found.iter().flatten().any(|job| *job == id(n)), "the wait of {n} was missed");
        }
    }
}
