//! Finds out what became of an attempt, from its folder.
//!
//! This changes only what makes the answer final: it closes a folder that no keeper claimed, and sweeps what a dead keeper left before
//! calling the attempt vanished. A keeper whose records were deleted is asked to write them again.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::claim::{Claim, KeeperClaim};
use crate::error::Error;
use crate::exit_record::ExitRecord;
use crate::folder::{self, Folder};
use crate::identity::{Identity, UNKNOWN_BOOT, boot_id};
use crate::located::{Alive, Located};
use crate::missing;
use crate::sweep::{self, Remains};

/// Locates an attempt that was intended in the given boot.
pub fn locate(dir: &Path, intended_boot: &str) -> Result<Located, Error> {
    locate_known(dir, intended_boot, None)
}

/// The same for an attempt whose leader is known from elsewhere. It is found also if its records are gone.
pub fn locate_known(dir: &Path, intended_boot: &str, leader: Option<&Identity>) -> Result<Located, Error> {
    let what = || format!("cannot inspect {}", dir.display());
    if boot_id() == UNKNOWN_BOOT {
        let unknown =
            std::io::Error::other("the boot id cannot be read, so this boot cannot be told from another");
        return Err(Error::io(what())(unknown));
    }
    let folder = Folder::create(dir).map_err(Error::io(what()))?;
    // The exit record first: it is the final answer.
    if let Some(found) = ended_in(&folder, dir)? {
        return Ok(found);
    }
    let claim = match Claim::read(&folder) {
        // Claims are not synced: a power cut may leave an empty file. The claim is from an earlier boot then.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData && intended_boot != boot_id() => {
            return Ok(Located::OtherBoot);
        }
        claim => claim.map_err(Error::io(what()))?,
    };
    let (file, keeper) = match claim {
        Some((file, Claim::Keeper(keeper))) => (file, *keeper),
        // The lock's holder must have a claim, or has just published one.
        None | Some((_, Claim::Closed)) if folder.is_locked() => match Claim::read(&folder) {
            Ok(Some((_, Claim::Keeper(_)))) => return locate_known(dir, intended_boot, leader),
            _ if missing::is_restored(dir).map_err(Error::io(what()))? => {
                return locate_known(dir, intended_boot, leader);
            }
            _ => {
                let why = "a keeper is running, but its claim file was removed; it will record how it ends";
                return Err(Error::io(what())(std::io::Error::new(std::io::ErrorKind::InvalidData, why)));
            }
        },
        Some((_, Claim::Closed)) => return not_started(&folder, dir, intended_boot, leader),
        None => match Claim::close(&folder).map_err(Error::io(what()))? {
            Claim::Closed => return not_started(&folder, dir, intended_boot, leader),
            // A keeper claimed the folder first; start again.
            Claim::Keeper(_) => return locate_known(dir, intended_boot, leader),
        },
    };
    if keeper.guard.boot != boot_id() {
        return Ok(Located::OtherBoot);
    }
    if folder::is_locked(&file).map_err(Error::io(what()))? || folder.is_locked() {
        return Ok(alive(keeper));
    }
    // It may have ended between the two checks.
    if let Some(found) = ended_in(&folder, dir)? {
        return Ok(found);
    }
    sweep::conclude(&folder, dir, &Remains::of(&keeper))
}

/// Reads the exit record of an attempt, if there is one.
pub fn exit_record(dir: &Path) -> Result<Option<ExitRecord>, Error> {
    let what = || format!("cannot read the exit record in {}", dir.display());
    let folder = Folder::open_ours(dir).map_err(Error::io(what()))?;
    ExitRecord::read(&folder).map_err(Error::io(what()))
}

/// Waits until an attempt has an exit record, its keeper is gone, or the time is up.
///
/// Wakes up when the keeper dies. After `None`, call [`locate`].
pub fn wait(dir: &Path, timeout: Duration) -> Result<Option<ExitRecord>, Error> {
    let what = || format!("cannot wait for {}", dir.display());
    let begin = Instant::now();
    let folder = Folder::open_ours(dir).map_err(Error::io(what()))?;
    if let Some((_, Claim::Keeper(keeper))) = Claim::read(&folder).map_err(Error::io(what()))? {
        // The shim exits once the record is published; the guard exits once it is, even if the shim failed.
        for process in [keeper.shim.as_ref(), Some(&keeper.guard)].into_iter().flatten() {
            let Some(fd) = process.open() else { continue };
            // Capped at what the kernel accepts.
            let left = timeout.saturating_sub(begin.elapsed()).min(Duration::from_secs(u64::from(u32::MAX)));
            let left = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            let _ = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&left)));
            if let Some(record) = ExitRecord::read(&folder).map_err(Error::io(what()))? {
                return Ok(Some(record));
            }
        }
    }
    ExitRecord::read(&folder).map_err(Error::io(what()))
}

fn ended_in(folder: &Folder, dir: &Path) -> Result<Option<Located>, Error> {
    let record = ExitRecord::read(folder);
    let record = record.map_err(Error::io(format!("cannot read the exit record in {}", dir.display())))?;
    Ok(record.map(|record| match record.by.as_str() {
        "sweep" => Located::Vanished(Box::new(record)),
        _ => Located::Ended(Box::new(record)),
    }))
}

fn not_started(
    folder: &Folder,
    dir: &Path,
    intended_boot: &str,
    leader: Option<&Identity>,
) -> Result<Located, Error> {
    // A power cut may have lost its claim: whatever ran is dead, but it may have run.
    if intended_boot != boot_id() {
        return Ok(Located::OtherBoot);
    }
    // A folder deleted under its keeper looks as if nothing had been started.
    match missing::find(folder, dir, leader)? {
        Some(found) => Ok(found),
        None => locate_known(dir, intended_boot, leader),
    }
}

fn alive(keeper: KeeperClaim) -> Located {
    Located::Alive(Alive {
        launched: keeper.leader.as_ref().map(|leader| leader.launched),
        withheld: keeper.leader.as_ref().and_then(|leader| leader.withheld.clone()),
        leader: keeper.leader.map(|leader| (leader.identity, leader.level)),
        guard: keeper.guard,
    })
}
