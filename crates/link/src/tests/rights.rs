//! What a worker's token is good for, and what a thief of it gets.

use lastword_core::decide::claim::Claimant;
use lastword_core::event::{AttemptEnded, LastWord, LateReported, Launched, Released};
use lastword_core::life::Place;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::receipt::{Level, Proof, Receipt, Tree};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{AttemptNo, Awake, Fact, Fence, HostId, Job, OwnerId, Seq, Timestamp};
use lastword_store::{
    Catalog, Claim, Error, Filter, Group, Groups, Journal, Key, Keys, List, Prune, Renew, Result, Source,
};

use super::setup::{
    NOW, SERVER, Served, append, claim_of, id, launch_intended, limit_changed, place, register, renewal,
    spec, submission, submit, take,
};

/// Fails unless it was refused, and returns the words.
fn refused<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Err(Error::Refused(words)) => words,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_worker_drives_its_own_job_to_its_end() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let link = served.link("ann").await;
    let ann = register(&link, "ann").await;
    let (job, fence) = take(&link, &ann).await;
    assert_eq!(link.held(ann.incarnation, None, 9).await, Ok(vec![job.id]));
    assert_eq!(link.load(job.id, Seq(1)).await.map(|events| events.len()), Ok(1));
    let (intended, job) = append(&job, Some(&fence), vec![launch_intended(&job)]);
    assert_eq!(link.append(intended.clone()).await, Ok(job.version));
    assert_eq!(link.append(intended).await, Ok(job.version), "a repeat is a success");

    // A person writes in between; the worker loads it and goes on.
    let (request, _) = append(&job, None, vec![limit_changed(7)]);
    served.store.append(request).await.unwrap();
    let stale = append(&job, Some(&fence), vec![launched(&job)]).0;
    assert_eq!(link.append(stale).await, Err(Error::Conflict { job: job.id, actual: job.version.next() }));
    let mut job = job;
    for event in link.load(job.id, job.version).await.unwrap() {
        job.apply(&event).unwrap();
    }
    let (launched, job) = append(&job, Some(&fence), vec![launched(&job)]);
    assert_eq!(link.append(launched).await, Ok(job.version));
    let (end, job) = append(&job, Some(&fence), completed(&job));
    assert_eq!(link.append(end).await, Ok(job.version));
    let (late, after) = append(&job, None, vec![late_report(&job)]);
    assert_eq!(link.append(late).await, Ok(after.version), "a late report needs no fence");
}

fn launched(job: &Job) -> Fact {
    let (boot, level) = ("boot-1".to_owned(), Level::Subreaper);
    let tree = Tree { boot, pid: 4_711, start_ticks: 99, level, withheld: None };
    Launched { attempt: AttemptNo(job.attempts.len() as u32), tree, awake: Awake(5_000) }.into()
}

fn completed(job: &Job) -> Vec<Fact> {
    let attempt = AttemptNo(job.attempts.len() as u32);
    let (outcome, cause) = (Outcome::Completed, Cause::Finished);
    let receipt = Receipt::bare(Proof::NoChildren);
    vec![
        AttemptEnded { attempt, outcome, cause, error: None, receipt, cut_short: None, ran_ms: None }.into(),
        LastWord { outcome, cause, attempt: Some(attempt), requested_at: None, by: None }.into(),
    ]
}

fn late_report(job: &Job) -> Fact {
    LateReported { epoch: job.epoch, what: "exited with 0".to_owned() }.into()
}

/// The row decides which job is claimed next, so it is made at the server.
#[tokio::test]
async fn a_forged_row_is_made_anew() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let link = served.link("ann").await;
    let ann = register(&link, "ann").await;
    let (job, fence) = take(&link, &ann).await;
    let (mut forged, _) = append(&job, Some(&fence), vec![launch_intended(&job)]);
    let honest = forged.row.clone();
    forged.row.priority = i16::MAX;
    forged.row.group = "other".to_owned();
    forged.row.holder = None;
    forged.row.due = Some(Timestamp(0));
    link.append(forged).await.unwrap();
    assert_eq!(served.store.row(job.id).await, Ok(Some(honest)));
}

