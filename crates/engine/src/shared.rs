//! What the handle, the life and the job tasks of one engine share, and what follows from a write.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::decide::claim::Claimant;
use lastword_core::decide::{Decision, depend};
use lastword_core::outcome::Outcome;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, AppendId, Job, JobId, Now, Seq};
use lastword_store::siblings::Siblings;
use lastword_store::{self as store, Filter, Read};
use tokio::sync::{Notify, RwLock, broadcast, watch};

use crate::dependents::Dependents;
use crate::doubts::Doubts;
use crate::due::Due;
use crate::groups::Groups;
use crate::tasks::Tasks;
use crate::troubles::Troubles;
use crate::worktrees::{WorktreeUse, keeps_worktree};
use crate::{Error, Options, Trees};

/// How often a request is decided anew because somebody else wrote first. A job is written to by its owner and by people; more
/// than this is a bug, not a crowd.
const TRIES_MAX: u32 = 32;

/// Rows read at once.
const PAGE: u32 = 500;

/// Changes that a listener may lag behind. Beyond, it is told that it does, and looks at all.
const CHANGES_MAX: usize = 1_024;

/// Everything that is shared.
pub(crate) struct Shared<J> {
    pub(crate) journal: J,
    pub(crate) trees: Arc<dyn Trees>,
    pub(crate) options: Options,
    pub(crate) tasks: Tasks,
    pub(crate) troubles: Troubles,
    pub(crate) groups: Groups,
    pub(crate) dependents: Dependents,
    pub(crate) due: Due,
    pub(crate) changes: broadcast::Sender<JobId>,
    waiters: Mutex<HashMap<JobId, Arc<Notify>>>,
    /// Which life this is; none before it is registered.
    pub(crate) claimant: Mutex<Option<Claimant>>,
    /// Shared by claims until what they took has its task; held alone by whoever looks for jobs that have none.
    pub(crate) claims: RwLock<()>,
    /// A claim may have brought something of which nobody was told.
    pub(crate) unsure: AtomicBool,
    /// Requests of which nobody knows whether they count.
    pub(crate) doubts: Doubts,
    /// An environment that nobody needs could not be removed.
    pub(crate) envs_left: AtomicBool,
    /// Jobs whose worktree could not be left as it should be.
    pub(crate) worktrees_left: Mutex<HashSet<JobId>>,
    /// Jobs that run in the worktree of another job.
    pub(crate) worktree_use: WorktreeUse,
    /// Queues in which there may be something to take.
    wanted: Mutex<BTreeSet<String>>,
    /// Wakes the life.
    pub(crate) wake: Notify,
    /// What the former life held was looked for.
    pub(crate) ready: watch::Sender<bool>,
    /// Nothing more is taken.
    pub(crate) going_down: watch::Sender<bool>,
    /// Jobs that are ours and that nobody may touch, because their log breaks a rule.
    pub(crate) broken: Mutex<HashSet<JobId>>,
}

