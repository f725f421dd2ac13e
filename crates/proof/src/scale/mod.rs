//! `scale fleet`: what a cell costs its database as it grows. One server, workers over links with the real protocol, trees that are not
//! there, one PostgreSQL.
//!
//! | file | owns |
//! |---|---|
//! | `fleet` | the server and its workers |
//! | `host` | a host without processes |
//! | `history` | years of ended jobs |
//! | `plot` | figures as pictures |
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result of a verb, and how far it is")]

mod fleet;
mod history;
mod host;
mod plot;

use std::path::Path;
use std::time::{Duration, Instant};

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{Append, Job, JobId, Timestamp};
use lastword_store::postgres::{Postgres, load_statement};
use lastword_store::{Group, Groups as _, Journal as _};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use self::fleet::Fleet;
use self::plot::Plot;
use crate::args::Args;
use crate::bench::postgres::load;
use crate::bench::table::median;
use crate::jobs;
use crate::pg::{Server, Settings};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "scale fleet [--workers N] [--live N] [--events N] [--months N] [--seconds N] [--rounds N] [--write FOLDER] [--short]

One server and its workers over links, in one process: the real protocol and engines, trees that are not there, one PostgreSQL. Its history
grows, then its workers, then its live jobs, each tenfold in steps. Each step: the cost of a job, the transactions of an idle worker, the
start of one more worker, database connections, locks of a load.

  --workers N      2000 if nothing is said
  --live N         live jobs, 100000 if nothing is said
  --events N       stored events, 10000000 if nothing is said
  --months N       partitions, 36 if nothing is said
  --seconds N      how long workers idle for a figure, 120 if nothing is said
  --rounds N       for each figure of time, 5 if nothing is said
  --write FOLDER   draws the figures there
  --short          20 workers, 200 live jobs, 10000 events, 12 s and 2 rounds, for a look";

/// Jobs in flight when the cost of one is measured.
const IN_FLIGHT: usize = 64;

/// How long a round of that takes.
const ROUND: Duration = Duration::from_secs(2);

/// A session of PostgreSQL reports what it counted at most this much later.
const REPORTED: Duration = Duration::from_secs(11);

/// How long the jobs of a step may take to run.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// The group of live jobs.
const LIVE: &str = "live";

const TRANSACTIONS: &str =
    "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
const CONNECTIONS: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
const RUNNING: &str = "select count(*) from jobs where phase = 'running'";

/// Relations that one session has locked.
const LOCKED: &str = "select count(distinct relation) from pg_locks l join pg_class c on c.oid = l.relation
    where l.pid = pg_backend_pid() and l.locktype = 'relation' and c.relnamespace = 'public'::regnamespace";

/// As the sessions of the journal are set up.
const SESSION: &str = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off";

/// How far it goes.
struct Plan {
    workers: u64,
    live: u64,
    events: u64,
    months: u64,
    idle: Duration,
    rounds: usize,
}

impl Plan {
    fn new(args: &Args<'_>) -> Result<Plan, String> {
        let short = args.has("--short");
        let of = |name: &str, small: u64, full: u64| args.value(name, if short { small } else { full });
        Ok(Plan {
            workers: of("--workers", 20, 2_000)?,
            live: of("--live", 200, 100_000)?,
            events: of("--events", 10_000, 10_000_000)?,
            months: of("--months", 36, 36)?,
            idle: Duration::from_secs(of("--seconds", 12, 120)?),
            rounds: of("--rounds", 2, 5)? as usize,
        })
    }
}

/// What was measured.
#[derive(Default)]
struct Figures {
    /// Microseconds of a job, by stored events, by workers and by live jobs.
    cost: [Vec<(f64, f64)>; 3],
    /// Transactions per idle worker and minute, by workers.
    idle: Vec<(f64, f64)>,
    /// Milliseconds of a worker's start, by live jobs.
    start: Vec<(f64, f64)>,
    connections: i64,
    locks: i64,
}

