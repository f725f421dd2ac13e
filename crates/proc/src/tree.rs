//! Process trees: found through `/proc`, signalled through pidfds.
//!
//! A pass can miss a child born after its parent was visited. If that parent dies, the child is reparented to the subreaper and found by
//! the next pass; killing therefore repeats until there is nothing left to reap.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use lastword_core::receipt::Process;
use rustix::process::Signal;

use crate::exit_record::PROCESSES_MAX;
use crate::identity::{Stat, pidfd, send};
use crate::proc_files;

/// Bytes of a command line that a record keeps.
const COMMAND_BYTES_MAX: u64 = 200;

/// Processes remembered individually. Beyond that, a fork storm is only counted, and a process may be counted twice.
const REMEMBERED_MAX: usize = 16_384;

/// Processes recorded before the first KILL. A larger tree may be a fork storm, which grows for as long as it is only looked at.
const COUNTED_FIRST_MAX: usize = 1_024;

/// The processes seen so far, each counted once.
#[derive(Debug, Default)]
pub(crate) struct SeenProcesses {
    remembered: HashSet<(i32, u64)>,
    /// The first of them, with their command lines.
    pub(crate) processes: Vec<Process>,
    /// How many were seen.
    pub(crate) found: u64,
}

impl SeenProcesses {
    /// Adds a process; returns whether it is new.
    pub(crate) fn add(&mut self, pid: i32, start_ticks: u64) -> bool {
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

/// The result of one pass over the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pass {
    /// Processes that were alive.
    pub(crate) alive: u32,
    /// Those of them that no earlier pass had seen.
    pub(crate) fresh: u32,
}

/// Signals every descendant of `root`, which is this process, and records each in `seen`. Without a signal, only records.
///
/// KILL is sent to each process as soon as it is found: in a fork storm, every process that still runs competes with us for the CPU.
/// Other signals are sent once, so the whole tree is walked first: a process that dies of one must not hide its children.
pub(crate) fn signal(root: i32, signal: Option<Signal>, seen: &mut SeenProcesses) -> Pass {
    let at_once = signal == Some(Signal::KILL);
    signal_from(root, signal, if at_once { children(root) } else { walk(root) }, seen)
}

/// Records the descendants of `root`, which is this process, before any is killed: the death of one can be that of others, as in a PID
/// namespace. A tree of more than `COUNTED_FIRST_MAX` is counted while it is killed.
pub(crate) fn record(root: i32, seen: &mut SeenProcesses) {
    signal_from(root, None, walk_upto(root, COUNTED_FIRST_MAX), seen);
}

fn signal_from(root: i32, signal: Option<Signal>, mut pids: Vec<i32>, seen: &mut SeenProcesses) -> Pass {
    let at_once = signal == Some(Signal::KILL);
    let mut ours: HashSet<i32> = pids.iter().copied().chain([root]).collect();
    let mut pass = Pass::default();
    let mut next = 0;
    while let Some(pid) = pids.get(next).copied() {
        next += 1;
        if at_once {
            pids.extend(children(pid).into_iter().filter(|child| ours.insert(*child)));
        }
        let Some(fd) = pidfd(pid) else { continue };
        // Checked after opening: if the pid was reused, the process must still be one of ours.
        let start_ticks = match Stat::of(pid) {
            Some(stat) if stat.is_dead() || !ours.contains(&stat.parent) => continue,
            Some(stat) => stat.start_ticks,
            // Gone, or hidden by `/proc` because it is not dumpable. Our own child keeps its pid until we reap it.
            None if children(root).contains(&pid) => 0,
            None => continue,
        };
        pass.alive += 1;
        pass.fresh += u32::from(seen.add(pid, start_ticks));
        if let Some(signal) = signal {
            // A process of another user cannot be signalled. It stays recorded, and the tree is not empty.
            let _ = send(&fd, signal);
        }
    }
    pass
}

/// The list of this process's children, opened in advance: another process of this user could lower our descriptor limit, and a keeper
/// must still be able to kill.
#[derive(Debug)]
pub(crate) struct OwnChildren(Option<std::fs::File>);

impl OwnChildren {
    /// Opens the list of the calling process. A forked child needs its own.
    pub(crate) fn open() -> OwnChildren {
        OwnChildren(std::fs::File::open("/proc/thread-self/children").ok())
    }

    /// Kills every child by pid, which is safe because a child keeps its pid until we reap it. Their orphans are reparented to us and are
    /// killed by the next call.
    pub(crate) fn kill(&self) {
        let mut text = [0; 4096];
        let Some(read) = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()) else { return };
        // The last number may be cut off.
        let whole = text[..read].iter().rposition(|byte| *byte == b' ').unwrap_or(0);
        let pids = String::from_utf8_lossy(&text[..whole]);
        for pid in pids.split(' ').filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Returns all descendants of a process, parents before children.
pub(crate) fn walk(root: i32) -> Vec<i32> {
    walk_upto(root, usize::MAX)
}

/// The same, until so many were found.
pub(crate) fn walk_upto(root: i32, max: usize) -> Vec<i32> {
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
            Some(pid) if found.len() < max => parent = *pid,
            _ => return found,
        }
        next += 1;
    }
}

/// Reports whether a process descends from another. One whose ancestors cannot be read counts as a descendant, and so does one that is gone.
pub(crate) fn is_below(pid: i32, ancestor: i32) -> bool {
    ancestors(pid).is_none_or(|line| line.iter().skip(1).any(|(above, _)| *above == ancestor))
}

/// Returns a process and its ancestors, nearest first, as pid and start time; `None` if they cannot be read to the end, which is the
/// first process or one that `/proc` hides. What descends from where decides about rights, so a part of the answer is none.
pub fn ancestors(pid: i32) -> Option<Vec<(i32, u64)>> {
    /// Deeper ancestries are not walked.
    const GENERATIONS_MAX: usize = 1_000;
    /// Steps in all: a parent that exits means to start again.
    const STEPS_MAX: usize = 4 * GENERATIONS_MAX;
    let mut line = Vec::new();
    let mut at = pid;
    for _ in 0..STEPS_MAX {
        if line.len() == GENERATIONS_MAX {
            return None;
        }
        match Stat::of(at) {
            Some(stat) => {
                line.push((at, stat.start_ticks));
                at = stat.parent;
                if at <= 0 {
                    return Some(line);
                }
            }
            // It exists but is hidden: another user's process, or one that is not dumpable.
            None if pidfd(at).is_some() => return Some(line),
            None if at == pid => return None,
            // It exited meanwhile and its children were reparented, or there is no descriptor left to read with.
            None => {
                line.clear();
                at = pid;
            }
        }
    }
    None
}

/// Returns the children of all threads of a process.
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

/// Reports whether this kernel lists children in `/proc`.
fn kernel_lists_children() -> bool {
    std::path::Path::new("/proc/thread-self/children").exists()
}

/// Returns the children of a process by reading every process's parent.
fn children_by_scan(pid: i32) -> Vec<i32> {
    let pids = every_pid().unwrap_or_default();
    pids.into_iter().filter(|each| Stat::of(*each).is_some_and(|stat| stat.parent == pid)).collect()
}

/// Returns the pids of all processes.
pub(crate) fn every_pid() -> std::io::Result<Vec<i32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the command line of a process, truncated; its name in brackets if it has none.
pub(crate) fn command(pid: i32) -> String {
    let mut bytes = proc_files::read(pid, "cmdline", COMMAND_BYTES_MAX).unwrap_or_default();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    if bytes.is_empty() {
        return format!("[{}]", proc_files::name_of(pid));
    }
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    String::from_utf8_lossy(&bytes).into_owned()
}
