//! All processes at one moment, and what their parents and sessions say.

use std::collections::HashMap;
use std::io;

use crate::identity::Stat;

/// The process names of our own programs, whose descendants are never orphans.
pub(super) const OURS: [&str; 5] = ["lw-guard", "lw-shim", "lw-init", "lw-nursery", "lastword"];

/// All processes at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) processes: HashMap<i32, SeenProcess>,
}

/// One process of a snapshot.
#[derive(Clone, Debug)]
pub(super) struct SeenProcess {
    pub(super) stat: Stat,
    pub(super) comm: String,
}

impl SeenProcess {
    pub(super) fn is_ours(&self) -> bool {
        OURS.contains(&self.comm.as_str())
    }
}

impl Snapshot {
    pub(super) fn take() -> io::Result<Snapshot> {
        let mut processes = HashMap::new();
        for entry in std::fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let Some(stat) = Stat::of(pid).filter(|stat| !stat.is_dead()) else { continue };
            let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            let comm = String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned();
            processes.insert(pid, SeenProcess { stat, comm });
        }
        Ok(Snapshot { processes })
    }

    /// Reports whether the process that started this one is gone, and no keeper of ours holds it.
    ///
    /// An orphan is reparented to pid 1 or to the nearest subreaper, such as a user's service manager. A subreaper shows by the session: a
    /// child is in its parent's session or leads its own, so a process in another session without a leader was reparented.
    pub(super) fn is_orphan(&self, pid: i32) -> bool {
        let Some(SeenProcess { stat, .. }) = self.processes.get(&pid) else { return false };
        let left = match self.processes.get(&stat.parent) {
            _ if stat.parent == 1 => true,
            Some(parent) => parent.stat.session != stat.session && !self.has_leader(stat.session),
            None => false,
        };
        left && !self.is_kept(pid)
    }

    pub(super) fn has_leader(&self, session: i32) -> bool {
        // If the leader is gone, its pid may have been reused by a process of another session.
        self.processes.get(&session).is_some_and(|leader| leader.stat.session == session)
    }

    /// Returns the leader of a process's session, if alive.
    pub(super) fn leader_of(&self, pid: i32) -> Option<(i32, &SeenProcess)> {
        let session = self.processes.get(&pid)?.stat.session;
        let leader = self.processes.get(&session).filter(|leader| leader.stat.session == session);
        leader.map(|leader| (session, leader))
    }

    /// Reports whether a process exists and is older than another, so that it may have started it.
    pub(super) fn is_older(&self, pid: i32, other: i32) -> bool {
        let started = |pid: i32| self.processes.get(&pid).map(|process| process.stat.start_ticks);
        matches!((started(pid), started(other)), (Some(first), Some(second)) if first <= second)
    }

    /// Reports whether a descendant has a terminal in its own session, as in a tmux window.
    pub(super) fn holds_terminals(&self, pid: i32) -> bool {
        let Some(top) = self.processes.get(&pid) else { return false };
        let below = self.below(pid).into_iter().filter_map(|below| self.processes.get(&below));
        below.into_iter().any(|below| below.stat.terminal != 0 && below.stat.session != top.stat.session)
    }

    /// Reports whether it is one of our programs, or below one.
    pub(super) fn is_kept(&self, pid: i32) -> bool {
        self.with_ancestors(pid).any(|(_, process)| process.is_ours())
    }

    /// Iterates over a process and its ancestors. Bounded, because a snapshot is not atomic and could contain a cycle.
    pub(super) fn with_ancestors(&self, pid: i32) -> impl Iterator<Item = (i32, &SeenProcess)> {
        let find = |pid: i32| self.processes.get(&pid).map(|process| (pid, process));
        std::iter::successors(find(pid), move |(_, process)| find(process.stat.parent))
            .take(self.processes.len())
    }

    /// Iterates over the children of a process, except our own programs: an agent may have started a job of ours, which is not its own.
    pub(super) fn children(&self, parent: i32) -> impl Iterator<Item = (i32, &SeenProcess)> {
        let children =
            self.processes.iter().filter(move |(_, child)| child.stat.parent == parent && !child.is_ours());
        children.map(|(pid, child)| (*pid, child))
    }

    /// Returns all descendants of a process, except our own programs.
    pub(super) fn below(&self, pid: i32) -> Vec<i32> {
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
