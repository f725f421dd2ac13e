//! Keepers that are wrong on purpose, and one that is plain and right: the judge must tell them apart.
//!
//! They are what tools of today do. The driver plays them itself, so that they need nothing of the keeper.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::adversaries::{Adversary, OTHER_NAMESPACE};
use super::order::{Done, Order};
use super::report::Faults;
use crate::clock;
use crate::place::Programs;

/// How a stand-in ends a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Not at all wrong: walks the tree to the last child, then speaks.
    None,
    /// Kills the leader's process group and waits for the leader.
    GroupKill,
    /// Kills all it finds in one look, and waits for the leader.
    OneLook,
    /// Asks politely, waits a while and takes the rest for granted.
    TimerAlone,
    /// Kills a control group and waits until it is empty, without looking for processes that left it.
    CgroupOnly,
    /// Does everything right, and speaks before.
    EarlyWord,
    /// Does everything right, and takes its time.
    Slow,
    /// Does everything right, and leaves its socket lying about.
    Untidy,
    /// Does everything right, and takes its tree for empty when it has no child, whichever namespace processes went to.
    Unwatched,
    /// The keeper that ships, whose trees may set the limits of other processes.
    Unfenced,
}

impl Bug {
    #[rustfmt::skip] // One row, one bug.
    const NAMES: [(&'static str, Bug); 10] = [
        ("none", Bug::None),
        ("group-kill", Bug::GroupKill),
        ("one-look", Bug::OneLook),
        ("timer-alone", Bug::TimerAlone),
        ("cgroup-only", Bug::CgroupOnly),
        ("early-word", Bug::EarlyWord),
        ("slow", Bug::Slow),
        ("untidy", Bug::Untidy),
        ("unwatched", Bug::Unwatched),
        ("unfenced", Bug::Unfenced),
    ];

    pub(crate) fn all() -> impl Iterator<Item = Bug> {
        Bug::NAMES.iter().map(|(_, bug)| *bug)
    }

    pub(crate) fn name(self) -> &'static str {
        Bug::NAMES.iter().find(|(_, bug)| *bug == self).map_or("", |(name, _)| name)
    }

    pub(crate) fn named(name: &str) -> Result<Bug, String> {
        let known = Bug::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, bug)| *bug).ok_or_else(|| format!("there is no bug `{name}`"))
    }

    /// Reports whether it is tried with an adversary: no stand-in notices foreign namespaces, and only keepers can be starved.
    pub(crate) fn is_tried_with(self, adversary: &Adversary) -> bool {
        match self {
            Bug::Unwatched => adversary.name == OTHER_NAMESPACE,
            Bug::Unfenced => adversary.name == "limits",
            _ => adversary.name != OTHER_NAMESPACE,
        }
    }

    /// Returns how often it is tried with each: what one adversary shows must not hang on one settled tree.
    pub(crate) fn repeats(self) -> u32 {
        if self == Bug::Unwatched { 10 } else { 1 }
    }

    /// Reports whether the keeper that ships is tried, with a guard taken away.
    pub(crate) fn is_of_keeper(self) -> bool {
        self == Bug::Unfenced
    }

    /// Reports whether the judge found what is wrong with it: that, and not something else.
    pub(crate) fn is_caught_by(self, found: Faults) -> bool {
        match self {
            // How long it took is the machine's business as much as its own.
            Bug::None => found == Faults { late: found.late, ..Faults::default() },
            Bug::GroupKill | Bug::TimerAlone | Bug::CgroupOnly | Bug::Unwatched => found.survivors > 0,
            // What it misses is often in the middle of exiting.
            Bug::OneLook => found.survivors > 0 || found.early > 0,
            Bug::EarlyWord => found.early > 0 && found.survivors == 0,
            Bug::Untidy | Bug::Unfenced => found.wrong > 0 && found.survivors == 0 && found.early == 0,
            Bug::Slow => found == Faults { late: found.late, ..Faults::default() } && found.late > 0,
        }
    }
}

/// The grace of the one that only waits.
const GRACE: Duration = Duration::from_millis(30);

/// What the slow one adds: more than a small tree may take.
const DAWDLE: Duration = Duration::from_millis(400);

