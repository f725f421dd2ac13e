//! `crash postgres`: the whole server is killed under its clients, again and again. `crash postgres-cut`: connections
//! are cut between the commit and its answer.
//!
//! The clients live through it: what they were doing is done once the server is back, exactly once. So every call has
//! an answer, and what is stored is what was acknowledged, no more and no less.
#![expect(clippy::print_stdout, reason = "the result of a verb")]
#![expect(clippy::disallowed_methods, reason = "the moment of a fault is a random one")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lastword_core::life::Life;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use lastword_store::hints::Hints;
use lastword_store::postgres::{Options, Postgres};
use lastword_store::{
    Claim, Claimed, Cursor, Error, Feed, Instance, Journal, Ready, Renew, Renewed, WaitOver,
};
use tokio::runtime::Runtime;

use super::appender::{Acks, work};
use super::history::{Acked, Mark, judge};
use super::proxy::Proxy;
use super::stored::stored;
use crate::args::Args;
use crate::pg::{Server, Settings, options};
use crate::random::Random;

/// Clients at once: more than one, so that batches hold appends of several.
const WORKERS: u64 = 8;

/// Rounds on one database before a fresh one: it lives through many crashes, but its check stays short.
const ROUNDS_PER_DATABASE: u64 = 25;

/// The longest a server lives after its first acknowledgement of a round, and the longest the clients go on after it
/// came back. A batch takes a few milliseconds, so every moment of one is hit.
const LIFE_MAX_US: u64 = 40_000;

/// How long clients try: longer than any recovery, so that every call of theirs has its answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Acknowledgements of a round before the server may be killed: from then on every client is at work.
const WARM: usize = 4 * WORKERS as usize;

/// Requests of a hundred whose answer is kept back.
const CUT_PERCENT: u64 = 4;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Kills and checks, `--rounds` times.
pub fn crash(args: &Args<'_>) -> Outcome<()> {
    let rounds: u64 = args.value("--rounds", 200)?;
    let mut random = Random::new(args.value("--seed", 1)?);
    let runtime = runtime()?;
    let mut server = Server::start(Settings::default())?;
    let (mut acked_in_all, mut round) = (0, 0);
    while round < rounds {
        let database = runtime.block_on(server.database());
        let acks = Told::default();
        for run in round..rounds.min(round + ROUNDS_PER_DATABASE) {
            let options = Options { patience: PATIENCE, ..options() };
            let journal = runtime.block_on(Postgres::open(&server.url(&database), options))?;
            let clients = runtime.block_on(async { Clients::start(&journal, run, &acks) });
            runtime.block_on(acks.wait_beyond(acks.count() + WARM, &clients))?;
            std::thread::sleep(Duration::from_micros(random.below(LIFE_MAX_US)));
            server.crash()?;
            server.restart()?;
            std::thread::sleep(Duration::from_micros(random.below(LIFE_MAX_US)));
            let told = runtime
                .block_on(clients.finish())
                .and_then(|()| runtime.block_on(verify_all(&server.url(&database), &acks.all())));
            told.inspect_err(|_| println!("round {run}"))?;
        }
        acked_in_all += acks.count();
        round += ROUNDS_PER_DATABASE;
    }
    println!("crash postgres: {rounds} kills of the server, {acked_in_all} acknowledged appends");
    println!("none lost, doubled or torn; none stored that was not acknowledged; no gap; every row agrees");
    Ok(())
}

/// Cuts at least `--cuts` connections, and checks.
pub fn cut(args: &Args<'_>) -> Outcome<()> {
    let cuts: u64 = args.value("--cuts", 1_000)?;
    let seed: u64 = args.value("--seed", 1)?;
    let server = Server::start(Settings::default())?;
    let (cuts, acked) = runtime()?.block_on(cut_connections(&server, cuts, seed))?;
    println!(
        "crash postgres-cut: {cuts} answers kept back after the server was done, {acked} acknowledged appends"
    );
    println!("none lost, doubled, torn or misreported; no gap; every row agrees");
    Ok(())
}

/// Runs clients through a proxy until it has cut `cuts` connections. Returns the cuts and the acknowledged appends.
pub async fn cut_connections(server: &Server, cuts: u64, seed: u64) -> Outcome<(u64, usize)> {
    let database = server.database().await;
    let proxy = Proxy::start(server.host(), CUT_PERCENT, seed)?;
    let url = format!("host={} user=postgres dbname={database}", proxy.host().display());
    let journal = Postgres::open(&url, Options { wake: false, patience: PATIENCE, ..options() }).await?;
    let acks = Told::default();
    let clients = Clients::start(&journal, 0, &acks);
    while proxy.cuts() < cuts && !clients.any_ended() {
        acks.wait_beyond(acks.count(), &clients).await?;
    }
    proxy.calm();
    clients.finish().await?;
    verify_all(&server.url(&database), &acks.all()).await?;
    Ok((proxy.cuts(), acks.count()))
}

