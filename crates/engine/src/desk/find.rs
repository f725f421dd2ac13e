//! References: which job a person means.

use lastword_core::JobId;
use lastword_core::reference::Reference;
use lastword_store::{Listed, Store};

use super::Desk;
use crate::{Error, FindError};

impl<J: Store> Desk<J> {
    /// Returns the rows of these jobs with their sections. One that is not there is left out.
    pub async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>, Error> {
        Ok(self.journal.listed(jobs).await?)
    }

    /// Returns the one job that matches a reference: an id, a part of it, a name, or `@last`.
    pub async fn find(&self, reference: &str) -> Result<JobId, FindError> {
        let unknown = || FindError::NotFound(reference.chars().take(64).collect());
        let parsed: Reference = reference.parse().map_err(|_| unknown())?;
        let mut rows = self.journal.find(parsed).await.map_err(Error::from)?;
        match rows.len() {
            0 => Err(unknown()),
            1 => rows.pop().map(|row| row.job).ok_or_else(unknown),
            _ => Err(FindError::Ambiguous { reference: reference.to_owned(), candidates: rows }),
        }
    }
}
