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
    /// What the p99 from the request to the empty tree may be.
    pub(crate) bound: Duration,
}

const fn small(name: &'static str, about: &'static str) -> Adversary {
    Adversary { name, about, bound: SMALL }
}

#[rustfmt::skip] // One row, one adversary.
pub(crate) const ADVERSARIES: &[Adversary] = &[
    small("family", "child and grandchild"),
    small("own-session", "setsid"),
    small("daemon", "double fork"),
    small("daemon-alone", "double fork, leader gone"),
    small("daemon-bare", "double fork, no environment"),
    small("undumpable", "double fork, not dumpable"),
    small("deaf", "ignores TERM, INT, HUP"),
    small("own-groups", "process groups of their own"),
    small("runner", "forks and exits for ever"),
    small("runner-sessions", "the same with setsid"),
    small("runners", "20 of these at once"),
    Adversary { name: "storm", about: "all fork, up to the cap", bound: STORM },
    small("burst", "31 deaf, in groups and sessions"),
    small("stopped", "SIGSTOPped"),
    small("zombies", "20 not waited for"),
    small("blocked-writers", "4 blocked on a full pipe"),
    small("pipe-holder", "leader gone, output held"),
    small("thread-forks", "forks from a second thread"),
    small("subreaper", "collects orphans itself"),
    small("respawners", "two that restart each other"),
    small("namespaces", "user and pid namespace"),
    small("setuid", "a process of another user"),
    small("cgroup-escape", "moves to another cgroup"),
];

/// The setuid program once more, in a tree that was allowed to gain privileges: its keeper may not signal it, so that only a
/// control group ends it. For a user without rights; root needs no permission.
pub(crate) const SETUID_ALLOWED: Adversary = small("setuid-allowed", "the same, allowed (cgroup)");

/// The same without a control group: its keeper cannot end it, and must say so by saying nothing.
pub(crate) const UNKILLABLE: Adversary = small("unkillable", "the same, no cgroup: silence");

/// Returns the adversaries named in `list`, or all.
pub(crate) fn named(list: Option<&str>) -> Result<Vec<Adversary>, String> {
    let Some(list) = list else { return Ok(ADVERSARIES.to_vec()) };
    let find = |name: &str| {
        let known = ADVERSARIES.iter().find(|adversary| adversary.name == name);
        known.copied().ok_or_else(|| format!("there is no adversary `{name}`"))
    };
    list.split(',').map(find).collect()
}
