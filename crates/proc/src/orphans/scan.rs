//! Lists the orphans of this user.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::command::{argv_of, display};
use super::facts::Facts;
use super::judge::{self, Judgement, Kind};
use super::known;
use super::snapshot::Snapshot;
use crate::identity::Identity;
use crate::proc_files;

/// A leaked process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Its identity.
    pub identity: Identity,
    /// Its kind.
    pub kind: Kind,
    /// The agent that started it, if known.
    pub agent: Option<&'static str>,
    /// Why it may be intentional; `None` for a certain leak.
    pub doubt: Option<String>,
    /// Its command line, truncated.
    pub command: String,
    /// Its age, including time asleep.
    pub age: Duration,
    /// Its resident memory, in bytes.
    pub resident_bytes: u64,
    /// CPU time it has used.
    pub cpu: Duration,
    /// Its working folder, if readable.
    pub cwd: Option<PathBuf>,
    /// The number of its descendants.
    pub descendants: usize,
}

/// Returns the orphans of this user, oldest first.
pub fn scan() -> io::Result<Vec<Orphan>> {
    let seen = Snapshot::take()?;
    let uid = rustix::process::getuid().as_raw();
    let agents = agents(&seen, uid);
    let candidates = seen.processes.keys().filter(|pid| seen.is_orphan(**pid));
    let mut orphans: Vec<Orphan> = candidates.filter_map(|pid| examine(*pid, uid, &seen, &agents)).collect();
    orphans.sort_by_key(|orphan| (orphan.identity.start_ticks, orphan.identity.pid));
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for orphan in &mut orphans {
        if seen.with_ancestors(own).any(|(above, _)| above == orphan.identity.pid) {
            orphan.doubt = Some("this command runs below it".to_owned());
        }
    }
    Ok(orphans)
}

/// Returns the running agents of a user.
fn agents(seen: &Snapshot, uid: u32) -> Vec<judge::Agent> {
    let known = seen.processes.iter().filter_map(|(pid, process)| {
        let argv = argv_of(*pid).filter(|_| owner(*pid) == Some(uid))?;
        let exe = proc_files::link(*pid, "exe");
        let name = known::name_of(&argv, &process.comm, exe.as_deref())?;
        (!known::is_server(name)).then_some((*pid, name))
    });
    known.collect()
}

/// Returns the owner of a process. Its `/proc` folder shows the owner even if its files are unreadable.
fn owner(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|found| found.uid())
}

/// Examines a process without a parent; `None` if it is gone, belongs to another user, or is not a leak.
fn examine(pid: i32, uid: u32, seen: &Snapshot, agents: &[judge::Agent]) -> Option<Orphan> {
    // Valid if the process is still the same at the end.
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
    let Judgement { kind, doubt } = judge::judge(pid, &facts, seen, agents)?;
    let ticks = rustix::param::clock_ticks_per_second();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let started = Duration::from_millis(identity.start_ticks.saturating_mul(1000) / ticks);
    let orphan = Orphan {
        command: display(&argv),
        age: Duration::try_from(now).unwrap_or_default().saturating_sub(started),
        resident_bytes: field("VmRSS:").unwrap_or(0).saturating_mul(1024),
        cpu: Duration::from_millis(cpu_ticks(pid)?.saturating_mul(1000) / ticks),
        cwd: proc_files::link(pid, "cwd"),
        descendants: seen.below(pid).len(),
        agent: facts.mark.map(|mark| mark.agent),
        kind,
        doubt,
        identity,
    };
    orphan.identity.is_alive().then_some(orphan)
}

/// Returns the CPU time of a process, user and system, in clock ticks.
fn cpu_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    let fields = std::str::from_utf8(stat.get(after..)?).ok()?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    ticks.sum::<Result<u64, _>>().ok()
}
