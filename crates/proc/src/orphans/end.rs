//! Ending a chosen orphan and everything below it: TERM, a grace, KILL; by identity, through pidfds.
//!
//! Nobody here is the parent of these processes, so nothing is given to us when one of them dies. They are stopped
//! before they are signalled: what is stopped cannot fork, so the last look at a stopped tree sees all of it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lastword_core::receipt::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use super::{Snapshot, argv_of, scan, show};
use crate::identity::{Identity, send};
use crate::seeded::{self, Bug};

/// How often a tree in its grace is looked at for new processes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a killed process may take to go before it is named as left; one in uninterruptible sleep may take for ever.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Looks after which a tree that still grows is taken as it is: each look stops whoever it finds, so a growing tree is one
/// that forks faster than it can be read.
const LOOKS_MAX: usize = 100;

/// What was done to end an orphan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Who was ended: the orphan first, then those below it.
    pub processes: Vec<Process>,
    /// Those of them that went only by KILL.
    pub killed: Vec<i32>,
    /// Those of them that were still there when this gave up.
    pub left: Vec<i32>,
}

/// Ends an orphan and all below it, but for our own daemon and what keepers hold there. `None` means that nobody was
/// signalled: it is gone, or [`scan`] does not show it.
pub fn end(chosen: &Identity, grace: Duration) -> io::Result<Option<Ended>> {
    if !scan()?.iter().any(|orphan| orphan.identity == *chosen) {
        return Ok(None);
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    if Snapshot::take()?.with_ancestors(own).any(|(above, _)| above == chosen.pid) {
        let why =
            format!("process {} is above this one and would take it along; ask from elsewhere", chosen.pid);
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
            // Nobody stays stopped because of us.
            let _ = tree.signal(Signal::CONT);
            Err(error)
        }
    }
}

/// The processes that are ended together.
struct Tree {
    members: Vec<Member>,
}

/// One of them, held by a descriptor.
struct Member {
    process: Process,
    identity: Identity,
    fd: OwnedFd,
}

impl Member {
    fn new(identity: Identity, fd: OwnedFd) -> Member {
        let command = show(&argv_of(identity.pid).unwrap_or_default());
        let process = Process { pid: identity.pid, start_ticks: identity.start_ticks, command };
        Member { process, identity, fd }
    }

    fn is_alive(&self) -> io::Result<bool> {
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now))? == 0)
    }
}

impl Tree {
    /// Ends everybody, and returns who went by KILL only and who did not go.
    fn end(&mut self, grace: Duration) -> io::Result<(Vec<i32>, Vec<i32>)> {
        if seeded::on(Bug::ReapByName) {
            self.take_namesakes()?;
        }
        self.stop()?;
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)?;
        let until = Instant::now() + grace;
        while self.wait(LOOK_EVERY.min(until.saturating_duration_since(Instant::now())))?
            && Instant::now() < until
        {
            self.look()?;
        }
        self.stop()?;
        let killed = self.alive()?;
        self.signal(Signal::KILL)?;
        let until = Instant::now() + KILL_WAIT;
        while self.wait(until.saturating_duration_since(Instant::now()))? && Instant::now() < until {}
        Ok((killed, self.alive()?))
    }

    /// Stops everybody, until a look finds nobody new.
    fn stop(&mut self) -> io::Result<()> {
        for _ in 0..LOOKS_MAX {
            self.signal(Signal::STOP)?;
            if self.look()? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Takes everybody of the same name along: what must never happen.
    fn take_namesakes(&mut self) -> io::Result<()> {
        let seen = Snapshot::take()?;
        let name = |pid: i32| seen.processes.get(&pid).map(|process| process.comm.as_str());
        let wanted = self.members.first().and_then(|first| name(first.identity.pid));
        let namesakes = seen.processes.keys().filter(|pid| name(**pid) == wanted);
        for namesake in namesakes.filter_map(|pid| Identity::of(*pid)) {
            if let Some(fd) = namesake.open().filter(|_| namesake.pid != self.members[0].identity.pid) {
                self.members.push(Member::new(namesake, fd));
            }
        }
        Ok(())
    }

    /// Finds who was born since the last look and says how many.
    fn look(&mut self) -> io::Result<usize> {
        let seen = Snapshot::take()?;
        let before = self.members.len();
        let mut at = 0;
        while let Some(parent) = self.members.get(at) {
            at += 1;
            // A number of a member that is gone may be another's by now, and its children not ours.
            if !parent.is_alive()? {
                continue;
            }
            let parent = parent.identity.pid;
            for (pid, process) in seen.children(parent) {
                let is_new = self.members.iter().all(|member| member.identity.pid != pid);
                let Some(child) = Identity::of(pid).filter(|_| is_new) else { continue };
                // Opened after it was seen: it must be the one that was seen.
                let same = child.start_ticks == process.stat.start_ticks;
                if let Some(fd) = child.open().filter(|_| same) {
                    self.members.push(Member::new(child, fd));
                }
            }
        }
        Ok(self.members.len() - before)
    }

    /// Signals everybody who is still there.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        for member in &self.members {
            match send(&member.fd, signal) {
                // A program that changed its user: it stays, and is named as left.
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

    /// Waits until one goes or the time is up, and reports whether anybody is there.
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
