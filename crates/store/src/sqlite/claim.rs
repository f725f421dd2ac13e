//! `claim` in SQL: candidates in order, the rule about each, its append in the same transaction.

use lastword_core::budget::{Budget, Day, Spent};
use lastword_core::decide::claim::Lease;
use lastword_core::event::READER;
use lastword_core::life::Place;
use lastword_core::spec::ProviderSession;
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{AttemptNo, Incarnation, JobId, Seq};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::{Found, Prepared, find, job_id, moment, write};
use super::failure::failed;
use super::lives::present;
use super::log;
use crate::claim::{Haul, Taken, check_owner, lease, may_drive, room, slots, take};
use crate::{Claim, Claimed, Error, Group, Result, Source};

/// Candidates per query. Most claims need one page; more follow where candidates are passed over.
const PAGE: usize = 64;

/// Takes jobs for an owner whose lease runs.
pub(super) fn claim(connection: &Connection, instance: u64, claim: &Claim) -> Result<Vec<Claimed>> {
    check_owner(claim, present(connection, &claim.by.owner.0)?, instance)?;
    match &claim.from {
        Source::Ready { group, slots: unset } => {
            let stored = find_group(connection, group)?;
            let spent = match stored.as_ref().is_some_and(|stored| stored.budget.is_set()) {
                true => spent_in(connection, group, Day::of(claim.now))?,
                false => Spent::default(),
            };
            let slots = slots(stored.as_ref(), *unset, &spent);
            let held = if slots.is_some() { held(connection, group)? } else { 0 };
            take_ready(connection, claim, group, room(claim, slots, held))
        }
        Source::Expired => take_expired(connection, claim, None),
        Source::Alive { trees } => take_expired(connection, claim, Some(trees)),
    }
}

/// Returns the group of this name.
pub(super) fn find_group(connection: &Connection, name: &str) -> Result<Option<Group>> {
    const SELECT: &str =
        "select name, slots, paused, day_tokens, day_money_micros from groups where name = ?1";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    select.query_row([name], read_group).optional().map_err(failed)
}

/// Reads a group from five columns.
pub(super) fn read_group(row: &rusqlite::Row<'_>) -> rusqlite::Result<Group> {
    let budget = Budget { tokens: row.get(3)?, money_micros: row.get(4)? };
    Ok(Group { name: row.get(0)?, slots: row.get(1)?, paused: row.get(2)?, budget })
}

/// Returns what the jobs of a group spent on a day.
fn spent_in(connection: &Connection, group: &str, day: Day) -> Result<Spent> {
    const SELECT: &str = "select tokens, money_micros from spent where day = ?1 and name = ?2";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let found = select
        .query_row(params![day.0, group], |row| Ok(Spent { tokens: row.get(0)?, money_micros: row.get(1)? }));
    Ok(found.optional().map_err(failed)?.unwrap_or_default())
}

/// Counts the jobs of a group that have a slot: those that are held, without those whose agent is idle.
fn held(connection: &Connection, group: &str) -> Result<u32> {
    // Each part reads nothing but an index.
    const SELECT: &str = "select \
         (select count(*) from jobs indexed by jobs_held where queue = ?1 and holder_incarnation is not null) \
         - (select count(*) from jobs indexed by jobs_idle where queue = ?1 and phase = 'idle')";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    select.query_row([group], |row| row.get(0)).map_err(failed)
}

/// A line of ready jobs that have one priority and need the same labels, by its first job.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    rank: i64,
    first: Key,
    labels: String,
}

/// A place in a line: when the job is due, and its key.
type Key = (i64, [u8; 16]);

/// Returns the lines of a group that the owner may take from, in the order of their first jobs.
fn lines(connection: &Connection, claim: &Claim, group: &str) -> Result<Vec<Line>> {
    const NEXT: &str = "select labels, rank, due, job from ready \
         where queue = ?1 and (labels, rank) > (?2, ?3) order by labels, rank, due, job limit 1";
    let mut next = connection.prepare_cached(NEXT).map_err(failed)?;
    let mut lines = Vec::new();
    // Sorts before every line.
    let mut after = (String::new(), i64::MIN);
    loop {
        let found = next.query_row(params![group, after.0, after.1], |row| {
            Ok(Line { labels: row.get(0)?, rank: row.get(1)?, first: (row.get(2)?, row.get(3)?) })
        });
        let Some(line) = found.optional().map_err(failed)? else { break };
        let fits = WorkerLabels::from_key(&line.labels).are_among(&claim.labels);
        after = (line.labels.clone(), if fits { line.rank } else { i64::MAX });
        if fits && line.first.0 <= moment(claim.now) {
            lines.push(line);
        }
    }
    lines.sort();
    Ok(lines)
}

