//! The worker: one owner that claims jobs, and drives each with the owner's step on its host.
//!
//! - `life.rs`: its recovery, its sweeps. `renewal.rs`: its lease. `lives.rs`: lives of others that are over. `hearing.rs`: what other
//!   processes write. `claims.rs`: how it takes jobs.
//!   `slots.rs`: how many. `job_task.rs`: one job from its claim to its release.
//! - `settle.rs`: waits until the deaths that have happened are stored. `wind_up.rs`, `worktrees.rs`: what is left to do after a last word;
//!   `leftovers.rs`: what failed of it. `shared_worktrees.rs`, `worktree_use.rs`: which worktrees must stay.
//! - `shut_down.rs`: the end of this life.

mod claims;
mod hearing;
mod job_task;
mod leftovers;
mod life;
mod lives;
mod renewal;
mod settle;
mod shared_worktrees;
mod shut_down;
mod slots;
mod wind_up;
mod worktree_use;
mod worktrees;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lastword_core::decide::claim::Claimant;
use lastword_core::life::has_run_out;
use lastword_core::{BootTime, JobId};
use lastword_store::Store;
use tokio::sync::{Notify, RwLock, watch};
use tokio::time::Instant;

use crate::desk::Desk;
use crate::host::Host;
use crate::lock::lock;
use crate::{Duties, Options};
use leftovers::Leftovers;
use slots::Slots;
use worktree_use::WorktreeUse;

/// One owner on one host.
pub(crate) struct Worker<J> {
    pub(crate) desk: Arc<Desk<J>>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) options: Options,
    /// This life of the owner; none before it is registered.
    life: Mutex<Option<Present>>,
    slots: Slots,
    /// Shared by claims until the jobs they took have tasks; held alone while jobs without a task are looked for.
    claims: RwLock<()>,
    /// Jobs that are ours and that are not touched, because their log breaks a rule.
    broken: Mutex<HashSet<JobId>>,
    leftovers: Leftovers,
    worktree_use: WorktreeUse,
    /// Everything that the former life held was located.
    ready: watch::Sender<bool>,
    /// Notified when a life was registered.
    registered: Notify,
    /// The journal said that this life is over.
    lapsed: AtomicBool,
    /// No more jobs are claimed.
    going_down: watch::Sender<bool>,
}

impl<J> std::fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<J: Store> Worker<J> {
    pub(crate) fn new(desk: Arc<Desk<J>>, host: Arc<dyn Host>, options: Options) -> Worker<J> {
        Worker {
            desk,
            host,
            life: Mutex::default(),
            slots: Slots::new(if options.duties == Duties::Clerk { Some(0) } else { options.slots }),
            options,
            claims: RwLock::default(),
            broken: Mutex::default(),
            leftovers: Leftovers::default(),
            worktree_use: WorktreeUse::default(),
            ready: watch::Sender::new(false),
            registered: Notify::new(),
            lapsed: AtomicBool::new(false),
            going_down: watch::Sender::new(false),
        }
    }

    /// Waits until everything that the former life held is located, and the result stored.
    pub(crate) async fn until_ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender is a field, so this cannot fail.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// Reports whether that is so by now.
    pub(crate) fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Reports whether no more jobs are claimed.
    pub(crate) fn is_going_down(&self) -> bool {
        *self.going_down.borrow()
    }

    /// Returns this life of the owner, once it is registered.
    fn life(&self) -> Option<Claimant> {
        lock(&self.life).as_ref().map(|present| present.claimant.clone())
    }

    /// Reports whether the lease of this life has run out. Keepers have ended its trees then, and it must not claim or renew any more: another
    /// process may have ended it. A journal of one host has no such process, and its daemon may sleep for as long as it likes.
    fn has_run_out(&self) -> bool {
        lock(&self.life).as_ref().is_some_and(|present| self.is_over(present))
    }

    /// Reports whether this lease has run out.
    fn is_over(&self, present: &Present) -> bool {
        self.desk.journal.is_shared() && has_run_out(present.deadline, self.desk.since_boot())
    }

    /// Notes that this life is over: the next turn begins another one.
    fn note_lapsed(&self) {
        self.lapsed.store(true, Ordering::Relaxed);
        self.desk.agenda.wake();
    }

    /// Reports whether this life is over.
    fn has_lapsed(&self) -> bool {
        self.lapsed.load(Ordering::Relaxed)
    }
}

/// This life of the owner.
#[derive(Clone, Debug)]
struct Present {
    claimant: Claimant,
    /// Its beat.
    beat: u64,
    /// When its lease runs out.
    deadline: BootTime,
    /// When its last renewal was sent.
    sent: Instant,
    /// Whether the journal paused then.
    settling: bool,
}
