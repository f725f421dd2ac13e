//! What every store of enrolments must do. A case is given a fresh, empty store and panics when a promise is broken. `tests/enrolments.rs` runs
//! each over memory and over PostgreSQL.

use std::sync::Arc;

use lastword_core::spec::Spec;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{OwnerId, Timestamp};
use lastword_store::{
    Claim, EnrolledWorker, Enrolling, Enrolments, Group, HeldJobs, INVITATION_MS, Invitation, NotEnrolled,
    Removals, Said, ServerDoor, Source, Store, TokenHash, Workload,
};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::jobs::{self, NOW};

fn owner(name: &str) -> OwnerId {
    OwnerId(name.into())
}

fn labels(key: &str) -> WorkerLabels {
    WorkerLabels::from_key(key)
}

async fn invite(store: &impl Enrolments, name: &str, token: &str, had: &str) {
    let invitation =
        Invitation { token: TokenHash::of(token), name: owner(name), labels: labels(had), now: NOW };
    store.invite(invitation).await.expect("a name is invited");
}

async fn enrol_at(
    store: &impl Enrolments,
    one_time: &str,
    token: &str,
    now: Timestamp,
) -> Result<OwnerId, NotEnrolled> {
    let enrolling = Enrolling { one_time: TokenHash::of(one_time), token: TokenHash::of(token), now };
    store.enrol(enrolling).await.expect("the store answers")
}

async fn enrol(store: &impl Enrolments, one_time: &str, token: &str) -> Result<OwnerId, NotEnrolled> {
    enrol_at(store, one_time, token, NOW.plus_ms(1)).await
}

async fn proves(store: &impl Enrolments, token: &str) -> Option<String> {
    let worker = store.worker_of(TokenHash::of(token)).await.expect("the store answers");
    worker.map(|worker| worker.name.to_string())
}

/// An invitation becomes an enrolment, once.
pub async fn a_one_time_token_is_used_once<S: Enrolments>(store: S) {
    assert_eq!(enrol(&store, "once", "mine").await, Err(NotEnrolled::Unknown));
    invite(&store, "ann", "once", "gpu linux").await;
    assert_eq!(proves(&store, "once").await, None, "an invitation is no enrolment");
    assert_eq!(enrol(&store, "once", "mine").await, Ok(owner("ann")));
    assert_eq!(enrol(&store, "once", "other").await, Err(NotEnrolled::Used));
    let ann = EnrolledWorker {
        name: owner("ann"),
        token: TokenHash::of("mine"),
        labels: labels("gpu linux"),
        enrolled_at: NOW.plus_ms(1),
        revoked_at: None,
        said: Said::default(),
    };
    assert_eq!(store.workers().await, Ok(vec![ann.clone()]));
    assert_eq!(store.worker_of(TokenHash::of("mine")).await, Ok(Some(ann)));
    assert_eq!(proves(&store, "other").await, None);
    assert_eq!(proves(&store, "once").await, None);
}

/// Of many that use one token at once one is enrolled, and only its token proves the name.
pub async fn of_many_that_use_a_token_at_once_one_is_enrolled<S: Enrolments>(store: S) {
    const MANY: usize = 16;
    invite(&store, "ann", "once", "").await;
    let barrier = Arc::new(Barrier::new(MANY));
    let mut tasks = JoinSet::new();
    for n in 0..MANY {
        let (store, barrier) = (store.clone(), Arc::clone(&barrier));
        tasks.spawn(async move {
            barrier.wait().await;
            (n, enrol(&store, "once", &n.to_string()).await)
        });
    }
    let mut winners = Vec::new();
    for (n, answer) in tasks.join_all().await {
        match answer {
            Ok(name) => winners.push((n, name)),
            Err(why) => assert_eq!(why, NotEnrolled::Used),
        }
    }
    let [(winner, name)] = &winners[..] else { panic!("{winners:?}") };
    assert_eq!(*name, owner("ann"));
    for n in 0..MANY {
        assert_eq!(proves(&store, &n.to_string()).await.is_some(), n == *winner);
    }
}

/// Its answer was lost: the same call succeeds again, with the same token.
pub async fn a_repeated_enrolment_is_the_same<S: Enrolments>(store: S) {
    invite(&store, "ann", "once", "").await;
    assert_eq!(enrol(&store, "once", "mine").await, Ok(owner("ann")));
    assert_eq!(enrol(&store, "once", "mine").await, Ok(owner("ann")));
}