fn take_ready(connection: &Connection, claim: &Claim, group: &str, room: usize) -> Result<Vec<Claimed>> {
    const SELECT: &str = "select due, job from ready \
         where queue = ?1 and labels = ?2 and rank = ?3 and (due, job) > (?4, ?5) and due <= ?6 \
         order by due, job limit ?7";
    let mut haul = Haul::new();
    let lines = if room > 0 { lines(connection, claim, group)? } else { Vec::new() };
    for line in lines {
        // Sorts before every place.
        let mut after: Key = (i64::MIN, [0; 16]);
        while haul.taken.len() < room {
            let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
            let limit = PAGE.min(room - haul.taken.len());
            let values = params![group, line.labels, line.rank, after.0, after.1, moment(claim.now), limit];
            let page = select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)));
            let page: Vec<Key> = page.and_then(Iterator::collect).map_err(failed)?;
            let Some(last) = page.last() else { break };
            after = *last;
            for (_, job) in page {
                take_one(connection, &mut haul, job_id(job)?, claim, Lease::Live)?;
            }
        }
    }
    haul.end()
}

/// A held job: its id, the life that holds it, host and boot of that if it is stored, and the newest life of its owner.
type Held = ([u8; 16], [u8; 16], Option<String>, Option<String>, Option<[u8; 16]>);

/// Takes jobs whose holder's life is over or was replaced: all, or those whose trees are alive.
fn take_expired(
    connection: &Connection,
    claim: &Claim,
    alive: Option<&Vec<(JobId, AttemptNo)>>,
) -> Result<Vec<Claimed>> {
    // Leaves out what the rule calls live.
    const EXPIRED: &str = "select job, holder_incarnation, l.host, l.boot, \
             (select max(n.incarnation) from lives n where n.owner = holder_owner) as newest \
         from jobs indexed by jobs_held left join lives l on l.incarnation = holder_incarnation \
         where holder_incarnation is not null and job > ?1 \
         and (l.incarnation is null or newest is not holder_incarnation) \
         order by job limit ?2";
    let room = room(claim, None, 0);
    let (mut haul, mut after) = (Haul::new(), [0; 16]);
    let incarnation = |bytes| Incarnation::from_u128(u128::from_be_bytes(bytes));
    while haul.taken.len() < room {
        let mut select = connection.prepare_cached(EXPIRED).map_err(failed)?;
        let limit = PAGE.min(room - haul.taken.len());
        let page = select.query_map(params![after, limit], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        });
        let page: Vec<Held> = page.and_then(Iterator::collect).map_err(failed)?;
        let Some((last, ..)) = page.last() else { break };
        after = *last;
        for (job, holder, host, boot, newest) in page {
            let job = job_id(job)?;
            if alive.is_some_and(|trees| !trees.iter().any(|(alive, _)| *alive == job)) {
                continue;
            }
            let place = host.zip(boot).map(|(host, boot)| Place::new(&host, &boot));
            let lease = lease(claim, incarnation(holder), place, newest.map(incarnation));
            take_one(connection, &mut haul, job, claim, lease)?;
        }
    }
    haul.end()
}

/// Takes one job if the rule allows it, and writes that.
fn take_one(
    connection: &Connection,
    haul: &mut Haul<Claimed>,
    id: JobId,
    claim: &Claim,
    lease: Lease,
) -> Result<()> {
    let decided = candidate(connection, id, claim, lease);
    if let Some((found, Taken { append, claimed })) = haul.unless_damaged(decided)? {
        write(connection, Some(&found), &Prepared::new(append))?;
        haul.taken.push(claimed);
    }
    Ok(())
}

/// Decides about one job; `None` if this build cannot read it, or it is not for this owner, or not now.
fn candidate(
    connection: &Connection,
    id: JobId,
    claim: &Claim,
    lease: Lease,
) -> Result<Option<(Found, Taken)>> {
    let found =
        find(connection, id)?.ok_or_else(|| Error::Corrupt(format!("{id} is ready but has no row")))?;
    if found.least_reader > READER || !may_drive(id, lease, driver(connection, &found)?) {
        return Ok(None);
    }
    let events = log::load(connection, id, Seq(0))?;
    let version = events.last().map_or(Seq(0), |event| event.seq);
    if version != found.version {
        let what = format!("the log of {id} ends at event {version}, its row says {}", found.version);
        return Err(Error::Corrupt(what));
    }
    Ok(take(claim, id, lease, events)?.map(|taken| (found, taken)))
}

/// Returns the job that drives the conversation of another one.
fn driver(connection: &Connection, found: &Found) -> Result<Option<JobId>> {
    const SELECT: &str = "select job from conversations where provider = ?1 and reference = ?2";
    let Some(ProviderSession { provider, reference }) = &found.drives else { return Ok(None) };
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let driver = select.query_row(params![provider, reference], |row| row.get(0)).optional();
    driver.map_err(failed)?.map(job_id).transpose()
}
