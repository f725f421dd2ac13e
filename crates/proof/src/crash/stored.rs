//! Everything that a journal holds, to be compared with what was acknowledged.

use std::collections::BTreeMap;

use lastword_core::JobId;
use lastword_store::{Catalog, Feed, Filter, Journal};

use super::history::Log;

/// Rows and events read at once.
const PAGE: u32 = 10_000;

/// Reads everything a journal holds: the events by the feed, which must have them all, and every row.
pub async fn stored(journal: &(impl Journal + Catalog)) -> lastword_store::Result<BTreeMap<JobId, Log>> {
    let mut logs: BTreeMap<JobId, Log> = BTreeMap::new();
    let mut after = None;
    loop {
        let Feed { events, next } = journal.read(after, PAGE).await?;
        if events.is_empty() {
            break;
        }
        events.into_iter().for_each(|(job, event)| logs.entry(job).or_default().events.push(event));
        after = next;
    }
    let mut before = None;
    loop {
        let rows = journal.rows(Filter::default(), before, PAGE).await?;
        let Some(last) = rows.last() else { break };
        before = Some(last.job);
        for row in rows {
            let log = logs.entry(row.job).or_default();
            log.row = Some(row);
        }
    }
    Ok(logs)
}
