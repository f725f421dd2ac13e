//! `claim` from a queue: in order, when due, within bounds, by live owners, each job once.

use std::collections::BTreeSet;

use lastword_core::decide::claim::Claimant;
use lastword_core::event::DependencySettled;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::spec::{Dependency, Needs, Spec};
use lastword_core::view::row::PhaseName;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Epoch, HostId, Incarnation, JobId, OwnerId, Seq, Timestamp};
use lastword_store::{Claim, Error, Filter, Group, Line, Ready, Store};

use super::stage::{
    LATER, QUEUE, as_life, at_once, end, from_gone, from_queue, from_slots, held, held_of, holds, ids,
    lapsed, live_out, load, register, row, submit, take, write,
};
use crate::jobs::{self, NOW, id};

/// The owner gets the whole log with its own claim at the end, and the fence that the job row now holds.
pub async fn c27_a_claim_returns_the_log_the_journal_holds<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    // Only taken, and taken with the intent to start it.
    let cases = [(None, 4, PhaseName::Queued), (Some("b1".into()), 5, PhaseName::Launching)];
    for (n, (boot, facts, phase)) in (1..).zip(cases) {
        let ann = Claimant { boot, ..ann.clone() };
        let mut job = submit(&journal, n, jobs::spec(QUEUE)).await;
        write(&journal, &mut job, None, vec![jobs::limit_changed(1), jobs::limit_changed(2)]).await;
        let taken = journal.claim(from_queue(&ann, QUEUE, 9)).await.expect("a live owner may claim");
        let [claimed] = &taken[..] else { panic!("one job is there: {taken:?}") };
        let (row, events) = held_of(&journal, job.id).await;
        assert_eq!((claimed.job, &claimed.events), (job.id, &events));
        let row = row.expect("the record exists");
        assert_eq!((row.phase, row.holder.as_ref()), (phase, Some(&claimed.fence)));
        assert_eq!(events.len(), facts);
        let fence = &claimed.fence;
        assert_eq!((&fence.owner, fence.incarnation, fence.epoch), (&ann.owner, ann.incarnation, Epoch(1)));
    }
}

/// Eight owners empty a queue of 200 jobs; each job has one of them as its first and only holder.
pub async fn c33_concurrent_claimers_never_share_a_job<J: Store>(journal: J) {
    const JOBS: u64 = 200;
    at_once(4, |part| {
        let journal = journal.clone();
        async move {
            for n in (part..JOBS).step_by(4) {
                submit(&journal, n, jobs::spec(QUEUE)).await;
            }
        }
    })
    .await;
    let taken = at_once(8, |n| {
        let journal = journal.clone();
        async move {
            let me = register(&journal, &format!("owner-{n}")).await;
            let mut mine = Vec::new();
            // A journal that gives jobs twice would never run dry.
            while mine.len() <= JOBS as usize {
                let taken = ids(&journal, from_queue(&me, QUEUE, 1 + n as u32)).await;
                if taken.is_empty() {
                    break;
                }
                mine.extend(taken);
                tokio::task::yield_now().await;
            }
            mine
        }
    })
    .await;
    let all: Vec<JobId> = taken.into_iter().flatten().collect();
    let distinct: BTreeSet<JobId> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len(), "a job was given to two owners");
    // A claimer may leave while another still holds the rest in its hands, so a last look is due.
    let late = register(&journal, "late").await;
    let rest = ids(&journal, from_queue(&late, QUEUE, 1_000)).await;
    assert_eq!(distinct.len() + rest.len(), JOBS as usize, "a job was given to nobody");
    for job in all {
        assert_eq!(journal.load(job, Seq(0)).await.expect("a job can be loaded").len(), 2, "{job}");
    }
}

