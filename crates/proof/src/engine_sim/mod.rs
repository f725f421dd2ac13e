//! The simulation of the engine: the engine that ships, on a clock and with keepers that a seed decides.
//!
//! `sim` drives the owner's step alone, in worlds of several hosts. Here the whole engine runs, with its tasks, its claims and its
//! waits, on one host: a journal that fails on purpose below it, simulated keepers beside it, and clients above it.
//!
//! - `world`: one schedule, its clock and its queue; `plan`: the jobs it is about, and what runs in them.
//! - `journal`: the journal in memory, and the way to it; `trees` and `keeper`: keepers, and the way to them.
//! - `clients`: people and programs with wishes; `strike` and `fault`: what goes wrong, and where it did.
//! - `check`: the witness that compares; `audit`: what must not take long when all is well.
//!
//! A seed decides everything only as long as the engine takes nothing from elsewhere: clocks and random bytes come from whoever
//! implements the traits of `host`, time passes on tokio's clock alone, every `select!` is `biased`, and nothing is done in the order of a
//! `HashMap`. Trees are asked for things; nothing else of the engine blocks a thread.

mod audit;
mod check;
mod clients;
mod fault;
mod journal;
mod keeper;
mod plan;
mod strike;
mod trees;
mod world;

use std::sync::Arc;

use lastword_core::{HostId, OwnerId};
use lastword_engine::{Engine, Options};
use tokio::time::{Instant, sleep_until};

use crate::schedules::{Run, Simulation};

pub use fault::Fault;
use journal::Frail;
use trees::Simulated;
use world::{Sim, World};

/// This simulation, for whoever runs many schedules of it.
pub const SIMULATION: Simulation =
    Simulation { flag: " --engine", run, table: fault::TABLE, faults_min: 2, coverage_from: 3_000 };

/// How long the engine's lease lasts.
const LEASE_MS: u64 = 9_000;

/// How often the engine looks at everything without having been woken.
const LOOK_MS: u64 = 4_000;

/// Runs the schedule of a seed.
pub fn run(seed: u64, readable: bool) -> Run {
    let sim = Sim::new(seed, readable);
    while sim.with(World::pass_without_engine) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without IO needs nothing that can be missing");
        runtime.block_on(live(&sim));
        // Every task of the engine, and every client, is gone where it stands.
        drop(runtime);
        sim.with(World::engine_is_down);
    }
    let mut world = sim.into_world().expect("whoever had the world is gone with the last runtime");
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

/// One life of the engine.
async fn live(sim: &Sim) {
    let default_slots = sim.with(|world| {
        world.engine_begins();
        world.plan.default_slots
    });
    let options = Options {
        default_slots,
        lease_ms: LEASE_MS,
        sweep_ms: LOOK_MS,
        ..Options::new(OwnerId(Arc::from("engine")), HostId(Arc::from("host")))
    };
    let engine = Engine::start(Frail(sim.clone()), Simulated(sim.clone()), options);
    tokio::spawn(until_ready(sim.clone(), engine.clone()));
    loop {
        let (over, next, asking) = sim.with(|world| {
            let over = world.happen();
            let next = world.next_at().and_then(|at| world.instant(at));
            (over, next, world.who_asks())
        });
        if over {
            return;
        }
        for client in asking {
            tokio::spawn(clients::ask(sim.clone(), engine.clone(), client));
        }
        let next = next.unwrap_or_else(|| Instant::now() + std::time::Duration::from_secs(1));
        tokio::select! {
            biased;
            () = sim.planned() => {}
            () = sleep_until(next) => {}
        }
    }
}

/// Waits until the engine has found out what its former life left: clients are served from there on.
async fn until_ready(sim: Sim, engine: Engine<Frail>) {
    engine.ready().await;
    sim.with(|world| world.engine_is_ready());
}
