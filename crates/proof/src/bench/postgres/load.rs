//! Our side: callers of the journal, as many as it takes, each with a job of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lastword_core::decide::claim::Claimant;
use lastword_core::spec::Spec;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, AppendId, Fence, Job, JobId};
use lastword_store::{Claim, Claimed, Journal, Source};
use tokio::task::JoinSet;

use crate::jobs;

/// A lease no bench outlives.
const LEASE_MS: u64 = 1_000_000_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Returns an id that no other job of this process has.
pub(super) fn fresh_id() -> JobId {
    static MADE: AtomicU64 = AtomicU64::new(1 << 20);
    jobs::id(MADE.fetch_add(1, Ordering::Relaxed))
}

/// Registers an owner.
pub(super) async fn register(journal: &impl Journal, owner: &str) -> Outcome<Claimant> {
    Ok(jobs::register(journal, owner, LEASE_MS).await?)
}

/// Submits `count` jobs to a queue, all at once, for workers with these labels.
pub(super) async fn submit(
    journal: &impl Journal,
    queue: &str,
    on: &WorkerLabels,
    count: usize,
) -> Outcome<()> {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let unborn = Job::unborn(fresh_id());
        let facts = vec![jobs::submitted(Spec { on: on.clone(), ..jobs::spec(queue) })];
        let (append, _) = Append::new(&unborn, None, jobs::append_id(), jobs::NOW, facts)?;
        let journal = journal.clone();
        calls.spawn(async move { journal.append(append).await });
    }
    while let Some(called) = calls.join_next().await {
        called??;
    }
    Ok(())
}

/// Takes `count` jobs of a queue.
pub(super) async fn take(
    journal: &impl Journal,
    by: &Claimant,
    queue: &str,
    labels: &WorkerLabels,
    count: usize,
) -> Outcome<Vec<Claimed>> {
    let from = Source::Ready { group: queue.to_owned(), slots: None };
    let now = jobs::NOW.plus_ms(1 << 40);
    let claimed = journal
        .claim(Claim { by: by.clone(), from, labels: labels.clone(), at_most: count as u32, now })
        .await?;
    if claimed.len() == count {
        return Ok(claimed);
    }
    Err(format!("{} of {count} jobs were taken", claimed.len()).into())
}

/// A job that runs, and the next thing its owner has to say.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// The append.
    pub(super) append: Append,
}

impl Running {
    fn new(claimed: &Claimed) -> Outcome<Running> {
        let job = Job::fold(claimed.job, &claimed.events)?;
        let (append, _) = jobs::append(&job, Some(&claimed.fence), vec![jobs::spent(1)]);
        Ok(Running { append })
    }

    /// Moves on to the same thing once more. As cheap as can be: what is measured is the journal.
    fn advance(&mut self) {
        let append = &mut self.append;
        append.expected = append.expected.next();
        append.id = AppendId(append.id.0 ^ (u128::from(append.expected.0) << 40));
        append.row.version = append.row.version.next();
        append.events.iter_mut().for_each(|event| event.seq = event.seq.next());
    }
}

/// Makes jobs that are held and run: the appends of an owner at work follow.
pub(super) async fn running(journal: &impl Journal, owner: &str, count: usize) -> Outcome<Vec<Running>> {
    let (by, any) = (register(journal, owner).await?, WorkerLabels::default());
    submit(journal, owner, &any, count).await?;
    let claimed = take(journal, &by, owner, &any, count).await?;
    let launched = step(journal, claimed, |job| vec![jobs::launch_intended(job)]).await?;
    launched.iter().map(Running::new).collect()
}

/// Appends the same kind of fact to each job, all at once.
async fn step(
    journal: &impl Journal,
    claimed: Vec<Claimed>,
    facts: impl Fn(&Job) -> Vec<lastword_core::Fact>,
) -> Outcome<Vec<Claimed>> {
    let mut calls = JoinSet::new();
    let mut after = Vec::with_capacity(claimed.len());
    for Claimed { job, mut events, fence } in claimed {
        let folded = Job::fold(job, &events)?;
        let (append, _) = jobs::append(&folded, Some(&fence), facts(&folded));
        events.extend(append.events.iter().cloned());
        after.push(Claimed { job, events, fence });
        let journal = journal.clone();
        calls.spawn(async move { journal.append(append).await });
    }
    while let Some(called) = calls.join_next().await {
        called??;
    }
    Ok(after)
}

/// Appends to every job as fast as the journal answers, and returns appends per second.
pub(super) async fn append_rate(
    journal: &impl Journal,
    jobs: &mut Vec<Running>,
    time: Duration,
) -> Outcome<f64> {
    let stored = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for mut running in std::mem::take(jobs) {
        let (journal, stored) = (journal.clone(), Arc::clone(&stored));
        callers.spawn(async move {
            while began.elapsed() < time {
                journal.append(running.append.clone()).await?;
                running.advance();
                stored.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, lastword_store::Error>(running)
        });
    }
    while let Some(called) = callers.join_next().await {
        jobs.push(called??);
    }
    Ok(stored.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

/// Takes whole lives through a journal, `batch` jobs at a time by each of `owners`, and returns jobs per second. The jobs are for workers with
/// these labels alone, and are submitted through `desk`.
pub(crate) async fn life_rate(
    labels: &WorkerLabels,
    desk: &impl Journal,
    journal: &impl Journal,
    owners: usize,
    batch: usize,
    time: Duration,
) -> Outcome<f64> {
    let mut lives = JoinSet::new();
    let began = Instant::now();
    for owner in 0..owners {
        let (labels, desk, journal) = (labels.clone(), desk.clone(), journal.clone());
        lives.spawn(async move {
            let told = live((&desk, &journal), &labels, (owner, batch), began, time).await;
            told.map_err(|error| error.to_string())
        });
    }
    let mut ended = 0;
    while let Some(lived) = lives.join_next().await {
        ended += lived??;
    }
    Ok(ended as f64 / began.elapsed().as_secs_f64())
}

async fn live(
    (desk, journal): (&impl Journal, &impl Journal),
    labels: &WorkerLabels,
    (owner, batch): (usize, usize),
    began: Instant,
    time: Duration,
) -> Result<usize, Box<dyn std::error::Error>> {
    let queue = format!("life-{owner}");
    let by = register(journal, &queue).await?;
    let mut ended = 0;
    while began.elapsed() < time {
        submit(desk, &queue, labels, batch).await?;
        let claimed = take(journal, &by, &queue, labels, batch).await?;
        let claimed = step(journal, claimed, |job| vec![jobs::launch_intended(job)]).await?;
        let claimed = step(journal, claimed, |job| vec![jobs::launched(jobs::newest_attempt(job))]).await?;
        step(journal, claimed, jobs::completed).await?;
        ended += batch;
    }
    Ok(ended)
}

/// Returns the fence of a running job.
pub(super) fn fence(running: &Running) -> Fence {
    running.append.fence.clone().expect("an owner writes under its fence")
}
