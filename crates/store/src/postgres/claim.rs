//! `claim`: ready jobs, or jobs whose holder's lease is over, change hands in one transaction.
//!
//! Candidates are locked, and rows that another claim has locked are skipped. Their logs are folded and the rule decides; the locks keep
//! the rows as they were until the claims are stored.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::{Pool, Transaction};
use lastword_core::budget::{Budget, Spent};
use lastword_core::decide::claim::Lease;
use lastword_core::event::READER;
use lastword_core::life::Place;
use lastword_core::view::row::Row;
use lastword_core::{AttemptNo, Event, JobId, Timestamp};
use uuid::Uuid;

use super::batch::{Bound, Packed, event, job_id, number, settle, write};
use super::connect::Value;
use super::failure::{Failure, Try};
use super::identity::{Known, with_here};
use super::month::{Month, by_month};
use super::options::Clock;
use super::slots::{count, count_no_more};
use super::witness::Witness;
use crate::admit::Verdict;
use crate::claim::{self, Haul, is_here, may_be_given_in_pause, room, slots};
use crate::{Claim, Claimed, Error, Group, Result, Source};

const READY: &str = include_str!("ready.sql");
const EXPIRED: &str = concat!(include_str!("holders.sql"), include_str!("expired.sql"));

const FIRST: &str = "
    select due, job from ready where queue = $1 and labels = $2 and priority = $3 order by due, job limit 1";

/// Returns the statements of a claim before the one that stores it, for jobs of the month of `job`. Benches run them through another client.
pub fn claim_statements(job: JobId) -> [String; 3] {
    [ALIVE.to_owned(), READY.to_owned(), Month::of(job.made_at()).bind(LOGS)]
}

/// Whether this is the journal that was opened, whether this is the present life of the owner, the group, if it is stored, whether the
/// instance pauses, what time it is (by the caller's clock, if that was given, or else the server's), and how many jobs of the group
/// are held, if that is counted.
const ALIVE: &str = with_here!(
    "$4",
    "$5",
    " select exists (select from here), exists (
        select from lives l cross join meta m
        where l.owner = $1 and l.incarnation = $2
            and l.incarnation between m.instance_first and m.instance_last
            and not exists (
                select from lives n
                where n.owner = l.owner and n.incarnation > l.incarnation and n.incarnation <= m.instance_last
            )
    ), g.slots, g.paused, g.day_tokens, g.day_money_micros, s.tokens, s.money_micros, m.settling is not null, c.now,
        g::text, q.held + (select coalesce(sum(n.change), 0) from slot_changes n where n.queue = q.queue)::bigint
    from (select coalesce($6::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) c
    left join meta m on true
    left join groups g on g.name = $3::text
    left join spent s on s.name = g.name and s.day = c.now / 86400000
    left join queues q on q.queue = $3"
);

const ALIVE_HERE: &str = "
    select j.job from jobs j cross join meta m
    where j.job = any ($1::uuid[]) and j.job <> all ($2::uuid[]) and j.holder_incarnation is not null
        and not exists (
            select from lives l
            where l.incarnation = j.holder_incarnation
                and l.incarnation between m.instance_first and m.instance_last
                and not exists (
                    select from lives n
                    where n.owner = l.owner and n.incarnation > l.incarnation and n.incarnation <= m.instance_last
                )
        )
    order by j.job limit $3
    for update of j skip locked";

/// The logs of the candidates, and whether an event lies above this transaction in the feed.
const LOGS: &str = "
    select e.job, e.seq, e.at, e.kind, e.version, e.body,
        e.place > pg_current_xact_id()::text::bigint + (select feed_offset from meta) as above
    from unnest($1::uuid[]) as c (job)
    cross join lateral (
        select * from events e where e.job = c.job and e.job >= {from} and e.job < {to} order by e.seq
    ) e";

/// Claims, and time, after which a group is read from its beginning again. A job of another process that became visible below the
/// mark waits that long at most.
const CLAIMS_PER_RESCAN: u32 = 16;
const RESCAN: Duration = Duration::from_millis(200);

/// A place in a line of a group.
#[derive(Clone, Default, PartialEq)]
struct Key {
    labels: String,
    priority: i16,
    due: i64,
    job: Uuid,
}

/// Where the ready rows of each group probably begin: before it lie only deleted rows, which another process of the server may keep from
/// being vacuumed for hours. A hint: a row below it is found by the next scan from the beginning.
#[derive(Default)]
pub(super) struct Marks(Mutex<HashMap<String, Mark>>);

struct Mark {
    key: Key,
    claims_left: u32,
    scanned: Instant,
}

