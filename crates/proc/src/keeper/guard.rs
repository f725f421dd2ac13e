//! The guard: claims the folder, forks the shim, and waits for it. If the shim dies without an exit record, or does not end the tree when
//! its lease is over, the guard kills the tree.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use lastword_core::receipt::{Exit, KeeperStop, Proof};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::control;
use super::lease::{self, Lease, LeaseListener};
use super::levels::Levels;
use super::reply;
use super::shim::{self, Handover};
use super::spawn::NotRun;
use super::stop::{KILL_PAUSE_MS, STUCK_AFTER_MS, STUCK_PAUSE_MS};
use crate::claim::{Claim, KeeperClaim};
use crate::clock;
use crate::exit_record::ExitRecord;
use crate::folder::Folder;
use crate::identity::{Identity, pidfd, send};
use crate::launch::Launch;
use crate::lease::LeaseFile;
use crate::leftovers;
use crate::level::cgroup::Leaf;
use crate::limits;
use crate::sys::{self, Fork, Reaped};
use crate::tree::{self, OwnChildren, SeenProcesses};

/// Pause before retrying to write a record.
const RETRY_MS: u64 = 500;

/// How long a shim may take to end its tree once the lease is over: ten times what it takes. After that it counts as frozen. One that is
/// merely slow loses little: the guard goes on where it was.
const FROZEN_AFTER_MS: u64 = 200;

/// How long a killed shim may take to die before its tree is killed around it. Longer only if it is in uninterruptible sleep.
const SHIM_DIES_WITHIN_MS: u64 = 20;

/// Pause of a guard that cannot poll.
const BLIND_PAUSE_MS: u64 = 10;

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
    /// Reports the death of the shim.
    signals: OwnedFd,
}

/// Becomes a guard and claims the folder.
fn claim(launch: &Launch) -> io::Result<Claimed> {
    sys::set_name(c"lw-guard");
    sys::wait_for_children();
    // Only KILL ends a guard. Of the signals that its shim handles, it heeds the death of a child.
    let signals = sys::signal_fd()?;
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
            Ok(Claimed { folder, claim, listener, socket, guard, signals })
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
    if launch.lease.as_ref().is_some_and(LeaseFile::is_over) {
        give_up(&claimed, &reply, NotRun::without_lease())
    }
    let (heard, teller) = match lease::pipe() {
        Ok(ends) => ends,
        Err(error) => give_up(&claimed, &reply, NotRun::in_keeper("cannot make a pipe", Some(&error))),
    };
    match sys::fork() {
        Ok(Fork::Child) => {
            let Claimed { folder, claim, listener, socket, guard, signals } = claimed;
            drop((signals, heard));
            shim::run(Handover { folder, claim, listener, socket, launch, levels, reply, guard, teller })
        }
        Ok(Fork::Parent(shim)) => {
            let Claimed { folder, claim, listener, socket, signals, .. } = claimed;
            let (dir, lease) = (launch.dir.clone(), Lease::follow(launch.lease.clone()));
            drop((launch, listener, reply, levels, teller));
            watch(folder, &dir, claim, &socket, Watched { shim, signals, heard, lease, over_since: None })
        }
        Err(error) => give_up(&claimed, &reply, NotRun::in_keeper("cannot fork", Some(&error))),
    }
}

/// Refuses a launch after the folder was claimed: nothing was started, and the exit record says so.
fn give_up(claimed: &Claimed, reply: &OwnedFd, why: NotRun) -> ! {
    let mut record = ExitRecord::bare(Proof::NeverStarted, "guard");
    record.exec_error = Some(why.message.clone());
    record.receipt.launch_error = Some(why.error);
    publish(&claimed.folder, &record);
    let _ = claimed.folder.remove(&claimed.socket);
    refuse(reply, &why.message)
}