/// Makes this process the one that orphans come to.
pub(crate) fn prepare() {
    // SAFETY: takes numbers.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// Launches, waits, stops and speaks.
pub(crate) fn try_one(bug: Bug, programs: &Programs, ward: &Path, order: &Order) -> Result<Done, String> {
    let io = |error: std::io::Error| format!("{}: {error}", order.folder.display());
    while reap() > 0 {}
    fs::create_dir(&order.folder).map_err(io)?;
    let leaf = ward.join("leaf");
    let mut command = Command::new(&programs.adversary);
    command.arg(&order.adversary).arg(&order.canary).args(&order.outside);
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    if bug == Bug::CgroupOnly {
        let _ = fs::create_dir(&leaf);
        let procs = leaf.join("cgroup.procs");
        // SAFETY: the child of a process with one thread may open and write a file.
        unsafe {
            command.pre_exec(move || fs::write(&procs, "0"));
        }
    }
    let leader = command.spawn().map_err(|error| format!("{}: {error}", programs.adversary.display()))?;
    let leader = leader.id() as i32;
    clock::rest(order.moment);
    let sent = clock::boot_ns();
    match bug {
        // The last one is the keeper's, and not played here.
        Bug::None | Bug::Unwatched | Bug::Unfenced => kill_to_the_last(),
        Bug::GroupKill => {
            signal(-leader, libc::SIGKILL);
            wait_for(leader);
        }
        Bug::OneLook => {
            descendants().into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
            wait_for(leader);
        }
        Bug::TimerAlone => {
            descendants().into_iter().for_each(|pid| signal(pid, libc::SIGTERM));
            clock::rest(GRACE);
        }
        Bug::CgroupOnly => {
            fs::write(leaf.join("cgroup.kill"), "1").map_err(io)?;
            let events = leaf.join("cgroup.events");
            let empty =
                || fs::read_to_string(&events).is_ok_and(|text| text.contains("populated 0")).then_some(());
            clock::until(Duration::from_secs(5), Duration::from_micros(50), empty);
            let _ = fs::remove_dir(&leaf);
        }
        Bug::EarlyWord => {
            speak(&order.folder).map_err(io)?;
            kill_to_the_last();
        }
        Bug::Untidy => {
            kill_to_the_last();
            fs::write(order.folder.join("ctl.0"), "").map_err(io)?;
        }
        Bug::Slow => {
            kill_to_the_last();
            clock::rest(DAWDLE);
        }
    }
    if bug != Bug::EarlyWord {
        speak(&order.folder).map_err(io)?;
    }
    Ok(Done { sent_ns: Some(sent), ..Done::default() })
}

/// Publishes an ending that says no more than when.
fn speak(folder: &Path) -> std::io::Result<()> {
    let draft = folder.join("draft");
    fs::write(&draft, clock::boot_ns().to_string())?;
    fs::rename(&draft, folder.join("exit"))
}

/// Reads what [`speak`] wrote.
pub(crate) fn spoken_at(folder: &Path) -> Option<u64> {
    fs::read_to_string(folder.join("exit")).ok()?.parse().ok()
}

fn kill_to_the_last() {
    loop {
        match reap() {
            // One less: perhaps there are more.
            1.. => {}
            0 => descendants().into_iter().for_each(|pid| signal(pid, libc::SIGKILL)),
            // No child at all.
            _ => return,
        }
    }
}

/// Reaps one child and returns its number, 0 if all that there are live, and less if there is none.
fn reap() -> i32 {
    // SAFETY: no status is asked for.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) }
}

fn wait_for(pid: i32) {
    // SAFETY: no status is asked for.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

fn signal(pid: i32, signal: i32) {
    // SAFETY: takes numbers. A stand-in signals on numbers; that too is what tools of today do.
    unsafe {
        libc::kill(pid, signal);
    }
}

/// Returns every process below this one, as a single pass finds them.
fn descendants() -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = vec![std::process::id() as i32];
    while let Some(pid) = next.pop() {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
            children.for_each(|child| {
                found.push(child);
                next.push(child);
            });
        }
    }
    found
}
