//! `append` in SQL: reads what is stored, applies the rule of `admit`, writes the rows.
//!
//! Everything here runs inside a batch's transaction. An append is checked before its first row is written, so one
//! that is refused leaves nothing behind for the others of its batch.

use lastword_core::budget::{SPENT_MAX, spent_by};
use lastword_core::event::Stored;
use lastword_core::spec::ProviderSession;
use lastword_core::view::row::{FOLD, Row, Section};
use lastword_core::{Append, AppendId, Epoch, Event, Fence, Incarnation, JobId, OwnerId, Seq, Timestamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use uuid::Uuid;

use super::failure::{execute, failed};
use crate::admit::{Standing, Verdict, admit};
use crate::claim::leaves_news;
use crate::waits::WaitChange;
use crate::{Error, Result};

/// An append in the form it is stored in. Encoding is done by the many callers, not by the one writer.
#[derive(Debug)]
pub(super) struct Prepared {
    append: Append,
    facts: Vec<Stored>,
    outcome: Option<String>,
    summary: String,
}

impl Prepared {
    pub(super) fn new(append: Append) -> Prepared {
        let facts = append.events.iter().map(|event| event.fact.encode()).collect();
        let json = "neither holds a map with keys other than text";
        let outcome = append.row.outcome.map(|outcome| serde_json::to_string(&outcome).expect(json));
        let summary = serde_json::to_string(&append.row.summary).expect(json);
        Prepared { append, facts, outcome, summary }
    }
}

/// What the job row says before a write.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) version: Seq,
    pub(super) holder: Option<Fence>,
    pub(super) ended: bool,
    pub(super) due: Option<Timestamp>,
    pub(super) drives: Option<ProviderSession>,
    pub(super) least_reader: u16,
    /// Its section in lists, by number, and when its state last changed.
    pub(super) listed: (i16, i64),
}

/// Returns a moment as SQLite stores it: its integers are signed, and no clock reaches that far.
pub(super) fn moment(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX)
}

/// Returns the sixteen bytes of a job's key.
pub(super) fn key(job: JobId) -> [u8; 16] {
    job.as_uuid().into_bytes()
}

/// Reads a job's key.
pub(super) fn job_id(key: [u8; 16]) -> Result<JobId> {
    JobId::from_uuid(Uuid::from_bytes(key))
        .ok_or_else(|| Error::Corrupt("a job has a key that is no id".to_owned()))
}