impl Marks {
    /// Returns where to begin, or `None` for the beginning.
    fn start(&self, group: &str) -> Option<Key> {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.get_mut(group)?;
        mark.claims_left = mark.claims_left.checked_sub(1)?;
        (mark.scanned.elapsed() < RESCAN).then(|| mark.key.clone())
    }

    /// Notes the first row that a scan from the beginning has met, whether it could be claimed or not.
    fn found(&self, group: &str, key: Key) {
        let mark = Mark { key, claims_left: CLAIMS_PER_RESCAN, scanned: Instant::now() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(group.to_owned(), mark);
    }

    /// Lowers the mark for a job that this process has made ready.
    pub(super) fn lower(&self, row: &Row) {
        let Some(due) = row.due else { return };
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mark) = marks.get_mut(&row.group)
            && row.priority == mark.key.priority
            && row.summary.on.key() == mark.key.labels
            && (number(due.0), row.job.as_uuid()) < (mark.key.due, mark.key.job)
        {
            (mark.key.due, mark.key.job) = (number(due.0), row.job.as_uuid());
        }
    }
}

/// A claim on its way into the store.
pub(super) struct Taken {
    packed: Packed,
    claimed: Claimed,
}

/// Takes jobs. `unsure` holds what an earlier try may have taken before its answer was lost.
pub(super) async fn claim(
    pool: &Pool,
    (marks, witness, clock): (&Marks, &Witness, Clock),
    claim: &Claim,
    unsure: &mut Vec<Taken>,
) -> Try<Vec<Claimed>> {
    let mut client = pool.get().await?;
    let known = witness.known();
    // What was claimed in an earlier instance does not count any more, even if it survived.
    unsure.retain(|taken| taken.claimed.fence.incarnation.instance == known.instance);
    let transaction = client.transaction().await?;
    if !unsure.is_empty() {
        let kept = resolve(&transaction, &known, unsure).await?;
        if !kept.is_empty() {
            // The rollback is not awaited: if its answer was lost too, these claims would be forgotten.
            return Ok(kept);
        }
    }
    let Allowed { room, bound, now } = match check(&transaction, &known, clock, claim).await? {
        Checked::Allowed(allowed) => allowed,
        Checked::Uncounted(group) => {
            transaction.rollback().await?;
            count(&mut client, &group).await?;
            return Err(Failure::Clash(format!("the held jobs of the group {group} were not counted")));
        }
    };
    let claim = Claim { now, ..claim.clone() };
    let mut search = Search { transaction: &transaction, marks, claim: &claim, seen: Vec::new() };
    *unsure = search.take(room).await?;
    if unsure.is_empty() {
        // Awaited: until then the candidates are locked, and the next claim would skip them.
        transaction.rollback().await?;
        return Ok(Vec::new());
    }
    let batch: Vec<&Packed> = unsure.iter().map(|taken| &taken.packed).collect();
    let written = write(&transaction, &known, &batch, bound.as_ref()).await?;
    if let (Some(bound), true) = (&bound, written.jobs.is_empty()) {
        unsure.clear();
        return Err(Failure::Clash(format!("the group {} changed during the claim", bound.group)));
    }
    unsure.retain(|taken| written.jobs.contains(&taken.claimed.job.as_uuid()));
    transaction.commit().await?;
    if let Some(place) = written.place {
        witness.note(&known, place);
    }
    Ok(std::mem::take(unsure).into_iter().map(|taken| taken.claimed).collect())
}

/// Finds out which claims of a lost answer were stored. Waits for a transaction that may still be under way.
async fn resolve(transaction: &Transaction<'_>, known: &Known, unsure: &mut Vec<Taken>) -> Try<Vec<Claimed>> {
    let jobs: Vec<Uuid> = unsure.iter().map(|taken| taken.claimed.job.as_uuid()).collect();
    let sql = "select 1 from jobs where job = any ($1) order by job for update";
    let statement = transaction.prepare_cached(sql).await?;
    transaction.query(&statement, &[&jobs]).await?;
    let packed: Vec<&Packed> = unsure.iter().map(|taken| &taken.packed).collect();
    let verdicts = settle(transaction, known, &packed).await?;
    let settled = std::mem::take(unsure).into_iter().zip(verdicts);
    let happened = settled.filter(|(_, verdict)| matches!(verdict, Ok(Verdict::Stored)));
    Ok(happened.map(|(taken, _)| taken.claimed).collect())
}

/// What a claim may take.
struct Allowed {
    /// So many jobs, by what is committed now.
    room: usize,
    /// What it must keep when it is stored.
    bound: Option<Bound>,
    /// What time it is.
    now: Timestamp,
}

enum Checked {
    Allowed(Allowed),
    /// The group has a bound, and its held jobs must be counted first.
    Uncounted(String),
}