/// An append for a version that does not exist yet would be written unseen once it does.
#[tokio::test]
async fn an_append_to_a_later_version_is_not_passed_on() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let link = served.link("ann").await;
    let ann = register(&link, "ann").await;
    let (job, fence) = take(&link, &ann).await;
    let (mut ahead, _) = append(&job, Some(&fence), vec![launch_intended(&job)]);
    ahead.expected = job.version.next();
    served.store.close();
    let answer = link.append(ahead).await;
    assert_eq!(answer, Err(Error::Conflict { job: job.id, actual: job.version }));
}

/// Bob's worker runs an agent that has read ann's token.
#[tokio::test]
async fn a_stolen_token_reaches_no_other_job() {
    let served = Served::start().await;
    let server = served.link(SERVER).await;
    let bob = register(&server, "bob").await;
    submit(&server, 1).await;
    let (job, fence) = take(&server, &bob).await;
    let waiting = submission(2, spec());
    server.append(Clone::clone(&waiting.0)).await.unwrap();
    let before = server.read(None, 99).await.unwrap();

    let thief = served.link("ann").await;
    let ann = register(&thief, "ann").await;
    let unknown = refused(thief.load(id(9), Seq(0)).await).replace(&id(9).to_string(), "it");
    for job in [job.id, waiting.1.id] {
        let words = refused(thief.load(job, Seq(0)).await);
        assert_eq!(words.replace(&job.to_string(), "it"), unknown, "it does not say which jobs there are");
    }
    refused(thief.held(bob.incarnation, None, 9).await);
    // As bob, whose fence it guessed; as ann, with bob's claim.
    let as_ann = Fence { owner: OwnerId("ann".into()), ..fence.clone() };
    for fence in [&fence, &as_ann] {
        refused(thief.append(append(&job, Some(fence), vec![launch_intended(&job)]).0).await);
    }
    refused(thief.append(append(&job, None, vec![late_report(&job)]).0).await);
    refused(thief.append(append(&job, None, vec![limit_changed(1)]).0).await);
    refused(thief.renew(renewal("bob")).await);
    refused(thief.renew(Renew { incarnation: Some(bob.incarnation), ..renewal("bob") }).await);
    refused(thief.claim(claim_of(&bob)).await);
    let mixed = Claimant { incarnation: bob.incarnation, ..ann.clone() };
    assert!(matches!(thief.claim(claim_of(&mixed)).await, Err(Error::Lapsed { .. })));
    let release = append(&job, Some(&fence), vec![Released { epoch: fence.epoch }.into()]).0;
    let (stored, taken) = thief.append_and_claim(release, claim_of(&ann)).await;
    refused(stored);
    refused(taken);
    assert_eq!(server.read(None, 99).await, Ok(before), "nothing was written");
}

#[tokio::test]
async fn a_worker_has_no_other_verb() {
    let served = Served::start().await;
    let link = served.link("ann").await;
    let (submission, job) = submission(1, spec());
    refused(link.append(submission).await);
    refused(link.read(None, 9).await);
    refused(link.feed_end().await);
    refused(link.lives().await);
    let instance = link.instance().await.expect("a worker may know whether it pauses");
    refused(link.settle(instance).await);
    link.groups().await.expect("it claims by group");
    link.spent(lastword_core::budget::Day::of(NOW))
        .await
        .expect("it stops jobs whose group has spent too much");
    refused(link.dependents(job.id).await);
    refused(link.waits_over(None, 9).await);
    refused(link.ready(NOW).await);
    refused(link.row(job.id).await);
    refused(link.rows(Filter::default(), None, 9).await);
    refused(link.list(List { limit: 9, ..List::default() }).await);
    refused(link.listed(vec![job.id]).await);
    refused(link.find("@last".parse().unwrap()).await);
    refused(link.counts().await);
    refused(link.counts_by_group().await);
    refused(link.mark_seen(job.id, NOW).await);
    refused(link.prunable(Prune { before: NOW, unread: true, limit: 9 }).await);
    refused(link.remove(job.id, NOW).await);
    refused(link.add_group(Group::new("q", None)).await);
    refused(link.set_group(Group::new("q", None)).await);
    refused(link.remove_group("q").await);
    refused(link.key(Key { key: "k".to_owned(), fingerprint: 1, job: job.id, now: NOW }).await);
}

