//! Claims while another session holds a snapshot: the rows that claims delete cannot be vacuumed, and must not be read again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lastword_core::worker_labels::WorkerLabels;
use lastword_store::postgres::Postgres;
use lastword_store::{Claim, Journal, Source};
use tokio::task::JoinSet;

use super::super::table::{Goal, Line};
use super::load;
use super::plan::{Outcome, Plan, open};
use crate::jobs;
use crate::pg::{Server, options};

/// How long the snapshot is held.
const HELD: Duration = Duration::from_secs(24);

/// How long a rate is measured: before the snapshot, and at the end of it.
const MEASURED: Duration = Duration::from_secs(6);

/// Workers that each claim one job at a time: of all claims these meet the most deleted rows per job.
const WORKERS: usize = 4;

/// Jobs that wait, at most: a worker always finds one, and few deleted rows are hidden among many others.
const WAITING_MAX: u64 = 2_000;

const QUEUE: &str = "snapshot";

/// Compares the rate of claims at the end of a held snapshot with the rate before it.
pub(super) async fn snapshot(plan: &Plan<'_>, server: &Server) -> Outcome<Line> {
    let (mut held, mut before) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        // A database of its own: no round reads the rows that another one left behind.
        let database = server.database().await;
        let journal = open(server, &database, options().batch_max, true).await?;
        let work = Work::start(&journal).await?;
        before.push(work.rate().await);
        let holder = server.client(&database).await;
        holder.batch_execute("begin isolation level repeatable read; select count(*) from ready").await?;
        tokio::time::sleep(HELD - MEASURED).await;
        held.push(work.rate().await);
        holder.batch_execute("commit").await?;
        work.end().await?;
        eprintln!("snapshot, round {round}: {:.0} / {:.0}", held[round], before[round]);
        drop(journal);
        server.drop_database(&database).await;
    }
    let name = format!("claims under a snapshot held {} s / before it", HELD.as_secs());
    Ok(Line::of(&name, "jobs/s", &mut held, &mut before, Goal::AtLeast(0.8)))
}

/// Workers that claim, and one that keeps jobs waiting for them.
struct Work {
    claimed: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    tasks: JoinSet<Result<(), String>>,
}

impl Work {
    async fn start(journal: &Postgres) -> Outcome<Work> {
        let (claimed, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut tasks = JoinSet::new();
        for worker in 0..WORKERS {
            let by = load::register(journal, &format!("worker-{worker}")).await?;
            let from = Source::Ready { group: QUEUE.to_owned(), slots: None };
            let now = jobs::NOW.plus_ms(1 << 40);
            let claim = Claim { by, from, labels: WorkerLabels::default(), at_most: 1, now };
            let (journal, claimed, over) = (journal.clone(), Arc::clone(&claimed), Arc::clone(&over));
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let jobs = journal.claim(claim.clone()).await.map_err(|error| error.to_string())?;
                    claimed.fetch_add(jobs.len() as u64, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        let (journal, done, end) = (journal.clone(), Arc::clone(&claimed), Arc::clone(&over));
        tasks.spawn(async move { feed(journal, &done, &end).await.map_err(|error| error.to_string()) });
        let work = Work { claimed, over, tasks };
        // The first claims find no job and no plan.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(work)
    }

    async fn rate(&self) -> f64 {
        let (begun, first) = (Instant::now(), self.claimed.load(Ordering::Relaxed));
        tokio::time::sleep(MEASURED).await;
        let claimed = self.claimed.load(Ordering::Relaxed) - first;
        claimed as f64 / begun.elapsed().as_secs_f64()
    }

    async fn end(mut self) -> Outcome<()> {
        self.over.store(true, Ordering::Relaxed);
        while let Some(task) = self.tasks.join_next().await {
            task??;
        }
        Ok(())
    }
}

/// Submits jobs as fast as they are claimed.
async fn feed(
    journal: Postgres,
    claimed: &AtomicU64,
    over: &AtomicBool,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut submitted, batch, any) = (0, 500, WorkerLabels::default());
    while !over.load(Ordering::Relaxed) {
        if submitted - claimed.load(Ordering::Relaxed) >= WAITING_MAX - batch {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        load::submit(&journal, QUEUE, &any, batch as usize).await?;
        submitted += batch;
    }
    Ok(())
}
