//! `bench store`, the part of PostgreSQL: the journal beside pgbench, which sends the same statement with the same rows, and beside other
//! queues.
//!
//! | file | owns |
//! |---|---|
//! | `plan` | what the parts share |
//! | `load` | callers of the journal |
//! | `pgbench` | scripts for the program beside it |
//! | `tail` | the feed under late commits |
//! | `cpu` | what the server computes for a job |
//! | `snapshot` | claims while a snapshot is held |
//! | `others` | other queues: installing and running them |
//! | `queues` | whole lives beside them |
//! | `pickup` | how soon a waiting worker has a job, beside them |
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the result of a verb, and how far it is")]

mod cpu;
pub(crate) mod load;
mod others;
mod pgbench;
mod pickup;
mod plan;
mod queues;
mod snapshot;
mod tail;

use lastword_core::worker_labels::WorkerLabels;

use self::load::Running;
use self::plan::{BATCHES, Outcome, PARTS, Plan, WRITERS, open};
use super::table::{Goal, Line, json, median, text};
use crate::args::Args;
use crate::pg::{Server, Settings, SlowFlush, options};

/// Callers of single events, and connections of single rows.
const CALLERS: usize = 32;

/// Jobs each caller drives at once, as an owner does: it does not wait for one job before it writes about another.
const JOBS_PER_CALLER: usize = 64;

/// What a flush costs more than on this disk: a disk across a network.
const FLUSH_MICROS: u64 = 1_000;

const EVENTS: &str = "select count(*) from events";
const ENDED: &str = "select count(*) from jobs where phase = 'ended'";

/// Runs what `--only` names, or everything, and prints the table. Fails if a goal was not reached.
pub fn bench(args: &Args<'_>) -> Outcome<()> {
    if let Some(only) = args.text("--only").filter(|only| !PARTS.contains(only)) {
        return Err(format!("--only {only}: the parts are {}", PARTS.join(", ")).into());
    }
    let plan = Plan { args, rounds: args.value("--rounds", 5)?, seconds: args.value("--seconds", 3)? };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let lines = runtime.block_on(measure(&plan))?;
    println!("{}", if args.has("--json") { json(&lines) } else { text(&lines) });
    let missed = lines.iter().filter(|line| !line.reached()).count();
    if missed == 0 { Ok(()) } else { Err(format!("{missed} goals were not reached").into()) }
}

async fn measure(plan: &Plan<'_>) -> Outcome<Vec<Line>> {
    let mut lines = Vec::new();
    let settings = || Settings { set: vec!["max_wal_size=4GB".to_owned()], ..Settings::default() };
    let server = Server::start(settings())?;
    for batch in BATCHES {
        if plan.wants("append") {
            lines.push(append(plan, &server, batch).await?);
        }
    }
    for batch in BATCHES {
        if plan.wants("life") {
            lines.push(life(plan, &server, batch).await?);
        }
    }
    if plan.wants("slow") || plan.wants("wake") {
        let folder = tempfile::Builder::new().prefix("lastword-slow-").tempdir()?;
        crate::pg::own(folder.path())?;
        let slow_flush = Some(SlowFlush::compile(folder.path(), FLUSH_MICROS)?);
        let slow = Server::start(Settings { slow_flush, ..settings() })?;
        if plan.wants("slow") {
            lines.extend(single_events(plan, &slow).await?);
        }
        if plan.wants("wake") {
            lines.push(wake(plan, &slow).await?);
        }
    }
    if plan.wants("tail") {
        lines.extend(tailing(plan, &server).await?);
    }
    if plan.wants("stored") {
        lines.push(stored(plan, &server).await?);
    }
    if plan.wants("cpu") {
        lines.extend(cpu::cpu(plan, &server).await?);
    }
    if plan.wants("snapshot") {
        lines.push(snapshot::snapshot(plan, &server).await?);
    }
    if plan.wants("queues") {
        lines.extend(queues::queues(plan, &server).await?);
    }
    if plan.wants("pickup") {
        lines.extend(pickup::pickup(plan, &server).await?);
    }
    Ok(lines)
}

