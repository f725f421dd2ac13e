//! Lists in PostgreSQL: section by section, through the index that has their order.

use deadpool_postgres::{Pool, Transaction};
use lastword_core::view::row::{Row, Section};
use lastword_core::{JobId, Timestamp};
use tokio_postgres::IsolationLevel;
use uuid::Uuid;

use super::batch::number;
use super::connect::Value;
use super::failure::Try;
use super::view::{COMPARED_PAGE, Columns, read, select_rows};
use crate::{Filter, List, Listed, Result};

/// Rows of a section after a key, without those that moved to the next first page.
macro_rules! section {
    ($of:literal) => {
        select_rows!(
            $of,
            " and section = $1 and (changed_at, job) < ($2, $3) and not (changed_at > $4 and changed_at <= $5)
                and not (seen_at > $4 and seen_at <= $5)
                and ($6::text[] is null or phase = any ($6))
                and ($7::text is null or position($7 in outcome) between 1 and 2)
                and ($8::text is null or queue = $8) and ($9::text is null or name = $9)
                and ($10::bigint is null or changed_at >= $10)
                and ($12::uuid is null or conversation = $12)
            order by changed_at desc, job desc limit $11"
        )
    };
}

const SECTION: &str = section!("true");

/// Uses the index of conversations.
const CONVERSATIONS: &str = section!("conversation is not null");

/// Uses the index of the jobs of a conversation.
const CONVERSATION: &str = section!("conversation = $12");

/// Returns a page of a list. All sections are read in one snapshot: a job that ends meanwhile would be in neither of its two sections.
pub(super) async fn list(pool: &Pool, list: &List) -> Try<Vec<Listed>> {
    let mut client = pool.get().await?;
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let snapshot = snapshot.start().await?;
    let (mut listed, limit) = (Vec::new(), list.limit as usize);
    for section in list.sections() {
        let mut begins = list.begins(section);
        loop {
            let wanted = (limit - listed.len()) as u32;
            let compares = list.filter.compares_summary();
            let size = if compares { COMPARED_PAGE } else { wanted };
            let rows = page(&snapshot, list, section, begins, size).await?;
            begins = rows.last().map(|row| (row.changed_at, row.job));
            let is_last = rows.len() < size as usize;
            let passing = rows.into_iter().filter(|row| list.filter.passes_summary(row));
            listed.extend(passing.take(wanted as usize).map(|row| Listed { row, section }));
            if listed.len() == limit {
                return Ok(listed);
            }
            if is_last {
                break;
            }
        }
    }
    Ok(listed)
}

async fn page(
    snapshot: &Transaction<'_>,
    list: &List,
    section: Section,
    begins: Option<(Timestamp, JobId)>,
    size: u32,
) -> Try<Vec<Row>> {
    let (since, now) = list.moved();
    let (since, now) = (number(since.0), number(now.0));
    // Without a key, the greatest of each.
    let (at, job) = begins.map_or((i64::MAX, Uuid::max()), |(at, job)| (number(at.0), job.as_uuid()));
    let Columns { phases, outcome, since: changed_since, conversation } = Columns::of(&list.filter);
    let (group, name) = (&list.filter.group, &list.filter.name);
    let (section, size) = (section.number(), i64::from(size));
    let sql = match &list.filter {
        Filter { conversation: Some(_), .. } => CONVERSATION,
        Filter { is_newest: true, .. } => CONVERSATIONS,
        _ => SECTION,
    };
    let values: [Value<'_>; 12] = [
        &section,
        &at,
        &job,
        &since,
        &now,
        &phases,
        &outcome,
        group,
        name,
        &changed_since,
        &size,
        &conversation,
    ];
    let rows = snapshot.query(&snapshot.prepare_cached(sql).await?, &values).await?;
    Ok(rows.iter().map(read).collect::<Result<_>>()?)
}
