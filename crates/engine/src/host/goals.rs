//! The goals for one agent: the effects set them, the session pursues them. They stay until reached or moot, so a broken connection does
//! not lose them.

use std::sync::Mutex;

use lastword_core::TurnNo;
use lastword_core::job::PendingInput;
use tokio::sync::{Notify, watch};

use crate::lock::lock;

/// The goals for one agent, shared by effects and session.
#[derive(Debug)]
pub(super) struct AgentGoals {
    goals: Mutex<Goals>,
    /// A goal was added or changed.
    pub(super) changed: Notify,
    /// The agent works on nothing and has nothing left to be told.
    quiet: watch::Sender<bool>,
}

/// What the agent is to be told.
#[derive(Debug, Default)]
pub(super) struct Goals {
    /// Inputs that are not known to be delivered.
    pub(super) inputs: Vec<PendingInput>,
    /// The turn to interrupt.
    pub(super) interrupt: Option<TurnNo>,
    /// End all work.
    pub(super) stop: bool,
}

impl Default for AgentGoals {
    fn default() -> AgentGoals {
        AgentGoals { goals: Mutex::default(), changed: Notify::new(), quiet: watch::channel(false).0 }
    }
}

impl AgentGoals {
    /// Changes the goals and wakes the session.
    pub(super) fn set(&self, change: impl FnOnce(&mut Goals)) {
        change(&mut lock(&self.goals));
        self.changed.notify_one();
    }

    /// Reads the goals in place: the inputs can be large.
    pub(super) fn read<R>(&self, read: impl FnOnce(&Goals) -> R) -> R {
        read(&lock(&self.goals))
    }

    /// Notes whether the agent is quiet.
    pub(super) fn set_quiet(&self, quiet: bool) {
        self.quiet.send_if_modified(|known| std::mem::replace(known, quiet) != quiet);
    }

    /// Waits until the agent is quiet.
    pub(super) async fn until_quiet(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.quiet.subscribe().wait_for(|quiet| *quiet).await;
    }
}
