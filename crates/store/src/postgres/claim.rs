//! `claim`: jobs that wait, or whose holder's lease is over, change hands in one transaction.
//!
//! Candidates are locked, and what another claim has locked is stepped over. Their logs are folded and `core` decides;
//! the rows are still the ones it decided about when the claims are stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Pool, Transaction};
use lastword_core::decide::claim::{self as rule, Lease};
use lastword_core::event::READER;
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, Event, Fence, Job, JobId};
use uuid::Uuid;

use super::batch::{Packed, event, job_id, number, settle, write};
use super::connect::Failure;
use super::lease::LEASE_MS_MAX;
use crate::admit::Verdict;
use crate::memory::CLAIM_APPEND;
use crate::{Claim, Claimed, Error, Result, Source};

const READY: &str = include_str!("ready.sql");
const EXPIRED: &str = include_str!("expired.sql");

const FIRST: &str = "select due, job from ready where queue = $1 and priority = $2 order by due, job limit 1";

/// The statements of a claim before the one that stores it. Benches run them through another client.
pub const CLAIM: [&str; 3] = [ALIVE, READY, LOGS];

const ALIVE: &str = "
    select 1 from owners o, meta m
    where o.owner = $1 and o.incarnation = $2 and o.until > clock_timestamp()
        and o.incarnation between m.instance_first and m.instance_last";

/// The logs of the candidates, and whether an event lies above this transaction in the feed.
const LOGS: &str = "
    select e.job, e.seq, e.at, e.kind, e.version, e.body,
        e.place > pg_current_xact_id()::text::bigint + (select feed_offset from meta) as above
    from unnest($1::uuid[]) as c (job)
    cross join lateral (select * from events e where e.job = c.job order by e.seq) e";

/// Claims after which the queue is read from its beginning, and how long that may take at most. A job that became
/// visible below the mark waits for this, if it was written by another process and the queue is never empty.
const CLAIMS_PER_RESCAN: u32 = 16;
const RESCAN: Duration = Duration::from_millis(200);

/// A place in the order of a queue.
type Key = (i16, i64, Uuid);

/// Where the rows of each queue probably begin: before it lie only rows that were deleted, and some server process may
/// hinder their removal for hours. A hint: whatever lies below is found by the next scan from the beginning.
#[derive(Default)]
pub(super) struct Marks(Mutex<HashMap<String, Mark>>);

struct Mark {
    key: Key,
    claims_left: u32,
    scanned: Instant,
}

impl Marks {
    /// Returns where to begin, or `None` for the beginning.
    fn start(&self, queue: &str) -> Option<Key> {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.get_mut(queue)?;
        mark.claims_left = mark.claims_left.checked_sub(1)?;
        (mark.scanned.elapsed() < RESCAN).then_some(mark.key)
    }

    /// Notes the first row that a scan from the beginning has met, whether it could be claimed or not.
    fn found(&self, queue: &str, key: Key) {
        let mark = Mark { key, claims_left: CLAIMS_PER_RESCAN, scanned: Instant::now() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.to_owned(), mark);
    }

    /// Takes note of a job that this process has made ready, or held and gave back.
    pub(super) fn lower(&self, row: &Row) {
        let Some(due) = row.due else { return };
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = marks.get_mut(&row.group)
            && row.priority == mark.key.0
            && (number(due.0), row.job.as_uuid()) < (mark.key.1, mark.key.2)
        {
            mark.key = (row.priority, number(due.0), row.job.as_uuid());
        }
    }
}

/// A claim on its way into the store.
pub(super) struct Taken {
    packed: Packed,
    claimed: Claimed,
}

/// Takes jobs. `unsure` holds what an earlier try may have taken before its answer got lost.
pub(super) async fn claim(
    pool: &Pool,
    marks: &Marks,
    claim: &Claim,
    unsure: &mut Vec<Taken>,
) -> std::result::Result<Vec<Claimed>, Failure> {
    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    if !unsure.is_empty() {
        let kept = resolve(&transaction, unsure).await?;
        if !kept.is_empty() {
            // Not awaited: if this answer were lost too, these claims would go unnoticed.
            return Ok(kept);
        }
    }
    let life = Uuid::from_u128(claim.by.incarnation.as_u128());
    let statement = transaction.prepare_cached(ALIVE).await?;
    if transaction.query_opt(&statement, &[&&*claim.by.owner.0, &life]).await?.is_none() {
        return Err(Error::Lapsed { owner: claim.by.owner.clone() }.into());
    }
    let room = match &claim.from {
        Source::Ready { queue, slots: Some(slots) } => free(&transaction, queue, *slots).await?,
        Source::Ready { slots: None, .. } | Source::Expired { .. } => u32::MAX,
    };
    let mut search = Search { transaction: &transaction, marks, claim, seen: Vec::new() };
    *unsure = search.take(room.min(claim.at_most) as usize).await?;
    if unsure.is_empty() {
        // Awaited: candidates that were not taken stay locked until then, and the next claim would skip them.
        transaction.rollback().await?;
        return Ok(Vec::new());
    }
    let batch: Vec<&Packed> = unsure.iter().map(|taken| &taken.packed).collect();
    let stored = write(&transaction, &batch).await?;
    unsure.retain(|taken| stored.contains(&taken.claimed.job.as_uuid()));
    transaction.commit().await?;
    Ok(std::mem::take(unsure).into_iter().map(|taken| taken.claimed).collect())
}