/// Waits for the shim, and ends the tree if it left no exit record.
fn watch(folder: Folder, dir: &Path, claim: File, socket: &str, mut watched: Watched) -> ! {
    let children = OwnChildren::open();
    // A shim exits with 0 only after its record is durable.
    let is_recorded = watched.wait() == Some(Exit::Code(0));
    let why = watched.over_since.map(|_| KeeperStop::Lease);
    let folder = if is_recorded { folder } else { record(folder.or_again(dir), dir, &claim, &children, why) };
    let _ = folder.remove(socket);
    drop(claim);
    sys::exit(0)
}

/// The shim, while its guard waits for it.
struct Watched {
    shim: i32,
    signals: OwnedFd,
    heard: LeaseListener,
    lease: Lease,
    /// Since when the lease is known to be over, by the awake clock.
    over_since: Option<u64>,
}

impl Watched {
    /// Waits until the shim has exited, and returns how. If the lease is over and the shim does not end the tree, kills the shim.
    fn wait(&mut self) -> Option<Exit> {
        loop {
            match self.reap() {
                Reaped::One(_, exit) => return Some(exit),
                Reaped::NoChildren => return None,
                Reaped::NoneYet => {}
            }
            if let Some(file) = self.heard.newest() {
                (self.lease, self.over_since) = (Lease::follow(file), None);
            }
            if self.over_since.is_none() && self.lease.is_over() {
                self.over_since = Some(clock::awake_ms());
            }
            if self.over_since.is_some_and(|since| clock::awake_ms() - since >= FROZEN_AFTER_MS) {
                return self.kill();
            }
            self.poll();
        }
    }

    /// Reaps the shim. It is the only child for as long as it lives: it adopts the orphans below it.
    fn reap(&self) -> Reaped {
        loop {
            match sys::reap(false) {
                Reaped::One(pid, _) if pid != self.shim => {}
                other => return other,
            }
        }
    }

    /// Sleeps until the shim dies, names another lease file, or it is time to look at the lease.
    fn poll(&self) {
        let (pause, timer) = match self.over_since {
            // The timer has expired, and stays so.
            Some(since) => (Some((since + FROZEN_AFTER_MS).saturating_sub(clock::awake_ms())), None),
            None => (self.lease.pause_ms(), self.lease.timer()),
        };
        let fds = [Some(self.signals.as_fd()), self.heard.poll_fd(), timer];
        let mut fds: Vec<PollFd<'_>> =
            fds.into_iter().flatten().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // It fails if another process lowered our limit of descriptors below what we have open.
        let is_blind = poll(&mut fds, pause.map(clock::timespec).as_ref()) == Err(Errno::INVAL);
        if is_blind && !limits::restore() {
            clock::pause(BLIND_PAUSE_MS);
        }
        sys::take_signals(self.signals.as_fd());
    }

    /// Kills the shim, which works on a frozen one, and returns how it exited unless it does not die.
    fn kill(&self) -> Option<Exit> {
        let began = clock::awake_ms();
        while clock::awake_ms() - began < SHIM_DIES_WITHIN_MS {
            // It keeps its pid until it is reaped here.
            if let Some(shim) = pidfd(self.shim) {
                let _ = send(&shim, rustix::process::Signal::KILL);
            }
            if let Reaped::One(_, exit) = self.reap() {
                return Some(exit);
            }
            clock::pause(KILL_PAUSE_MS);
        }
        None
    }
}

/// Ends the tree and records that, unless its shim did. Returns the folder, which may have been deleted meanwhile.
fn record(
    folder: Folder,
    dir: &Path,
    claim: &File,
    children: &OwnChildren,
    why: Option<KeeperStop>,
) -> Folder {
    if matches!(ExitRecord::read(&folder), Ok(Some(_))) {
        return folder;
    }
    let keeper = match Claim::read(&folder) {
        Ok(Some((_, Claim::Keeper(keeper)))) => Some(*keeper),
        // It was deleted. Ours can still be read.
        _ => KeeperClaim::read_from(claim).ok(),
    };
    let mut record = end(&folder, keeper.as_ref(), children);
    record.receipt.keeper_stop = record.receipt.keeper_stop.or(why);
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
