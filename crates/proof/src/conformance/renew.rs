//! `renew`: lives of owners, their leases, and the news they bring.

use std::collections::BTreeSet;
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::{Life, Place};
use lastword_core::{HostId, Incarnation, JobId, OwnerId};
use lastword_store::{Renewed, Store};

use super::stage::{
    BOOT, LEASE_MS, QUEUE, as_life, at_once, begin, end, from_gone, from_queue, held, ids, lapsed, live_out,
    register, register_at, renew, running, submit, take, taken, write,
};
use crate::jobs;

/// Returns the news of a live owner, sorted: their order is not promised.
async fn news<J: Store>(journal: &J, who: &Claimant) -> Vec<JobId> {
    let Renewed { incarnation, mut news, .. } = renew(journal, who).await.expect("a live owner may renew");
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
    assert_eq!(renew(&journal, &old).await, Err(lapsed(&old)));
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(journal.claim(from_queue(&old, QUEUE, 9)).await, Err(lapsed(&old)));
    assert_eq!(ids(&journal, from_queue(&new, QUEUE, 9)).await.len(), 1, "the new life is untouched");
}

/// Neither an unknown name nor the life of another owner or another database renews anything.
pub async fn c34_a_stranger_cannot_renew<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let eve = Claimant { owner: OwnerId("eve".into()), host: HostId("here".into()), ..ann.clone() };
    assert_eq!(renew(&journal, &eve).await, Err(lapsed(&eve)));
    let Incarnation { instance, number } = ann.incarnation;
    let elsewhere = Incarnation { instance: instance.wrapping_add(1), number };
    for incarnation in [bob.incarnation, elsewhere] {
        assert_eq!(renew(&journal, &as_life(&ann, incarnation)).await, Err(lapsed(&ann)));
    }
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    assert_eq!(ids(&journal, from_queue(&ann, QUEUE, 9)).await.len(), 1, "its life is untouched");
}

/// A read of beats says the same as reads of the instance and of the lives.
pub async fn beats_are_the_instance_and_its_lives<J: Store>(journal: J) {
    let (ann, bob) = (register(&journal, "ann").await, register(&journal, "bob").await);
    renew(&journal, &bob).await.expect("a live owner may renew");
    for within in [Duration::ZERO, Duration::from_millis(5)] {
        let beats = journal.beats(within).await.expect("beats can be read");
        assert_eq!(Ok(beats.instance), journal.instance().await);
        assert_eq!(Ok(&beats.lives), journal.lives().await.as_ref());
        let seen: Vec<_> = beats.lives.iter().map(|life| (life.incarnation, life.beat)).collect();
        assert_eq!(seen, [(ann.incarnation, 0), (bob.incarnation, 1)]);
    }
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

/// A journal may write renewals that meet together. Each is answered for itself.
pub async fn renewals_at_once_are_answered_one_by_one<J: Store>(journal: J) {
    let (ann, bob) = (register(&journal, "ann").await, register(&journal, "bob").await);
    let (old, ended) = (register(&journal, "cid").await, register(&journal, "dan").await);
    let new = register(&journal, "cid").await;
    end(&journal, &ended).await;
    let thief = as_life(&bob, ann.incarnation);
    let (mut job, _) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    write(&journal, &mut job, None, vec![jobs::limit_changed(1)]).await;
    let answers = tokio::join!(
        renew(&journal, &bob),
        renew(&journal, &old),
        renew(&journal, &thief),
        renew(&journal, &ann),
        renew(&journal, &ended),
        renew(&journal, &new),
        renew(&journal, &ann),
    );
    let renewed = |who: &Claimant, news: &[JobId]| {
        let incarnation = who.incarnation;
        Ok(Renewed { incarnation, beat: 1, news: news.to_vec(), settling: false })
    };
    assert_eq!(answers.0, renewed(&bob, &[]));
    assert_eq!(answers.1, Err(lapsed(&old)));
    assert_eq!(answers.2, Err(lapsed(&bob)));
    assert_eq!(answers.4, Err(lapsed(&ended)));
    assert_eq!(answers.5, renewed(&new, &[]));
    // Sent twice, as after a lost answer: one beat or two.
    for twice in [answers.3, answers.6] {
        let beat = twice.as_ref().map_or(0, |renewed| renewed.beat);
        assert!((1..=2).contains(&beat), "{twice:?}");
        assert_eq!(twice.map(|twice| Renewed { beat: 1, ..twice }), renewed(&ann, &[job.id]));
    }
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
        if renew(&journal, life).await.is_ok() {
            alive.push(life.owner.clone());
        }
    }
    alive.sort();
    let names: Vec<_> = (0..4).map(|n| OwnerId(format!("owner-{n}").into())).collect();
    assert_eq!(alive, names);
}

