//! The engine: takes jobs from the journal and drives each with the owner's step, one task per live job.
//!
//! It owns time and tasks. What a job is and what follows is decided in `core`, remembered by `store` and done by whoever
//! implements [`Trees`]: keepers of real processes, or simulated ones.
//!
//! - [`Engine`]: the handle. Whoever has it may ask (`requests`) and read (`reads`, `settle`).
//! - `life.rs`: one life of an owner: its lease, its recovery, its sweeps; `claims.rs`: how it takes jobs.
//! - `job_task.rs`: one job, from its claim until it is let go; `mailbox.rs`: what it is told.
//! - [`trees`]: what is done in the world.

mod answers;
mod claims;
mod dependents;
mod doubts;
mod due;
mod error;
mod find;
mod groups;
mod job_task;
mod life;
mod mailbox;
mod reads;
mod requests;
mod settle;
mod shared;
mod tasks;
pub mod trees;
mod troubles;
mod worktrees;

use std::sync::Arc;
use std::time::Duration;

use lastword_core::limits::Limits;
use lastword_core::{HostId, Now, OwnerId};
use lastword_store::siblings::Siblings;
use tokio::task::AbortHandle;

pub use answers::{Env, Jobs, NoAttempt, Prune, Pruned, Settled, Stream, Trouble, Unsaved, Until};
pub use error::{Error, FindError};
pub use lastword_proc::{Read, Recording};
pub use lastword_store::siblings::Group;
pub use trees::{Trees, now};

use crate::shared::Shared;

/// What an engine needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, stable over restarts.
    pub owner: OwnerId,
    /// The machine it runs on.
    pub host: HostId,
    /// How many jobs of the default group may be held at once, unless somebody has changed that; `None` is no bound.
    pub default_slots: Option<u32>,
    /// Limits of jobs that have none of their own.
    pub limits: Limits,
    /// How long its lease lasts. It is renewed at a third of that.
    pub lease_ms: u64,
    /// How often it looks at everything without having been woken: hints may get lost, clocks may jump.
    pub look_ms: u64,
}

impl Options {
    /// Returns the options of the one supervisor of a machine, with a lease and looks that cost nothing.
    pub fn new(owner: OwnerId, host: HostId) -> Options {
        Options {
            owner,
            host,
            default_slots: None,
            limits: Limits::default(),
            lease_ms: 90_000,
            look_ms: 30_000,
        }
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    fn look(&self) -> Duration {
        Duration::from_millis(self.look_ms)
    }
}

/// A running engine. Dropping the last handle stops it where it stands; trees that run go on.
#[derive(Debug)]
pub struct Engine<J> {
    shared: Arc<Shared<J>>,
    running: Arc<Running<J>>,
}

impl<J> Clone for Engine<J> {
    fn clone(&self) -> Engine<J> {
        Engine { shared: Arc::clone(&self.shared), running: Arc::clone(&self.running) }
    }
}

impl<J: Siblings> Engine<J> {
    /// Starts an engine on the runtime of the caller.
    pub fn start(journal: J, trees: impl Trees, options: Options) -> Engine<J> {
        let shared = Arc::new(Shared::new(journal, Arc::new(trees), options));
        let life = tokio::spawn(life::Life::new(Arc::clone(&shared)).run());
        let running = Running { shared: Arc::clone(&shared), life: life.abort_handle() };
        Engine { shared, running: Arc::new(running) }
    }

    /// Returns the present, by the clocks that the engine goes by.
    pub fn now(&self) -> Now {
        self.shared.now()
    }

    /// Returns the journal, for whoever only reads.
    pub fn journal(&self) -> &J {
        &self.shared.journal
    }
}

/// What ends with the last handle.
#[derive(Debug)]
struct Running<J> {
    shared: Arc<Shared<J>>,
    life: AbortHandle,
}

impl<J> Drop for Running<J> {
    fn drop(&mut self) {
        self.life.abort();
        self.shared.tasks.abort_all();
    }
}