/// A record, a lease and a process are three things: a claim makes only the second.
pub async fn c36_a_claim_starts_nothing<J: Store>(journal: J) {
    let job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let queued = row(&journal, job.id).await.expect("the record exists");
    assert_eq!((queued.holder.as_ref(), queued.summary.attempts), (None, 0), "a record is no lease");
    let ann = register(&journal, "ann").await;
    let (job, fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    let claimed = row(&journal, job.id).await.expect("the record exists");
    assert_eq!((claimed.phase, claimed.due, claimed.summary.attempts), (PhaseName::Queued, None, 0));
    assert_eq!(claimed.holder, Some(fence), "a lease is no process");
    assert!(!job.has_begun());
    holds(&journal, &job).await;
}

/// Jobs leave in one order, however they came in.
pub async fn higher_priority_first_then_longer_due_then_older<J: Store>(journal: J) {
    // (number, priority, due), in the order in which they must leave.
    let order = [
        (9, i16::MAX, 50),
        (5, 7, 10),
        (2, 7, 20),
        (1, 0, 10),
        (3, 0, 10),
        (8, 0, 10),
        (4, 0, 30),
        (7, -1, 0),
        (6, i16::MIN, 0),
    ];
    for place in [4, 0, 8, 2, 6, 1, 7, 3, 5] {
        let (n, priority, due): (u64, i16, u64) = order[place];
        let not_before = (n % 2 == 0).then_some(NOW.plus_ms(due));
        let spec = Spec { priority, not_before, ..jobs::spec(QUEUE) };
        let (append, _) = jobs::submit(n, spec, NOW.plus_ms(due));
        assert_eq!(journal.append(append).await, Ok(Seq(1)));
    }
    let ann = register(&journal, "ann").await;
    let mut taken = ids(&journal, from_queue(&ann, QUEUE, 1)).await;
    taken.extend(ids(&journal, from_queue(&ann, QUEUE, 3)).await);
    taken.extend(ids(&journal, from_queue(&ann, QUEUE, 50)).await);
    assert_eq!(taken, order.map(|(n, ..)| id(n)));
}

/// A due time is the first moment at which a job can be taken, by the clock of the caller.
pub async fn a_job_is_claimed_from_its_due_time_on<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let due = LATER.plus_ms(500);
    let job = submit(&journal, 1, Spec { not_before: Some(due), ..jobs::spec(QUEUE) }).await;
    let at = |ms| Claim { now: LATER.plus_ms(ms), ..from_queue(&ann, QUEUE, 9) };
    assert_eq!(ids(&journal, at(0)).await, []);
    assert_eq!(ids(&journal, at(499)).await, []);
    assert_eq!(ids(&journal, at(500)).await, [job.id]);
    assert_eq!(ids(&journal, at(501)).await, []);
}

/// A dependency keeps a job out of the queue until it is settled.
pub async fn a_job_that_waits_for_another_is_not_claimed<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let after =
        vec![Dependency { job: id(7), on: Needs::Success }, Dependency { job: id(8), on: Needs::AnyEnd }];
    let mut job = submit(&journal, 1, Spec { after, ..jobs::spec(QUEUE) }).await;
    for n in [7, 8] {
        assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, []);
        let settled = DependencySettled { job: id(n), outcome: Outcome::Completed };
        write(&journal, &mut job, None, vec![settled.into()]).await;
        holds(&journal, &job).await;
    }
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, [job.id]);
}

/// No more than asked for, down to none.
pub async fn a_claim_takes_at_most_what_it_asked_for<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 0..5 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    for (at_most, taken) in [(0, 0), (1, 1), (3, 3), (9, 1), (9, 0)] {
        assert_eq!(ids(&journal, from_queue(&ann, QUEUE, at_most)).await.len(), taken);
    }
}

/// Queues are apart, also when one name begins like another.
pub async fn a_claim_stays_in_its_queue<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for (n, queue) in ["q", "q2", "Q", ""].into_iter().enumerate() {
        submit(&journal, n as u64, jobs::spec(queue)).await;
    }
    assert_eq!(ids(&journal, from_queue(&ann, "elsewhere", 9)).await, []);
    for (n, queue) in ["q", "q2", "Q", ""].into_iter().enumerate() {
        assert_eq!(ids(&journal, from_queue(&ann, queue, 9)).await, [id(n as u64)]);
    }
}

