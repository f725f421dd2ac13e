//! Lines to keepers: one open connection to each living one. It tells of rungs, and its end tells of the end.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};

use lastword_core::{AttemptNo, JobId};
use lastword_proc::{Identity, ancestors, hung_up};
use tokio::net::UnixStream;

use super::watch::Open;
use crate::shared::lock;

/// What is known of the keepers that should be there.
#[derive(Debug, Default)]
pub(super) struct Lines {
    kept: Mutex<BTreeMap<JobId, Line>>,
    /// Jobs whose environment was kept in this life.
    envs: Mutex<HashSet<JobId>>,
}

/// One keeper.
#[derive(Debug)]
struct Line {
    attempt: AttemptNo,
    /// Who guards the tree; everything in it descends from this process.
    guard: Option<(i32, u64)>,
    /// None while there is no connection: its keeper may be gone.
    socket: Option<Arc<UnixStream>>,
    /// What was received on it before anybody watched; none once somebody does.
    unread: Option<Vec<u8>>,
}

impl Lines {
    /// Notes that a keeper should be there; there is no connection yet.
    pub(super) fn expect(&self, job: JobId, attempt: AttemptNo, guard: &Identity) {
        let guard = Some((guard.pid, guard.start_ticks));
        lock(&self.kept).insert(job, Line { attempt, guard, socket: None, unread: None });
    }

    /// Notes who guards a tree that was found, and leaves its connection alone.
    pub(super) fn expect_again(&self, job: JobId, attempt: AttemptNo, guard: &Identity) {
        let guard = Some((guard.pid, guard.start_ticks));
        let mut kept = lock(&self.kept);
        match kept.get_mut(&job) {
            Some(line) if line.attempt == attempt => line.guard = guard,
            _ => drop(kept.insert(job, Line { attempt, guard, socket: None, unread: None })),
        }
    }

    /// Notes the connection to a keeper, with what was received on it.
    pub(super) fn connected(&self, job: JobId, attempt: AttemptNo, socket: Arc<UnixStream>, unread: Vec<u8>) {
        if let Some(line) = lock(&self.kept).get_mut(&job).filter(|line| line.attempt == attempt) {
            (line.socket, line.unread) = (Some(socket), Some(unread));
        }
    }

    /// Reports whether there is a connection to a keeper.
    pub(super) fn is_connected(&self, job: JobId, attempt: AttemptNo) -> bool {
        let kept = lock(&self.kept);
        kept.get(&job).is_some_and(|line| line.attempt == attempt && line.socket.is_some())
    }

    /// Returns the connection to a keeper to whoever watches it.
    pub(super) fn take(&self, job: JobId, attempt: AttemptNo) -> Option<Open> {
        let mut kept = lock(&self.kept);
        let line = kept.get_mut(&job).filter(|line| line.attempt == attempt)?;
        let unread = line.unread.take()?;
        Some(Open::new(Arc::clone(line.socket.as_ref()?), unread))
    }

    /// Notes that a connection is gone.
    pub(super) fn lost(&self, job: JobId, attempt: AttemptNo) {
        let mut kept = lock(&self.kept);
        if let Some(line) = kept.get_mut(&job).filter(|line| line.attempt == attempt) {
            (line.socket, line.unread) = (None, None);
        }
    }

    /// Forgets a keeper whose end was reported.
    pub(super) fn over(&self, job: JobId, attempt: AttemptNo) {
        let mut kept = lock(&self.kept);
        if kept.get(&job).is_some_and(|line| line.attempt == attempt) {
            kept.remove(&job);
        }
    }

    /// Returns the jobs whose keeper is gone, or has not been reached yet.
    pub(super) fn gone(&self, of: Option<JobId>) -> Vec<JobId> {
        let mut gone = Vec::new();
        let mut open = Vec::new();
        {
            let kept = lock(&self.kept);
            let mut look = |job: &JobId, line: &Line| match &line.socket {
                Some(socket) => open.push((*job, Arc::clone(socket))),
                None => gone.push(*job),
            };
            match of {
                Some(job) => kept.get(&job).into_iter().for_each(|line| look(&job, line)),
                None => kept.iter().for_each(|(job, line)| look(job, line)),
            }
        }
        // Who cannot look has found nothing out; whoever watches will.
        let ended = hung_up(open.iter().map(|(_, socket)| socket.as_fd())).unwrap_or_default();
        gone.extend(open.iter().zip(ended).filter(|(_, ended)| *ended).map(|((job, _), _)| *job));
        gone
    }

    /// Returns the job whose guard a process descends from.
    pub(super) fn holder_of(&self, pid: i32) -> Option<JobId> {
        let line = ancestors(pid);
        let kept = lock(&self.kept);
        line.iter().find_map(|ancestor| {
            kept.iter().find(|(_, line)| line.guard.as_ref() == Some(ancestor)).map(|(job, _)| *job)
        })
    }

    /// Notes that a job has an environment.
    pub(super) fn env_kept(&self, job: JobId) {
        lock(&self.envs).insert(job);
    }

    /// Notes that it has none any more.
    pub(super) fn env_dropped(&self, job: JobId) {
        lock(&self.envs).remove(&job);
    }

    /// Reports whether a job was given an environment in this life.
    pub(super) fn has_env(&self, job: JobId) -> bool {
        lock(&self.envs).contains(&job)
    }
}
