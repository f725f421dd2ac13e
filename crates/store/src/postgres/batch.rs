//! The one statement that stores appends, many at a time: each is stored or refused by itself, by its version and its fence. And the
//! query that finds out why one was refused.

use std::collections::{BTreeMap, HashSet};

use deadpool_postgres::GenericClient;
use lastword_core::budget::{Day, SPENT_MAX, Spent, spent_by};
use lastword_core::event::Stored;
use lastword_core::view::row::FOLD;
use lastword_core::{
    Append, AppendId, Epoch, Event, Fact, Fence, Incarnation, JobId, OwnerId, Seq, Timestamp,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::failure::{Failure, Try};
use super::identity::Known;
use super::instance;
use super::month::{Month, by_month};
use crate::admit::{Standing, Verdict, admit};
use crate::claim::leaves_news;
use crate::waits::WaitChange;
use crate::{Error, Result};

/// Stores appends whose number the room of a statement bounds, and does the rest that some need.
macro_rules! statement {
    ($room:expr $(, $rest:expr)*) => {
        concat!(
            include_str!("here.sql"),
            $room,
            include_str!("batch.sql")
            $(, $rest)*,
            "select job, (select place from here) from stored"
        )
    };
}

/// Room for every append.
macro_rules! unbounded {
    () => {
        ", room as (select 9223372036854775807 as jobs)"
    };
}

/// The statement. Benches run it through another client.
pub const STATEMENT: &str = statement!(unbounded!());

/// The same for a batch that changes which job waits for which, or in which a job spends something. Few do.
const WITH_REST: &str = statement!(unbounded!(), include_str!("waits.sql"), include_str!("spend.sql"));

/// The same for claims from a group with a bound: no more than it has slots for.
const BOUNDED: &str = statement!(include_str!("room.sql"));

/// Waits for other claims from the group.
const TURN: &str = "select 1 from queues where queue = $1 for update";

const SETTLE: &str = include_str!("settle.sql");

/// Returns the query that finds out why appends of the month of `job` were refused. Tests run it through another client.
pub fn settle_statement(job: JobId) -> String {
    Month::of(job.made_at()).bind(SETTLE)
}

/// An append in the form it is stored in. Encoding is done by the many callers, not by the few writers.
pub(super) struct Packed {
    pub(super) append: Append,
    summary: String,
    outcome: Option<String>,
    facts: Vec<Stored>,
    waits: WaitChange,
    spent: Vec<(Day, Spent)>,
}

impl Packed {
    pub(super) fn new(append: Append) -> Packed {
        let json = "a row holds no map with keys other than text";
        Packed {
            summary: serde_json::to_string(&append.row.summary).expect(json),
            outcome: append.row.outcome.map(|outcome| serde_json::to_string(&outcome).expect(json)),
            facts: append.events.iter().map(|event| event.fact.encode()).collect(),
            waits: WaitChange::of(&append),
            spent: spent_by(&append.events),
            append,
        }
    }

    /// Returns the job's version once this is stored.
    pub(super) fn version(&self) -> Seq {
        Seq(self.append.expected.0 + self.append.events.len() as u64)
    }
}

/// Returns a number as PostgreSQL stores it. No real number exceeds the maximum; one that would is cut to it.
pub(super) fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn uuid(incarnation: Incarnation) -> Uuid {
    Uuid::from_u128(incarnation.as_u128())
}

/// The bound that a batch of claims must keep.
pub(super) struct Bound {
    pub(super) group: String,
    pub(super) slots: u32,
    /// The stored group, spelled as PostgreSQL does, when the claim began.
    pub(super) stored: Option<String>,
}

/// What a batch has stored.
pub(super) struct Written {
    /// The jobs whose append was stored.
    pub(super) jobs: HashSet<Uuid>,
    /// Where, in the feed. The witness is told of it once it is committed.
    pub(super) place: Option<i64>,
}

/// Stores appends, at most one per job, in the journal that was known before the transaction began. Of claims with a bound it stores the
/// first ones.
pub(super) async fn write(
    client: &impl GenericClient,
    known: &Known,
    batch: &[&Packed],
    bound: Option<&Bound>,
) -> Try<Written> {
    let fences: Vec<Option<&Fence>> = batch.iter().map(|packed| packed.append.fence.as_ref()).collect();
    macro_rules! column {
        (|$packed:ident| $value:expr) => {
            batch.iter().map(|$packed| $value).collect::<Vec<_>>()
        };
    }
    macro_rules! fence {
        (|$fence:ident| $value:expr) => {
            fences.iter().map(|fence| fence.map(|$fence| $value)).collect::<Vec<_>>()
        };
    }
    macro_rules! holder {
        (|$fence:ident| $value:expr) => {
            column!(|packed| packed.append.row.holder.as_ref().map(|$fence| $value))
        };
    }
    macro_rules! event {
        (|$append:ident, $event:ident, $fact:ident| $value:expr) => {
            batch
                .iter()
                .flat_map(|packed| {
                    let $append = &packed.append;
                    $append.events.iter().zip(&packed.facts).map(move |($event, $fact)| $value)
                })
                .collect::<Vec<_>>()
        };
    }
    let columns: [&(dyn ToSql + Sync); 39] = [
        &column!(|packed| packed.append.job.as_uuid()),
        &column!(|packed| number(packed.append.expected.0)),
        &column!(|packed| number(packed.append.row.version.0)),
        &column!(|packed| Uuid::from_u128(packed.append.id.0)),
        &fence!(|fence| &*fence.owner.0),
        &fence!(|fence| uuid(fence.incarnation)),
        &fence!(|fence| i64::from(fence.epoch.0)),
        &column!(|packed| packed.append.may_follow_the_end()),
        &column!(|packed| packed.append.row.phase.as_str()),
        &column!(|packed| packed.append.row.group.as_str()),
        &column!(|packed| packed.append.row.priority),
        &column!(|packed| packed.append.row.due.map(|due| number(due.0))),
        &holder!(|fence| &*fence.owner.0),
        &holder!(|fence| uuid(fence.incarnation)),
        &holder!(|fence| i64::from(fence.epoch.0)),
        &column!(|packed| packed.outcome.as_deref()),
        &column!(|packed| i32::from(packed.append.row.least_reader)),
        &vec![i32::from(FOLD); batch.len()],
        &column!(|packed| packed.append.row.drives.as_ref().map(|key| key.provider.as_str())),
        &column!(|packed| packed.append.row.drives.as_ref().map(|key| key.reference.as_str())),
        &column!(|packed| number(packed.append.row.submitted_at.0)),
        &column!(|packed| number(packed.append.row.updated_at.0)),
        &column!(|packed| leaves_news(&packed.append)),
        &column!(|packed| packed.summary.as_str()),
        &event!(|append, _event, _fact| append.job.as_uuid()),
        &event!(|_append, event, _fact| number(event.seq.0)),
        &event!(|_append, event, _fact| number(event.at.0)),
        &event!(|append, _event, _fact| Uuid::from_u128(append.id.0)),
        &event!(|_append, _event, fact| fact.kind.as_str()),
        &event!(|_append, _event, fact| i32::from(fact.version)),
        &event!(|_append, _event, fact| fact.body.as_str()),
        &column!(|packed| packed.append.row.summary.name.as_deref()),
        &column!(|packed| packed.append.row.section().number()),
        &column!(|packed| number(packed.append.row.changed_at.0)),
        &known.identity,
        &known.newest,
        &column!(|packed| packed.append.row.summary.on.key()),
        &column!(|packed| packed.append.read_in.map(instance::first)),
        &column!(|packed| packed.append.row.conversation.map(JobId::as_uuid)),
    ];
    let is_plain = |packed: &&Packed| packed.waits.is_none() && packed.spent.is_empty();
    let rows = if let Some(bound) = bound {
        // Both are sent at once: the group is locked for one round trip, and the second sees what was committed before its turn.
        let (turn, bounded) = (client.prepare_cached(TURN).await?, client.prepare_cached(BOUNDED).await?);
        let (group, slots) = (&bound.group, i64::from(bound.slots));
        let rest: [&(dyn ToSql + Sync); 3] = [group, &slots, &bound.stored];
        let columns = [&columns[..], &rest[..]].concat();
        tokio::try_join!(biased; client.query(&turn, &rest[..1]), client.query(&bounded, &columns))?.1
    } else if batch.iter().all(is_plain) {
        client.query(&client.prepare_cached(STATEMENT).await?, &columns).await?
    } else {
        let (begun, over) = (pairs(batch, |waits| &waits.begun), pairs(batch, |waits| &waits.over));
        let ended = batch.iter().filter(|packed| packed.waits.all_over);
        let ended: Vec<Uuid> = ended.map(|packed| packed.append.job.as_uuid()).collect();
        macro_rules! spent {
            (|$append:ident, $day:ident, $spent:ident| $value:expr) => {
                batch
                    .iter()
                    .flat_map(|packed| {
                        let $append = &packed.append;
                        packed.spent.iter().map(move |($day, $spent)| $value)
                    })
                    .collect::<Vec<_>>()
            };
        }
        let rest: [&(dyn ToSql + Sync); 10] = [
            &begun.0,
            &begun.1,
            &over.0,
            &over.1,
            &ended,
            &spent!(|append, _day, _spent| append.job.as_uuid()),
            &spent!(|_append, day, _spent| number(day.0)),
            &spent!(|_append, _day, spent| spent.tokens),
            &spent!(|_append, _day, spent| spent.money_micros),
            &SPENT_MAX,
        ];
        let columns = [&columns[..], &rest[..]].concat();
        client.query(&client.prepare_cached(WITH_REST).await?, &columns).await?
    };
    Ok(Written {
        jobs: rows.iter().map(|row| row.get(0)).collect(),
        place: rows.first().map(|row| row.get(1)),
    })
}

/// Returns two columns: jobs that are waited for, and the jobs that wait for them.
fn pairs(batch: &[&Packed], of: impl Fn(&WaitChange) -> &Vec<JobId>) -> (Vec<Uuid>, Vec<Uuid>) {
    let pairs = batch.iter().flat_map(|packed| {
        of(&packed.waits).iter().map(|other| (other.as_uuid(), packed.append.job.as_uuid()))
    });
    pairs.unzip()
}

/// Returns for each append that was not stored why: stored before, refused, or free to be tried again.
pub(super) async fn settle(
    client: &impl GenericClient,
    known: &Known,
    refused: &[&Packed],
) -> Try<Vec<Result<Verdict>>> {
    let is_here = |row: &Row| row.get::<_, &str>(8) == known.identity && row.get::<_, i64>(9) >= known.newest;
    let mut verdicts: BTreeMap<usize, Result<Verdict>> = BTreeMap::new();
    let placed = refused.iter().enumerate().map(|(place, packed)| (packed.append.job, (place, *packed)));
    for (month, part) in by_month(placed) {
        let jobs: Vec<Uuid> = part.iter().map(|(_, packed)| packed.append.job.as_uuid()).collect();
        let expected: Vec<i64> = part.iter().map(|(_, packed)| number(packed.append.expected.0)).collect();
        let statement = client.prepare_cached(&month.bind(SETTLE)).await?;
        let rows = client.query(&statement, &[&jobs, &expected]).await?;
        if !rows.first().is_some_and(is_here) {
            return Err(Failure::Moved);
        }
        let part = part.iter().zip(&rows);
        verdicts.extend(part.map(|((place, packed), row)| (*place, verdict(&packed.append, row))));
    }
    Ok(verdicts.into_values().collect())
}

fn verdict(append: &Append, row: &Row) -> Result<Verdict> {
    let holder = holder(row, 1)?;
    let next: Option<Uuid> = row.get(5);
    let standing = Standing {
        version: Seq(row.get::<_, i64>(0) as u64),
        holder: holder.as_ref(),
        ended: row.get(4),
        next_written_by: next.map(|id| AppendId(id.as_u128())),
        instance: Incarnation::from_u128(row.get::<_, Uuid>(6).as_u128()).instance,
        settling: row.get(7),
    };
    admit(append, &standing)
}

/// Reads owner, incarnation and epoch of a holder from three columns.
pub(super) fn holder(row: &Row, at: usize) -> Result<Option<Fence>> {
    let parts: (Option<&str>, Option<Uuid>, Option<i64>) = (row.get(at), row.get(at + 1), row.get(at + 2));
    match parts {
        (None, None, None) => Ok(None),
        (Some(owner), Some(incarnation), Some(epoch)) => Ok(Some(Fence {
            owner: OwnerId(owner.into()),
            incarnation: Incarnation::from_u128(incarnation.as_u128()),
            epoch: Epoch(epoch as u32),
        })),
        _ => Err(Error::Corrupt("a job has half a holder".to_owned())),
    }
}

/// Reads a job's key.
pub(super) fn job_id(key: Uuid) -> Result<JobId> {
    JobId::from_uuid(key).ok_or_else(|| Error::Corrupt(format!("{key} is not the key of a job")))
}

/// Reads number, moment, kind, version and body of an event from five columns.
pub(super) fn event(row: &Row, at: usize) -> Result<Event> {
    let version: i32 = row.get(at + 3);
    let stored = Stored { kind: row.get(at + 2), version: version as u16, body: row.get(at + 4) };
    let fact = Fact::decode(stored).map_err(|error| Error::Corrupt(error.to_string()))?;
    let (seq, moment): (i64, i64) = (row.get(at), row.get(at + 1));
    Ok(Event { seq: Seq(seq as u64), at: Timestamp(moment as u64), fact })
}
