//! Orphans of others: agents, tool servers and what agents ran, whose parents are gone.
//!
//! A scan only shows, and says of each whether it may be there on purpose. What is ended is one that somebody chose, by
//! identity, with its descendants. Keepers and what they hold are never shown: those have an owner.

mod end;
mod facts;
mod judge;
mod known;
#[cfg(test)]
mod tests;

pub use end::{Ended, end};

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::identity::{Identity, Stat};
use facts::Facts;
use judge::Judged;

/// Bytes of a command line that are worth showing.
const COMMAND_BYTES_MAX: usize = 300;

/// What our own processes are called by the kernel: those that hold a tree, and those that may be asked to start one.
const OURS: [&str; 5] = ["lw-guard", "lw-shim", "lw-init", "lw-nursery", "lastword"];

/// What an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An agent.
    Agent,
    /// A tool server.
    Server,
    /// What an agent ran: a command, or what a command left behind.
    Tool,
}

/// A process that somebody leaked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Who it is.
    pub identity: Identity,
    /// What it is.
    pub kind: Kind,
    /// Which agent started it, where that can be told.
    pub agent: Option<&'static str>,
    /// Why it may be there on purpose. Without a doubt it is a leak.
    pub doubt: Option<String>,
    /// Its command line, cut short.
    pub command: String,
    /// How long ago it was started, the time asleep included.
    pub age: Duration,
    /// Memory that it holds, in bytes.
    pub resident_bytes: u64,
    /// Time that it had on a processor.
    pub cpu: Duration,
    /// Its working folder, if that can be read.
    pub cwd: Option<PathBuf>,
    /// How many processes it has below it.
    pub descendants: usize,
}

/// Returns the orphans of this user, oldest first.
pub fn scan() -> io::Result<Vec<Orphan>> {
    let seen = Snapshot::take()?;
    let uid = rustix::process::getuid().as_raw();
    let agents = agents(&seen, uid);
    let candidates = seen.processes.keys().filter(|pid| seen.is_orphan(**pid));
    let mut orphans: Vec<Orphan> = candidates.filter_map(|pid| look_at(*pid, uid, &seen, &agents)).collect();
    orphans.sort_by_key(|orphan| (orphan.identity.start_ticks, orphan.identity.pid));
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for orphan in &mut orphans {
        if seen.with_ancestors(own).any(|(above, _)| above == orphan.identity.pid) {
            orphan.doubt = Some("whoever asks runs below it".to_owned());
        }
    }
    Ok(orphans)
}

/// Returns the agents of a user that run.
fn agents(seen: &Snapshot, uid: u32) -> Vec<judge::Agent> {
    let known = seen.processes.iter().filter_map(|(pid, process)| {
        let argv = argv_of(*pid).filter(|_| owner(*pid) == Some(uid))?;
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let name = known::name_of(&argv, &process.comm, exe.as_deref())?;
        (!known::is_server(name)).then_some((*pid, name))
    });
    known.collect()
}

/// Returns the user of a process. Its folder is the user's even where its other files cannot be read.
fn owner(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid())
}

/// Looks closer at a process without a parent. `None` means that it is gone, somebody else's, or no leak.
fn look_at(pid: i32, uid: u32, seen: &Snapshot, agents: &[judge::Agent]) -> Option<Orphan> {
    // Whatever is read below is this process's, if it still is the same at the end.
    let identity = Identity::of(pid)?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    if field("Uid:")? != u64::from(uid) {
        return None;
    }
    let argv = argv_of(pid)?;
    let facts = Facts::of(pid, &argv, seen);
    let Judged { kind, doubt } = judge::judge(pid, &facts, seen, agents)?;
    let ticks = rustix::param::clock_ticks_per_second();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let started = Duration::from_millis(identity.start_ticks.saturating_mul(1000) / ticks);
    let orphan = Orphan {
        command: show(&argv),
        age: Duration::try_from(now).unwrap_or_default().saturating_sub(started),
        resident_bytes: field("VmRSS:").unwrap_or(0).saturating_mul(1024),
        cpu: Duration::from_millis(cpu_ticks(pid)?.saturating_mul(1000) / ticks),
        cwd: std::fs::read_link(format!("/proc/{pid}/cwd")).ok(),
        descendants: seen.below(pid).len(),
        agent: facts.mark.map(|mark| mark.agent),
        kind,
        doubt,
        identity,
    };
    orphan.identity.is_alive().then_some(orphan)
}

/// Who is there, and below whom.
#[derive(Debug, Default)]
struct Snapshot {
    processes: HashMap<i32, Seen>,
}

