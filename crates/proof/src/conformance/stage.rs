//! What the cases share: owners, jobs on their way, and the checks that belong after every step.

use std::future::Future;

use lastword_core::decide::claim::Claimant;
use lastword_core::life::Place;
use lastword_core::spec::Spec;
use lastword_core::view::row::Row;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Event, Fact, Fence, HostId, Incarnation, Job, JobId, OwnerId, Seq, Timestamp};
use lastword_store::{Claim, Claimed, Error, Renew, Renewed, Result, Source, Store};
use tokio::task::JoinSet;

use crate::jobs::{self, NOW};

/// The queue of jobs that are in no particular one.
pub(super) const QUEUE: &str = "q";

/// When cases claim: everything submitted by then is due.
pub(super) const LATER: Timestamp = Timestamp(NOW.0 + 60_000);

/// How long leases last. No journal counts it.
pub(super) const LEASE_MS: u64 = 15_000;

/// The boot that hosts are in.
pub(super) const BOOT: &str = "boot-1";

/// Registers an owner on the host `here`.
pub(super) async fn register<J: Store>(journal: &J, owner: &str) -> Claimant {
    register_at(journal, owner, "here").await
}

/// Registers an owner on a host.
pub(super) async fn register_at<J: Store>(journal: &J, owner: &str, host: &str) -> Claimant {
    let place = Place { host: HostId(host.into()), boot: BOOT.into() };
    begin(journal, owner, place).await.expect("it has no life elsewhere")
}

/// Registers an owner at a place.
pub(super) async fn begin<J: Store>(journal: &J, owner: &str, place: Place) -> Result<Claimant> {
    let owner = OwnerId(owner.into());
    let host = place.host.clone();
    let renew = Renew { owner: owner.clone(), place, incarnation: None, lease_ms: LEASE_MS };
    let renewed = journal.renew(renew).await?;
    assert_eq!((renewed.beat, renewed.news), (0, Vec::new()), "it begins");
    Ok(Claimant { owner, incarnation: renewed.incarnation, host, boot: None })
}

/// Renews the lease of a life.
pub(super) async fn renew<J: Store>(journal: &J, who: &Claimant) -> Result<Renewed> {
    let place = Place { host: who.host.clone(), boot: BOOT.into() };
    let incarnation = Some(who.incarnation);
    journal.renew(Renew { owner: who.owner.clone(), place, incarnation, lease_ms: LEASE_MS }).await
}

/// Ends a life, as a process does that has seen its beat stand still.
pub(super) async fn end<J: Store>(journal: &J, who: &Claimant) {
    let lives = journal.lives().await.expect("lives can be read");
    let life = lives.iter().find(|life| life.incarnation == who.incarnation).expect("it is not over");
    assert_eq!(journal.end_life(life.incarnation, life.beat).await, Ok(true));
}

/// Returns the same owner as another life or another database would name it.
pub(super) fn as_life(who: &Claimant, incarnation: Incarnation) -> Claimant {
    Claimant { incarnation, ..who.clone() }
}

/// Submits the `n`th job.
pub(super) async fn submit<J: Store>(journal: &J, n: u64, spec: Spec) -> Job {
    let (append, job) = jobs::submit(n, spec, NOW);
    assert_eq!(journal.append(append).await, Ok(Seq(1)), "a new job goes in");
    job
}

/// Returns a claim from a queue, without a bound on slots.
pub(super) fn from_queue(who: &Claimant, queue: &str, at_most: u32) -> Claim {
    from_slots(who, queue, at_most, None)
}

/// Returns a claim from a queue, with a bound on slots.
pub(super) fn from_slots(who: &Claimant, queue: &str, at_most: u32, slots: Option<u32>) -> Claim {
    Claim {
        by: who.clone(),
        from: Source::Ready { group: queue.to_owned(), slots },
        labels: WorkerLabels::default(),
        at_most,
        now: LATER,
    }
}

/// Returns a claim of jobs whose holder is gone.
pub(super) fn from_gone(who: &Claimant, at_most: u32) -> Claim {
    Claim { by: who.clone(), from: Source::Expired, labels: WorkerLabels::default(), at_most, now: LATER }
}

/// Claims and returns the ids that were taken, in order.
pub(super) async fn ids<J: Store>(journal: &J, claim: Claim) -> Vec<JobId> {
    let taken = journal.claim(claim).await.expect("a live owner may claim");
    taken.into_iter().map(|claimed| claimed.job).collect()
}

