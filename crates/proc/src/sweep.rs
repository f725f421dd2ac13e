//! The sweep: what a dead keeper left behind is looked for and killed. No proof, and called best effort.
//!
//! Guard and shim are both gone, so nobody was the parent of what they kept. It is found by what is left: its control
//! group, its marker, the identities that were written down, and the descendants of all these.

use std::collections::HashSet;
use std::io;

use lastword_core::receipt::{Process, Proof};
use rustix::event::{Timespec, poll};
use rustix::process::Signal;

use crate::claim::Kept;
use crate::clock;
use crate::ending::ExitRecord;
use crate::folder::Folder;
use crate::identity::{Identity, Stat, pidfd, send};
use crate::keeper::guard;
use crate::launch::MARKER;
use crate::tree::{self, Roll};

/// Passes that must find nobody before the sweep ends: a child can be born behind a pass, but not behind several.
const QUIET_PASSES: u32 = 3;

/// How long a sweep goes on while it still finds somebody. Longer, and what it finds cannot be killed.
const SWEEP_MS_MAX: u64 = 10_000;

/// Kills what can be found of an attempt, and returns the record of it, or those that do not die: then it has not ended.
pub(crate) fn sweep(folder: &Folder, kept: &Kept) -> io::Result<Result<ExitRecord, Vec<Process>>> {
    let began = clock::awake_ms();
    let leaf = kept.leaf()?;
    let mark = format!("{MARKER}={}", kept.marker).into_bytes();
    let mut roll = Roll::default();
    let mut quiet = 0;
    while quiet < QUIET_PASSES {
        let group_empty =
            leaf.as_ref().is_none_or(|leaf| leaf.kill().is_ok() && leaf.is_empty().unwrap_or(false));
        let alive = pass(kept, &mark, &mut roll);
        quiet = if alive == 0 && group_empty { quiet + 1 } else { 0 };
        if quiet == 0 && clock::awake_ms() - began >= SWEEP_MS_MAX {
            return Ok(Err(roll.processes));
        }
        let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
    }
    if let Some(leaf) = &leaf {
        let _ = leaf.remove();
    }
    let proof = match kept.leader {
        // Nothing had been let go: its gate closed with its keeper.
        None => Proof::NeverStarted,
        Some(_) => Proof::BestEffort,
    };
    Ok(Ok(guard::left_behind(folder, Some(kept), roll, began, ExitRecord::bare(proof, "sweep"))))
}

/// Kills everybody who is found now; returns how many were alive.
fn pass(kept: &Kept, mark: &[u8], roll: &mut Roll) -> u32 {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let known: Vec<&Identity> =
        kept.leader.iter().map(|leader| &leader.identity).chain(&kept.shim).chain([&kept.guard]).collect();
    let recorded = known.iter().filter(|identity| identity.is_alive()).map(|identity| identity.pid);
    let marked = tree::every_pid().into_iter().filter(|pid| *pid != own && is_marked(*pid, mark));
    let mut found: HashSet<i32> = recorded.chain(marked).collect();
    for pid in found.clone() {
        found.extend(tree::walk(pid));
    }
    // A daemon that was started from within a tree sweeps around itself.
    found.remove(&own);
    let mut alive = 0;
    for pid in &found {
        let Some(fd) = pidfd(*pid) else { continue };
        let Some(stat) = Stat::of(*pid).filter(|stat| !stat.is_dead()) else { continue };
        // Looked at again after it was opened: the number may have been given to somebody else since.
        let is_known =
            known.iter().any(|identity| identity.pid == *pid && identity.start_ticks == stat.start_ticks);
        if !(is_known || found.contains(&stat.parent) || is_marked(*pid, mark)) {
            continue;
        }
        alive += 1;
        roll.note(*pid, stat.start_ticks);
        let _ = send(&fd, Signal::KILL);
    }
    alive
}

fn is_marked(pid: i32, mark: &[u8]) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|pair| pair == mark))
}
