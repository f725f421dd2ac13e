//! The running job tasks, by job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lastword_core::JobId;
use tokio::task::AbortHandle;

use crate::lock::lock;
use crate::mailbox::{HeldStop, Mailbox};

/// Every job task of this process.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: Mutex<BTreeMap<JobId, Task>>,
    made: AtomicU64,
}

#[derive(Debug)]
struct Task {
    /// Its number in the order of creation.
    no: u64,
    mailbox: Arc<Mailbox>,
    /// The name that its user gave the job.
    name: Option<String>,
    /// Its agent is idle, and takes up no slot.
    is_idle: bool,
    /// None between its entry in the list and its start.
    abort: Option<AbortHandle>,
}

impl Tasks {
    /// Adds a task for a new claim. The task of an earlier claim is obsolete, and is nudged to find out.
    pub(crate) fn add(&self, job: JobId) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        let no = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let task = Task { no, mailbox: Arc::clone(&mailbox), name: None, is_idle: false, abort: None };
        if let Some(former) = lock(&self.tasks).insert(job, task) {
            former.mailbox.nudge();
        }
        mailbox
    }

    /// Notes the handle of a started task, and the name of its job.
    pub(crate) fn started(
        &self,
        job: JobId,
        mailbox: &Arc<Mailbox>,
        name: Option<String>,
        abort: AbortHandle,
    ) {
        let mut tasks = lock(&self.tasks);
        if let Some(task) = tasks.get_mut(&job).filter(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            (task.name, task.abort) = (name, Some(abort));
        }
    }

    /// Returns the jobs with a task that have this id, short form or name.
    pub(crate) fn find(&self, text: &str) -> Vec<JobId> {
        let tasks = lock(&self.tasks);
        let is_meant = |(job, task): &(&JobId, &Task)| {
            task.name.as_deref() == Some(text) || job.to_string() == text || job.short() == text
        };
        tasks.iter().filter(is_meant).map(|(job, _)| *job).collect()
    }

    /// Removes a task that is over, unless another has taken its place.
    pub(crate) fn remove(&self, job: JobId, mailbox: &Arc<Mailbox>) {
        mailbox.close();
        let mut tasks = lock(&self.tasks);
        if tasks.get(&job).is_some_and(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            tasks.remove(&job);
        }
    }

    /// Reports whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.tasks).is_empty()
    }

    /// Tells a task that the log of its job may have grown.
    pub(crate) fn nudge(&self, job: JobId) {
        if let Some(task) = lock(&self.tasks).get(&job) {
            task.mailbox.nudge();
        }
    }

    /// Tells the task of an idle agent that it has a slot again.
    pub(crate) fn wake(&self, job: JobId) {
        if let Some(task) = lock(&self.tasks).get_mut(&job) {
            task.is_idle = false;
        }
        self.nudge(job);
    }

    /// Tells every task to look at its job again.
    pub(crate) fn nudge_all(&self) {
        lock(&self.tasks).values().for_each(|task| task.mailbox.nudge());
    }

    /// Hands a task a stop that the journal cannot store. Without a task it is dropped, which answers it.
    pub(crate) fn hold_stop(&self, job: JobId, stop: HeldStop) {
        if let Some(task) = lock(&self.tasks).get(&job) {
            task.mailbox.hold_stop(stop);
        }
    }

    /// Reports whether a job has a task.
    pub(crate) fn has(&self, job: JobId) -> bool {
        lock(&self.tasks).contains_key(&job)
    }

    /// Returns how many jobs have a task and take up a slot.
    pub(crate) fn with_slot(&self) -> usize {
        lock(&self.tasks).values().filter(|task| !task.is_idle).count()
    }

    /// Notes whether the agent of a job is idle.
    pub(crate) fn set_idle(&self, job: JobId, mailbox: &Arc<Mailbox>, is_idle: bool) {
        let mut tasks = lock(&self.tasks);
        if let Some(task) = tasks.get_mut(&job).filter(|task| Arc::ptr_eq(&task.mailbox, mailbox)) {
            task.is_idle = is_idle;
        }
    }

    /// Returns how many tasks were created so far.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Reports whether a job has a task that was among the first `made`.
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

    /// Returns the jobs with an ending that waits to be stored.
    pub(crate) fn with_ending(&self, of: Option<JobId>) -> Vec<JobId> {
        let tasks = lock(&self.tasks);
        let ends = |(job, task): (&JobId, &Task)| task.mailbox.has_ending().then_some(*job);
        match of {
            Some(job) => tasks.get_key_value(&job).and_then(ends).into_iter().collect(),
            None => tasks.iter().filter_map(ends).collect(),
        }
    }

    /// Aborts every task, as the death of the process would.
    pub(crate) fn abort_all(&self) {
        for task in std::mem::take(&mut *lock(&self.tasks)).into_values() {
            task.mailbox.close();
            if let Some(abort) = task.abort {
                abort.abort();
            }
        }
    }
}
