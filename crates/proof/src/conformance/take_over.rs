//! `claim` of jobs whose holder is gone: only when it is, and then for good.

use lastword_core::decide::claim::Claimant;
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::{AttemptNo, Epoch, Fact, Fence, JobId};
use lastword_store::{Claim, Source, Store};

use super::stage::{
    QUEUE, at_once, conflict, end, fenced, from_gone, from_queue, held, held_of, holds, ids, refused,
    register, register_at, renew, running, submit, take, write,
};
use crate::jobs;

/// A cancel that was stored while the owner was dying is in the log that the next owner is given.
pub async fn c06_a_request_survives_a_takeover<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, _) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut job, None, vec![jobs::cancel_requested()]).await;
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    let taken = journal.claim(from_gone(&bob, 9)).await.expect("a live owner may claim");
    assert_eq!(taken.len(), 1);
    assert!(taken[0].events.iter().any(|event| matches!(event.fact, Fact::CancelRequested(_))));
    let (_, events) = held_of(&journal, job.id).await;
    assert_eq!(taken[0].events, events);
}

/// A canceller that looked just before a claim is told so, by an error, and its second try is stored.
pub async fn c06_a_request_at_a_version_before_the_claim_is_not_lost<J: Store>(journal: J) {
    let queued = submit(&journal, 1, jobs::spec(QUEUE)).await;
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = take(&journal, from_queue(&ann, QUEUE, 1)).await;
    let (cancel, _) = jobs::append(&queued, None, vec![jobs::cancelled_before_start()]);
    refused(&journal, cancel, conflict(&job, 2)).await;

    let launch = vec![jobs::launch_intended(&job)];
    write(&journal, &mut job, Some(&fence), launch).await;
    write(&journal, &mut job, None, vec![jobs::cancel_requested()]).await;
    let news = renew(&journal, &ann).await.expect("a live owner may renew").news;
    assert_eq!(news, [job.id]);
}

/// Eight owners reach for one orphan, again and again; each time one gets it, with the next epoch.
pub async fn c33_of_many_reconcilers_exactly_one_takes_over<J: Store>(journal: J) {
    let ann = register(&journal, "owner-0").await;
    let (job, _) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let mut holder = ann;
    for round in 1..6 {
        end(&journal, &holder).await;
        let answers = at_once(8, |n| {
            let journal = journal.clone();
            async move {
                let me = register(&journal, &format!("owner-{round}-{n}")).await;
                let taken = journal.claim(from_gone(&me, 9)).await.expect("a live owner may claim");
                (me, taken)
            }
        })
        .await;
        let mut won = answers.into_iter().filter(|(_, taken)| !taken.is_empty());
        let (winner, taken) = won.next().expect("somebody gets it");
        assert!(won.next().is_none(), "two owners took one job over");
        assert_eq!((taken[0].job, taken[0].fence.epoch), (job.id, Epoch(1 + round)));
        holder = winner;
    }
}

/// A lease that runs protects every job under it, however often others ask.
pub async fn c34_a_job_of_a_live_owner_is_not_taken_over<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let (claimed, _) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let (started, _) = running(&journal, 2, jobs::spec(QUEUE), &ann).await;
    for who in [&bob, &ann] {
        assert_eq!(ids(&journal, from_gone(who, 9)).await, []);
    }
    renew(&journal, &ann).await.expect("it is not over");
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, []);
    assert_eq!(ids(&journal, from_queue(&bob, QUEUE, 9)).await, [], "a held job waits in no queue");
    holds(&journal, &claimed).await;
    holds(&journal, &started).await;
}

/// The takeover has the next epoch and from then on the writes of the old owner are refused.
pub async fn c35_a_takeover_fences_the_old_owner<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (_, old) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    let (mut job, new) = take(&journal, from_gone(&bob, 9)).await;
    let expected = Fence { owner: bob.owner.clone(), incarnation: bob.incarnation, epoch: Epoch(2) };
    assert_eq!((&new, old.epoch), (&expected, Epoch(1)));
    holds(&journal, &job).await;
    let (late, _) = jobs::append(&job, Some(&old), vec![jobs::spent(1)]);
    refused(&journal, late, fenced(&job)).await;
    write(&journal, &mut job, Some(&new), vec![jobs::spent(2)]).await;
    holds(&journal, &job).await;
}

/// A daemon that starts again need not wait for the lease of its former life.
pub async fn a_replaced_life_is_taken_over_at_once<J: Store>(journal: J) {
    let old = register(&journal, "ann").await;
    let (first, _) = running(&journal, 1, jobs::spec(QUEUE), &old).await;
    let (second, _) = held(&journal, 2, jobs::spec(QUEUE), &old).await;
    let new = register(&journal, "ann").await;
    let mut taken = ids(&journal, from_gone(&new, 9)).await;
    taken.sort();
    assert_eq!(taken, [first.id, second.id]);
    assert_eq!(ids(&journal, from_gone(&new, 9)).await, []);
}

