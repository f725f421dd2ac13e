//! The tables: created and migrated when a journal is opened, and one partition of events per month.

use lastword_core::Timestamp;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, SimpleQueryMessage};

use super::connect::connect;
use super::failure::{Failure, POOLER, Try};
use super::instance;
use super::month::Month;
use super::options::Options;
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
    include_str!("lives.sql"),
    include_str!("instances.sql"),
    include_str!("claims.sql"),
    include_str!("enrolments.sql"),
    include_str!("servers.sql"),
    include_str!("rows.sql"),
    include_str!("conversations.sql"),
];

/// The step that makes the table of waits, which is filled from the logs.
const DEPENDENCIES: usize = 2;

/// The oldest server with all functions that the statements use.
const VERSION_MIN: i32 = 130_000;

/// How often two clients are compared: a pooler may give them different sessions by chance.
const LOOKS: u32 = 3;

/// Months that have a partition before they begin: with two more than the present one, opening the journal once a month is enough.
const MONTHS_AHEAD: u32 = 2;

/// Creates or migrates the tables, and begins to watch them.
pub(super) async fn prepare(config: &Config, options: &Options) -> Try<Witness> {
    let mut client = connect(config).await?;
    require(&client, options).await?;
    refuse_pooler(&client, &connect(config).await?).await?;
    migrate(&mut client).await?;
    if let Some(lease_max_ms) = options.lease_max_ms {
        let sql = "update meta set lease_max_ms = $1 where lease_max_ms < $1";
        client.execute(sql, &[&i64::try_from(lease_max_ms).unwrap_or(i64::MAX)]).await?;
    }
    let now = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let now: i64 = client.query_one(now, &[]).await?.get(0);
    months(&client, Timestamp(now as u64)).await?;
    Witness::begin(&client, options.remember.as_deref()).await
}

/// Refuses a server on which the journal cannot keep its promises. Commits are made durable by each session; a `wal_level` is as good as another.
async fn require(client: &Client, options: &Options) -> Try<()> {
    let sql = "select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
        current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean";
    let row = client.query_one(sql, &[]).await?;
    let (number, version): (i32, &str) = (row.get(0), row.get(1));
    let refuse = |text: String| Err(Error::Unavailable(text).into());
    if number < VERSION_MIN {
        return refuse(format!("the server is PostgreSQL {version}: the journal needs 13 or later"));
    }
    if row.get(2) {
        let text = "the server is a standby, which only allows reading: connect to the primary";
        return Err(Failure::ReadOnly(text.to_owned()));
    }
    for (at, setting) in [(3, "fsync"), (4, "full_page_writes")] {
        if !row.get::<_, bool>(at) && !options.may_lose {
            return refuse(format!(
                "the server has {setting} = off, so a power cut may damage or lose what is stored: set {setting} = on"
            ));
        }
    }
    Ok(())
}

/// Two openers at once: if the other one has created what this one wanted to create, the next try finds it.
fn unless_raced(error: tokio_postgres::Error) -> Failure {
    let raced = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    match error.code() {
        Some(code) if raced.contains(code) => Failure::Clash(error.to_string()),
        _ => error.into(),
    }
}

/// Refuses a pooler that gives each transaction another session: settings that make commits durable would get lost. Two clients of such
/// a pooler share a session; two sessions of a server never do.
async fn refuse_pooler(one: &Client, other: &Client) -> Try<()> {
    for _ in 0..LOOKS {
        let (one, other) = (session(one).await?, session(other).await?);
        if one.is_some() && one == other {
            return Err(Error::Unavailable(POOLER.to_owned()).into());
        }
    }
    Ok(())
}

/// Returns the process that serves a session. Not by a prepared statement, which a pooler may lose.
async fn session(client: &Client) -> Try<Option<String>> {
    let rows = client.simple_query("select pg_backend_pid()").await?;
    Ok(rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
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
        let (first, last) = instance::range(step.query_one("select gen_random_uuid()", &[]).await?.get(0));
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
