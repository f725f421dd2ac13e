//! The catalog in PostgreSQL: one statement each.

use deadpool_postgres::Pool;
use lastword_core::reference::{Loose, Reference};
use lastword_core::view::row::{PhaseName, Row, Section};
use lastword_core::{JobId, Timestamp};
use uuid::Uuid;

use super::Postgres;
use super::batch::{job_id, number};
use super::connect::{change, query};
use super::failure::Try;
use super::identity::with_here;
use super::list;
use super::month::Month;
use super::view::{self, COMPARED_PAGE, Columns, select, select_rows};
use super::witness::Witness;
use crate::{
    Catalog, Counts, Error, FOUND_MAX, Filter, GroupCounts, List, Listed, Prunable, Prune, Removal, Result,
};

macro_rules! select_list {
    ($where:literal) => {
        select_rows!(
            $where,
            " and job < $1 and ($2::text[] is null or phase = any ($2))
                and ($3::text is null or position($3 in outcome) between 1 and 2)
                and ($4::text is null or queue = $4) and ($5::text is null or name = $5)
                and ($7::bigint is null or changed_at >= $7)
                and ($8::uuid is null or conversation = $8)
            order by job desc limit $6"
        )
    };
}

/// Walks the primary key: with conditions that may be absent the planner expects few rows and sorts all of them.
const PLAIN: &str = select_rows!("job < $1 order by job desc limit $2");

const ALL: &str = select_list!("true");

/// Uses the index of live jobs, however many have ended.
const ALL_LIVE: &str = select_list!("outcome is null");

/// Uses the index of conversations.
const CONVERSATION: &str = select_list!("conversation = $8");

/// Uses the index of names.
const NAMED_ALL: &str = select_list!("name = $5");

const LAST: &str = select_rows!("true order by job desc limit 1");
const ID: &str = select_rows!("job = $1");
const IDS: &str = select_rows!("job = any ($1)");
const LIVE: &str = select_rows!("name = $1 and outcome is null order by job desc limit 1");
const NAMED: &str = select_rows!("name = $1 order by job desc limit 1");
const SHORT: &str =
    select_rows!(
        "job in (
            select e.job from events e
            where e.seq = 1 and substring(uuid_send(e.job) from 12) between $1 and $2 order by e.job desc limit $3
        ) order by job desc"
    );
const BEGUN: &str = select_rows!("job between $1 and $2 order by job desc limit $3");

/// The answers are of the moment before the delete: the job was there and had ended, or was there.
const REMOVE: &str = with_here!(
    "$3",
    "$4",
    ", gone as (
        delete from jobs
        where job = $1 and outcome is not null and not exists (select 1 from dependencies where other = $1)
            and exists (select from here)
        returning job
    ), log as (
        delete from events where job = $1 and job >= {from} and job < {to} and exists (select 1 from gone)
    ), keyed as (
        update keys set removed = $2, at = $2 where job = $1 and exists (select 1 from gone)
    )
    select exists (select from here), exists (select 1 from gone),
        (select outcome is not null from jobs where job = $1)"
);

const MARK_SEEN: &str = with_here!(
    "$4",
    "$5",
    ", marked as (
        update jobs set seen_at = greatest($2::bigint, 1), section = $3
        where job = $1 and outcome is not null and seen_at = 0 and section <> 4 and exists (select from here)
    )
    select exists (select from here)"
);

const PRUNABLE: &str = "
    select job from (
        (select changed_at, job from jobs where section = $4 and changed_at < $1 order by changed_at, job limit $3)
        union all
        (select changed_at, job from jobs where section = $5 and changed_at < $1 and $2 order by changed_at, job limit $3)
    ) ended
    order by changed_at, job limit $3";
const UNREAD: &str = "select count(*) from jobs where section = $3 and changed_at < $1 and not $2";

const COUNT_LIVE: &str = "select phase, count(*) from jobs where outcome is null group by phase";
const COUNT_LIVE_BY_GROUP: &str =
    "select phase, count(*), queue from jobs where outcome is null group by queue, phase";
const COUNT_ENDED: &str = "select count(*) from jobs where section = any ($1)";

/// Returns rows, newest job first. Summaries are compared here, page by page, until there are enough.
async fn rows(pool: &Pool, filter: &Filter, before: Option<JobId>, limit: u32) -> Try<Vec<Row>> {
    if !filter.compares_summary() {
        return page(pool, filter, before, limit).await;
    }
    let (mut found, mut before, wanted) = (Vec::new(), before, limit as usize);
    while found.len() < wanted {
        let next = page(pool, filter, before, COMPARED_PAGE).await?;
        before = next.last().map(|row| row.job);
        let is_last = next.len() < COMPARED_PAGE as usize;
        found.extend(next.into_iter().filter(|row| filter.passes_summary(row)));
        if is_last {
            break;
        }
    }
    found.truncate(wanted);
    Ok(found)
}

/// Reads a page, through the index that leaves the fewest rows to read.
async fn page(pool: &Pool, filter: &Filter, before: Option<JobId>, limit: u32) -> Try<Vec<Row>> {
    let sql = match filter {
        Filter { conversation: Some(_), .. } => CONVERSATION,
        Filter { name: Some(_), .. } => NAMED_ALL,
        _ if filter.is_live_only() => ALL_LIVE,
        _ => ALL,
    };
    let (before, limit) = (before.map_or(Uuid::max(), JobId::as_uuid), i64::from(limit));
    if !filter.compares_columns() {
        return select(pool, PLAIN, &[&before, &limit]).await;
    }
    let Columns { phases, outcome, since, conversation } = Columns::of(filter);
    let (group, name) = (&filter.group, &filter.name);
    select(pool, sql, &[&before, &phases, &outcome, group, name, &limit, &since, &conversation]).await
}