pub(crate) fn runtime() -> Outcome<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// What the clients were told.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    pub(crate) fn all(&self) -> Vec<Acked> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lines = String::from_utf8(lines).expect("acknowledgements are text");
        lines.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|byte| **byte == b'\n').count()
    }

    /// Waits until more than `count` was acknowledged.
    pub(crate) async fn wait_beyond(&self, count: usize, clients: &Clients) -> Outcome<()> {
        while self.count() <= count {
            if clients.any_ended() {
                // What the client was told is the finding; `Clients::finish` reports it.
                return Ok(());
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        Ok(())
    }
}

type Client = tokio::task::JoinHandle<lastword_store::Result<()>>;

/// Clients at work.
pub(crate) struct Clients(Vec<(Arc<AtomicBool>, Client)>);

impl Clients {
    pub(crate) fn start(journal: &Postgres, run: u64, acks: &Told) -> Clients {
        let over = Arc::new(AtomicBool::new(false));
        let clients = (0..WORKERS).map(|worker| {
            let until = Until { journal: journal.clone(), over: Arc::clone(&over) };
            let acks: Acks = acks.0.clone();
            (Arc::clone(&over), tokio::spawn(work(until, run, worker, acks)))
        });
        Clients(clients.collect())
    }

    fn any_ended(&self) -> bool {
        self.0.iter().any(|(_, client)| client.is_finished())
    }

    /// Lets every client finish the call it is in. Any other end than that is an error.
    async fn finish(self) -> Outcome<()> {
        self.0.iter().for_each(|(over, _)| over.store(true, Ordering::SeqCst));
        for (_, client) in self.0 {
            match client.await? {
                Err(error) if error == enough() => {}
                other => return Err(format!("a client was told {other:?}").into()),
            }
        }
        Ok(())
    }
}

/// What a client is told instead of beginning another call.
fn enough() -> Error {
    Error::Unavailable("that is enough".to_owned())
}

/// A journal that begins no further call once it is told so.
#[derive(Clone)]
struct Until {
    journal: Postgres,
    over: Arc<AtomicBool>,
}

impl Until {
    fn journal(&self) -> lastword_store::Result<&Postgres> {
        if self.over.load(Ordering::SeqCst) { Err(enough()) } else { Ok(&self.journal) }
    }
}

impl Journal for Until {
    async fn load(&self, job: JobId, after: Seq) -> lastword_store::Result<Vec<Event>> {
        self.journal()?.load(job, after).await
    }

    async fn append(&self, append: Append) -> lastword_store::Result<Seq> {
        self.journal()?.append(append).await
    }

    async fn claim(&self, claim: Claim) -> lastword_store::Result<Vec<Claimed>> {
        self.journal()?.claim(claim).await
    }

    async fn renew(&self, renew: Renew) -> lastword_store::Result<Renewed> {
        self.journal()?.renew(renew).await
    }

    async fn lives(&self) -> lastword_store::Result<Vec<Life>> {
        self.journal()?.lives().await
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> lastword_store::Result<bool> {
        self.journal()?.end_life(life, beat).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn instance(&self) -> lastword_store::Result<Instance> {
        self.journal()?.instance().await
    }

    fn instance_seen(&self) -> Option<u64> {
        self.journal.instance_seen()
    }

    async fn settle(&self, instance: Instance) -> lastword_store::Result<bool> {
        self.journal()?.settle(instance).await
    }

    async fn held(
        &self,
        by: Incarnation,
        after: Option<JobId>,
        limit: u32,
    ) -> lastword_store::Result<Vec<JobId>> {
        self.journal()?.held(by, after, limit).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> lastword_store::Result<Feed> {
        self.journal()?.read(after, limit).await
    }

    async fn dependents(&self, other: JobId) -> lastword_store::Result<Vec<JobId>> {
        self.journal()?.dependents(other).await
    }

    async fn waits_over(
        &self,
        after: Option<(JobId, JobId)>,
        limit: u32,
    ) -> lastword_store::Result<Vec<WaitOver>> {
        self.journal()?.waits_over(after, limit).await
    }

    async fn ready(&self, now: Timestamp) -> lastword_store::Result<Ready> {
        self.journal()?.ready(now).await
    }

    fn hints(&self) -> Hints {
        self.journal.hints()
    }
}

/// Compares what is stored with what was acknowledged. Returns the number of appends that are stored.
pub(crate) async fn verify(url: &str, acked: &[Acked]) -> Outcome<usize> {
    let journal = Postgres::open(url, Options { wake: false, ..options() }).await?;
    let stored = stored(&journal).await?;
    judge(acked, &stored)?;
    Ok(stored.values().flat_map(|log| &log.events).filter(|event| Mark::of(event).is_some()).count())
}

/// Compares, when every call has its answer: then nothing may be stored that was not acknowledged.
async fn verify_all(url: &str, acked: &[Acked]) -> Outcome<()> {
    match verify(url, acked).await? {
        appends if appends == acked.len() => Ok(()),
        appends => Err(format!("{appends} appends are stored and {} were acknowledged", acked.len()).into()),
    }
}
