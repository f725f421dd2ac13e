//! What a job task is told: answers of the journal, reports from the world, and hints.
//!
//! One small allocation per live job instead of channels that are sized for a crowd. It also knows whether an ending waits in
//! it, so that a read can wait for just that.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::owner::Input;
use lastword_core::report::{Found, Report};
use tokio::sync::Notify;

/// Reports that may wait for one job. The owner's step keeps as many while the journal is away; whoever reports waits then.
const REPORTS_MAX: usize = 256;

/// The mailbox of one job task.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    /// Something came.
    came: Notify,
    /// There may be room again.
    room: Notify,
    /// Nothing is under way any more.
    settled: Notify,
}

#[derive(Debug, Default)]
struct State {
    inputs: VecDeque<Input>,
    /// Somebody may have written to the job.
    news: bool,
    /// The engine goes down: finish what is under way, and go.
    leave: bool,
    /// How a tree ended was reported, and is not stored yet.
    ending: bool,
    /// What became of a tree that an earlier owner left is not known yet.
    looking: bool,
    /// The task is over.
    over: bool,
}

/// What a task does next.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Takes this.
    Input(Input),
    /// Goes.
    Leave,
}

impl Mailbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in an answer of the journal.
    pub(crate) fn answer(&self, answer: Input) {
        self.state().inputs.push_back(answer);
        self.came.notify_one();
    }

    /// Says that somebody may have written to the job. Once is as good as often.
    pub(crate) fn nudge(&self) {
        self.state().news = true;
        self.came.notify_one();
    }

    /// Asks the task to finish what is under way, and to go.
    pub(crate) fn leave(&self) {
        self.state().leave = true;
        self.came.notify_one();
    }

    /// Takes back that it is to go.
    pub(crate) fn stay(&self) {
        self.state().leave = false;
    }

    /// Takes what is next, or waits for it. `busy` holds a wish to leave back.
    pub(crate) async fn next(&self, busy: bool) -> Mail {
        loop {
            let came = self.came.notified();
            if let Some(mail) = self.take(busy) {
                return mail;
            }
            came.await;
        }
    }

    fn take(&self, busy: bool) -> Option<Mail> {
        let mut state = self.state();
        if let Some(input) = state.inputs.pop_front() {
            self.room.notify_waiters();
            return Some(Mail::Input(input));
        }
        if state.leave && !busy {
            return Some(Mail::Leave);
        }
        std::mem::take(&mut state.news).then_some(Mail::Input(Input::News))
    }

    /// Says that all of what was reported is stored, unless more has come since.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if state.inputs.is_empty() {
            // A job waits for most of its life, and keeps no room for mail meanwhile.
            state.inputs = VecDeque::new();
            if std::mem::take(&mut state.ending) {
                self.settled.notify_waiters();
            }
        }
    }

    /// Says that the task is over.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        (state.over, state.ending, state.looking) = (true, false, false);
        self.settled.notify_waiters();
        self.room.notify_waiters();
    }

    /// Reports whether an ending waits to be stored, or may: somebody looks for the tree.
    pub(crate) fn has_ending(&self) -> bool {
        let state = self.state();
        state.ending || state.looking
    }

    /// Says whether it must be found out what became of a tree that an earlier owner left.
    pub(crate) fn look(&self, looking: bool) {
        if std::mem::replace(&mut self.state().looking, looking) && !looking {
            self.settled.notify_waiters();
        }
    }

    /// Reports whether the task is over.
    pub(crate) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until `is_so`, which is asked whenever something was settled.
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

    /// Says that something about the tree was found out that changes nothing in the log: it is alive after all.
    pub(crate) fn found_out(&self) {
        self.settled.notify_waiters();
    }
}

/// Where those who carry out effects report to.
#[derive(Clone, Debug)]
pub struct Reports(Arc<Mailbox>);

impl Reports {
    pub(crate) fn to(mailbox: &Arc<Mailbox>) -> Reports {
        Reports(Arc::clone(mailbox))
    }

    /// Reports something; waits while too much of what was reported is not stored yet.
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
                    mailbox.came.notify_one();
                    return;
                }
            }
            room.await;
        }
    }

    /// Says that the keeper that seemed gone is there: nothing is to be reported.
    pub fn is_there(&self) {
        self.0.found_out();
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
