//! `append` under a fence: only the life that holds the job, at this claim, in this database.

use lastword_core::spec::Spec;
use lastword_core::{Append, Epoch, Fence, Incarnation, Job, OwnerId};
use lastword_store::{Source, Store};

use super::stage::{
    QUEUE, conflict, end, fenced, from_gone, from_queue, from_slots, held, held_of, holds, live_out, refused,
    register, renew, running, submit, take, write,
};
use crate::jobs;

/// Checks that nothing can be written under `fence`: no progress and no end.
async fn shut_out<J: Store>(journal: &J, job: &Job, fence: &Fence) {
    for facts in [vec![jobs::spent(1)], jobs::completed(job)] {
        let (append, _) = jobs::append(job, Some(fence), facts);
        refused(journal, append, fenced(job)).await;
    }
    holds(journal, job).await;
}

/// The right life number and claim do not help under another name.
pub async fn c34_a_write_by_another_owner_is_refused<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let (job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let forged = Fence { owner: OwnerId("bob".into()), ..fence.clone() };
    shut_out(&journal, &job, &forged).await;
    let own = Fence { owner: bob.owner, incarnation: bob.incarnation, epoch: fence.epoch };
    shut_out(&journal, &job, &own).await;
}

/// Before a claim and after a release, no owner may write, not even the last holder.
pub async fn c34_a_write_to_a_job_nobody_holds_is_refused<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let queued = submit(&journal, 1, jobs::spec("other")).await;
    let fence = Fence { owner: ann.owner.clone(), incarnation: ann.incarnation, epoch: Epoch(0) };
    let (append, _) = jobs::append(&queued, Some(&fence), vec![jobs::spent(1)]);
    refused(&journal, append, fenced(&queued)).await;

    let (mut job, fence) = held(&journal, 2, jobs::spec(QUEUE), &ann).await;
    let release = vec![jobs::released(&job)];
    write(&journal, &mut job, Some(&fence), release).await;
    let (append, _) = jobs::append(&job, Some(&fence), vec![jobs::spent(1)]);
    refused(&journal, append, fenced(&job)).await;
    holds(&journal, &job).await;
}

/// The same life may have claimed the job twice; only the present claim counts.
pub async fn c35_a_write_of_an_earlier_claim_is_refused<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, first) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let release = vec![jobs::released(&job)];
    write(&journal, &mut job, Some(&first), release).await;
    let (mut job, second) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    assert_eq!((first.epoch, second.epoch), (Epoch(1), Epoch(2)));
    let launch = vec![jobs::launch_intended(&job)];
    write(&journal, &mut job, Some(&second), launch).await;
    shut_out(&journal, &job, &first).await;
    shut_out(&journal, &job, &Fence { epoch: Epoch(3), ..second }).await;
}

/// A daemon that was started again is another life, and the old one is shut out once its job was taken.
pub async fn c35_a_write_of_an_earlier_life_is_refused<J: Store>(journal: J) {
    let old = register(&journal, "ann").await;
    let (_, old_fence) = running(&journal, 1, jobs::spec(QUEUE), &old).await;
    let new = register(&journal, "ann").await;
    let (job, new_fence) = take(&journal, from_gone(&new, 1)).await;
    shut_out(&journal, &job, &old_fence).await;
    shut_out(&journal, &job, &Fence { incarnation: old.incarnation, ..new_fence.clone() }).await;
    let number = new.incarnation.number + 1;
    let future = Incarnation { number, ..new.incarnation };
    shut_out(&journal, &job, &Fence { incarnation: future, ..new_fence }).await;
}

/// While the successor works, its predecessor tries everything an unwinding owner would, at any version it knew.
pub async fn c35_an_unwinding_owner_harms_nothing_of_its_successor<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (known, old) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    let (mut job, fence) = take(&journal, from_gone(&bob, 1)).await;
    shut_out(&journal, &job, &old).await;
    write(&journal, &mut job, Some(&fence), vec![jobs::spent(5)]).await;
    shut_out(&journal, &job, &old).await;
    // The old owner may not even know that another one took over.
    let (stale, _) = jobs::append(&known, Some(&old), vec![jobs::spent(7)]);
    refused(&journal, stale, fenced(&job)).await;
    // A new life of it does not get its jobs back.
    register(&journal, "ann").await;
    shut_out(&journal, &job, &old).await;
    assert!(renew(&journal, &bob).await.is_ok(), "the successor lives on");

    let end = jobs::completed(&job);
    write(&journal, &mut job, Some(&fence), end).await;
    holds(&journal, &job).await;
}

