//! `seen`: a person has read how a job ended. Only a person's face says so; reading by itself marks nothing.

use lastword_core::decide::Refusal;
use lastword_core::{JobId, Timestamp};
use lastword_store::Store;

use super::Desk;
use crate::Error;

impl<J: Store> Desk<J> {
    /// Notes that a person has read the ending of a job, at `now`. Refused before it has one.
    pub async fn seen(&self, id: JobId, now: Timestamp) -> Result<(), Error> {
        match self.row(id).await? {
            None => Err(Refusal::NotFound(id).into()),
            Some(row) if row.outcome.is_none() => Err(Refusal::NotEnded(id).into()),
            Some(_) => {
                self.journal.mark_seen(id, now).await?;
                // No event tells of it.
                self.changes.announce(id);
                Ok(())
            }
        }
    }
}