/// Runs `scale fleet`.
pub fn main(args: &[String]) -> Outcome<()> {
    let [what, rest @ ..] = args else { return Err(USAGE.into()) };
    if what != "fleet" || rest.iter().any(|word| matches!(word.as_str(), "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(());
    }
    let args = Args::new(rest);
    let plan = Plan::new(&args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime.block_on(measure(&plan))?;
    figures.print(&plan);
    match args.text("--write") {
        Some(folder) => figures.draw(Path::new(folder)),
        None => Ok(()),
    }
}

/// Returns 1/1000, 1/100, 1/10 and all of it.
fn steps(all: u64) -> impl Iterator<Item = u64> {
    [1_000, 100, 10, 1].into_iter().map(move |part| (all / part).max(1))
}

async fn measure(plan: &Plan) -> Outcome<Figures> {
    let server = Server::start(Settings { set: vec!["max_wal_size=4GB".to_owned()], ..Settings::default() })?;
    let database = server.database().await;
    let mut fleet = Fleet::start(&server.url(&database)).await?;
    let client = server.client(&database).await;
    let now = lastword_engine::now().wall;
    history::months(&fleet.journal, now, plan.months).await?;
    let mut figures = Figures::default();
    let mut stored = 0;
    for events in steps(plan.events).filter(|events| *events >= 10 * plan.months) {
        history::fill(&client, now, plan.months, (stored, events)).await?;
        stored = events;
        figures.cost[0].push((events as f64, cost(plan, &fleet.journal).await?));
        eprintln!("{events} events: {:.0} µs a job", last(&figures.cost[0]));
    }
    figures.locks = locks(&client).await?;
    let slots = plan.live.div_ceil(plan.workers) as u32;
    for workers in steps(plan.workers) {
        fleet.grow(workers as usize, slots).await?;
        figures.idle.push((workers as f64, idle(plan, &client, workers).await?));
        figures.cost[1].push((workers as f64, cost(plan, &fleet.journal).await?));
        eprintln!(
            "{workers} workers: {:.2} transactions per idle one and minute, {:.0} µs a job",
            last(&figures.idle),
            last(&figures.cost[1])
        );
    }
    let mut made = 0;
    for live in steps(plan.live) {
        make_live(&fleet.journal, &client, now, made..live).await?;
        made = live;
        let mut starts = Vec::new();
        for round in 0..plan.rounds {
            starts.push(fleet.start_one(&format!("late-{live}-{round}")).await?.as_secs_f64() * 1e3);
        }
        figures.start.push((live as f64, median(&mut starts)));
        figures.cost[2].push((live as f64, cost(plan, &fleet.journal).await?));
        eprintln!(
            "{live} live jobs: a worker starts in {:.1} ms, {:.0} µs a job",
            last(&figures.start),
            last(&figures.cost[2])
        );
    }
    figures.connections = client.query_one(CONNECTIONS, &[]).await?.get(0);
    Ok(figures)
}

fn last(points: &[(f64, f64)]) -> f64 {
    points.last().map_or(0.0, |(_, value)| *value)
}

/// Returns the microseconds of a whole life, with many in flight at the journal itself.
async fn cost(plan: &Plan, journal: &Postgres) -> Outcome<f64> {
    // No worker has the label, so that none of them takes these jobs.
    let labels: WorkerLabels = std::iter::once("bench".to_owned()).collect();
    let mut costs = Vec::new();
    for _ in 0..plan.rounds {
        costs.push(1e6 / load::life_rate(&labels, journal, journal, 1, IN_FLIGHT, ROUND).await?);
    }
    Ok(median(&mut costs))
}

/// Returns the transactions per worker and minute while nothing happens.
async fn idle(plan: &Plan, client: &Client, workers: u64) -> Outcome<f64> {
    // What starting them cost was counted by then.
    tokio::time::sleep(REPORTED).await;
    let (before, began) = (transactions(client).await?, Instant::now());
    tokio::time::sleep(plan.idle).await;
    let transactions = transactions(client).await? - before - 1;
    Ok(transactions as f64 / workers as f64 / (began.elapsed().as_secs_f64() / 60.0))
}

async fn transactions(client: &Client) -> Outcome<i64> {
    Ok(client.query_one(TRANSACTIONS, &[]).await?.get(0))
}

/// Returns the relations that a load locks, run as the journal runs it.
async fn locks(client: &Client) -> Outcome<i64> {
    let job = jobs::id(1);
    client.batch_execute(SESSION).await?;
    let statement = client.prepare(&load_statement(job)).await?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&job.as_uuid(), &0_i64];
    client.query(&statement, &values).await?;
    client.batch_execute("begin").await?;
    client.query(&statement, &values).await?;
    let locked = client.query_one(LOCKED, &[]).await?.get(0);
    client.batch_execute("commit; reset all").await?;
    Ok(locked)
}

/// Submits jobs, and returns once all of them run.
async fn make_live(
    journal: &Postgres,
    client: &Client,
    now: Timestamp,
    numbers: std::ops::Range<u64>,
) -> Outcome<()> {
    // Workers know the groups that are stored.
    journal.add_group(Group::new(LIVE, None)).await?;
    let all = numbers.end.cast_signed();
    let mut calls = JoinSet::new();
    for number in numbers {
        let mut random = [0; 10];
        // The last of them is mixed into the one before.
        random[2..9].copy_from_slice(&number.to_be_bytes()[1..]);
        let unborn = Job::unborn(JobId::new(1, now, random));
        let facts = vec![jobs::submitted(jobs::spec(LIVE))];
        let (append, _) = Append::new(&unborn, None, jobs::append_id(), now, facts)?;
        let journal = journal.clone();
        calls.spawn(async move { journal.append(append).await });
        if calls.len() >= 2_000 {
            calls.join_next().await.transpose()?.transpose()?;
        }
    }
    while let Some(called) = calls.join_next().await {
        called??;
    }
    let began = Instant::now();
    while client.query_one(RUNNING, &[]).await?.get::<_, i64>(0) < all {
        if began.elapsed() > PATIENCE {
            return Err(format!("{all} jobs do not come to run").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

impl Figures {
    fn print(&self, plan: &Plan) {
        let Plan { workers, live, events, months, .. } = plan;
        println!("scale fleet: {workers} workers, {live} live jobs, {events} events, {months} months");
        let tables = [
            ("stored events", "µs a job", &self.cost[0]),
            ("workers", "µs a job", &self.cost[1]),
            ("live jobs", "µs a job", &self.cost[2]),
            ("workers", "transactions per idle worker and minute", &self.idle),
            ("live jobs", "ms until a worker is ready", &self.start),
        ];
        for (grows, measured, points) in tables {
            println!("\n{grows:>14}  {measured}");
            for (at, value) in points {
                println!("{at:>14.0}  {value:.2}");
            }
        }
        let starts = self.start.iter().map(|(_, ms)| *ms);
        let (least, most) = (starts.clone().fold(f64::MAX, f64::min), starts.fold(0.0, f64::max));
        println!();
        said("database connections", self.connections as f64, 30.0);
        said("transactions per idle worker and minute", last(&self.idle), 0.5);
        said("relations locked by a load", self.locks as f64, 8.0);
        said("longest start of a worker / shortest", most / least, 1.2 / 0.8);
    }

    /// Draws what grows into a folder.
    fn draw(&self, folder: &Path) -> Outcome<()> {
        let plots = [
            ("scale-events", "A job, with 64 in flight", ("stored events", "µs"), &self.cost[0], None),
            ("scale-workers", "A job, with 64 in flight", ("connected workers", "µs"), &self.cost[1], None),
            ("scale-live", "A job, with 64 in flight", ("live jobs", "µs"), &self.cost[2], None),
            ("scale-idle", "Transactions per idle worker and minute", ("workers", ""), &self.idle, Some(0.5)),
            ("scale-start", "Start of one more worker", ("live jobs", "ms"), &self.start, None),
        ];
        for (name, title, axes, points, goal) in plots {
            let drawn = Plot { title, axes, points, goal }.svg();
            std::fs::write(folder.join(format!("{name}.svg")), drawn)?;
        }
        Ok(())
    }
}

fn said(what: &str, is: f64, most: f64) {
    let verdict = if is <= most { "" } else { "  NOT REACHED" };
    println!("{what}: {is:.2} (goal at most {most:.2}){verdict}");
}
