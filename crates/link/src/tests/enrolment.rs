//! How a worker gets its token, and loses it.

use std::time::Duration;

use lastword_core::OwnerId;
use lastword_core::spec::Spec;
use lastword_core::worker_labels::WorkerLabels;
use lastword_store::{Enrolments as _, Error, Invitation, Journal as _, Said, TokenHash};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::setup::{NOW, SOON, Served, claim_of, register, renewal, spec, submission};
use crate::{Identity, Link, Remote, Timing, Trust, Unwelcome, enrol, prove};

fn ann() -> OwnerId {
    OwnerId("ann".into())
}

/// Gives out the one-time token `token` for ann, who has a gpu.
async fn invite(served: &Served, token: &str) {
    let labels = WorkerLabels::from_key("gpu");
    let invitation = Invitation { token: TokenHash::of(token), name: ann(), labels, now: NOW };
    served.store.store.invite(invitation).await.unwrap();
}

async fn exchange(served: &Served, one_time: &str) -> Result<(String, String), Unwelcome> {
    let Remote { servers, trust, timing, .. } = served.remote("");
    enrol(&servers[0], &trust, one_time, &timing).await
}

/// Returns the words of a refusal.
fn words<T: std::fmt::Debug>(answer: Result<T, Unwelcome>) -> String {
    match answer {
        Err(Unwelcome::Refused(words)) => words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_one_time_token_becomes_a_worker_with_the_labels_of_its_invitation() {
    let served = Served::enrolled_only().await;
    invite(&served, "once").await;
    let (name, token) = exchange(&served, "once").await.unwrap();
    assert_eq!((name.as_str(), token.len()), ("ann", 64));
    let link = served.link(&token).await;
    let by = register(&link, "ann").await;
    let needs_gpu = Spec { on: WorkerLabels::from_key("gpu"), ..spec() };
    served.store.append(submission(1, needs_gpu).0).await.unwrap();
    assert_eq!(link.claim(claim_of(&by)).await.unwrap().len(), 1);
    let other = link.renew(renewal("bob")).await;
    assert!(matches!(other, Err(Error::Refused(_))), "{other:?}");
}

#[tokio::test]
async fn a_token_that_cannot_be_used_is_refused_with_the_reason() {
    let served = Served::enrolled_only().await;
    invite(&served, "once").await;
    let unknown = words(exchange(&served, "other").await);
    assert!(unknown.starts_with("this one-time token is not known"), "{unknown}");
    let (_, token) = exchange(&served, "once").await.unwrap();
    let used = words(exchange(&served, "once").await);
    assert!(used.starts_with("this one-time token was used already"), "{used}");
    assert!(used.contains("lastword fleet add"), "{used}");
    // Neither opens the door, and the right one does.
    let Remote { servers, trust, timing, .. } = served.remote("");
    let refused = words(prove(&servers[0], &trust, "once", &timing).await);
    assert!(refused.contains("not known"), "{refused}");
    prove(&servers[0], &trust, &token, &timing).await.unwrap();
}

#[tokio::test]
async fn of_many_that_use_a_token_at_once_one_gets_in() {
    let served = Served::enrolled_only().await;
    invite(&served, "once").await;
    let Remote { servers, trust, timing, .. } = served.remote("");
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let (server, trust) = (servers[0].clone(), trust.clone());
        tasks.spawn(async move { enrol(&server, &trust, "once", &timing).await });
    }
    let answers = tasks.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
}

/// A gate that knows its tokens by heart gives none away.
#[tokio::test]
async fn a_server_without_enrolments_enrols_nothing() {
    let served = Served::start().await;
    let refused = words(exchange(&served, "ann").await);
    assert!(refused.contains("not known"), "{refused}");
}

#[tokio::test]
async fn the_one_time_token_is_kept_from_another_server() {
    let served = Served::enrolled_only().await;
    invite(&served, "once").await;
    let Remote { servers, trust, timing, .. } = served.remote("");
    let other = Trust::Fingerprints(vec![Identity::make().unwrap().fingerprint()]);
    let answer = enrol(&servers[0], &other, "once", &timing).await;
    assert!(matches!(answer, Err(Unwelcome::Untrusted(_))), "{answer:?}");
    enrol(&servers[0], &trust, "once", &timing).await.expect("it was not used");
}

#[tokio::test]
async fn a_server_that_is_away_and_one_that_is_silent_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let trust = Trust::Fingerprints(vec![Identity::make().unwrap().fingerprint()]);
    let timing = Timing { handshake: Duration::from_millis(200), ..Timing::default() };
    let answer = enrol(&address, &trust, "once", &timing).await;
    assert!(matches!(answer, Err(Unwelcome::Untrusted(_))), "it shows no certificate: {answer:?}");
    drop(listener);
    for away in [address.as_str(), "nowhere"] {
        let answer = enrol(away, &trust, "once", &timing).await;
        assert!(matches!(answer, Err(Unwelcome::Unreachable(_))), "{answer:?}");
    }
}

/// Waits until a link that worked is of no use, and returns how long that took.
async fn until_cut_off(link: &Link) -> Duration {
    let began = Instant::now();
    let cut = async {
        while link.instance().await.is_ok() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, cut).await.expect("it is cut off");
    began.elapsed()
}

#[tokio::test]
async fn a_revoked_worker_is_cut_off_within_seconds() {
    let served = Served::enrolled_only().await;
    invite(&served, "once").await;
    let (_, token) = exchange(&served, "once").await.unwrap();
    let timing = Timing { answer: Duration::from_secs(1), ..Timing::default() };
    let link = Link::connect(Remote { timing, ..served.remote(&token) }).await.unwrap();
    assert!(link.instance().await.is_ok());
    assert_eq!(served.store.store.revoke(ann(), NOW).await, Ok(true));
    let took = until_cut_off(&link).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    let error = Link::connect(served.remote(&token)).await.err().expect("it is refused").to_string();
    assert!(error.contains("the token is not known to this server: enrol the worker again"), "{error}");
}

#[tokio::test]
async fn a_name_that_is_enrolled_again_leaves_the_earlier_worker_outside() {
    let served = Served::enrolled_only().await;
    invite(&served, "one").await;
    let (_, first) = exchange(&served, "one").await.unwrap();
    let timing = Timing { answer: Duration::from_secs(1), ..Timing::default() };
    let link = Link::connect(Remote { timing, ..served.remote(&first) }).await.unwrap();
    invite(&served, "two").await;
    assert!(link.instance().await.is_ok(), "an invitation takes nothing away");
    let (_, second) = exchange(&served, "two").await.unwrap();
    until_cut_off(&link).await;
    assert!(served.link(&second).await.instance().await.is_ok());
}

#[tokio::test]
async fn what_a_worker_says_of_itself_is_stored_and_bounded() {
    let served = Served::enrolled_only().await;
    invite(&served, "once").await;
    let (_, token) = exchange(&served, "once").await.unwrap();
    let said = Said { version: Some("9".repeat(99)), slots: Some(4), host: Some("h".repeat(99)) };
    let _link = Link::connect(Remote { said, ..served.remote(&token) }).await.unwrap();
    let stored = async {
        loop {
            let workers = served.store.store.workers().await.unwrap();
            if workers[0].said != Said::default() {
                return workers[0].said.clone();
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let stored = timeout(SOON, stored).await.expect("it is stored");
    assert_eq!(stored, Said { version: Some("9".repeat(64)), slots: Some(4), host: Some("h".repeat(64)) });
}