/// Claims exactly one job and returns it with what to write under.
pub(super) async fn take<J: Store>(journal: &J, claim: Claim) -> (Job, Fence) {
    let mut taken = journal.claim(claim).await.expect("a live owner may claim");
    assert_eq!(taken.len(), 1, "one job is there to be taken: {taken:?}");
    let Claimed { job, events, fence } = taken.remove(0);
    (Job::fold(job, &events).expect("what was claimed can be read"), fence)
}

/// Submits the `n`th job and claims it.
pub(super) async fn held<J: Store>(journal: &J, n: u64, spec: Spec, who: &Claimant) -> (Job, Fence) {
    let queue = spec.group.clone();
    let job = submit(journal, n, spec).await;
    let (held, fence) = take(journal, from_queue(who, &queue, 1)).await;
    assert_eq!(held.id, job.id);
    (held, fence)
}

/// Submits the `n`th job, claims it, and writes that its tree is there.
pub(super) async fn running<J: Store>(journal: &J, n: u64, spec: Spec, who: &Claimant) -> (Job, Fence) {
    let (mut job, fence) = held(journal, n, spec, who).await;
    let facts = vec![jobs::launch_intended(&job), jobs::launched(jobs::next_attempt(&job))];
    write(journal, &mut job, Some(&fence), facts).await;
    (job, fence)
}

/// Appends facts, which must go in, and moves the job on. Returns the append, to be repeated.
pub(super) async fn write<J: Store>(
    journal: &J,
    job: &mut Job,
    fence: Option<&Fence>,
    facts: Vec<Fact>,
) -> Append {
    let (append, after) = jobs::append(job, fence, facts);
    assert_eq!(journal.append(append.clone()).await, Ok(after.version), "the append goes in");
    *job = after;
    append
}

/// Writes the ordinary rest of a claimed job's life.
pub(super) async fn live_out<J: Store>(journal: &J, job: &mut Job, fence: &Fence) {
    for facts in jobs::life(job) {
        write(journal, job, Some(fence), facts).await;
    }
}

/// Loads and folds a job.
pub(super) async fn load<J: Store>(journal: &J, job: JobId) -> Job {
    let events = journal.load(job, Seq(0)).await.expect("a job can be loaded");
    Job::fold(job, &events).expect("a stored log can be folded")
}

/// Reads the row of a job.
pub(super) async fn row<J: Store>(journal: &J, job: JobId) -> Option<Row> {
    journal.row(job).await.expect("a row can be read")
}

/// Everything a journal holds of one job.
pub(super) async fn held_of<J: Store>(journal: &J, job: JobId) -> (Option<Row>, Vec<Event>) {
    let events = journal.load(job, Seq(0)).await.expect("a job can be loaded");
    (row(journal, job).await, events)
}

/// Checks that the journal holds exactly `job`: its log folds to it and its row is the row of that.
pub(super) async fn holds<J: Store>(journal: &J, job: &Job) {
    assert_eq!(&load(journal, job.id).await, job, "the log tells the job");
    assert_eq!(row(journal, job.id).await, Some(Row::of(job)), "the row agrees with the log");
}

/// Checks that an append is refused with `error` and leaves no trace.
pub(super) async fn refused<J: Store>(journal: &J, append: Append, error: Error) {
    let job = append.job;
    let before = held_of(journal, job).await;
    assert_eq!(journal.append(append).await, Err(error));
    assert_eq!(held_of(journal, job).await, before, "a refused append leaves no trace");
}

/// Says that a job moved on.
pub(super) fn conflict(job: &Job, actual: u64) -> Error {
    Error::Conflict { job: job.id, actual: Seq(actual) }
}

/// Says that a job has another holder.
pub(super) fn fenced(job: &Job) -> Error {
    Error::Fenced { job: job.id }
}

/// Says that an owner must register.
pub(super) fn lapsed(who: &Claimant) -> Error {
    Error::Lapsed { owner: who.owner.clone() }
}

/// Says that an owner has a life elsewhere.
pub(super) fn taken(who: &Claimant) -> Error {
    Error::Taken { owner: who.owner.clone() }
}

/// Runs `tasks` tasks at once and returns what each came to, in no particular order.
pub(super) async fn at_once<T, Task>(tasks: u64, task: impl Fn(u64) -> Task) -> Vec<T>
where
    T: Send + 'static,
    Task: Future<Output = T> + Send + 'static,
{
    let mut set = JoinSet::new();
    (0..tasks).for_each(|n| drop(set.spawn(task(n))));
    set.join_all().await
}