/// Appends of running jobs, at equal batches.
async fn append(plan: &Plan<'_>, server: &Server, batch: usize) -> Outcome<Line> {
    let database = server.database().await;
    let journal = open(server, &database, batch, true).await?;
    // Twice what is on its way: one batch gathers while one is written.
    let mut ours = load::running(&journal, "ours", 2 * WRITERS * batch).await?;
    let mut theirs: Vec<Vec<Running>> = Vec::new();
    for client in 0..WRITERS {
        theirs.push(load::running(&journal, &format!("pgbench-{client}"), batch).await?);
    }
    let script = pgbench::appends(server, &database, &theirs).await?;
    let (mut rates, mut beside) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        rates.push(load::append_rate(&journal, &mut ours, plan.time()).await?);
        beside.push(script.rate(server, &database, plan.seconds, EVENTS).await?);
        eprintln!("append, batch {batch}, round {round}: {:.0} / {:.0}", rates[round], beside[round]);
    }
    server.drop_database(&database).await;
    let name = format!("append, batches of {batch}, journal / pgbench");
    Ok(Line::of(&name, "events/s", &mut rates, &mut beside, Goal::AtLeast(0.85)))
}

/// Whole lives, at equal batches.
async fn life(plan: &Plan<'_>, server: &Server, batch: usize) -> Outcome<Line> {
    let database = server.database().await;
    let journal = open(server, &database, batch, true).await?;
    let (mut rates, mut beside) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        // Each owner's jobs are spread over the writers: twice the owners fill batches of the same size.
        rates.push(
            load::life_rate(&WorkerLabels::default(), &journal, &journal, 2 * WRITERS, batch, plan.time())
                .await?,
        );
        // Enough ids for 40,000 jobs a second.
        let lives = 40_000 * plan.seconds as usize / batch / WRITERS;
        let script = pgbench::lives(server, &database, &journal, (WRITERS, batch, lives)).await?;
        beside.push(script.rate(server, &database, plan.seconds, ENDED).await?);
        eprintln!("life, batch {batch}, round {round}: {:.0} / {:.0}", rates[round], beside[round]);
    }
    server.drop_database(&database).await;
    let name = format!("lifecycle, batches of {batch}, journal / pgbench");
    Ok(Line::of(&name, "jobs/s", &mut rates, &mut beside, Goal::AtLeast(0.85)))
}

/// Callers of single events against connections of single rows, where a flush is slow.
async fn single_events(plan: &Plan<'_>, server: &Server) -> Outcome<Vec<Line>> {
    let database = server.database().await;
    let journal = open(server, &database, options().batch_max, true).await?;
    let mut many = load::running(&journal, "many", CALLERS * JOBS_PER_CALLER).await?;
    let mut one = load::running(&journal, "one", CALLERS).await?;
    let mut single: Vec<Vec<Running>> = Vec::new();
    for client in 0..CALLERS {
        single.push(load::running(&journal, &format!("pgbench-{client}"), 1).await?);
    }
    let script = pgbench::appends(server, &database, &single).await?;
    let (mut rates, mut waiting, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        rates.push(load::append_rate(&journal, &mut many, plan.time()).await?);
        beside.push(script.rate(server, &database, plan.seconds, EVENTS).await?);
        waiting.push(load::append_rate(&journal, &mut one, plan.time()).await?);
        eprintln!(
            "+1 ms, round {round}: {:.0} ({:.0} one job each) / {:.0}",
            rates[round], waiting[round], beside[round]
        );
    }
    server.drop_database(&database).await;
    let name = format!("+1 ms: {CALLERS} callers, {JOBS_PER_CALLER} jobs each / {CALLERS} connections");
    let first = Line::of(&name, "events/s", &mut rates, &mut beside, Goal::AtLeast(5.0));
    let name = format!("+1 ms: {CALLERS} callers, one job each / {CALLERS} connections");
    Ok(vec![first, Line::of(&name, "events/s", &mut waiting, &mut beside, Goal::None)])
}