/// Refuses an owner whose life is over; returns what it may take. The group is read in this transaction.
async fn check(transaction: &Transaction<'_>, known: &Known, clock: Clock, claim: &Claim) -> Try<Checked> {
    let (group, unset) = match &claim.from {
        Source::Ready { group, slots } => (Some(group), *slots),
        Source::Expired | Source::Alive { .. } => (None, None),
    };
    let incarnation = Uuid::from_u128(claim.by.incarnation.as_u128());
    let statement = transaction.prepare_cached(ALIVE).await?;
    let now = (clock == Clock::Caller).then(|| number(claim.now.0));
    let values: [Value<'_>; 6] =
        [&&*claim.by.owner.0, &incarnation, &group, &known.identity, &known.newest, &now];
    let row = transaction.query_one(&statement, &values).await?;
    match (row.get(0), row.get(1)) {
        (true, true) => {}
        (true, false) => return Err(Error::Lapsed { owner: claim.by.owner.clone() }.into()),
        (false, _) => return Err(Failure::Moved),
    }
    let (is_settling, now): (bool, i64) = (row.get(8), row.get(9));
    let now = Timestamp(now as u64);
    if is_settling && !may_be_given_in_pause(claim) {
        return Ok(Checked::Allowed(Allowed { room: 0, bound: None, now }));
    }
    let stored = group.and_then(|name| read_group(name, &row, 2));
    let amount = |at: usize| row.get::<_, Option<i64>>(at).unwrap_or_default();
    let spent = Spent { tokens: amount(6), money_micros: amount(7) };
    let stored_text: Option<String> = row.get(10);
    let held: Option<i64> = row.get(11);
    let bound = match (group, slots(stored.as_ref(), unset, &spent)) {
        (Some(group), Some(slots)) => Some(Bound { group: group.clone(), slots, stored: stored_text }),
        (Some(group), None) if held.is_some() => {
            count_no_more(transaction, group).await?;
            None
        }
        _ => None,
    };
    let held = match (&bound, held) {
        (Some(bound), None) if bound.slots > 0 => return Ok(Checked::Uncounted(bound.group.clone())),
        (_, held) => held.map_or(0, |held| u32::try_from(held).unwrap_or(u32::MAX)),
    };
    let room = room(claim, bound.as_ref().map(|bound| bound.slots), held);
    Ok(Checked::Allowed(Allowed { room, bound, now }))
}

/// Reads slots, pause and budget of a group from four columns; `None` if it is not stored.
pub(super) fn read_group(name: &str, row: &tokio_postgres::Row, at: usize) -> Option<Group> {
    let (slots, paused): (Option<i64>, Option<bool>) = (row.get(at), row.get(at + 1));
    let slots = slots.map(|slots| u32::try_from(slots).unwrap_or(u32::MAX));
    let amount = |at: usize| row.get::<_, Option<i64>>(at).map(|amount| amount as u64);
    let budget = Budget { tokens: amount(at + 2), money_micros: amount(at + 3) };
    Some(Group { name: name.to_owned(), slots, paused: paused?, budget })
}

/// A log, or why there is none: see [`Search::logs`].
type Log = Result<Option<Vec<Event>>>;

/// Goes through candidates until enough are taken or none is left.
struct Search<'a> {
    transaction: &'a Transaction<'a>,
    marks: &'a Marks,
    claim: &'a Claim,
    seen: Vec<Uuid>,
}

