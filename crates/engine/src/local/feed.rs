//! The feed over all jobs, or those of its events that a filter selects.

use std::collections::HashMap;

use lastword_core::{Event, JobId, Timestamp};
use lastword_store::{Cursor, Feed, Filter, Store};

use crate::{Engine, Error};

/// Events read at once in search of those that a filter selects.
const PAGE: u32 = 500;

/// Events that one call reads at most: rare events in a long history must not hold a request up.
const SEARCHED_MAX: usize = 20_000;

/// Which events of the feed to return; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedFilter {
    /// Of one of these kinds; of any if there is none.
    pub kinds: Vec<String>,
    /// Of this job.
    pub job: Option<JobId>,
    /// Of jobs whose rows pass.
    pub jobs: Filter,
    /// Decided at this moment or later.
    pub since: Option<Timestamp>,
}

impl FeedFilter {
    fn has_kind(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|selected| selected == kind)
    }

    /// Reports whether an event is selected, its job aside.
    pub fn has(&self, event: &Event) -> bool {
        self.has_kind(event.fact.kind()) && self.since.is_none_or(|since| event.at >= since)
    }

    fn is_about_jobs(&self) -> bool {
        self.jobs != Filter::default()
    }
}

impl<J: Store> Engine<J> {
    /// Returns a piece of the feed over all jobs, and where the next one begins. With a filter, a piece may be smaller than `limit`, or empty,
    /// although more follows: the end is reached when the place stays the same.
    pub async fn feed(
        &self,
        filter: &FeedFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<(Vec<(JobId, Event)>, Option<Cursor>), Error> {
        self.worker.settle(None).await;
        let journal = &self.desk().journal;
        if *filter == FeedFilter::default() {
            let feed = journal.read(after, limit).await?;
            return Ok((feed.events, feed.next));
        }
        let (mut found, mut place, mut searched) = (Vec::new(), after, 0);
        let mut known = HashMap::new();
        loop {
            let Feed { events, next } = journal.read(place.clone(), PAGE).await?;
            let selected = self.select(filter, &events, &mut known).await?;
            let room = limit as usize - found.len();
            if let Some(last) = selected.get(room) {
                // Only the journal can name a place in the middle of a page: read again, up to there.
                let part = journal.read(place.clone(), *last as u32).await?;
                if events.starts_with(&part.events) && part.events.len() == *last {
                    found.extend(selected[..room].iter().map(|at| events[*at].clone()));
                    return Ok((found, part.next));
                }
                // A job was removed meanwhile.
                continue;
            }
            found.extend(selected.iter().map(|at| events[*at].clone()));
            searched += events.len();
            place = next;
            if events.len() < PAGE as usize || searched >= SEARCHED_MAX || found.len() == limit as usize {
                return Ok((found, place));
            }
        }
    }

    /// Returns which of these events a filter selects. `known` has the verdict on jobs that were looked up before.
    async fn select(
        &self,
        filter: &FeedFilter,
        events: &[(JobId, Event)],
        known: &mut HashMap<JobId, bool>,
    ) -> Result<Vec<usize>, Error> {
        let mut selected = Vec::new();
        for (at, (job, event)) in events.iter().enumerate() {
            let is_other = filter.job.is_some_and(|wanted| wanted != *job);
            if is_other || !filter.has(event) {
                continue;
            }
            if filter.is_about_jobs() && !known.contains_key(job) {
                let row = self.desk().row(*job).await?;
                known.insert(*job, row.is_some_and(|row| filter.jobs.passes(&row)));
            }
            if known.get(job).copied().unwrap_or(true) {
                selected.push(at);
            }
        }
        Ok(selected)
    }
}
