//! The mailbox of a job task: answers of the journal, reports of the host, and hints.
//!
//! One small allocation per live job. It also knows whether an ending waits in it, so that a read can wait for just that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::Job;
use lastword_core::owner::Input;
use lastword_core::report::{Found, Report};
use tokio::sync::{Notify, oneshot};

/// Reports that may wait for one job. The owner's step keeps as many while the journal is unavailable; reporters wait then.
const REPORTS_MAX: usize = 256;

/// The mailbox of one job task.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    /// Mail arrived.
    arrived: Notify,
    /// There may be room again.
    room: Notify,
    /// An ending was stored, or the task is over.
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    inputs: VecDeque<Input>,
    /// Stops that the journal could not store.
    held_stops: Vec<HeldStop>,
    /// The log may have grown.
    news: bool,
    /// Shutdown: finish what is under way, and leave.
    leave: bool,
    /// The end of a tree was reported and is not stored yet.
    ending: bool,
    /// The tree of an earlier owner is not located yet.
    locating: bool,
    /// The task is over.
    over: bool,
}

/// A request to a job task: tell the keeper of the tree. The answer is missing if no tree of the job can be reached.
#[derive(Debug)]
pub(crate) struct HeldStop {
    /// Skip to the last rung.
    pub(crate) force: bool,
    /// For what the keeper then holds.
    pub(crate) answer: oneshot::Sender<Held>,
}

/// A stop that a keeper holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The job as stored, without the request.
    pub job: Box<Job>,
    /// Whether the keeper has the request on disk; otherwise in memory.
    pub on_disk: bool,
}

/// What a task gets next.
#[derive(Debug)]
pub(crate) enum Mail {
    /// An input for the owner's step.
    Input(Input),
    /// A stop for the keeper, without the journal.
    Stop(HeldStop),
    /// Leave.
    Leave,
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer of the journal.
    pub(crate) fn answer(&self, answer: Input) {
        self.state().inputs.push_back(answer);
        self.arrived.notify_one();
    }

    /// Notes that the log may have grown. Repeating it changes nothing.
    pub(crate) fn nudge(&self) {
        self.state().news = true;
        self.arrived.notify_one();
    }

    /// Adds a stop that the journal could not store. A task that is over drops it.
    pub(crate) fn hold_stop(&self, stop: HeldStop) {
        let mut state = self.state();
        if !state.over {
            state.held_stops.push(stop);
            self.arrived.notify_one();
        }
    }

    /// Asks the task to finish what is under way, and to leave.
    pub(crate) fn leave(&self) {
        self.state().leave = true;
        self.arrived.notify_one();
    }

    /// Takes that back.
    pub(crate) fn stay(&self) {
        self.state().leave = false;
    }

    /// Takes the next mail, or waits for it. While `busy`, the task does not leave.
    pub(crate) async fn next(&self, busy: bool) -> Mail {
        loop {
            let arrived = self.arrived.notified();
            if let Some(mail) = self.take(busy) {
                return mail;
            }
            arrived.await;
        }
    }

    fn take(&self, busy: bool) -> Option<Mail> {
        let mut state = self.state();
        if let Some(stop) = state.held_stops.pop() {
            return Some(Mail::Stop(stop));
        }
        if let Some(input) = state.inputs.pop_front() {
            self.room.notify_waiters();
            return Some(Mail::Input(input));
        }
        if state.leave && !busy {
            return Some(Mail::Leave);
        }
        std::mem::take(&mut state.news).then_some(Mail::Input(Input::News))
    }

    /// Notes that every report is stored, unless more have come since.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if state.inputs.is_empty() {
            // A job waits for most of its life: free the buffer meanwhile.
            state.inputs = VecDeque::new();
            if std::mem::take(&mut state.ending) {
                self.settled.notify_waiters();
            }
        }
    }

    /// Notes that the task is over.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        (state.over, state.ending, state.locating) = (true, false, false);
        state.held_stops.clear();
        self.settled.notify_waiters();
        self.room.notify_waiters();
    }

    /// Reports whether an ending waits to be stored, or may: the tree is being located.
    pub(crate) fn has_ending(&self) -> bool {
        let state = self.state();
        state.ending || state.locating
    }

    /// Notes whether the tree of an earlier owner is still to be located.
    pub(crate) fn set_locating(&self, locating: bool) {
        if std::mem::replace(&mut self.state().locating, locating) && !locating {
            self.settled.notify_waiters();
        }
    }

    /// Reports whether the task is over.
    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until `is_so`, which is checked whenever something was settled.
    pub(crate) async fn until_settled(&self, is_so: impl Fn() -> bool) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if is_so() {
                return;
            }
            settled.await;
        }
    }

    /// Notes that the tree is alive after all: nothing is to be stored.
    fn found_alive(&self) {
        self.settled.notify_waiters();
    }
}

/// The address for reports of effects.
#[derive(Clone, Debug)]
pub struct Reports(Arc<Mailbox>);

impl Reports {
    pub(crate) fn to(mailbox: &Arc<Mailbox>) -> Reports {
        Reports(Arc::clone(mailbox))
    }

    /// Reports; waits while too many reports are not stored yet.
    pub async fn report(&self, report: Report) {
        let Reports(mailbox) = self;
        loop {
            let room = mailbox.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            {
                let mut state = mailbox.state();
                if state.over {
                    return;
                }
                if state.inputs.len() < REPORTS_MAX {
                    state.ending |= ends(&report);
                    state.inputs.push_back(Input::Report(report));
                    mailbox.arrived.notify_one();
                    return;
                }
            }
            room.await;
        }
    }

    /// Notes that a keeper that seemed gone is there: nothing is to be reported.
    pub fn is_there(&self) {
        self.0.found_alive();
    }
}

/// Reports whether a report tells of the end of a tree.
fn ends(report: &Report) -> bool {
    match report {
        Report::Emptied { .. } | Report::LaunchFailed { .. } => true,
        Report::Located { found, .. } => !matches!(found, Found::Alive { .. }),
        Report::Launched { .. }
        | Report::Climbed { .. }
        | Report::Told { .. }
        | Report::Heard { .. }
        | Report::Unclear(_) => false,
    }
}
