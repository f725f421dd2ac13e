//! The guard: takes the claim, forks the shim, and waits. If the shim dies without an ending, the guard ends the tree.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use lastword_core::ids::Timestamp;
use lastword_core::receipt::{Exit, Level, OutputBytes, Proof, Receipt, Rung, RungTaken};

use super::control;
use super::levels::Levels;
use super::shim::{self, Handed};
use super::stop::{KILL_PAUSE_MS, STUCK_AFTER_MS, STUCK_PAUSE_MS};
use crate::claim::{Claim, Kept};
use crate::clock;
use crate::ending::ExitRecord;
use crate::folder::Folder;
use crate::identity::Identity;
use crate::launch::Launch;
use crate::level::cgroup::Leaf;
use crate::sys::{self, Fork, Reaped};
use crate::tree::{self, OwnChildren, Roll};

/// Pause before a record that could not be written is tried again.
const RETRY_MS: u64 = 500;

/// Keeps one attempt, as a fork of the nursery. The launch is read here: it is the attempt's alone.
pub(super) fn begin(launch: OwnedFd, levels: Levels, reply: OwnedFd) -> ! {
    let refusal = match super::read_launch(launch) {
        Some(launch) => match claim(&launch) {
            Ok(claimed) => keep(claimed, launch, levels, reply),
            Err(error) => format!("cannot take {}: {error}", launch.dir.display()),
        },
        None => "the launch is empty, or too long (8 MiB), or cannot be read".to_owned(),
    };
    refuse(&reply, &refusal)
}

fn refuse(reply: &OwnedFd, words: &str) -> ! {
    super::answer(reply, &super::refused(words));
    sys::exit(74)
}

/// A folder that is ours.
struct Claimed {
    folder: Folder,
    claim: File,
    listener: OwnedFd,
    socket: String,
    guard: Identity,
}

/// Becomes a guard and takes the folder.
fn claim(launch: &Launch) -> io::Result<Claimed> {
    sys::set_name(c"lw-guard");
    sys::wait_for_children();
    // A guard dies of nothing but KILL. What its shim handles is only blocked here.
    drop(sys::signal_fd()?);
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::chdir("/")?;
    let guard = Identity::own()?;
    let folder = Folder::open(&launch.dir)?;
    if folder.is_held() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a keeper holds it"));
    }
    let (listener, socket) = control::listen(&folder)?;
    match Claim::take(&folder, &guard, &socket, &launch.marker) {
        Ok(Some(claim)) => {
            folder.hold();
            Ok(Claimed { folder, claim, listener, socket, guard })
        }
        Ok(None) => {
            let _ = folder.remove(&socket);
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is taken or closed"))
        }
        Err(error) => {
            let _ = folder.remove(&socket);
            Err(error)
        }
    }
}

/// Forks the shim and waits for it.
fn keep(claimed: Claimed, launch: Launch, levels: Levels, reply: OwnedFd) -> ! {
    let Claimed { folder, claim, listener, socket, guard } = claimed;
    match sys::fork() {
        Ok(Fork::Child) => {
            shim::run(Handed { folder, claim, listener, socket, launch, levels, reply, guard })
        }
        Ok(Fork::Parent(shim)) => {
            drop((launch, listener, reply, levels));
            watch(&folder, claim, &socket, shim)
        }
        // Nothing was started: the folder says so in an exit record, since its claim is taken.
        Err(error) => {
            let why = format!("cannot fork: {error}");
            let mut record = ExitRecord::bare(Proof::NeverStarted, "guard");
            record.exec_error = Some(why.clone());
            publish(&folder, &record);
            let _ = folder.remove(&socket);
            refuse(&reply, &why)
        }
    }
}

/// Waits for the shim. What it left without an ending is ended here.
fn watch(folder: &Folder, claim: File, socket: &str, shim: i32) -> ! {
    let children = OwnChildren::open();
    // A shim exits with zero when its record is on the disk, and only then.
    let is_recorded = loop {
        match sys::reap(true) {
            Reaped::One(pid, exit) if pid == shim => break exit == Exit::Code(0),
            Reaped::NoChildren => break false,
            Reaped::One(..) | Reaped::NoneYet => {}
        }
    };
    if !is_recorded && !matches!(ExitRecord::read(folder), Ok(Some(_))) {
        let kept = match Claim::read(folder) {
            Ok(Some((_, Claim::Kept(kept)))) => Some(*kept),
            _ => None,
        };
        let record = end(folder, kept.as_ref(), &children);
        publish(folder, &record);
    }
    let _ = folder.remove(socket);
    drop(claim);
    sys::exit(0)
}

