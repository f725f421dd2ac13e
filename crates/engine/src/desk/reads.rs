//! Reads of the journal as it is: a job, its row, and the rows of all that are live.

use std::sync::Arc;

use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Event, Job, JobId, Seq};
use lastword_store::{self as store, Filter, Store};

use super::Desk;
use super::folded::Folded;
use crate::Error;

/// Rows read at once.
const PAGE: u32 = 500;

impl<J: Store> Desk<J> {
    /// Returns a job as the journal has it; an unborn one if it has none.
    pub(crate) async fn load(&self, id: JobId) -> Result<Job, Error> {
        let folded = self.folded(id).await?;
        Ok(Arc::try_unwrap(folded).map_or_else(|kept| kept.job.clone(), |folded| folded.job))
    }

    /// Returns a job as the journal has it, with what views need of its log.
    pub async fn folded(&self, id: JobId) -> Result<Arc<Folded>, Error> {
        // Before the read: what is read later is of this instance, or of one that refuses what is decided on it.
        let seen = self.journal.instance_seen();
        let folded = match self.folded_logs.get(id).filter(|known| known.read_in == seen) {
            Some(known) => self.refolded(known).await?,
            None => None,
        };
        let folded = match folded {
            Some(folded) => folded,
            None => {
                let mut folded = Folded::unborn(id, seen);
                folded.add(self.journal.load(id, Seq(0)).await?)?;
                Arc::new(folded)
            }
        };
        self.folded_logs.keep(&folded);
        Ok(folded)
    }

    /// Adds what is new to a log; `None` if the journal does not have what was known of it.
    async fn refolded(&self, mut known: Arc<Folded>) -> Result<Option<Arc<Folded>>, Error> {
        let before = Seq(known.job.version.0.saturating_sub(1));
        let mut events: Vec<Event> = self.journal.load(known.job.id, before).await?;
        if events.is_empty() || events.first() != known.newest.as_ref() {
            return Ok(None);
        }
        let new = events.split_off(1);
        if !new.is_empty() {
            Arc::make_mut(&mut known).add(new)?;
        }
        Ok(Some(known))
    }

    /// Returns the row of a job, if the journal has one.
    pub(crate) async fn row(&self, id: JobId) -> Result<Option<Row>, store::Error> {
        self.journal.row(id).await
    }

    /// Returns the rows of every live job.
    pub(crate) async fn live_rows(&self) -> Result<Vec<Row>, store::Error> {
        self.rows_in(&PhaseName::LIVE).await
    }

    /// Returns the rows of every job in one of these phases.
    pub(crate) async fn rows_in(&self, phases: &[PhaseName]) -> Result<Vec<Row>, store::Error> {
        let (mut live, mut before) = (Vec::new(), None);
        loop {
            let filter = Filter { phases: phases.into(), ..Filter::default() };
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