/// Beats are watched by servers. A worker may say of itself that it has gone, and of no other.
#[tokio::test]
async fn a_worker_ends_its_own_life_only() {
    let served = Served::start().await;
    let (link, server) = (served.link("ann").await, served.link(SERVER).await);
    let (ann, bob) = (register(&link, "ann").await, register(&server, "bob").await);
    let words = refused(link.end_life(bob.incarnation, 0).await);
    assert_eq!(words, "ann is a worker: it may end its own life only");
    let lives = server.lives().await.unwrap();
    assert_eq!(
        lives.iter().map(|life| life.incarnation).collect::<Vec<_>>(),
        [ann.incarnation, bob.incarnation]
    );
    assert_eq!(link.end_life(ann.incarnation, 7).await, Ok(false), "another beat");
    // By another connection than the one that registered it.
    let later = served.link("ann").await;
    assert_eq!(later.end_life(ann.incarnation, 0).await, Ok(true));
    assert_eq!(link.end_life(ann.incarnation, 0).await, Ok(false), "a repeat finds nothing to end");
    let again = Renew { incarnation: Some(ann.incarnation), ..renewal("ann") };
    assert_eq!(link.renew(again).await, Err(Error::Lapsed { owner: ann.owner }));
    assert_eq!(server.end_life(bob.incarnation, 0).await, Ok(true));
}

/// Bob's first life was replaced, and its trees may be alive: a job of it is for bob's place alone. Ann says that it is there.
#[tokio::test]
async fn a_worker_claims_for_the_place_where_it_registered() {
    let served = Served::start().await;
    let server = served.link(SERVER).await;
    let bob = at_boot(register(&server, "bob").await);
    submit(&server, 1).await;
    let (job, _) = take(&server, &bob).await;
    register(&server, "bob").await;
    let elsewhere = Renew { place: Place::new("there", "boot-2"), ..renewal("ann") };
    let link = served.link("ann").await;
    let incarnation = link.renew(elsewhere).await.unwrap().incarnation;
    let there =
        Claimant { incarnation, owner: OwnerId("ann".into()), host: HostId("there".into()), boot: None };
    let alive = Source::Alive { trees: vec![(job.id, AttemptNo(1))] };
    // The connection that registered it knows the place; another one asks the journal.
    for link in [link, served.link("ann").await] {
        for from in [Source::Expired, alive.clone(), Source::Ready { group: "q".to_owned(), slots: None }] {
            let claim = |by: &Claimant| link.claim(Claim { from: from.clone(), ..claim_of(by) });
            refused(claim(&Claimant { host: place().host, ..there.clone() }).await);
            refused(claim(&Claimant { boot: Some(place().boot), ..there.clone() }).await);
            assert_eq!(claim(&there).await, Ok(vec![]));
        }
    }
}

/// A tree that is alive is taken over by the next life at its place.
#[tokio::test]
async fn a_worker_takes_over_its_own_trees() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let link = served.link("ann").await;
    let old = at_boot(register(&link, "ann").await);
    let (job, _) = take(&link, &old).await;
    let elsewhere = Renew { place: Place::new("there", "boot-1"), ..renewal("ann") };
    assert_eq!(link.renew(elsewhere).await, Err(Error::Taken { owner: old.owner.clone() }));
    let new = at_boot(register(&link, "ann").await);
    let claim = |trees| Claim { from: Source::Alive { trees }, ..claim_of(&new) };
    assert_eq!(link.claim(claim(vec![(job.id, AttemptNo(2))])).await, Ok(vec![]), "no such attempt");
    let taken = link.claim(claim(vec![(job.id, AttemptNo(1))])).await.unwrap();
    assert_eq!(taken.iter().map(|taken| taken.job).collect::<Vec<_>>(), [job.id]);
}

