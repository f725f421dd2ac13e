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

macro_rules! select_rows {
    ($where:literal) => {
        concat!(
            "select job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch,
                outcome, least_reader, provider, reference, submitted_at, updated_at, summary
            from jobs where ",
            $where
        )
    };
}

const ROW: &str = select_rows!("job = $1");

const ROWS: &str = select_rows!(
    "job < $1 and ($2::text is null or phase = $2) and ($3::text is null or queue = $3)
    order by job desc limit $4"
);

/// Goes through the index of held jobs, however many there are of the others.
const HELD_ROWS: &str = select_rows!(
    "job < $1 and ($2::text is null or phase = $2) and ($3::text is null or queue = $3)
        and holder_incarnation = $5
    order by job desc limit $4"
);

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

/// Returns rows, newest job first.
pub(super) async fn rows(
    pool: &Pool,
    filter: &Filter,
    before: Option<JobId>,
    limit: u32,
) -> std::result::Result<Page, Failure> {
    let client = pool.get().await?;
    let before = before.map_or(Uuid::max(), JobId::as_uuid);
    let (phase, queue) = (filter.phase.map(PhaseName::as_str), filter.queue.as_deref());
    let limit = i64::from(limit);
    let rows = match filter.holder {
        None => {
            let statement = client.prepare_cached(ROWS).await?;
            client.query(&statement, &[&before, &phase, &queue, &limit]).await?
        }
        Some(incarnation) => {
            let statement = client.prepare_cached(HELD_ROWS).await?;
            let life = Uuid::from_u128(incarnation.as_u128());
            client.query(&statement, &[&before, &phase, &queue, &limit, &life]).await?
        }
    };
    Ok(Page::Rows(rows.iter().map(read).collect::<Result<_>>()?))
}

fn read(row: &tokio_postgres::Row) -> Result<Row> {
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
        queue: row.get(3),
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
