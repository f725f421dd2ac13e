//! Why a job does not start: which jobs it waits for.

use lastword_core::JobId;
use lastword_core::spec::DEFAULT_GROUP;
use lastword_core::view::row::{PhaseName, Row};
use lastword_store::{Filter, Store};

use super::Desk;
use crate::Error;

/// Jobs that are named: enough to see what to do.
const NAMED_MAX: u32 = 10;

/// Why a queued job does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Its dependencies have not ended: these.
    Dependencies(Vec<Row>),
    /// Its group is paused.
    Paused,
    /// A job drives the conversation that it resumes.
    Conversation(Box<Row>),
    /// All slots of its group are taken, by these jobs among others.
    Slots {
        /// The number of slots.
        slots: u32,
        /// The jobs.
        by: Vec<Row>,
    },
    /// A point in time, or nothing: it is about to be started.
    Nothing,
}

impl<J: Store> Desk<J> {
    /// Returns why a queued job does not start. Only one that waits for others is loaded; the rest is known from its row.
    pub async fn wait_reason(&self, row: &Row) -> Result<WaitReason, Error> {
        let is_due = row.due.is_some_and(|due| due <= self.now().wall);
        match row.phase {
            PhaseName::Queued if row.summary.unmet > 0 => self.dependencies(row.job).await,
            PhaseName::Queued | PhaseName::Backoff if !is_due => Ok(WaitReason::Nothing),
            PhaseName::Queued | PhaseName::Backoff if self.is_paused(&row.group) => Ok(WaitReason::Paused),
            PhaseName::Queued | PhaseName::Backoff => match self.driver(row).await? {
                Some(driver) => Ok(WaitReason::Conversation(Box::new(driver))),
                None => self.slots_taken(&row.group).await,
            },
            _ => Ok(WaitReason::Nothing),
        }
    }

    async fn dependencies(&self, id: JobId) -> Result<WaitReason, Error> {
        let (folded, mut rows) = (self.folded(id).await?, Vec::new());
        for other in folded.job.unmet.iter().take(NAMED_MAX as usize) {
            rows.extend(self.row(other.job).await?);
        }
        Ok(WaitReason::Dependencies(rows))
    }

    /// Returns the job that drives the conversation of this one.
    async fn driver(&self, row: &Row) -> Result<Option<Row>, Error> {
        let Some(conversation) = &row.conversation else { return Ok(None) };
        let drives = |other: &Row| {
            other.job != row.job
                && other.holder.is_some()
                && other.conversation.as_ref() == Some(conversation)
        };
        Ok(self.live_rows().await?.into_iter().find(drives))
    }

    /// Returns which jobs have the slots of a group, if none is free.
    async fn slots_taken(&self, group: &str) -> Result<WaitReason, Error> {
        let slots = match self.groups.get(group) {
            Some(group) => group.slots,
            None if group == DEFAULT_GROUP => self.groups.default_slots,
            None => None,
        };
        let Some(slots) = slots else { return Ok(WaitReason::Nothing) };
        let phases = vec![PhaseName::Launching, PhaseName::Running, PhaseName::Stopping];
        let filter = Filter { phases, group: Some(group.to_owned()), ..Filter::default() };
        let by = self.journal.rows(filter, None, slots.min(NAMED_MAX)).await?;
        match by.len() as u32 == slots.min(NAMED_MAX) {
            true => Ok(WaitReason::Slots { slots, by }),
            false => Ok(WaitReason::Nothing),
        }
    }
}
