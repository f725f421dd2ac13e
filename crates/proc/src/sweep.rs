//! The sweep: finds and kills what a dead keeper left behind. It proves nothing, so its proof is `best_effort`.
//!
//! Guard and shim are both gone, so no process is the parent of what they keeper. It is found by its control group, its marker and the
//! recorded identities, and by the descendants of all these.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;

use lastword_core::receipt::{Process, Proof};
use rustix::process::Signal;

use crate::claim::KeeperClaim;
use crate::clock;
use crate::error::Error;
use crate::exit_record::ExitRecord;
use crate::folder::Folder;
use crate::identity::{Identity, Stat, pidfd, send};
use crate::launch::MARKER;
use crate::leftovers;
use crate::located::Located;
use crate::proc_files;
use crate::tree::{self, SeenProcesses};

/// Consecutive passes that must find nothing: a child can be born behind one pass, but not behind several.
const QUIET_PASSES: u32 = 3;

/// How long a sweep continues while it still finds processes. After that, they cannot be killed.
const SWEEP_MS_MAX: u64 = 10_000;

/// Pause between passes.
const PASS_PAUSE_MS: u64 = 1;

/// What is known of an attempt without a keeper.
pub(crate) struct Remains<'a> {
    /// The claim of its keeper, if that was not lost.
    pub(crate) keeper: Option<&'a KeeperClaim>,
    /// Its processes as far as they were recorded.
    pub(crate) known: Vec<&'a Identity>,
    /// The marker in their environment.
    pub(crate) marker: &'a str,
}

impl<'a> Remains<'a> {
    /// Returns what a keeper left.
    pub(crate) fn of(keeper: &'a KeeperClaim) -> Remains<'a> {
        let leader = keeper.leader.iter().map(|leader| &leader.identity);
        let known = leader.chain(&keeper.shim).chain([&keeper.guard]).collect();
        Remains { keeper: Some(keeper), known, marker: &keeper.marker }
    }
}

/// Sweeps, and publishes how the attempt ended.
pub(crate) fn conclude(folder: &Folder, dir: &Path, remains: &Remains<'_>) -> Result<Located, Error> {
    let swept = sweep(folder, remains).map_err(Error::io(format!("cannot sweep for {}", dir.display())))?;
    let record = swept.map_err(|processes| Error::Stuck { dir: dir.to_owned(), processes })?;
    match record.publish(folder).map_err(Error::io(format!("cannot record the end in {}", dir.display())))? {
        stands if stands.by == "sweep" => Ok(Located::Vanished(Box::new(stands))),
        stands => Ok(Located::Ended(Box::new(stands))),
    }
}

/// Kills what is found of an attempt. Returns its exit record, or the processes that do not die: the attempt has not ended then.
fn sweep(folder: &Folder, remains: &Remains<'_>) -> io::Result<Result<ExitRecord, Vec<Process>>> {
    let began = clock::awake_ms();
    let leaf = remains.keeper.map(KeeperClaim::leaf).transpose()?.flatten();
    let mark = format!("{MARKER}={}", remains.marker).into_bytes();
    let mut seen = SeenProcesses::default();
    let mut quiet = 0;
    while quiet < QUIET_PASSES {
        let group_empty =
            leaf.as_ref().is_none_or(|leaf| leaf.kill().is_ok() && leaf.is_empty().unwrap_or(false));
        let alive = pass(remains, &mark, &mut seen)?;
        quiet = if alive == 0 && group_empty { quiet + 1 } else { 0 };
        if quiet == 0 && clock::awake_ms() - began >= SWEEP_MS_MAX {
            return Ok(Err(seen.processes));
        }
        clock::pause(PASS_PAUSE_MS);
    }
    if let Some(leaf) = &leaf {
        let _ = leaf.remove();
    }
    let proof = match remains.keeper {
        // The leader was never released: its gate closed when its keeper died.
        Some(KeeperClaim { leader: None, .. }) => Proof::NeverStarted,
        _ => Proof::BestEffort,
    };
    Ok(Ok(leftovers::complete(folder, remains.keeper, seen, began, ExitRecord::bare(proof, "sweep"))))
}

/// Kills all processes found now and returns how many were alive.
fn pass(remains: &Remains<'_>, mark: &[u8], seen: &mut SeenProcesses) -> io::Result<u32> {
    has_descriptors()?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let known = &remains.known;
    let recorded = known.iter().filter(|identity| identity.is_alive()).map(|identity| identity.pid);
    let mut found: HashSet<i32> = recorded.chain(marked(remains.marker)?).collect();
    for pid in found.clone() {
        found.extend(tree::walk(pid));
    }
    // A daemon started from within the tree must not kill itself.
    found.remove(&own);
    let mut alive = 0;
    for pid in &found {
        let Some(fd) = pidfd(*pid) else { continue };
        let Some(stat) = Stat::of(*pid).filter(|stat| !stat.is_dead()) else { continue };
        // Checked again after opening: the pid may have been reused.
        let is_known =
            known.iter().any(|identity| identity.pid == *pid && identity.start_ticks == stat.start_ticks);
        if !(is_known || found.contains(&stat.parent) || is_marked(*pid, mark)?) {
            continue;
        }
        alive += 1;
        seen.add(*pid, stat.start_ticks);
        let _ = send(&fd, Signal::KILL);
    }
    // Another thread may have used up the descriptors meanwhile.
    has_descriptors()?;
    Ok(alive)
}

/// Fails if this process is out of descriptors, because every process would then look gone.
fn has_descriptors() -> io::Result<()> {
    /// A pass needs three at a time.
    const SPARE: usize = 4;
    let spare: io::Result<Vec<File>> = (0..SPARE).map(|_| File::open("/proc/self/stat")).collect();
    spare.map(drop)
}

/// Returns all processes that carry the marker of an attempt.
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
    match proc_files::read(pid, "environ", u64::MAX) {
        Ok(environment) => Ok(environment.split(|byte| *byte == 0).any(|pair| pair == mark)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) => {
            Err(error)
        }
        // Gone, or not ours to read.
        Err(_) => Ok(false),
    }
}
