//! Reads of the journal as it is: the log of a job, and the rows of all that are live.

use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Job, JobId, Seq};
use lastword_store::{self as store, Filter, Store};

use super::Desk;
use crate::Error;

/// Rows read at once.
const PAGE: u32 = 500;

impl<J: Store> Desk<J> {
    /// Returns a job as the journal has it; an unborn one if it has none.
    pub(crate) async fn load(&self, id: JobId) -> Result<Job, Error> {
        let events = self.journal.load(id, Seq(0)).await?;
        Ok(Job::fold(id, &events)?)
    }

    /// Returns the row of a job, if the journal has one.
    pub(crate) async fn row(&self, id: JobId) -> Result<Option<Row>, store::Error> {
        self.journal.row(id).await
    }

    /// Returns the rows of every live job.
    pub(crate) async fn live_rows(&self) -> Result<Vec<Row>, store::Error> {
        let (mut live, mut before) = (Vec::new(), None);
        loop {
            let filter = Filter { phases: PhaseName::LIVE.into(), ..Filter::default() };
            let rows = self.journal.rows(filter, before, PAGE).await?;
            let is_last = rows.len() < PAGE as usize;
            before = rows.last().map(|row| row.job);
            live.extend(rows);
            if is_last {
                return Ok(live);
            }
        }
    }
}