/// A one-time token lives ten minutes.
pub async fn an_old_one_time_token_is_refused<S: Enrolments>(store: S) {
    invite(&store, "ann", "once", "").await;
    let end = NOW.plus_ms(INVITATION_MS);
    assert_eq!(enrol_at(&store, "once", "late", end).await, Err(NotEnrolled::Expired));
    assert_eq!(store.workers().await, Ok(vec![]));
    assert_eq!(enrol_at(&store, "once", "mine", Timestamp(end.0 - 1)).await, Ok(owner("ann")));
}

/// Another invitation of a name takes the place of the one before.
pub async fn the_last_invitation_of_a_name_counts<S: Enrolments>(store: S) {
    invite(&store, "ann", "one", "").await;
    invite(&store, "ann", "two", "gpu").await;
    invite(&store, "bob", "three", "").await;
    assert_eq!(enrol(&store, "one", "mine").await, Err(NotEnrolled::Unknown));
    assert_eq!(enrol(&store, "two", "mine").await, Ok(owner("ann")));
    assert_eq!(enrol(&store, "three", "his").await, Ok(owner("bob")));
}

/// A name that is enrolled again has another token and other labels; the earlier token proves nothing any more, and not before.
pub async fn a_name_belongs_to_one_enrolment<S: Enrolments>(store: S) {
    invite(&store, "ann", "one", "gpu").await;
    enrol(&store, "one", "first").await.expect("it is enrolled");
    let said = Said { version: Some("1.0".to_owned()), slots: Some(4), host: Some("here".to_owned()) };
    store.describe(owner("ann"), said.clone(), None).await.expect("it is stored");
    invite(&store, "ann", "two", "arm").await;
    let before = store.worker_of(TokenHash::of("first")).await.expect("it answers").expect("it stands");
    assert_eq!((before.labels, before.said), (labels("gpu"), said));
    enrol(&store, "two", "second").await.expect("it is enrolled");
    assert_eq!(proves(&store, "first").await, None);
    let after = store.worker_of(TokenHash::of("second")).await.expect("it answers").expect("it stands");
    assert_eq!((after.labels, after.said), (labels("arm"), Said::default()));
    assert_eq!(store.workers().await.expect("it answers").len(), 1);
}

/// A revoked token proves nothing, an invitation of the name neither; the name can be enrolled again.
pub async fn a_revoked_worker_is_none<S: Enrolments>(store: S) {
    assert_eq!(store.revoke(owner("ann"), NOW).await, Ok(false));
    invite(&store, "ann", "one", "").await;
    enrol(&store, "one", "first").await.expect("it is enrolled");
    invite(&store, "ann", "two", "").await;
    assert_eq!(store.revoke(owner("ann"), NOW.plus_ms(7)).await, Ok(true));
    assert_eq!(store.revoke(owner("ann"), NOW.plus_ms(9)).await, Ok(true));
    assert_eq!(proves(&store, "first").await, None);
    assert_eq!(enrol(&store, "two", "second").await, Err(NotEnrolled::Unknown));
    let workers = store.workers().await.expect("it answers");
    assert_eq!(workers.iter().map(|ann| ann.revoked_at).collect::<Vec<_>>(), [Some(NOW.plus_ms(7))]);
    invite(&store, "ann", "three", "").await;
    enrol(&store, "three", "third").await.expect("it is enrolled");
    assert_eq!(proves(&store, "third").await.as_deref(), Some("ann"));
    assert_eq!(proves(&store, "first").await, None);
}

