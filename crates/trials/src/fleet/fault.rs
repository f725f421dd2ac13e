//! What can happen to a fleet, and the phases of a job in which it can happen.

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    KillWorker,
    KillServer,
    KillShim,
    KillGuard,
    FreezeWorker,
    FreezeShim,
    FreezeBoth,
    CutToServers,
    CutFromServers,
    CutDatabase,
    KillDatabase,
    Promote,
    PromoteBehind,
    Restore,
    WrongClock,
    Reboot,
    Clone,
    Upgrade,
}

/// Every fault, with its name.
#[rustfmt::skip] // One row, one fault.
pub(super) const FAULTS: [(Fault, &str); 18] = [
    (Fault::KillWorker, "kill -9 of a worker"),
    (Fault::KillServer, "kill -9 of a server"),
    (Fault::KillShim, "kill -9 of a shim"),
    (Fault::KillGuard, "kill -9 of a guard"),
    (Fault::FreezeWorker, "worker frozen past its lease"),
    (Fault::FreezeShim, "shim frozen past the lease"),
    (Fault::FreezeBoth, "worker and shim frozen past the lease"),
    (Fault::CutToServers, "link cut, worker to servers"),
    (Fault::CutFromServers, "link cut, servers to worker"),
    (Fault::CutDatabase, "server and database cut"),
    (Fault::KillDatabase, "database killed and restarted"),
    (Fault::Promote, "synchronous standby promoted"),
    (Fault::PromoteBehind, "standby that is behind promoted"),
    (Fault::Restore, "database put back to a snapshot"),
    (Fault::WrongClock, "clock of the database an hour off"),
    (Fault::Reboot, "host rebooted"),
    (Fault::Clone, "host cloned"),
    (Fault::Upgrade, "worker stopped with its trees, started again"),
];

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Queued,
    Launching,
    Running,
    Stopping,
    /// Between two attempts.
    Between,
    /// There is none: no job is held by the worker that is struck, or by any.
    Idle,
}

pub(super) const PHASES: [(Phase, &str); 6] = [
    (Phase::Queued, "queued"),
    (Phase::Launching, "launching"),
    (Phase::Running, "running"),
    (Phase::Stopping, "stopping"),
    (Phase::Between, "between"),
    (Phase::Idle, "none"),
];

impl Phase {
    /// Reports whether a worker has the job.
    pub(super) fn is_held(self) -> bool {
        matches!(self, Phase::Launching | Phase::Running | Phase::Stopping)
    }
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        FAULTS.iter().find(|(fault, _)| *fault == self).map_or("?", |(_, name)| name)
    }

    /// Reports whether writes may be lost that were acknowledged.
    pub(super) fn loses_writes(self) -> bool {
        matches!(self, Fault::PromoteBehind | Fault::Restore)
    }

    /// Reports whether it strikes the keeper of a tree, which an idle worker does not have.
    pub(super) fn is_of_keeper(self) -> bool {
        matches!(self, Fault::KillShim | Fault::KillGuard | Fault::FreezeShim | Fault::FreezeBoth)
    }

    /// Reports whether it replaces the database: one history has one of these at most.
    pub(super) fn replaces_database(self) -> bool {
        matches!(self, Fault::Promote | Fault::PromoteBehind | Fault::Restore)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name() {
        let mut names: Vec<&str> = FAULTS.iter().map(|(fault, _)| fault.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FAULTS.len());
    }
}
