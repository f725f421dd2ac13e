//! Jobs whose provider refused to answer are told when they may try again, and those that waited for too long end.

use lastword_core::decide::provider;
use lastword_core::view::row::PhaseName;
use lastword_core::{Job, JobId, Timestamp};
use lastword_store::{self as store, Store};

use super::Desk;
use crate::Error;
use crate::lock::lock;

impl<J: Store> Desk<J> {
    /// Tells jobs that may try, and ends those that waited for too long. Returns when to look again.
    pub(crate) async fn check_accounts(&self) -> Option<Timestamp> {
        let due = lock(&self.agenda.accounts).due(self.now().wall);
        for id in due.give_up {
            self.tell_waiting(id, |job| provider::give_up(job, self.now().wall)).await;
        }
        for (id, at) in due.open {
            self.tell_waiting(id, |job| provider::open(job, at)).await;
        }
        due.next
    }

    async fn tell_waiting(&self, id: JobId, decide: impl Fn(&Job) -> lastword_core::decide::Decision) {
        if let Err(error) = self.request(id, None, decide).await {
            if matches!(error, Error::Journal(store::Error::Unavailable(_))) {
                self.agenda.recheck(id);
            }
            let what = format!("it waits for its provider and could not be told to go on: {error}");
            self.troubles.add(Some(id), what, "it is told again by the next look at jobs that wait");
        }
    }

    /// Reads the jobs that wait for their providers, where other hosts write about them.
    pub(crate) async fn read_waits(&self) -> Result<(), store::Error> {
        let rows = self.rows_in(&[PhaseName::Backoff]).await?;
        let mut is_new = false;
        for row in &rows {
            if let Some(wait) = &row.summary.provider_wait {
                is_new |=
                    lock(&self.agenda.accounts).note_wait(row.job, Some(wait), row.holder.is_some(), false);
            }
        }
        // What waits no more has no such row, and may have been answered.
        let waits = |id: &JobId| rows.iter().any(|row| row.job == *id && row.summary.provider_wait.is_some());
        let known = lock(&self.agenda.accounts).jobs();
        for id in known.into_iter().filter(|id| !waits(id)) {
            if let Ok(job) = self.load(id).await {
                is_new |= lock(&self.agenda.accounts).note(&job);
            }
        }
        if is_new {
            self.agenda.wake();
        }
        Ok(())
    }
}