/// Every renewal is a beat, which others see.
pub async fn a_renewal_is_a_beat<J: Store>(journal: J) {
    assert_eq!(journal.lives().await, Ok(Vec::new()));
    let ann = register_at(&journal, "ann", "here").await;
    let bob = register_at(&journal, "bob", "there").await;
    for beat in 1..4 {
        assert_eq!(renew(&journal, &ann).await.map(|renewed| renewed.beat), Ok(beat));
    }
    let life = |who: &Claimant, beat| Life {
        owner: who.owner.clone(),
        incarnation: who.incarnation,
        place: Place { host: who.host.clone(), boot: BOOT.into() },
        beat,
        lease_ms: LEASE_MS,
    };
    assert_eq!(journal.lives().await, Ok(vec![life(&ann, 3), life(&bob, 0)]));
}

/// A process that saw a beat stand still ends nothing if there was another one meanwhile.
pub async fn c102_a_life_is_ended_only_at_the_beat_that_was_seen<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let bob = register(&journal, "bob").await;
    let (job, _) = running(&journal, 1, jobs::spec(QUEUE), &ann).await;
    renew(&journal, &ann).await.expect("it is not over");
    for beat in [0, 2, u64::MAX] {
        assert_eq!(journal.end_life(ann.incarnation, beat).await, Ok(false));
    }
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, []);
    assert_eq!(journal.end_life(ann.incarnation, 1).await, Ok(true));
    assert_eq!(journal.end_life(ann.incarnation, 1).await, Ok(false), "it is over already");
    assert_eq!(ids(&journal, from_gone(&bob, 9)).await, [job.id]);
}

/// A life that was ended stays over: what was taken over is safe from a launch that it had decided before.
pub async fn c38_a_life_that_was_ended_cannot_renew<J: Store>(journal: J) {
    let ann = register(&journal, "ann").await;
    let (mut job, fence) = held(&journal, 1, jobs::spec(QUEUE), &ann).await;
    end(&journal, &ann).await;
    assert_eq!(renew(&journal, &ann).await, Err(lapsed(&ann)));
    submit(&journal, 2, jobs::spec(QUEUE)).await;
    assert_eq!(journal.claim(from_queue(&ann, QUEUE, 9)).await, Err(lapsed(&ann)));
    // Nothing was taken over yet, so its writes still count.
    live_out(&journal, &mut job, &fence).await;
    let next = register(&journal, "ann").await;
    assert_eq!(ids(&journal, from_queue(&next, QUEUE, 9)).await.len(), 1);
}

/// A renewal and an end that meet: one of them counts.
pub async fn c102_a_renewal_and_an_end_at_once_are_not_both_a_success<J: Store>(journal: J) {
    for round in 0..20 {
        let ann = register(&journal, "ann").await;
        let answers = at_once(2, |n| {
            let (journal, ann) = (journal.clone(), ann.clone());
            async move {
                match n {
                    0 => renew(&journal, &ann).await.is_ok(),
                    _ => journal.end_life(ann.incarnation, 0).await.expect("anyone may try"),
                }
            }
        })
        .await;
        assert_eq!(answers.iter().filter(|success| **success).count(), 1, "round {round}");
    }
}

/// Another boot of a host may be that of its clone. Where hosts share a journal, a name has one place until its life there is over; the
/// only host of a journal knows that its trees did not outlive a boot.
pub async fn c102_a_name_has_one_place<J: Store>(journal: J) {
    let place = |host: &str, boot: &str| Place { host: HostId(host.into()), boot: boot.into() };
    let old = register(&journal, "ann").await;
    let intends = Claimant { boot: Some(BOOT.into()), ..old.clone() };
    submit(&journal, 1, jobs::spec(QUEUE)).await;
    let (job, _) = take(&journal, from_queue(&intends, QUEUE, 1)).await;
    let again = begin(&journal, "ann", place("here", "boot-2")).await;
    let new = match journal.is_shared() {
        true => {
            assert_eq!(again, Err(taken(&old)));
            assert_eq!(begin(&journal, "ann", place("there", BOOT)).await, Err(taken(&old)));
            let clone = begin(&journal, "bob", place("here", "boot-2")).await.expect("another name");
            let clone = Claimant { boot: Some("boot-2".into()), ..clone };
            assert_eq!(ids(&journal, from_gone(&clone, 9)).await, [], "it is alive in the other boot");
            renew(&journal, &old).await.expect("its life goes on");
            end(&journal, &old).await;
            begin(&journal, "ann", place("here", "boot-2")).await.expect("the name is free")
        }
        false => again.expect("no other host uses it"),
    };
    assert_eq!(renew(&journal, &old).await, Err(lapsed(&old)));
    let new = Claimant { boot: Some("boot-2".into()), ..new };
    assert_eq!(ids(&journal, from_gone(&new, 9)).await, [job.id]);
}
