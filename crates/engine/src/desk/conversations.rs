//! Conversations: which job of one is its newest, and all of its jobs.

use lastword_core::decide::resume;
use lastword_core::view::row::{Row, Section};
use lastword_core::{Job, JobId};
use lastword_store::{self as store, Filter, List, Store};

use super::Desk;
use crate::Error;

/// Rows read at once.
const PAGE: u32 = 500;

/// Jobs that are looked at for one that was to be followed and is not: those that changed last. No more requests are under way at once.
const CHECKED: u32 = 256;

/// How long another server may take to submit the job that follows.
const SUBMITTED_MS: u64 = 3_600_000;

/// The author of what a check stores.
const BY: &str = "recovery";

impl<J: Store> Desk<J> {
    /// Returns the newest job of a job's conversation; the job itself if it is in none.
    pub async fn newest_of(&self, job: &Job) -> Result<Job, Error> {
        let Some(first) = job.conversation() else { return Ok(job.clone()) };
        let filter = Filter { conversation: Some(first), ..Filter::default() };
        match self.journal.rows(filter, None, 1).await?.first() {
            Some(newest) if newest.job != job.id => self.load(newest.job).await,
            _ => Ok(job.clone()),
        }
    }

    /// Returns the row of a job, if the journal has one.
    pub async fn row_of(&self, id: JobId) -> Result<Option<Row>, Error> {
        Ok(self.row(id).await?)
    }

    /// Returns the jobs of a conversation, oldest first.
    pub async fn conversation(&self, first: JobId) -> Result<Vec<Row>, Error> {
        let (mut jobs, mut before) = (Vec::new(), None);
        loop {
            let filter = Filter { conversation: Some(first), ..Filter::default() };
            let page = self.journal.rows(filter, before, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            before = page.last().map(|row| row.job);
            jobs.extend(page);
            if is_last {
                jobs.reverse();
                return Ok(jobs);
            }
        }
    }

    /// Makes jobs the newest of their conversations again that are followed by none: what was to follow was never submitted, because of a
    /// crash.
    pub(crate) async fn check_followed(&self) -> Result<(), store::Error> {
        let list = List { sections: vec![Section::Continued], limit: CHECKED, ..List::default() };
        let patience_ms = if self.journal.is_shared() { SUBMITTED_MS } else { 0 };
        let before = self.now().wall.0.saturating_sub(patience_ms);
        for listed in self.journal.list(list).await? {
            let Some(follows) = listed.row.summary.continued_by else { continue };
            if listed.row.changed_at.0 > before || self.row(follows).await?.is_some() {
                continue;
            }
            let job = listed.row.job;
            if let Err(error) = self.request(job, None, |job| resume::unfollow(job, BY, follows)).await {
                let what = format!(
                    "{follows} was to follow it and was never submitted; that cannot be stored: {error}"
                );
                self.troubles.add(Some(job), what, "the next start of the daemon tries again");
            }
        }
        Ok(())
    }
}