/// Slots count the held jobs of this queue, whichever owner holds them. A slot is free again when its job ends or is released.
pub async fn slots_bound_the_held_jobs_of_a_queue<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    for n in 0..6 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    held(&journal, 9, jobs::spec("other"), &ann).await;
    assert_eq!(ids(&journal, from_slots(&ann, QUEUE, 9, Some(0))).await, []);
    let (mut job, fence) = take(&journal, from_slots(&ann, QUEUE, 9, Some(1))).await;
    assert_eq!(ids(&journal, from_slots(&bob, QUEUE, 9, Some(1))).await, []);
    assert_eq!(ids(&journal, from_slots(&bob, QUEUE, 9, Some(3))).await, [id(1), id(2)]);
    assert_eq!(ids(&journal, from_slots(&bob, QUEUE, 9, Some(2))).await, [], "a smaller bound takes nothing");
    live_out(&journal, &mut job, &fence).await;
    let (mut job, fence) = take(&journal, from_slots(&ann, QUEUE, 9, Some(3))).await;
    let release = vec![jobs::released(&job)];
    write(&journal, &mut job, Some(&fence), release).await;
    assert_eq!(ids(&journal, from_slots(&bob, QUEUE, 9, Some(3))).await, [job.id]);
}

/// Claimers that all see free slots at once fill them and no more.
pub async fn slots_hold_when_many_claim_at_once<J: Store>(journal: J) {
    const SLOTS: u32 = 5;
    for n in 0..60 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    let taken = at_once(8, |n| {
        let journal = journal.clone();
        async move {
            let me = register(&journal, &format!("owner-{n}")).await;
            let mut taken = 0;
            for _ in 0..4 {
                taken += ids(&journal, from_slots(&me, QUEUE, 2, Some(SLOTS))).await.len();
                tokio::task::yield_now().await;
            }
            taken
        }
    })
    .await;
    assert_eq!(taken.iter().sum::<usize>(), SLOTS as usize);
    let rows = journal.rows(Filter::default(), None, 100).await.expect("rows can be read");
    assert_eq!(rows.iter().filter(|row| row.holder.is_some()).count(), SLOTS as usize);
}

/// The slots and the pause of a stored group count from the next claim on, whatever the claim says.
pub async fn a_stored_group_binds_every_claim<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 0..8 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    submit(&journal, 9, jobs::spec("other")).await;
    let group = |slots, paused| journal.set_group(Group { paused, ..Group::new(QUEUE, slots) });
    let takes = |slots| ids(&journal, from_slots(&ann, QUEUE, 2, slots));
    group(Some(3), true).await.expect("it is set");
    assert_eq!(takes(None).await, [], "it is paused");
    group(Some(3), false).await.expect("it is set");
    assert_eq!(takes(Some(1)).await, [id(0), id(1)]);
    assert_eq!(takes(None).await, [id(2)], "three slots");
    assert_eq!(takes(Some(9)).await, []);
    group(Some(5), false).await.expect("it is set");
    assert_eq!(takes(Some(0)).await, [id(3), id(4)]);
    group(Some(1), false).await.expect("it is set");
    assert_eq!(takes(None).await, [], "more are held than it has slots");
    group(None, true).await.expect("it is set");
    assert_eq!(takes(None).await, [], "it is paused");
    assert_eq!(ids(&journal, from_queue(&ann, "other", 9)).await, [id(9)], "another group is not");
    group(None, false).await.expect("it is set");
    assert_eq!(takes(Some(0)).await, [id(5), id(6)], "no bound");
    assert_eq!(journal.remove_group(QUEUE).await, Ok(true));
    assert_eq!(takes(Some(7)).await, [], "the bound of the claim counts again");
    assert_eq!(takes(Some(8)).await, [id(7)]);
}

