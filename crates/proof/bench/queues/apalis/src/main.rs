//! apalis beside our journal: `life SECONDS` adds jobs in bulk and runs them for so long, until all are done, and prints jobs per second.
//!
//! PGHOST, PGUSER and PGDATABASE name the database.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PgConnectOptions, PgPool, PostgresStorage};

/// Jobs of one call, and how many may wait: enough that neither side ever waits for the other.
const BATCH: usize = 500;
const WAITING_MAX: usize = 8 * BATCH;

/// How often a worker looks for jobs. It does not listen: while jobs wait, a look finds a whole batch.
const LOOK: Duration = Duration::from_millis(5);

/// Jobs that have begun.
static STARTED: AtomicUsize = AtomicUsize::new(0);

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, _, seconds] = &words[..] else { return Err("usage: beside-apalis life SECONDS".into()) };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let pool = PgPool::connect_with(PgConnectOptions::new()).await?;
    PostgresStorage::setup(&pool).await?;
    tokio::select! {
        ended = work(&pool, "first") => ended,
        ended = work(&pool, "second") => ended,
        ended = life(&pool, time) => ended,
    }
}

/// Returns the queue, with batches as large as ours, and without a further update that marks a fetched job as running.
fn storage(pool: &PgPool) -> PostgresStorage<usize> {
    PostgresStorage::new(pool).with_config(Config::default().queue("nothing").batch_size(BATCH).lock_tasks(false))
}

async fn work(pool: &PgPool, name: &str) -> Result<(), Box<dyn Error>> {
    let backend = storage(pool).poll_with_interval(LOOK);
    let worker = WorkerBuilder::new(format!("{name}-{}", std::process::id())).backend(backend);
    Ok(worker.parallelize(tokio::spawn).build(nothing).run().await?)
}

async fn nothing(_: usize) {
    STARTED.fetch_add(1, Ordering::Relaxed);
}

async fn life(pool: &PgPool, time: Duration) -> Result<(), Box<dyn Error>> {
    let (mut storage, begun, mut added) = (storage(pool), Instant::now(), 0);
    while begun.elapsed() < time {
        if added - STARTED.load(Ordering::Relaxed) > WAITING_MAX {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        storage.push_bulk((added..added + BATCH).collect()).await.map_err(|error| format!("{error:?}"))?;
        added += BATCH;
    }
    while STARTED.load(Ordering::Relaxed) < added || left(pool).await? > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("{}", added as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

async fn left(pool: &PgPool) -> Result<i64, Box<dyn Error>> {
    Ok(sqlx::query_scalar("select count(*) from apalis.jobs where status <> 'Done'").fetch_one(pool).await?)
}
