//! What keepers of the modelled fleet do: a launch needs a lease, looked at twice, and a tree is ended when its lease is over.

use lastword_core::receipt::{LaunchError, LaunchStep, Level, Proof, Receipt, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Awake, BootTime};

use super::attempt::{Keeper, State, receipt};
use super::coverage::Situation;
use super::world::{Errand, LATE, TICK_MS, World, place};

fn tree(host: usize, attempt: u32) -> Tree {
    Tree {
        boot: place(host).boot.to_string(),
        pid: attempt as i32,
        start_ticks: 1,
        level: Level::Subreaper,
        withheld: None,
    }
}

impl World {
    /// A launch reaches the nursery: the guard looks at the lease. Returns the report, unless the shim is yet to open the gate.
    pub(super) fn launch(&mut self, host: usize, attempt: u32, errand: &Errand) -> Option<Report> {
        if self.keepers.contains_key(&(host, attempt)) {
            // It is refused. An earlier launch of this attempt may have started something.
            return self.locate(host, attempt, errand);
        }
        let is_late = self.is_lease_over(host, errand.under);
        let state = if is_late { State::Never { late: true } } else { State::Starting };
        self.keepers.insert((host, attempt), Keeper::new(state, errand.epoch, errand.under));
        if is_late {
            self.notes.add(Situation::LaunchRefusedByGuard);
        }
        self.launched(host, attempt)
    }

    /// Returns what the worker is told of a launch; none while the shim stands before the gate.
    pub(super) fn launched(&self, host: usize, attempt: u32) -> Option<Report> {
        let no = AttemptNo(attempt);
        Some(match self.keepers.get(&(host, attempt))?.state {
            State::Starting => return None,
            State::Never { late } => {
                let step = if late { LaunchStep::Lease } else { LaunchStep::Keeper };
                let error = "not launched".to_owned();
                Report::LaunchFailed { attempt: no, error, launch_error: Some(LaunchError::at(step)) }
            }
            State::Alive | State::Ended { .. } | State::Copied => {
                Report::Launched { attempt: no, tree: tree(host, attempt), awake: Awake(1) }
            }
        })
    }

    /// The shim looks at the lease once more, right before the gate, and opens it.
    pub(super) fn open_gate(&mut self, host: usize, attempt: u32) {
        let Some(keeper) = self.keepers.get(&(host, attempt)) else { return };
        let is_late = self.is_lease_over(host, keeper.under);
        if is_late {
            self.notes.add(Situation::LaunchRefusedByShim);
        }
        let state = if is_late { State::Never { late: true } } else { State::Alive };
        self.settle_keeper(host, attempt, state);
    }

    /// The leader exits with success.
    pub(super) fn exit(&mut self, host: usize, attempt: u32) {
        self.settle_keeper(host, attempt, State::Ended { by_lease: false });
    }

    /// Guard or shim ends the tree, because its lease is over.
    pub(super) fn end_by_lease(&mut self, host: usize, attempt: u32) {
        let is_frozen = self.keepers.get(&(host, attempt)).is_some_and(|keeper| keeper.is_shim_frozen);
        self.notes.add(if is_frozen { Situation::TreeEndedByGuard } else { Situation::TreeEndedByShim });
        self.settle_keeper(host, attempt, State::Ended { by_lease: true });
    }

    fn settle_keeper(&mut self, host: usize, attempt: u32, state: State) {
        if let Some(keeper) = self.keepers.get_mut(&(host, attempt)) {
            keeper.become_settled(state);
        }
    }

    /// Finds out what became of an attempt on a host. If nothing was started, nothing can be from here on; a tree that is alive follows the
    /// lease of this life from here on. Returns none while the shim stands before the gate: it is asked again later.
    pub(super) fn locate(&mut self, host: usize, attempt: u32, errand: &Errand) -> Option<Report> {
        let intended = self.workers[host].hand.as_ref().and_then(|hand| {
            let known = hand.owner.job().attempts.iter().find(|known| known.no.0 == attempt);
            known.and_then(|known| known.boot.clone())
        });
        let is_of_this_boot = intended.is_none_or(|boot| boot == place(host).boot);
        // Where hosts share a journal, the other boot may be that of a host whose clone this is: time proves its trees dead.
        let by_time = || Found::Ended(Box::new(Receipt::bare(Proof::LeaseSelfFenced)));
        let new = Keeper::new(State::Never { late: false }, errand.epoch, errand.under);
        let Some(keeper) = self.keepers.get_mut(&(host, attempt)) else {
            self.keepers.insert((host, attempt), new);
            let found = if is_of_this_boot { Found::NeverStarted } else { by_time() };
            return Some(Report::Located { attempt: AttemptNo(attempt), found });
        };
        let found = match &keeper.state {
            State::Starting => return None,
            State::Never { .. } => return self.launched(host, attempt),
            State::Copied => {
                self.notes.add(Situation::CloneAccountsByTime);
                by_time()
            }
            State::Ended { by_lease } => Found::Ended(Box::new(receipt(*by_lease))),
            State::Alive => {
                // A keeper obeys the newest claim.
                if errand.epoch >= keeper.epoch {
                    (keeper.epoch, keeper.under) = (errand.epoch, errand.under);
                }
                self.notes.add(Situation::TreeAdopted);
                if self.database.instance().settling.is_some() {
                    self.notes.add(Situation::TreeAdoptedInPause);
                }
                Found::Alive { tree: tree(host, attempt), awake: Awake(1) }
            }
        };
        Some(Report::Located { attempt: AttemptNo(attempt), found })
    }

    /// Returns the report that a watched tree is empty, once it is.
    pub(super) fn emptied(&self, host: usize, attempt: u32) -> Option<Report> {
        let by_lease = match self.keepers.get(&(host, attempt))?.state {
            State::Ended { by_lease } => by_lease,
            _ => return None,
        };
        Some(Report::Emptied { attempt: AttemptNo(attempt), receipt: Box::new(receipt(by_lease)) })
    }

    /// Reports whether time must not go on before this tree is ended. Its keeper is late, but not later than that; if neither part of it can
    /// act, that lasts no longer either, which is an assumption.
    pub(super) fn is_due(&self, host: usize, keeper: &Keeper) -> bool {
        let until = self.leases.get(&(host, keeper.under)).copied().unwrap_or(BootTime(0));
        let is_late = until.plus_ms(LATE * TICK_MS) <= self.clock(host);
        keeper.is_alive() && is_late && (keeper.is_able() || keeper.is_guard_dead)
    }
}
