//! The adversaries as the judge knows them: their names, and how long stopping one may take.

use std::time::Duration;

/// The p99 from the request to an empty tree that a small one may take, on a loaded machine with two cores.
const SMALL: Duration = Duration::from_millis(250);

/// The same for one that fills every process it may have.
const STORM: Duration = Duration::from_secs(1);

/// One kind of tree that does not want to die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Adversary {
    pub(crate) name: &'static str,
    /// What it does, for the table.
    pub(crate) about: &'static str,
    /// How many processes it has at least once it is settled: its receipt must count them.
    pub(crate) members: u64,
    /// What the p99 from the request to the empty tree may be.
    pub(crate) bound: Duration,
}

const fn small(name: &'static str, members: u64, about: &'static str) -> Adversary {
    Adversary { name, about, members, bound: SMALL }
}

/// The tree that leaves a daemon where no keeper is its ancestor: it may survive a receipt that is not certain.
pub(crate) const OTHER_NAMESPACE: &str = "other-namespace";

#[rustfmt::skip] // One row, one adversary.
pub(crate) const ADVERSARIES: &[Adversary] = &[
    small("family", 3, "child and grandchild"),
    small("own-session", 3, "setsid"),
    small("daemon", 2, "double fork"),
    small("daemon-alone", 1, "double fork, leader gone"),
    small("daemon-bare", 2, "double fork, no environment"),
    small("undumpable", 2, "double fork, not dumpable"),
    small("deaf", 3, "ignores TERM, INT, HUP"),
    small("own-groups", 3, "process groups of their own"),
    small("runner", 1, "forks and exits for ever"),
    small("runner-sessions", 1, "the same with setsid"),
    small("runners", 1, "20 of these at once"),
    Adversary { name: "storm", about: "all fork, up to the cap", members: 1, bound: STORM },
    small("burst", 5, "31 deaf, in groups and sessions"),
    small("stopped", 3, "SIGSTOPped"),
    small("zombies", 1, "20 not waited for"),
    small("blocked-writers", 2, "4 blocked on a full pipe"),
    small("pipe-holder", 1, "leader gone, output held"),
    small("thread-forks", 3, "forks from a second thread"),
    small("main-thread-gone", 2, "main threads exited"),
    small("folder-gone", 2, "deletes its records, no environment"),
    small("limits", 2, "starves its keepers"),
    small("subreaper", 3, "collects orphans itself"),
    small("respawners", 1, "two that restart each other"),
    small("namespaces", 4, "user and pid namespace"),
    small(OTHER_NAMESPACE, 1, "a daemon in one made elsewhere"),
    small("setuid", 2, "a process of another user"),
    small("cgroup-escape", 2, "moves to another cgroup"),
];

/// The setuid program once more, in a tree that was allowed to gain privileges: its keeper may not signal it, so that only a
/// control group ends it. For a user without rights; root needs no permission.
pub(crate) const SETUID_ALLOWED: Adversary = small("setuid-allowed", 2, "the same, allowed (cgroup)");

/// The same without a control group: its keeper cannot end it, and must say so by saying nothing.
pub(crate) const UNKILLABLE: Adversary = small("unkillable", 2, "the same, no cgroup: silence");

/// Returns how many processes an adversary has at least once it is settled.
pub(crate) fn members_of(name: &str) -> u64 {
    let mut known = ADVERSARIES.iter().chain([&SETUID_ALLOWED]);
    known.find(|adversary| adversary.name == name).map_or(0, |adversary| adversary.members)
}

/// Returns the adversaries named in `list`, or all.
pub(crate) fn named(list: Option<&str>) -> Result<Vec<Adversary>, String> {
    let Some(list) = list else { return Ok(ADVERSARIES.to_vec()) };
    let find = |name: &str| {
        let known = ADVERSARIES.iter().find(|adversary| adversary.name == name);
        known.copied().ok_or_else(|| format!("there is no adversary `{name}`"))
    };
    list.split(',').map(find).collect()
}
