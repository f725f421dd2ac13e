//! The simulation of the engine: the engine that ships, on a clock and with keepers that a seed decides.
//!
//! `sim` drives the owner's step alone. Here whole engines run, with their tasks, claims and waits: a journal that fails on purpose below
//! them, simulated keepers beside them, and clients above them. Mostly one engine has the journal to itself, as on a laptop; in some
//! schedules two hosts share it, and a job must never have a live tree on both.
//!
//! - `world`: one schedule, its clock and its queue; `plan`: the jobs it is about, and what runs in them.
//! - `journal`: the journal in memory, and the way to it; `host` and `keeper`: a host's files and keepers, and the way to them.
//! - `clients` and `wish`: people and programs with wishes; `strike` and `fault`: what goes wrong, and where it did.
//! - `check` and `witness`: what holds besides the rules of the world's witness; `audit`: what must not take long when all is well.
//!
//! A seed decides everything only as long as the engine takes nothing from elsewhere: clocks and random bytes come from the
//! implementation of the traits of `host`, time passes on tokio's clock alone, every `select!` is `biased`, and nothing is done in the order
//! of a `HashMap`. Hosts are asked for things; nothing else of the engine blocks a thread.

mod audit;
mod check;
mod clients;
mod fault;
mod host;
mod journal;
mod keeper;
mod plan;
mod strike;
mod wish;
mod witness;
mod world;

use std::collections::BTreeMap;

use lastword_core::{HostId, OwnerId};
use lastword_engine::{Engine, Options};
use tokio::time::{Instant, sleep_until};

use crate::schedules::{Run, Simulation};

pub use fault::Fault;
use host::Simulated;
use journal::Frail;
use world::{Process, Sim, World};

/// This simulation, to run many schedules of it.
pub const SIMULATION: Simulation =
    Simulation { flag: " --engine", run, table: fault::TABLE, faults_min: 2, coverage_from: 3_000 };

/// How long the engine's lease lasts.
const LEASE_MS: u64 = 9_000;

/// How often the engine looks at everything without having been woken.
const LOOK_MS: u64 = 4_000;

/// Runs the schedule of a seed.
pub fn run(seed: u64, readable: bool) -> Run {
    let sim = Sim::new(seed, readable);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing that can be missing");
    runtime.block_on(live(&sim));
    // Every task of every engine, and every client, is gone where it stands.
    drop(runtime);
    let mut world = sim.into_world().expect("everything that had the world is gone with the runtime");
    if let Some(violation) = world.violation.clone() {
        world.say(|_| format!("VIOLATION {}: {}", violation.name, violation.detail));
    }
    Run {
        hash: world.trace.hash(),
        violation: world.violation,
        coverage: world.coverage,
        faults: world.faults,
        steps: world.steps,
        lines: world.trace.into_lines(),
    }
}

/// Lets the schedule happen: starts engines when it is their time, and has their clients ask.
async fn live(sim: &Sim) {
    sim.with(World::clock_starts);
    let mut engines: BTreeMap<usize, (Process, Engine<Frail>)> = BTreeMap::new();
    loop {
        let (over, starting) = sim.with(|world| (world.happen(), std::mem::take(&mut world.starting)));
        if over {
            return;
        }
        for host in starting {
            engines.insert(host, start(sim, host));
        }
        let (asking, next) = sim.with(|world| {
            let asking = world.take_asking().into_iter().map(|no| (no, world.clients[no].host));
            (asking.collect::<Vec<_>>(), world.next_instant())
        });
        for (client, host) in asking {
            if let Some((process, engine)) = engines.get(&host) {
                tokio::spawn(clients::ask(process.clone(), engine.clone(), client));
            }
        }
        let next = next.unwrap_or_else(|| Instant::now() + std::time::Duration::from_secs(1));
        tokio::select! {
            biased;
            () = sim.planned() => {}
            () = sleep_until(next) => {}
        }
    }
}

/// Starts the engine of a host.
fn start(sim: &Sim, host: usize) -> (Process, Engine<Frail>) {
    let (life, default_slots) = sim.with(|world| (world.engine_begins(host), world.plan.default_slots));
    let process = Process { sim: sim.clone(), host, life };
    let options = Options {
        default_slots,
        lease_ms: LEASE_MS,
        sweep_ms: LOOK_MS,
        ..Options::new(OwnerId(format!("e{host}").into()), HostId(format!("h{host}").into()))
    };
    let engine = Engine::start(Frail(process.clone()), Simulated(process.clone()), options);
    tokio::spawn(until_ready(process.clone(), engine.clone()));
    (process, engine)
}

/// Waits until the engine has found out what its former life left: clients are served from there on.
async fn until_ready(process: Process, engine: Engine<Frail>) {
    engine.ready().await;
    process.act(|world| world.engine_is_ready(process.host)).await;
}