/// Publishes a record, however long that takes; unless there is no place for it any more, or this process cannot write at all.
fn publish(folder: &Folder, record: &ExitRecord) {
    while let Err(error) = record.publish(folder) {
        if folder.is_removed() || is_limited(&error) {
            return;
        }
        clock::pause(RETRY_MS);
    }
}

/// Reports whether a record failed for a limit of this process, which waiting does not cure: another must write it. The tree is
/// empty by then, so that is safe; where guard and shim both cannot, whoever looks next does.
pub(super) fn is_limited(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::EFBIG))
}

/// Kills what is left to the last child, and says so.
fn end(folder: &Folder, kept: Option<&Kept>, children: &OwnChildren) -> ExitRecord {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // A group that cannot be opened is not claimed to be empty; the children are counted all the same.
    let leaf = kept.and_then(|kept| kept.leaf().ok()).flatten();
    let began = clock::awake_ms();
    let mut roll = Roll::default();
    while !is_empty(leaf.as_ref()) {
        if let Some(leaf) = &leaf {
            let _ = leaf.kill();
        }
        let pass = tree::signal(own, Some(rustix::process::Signal::KILL), &mut roll);
        if pass.alive == 0 {
            children.kill();
        }
        if clock::awake_ms() - began >= STUCK_AFTER_MS {
            clock::pause(STUCK_PAUSE_MS);
        } else if pass.fresh == 0 {
            clock::pause(KILL_PAUSE_MS);
        }
    }
    if let Some(leaf) = &leaf {
        let _ = leaf.remove();
    }
    let leader = kept.and_then(|kept| kept.leader.as_ref());
    let proof = match (kept, leader, leaf) {
        // The claim cannot be read, so nobody can say whether something ran; that nothing is left was seen.
        (None, ..) => Proof::NoChildren,
        // It was behind its gate, or not even there.
        (Some(_), None, _) => Proof::NeverStarted,
        (Some(_), Some(_), Some(_)) => Proof::CgroupEmptyAndNoChildren,
        (Some(_), Some(_), None) => Proof::NoChildren,
    };
    left_behind(folder, kept, roll, began, ExitRecord::bare(proof, "guard"))
}

/// Reaps the dead, and reports whether nobody is left.
fn is_empty(leaf: Option<&Leaf>) -> bool {
    loop {
        match sys::reap(false) {
            Reaped::One(..) => {}
            Reaped::NoneYet => return false,
            Reaped::NoChildren => return leaf.is_none_or(|leaf| leaf.is_empty().unwrap_or(false)),
        }
    }
}

/// Fills in what a shim that is gone had written down, and what was found of its tree.
pub(crate) fn left_behind(
    folder: &Folder,
    kept: Option<&Kept>,
    roll: Roll,
    began: u64,
    bare: ExitRecord,
) -> ExitRecord {
    let leader = kept.and_then(|kept| kept.leader.as_ref());
    let drained = kept.and_then(|kept| kept.drained);
    let took = clock::awake_ms() - began;
    // Whoever was found was killed; there is no gentler rung here.
    let kill = RungTaken { rung: Rung::Kill, at: Timestamp(clock::wall_ms().saturating_sub(took)) };
    ExitRecord {
        receipt: Receipt {
            level: leader.map_or(Level::None, |leader| leader.level),
            rungs: if roll.found > 0 { vec![kill] } else { Vec::new() },
            processes: roll.processes,
            found: roll.found,
            output: drained.map_or_else(|| recorded(folder), |drained| drained.output),
            // What was in a pipe when the shim died is gone, and nobody can say how much it was.
            output_lost: drained.map_or(kept.is_none() || leader.is_some(), |drained| drained.lost),
            may_escape: leader.is_some_and(|leader| leader.may_escape),
            exit: kept.and_then(|kept| kept.exited),
            asked_to_empty_ms: Some(took),
            ..bare.receipt
        },
        empty_at_boot_ns: clock::boot_ns(),
        ..bare
    }
}

/// Returns what can be seen of the recordings themselves.
fn recorded(folder: &Folder) -> OutputBytes {
    let mut output = OutputBytes::default();
    for name in ["stdout", "stderr"] {
        let file = folder.open_at(name, rustix::fs::OFlags::RDONLY);
        if let Some(stat) = file.ok().and_then(|file| rustix::fs::fstat(file).ok()) {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            output.seen += size;
            output.kept += size.min(u64::try_from(stat.st_blocks).unwrap_or(0) * 512);
        }
    }
    output
}
