//! The tree of a process: found through `/proc`, signalled through pidfds.
//!
//! A pass can miss a child that was born after its parent was looked at. That parent is dead or dying, so the child falls to the
//! subreaper and is found by the next pass; whoever kills goes on until there is nothing left to reap.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use lastword_core::receipt::Process;
use rustix::process::Signal;

use crate::ending::PROCESSES_MAX;
use crate::identity::{Stat, pidfd, send};

/// Bytes of a command line that a record keeps: enough to recognise it.
const COMMAND_BYTES_MAX: usize = 200;

/// Processes that a roll remembers. Beyond, a storm is only counted, and one process may be counted twice.
const REMEMBERED_MAX: usize = 16_384;

/// Everybody who was found, once each.
#[derive(Debug, Default)]
pub(crate) struct Roll {
    remembered: HashSet<(i32, u64)>,
    /// The first of them, by name.
    pub(crate) processes: Vec<Process>,
    /// How many there were.
    pub(crate) found: u64,
}

impl Roll {
    /// Takes note of a process; reports whether it is a new one.
    pub(crate) fn note(&mut self, pid: i32, start_ticks: u64) -> bool {
        if self.remembered.contains(&(pid, start_ticks)) {
            return false;
        }
        if self.remembered.len() < REMEMBERED_MAX {
            self.remembered.insert((pid, start_ticks));
        }
        self.found += 1;
        if self.processes.len() < PROCESSES_MAX {
            self.processes.push(Process { pid, start_ticks, command: command(pid) });
        }
        true
    }
}

/// What a pass over the tree met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Processes that were alive.
    pub(crate) alive: u32,
    /// Those of them that no earlier pass had met.
    pub(crate) fresh: u32,
}

/// Signals every descendant of `root`, which is the caller, and notes each on the roll. Without a signal it only looks.
///
/// KILL reaches each as it is found: in a storm every process that is left takes a share of the processor from the one that
/// kills. Other signals are sent once, so the whole tree is found first: who dies of one must not hide its children.
pub(crate) fn signal(root: i32, signal: Option<Signal>, roll: &mut Roll) -> Pass {
    let at_once = signal == Some(Signal::KILL);
    let mut pids = if at_once { children(root) } else { walk(root) };
    let mut ours: HashSet<i32> = pids.iter().copied().chain([root]).collect();
    let mut pass = Pass::default();
    let mut next = 0;
    while let Some(pid) = pids.get(next).copied() {
        next += 1;
        if at_once {
            pids.extend(children(pid).into_iter().filter(|child| ours.insert(*child)));
        }
        let Some(fd) = pidfd(pid) else { continue };
        // Looked at after it was opened: whoever has the number now must still be one of ours.
        let start_ticks = match Stat::of(pid) {
            Some(stat) if stat.is_dead() || !ours.contains(&stat.parent) => continue,
            Some(stat) => stat.start_ticks,
            // Gone, or hidden by `/proc` because it must not be read. A child of ours keeps its number until we reap it.
            None if children(root).contains(&pid) => 0,
            None => continue,
        };
        pass.alive += 1;
        pass.fresh += u32::from(roll.note(pid, start_ticks));
        if let Some(signal) = signal {
            // A process of another user cannot be signalled; it stays on the roll, and the tree is not empty.
            let _ = send(&fd, signal);
        }
    }
    pass
}

/// The list of this process's own children, opened while that could be done. Whoever is of the same user may take a process's
/// descriptors away by a limit; a keeper must be able to kill all the same.
#[derive(Debug)]
pub(crate) struct OwnChildren(Option<std::fs::File>);

impl OwnChildren {
    /// Opens the list of whoever calls. A forked child needs its own.
    pub(crate) fn open() -> OwnChildren {
        OwnChildren(std::fs::File::open("/proc/thread-self/children").ok())
    }

    /// Kills every child, by number: a child keeps its number until it is reaped, and nobody else does that here. What they leave
    /// comes to us, and is next.
    pub(crate) fn kill(&self) {
        let mut text = [0; 4096];
        let Some(read) = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()) else { return };
        // What is cut off at the end is not a number of a child of ours, but the beginning of one.
        let whole = text[..read].iter().rposition(|byte| *byte == b' ').unwrap_or(0);
        let pids = String::from_utf8_lossy(&text[..whole]);
        for pid in pids.split(' ').filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns every descendant of a process, parents before their children.
pub(crate) fn walk(root: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut known = HashSet::from([root]);
    let mut next = 0;
    let mut parent = root;
    loop {
        for child in children(parent) {
            if known.insert(child) {
                found.push(child);
            }
        }
        match found.get(next) {
            Some(pid) => parent = *pid,
            None => return found,
        }
        next += 1;
    }
}

/// Reports whether a process is a descendant of another. One that is gone is nobody's to vouch for, and is taken for one too.
pub(crate) fn is_below(pid: i32, ancestor: i32) -> bool {
    /// Longer lines of ancestors are not looked through: who hides behind one is taken for a descendant.
    const GENERATIONS_MAX: usize = 1_000;
    let mut at = pid;
    for _ in 0..GENERATIONS_MAX {
        match Stat::of(at) {
            Some(stat) if stat.parent == ancestor => return true,
            Some(stat) if stat.parent > 0 => at = stat.parent,
            Some(_) => return false,
            // Hidden from us by `/proc`, so of another user, or one that must not be read: as far as can be seen, not of ours.
            None if pidfd(at).is_some() => return false,
            None if at == pid => return true,
            // A parent ended meanwhile, and its children were given to another: from the start again.
            None => at = pid,
        }
    }
    true
}

/// Returns who a process descends from, nearest first, as number and start; the process itself comes first. Who cannot be
/// looked at ends the line.
pub fn ancestors(pid: i32) -> Vec<(i32, u64)> {
    /// Longer lines of ancestors are not looked through.
    const GENERATIONS_MAX: usize = 1_000;
    let mut line = Vec::new();
    let mut at = pid;
    while at > 0 && line.len() < GENERATIONS_MAX {
        let Some(stat) = Stat::of(at) else { break };
        line.push((at, stat.start_ticks));
        at = stat.parent;
    }
    line
}

/// Returns the children of a process, of all its threads.
fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut text = String::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for thread in threads.flatten() {
        text.clear();
        let opened = std::fs::File::open(thread.path().join("children"));
        match opened.and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) => found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !kernel_lists_children() => {
                return children_by_scan(pid);
            }
            Err(_) => {}
        }
    }
    found
}

/// Reports whether this kernel was built to list children.
fn kernel_lists_children() -> bool {
    std::path::Path::new("/proc/thread-self/children").exists()
}

/// Returns the children of a process by asking everybody for their parent.
fn children_by_scan(pid: i32) -> Vec<i32> {
    let everybody = every_pid().unwrap_or_default();
    everybody.into_iter().filter(|each| Stat::of(*each).is_some_and(|stat| stat.parent == pid)).collect()
}

/// Returns the number of every process.
pub(crate) fn every_pid() -> std::io::Result<Vec<i32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the command line of a process, cut short; its name in brackets if it has none.
pub(crate) fn command(pid: i32) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(format!("/proc/{pid}/cmdline")) {
        let _ = file.take(COMMAND_BYTES_MAX as u64).read_to_end(&mut bytes);
    }
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.is_empty() {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        return format!("[{}]", name.trim_end());
    }
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    String::from_utf8_lossy(&bytes).into_owned()
}
