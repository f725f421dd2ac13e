//! The guard: claims the folder, forks the shim, and waits for it. If the shim dies without an exit record, the guard kills the tree.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use lastword_core::receipt::{Exit, LaunchError, LaunchStep, Proof};

use super::control;
use super::levels::Levels;
use super::reply;
use super::shim::{self, Handover};
use super::stop::{KILL_PAUSE_MS, STUCK_AFTER_MS, STUCK_PAUSE_MS};
use crate::claim::{Claim, KeeperClaim};
use crate::clock;
use crate::exit_record::ExitRecord;
use crate::folder::Folder;
use crate::identity::Identity;
use crate::launch::Launch;
use crate::leftovers;
use crate::level::cgroup::Leaf;
use crate::limits;
use crate::sys::{self, Fork, Reaped};
use crate::tree::{self, OwnChildren, SeenProcesses};

/// Pause before retrying to write a record.
const RETRY_MS: u64 = 500;

/// The size limit of a launch: argument list and environment.
const LAUNCH_BYTES_MAX: u64 = 8 << 20;

/// Keeps one attempt, as a fork of the nursery. The launch is parsed here, so that the nursery never touches its contents.
pub(super) fn begin(launch: OwnedFd, levels: Levels, reply: OwnedFd) -> ! {
    let refusal = match read_launch(launch) {
        Some(launch) => match claim(&launch) {
            Ok(claimed) => keep(claimed, launch, levels, reply),
            Err(error) => format!("cannot take {}: {error}", launch.dir.display()),
        },
        None => "the launch is empty, longer than 8 MiB, or cannot be parsed".to_owned(),
    };
    refuse(&reply, &refusal)
}

/// Reads a launch from the memfd it was sent in.
fn read_launch(fd: OwnedFd) -> Option<Launch> {
    let mut text = String::new();
    let mut file = File::from(fd);
    file.rewind().ok()?;
    // One byte more than allowed: a truncated launch might still parse, and run something else.
    let read = file.take(LAUNCH_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    if read as u64 > LAUNCH_BYTES_MAX {
        return None;
    }
    Launch::decode(&text)
}

fn refuse(reply: &OwnedFd, words: &str) -> ! {
    reply::send(reply, &reply::refused(words));
    sys::exit(74)
}

/// A claimed folder.
struct Claimed {
    folder: Folder,
    claim: File,
    listener: OwnedFd,
    socket: String,
    guard: Identity,
}

/// Becomes a guard and claims the folder.
fn claim(launch: &Launch) -> io::Result<Claimed> {
    sys::set_name(c"lw-guard");
    sys::wait_for_children();
    // Only KILL ends a guard; the signals that its shim handles are merely blocked here.
    drop(sys::signal_fd()?);
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::chdir("/")?;
    let guard = Identity::own()?;
    let folder = Folder::open(&launch.dir)?;
    if folder.is_locked() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another keeper holds it"));
    }
    let socket = control::socket_name();
    let listener = control::listen(&folder, &socket)?;
    match Claim::take(&folder, &guard, &socket, &launch.marker) {
        Ok(Some(claim)) => {
            folder.lock();
            Ok(Claimed { folder, claim, listener, socket, guard })
        }
        Ok(None) => {
            let _ = folder.remove(&socket);
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is already claimed or closed"))
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
            shim::run(Handover { folder, claim, listener, socket, launch, levels, reply, guard })
        }
        Ok(Fork::Parent(shim)) => {
            let dir = launch.dir.clone();
            drop((launch, listener, reply, levels));
            watch(folder, &dir, claim, &socket, shim)
        }
        // Nothing was started. The claim is taken, so the exit record says so.
        Err(error) => {
            let why = format!("cannot fork: {error}");
            let mut record = ExitRecord::bare(Proof::NeverStarted, "guard");
            record.exec_error = Some(why.clone());
            record.receipt.launch_error =
                Some(LaunchError { step: LaunchStep::Keeper, errno: error.raw_os_error() });
            publish(&folder, &record);
            let _ = folder.remove(&socket);
            refuse(&reply, &why)
        }
    }
}

/// Waits for the shim, and ends the tree if it left no exit record.
fn watch(folder: Folder, dir: &Path, claim: File, socket: &str, shim: i32) -> ! {
    let children = OwnChildren::open();
    // A shim exits with 0 only after its record is durable.
    let is_recorded = loop {
        match sys::reap(true) {
            Reaped::One(pid, exit) if pid == shim => break exit == Exit::Code(0),
            Reaped::NoChildren => break false,
            Reaped::One(..) | Reaped::NoneYet => {}
        }
    };
    let folder = if is_recorded { folder } else { record(folder.or_again(dir), dir, &claim, &children) };
    let _ = folder.remove(socket);
    drop(claim);
    sys::exit(0)
}

/// Ends the tree and records that, unless its shim did. Returns the folder, which may have been deleted meanwhile.
fn record(folder: Folder, dir: &Path, claim: &File, children: &OwnChildren) -> Folder {
    if matches!(ExitRecord::read(&folder), Ok(Some(_))) {
        return folder;
    }
    let keeper = match Claim::read(&folder) {
        Ok(Some((_, Claim::Keeper(keeper)))) => Some(*keeper),
        // It was deleted. Ours can still be read.
        _ => KeeperClaim::read_from(claim).ok(),
    };
    let record = end(&folder, keeper.as_ref(), children);
    let folder = folder.or_again(dir);
    publish(&folder, &record);
    folder
}

/// Publishes a record, retrying until it succeeds, unless the folder is deleted or this process hit one of its own limits. The tree is
/// empty by then, so the next `locate` can safely write the record instead.
fn publish(folder: &Folder, record: &ExitRecord) {
    while let Err(error) = record.publish(folder) {
        if folder.is_removed() || limits::is_limit(&error) {
            return;
        }
        clock::pause(RETRY_MS);
    }
}

/// Kills all remaining processes and returns the exit record.
fn end(folder: &Folder, keeper: Option<&KeeperClaim>, children: &OwnChildren) -> ExitRecord {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // A group that cannot be opened is not reported as empty; the children still count.
    let leaf = keeper.and_then(|keeper| keeper.leaf().ok()).flatten();
    let began = clock::awake_ms();
    let mut seen = SeenProcesses::default();
    tree::record(own, &mut seen);
    while !is_empty(leaf.as_ref()) {
        if let Some(leaf) = &leaf {
            let _ = leaf.kill();
        }
        let pass = tree::signal(own, Some(rustix::process::Signal::KILL), &mut seen);
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
    let leader = keeper.and_then(|keeper| keeper.leader.as_ref());
    let proof = match (keeper, leader, leaf) {
        // The claim cannot be read, so whether anything ran is unknown; that nothing is left was observed.
        (None, ..) => Proof::NoChildren,
        // The leader was still behind its gate, or not even forked.
        (Some(_), None, _) => Proof::NeverStarted,
        (Some(_), Some(_), Some(_)) => Proof::CgroupEmptyAndNoChildren,
        (Some(_), Some(_), None) => Proof::NoChildren,
    };
    leftovers::complete(folder, keeper, seen, began, ExitRecord::bare(proof, "guard"))
}

/// Reaps dead children, and reports whether nothing is left.
fn is_empty(leaf: Option<&Leaf>) -> bool {
    loop {
        match sys::reap(false) {
            Reaped::One(..) => {}
            Reaped::NoneYet => return false,
            Reaped::NoChildren => return leaf.is_none_or(|leaf| leaf.is_empty().unwrap_or(false)),
        }
    }
}
