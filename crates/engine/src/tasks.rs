//! The job tasks that run, by job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lastword_core::JobId;
use tokio::task::AbortHandle;

use crate::mailbox::Mailbox;
use crate::shared::lock;

/// Every job task of this engine.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Mutex<BTreeMap<JobId, Task>>,
    made: AtomicU64,
}

#[derive(Debug)]
struct Task {
    /// How many were made, with this one.
    no: u64,
    mailbox: Arc<Mailbox>,
    /// None for the moment between its place in the list and its start.
    abort: Option<AbortHandle>,
}

impl Tasks {
    /// Makes room for a task of a new claim. One of an earlier claim is over, and is told so.
    pub(crate) fn add(&self, job: JobId) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        let no = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let task = Task { no, mailbox: Arc::clone(&mailbox), abort: None };
        if let Some(former) = lock(&self.tasks).insert(job, task) {
            former.mailbox.nudge();
        }
        mailbox
    }

    /// Notes by what a task that was started can be ended.
    pub(crate) fn started(&self, job: JobId, mailbox: &Arc<Mailbox>, abort: AbortHandle) {
        let mut tasks = lock(&self.tasks);
        if let Some(task) = tasks.get_mut(&job).filter(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            task.abort = Some(abort);
        }
    }

    /// Forgets a task that is over, unless another has taken its place.
    pub(crate) fn remove(&self, job: JobId, mailbox: &Arc<Mailbox>) {
        mailbox.close();
        let mut tasks = lock(&self.tasks);
        if tasks.get(&job).is_some_and(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            tasks.remove(&job);
        }
    }

    /// Tells a task that somebody may have written to its job.
    pub(crate) fn nudge(&self, job: JobId) {
        if let Some(task) = lock(&self.tasks).get(&job) {
            task.mailbox.nudge();
        }
    }

    /// Reports whether a job has a task.
    pub(crate) fn has(&self, job: JobId) -> bool {
        lock(&self.tasks).contains_key(&job)
    }

    /// Returns how many tasks were made so far.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Reports whether a job has a task, and had it when so many were made.
    pub(crate) fn has_since(&self, job: JobId, made: u64) -> bool {
        lock(&self.tasks).get(&job).is_some_and(|task| task.no <= made)
    }

    /// Returns the mailbox of one job, or those of all.
    pub(crate) fn mailboxes(&self, of: Option<JobId>) -> Vec<(JobId, Arc<Mailbox>)> {
        let tasks = lock(&self.tasks);
        let each = |(job, task): (&JobId, &Task)| (*job, Arc::clone(&task.mailbox));
        match of {
            Some(job) => tasks.get_key_value(&job).map(each).into_iter().collect(),
            None => tasks.iter().map(each).collect(),
        }
    }

    /// Returns those in which an ending waits to be stored.
    pub(crate) fn with_ending(&self, of: Option<JobId>) -> Vec<JobId> {
        let tasks = lock(&self.tasks);
        let ends = |(job, task): (&JobId, &Task)| task.mailbox.has_ending().then_some(*job);
        match of {
            Some(job) => tasks.get_key_value(&job).and_then(ends).into_iter().collect(),
            None => tasks.iter().filter_map(ends).collect(),
        }
    }

    /// Ends every task where it stands, as the death of the process would.
    pub(crate) fn abort_all(&self) {
        for task in std::mem::take(&mut *lock(&self.tasks)).into_values() {
            task.mailbox.close();
            if let Some(abort) = task.abort {
                abort.abort();
            }
        }
    }
}
