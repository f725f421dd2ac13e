//! The folder of an attempt on a host of the modelled fleet, with its guard, its shim and its tree: the truth about trees.

use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Receipt};
use lastword_core::{Epoch, Incarnation};

/// The folder of an attempt with its keeper.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Keeper {
    pub(super) state: State,
    /// The newest claim that it has heard of.
    pub(super) epoch: Epoch,
    /// The life whose lease it follows.
    pub(super) under: Incarnation,
    pub(super) is_shim_frozen: bool,
    pub(super) is_guard_dead: bool,
}

/// What became of an attempt on a host.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// The guard has looked at the lease; the shim stands before the gate.
    Starting,
    /// The tree works.
    Alive,
    /// The tree is empty: its leader exited, or the lease was over.
    Ended { by_lease: bool },
    /// Nothing was started, and nothing can be; perhaps because the lease was over.
    Never { late: bool },
    /// A copy of the folder of another host, whose keeper is there.
    Copied,
}

impl Keeper {
    pub(super) fn new(state: State, epoch: Epoch, under: Incarnation) -> Keeper {
        Keeper { state, epoch, under, is_shim_frozen: false, is_guard_dead: false }
    }

    /// Returns what a clone of its host has of it.
    pub(super) fn copied(&self) -> Keeper {
        let state = match &self.state {
            State::Starting | State::Alive => State::Copied,
            known => known.clone(),
        };
        Keeper::new(state, self.epoch, self.under)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.state == State::Alive
    }

    /// Reports whether its guard ends the tree when the lease is over.
    fn guard_keeps_time(&self) -> bool {
        !self.is_guard_dead
    }

    /// Reports whether the shim or the guard can end the tree.
    pub(super) fn is_able(&self) -> bool {
        !self.is_shim_frozen || self.guard_keeps_time()
    }

    /// Comes to an end of its work, in this state.
    pub(super) fn become_settled(&mut self, state: State) {
        (self.state, self.is_shim_frozen, self.is_guard_dead) = (state, false, false);
    }
}

/// Returns the receipt of a tree that is empty.
pub(super) fn receipt(by_lease: bool) -> Receipt {
    let bare = Receipt { level: Level::Subreaper, ..Receipt::bare(Proof::NoChildren) };
    match by_lease {
        true => Receipt { exit: Some(Exit::Signal(9)), keeper_stop: Some(KeeperStop::Lease), ..bare },
        false => Receipt { exit: Some(Exit::Code(0)), exited_first: true, ..bare },
    }
}