/// A bound that is set while jobs are held counts them, also those that were taken or ended while there was no bound.
pub async fn slots_set_while_jobs_are_held_count_them<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 0..12 {
        submit(&journal, n, jobs::spec(QUEUE)).await;
    }
    let bound = |slots| journal.set_group(Group::new(QUEUE, slots));
    let takes = |at_most| ids(&journal, from_queue(&ann, QUEUE, at_most));
    let (mut first, first_fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    let (mut second, second_fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    bound(Some(3)).await.expect("it is set");
    assert_eq!(takes(9).await, [id(2)], "two are held");
    live_out(&journal, &mut first, &first_fence).await;
    assert_eq!(takes(9).await, [id(3)], "one has ended");
    bound(None).await.expect("it is set");
    assert_eq!(takes(2).await, [id(4), id(5)], "no bound");
    live_out(&journal, &mut second, &second_fence).await;
    bound(Some(4)).await.expect("it is set");
    assert_eq!(takes(9).await, [], "four are held");
    bound(Some(6)).await.expect("it is set");
    assert_eq!(takes(9).await, [id(6), id(7)]);
    // A job that changes hands keeps its slot.
    let next = register(&journal, "ann").await;
    assert_eq!(ids(&journal, from_gone(&next, 9)).await.len(), 6);
    assert_eq!(ids(&journal, from_queue(&next, QUEUE, 9)).await, []);
    bound(Some(7)).await.expect("it is set");
    assert_eq!(ids(&journal, from_queue(&next, QUEUE, 9)).await, [id(8)]);
}

fn labels(labels: &str) -> WorkerLabels {
    labels.split_whitespace().map(str::to_owned).collect()
}

/// A job goes to an owner that has all labels it needs; one that needs none goes to any.
pub async fn a_job_goes_to_an_owner_with_its_labels<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let needs = ["gpu", "gpu linux", "", "arm64", "gp", "gpu-2"];
    for (n, on) in needs.iter().enumerate() {
        submit(&journal, n as u64, Spec { on: labels(on), ..jobs::spec(QUEUE) }).await;
    }
    let takes = |had: &str| ids(&journal, Claim { labels: labels(had), ..from_queue(&ann, QUEUE, 9) });
    assert_eq!(takes("mac").await, [id(2)], "it needs none");
    assert_eq!(takes("").await, []);
    assert_eq!(takes("linux").await, []);
    assert_eq!(takes("gpu").await, [id(0)]);
    assert_eq!(takes("arm64 gpu linux").await, [id(1), id(3)]);
    // A tree that runs must be looked after, by whichever owner.
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await.len(), 4);
    holds(&journal, &load(&journal, id(4)).await).await;
}

/// Priority counts before labels. Of one priority, jobs with the same labels come together, in the place of the one that is due longest.
pub async fn lines_of_labels_come_in_the_order_of_their_first_jobs<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    // (number, labels, priority, due), in the order in which they must leave.
    let order = [
        (8, "gpu", 3, 90),
        (7, "", 1, 10),
        (1, "", 1, 40),
        (6, "gpu", 1, 20),
        (2, "gpu", 1, 60),
        (5, "big gpu", 1, 30),
        (3, "", 0, 5),
    ];
    for place in [3, 0, 6, 5, 2, 1, 4] {
        let (n, on, priority, due) = order[place];
        let spec = Spec { on: labels(on), priority, ..jobs::spec(QUEUE) };
        let (append, _) = jobs::submit(n, spec, NOW.plus_ms(due));
        assert_eq!(journal.append(append).await, Ok(Seq(1)));
    }
    let not_due =
        Spec { on: labels("big"), priority: 9, not_before: Some(LATER.plus_ms(1)), ..jobs::spec(QUEUE) };
    submit(&journal, 9, not_due).await;
    submit(&journal, 10, Spec { on: labels("arm64"), priority: 9, ..jobs::spec(QUEUE) }).await;
    let claim = |at_most| Claim { labels: labels("big gpu"), ..from_queue(&ann, QUEUE, at_most) };
    let mut taken = ids(&journal, claim(1)).await;
    taken.extend(ids(&journal, claim(2)).await);
    taken.extend(ids(&journal, claim(9)).await);
    assert_eq!(taken, order.map(|(n, ..)| id(n)));
}

/// Where jobs can be claimed is told by line, and when there is more.
pub async fn what_can_be_claimed_is_told_by_line<J: Store>(journal: J) {
    let gpu = || ["gpu".to_owned()].into_iter().collect::<WorkerLabels>();
    let line = |group: &str, labels: &str| Line { group: group.to_owned(), labels: labels.to_owned() };
    let ready = async |now: Timestamp| journal.ready(now).await.expect("it can be read");
    assert_eq!(ready(LATER).await, Ready::default());
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    submit(&journal, 2, Spec { priority: 3, ..jobs::spec(QUEUE) }).await;
    submit(&journal, 3, Spec { on: gpu(), ..jobs::spec(QUEUE) }).await;
    submit(&journal, 4, jobs::spec("paused")).await;
    let late = Spec { on: gpu(), not_before: Some(LATER.plus_ms(500)), ..jobs::spec("later") };
    submit(&journal, 5, late).await;
    journal.set_group(Group { paused: true, ..Group::new("paused", None) }).await.expect("it is set");
    let lines = vec![line(QUEUE, ""), line(QUEUE, "gpu")];
    assert_eq!(ready(LATER).await, Ready { lines: lines.clone(), next_ms: Some(500) });
    let all = [vec![line("later", "gpu")], lines].concat();
    assert_eq!(ready(LATER.plus_ms(500)).await, Ready { lines: all, next_ms: None });
    let ann = register(&journal, "ann").await;
    assert_eq!(journal.claim(from_queue(&ann, QUEUE, 9)).await.map(|taken| taken.len()), Ok(2));
    let left = Ready { lines: vec![line(QUEUE, "gpu")], next_ms: Some(500) };
    assert_eq!(ready(LATER).await, left, "what is held is not ready");
}

