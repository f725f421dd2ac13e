//! What became of an attempt: read off its folder, by whoever owns it now.
//!
//! Looking changes only what must be changed to make the answer true: a folder that nobody claimed is closed, and what a dead
//! keeper left is swept before it is called lost.

use std::path::Path;
use std::time::{Duration, Instant};

use lastword_core::receipt::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::claim::{Claim, Kept};
use crate::ending::ExitRecord;
use crate::error::Error;
use crate::folder::{self, Folder};
use crate::identity::{Identity, NO_BOOT, boot_id};
use crate::sweep;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Located {
    /// Its keeper lives.
    Alive(Alive),
    /// It is over, and its keeper said how.
    Ended(Box<ExitRecord>),
    /// Nothing was started, and now nothing can be.
    NeverStarted,
    /// It was started before this boot: nothing of it is alive.
    OtherBoot,
    /// Its keeper is gone without a word. What could be found was killed.
    Vanished(Box<ExitRecord>),
}

/// An attempt with a living keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alive {
    /// Who guards it.
    pub guard: Identity,
    /// The leader and how it is held, once it was let go.
    pub leader: Option<(Identity, Level)>,
    /// When it was launched, in milliseconds of the awake clock.
    pub launched: Option<u64>,
}

/// Looks for an attempt that was intended in the given boot.
pub fn locate(dir: &Path, intended_boot: &str) -> Result<Located, Error> {
    let what = || format!("cannot look into {}", dir.display());
    if boot_id() == NO_BOOT {
        let unknown =
            std::io::Error::other("the id of this boot cannot be read, so no other can be told from it");
        return Err(Error::io(what())(unknown));
    }
    let folder = Folder::create(dir).map_err(Error::io(what()))?;
    // The ending first: whoever was there before us may have said everything.
    if let Some(found) = ended_in(&folder, dir)? {
        return Ok(found);
    }
    let claim = match Claim::read(&folder) {
        // A claim is not synced: a power cut may leave its name and nothing else. It was of an earlier boot, then.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData && intended_boot != boot_id() => {
            return Ok(Located::OtherBoot);
        }
        claim => claim.map_err(Error::io(what()))?,
    };
    let (file, kept) = match claim {
        Some((file, Claim::Kept(kept))) => (file, *kept),
        // Whoever holds the folder had a claim to it, or has had one since.
        None | Some((_, Claim::Closed)) if folder.is_held() => match Claim::read(&folder) {
            Ok(Some((_, Claim::Kept(_)))) => return locate(dir, intended_boot),
            _ => {
                let why = "a keeper lives whose claim was taken away; it says when it has ended";
                return Err(Error::io(what())(std::io::Error::new(std::io::ErrorKind::InvalidData, why)));
            }
        },
        Some((_, Claim::Closed)) => return not_started(dir, intended_boot),
        None => match Claim::close(&folder).map_err(Error::io(what()))? {
            Claim::Closed => return not_started(dir, intended_boot),
            // A keeper was faster; it is as if we had come later.
            Claim::Kept(_) => return locate(dir, intended_boot),
        },
    };
    if kept.guard.boot != boot_id() {
        return Ok(Located::OtherBoot);
    }
    if folder::is_locked(&file).map_err(Error::io(what()))? || folder.is_held() {
        return Ok(alive(kept));
    }
    // It may have ended between the two looks.
    if let Some(found) = ended_in(&folder, dir)? {
        return Ok(found);
    }
    let swept =
        sweep::sweep(&folder, &kept).map_err(Error::io(format!("cannot sweep for {}", dir.display())))?;
    let record = swept.map_err(|processes| Error::Stuck { dir: dir.to_owned(), processes })?;
    match record.publish(&folder).map_err(Error::io(format!("cannot record the end in {}", dir.display())))? {
        stands if stands.by == "sweep" => Ok(Located::Vanished(Box::new(stands))),
        stands => Ok(Located::Ended(Box::new(stands))),
    }
}

/// Reads the exit record of an attempt, if there is one.
pub fn ended(dir: &Path) -> Result<Option<ExitRecord>, Error> {
    let what = || format!("cannot read the exit record in {}", dir.display());
    let folder = Folder::open_ours(dir).map_err(Error::io(what()))?;
    ExitRecord::read(&folder).map_err(Error::io(what()))
}

/// Waits until an attempt has an exit record, or its keeper is gone, or the time is over.
///
/// Wakes when the keeper dies, not at its own limit. `None` is followed by [`locate`].
pub fn wait(dir: &Path, timeout: Duration) -> Result<Option<ExitRecord>, Error> {
    let what = || format!("cannot wait for {}", dir.display());
    let begin = Instant::now();
    let folder = Folder::open_ours(dir).map_err(Error::io(what()))?;
    if let Some((_, Claim::Kept(kept))) = Claim::read(&folder).map_err(Error::io(what()))? {
        // The shim goes when the record is there; the guard goes when it is there whatever happened to the shim.
        for keeper in [kept.shim.as_ref(), Some(&kept.guard)].into_iter().flatten() {
            let Some(fd) = keeper.open() else { continue };
            // What is longer than the kernel can count is for ever, too.
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

fn not_started(dir: &Path, intended_boot: &str) -> Result<Located, Error> {
    // Its claim may have been lost in a power cut: what ran then is dead, but that it never ran nobody can say.
    if intended_boot != boot_id() {
        return Ok(Located::OtherBoot);
    }
    // A folder can be removed under a keeper, and then looks as if nobody had ever been there; what runs is still marked.
    let marked = sweep::marked(&dir.to_string_lossy());
    match marked.map_err(Error::io(format!("cannot look for what belongs to {}", dir.display())))?.first() {
        None => Ok(Located::NeverStarted),
        Some(pid) => {
            let why = format!(
                "nothing here says that it was started, but process {pid} belongs to it; end that first"
            );
            let source = std::io::Error::new(std::io::ErrorKind::InvalidData, why);
            Err(Error::Io { what: format!("{} was removed or emptied", dir.display()), source })
        }
    }
}

fn alive(kept: Kept) -> Located {
    Located::Alive(Alive {
        launched: kept.leader.as_ref().map(|leader| leader.launched),
        leader: kept.leader.map(|leader| (leader.identity, leader.level)),
        guard: kept.guard,
    })
}
