//! Reading jobs: logs, rows, and the values of a filter.

use deadpool_postgres::Pool;
use lastword_core::spec::ProviderSession;
use lastword_core::view::row::{PhaseName, Row, Section};
use lastword_core::{Event, Incarnation, JobId, Seq, Timestamp};
use uuid::Uuid;

use super::batch::{event, holder, job_id, number};
use super::connect::{Value, query};
use super::failure::{Failure, Try};
use super::instance;
use super::month::Month;
use super::witness::Witness;
use crate::{Error, Filter, Listed, Result};

const LOAD: &str = "
    select seq, at, kind, version, body, (select instance_first from meta) from events
    where job = $1 and job >= {from} and job < {to} and seq > $2 order by seq";

/// The columns that `read` reads.
macro_rules! select_rows {
    ($($where:literal),+) => {
        concat!(
            "select job, version, phase, queue, priority, due, holder_owner, holder_incarnation, holder_epoch,
                outcome, least_reader, provider, reference, submitted_at, updated_at, summary, changed_at,
                conversation, section
            from jobs where "
            $(, $where)+
        )
    };
}
pub(super) use select_rows;

const ROW: &str = select_rows!("job = $1");

const HELD: &str = "select job from jobs where holder_incarnation = $1 and ($2::uuid is null or job > $2) order by job limit $3";

/// Rows read at a time when summaries are compared.
pub(super) const COMPARED_PAGE: u32 = 500;

/// Returns the statement that loads the events of a job. Tests run it through another client.
pub fn load_statement(job: JobId) -> String {
    Month::of(job.made_at()).bind(LOAD)
}

/// Returns the events of a job after `after`, from the instance that is known: a connection may lead to a server that another one has replaced.
pub(super) async fn load(pool: &Pool, witness: &Witness, job: JobId, after: Seq) -> Try<Vec<Event>> {
    let rows = query(pool, &load_statement(job), &[&job.as_uuid(), &number(after.0)]).await?;
    if rows.first().is_some_and(|row| instance::number(row.get(5)) != witness.instance()) {
        return Err(Failure::Moved);
    }
    Ok(rows.iter().map(|row| event(row, 0)).collect::<Result<_>>()?)
}

/// Returns the row of a job.
pub(super) async fn row(pool: &Pool, job: JobId) -> Try<Option<Row>> {
    let rows = query(pool, ROW, &[&job.as_uuid()]).await?;
    Ok(rows.first().map(read).transpose()?)
}

/// Returns the jobs that an incarnation holds.
pub(super) async fn held(pool: &Pool, by: Incarnation, after: Option<JobId>, limit: u32) -> Try<Vec<JobId>> {
    let (by, after) = (Uuid::from_u128(by.as_u128()), after.map(JobId::as_uuid));
    let rows = query(pool, HELD, &[&by, &after, &i64::from(limit)]).await?;
    Ok(rows.iter().map(|row| job_id(row.get(0))).collect::<Result<_>>()?)
}

/// Reads a row of [`select_rows`].
pub(super) fn read(row: &tokio_postgres::Row) -> Result<Row> {
    let job = job_id(row.get(0))?;
    let corrupt = |what: &str| Error::Corrupt(format!("the row of {job} does not read: {what}"));
    let phase: &str = row.get(2);
    let outcome: Option<&str> = row.get(9);
    let drives: (Option<String>, Option<String>) = (row.get(11), row.get(12));
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
        drives: match drives {
            (Some(provider), Some(reference)) => Some(ProviderSession { provider, reference }),
            _ => None,
        },
        conversation: row.get::<_, Option<Uuid>>(17).map(job_id).transpose()?,
        submitted_at: moment(13),
        updated_at: moment(14),
        changed_at: moment(16),
        summary: serde_json::from_str(row.get(15)).map_err(|_| corrupt("its summary"))?,
    })
}

/// Reads a row of [`select_rows`] with its section.
pub(super) fn read_listed(row: &tokio_postgres::Row) -> Result<Listed> {
    let section: i16 = row.get(18);
    let row = read(row)?;
    let unknown = || Error::Corrupt(format!("the row of {} does not read: its section", row.job));
    Ok(Listed { section: Section::parse(section).ok_or_else(unknown)?, row })
}

/// Runs a query of [`select_rows`].
pub(super) async fn select(pool: &Pool, sql: &str, values: &[Value<'_>]) -> Try<Vec<Row>> {
    Ok(query(pool, sql, values).await?.iter().map(read).collect::<Result<_>>()?)
}

/// The values of a filter that are compared in SQL, in the form they are stored in.
pub(super) struct Columns {
    pub(super) phases: Option<Vec<&'static str>>,
    pub(super) outcome: Option<String>,
    pub(super) since: Option<i64>,
    pub(super) conversation: Option<Uuid>,
}

impl Columns {
    pub(super) fn of(filter: &Filter) -> Columns {
        let phases: Vec<&str> = filter.phases.iter().map(|phase| phase.as_str()).collect();
        Columns {
            phases: Some(phases).filter(|phases| !phases.is_empty()),
            // An outcome is stored as its name in quotes, or as an object that opens with it.
            outcome: filter.outcome.as_ref().map(|name| ["\"", name, "\""].concat()),
            since: filter.changed_since.map(|since| number(since.0)),
            conversation: filter.conversation.map(JobId::as_uuid),
        }
    }
}
