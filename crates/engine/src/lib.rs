//! The engine: takes jobs from the journal and drives each with the owner's step, one task per live job.
//!
//! It owns time and tasks. What a job is and what follows is decided in `core`, remembered by `store` and done by whoever
//! implements [`Trees`]: keepers of real processes, or simulated ones.
//!
//! - [`Engine`]: the handle. Whoever has it may ask: submit, cancel, read.
//! - `life.rs`: one life of an owner: its lease, its claims, its job tasks.
//! - `job_task.rs`: one job, from its claim until it is let go.
//! - [`trees`]: what is done in the world.

mod answers;
mod clock;
mod error;
mod groups;
mod job_task;
mod life;
mod reads;
mod requests;
pub mod trees;

use std::sync::Arc;

use lastword_core::{HostId, JobId, OwnerId};
use lastword_store::Journal;
use tokio::sync::{Notify, broadcast};

pub use answers::{Env, Jobs, NoAttempt, Prune, Pruned, Settled, Stream, Trouble, Until};
pub use clock::now;
pub use error::{Error, FindError};
pub use groups::Group;
pub use lastword_proc::{Read, Recording};
pub use trees::Trees;

/// Changes that a listener may lag behind. Beyond, it is told that it does, and looks at all.
const CHANGES_MAX: usize = 1_024;

/// What an engine needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, stable over restarts.
    pub owner: OwnerId,
    /// The machine it runs on.
    pub host: HostId,
    /// The queues it takes jobs from, and how many of each may be held at once; `None` is no bound.
    pub queues: Vec<(String, Option<u32>)>,
    /// How long its lease lasts. It is renewed at a third of that.
    pub lease_ms: u64,
    /// How often it looks for jobs without having been woken: hints may get lost.
    pub look_ms: u64,
}

/// A running engine. Dropping the last handle stops it; trees that run go on.
#[derive(Clone, Debug)]
pub struct Engine<J> {
    journal: J,
    /// Woken when there may be something to take or to tell.
    wake: Arc<Notify>,
    changes: broadcast::Sender<JobId>,
    alive: Arc<()>,
}

impl<J: Journal> Engine<J> {
    /// Starts an engine on the runtime of the caller.
    pub fn start(journal: J, trees: impl Trees, options: Options) -> Engine<J> {
        let engine = Engine {
            journal: journal.clone(),
            wake: Arc::default(),
            changes: broadcast::Sender::new(CHANGES_MAX),
            alive: Arc::default(),
        };
        let alive = Arc::downgrade(&engine.alive);
        let life = life::Life::new(journal, trees, options, Arc::clone(&engine.wake), alive);
        tokio::spawn(life.run());
        engine
    }

    /// Returns the journal, for whoever only reads.
    pub fn journal(&self) -> &J {
        &self.journal
    }
}