/// Its trees are another matter: they are proven dead on another host by time alone.
pub async fn a_replaced_life_keeps_its_trees_from_other_hosts<J: Store>(journal: J) {
    let old = register(&journal, "ann").await;
    let (started, _) = running(&journal, 1, jobs::spec(QUEUE), &old).await;
    let (waiting, _) = held(&journal, 2, jobs::spec(QUEUE), &old).await;
    let new = register(&journal, "ann").await;
    let bob = register_at(&journal, "bob", "there").await;
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, [waiting.id], "nothing of it was started");
    end(&journal, &new).await;
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, [], "that is the end of another life");
    end(&journal, &old).await;
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, [started.id], "now it is over");
}

/// What is alive is taken over by a later life at its place, and nothing else: not another attempt, not from elsewhere, not from a life that
/// goes on.
pub async fn a_tree_that_is_alive_is_taken_over_where_it_is<J: Store>(journal: J) {
    let old = register(&journal, "ann").await;
    let (started, _) = running(&journal, 1, jobs::spec(QUEUE), &old).await;
    let (other, _) = running(&journal, 2, jobs::spec(QUEUE), &old).await;
    let alive = |who: &Claimant, trees: &[(JobId, u32)]| {
        let trees = trees.iter().map(|(job, attempt)| (*job, AttemptNo(*attempt))).collect();
        Claim { from: Source::Alive { trees }, ..from_gone(who, 9) }
    };
    assert_eq!(ids(&journal, alive(&old, &[(started.id, 1)])).await, [], "it is its own");
    let new = register(&journal, "ann").await;
    let far = register_at(&journal, "bob", "there").await;
    assert_eq!(ids(&journal, alive(&far, &[(started.id, 1)])).await, []);
    assert_eq!(ids(&journal, alive(&new, &[(started.id, 2), (jobs::id(9), 1)])).await, []);
    assert_eq!(ids(&journal, alive(&new, &[(started.id, 1)])).await, [started.id]);
    end(&journal, &old).await;
    assert_eq!(ids(&journal, alive(&far, &[(other.id, 1)])).await, [], "it is not there");
    assert_eq!(ids(&journal, alive(&new, &[(started.id, 1), (other.id, 1)])).await, [other.id]);
}

/// Orphans of all queues are taken, at most as many as asked for, and their slots stay theirs.
pub async fn a_takeover_asks_for_no_queue_and_no_slot<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    for n in 0..5 {
        held(&journal, n, jobs::spec(&format!("queue-{}", n % 2)), &ann).await;
    }
    end(&journal, &ann).await;
    let bob = register(&journal, "bob").await;
    let mut taken = ids(&journal, from_gone(&bob, 0)).await;
    assert_eq!(taken, []);
    for (at_most, expected) in [(2, 2), (2, 2), (2, 1), (2, 0)] {
        let more = ids(&journal, from_gone(&bob, at_most)).await;
        assert_eq!(more.len(), expected);
        taken.extend(more);
    }
    taken.sort();
    assert_eq!(taken, (0..5).map(jobs::id).collect::<Vec<_>>());
}

/// `on_partition = keep`: while a tree may live on its host, no other host takes the job.
pub async fn a_kept_job_stays_on_its_host<J: Store>(journal: J) {
    let ann = register_at(&journal, "ann", "here").await;
    let kept = Spec { on_partition: OnPartition::Keep, ..jobs::spec(QUEUE) };
    let (started, _) = running(&journal, 1, kept.clone(), &ann).await;
    let (claimed, _) = held(&journal, 2, kept, &ann).await;
    end(&journal, &ann).await;
    let far = register_at(&journal, "far", "there").await;
    assert_eq!(ids(&journal, from_gone(&far, 9)).await, [claimed.id], "nothing of it was ever started");
    holds(&journal, &started).await;
    let near = register_at(&journal, "near", "here").await;
    assert_eq!(ids(&journal, from_gone(&near, 9)).await, [started.id]);
}

/// Once a person has given up on the host, any other may take the job.
pub async fn an_abandoned_job_is_taken_from_its_host<J: Store>(journal: J) {
    let ann = register_at(&journal, "ann", "here").await;
    let kept = Spec { on_partition: OnPartition::Keep, ..jobs::spec(QUEUE) };
    let (mut job, _) = running(&journal, 1, kept, &ann).await;
    end(&journal, &ann).await;
    let far = register_at(&journal, "far", "there").await;
    assert_eq!(ids(&journal, from_gone(&far, 9)).await, []);
    write(&journal, &mut job, None, vec![jobs::abandoned()]).await;
    assert_eq!(ids(&journal, from_gone(&far, 9)).await, [job.id]);
}

/// Orphans that this owner may not take, or cannot read, do not hide the ones it can.
pub async fn what_cannot_be_taken_over_holds_nobody_up<J: Store>(journal: J) {
    let ann = register_at(&journal, "ann", "here").await;
    let kept = Spec { on_partition: OnPartition::Keep, ..jobs::spec(QUEUE) };
    for n in 0..20 {
        if n % 2 == 0 {
            running(&journal, n, kept.clone(), &ann).await;
        } else {
            let (mut foreign, fence) = running(&journal, n, jobs::spec(QUEUE), &ann).await;
            write(&journal, &mut foreign, Some(&fence), vec![jobs::unknown()]).await;
        }
    }
    let (plain, _) = running(&journal, 30, jobs::spec(QUEUE), &ann).await;
    end(&journal, &ann).await;
    let far = register_at(&journal, "far", "there").await;
    assert_eq!(ids(&journal, from_gone(&far, 1)).await, [plain.id]);
}
