//! Many requests on one connection, and what is left of them when it is lost.

use std::time::Duration;

use lastword_core::event::InputRequested;
use lastword_core::spec::{Spec, Work};
use lastword_core::{InputNo, Seq};
use lastword_store::hints::Hint;
use lastword_store::{Catalog, Error, Journal};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::proxy::{Mode, Proxy};
use super::setup::{
    SERVER, SOON, Served, append, claim_of, id, limit_changed, register, renewal, spec, submission, submit,
};
use super::stuck::Stuck;
use crate::{Identity, Link, Remote, Timing, UNDER_WAY_MAX};

#[tokio::test]
async fn answers_come_in_any_order() {
    let served = Served::start().await;
    let link = served.link(SERVER).await;
    let job = submit(&link, 1).await;
    served.store.close();
    let (append, _) = append(&job, None, vec![limit_changed(1)]);
    let stored = tokio::spawn({
        let link = link.clone();
        async move { link.append(append).await }
    });
    served.store.until_waiting(2).await;
    assert_eq!(link.load(job.id, Seq(0)).await.map(|events| events.len()), Ok(1));
    assert!(!stored.is_finished());
    served.store.open();
    assert_eq!(stored.await.unwrap(), Ok(Seq(2)));
}

/// Every place for a request is taken, and the store answers none of them.
#[tokio::test]
async fn a_renewal_waits_for_no_other_request() {
    let served = Served::start().await;
    let link = served.link(SERVER).await;
    served.store.close();
    let mut stuck = JoinSet::new();
    for n in 0..UNDER_WAY_MAX as u8 + 9 {
        let link = link.clone();
        stuck.spawn(async move { link.append(submission(n, spec()).0).await });
    }
    served.store.until_waiting(UNDER_WAY_MAX).await;
    let renewed = timeout(SOON, link.renew(renewal("ann"))).await;
    assert!(matches!(renewed, Ok(Ok(_))), "{renewed:?}");
    served.store.open();
    let answers = stuck.join_all().await;
    assert!(answers.iter().all(Result::is_ok), "the rest waited for places: {answers:?}");
}

/// Its answer is lost after it was stored. The caller is told that it cannot know, and repeats it.
#[tokio::test]
async fn an_append_repeated_after_a_lost_connection_is_the_same_append() {
    let served = Served::start().await;
    let proxy = Proxy::to(served.address).await;
    let remote = Remote { servers: vec![proxy.address.clone()], ..served.remote(SERVER) };
    let link = Link::connect(remote).await.unwrap();
    let job = submit(&link, 1).await;
    let (append, _) = append(&job, None, vec![limit_changed(1)]);
    served.store.close();
    let first = tokio::spawn({
        let (link, append) = (link.clone(), append.clone());
        async move { link.append(append).await }
    });
    served.store.until_waiting(2).await;
    // Stored by the server, while nothing comes back.
    proxy.set(Mode::Swallow);
    served.store.open();
    let stored = async {
        while served.store.load(job.id, Seq(1)).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, stored).await.expect("it is stored");
    proxy.set(Mode::Cut);
    let lost = timeout(SOON, first).await.unwrap().unwrap();
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");
    proxy.set(Mode::Pass);
    assert_eq!(link.append(append).await, Ok(Seq(2)));
    assert_eq!(link.load(job.id, Seq(0)).await.map(|events| events.len()), Ok(2));
}

