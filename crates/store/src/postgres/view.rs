//! Reading jobs: one log, one row, or rows newest first.

use deadpool_postgres::Pool;
use lastword_core::spec::Conversation;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Event, JobId, Seq, Timestamp};
use uuid::Uuid;

use super::batch::{event, holder, job_id, number};
use super::connect::Failure;
use crate::{Error, Filter, Page, Result};

const LOAD: &str = "select seq, at, kind, version, body from events where job = $1 and seq > $2 order by seq";

/// The columns that `read` reads, of the rows that pass.
macro_rules! select_rows {
    ($($where:literal),+) => {
        concat!(
            "select job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch,
                outcome, least_reader, provider, reference, submitted_at, updated_at, summary
            from jobs where "
            $(, $where)+
        )
    };
}
pub(super) use select_rows;

const ROW: &str = select_rows!("job = $1");

macro_rules! select_list {
    ($where:literal) => {
        select_rows!(
            $where,
            " and job < $1 and ($2::text[] is null or phase = any ($2))
                and ($3::text is null or position($3 in outcome) between 1 and 2)
                and ($4::text is null or queue = $4) and ($5::text is null or name = $5)
                and ($6::uuid is null or holder_incarnation = $6)
            order by job desc limit $7"
        )
    };
}

/// Walks the primary key: with conditions that may be absent the planner expects few rows, and sorts all of them.
const PLAIN: &str = select_rows!("job < $1 order by job desc limit $2");

const ALL: &str = select_list!("true");

/// Goes through the index of live jobs, however many are over.
const LIVE: &str = select_list!("outcome is null");

/// Goes through the names.
const NAMED: &str = select_list!("name = $5");

/// Goes through the index of held jobs, however many there are of the others.
const HELD: &str = select_list!("holder_incarnation = $6");

/// Rows read at a time when their labels are to be looked at.
const LABELLED_PAGE: u32 = 500;

/// Returns the events of a job after `after`.
pub(super) async fn load(pool: &Pool, job: JobId, after: Seq) -> std::result::Result<Vec<Event>, Failure> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(LOAD).await?;
    let rows = client.query(&statement, &[&job.as_uuid(), &number(after.0)]).await?;
    Ok(rows.iter().map(|row| event(row, 0)).collect::<Result<_>>()?)
}

/// Returns the row of a job.
pub(super) async fn row(pool: &Pool, job: JobId) -> std::result::Result<Page, Failure> {
    let client = pool.get().await?;
    let statement = client.prepare_cached(ROW).await?;
    let rows = client.query(&statement, &[&job.as_uuid()]).await?;
    Ok(Page::Rows(rows.iter().map(read).collect::<Result<_>>()?))
}

/// Returns rows, newest job first. Labels are looked at here, page by page, until there are enough.
pub(super) async fn rows(
    pool: &Pool,
    filter: &Filter,
    before: Option<JobId>,
    limit: u32,
) -> std::result::Result<Page, Failure> {
    if filter.labels.is_empty() {
        return Ok(Page::Rows(page(pool, filter, before, limit).await?));
    }
    let (mut found, mut before, wanted) = (Vec::new(), before, limit as usize);
    while found.len() < wanted {
        let next = page(pool, filter, before, LABELLED_PAGE).await?;
        before = next.last().map(|row| row.job);
        let is_last = next.len() < LABELLED_PAGE as usize;
        found.extend(next.into_iter().filter(|row| filter.has_labels(row)));
        if is_last {
            break;
        }
    }
    found.truncate(wanted);
    Ok(Page::Rows(found))
}

/// Reads a page, through the index that leaves the least to look at.
async fn page(
    pool: &Pool,
    filter: &Filter,
    before: Option<JobId>,
    limit: u32,
) -> std::result::Result<Vec<Row>, Failure> {
    let sql = match filter {
        Filter { holder: Some(_), .. } => HELD,
        Filter { name: Some(_), .. } => NAMED,
        _ if filter.is_live_only() => LIVE,
        _ => ALL,
    };
    let client = pool.get().await?;
    let (before, limit) = (before.map_or(Uuid::max(), JobId::as_uuid), i64::from(limit));
    if !filter.asks_a_column() {
        let statement = client.prepare_cached(PLAIN).await?;
        let rows = client.query(&statement, &[&before, &limit]).await?;
        return Ok(rows.iter().map(read).collect::<Result<_>>()?);
    }
    let statement = client.prepare_cached(sql).await?;
    let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
    let phases = Some(phases).filter(|phases| !phases.is_empty());
    // An outcome is stored as its name in quotes, or as an object that opens with it.
    let outcome = filter.outcome.as_ref().map(|name| ["\"", name, "\""].concat());
    let holder = filter.holder.map(|life| Uuid::from_u128(life.as_u128()));
    let rows = client
        .query(&statement, &[&before, &phases, &outcome, &filter.queue, &filter.name, &holder, &limit])
        .await?;
    Ok(rows.iter().map(read).collect::<Result<_>>()?)
}

/// Reads a row of [`select_rows`].
pub(super) fn read(row: &tokio_postgres::Row) -> Result<Row> {
    let job = job_id(row.get(0))?;
    let corrupt = |what: &str| Error::Corrupt(format!("the row of {job} does not read: {what}"));
    let phase: &str = row.get(2);
    let outcome: Option<&str> = row.get(9);
    let conversation: (Option<String>, Option<String>) = (row.get(11), row.get(12));
    let moment = |at: usize| Timestamp(row.get::<_, i64>(at) as u64);
    Ok(Row {
        job,
        version: Seq(row.get::<_, i64>(1) as u64),
        phase: PhaseName::parse(phase).ok_or_else(|| corrupt("its phase"))?,
        group: row.get(3),
        priority: row.get(4),
        due: row.get::<_, Option<i64>>(5).map(|due| Timestamp(due as u64)),
        holder: holder(row, 6)?,
        outcome: outcome.map(serde_json::from_str).transpose().map_err(|_| corrupt("its outcome"))?,
        least_reader: u16::try_from(row.get::<_, i32>(10)).map_err(|_| corrupt("its reader"))?,
        conversation: match conversation {
            (Some(provider), Some(reference)) => Some(Conversation { provider, reference }),
            _ => None,
        },
        submitted_at: moment(13),
        updated_at: moment(14),
        summary: serde_json::from_str(row.get(15)).map_err(|_| corrupt("its summary"))?,
    })
}
