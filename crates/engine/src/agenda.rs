//! The agenda: what the worker of this process should look at next. A desk writes it, the worker reads it.
//!
//! Every entry is a hint. Losing one costs time, never truth: the worker's sweep finds the same in the journal. A desk on a host without a
//! worker fills an agenda that is never read, and workers elsewhere learn of its writes through the journal.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lastword_core::decide::reschedule;
use lastword_core::{Job, JobId, Timestamp};
use tokio::sync::{Notify, mpsc};

use crate::accounts::Accounts;
use crate::due::Due;
use crate::lock::lock;
use crate::tasks::Tasks;
use crate::unconfirmed::Unconfirmed;

/// Hints for the worker.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// The running job tasks, to be nudged when their job was written to.
    pub(crate) tasks: Tasks,
    /// Times at which a group has something to claim.
    pub(crate) due: Due,
    /// Writes whose result is unknown.
    pub(crate) unconfirmed: Unconfirmed,
    /// Jobs that wait for their providers.
    pub(crate) accounts: Mutex<Accounts>,
    /// Groups that may have something to claim now.
    claimable: Mutex<BTreeSet<String>>,
    /// Jobs that ended, to be wound up, and those whose children must end.
    ended: mpsc::UnboundedSender<Job>,
    /// A claim or a change of groups may have happened without an answer: sweep soon.
    sweep: AtomicBool,
    /// A due time may have been set by a clock that was ahead: check them soon.
    reschedule: AtomicBool,
    wake: Notify,
}

impl Agenda {
    /// Returns an empty agenda, and the ended jobs that the worker winds up.
    pub(crate) fn new() -> (Agenda, mpsc::UnboundedReceiver<Job>) {
        let (ended, to_wind_up) = mpsc::unbounded_channel();
        let agenda = Agenda {
            tasks: Tasks::default(),
            due: Due::default(),
            unconfirmed: Unconfirmed::default(),
            accounts: Mutex::default(),
            claimable: Mutex::default(),
            ended,
            sweep: AtomicBool::new(false),
            reschedule: AtomicBool::new(false),
            wake: Notify::new(),
        };
        (agenda, to_wind_up)
    }

    /// Notes what follows from a write: an ended job is wound up, and a job that can be claimed, or a slot that may be free, wakes the worker.
    pub(crate) fn wrote(&self, job: &Job, now: Timestamp) {
        if job.is_ended() || job.ends_children() {
            // Without a worker nothing receives it.
            let _ = self.ended.send(job.clone());
        }
        let Some(spec) = &job.spec else { return };
        if spec.wait_for_quota.is_some() && lock(&self.accounts).note(job) {
            self.wake();
        }
        match job.due() {
            Some(due) if due > now => {
                self.due.add(due, &spec.group);
                if reschedule::decide(job, now).is_ok_and(|facts| !facts.is_empty()) {
                    self.ask_to_reschedule();
                }
            }
            Some(_) => self.claim(&spec.group),
            // A slot may be free.
            None if job.holder.is_none() || job.idle => self.claim(&spec.group),
            None => return,
        }
        self.wake();
    }

    /// Notes that a group may have something to claim. The caller wakes the worker.
    pub(crate) fn claim(&self, group: &str) {
        let mut claimable = lock(&self.claimable);
        if !claimable.contains(group) {
            claimable.insert(group.to_owned());
        }
    }

    /// Takes the groups that have something to claim now.
    pub(crate) fn take_claimable(&self, now: Timestamp) -> BTreeSet<String> {
        let mut groups = std::mem::take(&mut *lock(&self.claimable));
        groups.extend(self.due.take(now));
        groups
    }

    /// Has a job read again after a pause, because a write to it may or may not have counted.
    pub(crate) fn recheck(&self, id: JobId) {
        self.unconfirmed.add([id]);
        self.wake();
    }

    /// Asks for a sweep at the worker's next turn.
    pub(crate) fn ask_for_sweep(&self) {
        self.sweep.store(true, Ordering::Relaxed);
    }

    /// Reports whether a sweep was asked for, and forgets it.
    pub(crate) fn take_sweep(&self) -> bool {
        self.sweep.swap(false, Ordering::Relaxed)
    }

    /// Asks the worker to check due times at its next turn.
    pub(crate) fn ask_to_reschedule(&self) {
        self.reschedule.store(true, Ordering::Relaxed);
    }

    /// Reports whether due times are to be checked, and forgets it.
    pub(crate) fn take_reschedule(&self) -> bool {
        self.reschedule.swap(false, Ordering::Relaxed)
    }

    /// Wakes the worker.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until the worker is woken.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}
