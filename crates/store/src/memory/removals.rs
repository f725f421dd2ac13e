//! Removals in memory.

use lastword_core::{JobId, OwnerId};

use super::Memory;
use crate::{Removals, Result};

impl Removals for Memory {
    async fn note_removal(&self, job: JobId, workers: Vec<OwnerId>) -> Result<()> {
        let mut ledger = self.ledger();
        let is_enrolled = |name: &OwnerId| {
            ledger.enrolments.workers.get(name).is_some_and(|worker| worker.revoked_at.is_none())
        };
        let noted: Vec<_> = workers.into_iter().filter(is_enrolled).map(|worker| (worker, job)).collect();
        ledger.enrolments.removals.extend(noted);
        Ok(())
    }

    async fn removals(&self, workers: Vec<OwnerId>, limit: u32) -> Result<Vec<(OwnerId, JobId)>> {
        let ledger = self.ledger();
        let noted = ledger.enrolments.removals.iter().filter(|(worker, _)| workers.contains(worker));
        Ok(noted.take(limit as usize).cloned().collect())
    }

    async fn removed(&self, worker: OwnerId, job: JobId) -> Result<()> {
        self.ledger().enrolments.removals.remove(&(worker, job));
        Ok(())
    }
}
