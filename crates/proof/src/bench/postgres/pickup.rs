//! Pickup: from the call that adds a job until a worker that waited has it. One job at a time, far enough apart that the worker waits again.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use lastword_core::worker_labels::WorkerLabels;
use lastword_store::postgres::Postgres;
use lastword_store::{Claim, Journal, Source};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, NoTls};

use super::super::table::{Goal, Line, median};
use super::load;
use super::others::{Installed, Other};
use super::plan::{Outcome, Plan, open};
use crate::jobs;
use crate::pg::{Server, options};
use crate::random::Random;

/// Jobs of one round on each side.
const JOBS: usize = 200;

/// The pause before each: longer than hints are gathered, and never the same, so that no timer runs in step with it.
const PAUSE_MS: (u64, u64) = (15, 10);

const OTHERS: [Other; 2] = [Other::GraphileWorker, Other::PgBoss];

const QUEUE: &str = "pickup";

/// Times of one side: the median and the 99th percentile of each round, in microseconds.
#[derive(Default)]
struct Times {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Times {
    fn push(&mut self, mut micros: Vec<f64>) {
        micros.sort_by(f64::total_cmp);
        self.p50.push(micros[micros.len() / 2]);
        self.p99.push(micros[micros.len() * 99 / 100]);
    }

    fn newest(&self) -> String {
        let last = |times: &[f64]| times.last().copied().unwrap_or_default();
        format!("{:.0} {:.0}", last(&self.p50), last(&self.p99))
    }
}

/// Compares our journal with a bare commit and NOTIFY by the median, and with other queues by the 99th percentile.
pub(super) async fn pickup(plan: &Plan<'_>, server: &Server) -> Outcome<Vec<Line>> {
    let installed = Installed::get(&OTHERS)?;
    let (own, plain) = (server.database().await, server.database().await);
    // Two journals: a worker is another process, which only hears of a commit.
    let desk = open(server, &own, options().batch_max, true).await?;
    let mut ours = Ours::start(desk, open(server, &own, options().batch_max, true).await?).await?;
    let mut bare = Bare::start(server, &plain).await?;
    let mut databases = Vec::new();
    for _ in OTHERS {
        databases.push(server.database().await);
    }
    let (mut times, mut beside, mut others) =
        (Times::default(), Times::default(), OTHERS.map(|_| Times::default()));
    for round in 0..plan.rounds {
        times.push(ours.round(round as u64).await?);
        beside.push(bare.round(round as u64).await?);
        let mut told =
            format!("pickup, round {round}, p50 p99: {} / bare {}", times.newest(), beside.newest());
        for ((other, database), times) in OTHERS.iter().zip(&databases).zip(&mut others) {
            let millis = installed.run(*other, (server, database), ("pickup", JOBS as u64)).await?;
            times.push(millis.into_iter().map(|millis| millis * 1_000.0).collect());
            told = format!("{told} / {} {}", other.name(), times.newest());
        }
        eprintln!("{told}");
    }
    drop((ours, bare));
    for database in databases.iter().chain([&own, &plain]) {
        server.drop_database(database).await;
    }
    let (best, mut p99) = OTHERS
        .iter()
        .zip(others.map(|times| times.p99))
        .min_by(|(_, a), (_, b)| median(&mut a.clone()).total_cmp(&median(&mut b.clone())))
        .ok_or("there are other queues")?;
    let name = "pickup p50, journal / bare commit + NOTIFY";
    let first = Line::of(name, "us", &mut times.p50, &mut beside.p50, Goal::AtMost(1.5));
    let name = format!("pickup p99, journal / {}", best.name());
    Ok(vec![first, Line::of(&name, "us", &mut times.p99, &mut p99, Goal::AtMost(1.0))])
}

async fn rest(random: &mut Random) {
    let (least, more) = PAUSE_MS;
    tokio::time::sleep(Duration::from_millis(least) + Duration::from_micros(random.below(more * 1_000)))
        .await;
}

/// A journal that submits, and a worker at another one, which reports when it has a job.
struct Ours {
    desk: Postgres,
    taken: mpsc::Receiver<Result<Instant, String>>,
}

impl Ours {
    async fn start(desk: Postgres, journal: Postgres) -> Outcome<Ours> {
        let by = load::register(&journal, "waiter").await?;
        let from = Source::Ready { group: QUEUE.to_owned(), slots: None };
        let now = jobs::NOW.plus_ms(1 << 40);
        let claim = Claim { by, from, labels: WorkerLabels::default(), at_most: 1, now };
        let (tell, taken) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut hints = journal.hints();
            while !tell.is_closed() {
                match journal.claim(claim.clone()).await {
                    Ok(claimed) if claimed.is_empty() => drop(hints.next().await),
                    Ok(_) => drop(tell.send(Ok(Instant::now())).await),
                    Err(error) => drop(tell.send(Err(error.to_string())).await),
                }
            }
        });
        Ok(Ours { desk, taken })
    }

    async fn round(&mut self, seed: u64) -> Outcome<Vec<f64>> {
        let (mut random, mut micros, any) = (Random::new(seed), Vec::new(), WorkerLabels::default());
        for _ in 0..JOBS {
            rest(&mut random).await;
            let called = Instant::now();
            load::submit(&self.desk, QUEUE, &any, 1).await?;
            let taken = self.taken.recv().await.ok_or("the worker has gone")??;
            micros.push(taken.duration_since(called).as_nanos() as f64 / 1_000.0);
        }
        Ok(micros)
    }
}

/// Two bare connections: one inserts a row and notifies in one statement, the other listens and deletes the row.
struct Bare {
    client: tokio_postgres::Client,
    insert: tokio_postgres::Statement,
    taken: mpsc::Receiver<Result<Instant, String>>,
}

impl Bare {
    async fn start(server: &Server, database: &str) -> Outcome<Bare> {
        let client = server.client(database).await;
        client
            .batch_execute(
                "create table bare (id bigint generated always as identity primary key, body text)",
            )
            .await?;
        let sql = "with added as (insert into bare (body) values ($1) returning id)
            select pg_notify('bare', id::text) from added";
        let insert = client.prepare(sql).await?;
        let (listener, mut connection) = tokio_postgres::connect(&server.url(database), NoTls).await?;
        let (heard, mut ids) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    drop(heard.send(notification.payload().parse::<i64>()).await);
                }
            }
        });
        listener.batch_execute("listen bare").await?;
        let delete = listener.prepare("delete from bare where id = $1").await?;
        let (tell, taken) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(Ok(id)) = ids.recv().await {
                let deleted = listener.execute(&delete, &[&id]).await;
                drop(tell.send(deleted.map(|_| Instant::now()).map_err(|error| error.to_string())).await);
            }
        });
        Ok(Bare { client, insert, taken })
    }

    async fn round(&mut self, seed: u64) -> Outcome<Vec<f64>> {
        let (mut random, mut micros) = (Random::new(seed), Vec::new());
        // As long as the facts and the row of one of our jobs.
        let body = "x".repeat(1_000);
        for _ in 0..JOBS {
            rest(&mut random).await;
            let called = Instant::now();
            self.client.execute(&self.insert, &[&body]).await?;
            let taken = self.taken.recv().await.ok_or("the listener has gone")??;
            micros.push(taken.duration_since(called).as_nanos() as f64 / 1_000.0);
        }
        Ok(micros)
    }
}
