//! The engine: drives jobs from the journal with the owner's step, one task per live job.
//!
//! Core decides what a job is and what follows, `store` remembers it. The engine owns tasks and time, in three roles:
//!
//! - [`desk`]: takes requests and answers reads with a journal alone.
//! - `worker/`: one owner that claims jobs and drives them.
//! - [`host`]: what the worker does in the world, as small traits; [`LocalHost`] is this machine.
//!
//! Desk and worker meet in `agenda.rs` (what to look at next), worker and host in `mailbox.rs` (reports). [`Engine`] is all three in one
//! process, as on a laptop; `local/` has the verbs that need more than a desk.
//!
//! Tests: with real keepers in `crates/cli/tests/engine`, because keepers are forked from the executable; with simulated ones in
//! `crates/proof` (`engine_sim`).

mod accounts;
mod agenda;
mod answers;
mod changes;
pub mod desk;
mod due;
mod duties;
mod error;
pub mod host;
mod local;
mod lock;
mod mailbox;
mod tasks;
mod troubles;
mod unconfirmed;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use lastword_core::life::MARGIN_MS;
use lastword_core::limits::Limits;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{HostId, OwnerId};

pub use answers::{Env, Jobs, NoAttempt, Prune, Pruned, Settled, Trouble, Unsaved, Until};
pub use desk::UNSET_SLOTS;
pub use desk::{Desk, Folded, WaitReason};
pub use duties::Duties;
pub use error::{Away, Error, FindError};
pub use host::{Changes, Host, LocalHost, PatchPart, PatchPiece, ServerHost, now};
pub use lastword_git::FileChange;
pub use lastword_store::Group;
use lastword_store::Workers;
pub use lastword_store::attempts::{Alive, Begin, LiveProcess, LiveTree, Part, Piece, Stream};
pub use local::{Cancelled, Engine, FeedFilter};
pub use mailbox::Held;

/// How often a clerk sweeps. What hints bring at once, a sweep brings if they get lost; a life that ends has it sweep at once.
const CLERK_SWEEP_MS: u64 = 60_000;

/// How often a worker that has jobs sweeps. Its server tells it what to look at.
const WORKER_SWEEP_MS: u64 = 60_000;

/// What an engine needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of its owner, stable over restarts.
    pub owner: OwnerId,
    /// The machine it runs on.
    pub host: HostId,
    /// Which part of the work it does.
    pub duties: Duties,
    /// The workers of other processes, for a clerk.
    pub workers: Option<Arc<dyn Workers>>,
    /// Labels of its host: it is given jobs that need no others.
    pub labels: WorkerLabels,
    /// How many jobs it holds at once, of all groups; `None` is no bound. Jobs of its former life that it takes over count, and may be more.
    pub slots: Option<u32>,
    /// Slots of the default group until it is set; `None` is no bound.
    pub default_slots: Option<u32>,
    /// Limits of jobs that have none of their own.
    pub limits: Limits,
    /// How long its lease lasts. It is renewed at a third of that.
    pub lease_ms: u64,
    /// How much longer than a lease its beat must stand still before another life is ended.
    pub margin_ms: u64,
    /// How often it sweeps without a hint: hints get lost, clocks jump.
    pub sweep_ms: u64,
}

impl Options {
    /// Returns the options of the only daemon of a machine: lease and sweeps cost next to nothing.
    pub fn new(owner: OwnerId, host: HostId) -> Options {
        Options {
            owner,
            host,
            duties: Duties::All,
            workers: None,
            labels: WorkerLabels::default(),
            slots: None,
            default_slots: None,
            limits: Limits::default(),
            lease_ms: 90_000,
            margin_ms: MARGIN_MS,
            sweep_ms: 30_000,
        }
    }

    /// Returns the options of a server of a fleet: a clerk that tells `workers` what to look at.
    pub fn clerk(self, workers: Arc<dyn Workers>, lease_ms: u64) -> Options {
        let workers = Some(workers);
        Options { duties: Duties::Clerk, workers, lease_ms, sweep_ms: CLERK_SWEEP_MS, ..self }
    }

    /// Returns the options of a worker of a fleet, which runs `slots` jobs at once.
    pub fn worker(self, slots: u32, lease_ms: u64) -> Options {
        let slots = Some(slots);
        Options { duties: Duties::Worker, slots, lease_ms, sweep_ms: WORKER_SWEEP_MS, ..self }
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    fn sweep(&self) -> Duration {
        Duration::from_millis(self.sweep_ms)
    }
}
