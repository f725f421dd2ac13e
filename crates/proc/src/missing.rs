//! An attempt whose records are gone although it may run: its folder was deleted or emptied. Its keeper writes them again when asked; what
//! has no keeper is found by the leader that the journal knows and by its marker, and swept.

use std::io;
use std::path::Path;

use rustix::process::Signal;

use crate::claim::Claim;
use crate::clock;
use crate::error::Error;
use crate::folder::Folder;
use crate::identity::{Identity, Stat, pidfd, send};
use crate::located::Located;
use crate::proc_files;
use crate::sweep::{self, Remains};
use crate::tree;

/// Asks a keeper to write its records again if they are gone.
pub(crate) const RESTORE: Signal = Signal::USR1;

/// How long a keeper may take to do so. It takes milliseconds unless it is stopped.
const RESTORE_MS_MAX: u64 = 2_000;

/// Looks before it is asked again, and the pause between them.
const LOOKS: usize = 25;
const LOOK_MS: u64 = 2;

/// Finds out what became of an attempt of this boot that has a closed folder. `leader` is the one that the journal knows. `None` if the
/// records are there again.
pub(crate) fn find(folder: &Folder, dir: &Path, leader: Option<&Identity>) -> Result<Option<Located>, Error> {
    let marker = dir.to_string_lossy();
    let marked = sweep::marked(&marker);
    let marked = marked.map_err(Error::io(format!("cannot search for processes of {}", dir.display())))?;
    if leader.is_none() && marked.is_empty() {
        return Ok(Some(Located::NeverStarted));
    }
    let gone = || Error::io(format!("{} was deleted or emptied", dir.display()));
    if is_restored(dir).map_err(gone())? {
        return Ok(None);
    }
    let alive = leader.filter(|leader| leader.is_alive()).map(|leader| leader.pid);
    if let Some(keeper) = alive.into_iter().chain(marked).find_map(keeper_of) {
        let why = format!("its keeper cannot write it again; to stop the job: kill -TERM {keeper}");
        return Err(gone()(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    let remains = Remains { keeper: None, known: leader.into_iter().collect(), marker: &marker };
    sweep::conclude(folder, dir, &remains).map(Some)
}

/// Asks all keepers to write their records again, and waits until the keeper of this folder has. Reports whether it has.
pub(crate) fn is_restored(dir: &Path) -> io::Result<bool> {
    let began = clock::awake_ms();
    // Asked again and again, and looked for by path: the folder may be deleted once more meanwhile.
    while clock::awake_ms() - began < RESTORE_MS_MAX && !ask_keepers()?.is_empty() {
        for _ in 0..LOOKS {
            let claim = Folder::open_ours(dir).and_then(|folder| Claim::read(&folder));
            if matches!(claim, Ok(Some((_, Claim::Keeper(_))))) {
                return Ok(true);
            }
            clock::pause(LOOK_MS);
        }
    }
    Ok(false)
}

/// Asks every keeper of this user to write its records again if they are gone, and waits until all have done so.
pub(crate) fn restore_all() -> io::Result<()> {
    let began = clock::awake_ms();
    let mut asked = ask_keepers()?;
    while !asked.is_empty() && clock::awake_ms() - began < RESTORE_MS_MAX {
        // It waits again, and no request is left: it has done what it was asked.
        asked.retain(|pid| {
            mask(*pid, "ShdPnd:") & bit(RESTORE) != 0 || Stat::of(*pid).is_some_and(|stat| stat.state != 'S')
        });
        clock::pause(LOOK_MS);
    }
    Ok(())
}

/// Asks every keeper of this user to write its records again if they are gone, and returns which were asked.
///
/// Which keeper is meant cannot be seen from outside. The others ignore it, and a process that only has the name of one blocks the
/// signal or does not get it.
fn ask_keepers() -> io::Result<Vec<i32>> {
    let shims = tree::every_pid()?.into_iter().filter(|pid| proc_files::name_of(*pid) == "lw-shim");
    let asked = shims.filter(|pid| {
        let Some(fd) = pidfd(*pid) else { return false };
        // A fork of a shim has its name and its mask until it runs its program, which would then get the signal.
        let is_fork = Stat::of(*pid)
            .is_none_or(|stat| matches!(proc_files::name_of(stat.parent).as_str(), "lw-shim" | "lw-init"));
        !is_fork && blocks(*pid, RESTORE) && send(&fd, RESTORE).unwrap_or(false)
    });
    Ok(asked.collect())
}

/// Reports whether a process blocks a signal: it can then be sent without harm.
fn blocks(pid: i32, signal: Signal) -> bool {
    mask(pid, "SigBlk:") & bit(signal) != 0
}

/// Returns a signal mask of a process; empty if it is gone.
fn mask(pid: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(field));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Returns the keeper above a process, unless that keeps us as well. Ancestors that cannot be read may be one; the last that can is named.
fn keeper_of(pid: i32) -> Option<i32> {
    let (line, ours) = (tree::ancestors(pid)?, tree::ancestors(std::process::id().cast_signed()));
    let ours = ours.unwrap_or_default();
    let others = line.iter().skip(1).filter(|above| !ours.contains(above));
    let keeper = others
        .map(|(above, _)| *above)
        .find(|above| matches!(proc_files::name_of(*above).as_str(), "lw-shim" | "lw-guard"));
    let is_cut = |last: &i32| Stat::of(*last).is_some_and(|stat| stat.parent > 0);
    keeper.or_else(|| line.last().map(|(last, _)| *last).filter(is_cut))
}
