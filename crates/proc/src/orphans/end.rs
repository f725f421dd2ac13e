//! Ends a chosen orphan and its descendants: TERM, a grace, KILL, all by identity and through pidfds.
//!
//! We are not the parent of these processes, so their orphans are not reparented to us. They are stopped with SIGSTOP before they are
//! signalled: a stopped process cannot fork, so a scan of a stopped tree is complete.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lastword_core::receipt::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::command::{argv_of, display};
use super::scan::scan;
use super::snapshot::Snapshot;
use crate::identity::{Identity, send};

/// How often a tree in its grace period is scanned for new processes.
const SCAN_EVERY: Duration = Duration::from_millis(50);

/// How long a killed process may take to die before it is reported as left; in uninterruptible sleep it may never die.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Scans after which a tree that still grows is taken as it is. Each scan stops what it finds, so such a tree forks faster than it can be
/// scanned.
const SCANS_MAX: usize = 100;

/// The result of ending an orphan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The processes that were signalled: the orphan first, then its descendants.
    pub processes: Vec<Process>,
    /// The pids of those that needed KILL.
    pub killed: Vec<i32>,
    /// The pids of those that were still alive in the end.
    pub left: Vec<i32>,
}

/// Ends an orphan and its descendants, except our own daemon and the trees of keepers. Returns `None`, without sending any signal, if the
/// process is gone or [`scan`] does not list it.
pub fn end(chosen: &Identity, grace: Duration) -> io::Result<Option<Ended>> {
    if !scan()?.iter().any(|orphan| orphan.identity == *chosen) {
        return Ok(None);
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    if Snapshot::take()?.with_ancestors(own).any(|(above, _)| above == chosen.pid) {
        let why =
            format!("process {} is an ancestor of this command; run it from another terminal", chosen.pid);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let Some(fd) = chosen.open() else { return Ok(None) };
    let mut tree = Tree { members: vec![Member::new(chosen.clone(), fd)] };
    match tree.end(grace) {
        Ok((killed, left)) => {
            let processes = tree.members.into_iter().map(|member| member.process).collect();
            Ok(Some(Ended { processes, killed, left }))
        }
        Err(error) => {
            // Leave no process stopped.
            let _ = tree.signal(Signal::CONT);
            Err(error)
        }
    }
}

/// The processes that are ended together.
struct Tree {
    members: Vec<Member>,
}

/// One process, held by a pidfd.
struct Member {
    process: Process,
    identity: Identity,
    fd: OwnedFd,
}

impl Member {
    fn new(identity: Identity, fd: OwnedFd) -> Member {
        let command = display(&argv_of(identity.pid).unwrap_or_default());
        let process = Process { pid: identity.pid, start_ticks: identity.start_ticks, command };
        Member { process, identity, fd }
    }

    fn is_alive(&self) -> io::Result<bool> {
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now))? == 0)
    }
}

impl Tree {
    /// Ends all members; returns those that needed KILL, and those that did not die.
    fn end(&mut self, grace: Duration) -> io::Result<(Vec<i32>, Vec<i32>)> {
        self.stop()?;
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        let until = Instant::now() + grace;
        while self.wait(SCAN_EVERY.min(until.saturating_duration_since(Instant::now())))?
            && Instant::now() < until
        {
            self.add_new_descendants()?;
        }
        self.stop()?;
        let killed = self.alive()?;
        self.signal(Signal::KILL)?;
        let until = Instant::now() + KILL_WAIT;
        while self.wait(until.saturating_duration_since(Instant::now()))? && Instant::now() < until {}
        Ok((killed, self.alive()?))
    }

    /// Stops all members, until a scan finds no new one.
    fn stop(&mut self) -> io::Result<()> {
        for _ in 0..SCANS_MAX {
            self.signal(Signal::STOP)?;
            if self.add_new_descendants()? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Adds descendants born since the last scan; returns how many.
    fn add_new_descendants(&mut self) -> io::Result<usize> {
        let seen = Snapshot::take()?;
        let before = self.members.len();
        let mut at = 0;
        while let Some(parent) = self.members.get(at) {
            at += 1;
            // The pid of a dead member may have been reused by a process whose children are not ours.
            if !parent.is_alive()? {
                continue;
            }
            let parent = parent.identity.pid;
            for (pid, process) in seen.children(parent) {
                let is_new = self.members.iter().all(|member| member.identity.pid != pid);
                let Some(child) = Identity::of(pid).filter(|_| is_new) else { continue };
                // The process that was opened must be the one in the snapshot.
                let same = child.start_ticks == process.stat.start_ticks;
                if let Some(fd) = child.open().filter(|_| same) {
                    self.members.push(Member::new(child, fd));
                }
            }
        }
        Ok(self.members.len() - before)
    }

    /// Signals all members that are still alive.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        for member in &self.members {
            match send(&member.fd, signal) {
                // A process that changed its user stays, and is reported as left.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                sent => drop(sent?),
            }
        }
        Ok(())
    }

    fn alive(&self) -> io::Result<Vec<i32>> {
        let mut alive = Vec::new();
        for member in &self.members {
            if member.is_alive()? {
                alive.push(member.identity.pid);
            }
        }
        Ok(alive)
    }

    /// Waits until a member dies or the time is up; returns whether any is alive.
    fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let timeout = rustix::time::Timespec::try_from(timeout).map_err(io::Error::other)?;
        let mut polls = Vec::new();
        for member in &self.members {
            if member.is_alive()? {
                polls.push(PollFd::new(&member.fd, PollFlags::IN));
            }
        }
        if polls.is_empty() {
            return Ok(false);
        }
        poll(&mut polls, Some(&timeout))?;
        Ok(!self.alive()?.is_empty())
    }
}