/// A last word that did not go in leaves the holder, its slot and its conversation where they were.
pub async fn c42_a_refused_last_word_releases_nothing<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let mut spec = jobs::agent(QUEUE);
    spec.resume = Some(jobs::conversation("thread"));
    let (before, fence) = running(&journal, 1, spec.clone(), &ann).await;
    let mut job = before.clone();
    write(&journal, &mut job, None, vec![jobs::cancel_requested()]).await;

    let (late, _) = jobs::append(&before, Some(&fence), jobs::completed(&before));
    refused(&journal, late, conflict(&job, job.version.0)).await;
    holds(&journal, &job).await;

    submit(&journal, 2, jobs::spec(QUEUE)).await;
    let mut claim = from_slots(&ann, QUEUE, 9, Some(1));
    assert_eq!(journal.claim(claim.clone()).await, Ok(vec![]), "its slot is still taken");
    submit(&journal, 3, Spec { group: "talk".to_owned(), ..spec }).await;
    claim.from = Source::Ready { group: "talk".to_owned(), slots: None };
    assert_eq!(journal.claim(claim).await, Ok(vec![]), "its conversation is still driven");
}

/// A restored or cloned database gives no old incarnation a second use.
pub async fn a_write_under_another_instance_is_refused<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let instance = fence.incarnation.instance.wrapping_add(1);
    let elsewhere = Incarnation { instance, ..fence.incarnation };
    shut_out(&journal, &job, &Fence { incarnation: elsewhere, ..fence }).await;
}

/// After a failover that lost the last writes, two lives have one number: what the one repeats is not what the other wrote.
pub async fn a_repeat_under_another_instance_is_refused<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let stored = write(&journal, &mut job, Some(&fence), vec![jobs::spent(1)]).await;
    let instance = fence.incarnation.instance.wrapping_add(1);
    let incarnation = Incarnation { instance, ..fence.incarnation };
    let elsewhere = Append { fence: Some(Fence { incarnation, ..fence.clone() }), ..stored.clone() };
    refused(&journal, elsewhere, fenced(&job)).await;
    assert_eq!(journal.append(stored).await, Ok(job.version));
    holds(&journal, &job).await;
}

/// What a request was decided on may be lost, and as many events stored in its place.
pub async fn a_request_that_was_read_in_another_instance_conflicts<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, _) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let here = journal.instance().await.expect("it is there").number;
    let (request, after) = jobs::append(&job, None, vec![jobs::cancel_requested()]);
    let read_in = |instance| Append { read_in: Some(instance), ..request.clone() };
    refused(&journal, read_in(here ^ 1), conflict(&job, job.version.0)).await;
    holds(&journal, &job).await;
    assert_eq!(journal.append(read_in(here)).await, Ok(after.version));
    job = after;
    assert_eq!(
        journal.append(read_in(here ^ 1)).await,
        Ok(job.version),
        "it is stored, wherever it was read"
    );
    holds(&journal, &job).await;
    let (submission, submitted) = jobs::submit(2, jobs::spec(QUEUE), jobs::NOW);
    let submission = Append { read_in: Some(here ^ 1), ..submission };
    assert_eq!(journal.append(submission).await, Ok(submitted.version), "nothing was read of a new job");
}

/// Expiry only permits a takeover: until one happens, the receipt of a late owner still counts.
pub async fn a_late_owner_that_was_not_replaced_can_write<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    end(&journal, &ann).await;
    live_out(&journal, &mut job, &fence).await;
    holds(&journal, &job).await;

    // A later life of the same owner that has not yet taken the job does not shut the earlier one out either.
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 2, jobs::spec(QUEUE), &ann).await;
    register(&journal, "ann").await;
    live_out(&journal, &mut job, &fence).await;
    holds(&journal, &job).await;
}

/// Any client may write a request, whichever owner holds the job, dead or alive; it changes neither holder nor lease.
pub async fn anyone_may_request_without_a_fence<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut job, None, vec![jobs::limit_changed(1)]).await;
    end(&journal, &ann).await;
    write(&journal, &mut job, None, vec![jobs::cancel_requested()]).await;
    holds(&journal, &job).await;
    let (row, _) = held_of(&journal, job.id).await;
    assert_eq!(row.expect("the job is there").holder, Some(fence));
}
