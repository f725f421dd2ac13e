//! The feed under writers that pause before they commit, and at times roll back: does a reader miss any?

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lastword_core::{JobId, Seq};
use lastword_store::postgres::{Options, Postgres};
use lastword_store::{Feed, Journal};

use super::load;
use crate::backends::postgres_options;
use crate::jobs;
use crate::pg::Server;
use crate::random::Random;

/// Writers at once.
const WRITERS: u64 = 8;

/// Events one transaction writes, at most.
const EVENTS_MAX: u64 = 400;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The events that a reader saw.
type Followed = Result<HashSet<(JobId, Seq)>, Box<dyn std::error::Error + Send + Sync>>;

/// What a reader of the feed got of what was written.
pub(super) struct Tailed {
    /// Events that were committed.
    pub(super) committed: usize,
    /// Those it never saw.
    pub(super) missed: usize,
}

/// How a reader goes on.
pub(super) enum Order {
    /// By the feed of our journal.
    Feed,
    /// By the place of each event alone, whatever may still be committed before it.
    Naive,
}

/// Lets writers commit `events` events while a reader follows them, and compares.
pub(super) async fn tail(server: &Server, events: u64, order: Order) -> Outcome<Tailed> {
    let database = server.database().await;
    let options = Options { wake: false, ..postgres_options() };
    let journal = Postgres::open(&server.url(&database), options).await?;
    let (written, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let client = server.client(&database).await;
        let written = Arc::clone(&written);
        writers.spawn(async move { write(client, writer, events, &written).await });
    }
    let reader = match order {
        Order::Feed => tokio::spawn(follow(journal.clone(), Arc::clone(&over))),
        Order::Naive => tokio::spawn(follow_naively(server.client(&database).await, Arc::clone(&over))),
    };
    while let Some(writer) = writers.join_next().await {
        writer??;
    }
    over.store(true, Ordering::SeqCst);
    let seen = reader.await?.map_err(|error| error.to_string())?;
    let rows = server.client(&database).await.query("select job, seq from events", &[]).await?;
    let there =
        rows.iter().filter_map(|row| Some((JobId::from_uuid(row.get(0))?, Seq(row.get::<_, i64>(1) as u64))));
    let missed = there.filter(|place| !seen.contains(place)).count();
    server.drop_database(&database).await;
    Ok(Tailed { committed: rows.len(), missed })
}

/// Writes events as batches do, but by hand, so that a commit can be late or never come.
async fn write(
    mut client: tokio_postgres::Client,
    writer: u64,
    events: u64,
    written: &AtomicU64,
) -> Result<(), tokio_postgres::Error> {
    let sql = "
        insert into events (job, seq, at, append, kind, version, body, place)
        select $1, n, 0, $1, 'spent', 1, $4, pg_current_xact_id()::text::bigint + (select feed_offset from meta)
        from generate_series($2::bigint, $3::bigint) as n";
    let statement = client.prepare(sql).await?;
    let body = jobs::spent(1).encode().body;
    let (job, mut random, mut next) = (load::fresh_id().as_uuid(), Random::new(writer), 1);
    while written.load(Ordering::Relaxed) < events {
        let count = 1 + random.below(EVENTS_MAX);
        let transaction = client.transaction().await?;
        transaction.execute(&statement, &[&job, &next, &(next + count as i64 - 1), &body]).await?;
        if random.chance(20) {
            tokio::time::sleep(Duration::from_millis(random.below(20))).await;
        }
        next += count as i64;
        if random.chance(5) {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
            written.fetch_add(count, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Follows the feed until the writers are done and nothing more comes.
async fn follow(journal: Postgres, over: Arc<AtomicBool>) -> Followed {
    let (mut seen, mut after) = (HashSet::new(), None);
    loop {
        // Asked before the read: what comes after the last commit is still read.
        let done = over.load(Ordering::SeqCst);
        let Feed { events, next } = journal.read(after.clone(), 5_000).await?;
        if events.is_empty() && done {
            return Ok(seen);
        }
        if events.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        seen.extend(events.into_iter().map(|(job, event)| (job, event.seq)));
        after = next;
    }
}

/// Follows events by their place until the writers are done and nothing more comes.
async fn follow_naively(client: tokio_postgres::Client, over: Arc<AtomicBool>) -> Followed {
    let sql = "
        select job, seq, place from events where (place, job, seq) > ($1, $2, $3)
        order by place, job, seq limit 5000";
    let statement = client.prepare(sql).await?;
    let (mut seen, mut after) = (HashSet::new(), (i64::MIN, uuid::Uuid::nil(), 0i64));
    loop {
        // Asked before the read: what comes after the last commit is still read.
        let done = over.load(Ordering::SeqCst);
        let rows = client.query(&statement, &[&after.0, &after.1, &after.2]).await?;
        match rows.last() {
            None if done => return Ok(seen),
            None => tokio::time::sleep(Duration::from_millis(1)).await,
            Some(last) => after = (last.get(2), last.get(0), last.get(1)),
        }
        let event = |row: &tokio_postgres::Row| {
            Some((JobId::from_uuid(row.get(0))?, Seq(row.get::<_, i64>(1) as u64)))
        };
        seen.extend(rows.iter().filter_map(event));
    }
}