/// Returns a claimant that intends attempts, as an engine does.
fn at_boot(by: Claimant) -> Claimant {
    Claimant { boot: Some(place().boot), ..by }
}

/// A worker whose clock is ahead, or says so, gets no job before it is due.
#[tokio::test]
async fn the_clock_of_a_worker_is_not_used() {
    let served = Served::start().await;
    let mut late = spec();
    late.not_before = Some(NOW.plus_ms(1));
    served.store.append(submission(1, late).0).await.unwrap();
    let link = served.link("ann").await;
    let ann = register(&link, "ann").await;
    let ahead = Claim { now: NOW.plus_ms(9_999_999), ..claim_of(&ann) };
    assert_eq!(link.claim(ahead).await, Ok(vec![]));
}

/// What a worker has is said by its enrolment.
#[tokio::test]
async fn a_worker_does_not_choose_its_labels() {
    let served = Served::start().await;
    for (n, on) in [(1, "vault"), (2, "gpu")] {
        let mut bound = spec();
        bound.on = WorkerLabels::from_key(on);
        served.store.append(submission(n, bound).0).await.unwrap();
    }
    let link = served.link("ann").await;
    let ann = register(&link, "ann").await;
    let claim = Claim { labels: WorkerLabels::from_key("gpu vault"), ..claim_of(&ann) };
    let taken = link.claim(claim).await.unwrap();
    let on = |claimed: &lastword_store::Claimed| {
        Job::fold(claimed.job, &claimed.events).unwrap().spec.unwrap().on.key()
    };
    assert_eq!(taken.iter().map(on).collect::<Vec<_>>(), ["gpu"]);
}

/// The fence of its own job does not make a person of a worker.
#[tokio::test]
async fn a_worker_writes_no_requests_to_its_own_job() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let link = served.link("ann").await;
    let ann = register(&link, "ann").await;
    let (job, fence) = take(&link, &ann).await;
    let words = refused(link.append(append(&job, Some(&fence), vec![limit_changed(0)]).0).await);
    assert_eq!(words, format!("ann is a worker and may not write `limit_changed` to {}", job.id));
    assert_eq!(served.store.load(job.id, job.version).await, Ok(vec![]));
}

/// What it held once it may read; what else its successor holds it may not know.
#[tokio::test]
async fn a_worker_does_not_learn_what_its_successor_holds() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let (link, server) = (served.link("ann").await, served.link(SERVER).await);
    let ann = register(&link, "ann").await;
    let (job, _) = take(&link, &ann).await;
    assert_eq!(link.end_life(ann.incarnation, 0).await, Ok(true));
    let bob = register(&server, "bob").await;
    assert_eq!(
        server.claim(Claim { from: Source::Expired, ..claim_of(&bob) }).await.map(|taken| taken.len()),
        Ok(1)
    );
    refused(link.held(bob.incarnation, None, 9).await);
    assert_eq!(link.load(job.id, job.version).await.map(|events| events.len()), Ok(1));
}

/// A worker that lost its job is told so by the journal, and is not taken for a stranger.
#[tokio::test]
async fn a_worker_that_was_replaced_is_fenced() {
    let served = Served::start().await;
    submit(&served.store, 1).await;
    let link = served.link("ann").await;
    let old = register(&link, "ann").await;
    let (job, fence) = take(&link, &old).await;
    let new = register(&link, "ann").await;
    let taken = link.claim(Claim { from: Source::Expired, ..claim_of(&new) }).await.unwrap();
    assert_eq!(taken.len(), 1);
    let (append, _) = append(&job, Some(&fence), vec![launch_intended(&job)]);
    assert_eq!(link.append(append).await, Err(Error::Fenced { job: job.id }));
}