/// The same journal with and without wake-ups, where a flush is slow.
async fn wake(plan: &Plan<'_>, server: &Server) -> Outcome<Line> {
    let database = server.database().await;
    let batch_max = options().batch_max;
    let with = open(server, &database, batch_max, true).await?;
    let without = open(server, &database, batch_max, false).await?;
    let mut jobs = load::running(&with, "wake", CALLERS).await?;
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for round in 0..2 * plan.rounds {
        // The journal that goes first has the warmer machine, so the two take turns.
        let order = if round % 2 == 0 { [true, false] } else { [false, true] };
        for wake in order {
            let (journal, rates) = if wake { (&with, &mut on) } else { (&without, &mut off) };
            rates.push(load::append_rate(journal, &mut jobs, plan.time()).await?);
        }
        eprintln!("wake-ups, round {round}: {:.0} / {:.0}", on[round], off[round]);
    }
    server.drop_database(&database).await;
    let name = format!("+1 ms: wake-ups on / off, {CALLERS} clients");
    Ok(Line::of(&name, "events/s", &mut on, &mut off, Goal::AtLeast(0.97)))
}

/// The feed under late commits, and the order that skips them.
async fn tailing(plan: &Plan<'_>, server: &Server) -> Outcome<Vec<Line>> {
    let events: u64 = plan.args.value("--tail", 1_000_000)?;
    let line = |name: &str, tailed: &tail::Tailed, goal| Line {
        name: name.to_owned(),
        ours: tailed.missed as f64,
        other: tailed.committed as f64,
        unit: "events",
        ratio: tailed.missed as f64 / tailed.committed as f64,
        goal,
    };
    let naive = tail::tail(server, events / 10, tail::Order::Naive).await?;
    if naive.missed == 0 {
        return Err("the order that skips late commits missed nothing: this bench shows nothing".into());
    }
    let ours = tail::tail(server, events, tail::Order::Feed).await?;
    Ok(vec![
        line("missed by the feed, 8 writers that pause", &ours, Goal::AtMost(0.0)),
        line("missed by a naive order", &naive, Goal::None),
    ])
}

/// The cost of an append with many events stored against few.
async fn stored(plan: &Plan<'_>, server: &Server) -> Outcome<Line> {
    let events: i64 = plan.args.value("--stored", 10_000_000)?;
    let mut sides = Vec::new();
    for events in [events, 10_000] {
        let database = server.database().await;
        let journal = open(server, &database, 100, true).await?;
        fill(server, &database, events).await?;
        let jobs = load::running(&journal, "stored", 4 * 100).await?;
        sides.push((database, journal, jobs, Vec::new()));
    }
    server.execute("postgres", "checkpoint").await;
    for round in 0..plan.rounds {
        for (_, journal, jobs, costs) in &mut sides {
            costs.push(1e9 / load::append_rate(journal, jobs, plan.time()).await?);
        }
        eprintln!("stored, round {round}: {:.0} / {:.0} ns", sides[0].3[round], sides[1].3[round]);
    }
    let [(_, _, _, many), (_, _, _, few)] = &mut sides[..] else { unreachable!("two sides") };
    let (ours, other) = (median(many), median(few));
    for (database, ..) in &sides {
        server.drop_database(database).await;
    }
    let name = format!("cost of an append, {events} events stored / 10000");
    Ok(Line { name, ours, other, unit: "ns", ratio: ours / other, goal: Goal::AtMost(1.2) })
}

/// Stores `events` events of ended jobs, ten each.
async fn fill(server: &Server, database: &str, events: i64) -> Outcome<()> {
    let client = server.client(database).await;
    let id = "(lpad(to_hex(1794600000000 + n), 12, '0') || '7000' || '8' || lpad(to_hex(n), 15, '0'))::uuid";
    let body = "{\"offset\":1,\"usage\":{\"tokens_in\":1,\"tokens_out\":0,\"money_micros\":0}}";
    let events_sql = format!(
        "insert into events (job, seq, at, append, kind, version, body, place)
         select {id}, seq, 1794600000000 + n, {id}, 'spent', 1, '{body}', 1
         from generate_series(1, $1::bigint) as n, generate_series(1, 10) as seq"
    );
    let jobs_sql = format!(
        "insert into jobs select {id}, 10, 'ended', 'old', 0, null, null, null, null, '\"completed\"', 1, 1, null, null,
             1794600000000 + n, 1794600000000 + n, false, repeat('x', 200)
         from generate_series(1, $1::bigint) as n"
    );
    client.execute(&events_sql, &[&(events / 10)]).await?;
    client.execute(&jobs_sql, &[&(events / 10)]).await?;
    client.batch_execute("vacuum analyze").await?;
    Ok(())
}
