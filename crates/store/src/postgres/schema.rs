//! The tables: created and migrated when a journal is opened, one partition of events per month, and which
//! instance of a database this is.

use std::path::Path;

use lastword_core::{Incarnation, Timestamp};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};
use uuid::Uuid;

use super::connect::connect;
use super::failure::{Failure, Try};
use super::month::Month;
use super::waits;
use super::witness::Witness;
use crate::Error;

/// Every step from an empty database to the schema this build uses, in order. A step that was released never changes.
const STEPS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("catalog.sql"),
    include_str!("dependencies.sql"),
    include_str!("removed.sql"),
    include_str!("lists.sql"),
    include_str!("budgets.sql"),
    include_str!("claims.sql"),
];

/// The step that makes the table of waits, which is filled from the logs.
const DEPENDENCIES: usize = 2;

/// Months that have a partition before they begin: with two more than the present one, opening the journal once a month is enough.
const MONTHS_AHEAD: u32 = 2;

/// Creates or migrates the tables, and begins to watch them.
pub(super) async fn prepare(config: &Config, remember: Option<&Path>) -> Try<Witness> {
    let mut client = connect(config).await?;
    migrate(&mut client).await?;
    let now = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let now: i64 = client.query_one(now, &[]).await?.get(0);
    months(&client, Timestamp(now as u64)).await?;
    recognise(&client).await?;
    Witness::begin(&client, remember).await
}

/// Two openers at once: if the other one has created what this one wanted to create, the next try finds it.
fn unless_raced(error: tokio_postgres::Error) -> Failure {
    let raced = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    match error.code() {
        Some(code) if raced.contains(code) => Failure::Clash(error.to_string()),
        _ => error.into(),
    }
}

async fn migrate(client: &mut Client) -> Try<()> {
    let found = client
        .query_one("select to_regclass('migrations') is not null, to_regclass('events') is not null", &[]);
    let found = found.await?;
    let (known, foreign): (bool, bool) = (found.get(0), found.get(1));
    if !known && foreign {
        return Err(Error::Corrupt(
            "this database has a table `events` that is not a journal's: name another database".to_owned(),
        )
        .into());
    }
    let step = client.transaction().await?;
    step.batch_execute(
        "create table if not exists migrations (step int primary key, at timestamptz not null)",
    )
    .await
    .map_err(unless_raced)?;
    let done: Vec<i32> = step
        .query("select step from migrations order by step", &[])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect();
    let expected: Vec<i32> = (1..=done.len() as i32).collect();
    if done != expected {
        let text = format!("its migrations are {done:?}, not one after the other: restore it from a backup");
        return Err(Error::Corrupt(text).into());
    }
    if done.len() > STEPS.len() {
        return Err(Error::Newer { found: done.len() as i64, known: STEPS.len() as i64 }.into());
    }
    for (index, sql) in STEPS.iter().enumerate().skip(done.len()) {
        step.batch_execute(sql).await.map_err(unless_raced)?;
        if index == DEPENDENCIES {
            waits::fill(&step).await?;
        }
        let sql = "insert into migrations (step, at) values ($1, now())";
        step.execute(sql, &[&(index as i32 + 1)]).await.map_err(unless_raced)?;
    }
    if done.is_empty() {
        let (first, last) = instance(&step.query_one("select gen_random_uuid()", &[]).await?.get(0));
        let sql = "insert into meta (instance_first, instance_last) values ($1, $2)";
        step.execute(sql, &[&first, &last]).await.map_err(unless_raced)?;
    }
    let rows: i64 = step.query_one("select count(*) from meta", &[]).await?.get(0);
    if rows != 1 {
        return Err(
            Error::Corrupt("it has lost its row in `meta`: restore it from a backup".to_owned()).into()
        );
    }
    step.commit().await.map_err(unless_raced)
}

/// Returns the first and the last incarnation of an instance whose number is the upper half of `random`.
fn instance(random: &Uuid) -> (Uuid, Uuid) {
    let instance = (random.as_u128() >> 64) as u64;
    let incarnation = |number| Uuid::from_u128(Incarnation { instance, number }.as_u128());
    (incarnation(0), incarnation(u64::MAX))
}

/// Gives the database a new instance if its rows came from another cluster or timeline: a restored backup or a clone
/// must not honour leases that were granted before.
///
/// A copy of a stopped server's files that is started beside it looks the same from inside. That is a limit.
pub(super) async fn recognise(client: &Client) -> Try<()> {
    let told = client.query_one(
        "select (select system_identifier::text from pg_control_system()),
                left(pg_walfile_name(pg_current_wal_lsn()), 8)",
        &[],
    );
    let (cluster, timeline): (String, String) = match told.await {
        Ok(row) => (row.get(0), row.get(1)),
        Err(error) if error.code().is_some_and(not_told) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let same =
        "select 1 from meta where cluster is not distinct from $1 and timeline is not distinct from $2";
    if client.query_opt(same, &[&cluster, &timeline]).await?.is_some() {
        return Ok(());
    }
    // The first connection only notes both. Places in the feed continue above every existing one.
    let (first, last) = instance(&client.query_one("select gen_random_uuid()", &[]).await?.get(0));
    let sql = "
        update meta set
            cluster = $1, timeline = $2,
            instance_first = case when cluster is null then instance_first else $3 end,
            instance_last = case when cluster is null then instance_last else $4 end,
            feed_offset = greatest(feed_offset, coalesce(
                (select place from events order by place desc limit 1), 0
            ) - pg_current_xact_id()::text::bigint + 1)
        where cluster is distinct from $1 or timeline is distinct from $2";
    client.execute(sql, &[&cluster, &timeline, &first, &last]).await?;
    Ok(())
}

/// Reports whether a strict server, or one derived from PostgreSQL, does not tell where its rows are.
fn not_told(code: &SqlState) -> bool {
    [SqlState::UNDEFINED_FUNCTION, SqlState::INSUFFICIENT_PRIVILEGE, SqlState::FEATURE_NOT_SUPPORTED]
        .contains(code)
}

/// Creates the missing partitions of this month and the next ones.
pub(super) async fn months(client: &Client, now: Timestamp) -> Try<()> {
    let mut month = Month::of(now);
    for _ in 0..=MONTHS_AHEAD {
        let name = month.partition();
        let there = client.query_one("select to_regclass($1) is not null", &[&name]).await?;
        if !there.get::<_, bool>(0) {
            // A statement cannot bind names and bounds of a table; both are numbers made here.
            let (from, to) = month.bounds();
            let sql = format!(
                "set lock_timeout = '2s'; \
                 create table {name} partition of events for values from ('{from}') to ('{to}'); \
                 reset lock_timeout"
            );
            if let Err(error) = client.batch_execute(&sql).await {
                let _ = client.batch_execute("reset lock_timeout").await;
                let can_wait = [
                    SqlState::DUPLICATE_TABLE,
                    SqlState::UNIQUE_VIOLATION,
                    // Rows of this month are already in the common partition, and stay there.
                    SqlState::CHECK_VIOLATION,
                    SqlState::INVALID_OBJECT_DEFINITION,
                    SqlState::LOCK_NOT_AVAILABLE,
                    SqlState::INSUFFICIENT_PRIVILEGE,
                ];
                if !error.code().is_some_and(|code| can_wait.contains(code)) {
                    return Err(error.into());
                }
            }
        }
        month = month.next();
    }
    Ok(())
}