/// A paused group keeps no job from being taken over: its tree runs.
pub async fn a_takeover_asks_for_no_pause<J: Store>(journal: J) {
    let (ann, bob) = (register(&journal, "ann").await, register(&journal, "bob").await);
    held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    end(&journal, &ann).await;
    let paused = Group { paused: true, ..Group::new(QUEUE, Some(0)) };
    journal.set_group(paused).await.expect("it is set");
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, [id(1)]);
}

/// A release puts a job back at once, a retry when it is due; each claim has the next epoch.
pub async fn a_job_given_back_or_tried_again_is_claimed_anew<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let release = vec![jobs::released(&job)];
    write(&journal, &mut job, Some(&fence), release).await;
    holds(&journal, &job).await;

    let (mut job, fence) = take(&journal, from_queue(&ann, QUEUE, 9)).await;
    assert_eq!(fence.epoch, Epoch(2));
    let launch = vec![jobs::launch_intended(&job)];
    write(&journal, &mut job, Some(&fence), launch).await;
    let end = jobs::attempt_ended(jobs::newest_attempt(&job), Outcome::Failed, Cause::Agent);
    let retry = jobs::retry_scheduled(jobs::next_attempt(&job), LATER.plus_ms(10));
    write(&journal, &mut job, Some(&fence), vec![end, retry]).await;
    holds(&journal, &job).await;

    let at = |ms| Claim { now: LATER.plus_ms(ms), ..from_queue(&ann, QUEUE, 9) };
    assert_eq!(ids(&journal, at(9)).await, []);
    let (job, fence) = take(&journal, at(10)).await;
    assert_eq!(fence.epoch, Epoch(3));
    holds(&journal, &job).await;
}

/// A job with an older id, an earlier due time or a lower priority than all that were taken is still found.
pub async fn a_job_that_becomes_ready_late_is_not_stranded<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 100..150 {
        submit(&journal, n, Spec { priority: 5, ..jobs::spec(QUEUE) }).await;
    }
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 100)).await.len(), 50);
    for (n, priority) in [(3, 5), (2, 6), (1, 4), (200, 5)] {
        let spec = Spec { priority, ..jobs::spec(QUEUE) };
        let (append, job) = jobs::submit(n, spec, lastword_core::Timestamp(NOW.0 - n));
        assert_eq!(journal.append(append).await, Ok(Seq(1)));
        assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 1)).await, [job.id]);
    }
}

/// What this build cannot read it leaves alone, and takes the next job instead.
pub async fn a_job_of_a_newer_build_is_skipped_and_holds_nobody_up<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let spec = Spec { priority: 9, ..jobs::spec(QUEUE) };
    let (mut foreign, fence) = held(&journal, 1, spec, &ann).await;
    let release = vec![jobs::unknown(), jobs::released(&foreign)];
    write(&journal, &mut foreign, Some(&fence), release).await;
    let plain = submit(&journal, 2, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 1)).await, [plain.id]);
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, []);
    holds(&journal, &foreign).await;
}

/// Checks that the claimant is told to register and that the waiting job was not touched.
async fn claims_nothing<J: Store>(journal: &J, who: &Claimant, waiting: &lastword_core::Job) {
    for claim in [from_queue(who, QUEUE, 9), from_queue(who, "empty", 9), from_gone(who, 9)] {
        assert_eq!(journal.claim(claim).await, Err(lapsed(who)));
    }
    holds(journal, waiting).await;
}

/// A claim is for owners the journal knows, in this database.
pub async fn an_owner_that_never_registered_claims_nothing<J: Store>(journal: J) {
    let job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let ann = register(&journal, "ann").await;
    let stranger = Claimant { owner: OwnerId("eve".into()), host: HostId("here".into()), ..ann.clone() };
    claims_nothing(&journal, &stranger, &job).await;
    let Incarnation { instance, number } = ann.incarnation;
    let elsewhere = Incarnation { instance: instance.wrapping_add(1), number };
    claims_nothing(&journal, &as_life(&ann, elsewhere), &job).await;
    let future = Incarnation { instance, number: number + 1 };
    claims_nothing(&journal, &as_life(&ann, future), &job).await;
}

