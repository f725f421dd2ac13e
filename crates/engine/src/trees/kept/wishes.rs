//! What is wanted of an agent: by whoever carries out effects, for whoever speaks to it. Wishes stay until they are granted or moot,
//! so that they are not lost with a connection.

use std::sync::Mutex;

use lastword_core::TurnNo;
use lastword_core::job::PendingInput;
use tokio::sync::{Notify, watch};

use crate::shared::lock;

/// The wishes for one agent.
#[derive(Debug)]
pub(super) struct Wishes {
    wanted: Mutex<Wanted>,
    /// There is another wish.
    pub(super) came: Notify,
    /// Whether the agent works on nothing and has nothing to be told.
    quiet: watch::Sender<bool>,
}

/// What is wanted.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Inputs that are not known to be delivered.
    pub(super) inputs: Vec<PendingInput>,
    /// The turn that is to end.
    pub(super) interrupt: Option<TurnNo>,
    /// Whatever it does is to end.
    pub(super) stop: bool,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes { wanted: Mutex::default(), came: Notify::new(), quiet: watch::channel(false).0 }
    }
}

impl Wishes {
    /// Adds to what is wanted.
    pub(super) fn want(&self, change: impl FnOnce(&mut Wanted)) {
        change(&mut lock(&self.wanted));
        self.came.notify_one();
    }

    /// Looks at what is wanted by now. It may be much, and is not copied for that.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Wanted) -> R) -> R {
        look(&lock(&self.wanted))
    }

    /// Says whether the agent is quiet.
    pub(super) fn tell_quiet(&self, quiet: bool) {
        self.quiet.send_if_modified(|told| std::mem::replace(told, quiet) != quiet);
    }

    /// Waits until the agent is quiet.
    pub(super) async fn until_quiet(&self) {
        // It is never closed while somebody waits.
        let _ = self.quiet.subscribe().wait_for(|quiet| *quiet).await;
    }
}
