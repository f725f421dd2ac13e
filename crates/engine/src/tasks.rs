//! The job tasks that run, by job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lastword_core::JobId;
use tokio::task::AbortHandle;

use crate::mailbox::Mailbox;
use crate::shared::lock;

/// Every job task of this engine.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<BTreeMap<JobId, Task>>);

#[derive(Debug)]
struct Task {
    mailbox: Arc<Mailbox>,
    /// None for the moment between its place in the list and its start.
    abort: Option<AbortHandle>,
}

impl Tasks {
    /// Makes room for a task of a new claim. One of an earlier claim is over, and is told so.
    pub(crate) fn add(&self, job: JobId) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        let task = Task { mailbox: Arc::clone(&mailbox), abort: None };
        if let Some(former) = lock(&self.0).insert(job, task) {
            former.mailbox.nudge();
        }
        mailbox
    }

    /// Notes by what a task that was started can be ended.
    pub(crate) fn started(&self, job: JobId, mailbox: &Arc<Mailbox>, abort: AbortHandle) {
        let mut tasks = lock(&self.0);
        if let Some(task) = tasks.get_mut(&job).filter(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            task.abort = Some(abort);
        }
    }

    /// Forgets a task that is over, unless another has taken its place.
    pub(crate) fn remove(&self, job: JobId, mailbox: &Arc<Mailbox>) {
        mailbox.close();
        let mut tasks = lock(&self.0);
        if tasks.get(&job).is_some_and(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            tasks.remove(&job);
        }
    }

    /// Tells a task that somebody may have written to its job.
    pub(crate) fn nudge(&self, job: JobId) {
        if let Some(task) = lock(&self.0).get(&job) {
            task.mailbox.nudge();
        }
    }

    /// Reports whether a job has a task.
    pub(crate) fn has(&self, job: JobId) -> bool {
        lock(&self.0).contains_key(&job)
    }

    /// Returns the mailbox of one job, or those of all.
    pub(crate) fn mailboxes(&self, of: Option<JobId>) -> Vec<(JobId, Arc<Mailbox>)> {
        let tasks = lock(&self.0);
        let each = |(job, task): (&JobId, &Task)| (*job, Arc::clone(&task.mailbox));
        match of {
            Some(job) => tasks.get_key_value(&job).map(each).into_iter().collect(),
            None => tasks.iter().map(each).collect(),
        }
    }

    /// Returns those in which an ending waits to be stored.
    pub(crate) fn with_ending(&self, of: Option<JobId>) -> Vec<JobId> {
        let tasks = lock(&self.0);
        let ends = |(job, task): (&JobId, &Task)| task.mailbox.has_ending().then_some(*job);
        match of {
            Some(job) => tasks.get_key_value(&job).and_then(ends).into_iter().collect(),
            None => tasks.iter().filter_map(ends).collect(),
        }
    }

    /// Ends every task where it stands, as the death of the process would.
    pub(crate) fn abort_all(&self) {
        for task in std::mem::take(&mut *lock(&self.0)).into_values() {
            task.mailbox.close();
            if let Some(abort) = task.abort {
                abort.abort();
            }
        }
    }
}
