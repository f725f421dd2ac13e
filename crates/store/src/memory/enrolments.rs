//! Enrolments in memory.

use std::collections::BTreeMap;

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{OwnerId, Timestamp};

use super::{Ledger, Memory};
use crate::enrolments::REMEMBERED_MS;
use crate::{
    EnrolledWorker, Enrolling, Enrolments, HeldJobs, INVITATION_MS, Invitation, NotEnrolled, Result, Said,
    TokenHash, Workload,
};

/// The enrolments and invitations of a ledger, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    workers: BTreeMap<OwnerId, EnrolledWorker>,
    invitations: BTreeMap<OwnerId, Invited>,
}

#[derive(Clone, Debug)]
struct Invited {
    invitation: Invitation,
    is_used: bool,
}

impl Book {
    fn invite(&mut self, invitation: Invitation) {
        let old = |invited: &Invited| {
            invited.invitation.now.plus_ms(INVITATION_MS + REMEMBERED_MS) < invitation.now
        };
        self.invitations.retain(|_, invited| !old(invited));
        self.invitations.insert(invitation.name.clone(), Invited { invitation, is_used: false });
    }

    fn enrol(
        &mut self,
        Enrolling { one_time, token, now }: Enrolling,
    ) -> std::result::Result<OwnerId, NotEnrolled> {
        if let Some(worker) = self.workers.values().find(|worker| worker.token == token) {
            return Ok(worker.name.clone());
        }
        let mut invited = self.invitations.values_mut();
        let Some(invited) = invited.find(|invited| invited.invitation.token == one_time) else {
            return Err(NotEnrolled::Unknown);
        };
        if invited.is_used {
            return Err(NotEnrolled::Used);
        }
        let Invitation { name, labels, now: since, .. } = invited.invitation.clone();
        if since.plus_ms(INVITATION_MS) <= now {
            return Err(NotEnrolled::Expired);
        }
        invited.is_used = true;
        let said = Said::default();
        let worker =
            EnrolledWorker { name: name.clone(), token, labels, enrolled_at: now, revoked_at: None, said };
        self.workers.insert(name.clone(), worker);
        Ok(name)
    }

    fn revoke(&mut self, name: &OwnerId, now: Timestamp) -> bool {
        let is_invited = self.invitations.remove(name).is_some();
        let worker = self.workers.get_mut(name);
        let is_known = is_invited || worker.is_some();
        if let Some(worker) = worker {
            worker.revoked_at.get_or_insert(now);
        }
        is_known
    }
}

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
        Ok(self.ledger().enrolments.enrol(enrolling))
    }

    async fn worker_of(&self, token: TokenHash) -> Result<Option<EnrolledWorker>> {
        let ledger = self.ledger();
        let mut workers = ledger.enrolments.workers.values();
        Ok(workers.find(|worker| worker.token == token && worker.revoked_at.is_none()).cloned())
    }

    async fn workers(&self) -> Result<Vec<EnrolledWorker>> {
        Ok(self.ledger().enrolments.workers.values().cloned().collect())
    }

    async fn describe(&self, name: OwnerId, said: Said) -> Result<()> {
        if let Some(worker) = self.ledger().enrolments.workers.get_mut(&name) {
            worker.said = said;
        }
        Ok(())
    }

    async fn revoke(&self, name: OwnerId, now: Timestamp) -> Result<bool> {
        Ok(self.ledger().enrolments.revoke(&name, now))
    }

    async fn workload(&self, now: Timestamp) -> Result<Workload> {
        Ok(self.ledger().workload(now))
    }
}
