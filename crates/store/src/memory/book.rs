//! The book of enrolments and invitations, as plain data.

use std::collections::{BTreeMap, BTreeSet};

use lastword_core::{JobId, OwnerId, Timestamp};

use crate::enrolments::REMEMBERED_MS;
use crate::{EnrolledWorker, Enrolling, INVITATION_MS, Invitation, NotEnrolled, Said, ServerDoor};

/// The enrolments and invitations of a ledger, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    pub(super) workers: BTreeMap<OwnerId, EnrolledWorker>,
    invitations: BTreeMap<OwnerId, Invited>,
    pub(super) removals: BTreeSet<(OwnerId, JobId)>,
    pub(super) servers: BTreeMap<OwnerId, ServerDoor>,
    /// To which server each worker last connected.
    pub(super) connected: BTreeMap<OwnerId, OwnerId>,
}

#[derive(Clone, Debug)]
struct Invited {
    invitation: Invitation,
    is_used: bool,
}

impl Book {
    pub(super) fn invite(&mut self, invitation: Invitation) {
        let old = |invited: &Invited| {
            invited.invitation.now.plus_ms(INVITATION_MS + REMEMBERED_MS) < invitation.now
        };
        self.invitations.retain(|_, invited| !old(invited));
        self.invitations.insert(invitation.name.clone(), Invited { invitation, is_used: false });
    }

    pub(super) fn enrol(
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

    pub(super) fn revoke(&mut self, name: &OwnerId, now: Timestamp) -> bool {
        let is_invited = self.invitations.remove(name).is_some();
        self.removals.retain(|(worker, _)| worker != name);
        let worker = self.workers.get_mut(name);
        let is_known = is_invited || worker.is_some();
        if let Some(worker) = worker {
            worker.revoked_at.get_or_insert(now);
        }
        is_known
    }
}
