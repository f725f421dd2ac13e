//! `renew`: lives of owners, their leases, and the news they bring.

use std::collections::BTreeSet;

use lastword_core::decide::claim::Claimant;
use lastword_core::{HostId, Incarnation, JobId, OwnerId};
use lastword_store::{Renewed, Store};

use super::stage::{
    LONG_MS, QUEUE, as_life, at_once, from_gone, from_queue, held, ids, lapse, lapsed, live_out, register,
    renew, running, submit, take, write,
};
use crate::jobs;

/// Returns the news of a live owner, sorted: their order is not promised.
async fn news<J: Store>(journal: &J, who: &Claimant) -> Vec<JobId> {
    let Renewed { incarnation, mut news, settling: _ } =
        renew(journal, who, LONG_MS).await.expect("a live owner may renew");
    assert_eq!(incarnation, who.incarnation, "a renewal is no new life");
    news.sort();
    news
}

/// A renewal tells the holder which of its jobs to read, whichever client made the request and wherever.
pub async fn c02_the_holder_learns_of_a_request_by_renewing<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut first, _) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    let (_quiet, _) = running(&journal, 2, jobs::spec(QUEUE), &ann).await;
    let (mut third, _) = held(&journal, 3, jobs::spec(QUEUE), &ann).await;
    assert_eq!(news(&journal, &ann).await, [], "what it wrote itself is no news");
    write(&journal, &mut first, None, vec![jobs::cancel_requested()]).await;
    assert_eq!(news(&journal, &ann).await, [first.id]);
    write(&journal, &mut third, None, vec![jobs::limit_changed(1)]).await;
    assert_eq!(news(&journal, &ann).await, [first.id, third.id]);
}

/// Hearing of a request is not reading it: news stay until the holder has written at their version.
pub async fn c02_news_last_until_the_holder_writes<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut job, None, vec![jobs::limit_changed(1)]).await;
    write(&journal, &mut job, None, vec![jobs::limit_changed(2)]).await;
    for _ in 0..3 {
        assert_eq!(news(&journal, &ann).await, [job.id]);
    }
    lapse(&journal, &ann).await;
    assert_eq!(news(&journal, &ann).await, [job.id], "also over the end of a lease");
    write(&journal, &mut job, Some(&fence), vec![jobs::spent(1)]).await;
    assert_eq!(news(&journal, &ann).await, []);
    let request = write(&journal, &mut job, None, vec![jobs::cancel_requested()]).await;
    assert_eq!(news(&journal, &ann).await, [job.id]);
    let end = jobs::completed(&job);
    write(&journal, &mut job, Some(&fence), end).await;
    assert_eq!(news(&journal, &ann).await, []);
    journal.append(request).await.expect("a repeat is a success");
    let late = vec![jobs::late_reported(&job)];
    write(&journal, &mut job, None, late).await;
    assert_eq!(news(&journal, &ann).await, [], "an ended job has no news");
}

/// An owner gets no news of jobs it does not hold; a new owner has read the log with its claim.
pub async fn news_are_for_the_holder_alone<J: Store>(journal: J) {
    let old = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let mut queued = submit(&journal, 1, jobs::spec("waiting")).await;
    write(&journal, &mut queued, None, vec![jobs::limit_changed(1)]).await;
    let (mut job, _) = running(&journal, 2, jobs::spec(QUEUE), &old).await;
    write(&journal, &mut job, None, vec![jobs::cancel_requested()]).await;
    assert_eq!(news(&journal, &bob).await, []);
    assert_eq!(ids(&journal, from_queue(&bob, "waiting", 1)).await, [queued.id]);
    assert_eq!(news(&journal, &bob).await, [], "what was written before its claim is no news");

    let new = register(&journal, "ann").await;
    assert_eq!(news(&journal, &new).await, [], "a new life holds nothing yet");
    let (mut job, fence) = take(&journal, from_gone(&new, 9)).await;
    assert_eq!(news(&journal, &new).await, [], "it was given the whole log");
    write(&journal, &mut job, None, vec![jobs::limit_changed(3)]).await;
    assert_eq!(news(&journal, &new).await, [job.id]);
    let end = jobs::completed(&job);
    write(&journal, &mut job, Some(&fence), end).await;
    assert_eq!(news(&journal, &new).await, []);
}

/// A later registration replaces the life before it, which can never come back.
pub async fn c34_a_replaced_life_cannot_renew<J: Store>(journal: J) {
    let old = register(&journal, "ann").await;
    let new = register(&journal, "ann").await;
    assert_ne!(old.incarnation, new.incarnation);
    for lease_ms in [LONG_MS, 0] {
        assert_eq!(renew(&journal, &old, lease_ms).await, Err(lapsed(&old)));
    }
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, from_queue(&new, QUEUE, 9)).await.len(), 1, "the new life's lease is untouched");
}

/// Neither an unknown name nor the life of another owner or another database renews anything.
pub async fn c34_a_stranger_cannot_renew<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let eve = Claimant { owner: OwnerId("eve".into()), host: HostId("here".into()), ..ann.clone() };
    assert_eq!(renew(&journal, &eve, LONG_MS).await, Err(lapsed(&eve)));
    let Incarnation { instance, number } = ann.incarnation;
    let elsewhere = Incarnation { instance: instance.wrapping_add(1), number };
    for incarnation in [bob.incarnation, elsewhere] {
        assert_eq!(renew(&journal, &as_life(&ann, incarnation), 0).await, Err(lapsed(&ann)));
    }
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await.len(), 1, "its lease is untouched");
}

/// No life is ever given twice, to one owner or to two, and all are of this database.
pub async fn every_life_is_a_new_one<J: Store>(journal: J) {
    let mut lives = Vec::new();
    for owner in ["ann", "bob", "ann", "ann", "cid", "bob"] {
        lives.push(register(&journal, owner).await.incarnation);
    }
    assert_eq!(lives.iter().collect::<BTreeSet<_>>().len(), lives.len());
    assert!(lives.iter().all(|life| life.instance == lives[0].instance));
}

/// Registrations that meet, of one owner and of many, are each a life of their own; of one owner one survives.
pub async fn lives_registered_at_once_are_all_different<J: Store>(journal: J) {
    let lives = at_once(16, |n| {
        let journal = journal.clone();
        async move { register(&journal, &format!("owner-{}", n % 4)).await }
    })
    .await;
    let distinct: BTreeSet<_> = lives.iter().map(|life| life.incarnation).collect();
    assert_eq!(distinct.len(), lives.len());
    let mut alive = Vec::new();
    for life in &lives {
        if renew(&journal, life, LONG_MS).await.is_ok() {
            alive.push(life.owner.clone());
        }
    }
    alive.sort();
    let names: Vec<_> = (0..4).map(|n| OwnerId(format!("owner-{n}").into())).collect();
    assert_eq!(alive, names);
}

/// A lease of zero ends at once; unless it was replaced, the same life may have another, with its jobs.
pub async fn a_lease_that_ran_out_can_be_renewed<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    lapse(&journal, &ann).await;
    submit(&journal, 2, jobs::spec(QUEUE)).await;
    assert_eq!(journal.claim(from_queue(&ann, QUEUE, 9)).await, Err(lapsed(&ann)));
    assert_eq!(news(&journal, &ann).await, []);
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await.len(), 1);
    live_out(&journal, &mut job, &fence).await;
}