/// Reads a holder from three columns, from `first` on.
pub(super) fn holder(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Option<Fence>> {
    let Some(owner) = row.get_ref(first)?.as_str_or_null()? else { return Ok(None) };
    let incarnation = Incarnation::from_u128(u128::from_be_bytes(row.get(first + 1)?));
    Ok(Some(Fence { owner: OwnerId(owner.into()), incarnation, epoch: Epoch(row.get(first + 2)?) }))
}

/// Reads the session of an agent from two columns, from `first` on.
pub(super) fn drives(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Option<ProviderSession>> {
    let provider: Option<String> = row.get(first)?;
    Ok(match provider {
        Some(provider) => Some(ProviderSession { provider, reference: row.get(first + 1)? }),
        None => None,
    })
}

/// Decides about one append and writes it if it goes in.
pub(super) fn append(connection: &Connection, instance: u64, prepared: &Prepared) -> Result<Seq> {
    let append = &prepared.append;
    let found = find(connection, append.job)?;
    let version = found.as_ref().map_or(Seq(0), |found| found.version);
    let next_written_by = match version > append.expected {
        true => written_by(connection, append.job, append.expected.next())?,
        false => None,
    };
    let standing = Standing {
        version,
        holder: found.as_ref().and_then(|found| found.holder.as_ref()),
        ended: found.as_ref().is_some_and(|found| found.ended),
        next_written_by,
        instance,
        // The file belongs to one process: there is no pause.
        settling: false,
    };
    if admit(append, &standing)? == Verdict::Write {
        write(connection, found.as_ref(), prepared)?;
    }
    Ok(Seq(append.expected.0 + append.events.len() as u64))
}

/// Reads the job row; `None` if there is no such job.
pub(super) fn find(connection: &Connection, job: JobId) -> Result<Option<Found>> {
    const SELECT: &str = "select version, holder_owner, holder_incarnation, holder_epoch, outcome is not null, due, \
         provider, reference, least_reader, section, changed_at from jobs where job = ?1";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found = select.query_row([key(job)], |row| {
        Ok(Found {
            version: Seq(row.get(0)?),
            holder: holder(row, 1)?,
            ended: row.get(4)?,
            due: row.get::<_, Option<u64>>(5)?.map(Timestamp),
            drives: drives(row, 6)?,
            least_reader: row.get(8)?,
            listed: (row.get(9)?, row.get(10)?),
        })
    });
    found.optional().map_err(failed)
}

fn written_by(connection: &Connection, job: JobId, seq: Seq) -> Result<Option<AppendId>> {
    const SELECT: &str = "select append from events where job = ?1 and seq = ?2";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let append = select.query_row(params![key(job), seq.0], |row| row.get(0)).optional().map_err(failed)?;
    Ok(append.map(|bytes| AppendId(u128::from_be_bytes(bytes))))
}

/// Writes an append that was let in: its events, the job row, and what follows from it.
pub(super) fn write(connection: &Connection, found: Option<&Found>, prepared: &Prepared) -> Result<()> {
    insert_events(connection, prepared)?;
    match found {
        None => insert_row(connection, prepared)?,
        Some(found) => update_row(connection, found, prepared)?,
    }
    let append = &prepared.append;
    change_waits(connection, append)?;
    spend(connection, append)?;
    move_listed(connection, found, &append.row)?;
    move_ready(connection, found.and_then(|found| found.due), &append.row)?;
    move_session(connection, found.and_then(|found| found.drives.as_ref()), &append.row)
}

/// Counts what an append spends.
fn spend(connection: &Connection, append: &Append) -> Result<()> {
    const ADD: &str = "insert into spent (day, name, tokens, money_micros) values (?1, ?2, ?3, ?4) \
         on conflict (day, name) do update set \
         tokens = max(min(tokens + excluded.tokens, ?5), -?5), \
         money_micros = max(min(money_micros + excluded.money_micros, ?5), -?5)";
    for (day, spent) in spent_by(&append.events) {
        let values = params![day.0, append.row.group, spent.tokens, spent.money_micros, SPENT_MAX];
        execute(connection, ADD, values)?;
    }
    Ok(())
}

fn insert_events(connection: &Connection, prepared: &Prepared) -> Result<()> {
    const INSERT: &str = "insert into events (job, seq, at, append, kind, version, body) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut insert = connection.prepare_cached(INSERT).map_err(failed)?;
    let (job, id) = (key(prepared.append.job), prepared.append.id.0.to_be_bytes());
    for (Event { seq, at, .. }, fact) in prepared.append.events.iter().zip(&prepared.facts) {
        insert
            .execute(params![job, seq.0, moment(*at), id, fact.kind, fact.version, fact.body])
            .map_err(failed)?;
    }
    Ok(())
}

fn insert_row(connection: &Connection, prepared: &Prepared) -> Result<()> {
    const INSERT: &str = "insert into jobs (job, version, phase, queue, priority, due, holder_owner, \
         holder_incarnation, holder_epoch, outcome, least_reader, fold, provider, reference, submitted_at, \
         updated_at, news, summary, name, section, changed_at, conversation) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)";
    let row = &prepared.append.row;
    let (owner, incarnation, epoch) = holder_columns(row);
    let mut insert = connection.prepare_cached(INSERT).map_err(failed)?;
    let written = insert.execute(params![
        key(row.job),
        row.version.0,
        row.phase.as_str(),
        row.group,
        row.priority,
        row.due.map(moment),
        owner,
        incarnation,
        epoch,
        prepared.outcome,
        row.least_reader,
        FOLD,
        row.drives.as_ref().map(|key| &key.provider),
        row.drives.as_ref().map(|key| &key.reference),
        moment(row.submitted_at),
        moment(row.updated_at),
        leaves_news(&prepared.append),
        prepared.summary,
        row.summary.name,
        row.section().number(),
        moment(row.changed_at),
        row.conversation.map(key),
    ]);
    written.map(|_| ()).map_err(failed)
}

/// Updates the row. Indexed columns are only named by the statement that changes them, since SQLite rewrites an index entry whose columns
/// are set, changed or not.
fn update_row(connection: &Connection, found: &Found, prepared: &Prepared) -> Result<()> {
    macro_rules! update {
        ($more:literal) => {
            concat!(
                "update jobs set version = ?2, phase = ?3, due = ?4, least_reader = ?5, fold = ?6, provider = ?7, \
                 reference = ?8, updated_at = ?9, news = ?10, summary = ?11",
                $more,
                " where job = ?1"
            )
        };
    }
    const SAME_HOLDER: &str = update!("");
    const OTHER_HOLDER: &str = update!(", holder_owner = ?12, holder_incarnation = ?13, holder_epoch = ?14");
    const ENDED: &str =
        update!(", holder_owner = ?12, holder_incarnation = ?13, holder_epoch = ?14, outcome = ?15");
    let row = &prepared.append.row;
    let shape = match () {
        () if row.outcome.is_some() != found.ended => ENDED,
        () if row.holder != found.holder => OTHER_HOLDER,
        () => SAME_HOLDER,
    };
    let mut update = connection.prepare_cached(shape).map_err(failed)?;
    let bind = |update: &mut CachedStatement<'_>| -> rusqlite::Result<usize> {
        update.raw_bind_parameter(1, key(row.job))?;
        update.raw_bind_parameter(2, row.version.0)?;
        update.raw_bind_parameter(3, row.phase.as_str())?;
        update.raw_bind_parameter(4, row.due.map(moment))?;
        // A build that knows less never lowers what a newer one asked for.
        update.raw_bind_parameter(5, row.least_reader.max(found.least_reader))?;
        update.raw_bind_parameter(6, FOLD)?;
        update.raw_bind_parameter(7, row.drives.as_ref().map(|key| &key.provider))?;
        update.raw_bind_parameter(8, row.drives.as_ref().map(|key| &key.reference))?;
        update.raw_bind_parameter(9, moment(row.updated_at))?;
        update.raw_bind_parameter(10, leaves_news(&prepared.append))?;
        update.raw_bind_parameter(11, &prepared.summary)?;
        if shape != SAME_HOLDER {
            let (owner, incarnation, epoch) = holder_columns(row);
            update.raw_bind_parameter(12, owner)?;
            update.raw_bind_parameter(13, incarnation)?;
            update.raw_bind_parameter(14, epoch)?;
        }
        if shape == ENDED {
            update.raw_bind_parameter(15, &prepared.outcome)?;
        }
        update.raw_execute()
    };
    bind(&mut update).map(|_| ()).map_err(failed)
}

fn holder_columns(row: &Row) -> (Option<&str>, Option<[u8; 16]>, Option<u32>) {
    let holder = row.holder.as_ref();
    (
        holder.map(|fence| &*fence.owner.0),
        holder.map(|fence| fence.incarnation.as_u128().to_be_bytes()),
        holder.map(|fence| fence.epoch.0),
    )
}

/// Moves the job within lists. What was written of an ended job changes no state, and may have been read, unless another job follows.
fn move_listed(connection: &Connection, found: Option<&Found>, row: &Row) -> Result<()> {
    const UPDATE: &str = "update jobs set section = ?2, changed_at = ?3 where job = ?1";
    let listed = (row.section().number(), moment(row.changed_at));
    match found {
        Some(found) if moves(found, row) && found.listed != listed => {
            execute(connection, UPDATE, params![key(row.job), listed.0, listed.1]).map(drop)
        }
        _ => Ok(()),
    }
}

fn moves(found: &Found, row: &Row) -> bool {
    let followed = Section::Continued.number();
    !found.ended || [found.listed.0, row.section().number()].contains(&followed)
}

/// Puts the job into the ready table, or takes it out. Group, priority and labels of a job never change.
fn move_ready(connection: &Connection, before: Option<Timestamp>, row: &Row) -> Result<()> {
    const DELETE: &str =
        "delete from ready where queue = ?1 and labels = ?5 and rank = ?2 and due = ?3 and job = ?4";
    const INSERT: &str = "insert into ready (queue, labels, rank, due, job) values (?1, ?5, ?2, ?3, ?4)";
    if before == row.due {
        return Ok(());
    }
    let labels = row.summary.on.key();
    for (sql, due) in [(DELETE, before), (INSERT, row.due)] {
        let Some(due) = due else { continue };
        let mut statement = connection.prepare_cached(sql).map_err(failed)?;
        statement
            .execute(params![row.group, rank(row.priority), moment(due), key(row.job), labels])
            .map_err(failed)?;
    }
    Ok(())
}

/// Returns a priority as the ready table orders it: smaller is sooner.
fn rank(priority: i16) -> i32 {
    -i32::from(priority)
}

/// Writes what an append changes of the waits of its job.
fn change_waits(connection: &Connection, append: &Append) -> Result<()> {
    let change = WaitChange::of(append);
    let job = key(append.job);
    for other in &change.begun {
        let insert = "insert into dependencies (other, job) values (?1, ?2)";
        execute(connection, insert, params![key(*other), job])?;
    }
    for other in &change.over {
        let delete = "delete from dependencies where other = ?1 and job = ?2";
        execute(connection, delete, params![key(*other), job])?;
    }
    if change.all_over {
        execute(connection, "delete from dependencies where job = ?1", [job])?;
    }
    Ok(())
}

/// Takes the session of an agent with the claim, and releases it with the job.
fn move_session(connection: &Connection, before: Option<&ProviderSession>, row: &Row) -> Result<()> {
    const DELETE: &str = "delete from conversations where provider = ?1 and reference = ?2 and job = ?3";
    const INSERT: &str = "insert or ignore into conversations (provider, reference, job) values (?1, ?2, ?3)";
    let kept = row.drives.as_ref().filter(|_| row.holder.is_some());
    for (sql, session) in [(DELETE, before.filter(|before| Some(*before) != kept)), (INSERT, kept)] {
        let Some(ProviderSession { provider, reference }) = session else { continue };
        let mut statement = connection.prepare_cached(sql).map_err(failed)?;
        statement.execute(params![provider, reference, key(row.job)]).map_err(failed)?;
    }
    Ok(())
}