/// Finds out which claims of a lost answer have happened. Waits for a transaction that may still be on its way.
async fn resolve(
    transaction: &Transaction<'_>,
    unsure: &mut Vec<Taken>,
) -> std::result::Result<Vec<Claimed>, Failure> {
    let jobs: Vec<Uuid> = unsure.iter().map(|taken| taken.claimed.job.as_uuid()).collect();
    let sql = "select 1 from jobs where job = any ($1) order by job for update";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.query(&statement, &[&jobs]).await?;
    let packed: Vec<&Packed> = unsure.iter().map(|taken| &taken.packed).collect();
    let verdicts = settle(transaction, &packed).await?;
    let settled = std::mem::take(unsure).into_iter().zip(verdicts);
    let happened = settled.filter(|(_, verdict)| matches!(verdict, Ok(Verdict::Stored)));
    Ok(happened.map(|(taken, _)| taken.claimed).collect())
}

/// Returns how many jobs of a queue may still be taken. No other transaction counts them until this one ends.
async fn free(transaction: &Transaction<'_>, queue: &str, slots: u32) -> std::result::Result<u32, Failure> {
    let lock = transaction.prepare_cached("select 1 from queues where queue = $1 for update").await?;
    if transaction.query_opt(&lock, &[&queue]).await?.is_none() {
        let sql = "insert into queues (queue) values ($1) on conflict (queue) do nothing";
        transaction.execute(sql, &[&queue]).await?;
        transaction.query_opt(&lock, &[&queue]).await?;
    }
    // Counts no further than it matters.
    let sql = "
        select count(*) from (
            select 1 from jobs where queue = $1 and holder_incarnation is not null limit $2
        ) held";
    let statement = transaction.prepare_cached(sql).await?;
    let held: i64 = transaction.query_one(&statement, &[&queue, &i64::from(slots)]).await?.get(0);
    Ok(slots.saturating_sub(held as u32))
}

/// Goes through candidates until enough are taken or none is left.
struct Search<'a> {
    transaction: &'a Transaction<'a>,
    marks: &'a Marks,
    claim: &'a Claim,
    seen: Vec<Uuid>,
}

