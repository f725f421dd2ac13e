//! References: the words by which people mean a job.

use lastword_core::JobId;
use lastword_core::reference::Reference;
use lastword_store::siblings::Siblings;

use crate::{Engine, Error, FindError};

impl<J: Siblings> Engine<J> {
    /// Returns the one job that is meant: by id, a part of it, a name, or `@last`.
    pub async fn find(&self, reference: &str) -> Result<JobId, FindError> {
        let unknown = || FindError::NotFound(reference.chars().take(64).collect());
        let meant: Reference = reference.parse().map_err(|_| unknown())?;
        let mut rows = self.shared.journal.find(meant).await.map_err(Error::from)?;
        match rows.len() {
            0 => Err(unknown()),
            1 => rows.pop().map(|row| row.job).ok_or_else(unknown),
            _ => Err(FindError::Ambiguous { reference: reference.to_owned(), candidates: rows }),
        }
    }

    /// Takes note that a person has seen how a job ended.
    pub async fn mark_read(&self, id: JobId) -> Result<(), Error> {
        Ok(self.shared.journal.mark_read(id).await?)
    }
}
