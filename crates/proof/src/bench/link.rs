//! `bench link`: what a link costs beside the journal behind it, and what idle workers cost the database.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result of a verb, and how far it is")]

use std::time::{Duration, Instant};

use lastword_core::OwnerId;
use lastword_core::life::Place;
use lastword_core::worker_labels::WorkerLabels;
use lastword_link::{Bells, Hosts, Identity, Link, Options, Principal, Remote, Timing, Trust, serve};
use lastword_store::postgres::Postgres;
use lastword_store::{Journal, Renew, Said};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_postgres::Client;

use super::postgres::load;
use super::table::median;
use crate::args::Args;
use crate::jobs;
use crate::pg::{Server, Settings, options};

/// Jobs in flight: as many as a link lets through at once.
const IN_FLIGHT: usize = 64;

/// How long a life round takes.
const ROUND: Duration = Duration::from_secs(3);

/// Between two renewals of a worker, whose lease is three times that.
const RENEWAL: Duration = Duration::from_secs(5);

/// A session of PostgreSQL reports what it counted at most this much later.
const REPORTED: Duration = Duration::from_secs(11);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Runs both parts, or the one that `--only` names, and prints them.
pub fn bench(args: &Args<'_>) -> Outcome<()> {
    let (rounds, workers): (usize, usize) = (args.value("--rounds", 5)?, args.value("--workers", 50)?);
    let time = Duration::from_secs(args.value("--seconds", 60)?);
    let wants = |name: &str| args.text("--only").is_none_or(|only| only == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = Server::start(Settings::default())?;
        if wants("life") {
            println!("{}", life(&server, rounds).await?);
        }
        if wants("idle") {
            println!("{}", idle(&server, workers, time).await?);
        }
        Ok(())
    })
}

/// A server of a link. The token of a worker is its name.
struct Served {
    remote: Remote,
    serving: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Served {
    async fn start(journal: Postgres, connections: usize) -> Outcome<Served> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let servers = vec![listener.local_addr()?.to_string()];
        let identity = Identity::make()?;
        let (trust, timing) = (Trust::Fingerprints(vec![identity.fingerprint()]), Timing::default());
        // Every job that a bench submits is due by then.
        let clock = || jobs::NOW.plus_ms(1 << 40);
        let options = Options {
            journal: "bench".to_owned(),
            clock,
            connections,
            timing,
            bells: Bells::default(),
            hosts: Hosts::default(),
        };
        let gate = |token: &str| {
            Some(Principal::Worker { owner: OwnerId(token.into()), labels: WorkerLabels::default() })
        };
        let serving = tokio::spawn(async move {
            let Err(error) = serve(listener, &identity, journal, gate, options).await;
            panic!("the server cannot serve: {error}");
        });
        Ok(Served {
            remote: Remote { servers, trust, token: String::new(), said: Said::default(), timing },
            serving,
        })
    }

    async fn link(&self, worker: &str) -> Outcome<Link> {
        Ok(Link::connect(Remote { token: worker.to_owned(), ..self.remote.clone() }).await?)
    }
}

/// Whole lives of jobs, driven by a worker over a link and by one at the journal itself, in turn.
async fn life(server: &Server, rounds: usize) -> Outcome<String> {
    let database = server.database().await;
    let journal = Postgres::open(&server.url(&database), options()).await?;
    let served = Served::start(journal.clone(), 8).await?;
    // The name of the first owner of a load.
    let link = served.link("life-0").await?;
    let (mut over, mut direct, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // The one that goes first has the warmer machine, so the two take turns.
        for turn in [round % 2, (round + 1) % 2] {
            match turn {
                0 => over.push(load::life_rate(&journal, &link, 1, IN_FLIGHT, ROUND).await?),
                _ => direct.push(load::life_rate(&journal, &journal, 1, IN_FLIGHT, ROUND).await?),
            }
        }
        ratios.push(over[round] / direct[round]);
        eprintln!("life, round {round}: {:.0} / {:.0}", over[round], direct[round]);
    }
    server.drop_database(&database).await;
    let middle = median(&mut ratios);
    let [least, .., most] = ratios[..] else { return Err("two rounds are the least".into()) };
    Ok(format!(
        "life, {IN_FLIGHT} jobs in flight, link / journal: {middle:.2} ({least:.2} to {most:.2} in {rounds} rounds), {:.0} / {:.0} jobs/s",
        median(&mut over),
        median(&mut direct),
    ))
}

/// Workers that are registered and renew, and nothing else.
async fn idle(server: &Server, workers: usize, time: Duration) -> Outcome<String> {
    let database = server.database().await;
    let journal = Postgres::open(&server.url(&database), options()).await?;
    let served = Served::start(journal, workers).await?;
    let mut renewing = JoinSet::new();
    let mut links = Vec::new();
    for n in 0..workers {
        links.push((format!("worker-{n}"), served.link(&format!("worker-{n}")).await?));
    }
    let client = server.client(&database).await;
    tokio::time::sleep(REPORTED).await;
    let (before, began) = (transactions(&client).await?, Instant::now());
    for (n, (name, link)) in links.into_iter().enumerate() {
        let first = RENEWAL.mul_f64(n as f64 / workers as f64);
        renewing.spawn(async move { renew(&link, &name, began + first, began + time).await });
    }
    let mut renewals = 0;
    while let Some(renewed) = renewing.join_next().await {
        renewals += renewed??;
    }
    let connections = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    let connections: i64 = client.query_one(connections, &[]).await?.get(0);
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    tokio::time::sleep(REPORTED).await;
    let transactions = (transactions(&client).await? - before) as f64;
    let each = |count: f64| count / workers as f64 / minutes;
    Ok(format!(
        "{workers} idle workers through one server: {connections} database connections; per worker and minute {:.1} transactions for {:.1} renewals",
        each(transactions),
        each(f64::from(renewals)),
    ))
}

/// Registers a worker and renews its lease until the end, and returns how often.
async fn renew(link: &Link, name: &str, first: Instant, end: Instant) -> lastword_store::Result<u32> {
    let (owner, place) = (OwnerId(name.into()), Place::new(name, "boot"));
    let lease_ms = 3 * RENEWAL.as_millis() as u64;
    let mut life = Renew { owner, place, incarnation: None, lease_ms };
    let mut renewals = 0;
    let mut next = first;
    while next < end {
        tokio::time::sleep_until(next.into()).await;
        life.incarnation = Some(link.renew(life.clone()).await?.incarnation);
        renewals += 1;
        next += RENEWAL;
    }
    Ok(renewals)
}

/// Returns how many transactions the database has counted.
async fn transactions(client: &Client) -> Outcome<i64> {
    let sql = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
    Ok(client.query_one(sql, &[]).await?.get(0))
}