async fn listed(pool: &Pool, jobs: &[JobId]) -> Try<Vec<Listed>> {
    let jobs: Vec<Uuid> = jobs.iter().map(|job| job.as_uuid()).collect();
    Ok(query(pool, IDS, &[&jobs]).await?.iter().map(view::read_listed).collect::<Result<_>>()?)
}

async fn find(pool: &Pool, reference: &Reference) -> Try<Vec<Row>> {
    match reference {
        Reference::Last => select(pool, LAST, &[]).await,
        Reference::Id(job) => select(pool, ID, &[&job.as_uuid()]).await,
        Reference::Loose(loose) => find_loose(pool, loose).await,
    }
}

async fn find_loose(pool: &Pool, loose: &Loose) -> Try<Vec<Row>> {
    let limit = i64::from(FOUND_MAX);
    let mut named = Vec::new();
    if let Some(name) = &loose.name {
        named = select(pool, LIVE, &[name]).await?;
        if named.is_empty() {
            named = select(pool, NAMED, &[name]).await?;
        }
    }
    let (mut shorts, mut ids) = (Vec::new(), Vec::new());
    if let Some(range) = &loose.shorts {
        let bytes = |bits: u64| bits.to_be_bytes()[3..].to_vec();
        shorts = select(pool, SHORT, &[&bytes(*range.start()), &bytes(*range.end()), &limit]).await?;
    }
    if let Some(range) = &loose.ids {
        let (first, last) = (Uuid::from_u128(*range.start()), Uuid::from_u128(*range.end()));
        ids = select(pool, BEGUN, &[&first, &last, &limit]).await?;
    }
    let mut meant = loose.settle(|row| row.job, named.pop(), shorts, ids);
    meant.truncate(FOUND_MAX as usize);
    Ok(meant)
}

async fn remove(pool: &Pool, witness: &Witness, job: JobId, now: Timestamp) -> Try<Removal> {
    let remove = Month::of(job.made_at()).bind(REMOVE);
    let told = change(pool, witness, &remove, &[&job.as_uuid(), &number(now.0)]).await?;
    Ok(match told.first().map(|row| (row.get(1), row.get(2))) {
        Some((true, _)) => Removal::Gone,
        Some((false, Some(true))) => Removal::Awaited,
        Some((false, Some(false))) => Removal::NotEnded,
        _ => Removal::NotThere,
    })
}

async fn prunable(pool: &Pool, prune: &Prune) -> Try<Prunable> {
    let (before, limit) = (number(prune.before.0), i64::from(prune.limit));
    let (read, unread) = (Section::Read.number(), Section::Unread.number());
    let jobs = query(pool, PRUNABLE, &[&before, &prune.unread, &limit, &read, &unread]).await?;
    let unread = query(pool, UNREAD, &[&before, &prune.unread, &unread]).await?;
    let kept_unread = unread.first().map_or(0, |row| row.get::<_, i64>(0)) as u64;
    Ok(Prunable { jobs: jobs.iter().map(|row| job_id(row.get(0))).collect::<Result<_>>()?, kept_unread })
}

async fn counts(pool: &Pool) -> Try<Counts> {
    let mut counts = Counts::new();
    for row in query(pool, COUNT_LIVE, &[]).await? {
        let (phase, count) = counted(&row)?;
        counts.insert(phase, count);
    }
    let ended = Section::ALL.into_iter().filter(|section| section.is_ended());
    let ended: Vec<i16> = ended.map(Section::number).collect();
    let ended = query(pool, COUNT_ENDED, &[&ended]).await?;
    let ended = ended.first().map_or(0, |row| row.get::<_, i64>(0));
    if ended > 0 {
        counts.insert(PhaseName::Ended, ended as u64);
    }
    Ok(counts)
}

async fn counts_by_group(pool: &Pool) -> Try<GroupCounts> {
    let mut counts = GroupCounts::new();
    for row in query(pool, COUNT_LIVE_BY_GROUP, &[]).await? {
        let (phase, count) = counted(&row)?;
        counts.entry(row.get(2)).or_default().insert(phase, count);
    }
    Ok(counts)
}

/// Returns the phase that jobs were counted in, and how many there are.
fn counted(row: &tokio_postgres::Row) -> Result<(PhaseName, u64)> {
    let phase: &str = row.get(0);
    let unknown = || Error::Corrupt(format!("a job is in the phase `{}`", phase.escape_default()));
    Ok((PhaseName::parse(phase).ok_or_else(unknown)?, row.get::<_, i64>(1) as u64))
}

impl Catalog for Postgres {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        self.patiently(|| view::row(&self.0.readers, job)).await
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        self.patiently(|| rows(&self.0.readers, &filter, before, limit)).await
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        self.patiently(|| list::list(&self.0.readers, &list)).await
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        self.patiently(|| listed(&self.0.readers, &jobs)).await
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.patiently(|| find(&self.0.readers, &reference)).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.patiently(|| counts(&self.0.readers)).await
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        self.patiently(|| counts_by_group(&self.0.readers)).await
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        let (key, now, section) = (job.as_uuid(), number(now.0), Section::Read.number());
        let marked =
            || async { change(&self.0.readers, &self.0.witness, MARK_SEEN, &[&key, &now, &section]).await };
        self.patiently(marked).await.map(drop)
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.patiently(|| prunable(&self.0.readers, &prune)).await
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        self.patiently(|| remove(&self.0.readers, &self.0.witness, job, now)).await
    }
}