/// A process in passing.
#[derive(Clone, Debug)]
struct Seen {
    stat: Stat,
    comm: String,
}

impl Seen {
    fn is_ours(&self) -> bool {
        OURS.contains(&self.comm.as_str())
    }
}

impl Snapshot {
    fn take() -> io::Result<Snapshot> {
        let mut processes = HashMap::new();
        for entry in std::fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some(stat) = Stat::of(pid).filter(|stat| !stat.is_dead()) else { continue };
            let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            let comm = String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned();
            processes.insert(pid, Seen { stat, comm });
        }
        Ok(Snapshot { processes })
    }

    /// Reports whether whoever started this process is gone, and no keeper of ours holds it.
    ///
    /// A process without a parent is given to the first process of the machine, or to a nearer one that asked for such (a
    /// user's service manager does). The latter shows by the session: a child is in its parent's session or leads its own;
    /// one in a foreign session without a leader was not started by who is its parent now.
    fn is_orphan(&self, pid: i32) -> bool {
        let Some(Seen { stat, .. }) = self.processes.get(&pid) else { return false };
        let left = match self.processes.get(&stat.parent) {
            _ if stat.parent == 1 => true,
            Some(parent) => parent.stat.session != stat.session && !self.has_leader(stat.session),
            None => false,
        };
        left && !self.is_kept(pid)
    }

    fn has_leader(&self, session: i32) -> bool {
        // A leader that is gone may have left its number to somebody in another session.
        self.processes.get(&session).is_some_and(|leader| leader.stat.session == session)
    }

    /// Returns the leader of the session that a process is in, if it lives.
    fn leader_of(&self, pid: i32) -> Option<(i32, &Seen)> {
        let session = self.processes.get(&pid)?.stat.session;
        let leader = self.processes.get(&session).filter(|leader| leader.stat.session == session);
        leader.map(|leader| (session, leader))
    }

    /// Reports whether a process is there and started before another: it may be who started it.
    fn is_older(&self, pid: i32, other: i32) -> bool {
        let started = |pid: i32| self.processes.get(&pid).map(|process| process.stat.start_ticks);
        matches!((started(pid), started(other)), (Some(first), Some(second)) if first <= second)
    }

    /// Reports whether somebody below a process has a terminal in a session of its own, as in a window of tmux.
    fn holds_terminals(&self, pid: i32) -> bool {
        let Some(top) = self.processes.get(&pid) else { return false };
        let below = self.below(pid).into_iter().filter_map(|below| self.processes.get(&below));
        below.into_iter().any(|below| below.stat.terminal != 0 && below.stat.session != top.stat.session)
    }

    /// Reports whether it is one of ours, or below one.
    fn is_kept(&self, pid: i32) -> bool {
        self.with_ancestors(pid).any(|(_, process)| process.is_ours())
    }

    /// A process and those above it. Bounded, because a snapshot is not of one moment and could hold a ring.
    fn with_ancestors(&self, pid: i32) -> impl Iterator<Item = (i32, &Seen)> {
        let find = |pid: i32| self.processes.get(&pid).map(|process| (pid, process));
        std::iter::successors(find(pid), move |(_, process)| find(process.stat.parent))
            .take(self.processes.len())
    }

    /// Returns the children of a process, without what is ours: an agent may have asked us for a job, which is not its own.
    fn children(&self, parent: i32) -> impl Iterator<Item = (i32, &Seen)> {
        let children =
            self.processes.iter().filter(move |(_, child)| child.stat.parent == parent && !child.is_ours());
        children.map(|(pid, child)| (*pid, child))
    }

    /// Returns everybody below a process, without what is ours.
    fn below(&self, pid: i32) -> Vec<i32> {
        let mut found = vec![pid];
        let mut at = 0;
        while let Some(parent) = found.get(at).copied() {
            at += 1;
            let children = self.children(parent).map(|(child, _)| child);
            let new: Vec<i32> = children.filter(|child| !found.contains(child)).collect();
            found.extend(new);
        }
        found.split_off(1)
    }
}

/// Returns the arguments of a process, without the empty ones that a title leaves behind.
fn argv_of(pid: i32) -> Option<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Makes a command line fit to be shown: short, and without what a terminal would obey.
fn show(argv: &[String]) -> String {
    let mut line: String =
        argv.join(" ").chars().map(|char| if char.is_control() { '?' } else { char }).collect();
    line.truncate(line.floor_char_boundary(COMMAND_BYTES_MAX));
    line
}

/// Returns the time on a processor, in clock ticks: user's and kernel's.
fn cpu_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let fields = std::str::from_utf8(stat.get(after..)?).ok()?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    ticks.sum::<Result<u64, _>>().ok()
}
