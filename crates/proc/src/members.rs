//! The living processes of a tree, as they are now: for people to look at. What is proven about a tree is in its receipt.

use std::path::Path;
use std::{fs, io};

use rustix::param::page_size;

use crate::claim::Claim;
use crate::clock::{boot_ms, wall_ms};
use crate::folder::Folder;
use crate::identity::boot_id;
use crate::proc_files;
use crate::tree::walk_upto;

/// Bytes of a command line.
const COMMAND_BYTES_MAX: u64 = 300;

/// Names of our own processes, which hold a tree and are no part of it.
const OURS: [&str; 3] = ["lw-guard", "lw-shim", "lw-init"];

/// A living process of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its pid.
    pub pid: i32,
    /// Its parent, if that is of the tree. The first process has none, and neither has one whose parent is gone.
    pub parent: Option<i32>,
    /// Its command line, in one line, cut. Empty if it is hidden.
    pub command: String,
    /// When it was started, in milliseconds of the wall clock as it is now.
    pub started_ms: u64,
    /// It is in another session than the first process.
    pub left_session: bool,
    /// Milliseconds of CPU time that it used.
    pub cpu_ms: u64,
    /// Bytes of memory that are resident.
    pub resident: u64,
}

/// Returns the living processes of the attempt in a folder, parents before children, at most `max`; and whether there may be more. None if it
/// has no keeper here, and `None` if that cannot be read. Only looks: to locate an attempt would close a folder that no keeper has claimed yet.
pub fn members(dir: &Path, max: usize) -> Option<(Vec<Member>, bool)> {
    let claim = Folder::open(dir).and_then(|folder| Claim::read(&folder));
    let keeper = match claim {
        Ok(Some((_, Claim::Keeper(keeper)))) if keeper.guard.boot == boot_id() => keeper,
        Ok(_) => return Some((Vec::new(), false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some((Vec::new(), false)),
        Err(_) => return None,
    };
    let holders = [Some(&keeper.guard), keeper.shim.as_ref()];
    let Some(holder) = holders.into_iter().flatten().find(|holder| holder.is_alive()) else {
        return Some((Vec::new(), false));
    };
    // Our own processes are found, too.
    let pids = walk_upto(holder.pid, max + OURS.len());
    let may_be_more = pids.len() >= max + OURS.len();
    // If the holder is gone, its pid may be that of another process by now.
    if !holder.is_alive() {
        return Some((Vec::new(), false));
    }
    let session = keeper.leader.and_then(|leader| Seen::of(leader.identity.pid)).map(|leader| leader.session);
    let seen: Vec<(i32, Seen)> = pids.into_iter().filter_map(|pid| Some((pid, Seen::of(pid)?))).collect();
    let is_member = |pid: i32| seen.iter().any(|(other, _)| *other == pid);
    let member = |(pid, seen): &(i32, Seen)| Member {
        pid: *pid,
        parent: Some(seen.parent).filter(|parent| is_member(*parent)),
        command: command(*pid),
        started_ms: seen.started_ms,
        left_session: session.is_some_and(|session| session != seen.session),
        cpu_ms: seen.cpu_ms,
        resident: seen.resident,
    };
    let members: Vec<Member> = seen.iter().take(max).map(member).collect();
    Some((members, may_be_more || seen.len() > max))
}

/// What `/proc` says of a process that is alive and none of ours.
struct Seen {
    parent: i32,
    session: i32,
    started_ms: u64,
    cpu_ms: u64,
    resident: u64,
}

impl Seen {
    fn of(pid: i32) -> Option<Seen> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // A name may contain anything, so it ends with the last parenthesis.
        let (name, fields) = stat.rsplit_once(") ")?;
        let name = name.split_once('(')?.1;
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |at: usize| fields.get(at)?.trim().parse::<u64>().ok();
        let is_dead = matches!(*fields.first()?, "Z" | "X" | "x");
        if is_dead || OURS.contains(&name) {
            return None;
        }
        let ms = |ticks: u64| ticks * 1_000 / rustix::param::clock_ticks_per_second();
        Some(Seen {
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            cpu_ms: ms(number(11)? + number(12)?),
            started_ms: (wall_ms() + ms(number(19)?)).saturating_sub(boot_ms()),
            resident: number(21)? * page_size() as u64,
        })
    }
}

fn command(pid: i32) -> String {
    let bytes = proc_files::read(pid, "cmdline", COMMAND_BYTES_MAX).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let line = words.map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
    line.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