/// Jobs are counted by the owner that holds them and by whether it lives; jobs that are due by the labels that they wait for.
pub async fn the_workload_is_counted<S: Enrolments + Store>(store: S) {
    assert_eq!(store.workload(NOW).await, Ok(Workload::default()));
    let at = NOW.plus_ms(100);
    let spec = |group: &str, on: &str| Spec { on: labels(on), ..jobs::spec(group) };
    for (n, group, on) in [(1, "q", ""), (2, "q", ""), (3, "q", "gpu"), (4, "q", "gpu"), (5, "paused", "arm")]
    {
        store.append(jobs::submit(n, spec(group, on), NOW).0).await.expect("it is new");
    }
    let later = Spec { not_before: Some(at.plus_ms(1)), ..spec("q", "later") };
    store.append(jobs::submit(6, later, NOW).0).await.expect("it is new");
    store.set_group(Group { paused: true, ..Group::new("paused", None) }).await.expect("it is set");
    let waiting = |counts: &[(&str, u64)]| counts.iter().map(|(on, jobs)| (labels(on), *jobs)).collect();
    assert_eq!(
        store.workload(at).await,
        Ok(Workload { held: vec![], waiting: waiting(&[("", 2), ("gpu", 2)]) })
    );
    let ann = jobs::register(&store, "ann", 1_000_000).await.expect("it registers");
    let from = Source::Ready { group: "q".to_owned(), slots: None };
    let claim = Claim { by: ann.clone(), from, labels: WorkerLabels::default(), at_most: 1, now: at };
    assert_eq!(store.claim(claim).await.expect("it may").len(), 1);
    let held = |live, left| vec![HeldJobs { owner: owner("ann"), live, left }];
    let waiting = waiting(&[("", 1), ("gpu", 2)]);
    assert_eq!(store.workload(at).await, Ok(Workload { held: held(1, 0), waiting }));
    assert_eq!(store.end_life(ann.incarnation, 0).await, Ok(true));
    assert_eq!(store.workload(at).await.map(|load| load.held), Ok(held(0, 1)));
}

/// A worker is told what to remove until it has. Strangers and revoked workers are not: their hosts do not come back.
pub async fn what_is_to_be_removed_is_noted_until_it_is<S: Enrolments + Removals>(store: S) {
    for name in ["ann", "bob"] {
        invite(&store, name, &format!("{name}-once"), "").await;
        enrol(&store, &format!("{name}-once"), name).await.expect("it is enrolled");
    }
    let both = || vec![owner("ann"), owner("bob")];
    let [one, two] = [1, 2].map(jobs::id);
    store.note_removal(one, [both(), vec![owner("eve")]].concat()).await.expect("it is noted");
    store.note_removal(one, both()).await.expect("it is noted already");
    store.note_removal(two, vec![owner("bob")]).await.expect("it is noted");
    let all = vec![(owner("ann"), one), (owner("bob"), one), (owner("bob"), two)];
    assert_eq!(store.removals([both(), vec![owner("eve")]].concat(), 9).await, Ok(all.clone()));
    assert_eq!(store.removals(both(), 2).await, Ok(all[..2].to_vec()));
    assert_eq!(store.removals(vec![owner("ann")], 9).await, Ok(all[..1].to_vec()));
    store.removed(owner("bob"), one).await.expect("it is forgotten");
    store.removed(owner("bob"), one).await.expect("it is forgotten already");
    assert_eq!(store.removals(both(), 9).await, Ok(vec![all[0].clone(), all[2].clone()]));
    store.revoke(owner("bob"), NOW).await.expect("it is revoked");
    store.note_removal(one, both()).await.expect("it is noted");
    assert_eq!(store.removals(both(), 9).await, Ok(all[..1].to_vec()));
}

/// Servers find each other, and the server to which a worker connected last.
pub async fn a_worker_is_found_at_its_server<S: Enrolments>(store: S) {
    let door = |name: &str, address: &str| ServerDoor {
        name: owner(name),
        address: address.to_owned(),
        fingerprint: "ab".repeat(32),
        token: format!("token of {name}"),
    };
    invite(&store, "ann", "one", "").await;
    enrol(&store, "one", "first").await.expect("it is enrolled");
    store.describe(owner("ann"), Said::default(), Some(owner("s1"))).await.expect("it is stored");
    assert_eq!(store.server_of(owner("ann")).await, Ok(None), "it was not announced");
    for door in [door("s1", "a:1"), door("s2", "b:1"), door("s1", "a:2")] {
        store.announce(door).await.expect("it is stored");
    }
    assert_eq!(store.server_of(owner("ann")).await, Ok(Some(door("s1", "a:2"))));
    store.describe(owner("ann"), Said::default(), Some(owner("s2"))).await.expect("it is stored");
    assert_eq!(store.server_of(owner("ann")).await, Ok(Some(door("s2", "b:1"))));
    assert_eq!(store.server_of(owner("bob")).await, Ok(None));
}
