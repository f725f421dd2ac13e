//! The keepers that should be alive, with one open connection to each. The connection carries events and commands; its end means that the
//! keeper is gone.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use lastword_core::{AttemptNo, JobId};
use lastword_proc::{Identity, hung_up};
use tokio::net::UnixStream;

use super::goals::AgentGoals;
use super::outbox::Outbox;
use crate::lock::lock;

/// How often it is read when an attempt last wrote something.
const WRITTEN_READ_EVERY: Duration = Duration::from_secs(1);

/// The keepers of this host.
#[derive(Debug, Default)]
pub(super) struct KeeperTable {
    keepers: Mutex<BTreeMap<JobId, Entry>>,
    /// Jobs whose environment was kept since this process started.
    envs: Mutex<HashSet<JobId>>,
}

/// One keeper.
#[derive(Debug)]
struct Entry {
    attempt: AttemptNo,
    /// Pid and start time of the guard; while it lives, every process of the tree descends from it.
    guard: Option<(i32, u64)>,
    /// None while there is no connection: its keeper may be gone.
    socket: Option<Arc<UnixStream>>,
    /// The deadline it was sent under this claim, once it is known to have it.
    deadline: Option<Option<u64>>,
    outbox: Arc<Outbox>,
    /// Used if the job is an agent.
    goals: Arc<AgentGoals>,
    /// When the attempt last wrote something, and when that was read.
    written: Option<(Instant, Option<SystemTime>)>,
}

impl KeeperTable {
    /// Adds a keeper, with its deadline; there is no connection yet.
    pub(super) fn expect(
        &self,
        job: JobId,
        attempt: AttemptNo,
        guard: &Identity,
        deadline: Option<Option<u64>>,
    ) {
        let guard = Some((guard.pid, guard.start_ticks));
        let (outbox, goals) = (Arc::default(), Arc::default());
        lock(&self.keepers)
            .insert(job, Entry { attempt, guard, socket: None, deadline, outbox, goals, written: None });
    }

    /// Adds a keeper that was found alive, unless it is known. Its deadline is unknown.
    pub(super) fn expect_again(&self, job: JobId, attempt: AttemptNo, guard: &Identity) {
        let known = lock(&self.keepers).get(&job).is_some_and(|entry| entry.attempt == attempt);
        if !known {
            self.expect(job, attempt, guard, None);
        }
    }

    /// Notes the connection to a keeper.
    pub(super) fn connected(&self, job: JobId, attempt: AttemptNo, socket: &Arc<UnixStream>) {
        if let Some(entry) = lock(&self.keepers).get_mut(&job).filter(|entry| entry.attempt == attempt) {
            entry.socket = Some(Arc::clone(socket));
        }
    }

    /// Returns the outbox of a keeper.
    pub(super) fn outbox(&self, job: JobId, attempt: AttemptNo) -> Option<Arc<Outbox>> {
        let keepers = lock(&self.keepers);
        keepers.get(&job).filter(|entry| entry.attempt == attempt).map(|entry| Arc::clone(&entry.outbox))
    }

    /// Returns the outbox of a keeper and the goals of its agent.
    pub(super) fn agent(&self, job: JobId, attempt: AttemptNo) -> Option<(Arc<Outbox>, Arc<AgentGoals>)> {
        let keepers = lock(&self.keepers);
        let entry = keepers.get(&job).filter(|entry| entry.attempt == attempt)?;
        Some((Arc::clone(&entry.outbox), Arc::clone(&entry.goals)))
    }

    /// Returns when an attempt last wrote something, as `read` says. It is not read again within a moment: a list of many jobs would do
    /// little else.
    pub(super) fn last_written(
        &self,
        job: JobId,
        attempt: AttemptNo,
        read: impl FnOnce() -> Option<SystemTime>,
    ) -> Option<SystemTime> {
        let known = |entry: &Entry| entry.written.filter(|(at, _)| at.elapsed() < WRITTEN_READ_EVERY);
        let found = lock(&self.keepers).get(&job).filter(|entry| entry.attempt == attempt).and_then(known);
        if let Some((_, written)) = found {
            return written;
        }
        let written = read();
        if let Some(entry) = lock(&self.keepers).get_mut(&job).filter(|entry| entry.attempt == attempt) {
            entry.written = Some((Instant::now(), written));
        }
        written
    }