/// The connection stays open and nothing comes through: that is noticed within seconds, and the next server is used.
#[tokio::test]
async fn a_black_hole_is_left_for_another_server() {
    let timing = Timing {
        beat: Duration::from_millis(100),
        silence: Duration::from_millis(1_000),
        handshake: Duration::from_millis(1_000),
        ..Timing::default()
    };
    let served = Served::with(timing, Stuck::new(1), "here").await;
    let (one, other) = (Proxy::to(served.address).await, Proxy::to(served.address).await);
    let servers = vec![one.address.clone(), other.address.clone()];
    let link = Link::connect(Remote { servers, ..served.remote(SERVER) }).await.unwrap();
    let job = submit(&link, 1).await;
    for (hole, way) in [(&one, &other), (&other, &one)] {
        way.set(Mode::Pass);
        hole.set(Mode::Swallow);
        let began = Instant::now();
        let answer = async {
            loop {
                match link.load(job.id, Seq(0)).await {
                    Err(Error::Unavailable(_)) => continue,
                    answer => return answer,
                }
            }
        };
        let events = timeout(SOON, answer).await.expect("another server answers").unwrap();
        assert_eq!(events.len(), 1);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}

/// A server that went away and came back is found again, and a call made in between waits for it.
#[tokio::test]
async fn a_call_waits_for_the_next_connection() {
    let served = Served::start().await;
    let proxy = Proxy::to(served.address).await;
    let remote = Remote { servers: vec![proxy.address.clone()], ..served.remote(SERVER) };
    let link = Link::connect(remote).await.unwrap();
    submit(&link, 1).await;
    proxy.set(Mode::Cut);
    // The first to notice may be told that its call was lost.
    let _ = link.counts().await;
    let waits = tokio::spawn({
        let link = link.clone();
        async move { link.counts().await }
    });
    proxy.set(Mode::Pass);
    let counts = timeout(SOON, waits).await.unwrap().unwrap();
    assert!(counts.is_ok_and(|counts| counts.values().sum::<u64>() == 1));
}

/// Its answer would be lost, and it may be a renewal whose time is over.
#[tokio::test]
async fn a_call_whose_caller_gave_up_is_not_sent() {
    let served = Served::start().await;
    let proxy = Proxy::to(served.address).await;
    let remote = Remote { servers: vec![proxy.address.clone()], ..served.remote(SERVER) };
    let link = Link::connect(remote).await.unwrap();
    proxy.set(Mode::Swallow);
    let mut waits = tokio::spawn({
        let link = link.clone();
        async move { link.counts().await }
    });
    // It is sent, and lost with the connection.
    timeout(Duration::from_millis(200), &mut waits).await.expect_err("nothing comes back");
    proxy.set(Mode::Cut);
    assert!(matches!(timeout(SOON, waits).await, Ok(Ok(Err(Error::Unavailable(_))))));
    // It waits for a connection, and its caller does not.
    timeout(Duration::from_millis(50), link.append(submission(1, spec()).0)).await.expect_err("it waits");
    proxy.set(Mode::Pass);
    assert_eq!(link.row(id(1)).await, Ok(None));
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_unavailable() {
    let timing = Timing { answer: Duration::from_secs(4), ..Timing::default() };
    let served = Served::with(timing, Stuck::new(1), "here").await;
    let link = served.link(SERVER).await;
    served.store.close();
    let answer = timeout(SOON, link.append(submission(1, spec()).0)).await.unwrap();
    let words = "the store did not answer within 3 s".to_owned();
    assert_eq!(answer, Err(Error::Unavailable(words)), "the server gives up before its client");
    assert_eq!(link.row(id(1)).await, Ok(None), "the connection is still there");
}

/// There every job of this client would be unknown.
#[tokio::test]
async fn a_server_of_another_journal_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let identity = || Identity::in_folder(folder.path()).unwrap();
    let timing = Timing { answer: Duration::from_millis(1_500), ..Timing::default() };
    let here = Served::of(timing, Stuck::new(1), "here", identity(), 8).await;
    let there = Served::of(timing, Stuck::new(2), "there", identity(), 8).await;
    let proxy = Proxy::to(here.address).await;
    let link = Link::connect(Remote { servers: vec![proxy.address.clone()], ..here.remote(SERVER) }).await;
    let link = link.unwrap();
    let job = submit(&link, 1).await;
    drop(link);

    // Of the two, the first to answer is its journal.
    let servers = vec![proxy.address.clone(), there.address.to_string()];
    let link = Link::connect(Remote { servers, ..here.remote(SERVER) }).await.unwrap();
    let is_here = !link.load(job.id, Seq(0)).await.unwrap().is_empty();
    if is_here {
        proxy.set(Mode::Cut);
    } else {
        drop(there);
    }
    let answer = loop {
        match timeout(SOON, link.load(job.id, Seq(0))).await.unwrap() {
            Err(Error::Unavailable(words)) if words.contains("it serves the journal") => break words,
            Err(Error::Unavailable(_)) => continue,
            other => panic!("{other:?}"),
        }
    };
    let words = if is_here {
        "the journal there, and this link is for here"
    } else {
        "the journal here, and this link is for there"
    };
    assert!(answer.contains(words), "{answer}");
}

#[tokio::test]
async fn a_commit_elsewhere_wakes_a_waiter_at_once() {
    let served = Served::start().await;
    let link = served.link(SERVER).await;
    for n in 1..5 {
        let mut hints = link.hints();
        submit(&served.store, n).await;
        assert_eq!(timeout(SOON, hints.next()).await, Ok(Some(Hint::Commit)));
    }
    let mut hints = link.hints();
    drop(link);
    // What rang before may still be there; after it comes the end.
    let ended = async { while hints.next().await.is_some() {} };
    timeout(SOON, ended).await.expect("a closed link wakes no more");
}

/// Megabytes of JSON take seconds in a build without optimization.
fn patient() -> Timing {
    let long = 3 * SOON;
    Timing { silence: long, write: long, answer: long, ..Timing::default() }
}

/// A log of more than a message can carry comes in pieces: loaded, claimed, and in the feed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_longer_than_a_message_comes_whole() {
    let served = Served::with(patient(), Stuck::new(1), "here").await;
    let link = served.link(SERVER).await;
    let mut job = submit(&link, 1).await;
    for n in 1..=12 {
        let (by, text) = ("tester".to_owned(), "\"\\".repeat(100_000));
        let long = InputRequested { by, input: InputNo(n), text, eof: false, steer: false };
        let (append, after) = append(&job, None, vec![long.into()]);
        link.append(append).await.unwrap();
        job = after;
    }
    let events = link.load(job.id, Seq(0)).await.unwrap();
    assert_eq!(events.len() as u64, job.version.0);
    let mut told = Vec::new();
    let mut place = None;
    while told.len() < events.len() {
        let page = link.read(place, 1_000).await.unwrap();
        told.extend(page.events.into_iter().map(|(_, event)| event));
        place = page.next;
    }
    assert_eq!(told, events);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_long_logs_is_whole() {
    let served = Served::with(patient(), Stuck::new(1), "here").await;
    let link = served.link(SERVER).await;
    let ann = register(&link, "ann").await;
    for n in 1..=3 {
        let argv = vec!["\"\\".repeat(500_000)];
        link.append(submission(n, Spec { work: Work::Command { argv }, ..spec() }).0).await.unwrap();
    }
    let taken = link.claim(claim_of(&ann)).await.unwrap();
    assert_eq!(taken.len(), 3);
    for one in taken {
        assert_eq!(served.store.load(one.job, Seq(0)).await, Ok(one.events));
        assert_eq!(one.fence.incarnation, ann.incarnation);
    }
}

#[tokio::test]
async fn a_request_that_fits_into_no_message_is_refused_by_the_client() {
    let served = Served::with(patient(), Stuck::new(1), "here").await;
    let link = served.link(SERVER).await;
    let argv = vec!["x".repeat(9 << 20)];
    let long = Spec { work: Work::Command { argv }, ..spec() };
    let answer = link.append(submission(1, long).0).await;
    assert!(
        matches!(&answer, Err(Error::Refused(words)) if words.contains("fit into a message")),
        "{answer:?}"
    );
    assert_eq!(link.row(id(1)).await, Ok(None));
}
