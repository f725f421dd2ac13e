//! A process with its descendants, stopped and continued together.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::clock;

/// The longest wait until everything has stopped: a process in the middle of a flush stops after it.
const STILL_MAX: Duration = Duration::from_secs(30);

/// Stops a process and its descendants, and returns them once each has stopped. None of them is in a system call then.
pub(crate) fn stop(root: i32) -> Result<Vec<i32>, String> {
    let begin = Instant::now();
    loop {
        // A process created after the list was read is found in the next pass: its parent has stopped by then.
        let tree = tree(root);
        let moving: Vec<i32> = tree.iter().filter(|(_, state)| **state != 'T').map(|(pid, _)| *pid).collect();
        if moving.is_empty() {
            return Ok(tree.into_keys().collect());
        }
        signal(&moving, libc::SIGSTOP);
        if begin.elapsed() > STILL_MAX {
            let still = signal_all(tree, libc::SIGCONT);
            return Err(format!("{} processes do not stand still", still.len()));
        }
        clock::rest(clock::MOMENT);
    }
}

/// Continues what [`stop`] has stopped.
pub(crate) fn go_on(stopped: &[i32]) {
    signal(stopped, libc::SIGCONT);
}

/// Kills what [`stop`] has stopped, and waits until nothing of it has a file open.
pub(crate) fn kill(stopped: &[i32]) {
    signal(stopped, libc::SIGKILL);
    let gone = |pid: &i32| state(*pid).is_none_or(|(_, state)| matches!(state, 'Z' | 'X'));
    clock::until(STILL_MAX, Duration::from_millis(1), || stopped.iter().all(gone).then_some(()));
}

fn signal_all(tree: BTreeMap<i32, char>, number: i32) -> Vec<i32> {
    let pids: Vec<i32> = tree.into_keys().collect();
    signal(&pids, number);
    pids
}

fn signal(pids: &[i32], number: i32) {
    for pid in pids {
        // SAFETY: a signal to a pid that was just below a child of this process.
        unsafe { libc::kill(*pid, number) };
    }
}

/// Returns a process and its descendants with their states, without zombies.
fn tree(root: i32) -> BTreeMap<i32, char> {
    let all: Vec<(i32, i32, char)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| state(pid).map(|(parent, state)| (pid, parent, state)))
        .filter(|(_, _, state)| !matches!(state, 'Z' | 'X'))
        .collect();
    let mut tree = BTreeMap::new();
    let mut fresh: Vec<i32> = vec![root];
    while let Some(pid) = fresh.pop() {
        for (child, parent, state) in &all {
            if *child == pid {
                tree.insert(pid, *state);
            } else if *parent == pid && !tree.contains_key(child) {
                fresh.push(*child);
            }
        }
    }
    tree
}

/// Returns the parent and the state of a process.
fn state(pid: i32) -> Option<(i32, char)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((fields.next()?.parse().ok()?, state))
}
