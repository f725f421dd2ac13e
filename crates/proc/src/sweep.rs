//! The sweep: what a dead keeper left behind is looked for and killed. No proof, and called best effort.
//!
//! Guard and shim are both gone, so nobody was the parent of what they kept. It is found by what is left: its control
//! group, its marker, the identities that were written down, and the descendants of all these.

use std::collections::HashSet;
use std::fs::File;
use std::io;

use lastword_core::receipt::{Process, Proof};
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

/// Pause between passes.
const PASS_PAUSE_MS: u64 = 1;

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
        let alive = pass(kept, &mark, &mut roll)?;
        quiet = if alive == 0 && group_empty { quiet + 1 } else { 0 };
        if quiet == 0 && clock::awake_ms() - began >= SWEEP_MS_MAX {
            return Ok(Err(roll.processes));
        }
        clock::pause(PASS_PAUSE_MS);
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

/// Kills everybody who is found now; returns how many were alive. Whoever cannot look has found nothing out.
fn pass(kept: &Kept, mark: &[u8], roll: &mut Roll) -> io::Result<u32> {
    has_descriptors()?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let known: Vec<&Identity> =
        kept.leader.iter().map(|leader| &leader.identity).chain(&kept.shim).chain([&kept.guard]).collect();
    let recorded = known.iter().filter(|identity| identity.is_alive()).map(|identity| identity.pid);
    let mut found: HashSet<i32> = recorded.chain(marked(&kept.marker)?).collect();
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
        if !(is_known || found.contains(&stat.parent) || is_marked(*pid, mark)?) {
            continue;
        }
        alive += 1;
        roll.note(*pid, stat.start_ticks);
        let _ = send(&fd, Signal::KILL);
    }
    // Another thread may have taken the last meanwhile.
    has_descriptors()?;
    Ok(alive)
}

/// Fails if this process is out of descriptors: to such a one, everybody looks gone.
fn has_descriptors() -> io::Result<()> {
    /// A pass needs three at once.
    const SPARE: usize = 4;
    let spare: io::Result<Vec<File>> = (0..SPARE).map(|_| File::open("/proc/self/stat")).collect();
    spare.map(drop)
}

/// Returns everybody who was started by the attempt of that marker.
pub(crate) fn marked(marker: &str) -> io::Result<Vec<i32>> {
    let mark = format!("{MARKER}={marker}").into_bytes();
    let mut found = Vec::new();
    for pid in tree::every_pid()? {
        if is_marked(pid, &mark)? {
            found.push(pid);
        }
    }
    Ok(found)
}

fn is_marked(pid: i32, mark: &[u8]) -> io::Result<bool> {
    match std::fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => Ok(environment.split(|byte| *byte == 0).any(|pair| pair == mark)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
            Err(error)
        }
        // Gone, or not ours to read.
        Err(_) => Ok(false),
    }
}
