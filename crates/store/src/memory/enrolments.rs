//! Enrolments in memory.

use std::collections::BTreeMap;

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{OwnerId, Timestamp};

use super::{Ledger, Memory};
use crate::{
    EnrolledWorker, Enrolling, Enrolments, HeldJobs, Invitation, NotEnrolled, Result, Said, ServerDoor,
    TokenHash, Workload,
};

impl Ledger {
    fn workload(&self, now: Timestamp) -> Workload {
        let mut held: BTreeMap<OwnerId, HeldJobs> = BTreeMap::new();
        let mut waiting = BTreeMap::new();
        for entry in self.jobs.values() {
            if let Some(fence) = &entry.row.holder {
                let owner = fence.owner.clone();
                let jobs = held.entry(owner.clone()).or_insert(HeldJobs { owner, live: 0, left: 0 });
                match self.lives.get(&fence.incarnation) {
                    Some(life) if life.incarnation.instance == self.instance => jobs.live += 1,
                    _ => jobs.left += 1,
                }
            }
            let is_paused = self.groups.get(&entry.row.group).is_some_and(|group| group.paused);
            if entry.row.holder.is_none() && entry.row.due.is_some_and(|due| due <= now) && !is_paused {
                *waiting.entry(entry.row.summary.on.key()).or_default() += 1;
            }
        }
        let waiting = waiting.into_iter().map(|(key, jobs)| (WorkerLabels::from_key(&key), jobs));
        Workload { held: held.into_values().collect(), waiting: waiting.collect() }
    }
}

impl Enrolments for Memory {
    async fn invite(&self, invitation: Invitation) -> Result<()> {
        self.ledger().enrolments.invite(invitation);
        Ok(())
    }

    async fn enrol(&self, enrolling: Enrolling) -> Result<std::result::Result<OwnerId, NotEnrolled>> {
        let enrolled = self.ledger().enrolments.enrol(enrolling);
        self.0.bell.ring();
        Ok(enrolled)
    }

    async fn worker_of(&self, token: TokenHash) -> Result<Option<EnrolledWorker>> {
        let ledger = self.ledger();
        let mut workers = ledger.enrolments.workers.values();
        Ok(workers.find(|worker| worker.token == token && worker.revoked_at.is_none()).cloned())
    }

    async fn workers(&self) -> Result<Vec<EnrolledWorker>> {
        Ok(self.ledger().enrolments.workers.values().cloned().collect())
    }

    async fn describe(&self, name: OwnerId, said: Said, server: Option<OwnerId>) -> Result<()> {
        let mut ledger = self.ledger();
        if let Some(worker) = ledger.enrolments.workers.get_mut(&name) {
            worker.said = said;
            ledger.enrolments.connected.extend(server.map(|server| (name, server)));
        }
        Ok(())
    }

    async fn announce(&self, server: ServerDoor) -> Result<()> {
        self.ledger().enrolments.servers.insert(server.name.clone(), server);
        Ok(())
    }

    async fn server_of(&self, worker: OwnerId) -> Result<Option<ServerDoor>> {
        let ledger = self.ledger();
        let name = ledger.enrolments.connected.get(&worker);
        Ok(name.and_then(|name| ledger.enrolments.servers.get(name)).cloned())
    }

    async fn revoke(&self, name: OwnerId, now: Timestamp) -> Result<bool> {
        let is_revoked = self.ledger().enrolments.revoke(&name, now);
        self.0.bell.ring();
        Ok(is_revoked)
    }

    async fn workload(&self, now: Timestamp) -> Result<Workload> {
        Ok(self.ledger().workload(now))
    }
}
