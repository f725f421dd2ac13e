//! Why a job does not start: which jobs it waits for.

use std::collections::HashMap;

use lastword_core::spec::DEFAULT_GROUP;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{JobId, Timestamp};
use lastword_store::{Filter, Store};

use super::Desk;
use crate::Error;

/// Jobs that are named: enough to see what to do.
const NAMED_MAX: u32 = 10;

/// Jobs that are counted to see whether a slot is free.
const COUNTED_MAX: u32 = 500;

/// Why a queued job does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Its dependencies have not ended: these.
    Dependencies(Vec<Row>),
    /// Jobs that end with it have not ended: these. Nothing of it runs.
    Children(Vec<Row>),
    /// Its group is paused.
    Paused,
    /// Its group has spent what it may spend today: until then.
    Budget(Timestamp),
    /// A job drives the conversation that it resumes.
    Conversation(Box<Row>),
    /// All slots of its group are taken, by these jobs among others.
    Slots {
        /// The number of slots.
        slots: u32,
        /// The jobs.
        by: Vec<Row>,
    },
    /// A worker that has these labels, if it needs any.
    Worker(WorkerLabels),
    /// A point in time, or nothing: it is about to be started.
    Nothing,
}

impl<J: Store> Desk<J> {
    /// Returns why a queued job does not start.
    pub async fn wait_reason(&self, row: &Row) -> Result<WaitReason, Error> {
        self.refresh_groups(&[row]).await?;
        self.wait_reason_beside(row, &mut HashMap::new()).await
    }

    /// Returns why each of some jobs does not start. Only one that waits for others is loaded; the rest is known from the rows.
    pub async fn wait_reasons(&self, rows: &[&Row]) -> Result<Vec<WaitReason>, Error> {
        self.refresh_groups(rows).await?;
        let (mut reasons, mut groups) = (Vec::new(), HashMap::new());
        for row in rows {
            reasons.push(self.wait_reason_beside(row, &mut groups).await?);
        }
        Ok(reasons)
    }

    /// Reads the groups again if one of these jobs may wait for its group: where hosts share a journal, others pause groups and spend their
    /// budgets.
    async fn refresh_groups(&self, rows: &[&Row]) -> Result<(), Error> {
        let waits =
            |row: &&Row| matches!(row.phase, PhaseName::Queued | PhaseName::Backoff | PhaseName::Idle);
        if self.journal.is_shared() && rows.iter().any(waits) {
            self.read_groups().await?;
        }
        Ok(())
    }

    /// Returns why a job does not start. `groups` has what is known of the slots of groups.
    async fn wait_reason_beside(
        &self,
        row: &Row,
        groups: &mut HashMap<String, WaitReason>,
    ) -> Result<WaitReason, Error> {
        let is_due = row.due.is_some_and(|due| due <= self.now().wall);
        match row.phase {
            _ if row.summary.awaits => return self.children(row.job).await,
            PhaseName::Queued if row.summary.unmet > 0 => return self.dependencies(row.job).await,
            PhaseName::Queued | PhaseName::Backoff | PhaseName::Idle if is_due => {}
            _ => return Ok(WaitReason::Nothing),
        }
        if self.is_paused(&row.group) {
            return Ok(WaitReason::Paused);
        }
        if let Some(until) = self.budget_until(&row.group) {
            return Ok(WaitReason::Budget(until));
        }
        if let Some(driver) = self.driver(row).await? {
            return Ok(WaitReason::Conversation(Box::new(driver)));
        }
        let reason = match groups.get(&row.group) {
            Some(known) => known.clone(),
            None => {
                let taken = self.slots_taken(&row.group).await?;
                groups.insert(row.group.clone(), taken.clone());
                taken
            }
        };
        // The worker of a laptop takes what it may at once, unless it lacks a label. On a fleet all workers may be busy or away.
        let needs_worker =
            reason == WaitReason::Nothing && (self.journal.is_shared() || !row.summary.on.is_empty());
        Ok(if needs_worker { WaitReason::Worker(row.summary.on.clone()) } else { reason })
    }

    async fn children(&self, id: JobId) -> Result<WaitReason, Error> {
        let (folded, mut rows) = (self.folded(id).await?, Vec::new());
        for child in folded.job.tied().take(NAMED_MAX as usize) {
            rows.extend(self.row(child.job).await?);
        }
        Ok(WaitReason::Children(rows))
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
        let Some(session) = &row.drives else { return Ok(None) };
        let drives = |other: &Row| {
            other.job != row.job && other.holder.is_some() && other.drives.as_ref() == Some(session)
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
        // There are more than slots if there were more slots before.
        let mut by = self.journal.rows(filter, None, slots.clamp(NAMED_MAX, COUNTED_MAX)).await?;
        if (by.len() as u32) < slots.min(COUNTED_MAX) {
            return Ok(WaitReason::Nothing);
        }
        by.truncate(NAMED_MAX as usize);
        Ok(WaitReason::Slots { slots, by })
    }
}
