//! `append`: at the version it was decided for, whole, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_core::view::row::Row;
use lastword_core::{Job, Seq};
use lastword_store::{Error, Filter, Store};

use super::stage::{
    LATER, QUEUE, at_once, conflict, from_queue, held, held_of, holds, refused, register, row, submit, take,
    write,
};
use crate::jobs::{self, NOW};

/// An append answers with the number of its last event, and that is what both readers then show.
pub async fn c27_an_append_returns_the_version_the_journal_holds<J: Store>(journal: J) {
    let (append, mut job) = jobs::submit(1, jobs::spec(QUEUE), NOW);
    assert_eq!(journal.append(append.clone()).await, Ok(Seq(1)));
    holds(&journal, &job).await;

    let facts = vec![jobs::limit_changed(1), jobs::limit_changed(2), jobs::limit_changed(3)];
    let more = write(&journal, &mut job, None, facts).await;
    holds(&journal, &job).await;
    let stored = journal.load(job.id, Seq(0)).await.expect("a job can be loaded");
    assert_eq!(stored, [append.events, more.events].concat());
    assert_eq!(stored.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// A writer that looked at another version is told the present one, and nothing of it is kept.
pub async fn c03_a_request_at_an_old_version_is_an_error_and_not_stored<J: Store>(journal: J) {
    let old = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let mut job = old.clone();
    write(&journal, &mut job, None, vec![jobs::limit_changed(1), jobs::limit_changed(2)]).await;

    let (late, _) = jobs::append(&old, None, vec![jobs::cancelled_before_start()]);
    refused(&journal, late, conflict(&job, 3)).await;
    // No reader can have seen the version in the middle of an append.
    let half = Job::fold(job.id, &journal.load(job.id, Seq(0)).await.expect("a job can be loaded")[..2]);
    let (late, _) = jobs::append(&half.expect("half a log folds"), None, vec![jobs::limit_changed(7)]);
    refused(&journal, late, conflict(&job, 3)).await;

    let (_, ahead) = jobs::append(&job, None, vec![jobs::limit_changed(3)]);
    let (early, _) = jobs::append(&ahead, None, vec![jobs::limit_changed(4)]);
    refused(&journal, early, conflict(&job, 3)).await;

    let (_, unborn) = jobs::submit(2, jobs::spec(QUEUE), NOW);
    let (orphan, _) = jobs::append(&unborn, None, vec![jobs::limit_changed(5)]);
    refused(&journal, orphan, conflict(&unborn, 0)).await;
    holds(&journal, &job).await;
}

/// Writers race at one version; the journal itself lets in exactly one, and tells the rest what is true now.
pub async fn c25_of_many_writers_at_one_version_exactly_one_wins<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    for _ in 0..8 {
        let answers = at_once(12, |n| {
            let (journal, before) = (journal.clone(), job.clone());
            async move {
                let (append, after) = jobs::append(&before, None, vec![jobs::limit_changed(n)]);
                (journal.append(append).await, after)
            }
        })
        .await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(answer, _)| answer.is_ok());
        assert_eq!(won.len(), 1, "exactly one writer wins");
        let actual = job.version.next();
        assert!(lost.iter().all(|(answer, _)| *answer == Err(Error::Conflict { job: job.id, actual })));
        job = won.into_iter().next().expect("there is one").1;
        holds(&journal, &job).await;
    }
}

/// Job, attempt, session and turn are one row and one log, and agree at every step of two whole lives.
pub async fn c26_row_and_events_agree_after_every_append<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let mut plain = submit(&journal, 1, jobs::spec(QUEUE)).await;
    holds(&journal, &plain).await;
    write(&journal, &mut plain, None, vec![jobs::limit_changed(9)]).await;
    holds(&journal, &plain).await;
    let (mut plain, fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    holds(&journal, &plain).await;
    for facts in jobs::life(&plain) {
        write(&journal, &mut plain, Some(&fence), facts).await;
        holds(&journal, &plain).await;
    }

    let (mut agent, fence) = held(&journal, 2, jobs::agent(QUEUE), &ann).await;
    holds(&journal, &agent).await;
    for facts in jobs::agent_life(&agent, "thread-1") {
        write(&journal, &mut agent, Some(&fence), facts).await;
        holds(&journal, &agent).await;
    }
    assert!(plain.is_ended() && agent.is_ended());
}

/// A reader beside a writer sees appends of three facts whole or not at all, in the row and in the log.
pub async fn c26_a_reader_never_sees_half_an_append<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (journal, done, id) = (journal.clone(), done.clone(), job.id);
        async move {
            let mut looks = 0;
            while !done.load(Ordering::Acquire) || looks < 2 {
                let row = row(&journal, id).await.expect("the job is there");
                let events = journal.load(id, Seq(0)).await.expect("a job can be loaded");
                assert_eq!(events.len() % 3, 1, "half an append is seen");
                assert!(events.len() as u64 >= row.version.0, "the log is behind the row");
                let seen = Job::fold(id, &events[..row.version.0 as usize]).expect("a log folds");
                assert_eq!(row, Row::of(&seen), "the row is that of its version");
                looks += 1;
                tokio::task::yield_now().await;
            }
        }
    });
    for n in 0..40 {
        let facts = vec![jobs::limit_changed(n), jobs::limit_changed(n + 1), jobs::limit_changed(n + 2)];
        write(&journal, &mut job, None, facts).await;
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Release);
    reader.await.expect("the reader is content");
}

/// Eight writers add 25 jobs each; all of them are there, each with its own first event.
pub async fn c44_many_writers_adding_jobs_lose_none<J: Store>(journal: J) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 25;
    let added = at_once(WRITERS, |writer| {
        let journal = journal.clone();
        async move {
            let mut added = Vec::new();
            for n in 0..EACH {
                added.push(submit(&journal, n * WRITERS + writer, jobs::spec(QUEUE)).await);
            }
            added
        }
    })
    .await;
    for job in added.iter().flatten() {
        holds(&journal, job).await;
    }
    let rows = journal.rows(Filter::default(), None, 1_000).await.expect("rows can be read");
    assert_eq!(rows.len() as u64, WRITERS * EACH);
    let ann = register(&journal, "ann").await;
    let mut claim = from_queue(&ann, QUEUE, 1_000);
    claim.now = LATER;
    let taken = journal.claim(claim).await.expect("a live owner may claim");
    assert_eq!(taken.len() as u64, WRITERS * EACH, "each can be claimed");
}

/// What is written to one job, a limit above all, shows in no other.
pub async fn c51_one_jobs_limit_leaves_other_jobs_alone<J: Store>(journal: J) {
    let mut job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let other = submit(&journal, 2, jobs::spec(QUEUE)).await;
    let before = held_of(&journal, other.id).await;
    write(&journal, &mut job, None, vec![jobs::limit_changed(1)]).await;
    write(&journal, &mut job, None, vec![jobs::cancelled_before_start()]).await;
    assert_eq!(held_of(&journal, other.id).await, before);
    holds(&journal, &other).await;
}

/// A second submission under an id that is taken is refused, whatever it asks for.
pub async fn an_id_is_taken_once<J: Store>(journal: J) {
    let first = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let (second, _) = jobs::submit(1, jobs::spec("elsewhere"), NOW);
    refused(&journal, second, conflict(&first, 1)).await;

    let answers = at_once(8, |_| {
        let journal = journal.clone();
        async move { journal.append(jobs::submit(2, jobs::spec(QUEUE), NOW).0).await }
    })
    .await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
}