impl<J> std::fmt::Debug for Shared<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Locks what no panic can leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<J: Siblings> Shared<J> {
    pub(crate) fn new(journal: J, trees: Arc<dyn Trees>, options: Options) -> Shared<J> {
        Shared {
            journal,
            trees,
            options,
            tasks: Tasks::default(),
            troubles: Troubles::default(),
            groups: Groups::default(),
            dependents: Dependents::default(),
            due: Due::default(),
            changes: broadcast::Sender::new(CHANGES_MAX),
            waiters: Mutex::default(),
            claimant: Mutex::default(),
            claims: RwLock::default(),
            unsure: AtomicBool::new(false),
            doubts: Doubts::default(),
            envs_left: AtomicBool::new(false),
            worktrees_left: Mutex::default(),
            worktree_use: WorktreeUse::default(),
            wanted: Mutex::default(),
            wake: Notify::new(),
            ready: watch::Sender::new(false),
            going_down: watch::Sender::new(false),
            broken: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.trees.now()
    }

    /// Tells a person.
    pub(crate) fn trouble(&self, job: Option<JobId>, what: impl Into<String>, next: &str) {
        self.troubles.add(self.now().wall, job, what.into(), next);
    }

    /// Tells a person that the journal said no.
    pub(crate) fn journal_trouble(&self, job: Option<JobId>, what: &str, error: &store::Error) {
        let next = match error {
            store::Error::Corrupt(_) => {
                "nothing is changed any more where the journal is damaged: restore it from a copy"
            }
            _ => {
                "it is tried again by itself: look for room on the disk and for the rights of the state folder"
            }
        };
        self.trouble(job, format!("{what}: {error}"), next);
    }

    /// Returns a job as it is remembered; an unborn one if nothing is.
    pub(crate) async fn load(&self, id: JobId) -> Result<Job, Error> {
        let events = self.journal.load(id, Seq(0)).await?;
        Ok(Job::fold(id, &events)?)
    }

    /// Returns the rows of every job that is not over.
    pub(crate) async fn live_rows(&self) -> Result<Vec<Row>, store::Error> {
        let (mut live, mut before) = (Vec::new(), None);
        loop {
            let phases = PhaseName::ALL.into_iter().filter(|phase| *phase != PhaseName::Ended).collect();
            let filter = Filter { phases, ..Filter::default() };
            let rows = self.journal.read(Read::Rows { filter, before, limit: PAGE }).await?.rows();
            let is_last = rows.len() < PAGE as usize;
            before = rows.last().map(|row| row.job);
            live.extend(rows);
            if is_last {
                return Ok(live);
            }
        }
    }

    /// Decides on the newest state and stores what follows; returns the job after it.
    pub(crate) async fn request(
        self: &Arc<Self>,
        id: JobId,
        append_id: AppendId,
        decide: impl Fn(&Job) -> Decision,
    ) -> Result<Job, Error> {
        let mut tries = 0;
        loop {
            let job = self.load(id).await?;
            let facts = decide(&job)?;
            if facts.is_empty() {
                // Asked for before, perhaps by somebody whose answer was lost.
                self.tasks.nudge(id);
                return Ok(job);
            }
            let (append, after) = Append::new(&job, None, append_id, self.now().wall, facts)?;
            let doubt = self.doubt(id);
            let stored = self.journal.append(append).await;
            if !matches!(stored, Err(store::Error::Unavailable(_))) {
                doubt.settle();
            }
            match stored {
                Ok(_) => {
                    self.tasks.nudge(id);
                    self.wrote(&after);
                    return Ok(after);
                }
                Err(store::Error::Conflict { .. }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does what follows from a write: tells who waits, wakes who may take it, and winds up what ended.
    pub(crate) fn wrote(self: &Arc<Self>, job: &Job) {
        self.changed(job.id);
        if let Some(last_word) = job.last_word() {
            self.ended(job, last_word.outcome);
        }
        self.want_for(job);
    }

    /// Wakes who may take a job, now or later, or another one in its place.
    fn want_for(&self, job: &Job) {
        let Some(spec) = &job.spec else { return };
        match job.due() {
            Some(due) if due > self.now().wall => self.due.add(due, &spec.group),
            Some(_) => self.want(&spec.group),
            // A slot may be free.
            None if job.holder.is_none() => self.want(&spec.group),
            None => return,
        }
        self.wake.notify_one();
    }

    /// Tells who waits for a job that there is something new about it.
    pub(crate) fn changed(&self, id: JobId) {
        // Nobody listens: nobody needs to know.
        let _ = self.changes.send(id);
        if let Some(waiter) = lock(&self.waiters).get(&id) {
            waiter.notify_waiters();
        }
    }

    /// Winds up a job that is over.
    fn ended(self: &Arc<Self>, job: &Job, outcome: Outcome) {
        let (id, keep) = (job.id, keeps_worktree(job));
        self.troubles.forget(id);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = shared.trees.drop_env(id).await {
                shared.envs_left.store(true, Ordering::Relaxed);
                let what = format!("its environment could not be removed: {error}");
                shared.trouble(
                    Some(id),
                    what,
                    "it is tried again by itself: look for the rights of the state folder",
                );
            }
            shared.tell_dependents(id, outcome).await;
            if let Some(keep) = keep {
                shared.leave_worktree(id, keep).await;
            }
        });
    }

    /// Tells the jobs that wait for `other` how it ended. Who cannot be told now is told by a later sweep.
    pub(crate) async fn tell_dependents(self: &Arc<Self>, other: JobId, outcome: Outcome) {
        for dependent in self.dependents.of(other) {
            let Ok(append_id) = self.append_id() else { return };
            let told = self.request(dependent, append_id, |job| depend::decide(job, other, outcome)).await;
            match told {
                Ok(_) => self.dependents.remove(other, dependent),
                Err(error) => {
                    if matches!(error, Error::Journal(store::Error::Unavailable(_))) {
                        self.look_again(other);
                    }
                    let what = format!("it could not be told that {other} has ended: {error}");
                    self.trouble(Some(dependent), what, "it is told again by itself");
                }
            }
        }
    }

    /// Says that there may be something to take in a queue.
    pub(crate) fn want(&self, queue: &str) {
        let mut wanted = lock(&self.wanted);
        if !wanted.contains(queue) {
            wanted.insert(queue.to_owned());
        }
    }

    /// Returns the queues in which there may be something to take, and forgets them.
    pub(crate) fn wanted(&self) -> BTreeSet<String> {
        std::mem::take(&mut lock(&self.wanted))
    }

    /// Returns what is notified when there is something new about a job.
    pub(crate) fn waiter(self: &Arc<Self>, id: JobId) -> Waiter<J> {
        let notify = Arc::clone(lock(&self.waiters).entry(id).or_default());
        Waiter { shared: Arc::clone(self), id, notify }
    }
}

/// Somebody who waits for one job.
pub(crate) struct Waiter<J> {
    shared: Arc<Shared<J>>,
    id: JobId,
    pub(crate) notify: Arc<Notify>,
}

impl<J> Drop for Waiter<J> {
    fn drop(&mut self) {
        let mut waiters = lock(&self.shared.waiters);
        // The map's and ours: nobody else waits.
        if Arc::strong_count(&self.notify) <= 2 {
            waiters.remove(&self.id);
        }
    }
}