impl Search<'_> {
    async fn take(&mut self, wanted: usize) -> Try<Vec<Taken>> {
        let mut haul: Haul<Taken> = Haul::new();
        let mut from_beginning = false;
        while haul.taken.len() < wanted {
            let missing = wanted - haul.taken.len();
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
                // A log that lies above this transaction in the feed waits for the next claim, to keep its order there.
                let Some(log) = logs.remove(key).and_then(Result::transpose) else { continue };
                let decided_one = log.and_then(|events| self.decide(job_id(*key)?, *lease, events));
                decided.extend(haul.unless_damaged(decided_one)?);
            }
            haul.taken.extend(match self.claim.from {
                Source::Ready { .. } => self.alone_in_conversation(decided).await?,
                // Jobs that are taken over drive their conversation already.
                Source::Expired | Source::Alive { .. } => decided,
            });
            if whole && candidates.len() < missing {
                break;
            }
        }
        Ok(haul.end()?)
    }

    /// Locks the next candidates, in their order, and reports whether the whole group was searched.
    async fn candidates(&self, missing: usize, from_beginning: bool) -> Try<(Vec<(Uuid, Lease)>, bool)> {
        let limit = missing as i64;
        let group = match &self.claim.from {
            Source::Ready { group, .. } => group,
            Source::Expired => return Ok((self.expired(limit).await?, true)),
            Source::Alive { trees } => return Ok((self.alive(trees, limit).await?, true)),
        };
        let start = if from_beginning { None } else { self.marks.start(group) };
        let is_whole = start.is_none();
        let Key { labels, priority, due, job } = start.unwrap_or_default();
        let had: Vec<&str> = self.claim.labels.iter().collect();
        let statement = self.transaction.prepare_cached(READY).await?;
        let now = number(self.claim.now.0);
        let values: [Value<'_>; 10] =
            [group, &now, &limit, &priority, &due, &job, &self.seen, &i32::from(READER), &had, &labels];
        let rows = self.transaction.query(&statement, &values).await?;
        if let (Some(row), true) = (rows.first(), is_whole) {
            self.mark(group, row.get(3), row.get(1)).await?;
        }
        Ok((rows.iter().map(|row| (row.get(0), Lease::Live)).collect(), is_whole))
    }

    /// Moves the mark to the first row of a line. Not to the first that could be claimed: a locked row, or one whose
    /// conversation is taken, may be claimed a moment later.
    async fn mark(&self, group: &str, labels: String, priority: i16) -> Try<()> {
        let statement = self.transaction.prepare_cached(FIRST).await?;
        if let Some(row) = self.transaction.query_opt(&statement, &[&group, &labels, &priority]).await? {
            self.marks.found(group, Key { labels, priority, due: row.get(0), job: row.get(1) });
        }
        Ok(())
    }

    async fn expired(&self, limit: i64) -> Try<Vec<(Uuid, Lease)>> {
        let statement = self.transaction.prepare_cached(EXPIRED).await?;
        let rows = self.transaction.query(&statement, &[&limit, &self.seen]).await?;
        let lease = |row: &tokio_postgres::Row| {
            let place = row.get::<_, Option<&str>>(1).zip(row.get::<_, Option<&str>>(2));
            place.map_or(Lease::Over, |(host, boot)| Lease::Replaced {
                here: is_here(self.claim, &Place::new(host, boot)),
            })
        };
        Ok(rows.iter().map(|row| (row.get(0), lease(row))).collect())
    }

    /// Locks the jobs of these trees that a present life does not hold.
    async fn alive(&self, trees: &[(JobId, AttemptNo)], limit: i64) -> Try<Vec<(Uuid, Lease)>> {
        let jobs: Vec<Uuid> = trees.iter().map(|(job, _)| job.as_uuid()).collect();
        let statement = self.transaction.prepare_cached(ALIVE_HERE).await?;
        let rows = self.transaction.query(&statement, &[&jobs, &self.seen, &limit]).await?;
        // The rule asks whether the tree is here.
        Ok(rows.iter().map(|row| (row.get(0), Lease::Replaced { here: true })).collect())
    }

    /// Returns the log of each candidate: `None` for one with an event above this transaction, an error for one that does not read.
    async fn logs(&self, candidates: &[Uuid]) -> Try<HashMap<Uuid, Log>> {
        let mut logs: HashMap<Uuid, Log> = HashMap::with_capacity(candidates.len());
        let ids = candidates.iter().filter_map(|key| Some((job_id(*key).ok()?, *key)));
        for (month, candidates) in by_month(ids) {
            let statement = self.transaction.prepare_cached(&month.bind(LOGS)).await?;
            for row in self.transaction.query(&statement, &[&candidates]).await? {
                let log = logs.entry(row.get(0)).or_insert_with(|| Ok(Some(Vec::new())));
                match log {
                    Ok(Some(events)) if !row.get::<_, bool>(6) => match event(&row, 1) {
                        Ok(event) => events.push(event),
                        Err(error) => *log = Err(error),
                    },
                    Ok(_) => *log = Ok(None),
                    Err(_) => {}
                }
            }
        }
        Ok(logs)
    }

    fn decide(&self, id: JobId, lease: Lease, events: Vec<Event>) -> Result<Option<Taken>> {
        let taken = claim::take(self.claim, id, lease, events)?;
        Ok(taken.map(|taken| Taken { packed: Packed::new(taken.append), claimed: taken.claimed }))
    }

    /// Takes the conversations that the jobs want, and leaves out jobs whose conversation another job drives.
    async fn alone_in_conversation(&self, decided: Vec<Taken>) -> Try<Vec<Taken>> {
        // The first job of each conversation, in the order of keys: two claims that want the same ones lock them in one order.
        let mut wanted: BTreeMap<(&str, &str), Uuid> = BTreeMap::new();
        for taken in &decided {
            if let Some(key) = &taken.packed.append.row.drives {
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
            taken.packed.append.row.drives.is_none() || got.contains(&taken.claimed.job.as_uuid())
        };
        Ok(decided.into_iter().filter(free).collect())
    }
}