impl Search<'_> {
    async fn take(&mut self, wanted: usize) -> std::result::Result<Vec<Taken>, Failure> {
        let mut taken: Vec<Taken> = Vec::new();
        let mut from_beginning = false;
        while taken.len() < wanted {
            let missing = wanted - taken.len();
            let (candidates, whole) = self.candidates(missing, from_beginning).await?;
            from_beginning = true;
            if candidates.is_empty() && whole {
                break;
            }
            let keys: Vec<Uuid> = candidates.iter().map(|(key, _)| *key).collect();
            self.seen.extend(&keys);
            let mut logs = self.logs(&keys).await?;
            let mut decided = Vec::with_capacity(candidates.len());
            for (key, lease) in &candidates {
                let job = job_id(*key)?;
                // A log that lies above this transaction in the feed waits for the next one, to keep its order there.
                if let Some(events) = logs.remove(key).flatten() {
                    decided.extend(self.decide(job, *lease, events)?);
                }
            }
            taken.extend(match self.claim.from {
                Source::Ready { .. } => self.alone_in_conversation(decided).await?,
                // What is taken over is driven already: agents may have given two of them one name.
                Source::Expired { .. } => decided,
            });
            if whole && candidates.len() < missing {
                break;
            }
        }
        Ok(taken)
    }

    /// Locks the next candidates, in their order, and tells whether all of the queue was looked at.
    async fn candidates(
        &self,
        missing: usize,
        from_beginning: bool,
    ) -> std::result::Result<(Vec<(Uuid, Lease)>, bool), Failure> {
        let limit = missing as i64;
        let Source::Ready { queue, .. } = &self.claim.from else {
            return Ok((self.expired(limit).await?, true));
        };
        let start = if from_beginning { None } else { self.marks.start(queue) };
        let (priority, due, job) = start.unwrap_or((0, 0, Uuid::nil()));
        let statement = self.transaction.prepare_cached(READY).await?;
        let now = number(self.claim.now.0);
        let rows = self
            .transaction
            .query(&statement, &[&queue, &now, &limit, &priority, &due, &job, &self.seen, &i32::from(READER)])
            .await?;
        if let (Some(row), None) = (rows.first(), start) {
            self.mark(queue, row.get(1)).await?;
        }
        Ok((rows.iter().map(|row| (row.get(0), Lease::Live)).collect(), start.is_none()))
    }

    /// Moves the mark to the first row of a level. Not to the first that could be claimed: one that is locked, or whose
    /// conversation is taken, can be claimed a moment later.
    async fn mark(&self, queue: &str, priority: i16) -> std::result::Result<(), Failure> {
        let statement = self.transaction.prepare_cached(FIRST).await?;
        if let Some(row) = self.transaction.query_opt(&statement, &[&queue, &priority]).await? {
            self.marks.found(queue, (priority, row.get(0), row.get(1)));
        }
        Ok(())
    }

    async fn expired(&self, limit: i64) -> std::result::Result<Vec<(Uuid, Lease)>, Failure> {
        let Source::Expired { margin_ms } = self.claim.from else { return Ok(Vec::new()) };
        let margin = margin_ms.min(LEASE_MS_MAX) as i64;
        let statement = self.transaction.prepare_cached(EXPIRED).await?;
        let rows = self.transaction.query(&statement, &[&limit, &self.seen, &margin]).await?;
        let lease = |over| if over { Lease::Over } else { Lease::Replaced };
        Ok(rows.iter().map(|row| (row.get(0), lease(row.get(1)))).collect())
    }

    /// Returns the log of each candidate, or `None` for one with an event above this transaction.
    async fn logs(
        &self,
        candidates: &[Uuid],
    ) -> std::result::Result<HashMap<Uuid, Option<Vec<Event>>>, Failure> {
        let statement = self.transaction.prepare_cached(LOGS).await?;
        let mut logs: HashMap<Uuid, Option<Vec<Event>>> = HashMap::with_capacity(candidates.len());
        for row in self.transaction.query(&statement, &[&candidates]).await? {
            let log = logs.entry(row.get(0)).or_insert_with(|| Some(Vec::new()));
            match log {
                Some(events) if !row.get::<_, bool>(6) => events.push(event(&row, 1)?),
                _ => *log = None,
            }
        }
        Ok(logs)
    }

    /// Asks core.
    fn decide(&self, id: JobId, lease: Lease, mut events: Vec<Event>) -> Result<Option<Taken>> {
        let Claim { by, now, .. } = self.claim;
        let corrupt = |error: lastword_core::Illegal| Error::Corrupt(error.to_string());
        let job = Job::fold(id, &events).map_err(corrupt)?;
        let Ok(facts) = rule::decide(&job, by, lease, *now) else { return Ok(None) };
        let fence = Fence { owner: by.owner.clone(), incarnation: by.incarnation, epoch: job.epoch.next() };
        let append_id = AppendId::of_owner(&fence, CLAIM_APPEND);
        let (append, _) = Append::new(&job, None, append_id, *now, facts).map_err(corrupt)?;
        events.extend(append.events.iter().cloned());
        let claimed = Claimed { job: id, events, fence };
        Ok(Some(Taken { packed: Packed::new(append), claimed }))
    }

    /// Takes the conversations of the jobs that want one, and leaves out jobs whose conversation another job drives.
    async fn alone_in_conversation(&self, decided: Vec<Taken>) -> std::result::Result<Vec<Taken>, Failure> {
        // By key, the first job of each: two claims that want the same ones wait for each other in one order.
        let mut wanted: BTreeMap<(&str, &str), Uuid> = BTreeMap::new();
        for taken in &decided {
            if let Some(key) = &taken.packed.append.row.conversation {
                let job = taken.claimed.job.as_uuid();
                wanted.entry((&key.provider, &key.reference)).or_insert(job);
            }
        }
        if wanted.is_empty() {
            return Ok(decided);
        }
        let (mut providers, mut references, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for ((provider, reference), job) in &wanted {
            providers.push(*provider);
            references.push(*reference);
            jobs.push(*job);
        }
        let sql = "
            insert into conversations (provider, reference, job)
            select * from unnest($1::text[], $2::text[], $3::uuid[])
            on conflict (provider, reference) do nothing";
        let statement = self.transaction.prepare_cached(sql).await?;
        self.transaction.execute(&statement, &[&providers, &references, &jobs]).await?;
        let sql = "
            select c.job from conversations c
            join unnest($1::text[], $2::text[], $3::uuid[]) as w (provider, reference, job)
                on c.provider = w.provider and c.reference = w.reference and c.job = w.job";
        let statement = self.transaction.prepare_cached(sql).await?;
        let rows = self.transaction.query(&statement, &[&providers, &references, &jobs]).await?;
        let got: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let free = |taken: &Taken| {
            taken.packed.append.row.conversation.is_none() || got.contains(&taken.claimed.job.as_uuid())
        };
        Ok(decided.into_iter().filter(free).collect())
    }
}