    /// Reports whether a keeper is known to have this deadline.
    pub(super) fn has_deadline(&self, job: JobId, attempt: AttemptNo, at: Option<u64>) -> bool {
        let keepers = lock(&self.keepers);
        keepers.get(&job).is_some_and(|entry| entry.attempt == attempt && entry.deadline == Some(at))
    }

    /// Notes that a keeper is about to get another deadline.
    pub(super) fn forget_deadline(&self, job: JobId, attempt: AttemptNo) {
        if let Some(entry) = lock(&self.keepers).get_mut(&job).filter(|entry| entry.attempt == attempt) {
            entry.deadline = None;
        }
    }

    /// Notes that a connection is gone.
    pub(super) fn disconnected(&self, job: JobId, attempt: AttemptNo) {
        let mut keepers = lock(&self.keepers);
        if let Some(entry) = keepers.get_mut(&job).filter(|entry| entry.attempt == attempt) {
            entry.socket = None;
        }
    }

    /// Removes a keeper whose end was reported.
    pub(super) fn remove(&self, job: JobId, attempt: AttemptNo) {
        let mut keepers = lock(&self.keepers);
        if keepers.get(&job).is_some_and(|entry| entry.attempt == attempt) {
            keepers.remove(&job);
        }
    }

    /// Returns the jobs whose keeper is gone, or was not reached yet.
    pub(super) fn gone(&self, of: Option<JobId>) -> Vec<JobId> {
        let mut gone = Vec::new();
        let mut open = Vec::new();
        {
            let keepers = lock(&self.keepers);
            let mut sort = |job: &JobId, entry: &Entry| match &entry.socket {
                Some(socket) => open.push((*job, Arc::clone(socket))),
                None => gone.push(*job),
            };
            match of {
                Some(job) => keepers.get(&job).into_iter().for_each(|entry| sort(&job, entry)),
                None => keepers.iter().for_each(|(job, entry)| sort(job, entry)),
            }
        }
        // A failed poll says nothing about the keepers; their watches find out.
        let ended = hung_up(open.iter().map(|(_, socket)| socket.as_fd())).unwrap_or_default();
        gone.extend(open.iter().zip(ended).filter(|(_, ended)| *ended).map(|((job, _), _)| *job));
        gone
    }

    /// Returns the attempts whose keeper is connected.
    pub(super) fn kept(&self) -> Vec<(JobId, AttemptNo)> {
        let gone = self.gone(None);
        let keepers = lock(&self.keepers);
        let kept = keepers.iter().filter(|(job, _)| !gone.contains(job));
        kept.map(|(job, entry)| (*job, entry.attempt)).collect()
    }

    /// Returns the job whose guard is in a line of ancestors.
    pub(super) fn holder_of(&self, ancestors: &[(i32, u64)]) -> Option<JobId> {
        let keepers = lock(&self.keepers);
        ancestors.iter().find_map(|ancestor| {
            keepers.iter().find(|(_, entry)| entry.guard.as_ref() == Some(ancestor)).map(|(job, _)| *job)
        })
    }

    /// Notes that a job has an environment.
    pub(super) fn env_kept(&self, job: JobId) {
        lock(&self.envs).insert(job);
    }

    /// Notes that the environment of a job was removed.
    pub(super) fn env_dropped(&self, job: JobId) {
        lock(&self.envs).remove(&job);
    }

    /// Reports whether a job got an environment since this process started.
    pub(super) fn has_env(&self, job: JobId) -> bool {
        lock(&self.envs).contains(&job)
    }
}