/// Once its life is over an owner takes nothing until it has registered again.
pub async fn an_owner_whose_life_is_over_claims_nothing<J: Store>(journal: J) {
    let job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let ann = register(&journal, "ann").await;
    end(&journal, &ann).await;
    claims_nothing(&journal, &ann, &job).await;
    let ann = register(&journal, "ann").await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await, [job.id]);
}

/// Of two lives of one owner only the later one takes anything.
pub async fn a_replaced_life_claims_nothing<J: Store>(journal: J) {
    let job = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let old = register(&journal, "ann").await;
    let new = register(&journal, "ann").await;
    claims_nothing(&journal, &old, &job).await;
    assert_eq!(ids(&journal, from_queue(&new, QUEUE, 9)).await, [job.id]);
}

/// An owner whose answer was lost asks what it holds: its own jobs, in pages, and no others.
pub async fn an_owner_learns_what_it_holds<J: Store>(journal: J) {
    let (ann, bob) = (register(&journal, "ann").await, register(&journal, "bob").await);
    for n in [5, 1, 4, 2] {
        held(&journal, n, jobs::spec(QUEUE), &ann).await;
    }
    held(&journal, 3, jobs::spec("other"), &bob).await;
    submit(&journal, 6, jobs::spec(QUEUE)).await;
    let (mut ended, fence) = held(&journal, 7, jobs::spec("third"), &ann).await;
    live_out(&journal, &mut ended, &fence).await;
    let all = [1, 2, 4, 5].map(id);
    for size in [1, 3, 4, 9] {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = journal.held(ann.incarnation, after, size).await.expect("it can be read");
            assert!(page.len() <= size as usize);
            let Some(last) = page.last() else { break };
            after = Some(*last);
            pages.extend(page);
        }
        assert_eq!(pages, all);
    }
    assert_eq!(journal.held(bob.incarnation, None, 9).await, Ok(vec![id(3)]));
    let elsewhere = Incarnation { instance: ann.incarnation.instance.wrapping_add(1), ..ann.incarnation };
    assert_eq!(journal.held(elsewhere, None, 9).await, Ok(vec![]));
    // A later incarnation holds nothing until it has taken over.
    let later = register(&journal, "ann").await;
    assert_eq!(journal.held(later.incarnation, None, 9).await, Ok(vec![]));
    assert_eq!(ids(&journal, from_gone(&later, 9)).await.len(), 4);
    assert_eq!(journal.held(later.incarnation, None, 9).await, Ok(all.to_vec()));
    assert_eq!(journal.held(ann.incarnation, None, 9).await, Ok(vec![]));
}

/// A claim that comes with an append sees what that stored, and each has its own answer.
pub async fn an_append_and_a_claim_in_one_call_are_two<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (append, job) = jobs::submit(1, jobs::spec(QUEUE), NOW);
    let claim = from_queue(&ann, QUEUE, 9);
    let (stored, taken) = journal.append_and_claim(append.clone(), claim.clone()).await;
    assert_eq!(stored, Ok(Seq(1)));
    assert_eq!(taken.map(|taken| taken.iter().map(|claimed| claimed.job).collect()), Ok(vec![job.id]));
    // A repeated append is a success; there is nothing left to take.
    assert_eq!(journal.append_and_claim(append, claim.clone()).await, (Ok(Seq(1)), Ok(vec![])));
    // A refused append does not keep the claim from taking others.
    submit(&journal, 2, jobs::spec(QUEUE)).await;
    let (again, _) = jobs::submit(1, jobs::spec("other"), NOW);
    let (refused, taken) = journal.append_and_claim(again, claim.clone()).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert_eq!(taken.map(|taken| taken.len()), Ok(1));
    // A refused claim does not keep the append from being stored.
    end(&journal, &ann).await;
    let (append, job) = jobs::submit(3, jobs::spec(QUEUE), NOW);
    let answers = journal.append_and_claim(append, claim).await;
    assert_eq!(answers, (Ok(Seq(1)), Err(lapsed(&ann))));
    holds(&journal, &job).await;
}
