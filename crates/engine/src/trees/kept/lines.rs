//! Lines to keepers: one open connection to each living one. It tells of rungs, and its end tells of the end.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};

use lastword_core::{AttemptNo, JobId};
use lastword_proc::{Identity, ancestors, hung_up};
use tokio::net::UnixStream;

use super::speak::Said;
use super::wishes::Wishes;
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
    /// The deadline it has been told under this claim, if it is known to have heard.
    deadline: Option<Option<u64>>,
    said: Arc<Said>,
    /// What is wanted of it, if it is an agent.
    wishes: Arc<Wishes>,
}

impl Lines {
    /// Notes that a keeper should be there, and its deadline; there is no connection yet.
    pub(super) fn expect(
        &self,
        job: JobId,
        attempt: AttemptNo,
        guard: &Identity,
        deadline: Option<Option<u64>>,
    ) {
        let guard = Some((guard.pid, guard.start_ticks));
        lock(&self.kept).insert(
            job,
            Line { attempt, guard, socket: None, deadline, said: Arc::default(), wishes: Arc::default() },
        );
    }

    /// Notes who guards a tree that was found, unless that is known. Whoever found it has told its keeper nothing yet.
    pub(super) fn expect_again(&self, job: JobId, attempt: AttemptNo, guard: &Identity) {
        let known = lock(&self.kept).get(&job).is_some_and(|line| line.attempt == attempt);
        if !known {
            self.expect(job, attempt, guard, None);
        }
    }

    /// Notes the connection to a keeper.
    pub(super) fn connected(&self, job: JobId, attempt: AttemptNo, socket: &Arc<UnixStream>) {
        if let Some(line) = lock(&self.kept).get_mut(&job).filter(|line| line.attempt == attempt) {
            line.socket = Some(Arc::clone(socket));
        }
    }

    /// Returns what is to be said to a keeper that should be there.
    pub(super) fn said(&self, job: JobId, attempt: AttemptNo) -> Option<Arc<Said>> {
        let kept = lock(&self.kept);
        kept.get(&job).filter(|line| line.attempt == attempt).map(|line| Arc::clone(&line.said))
    }

    /// Returns what is to be said to a keeper, and what is wanted of its agent.
    pub(super) fn talk(&self, job: JobId, attempt: AttemptNo) -> Option<(Arc<Said>, Arc<Wishes>)> {
        let kept = lock(&self.kept);
        let line = kept.get(&job).filter(|line| line.attempt == attempt)?;
        Some((Arc::clone(&line.said), Arc::clone(&line.wishes)))
    }

    /// Reports whether a keeper is known to have this deadline.
    pub(super) fn has_deadline(&self, job: JobId, attempt: AttemptNo, at: Option<u64>) -> bool {
        let kept = lock(&self.kept);
        kept.get(&job).is_some_and(|line| line.attempt == attempt && line.deadline == Some(at))
    }

    /// Notes that a keeper is told another deadline.
    pub(super) fn forget_deadline(&self, job: JobId, attempt: AttemptNo) {
        if let Some(line) = lock(&self.kept).get_mut(&job).filter(|line| line.attempt == attempt) {
            line.deadline = None;
        }
    }

    /// Notes that a connection is gone.
    pub(super) fn lost(&self, job: JobId, attempt: AttemptNo) {
        let mut kept = lock(&self.kept);
        if let Some(line) = kept.get_mut(&job).filter(|line| line.attempt == attempt) {
            line.socket = None;
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
