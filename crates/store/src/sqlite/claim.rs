//! `claim` in SQL: candidates in order, core's decision about each, its append in the same transaction.

use lastword_core::decide::claim::{self as decision, Lease};
use lastword_core::event::READER;
use lastword_core::spec::Conversation;
use lastword_core::{Append, AppendId, Fence, Job, JobId, Seq};
use rusqlite::{Connection, OptionalExtension, params};

use super::append::{Found, Prepared, find, job_id, key, moment, write};
use super::{failed, reader};
use crate::memory::CLAIM_APPEND;
use crate::{Claim, Claimed, Error, Result, Source};

/// Candidates looked at in one go. Most claims need one page; more follow where candidates are turned down.
const PAGE: u32 = 64;

/// Takes jobs for an owner whose lease runs.
pub(super) fn claim(connection: &Connection, instance: u64, claim: &Claim) -> Result<Vec<Claimed>> {
    if !lease_runs(connection, instance, claim)? {
        return Err(Error::Lapsed { owner: claim.by.owner.clone() });
    }
    match &claim.from {
        Source::Ready { queue, slots } => {
            let room = match slots {
                Some(slots) => slots.saturating_sub(held(connection, queue)?).min(claim.at_most),
                None => claim.at_most,
            };
            take_ready(connection, claim, queue, room as usize)
        }
        Source::Expired { margin_ms } => take_expired(connection, claim, *margin_ms),
    }
}

fn lease_runs(connection: &Connection, instance: u64, claim: &Claim) -> Result<bool> {
    const SELECT: &str = "select 1 from owners where owner = ?1 and incarnation = ?2 and until > ?3";
    let incarnation = claim.by.incarnation;
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let me = params![&*claim.by.owner.0, incarnation.as_u128().to_be_bytes(), moment(claim.now)];
    Ok(select.exists(me).map_err(failed)? && incarnation.instance == instance)
}

/// Counts the jobs of a queue that anyone holds.
fn held(connection: &Connection, queue: &str) -> Result<u32> {
    const SELECT: &str = "select count(*) from jobs indexed by jobs_held \
         where queue = ?1 and holder_incarnation is not null";
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    select.query_row([queue], |row| row.get(0)).map_err(failed)
}

/// A place in the ready table.
type Place = (i64, i64, [u8; 16]);

fn take_ready(connection: &Connection, claim: &Claim, queue: &str, room: usize) -> Result<Vec<Claimed>> {
    const SELECT: &str = "select rank, due, job from ready \
         where queue = ?1 and (rank, due, job) > (?2, ?3, ?4) and due <= ?5 \
         order by rank, due, job limit ?6";
    let mut haul = Haul::default();
    // No job has this key: it sorts before all that do.
    let mut after: Place = (i64::MIN, i64::MIN, [0; 16]);
    while haul.taken.len() < room {
        let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
        let limit = PAGE.min((room - haul.taken.len()) as u32);
        let values = params![queue, after.0, after.1, after.2, moment(claim.now), limit];
        let page = select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        let page: Vec<Place> = page.and_then(Iterator::collect).map_err(failed)?;
        let Some(last) = page.last() else { break };
        after = *last;
        for (_, _, job) in page {
            haul.add(take(connection, job_id(job)?, claim, Lease::Live)?);
        }
    }
    haul.end()
}

/// What a claim brought.
#[derive(Default)]
struct Haul {
    taken: Vec<Claimed>,
    /// Of a job that cannot be read: it stays where it is, and must not keep others from being taken.
    damage: Option<Error>,
}

impl Haul {
    fn add(&mut self, candidate: Candidate) {
        match candidate {
            Candidate::Taken(claimed) => self.taken.push(claimed),
            Candidate::Damaged(error) => self.damage = Some(error),
            Candidate::Passed => {}
        }
    }

    /// Returns what was taken. Damage is told when there is nothing else to tell.
    fn end(self) -> Result<Vec<Claimed>> {
        match self.damage {
            Some(error) if self.taken.is_empty() => Err(error),
            _ => Ok(self.taken),
        }
    }
}

/// What came of looking at one job.
enum Candidate {
    Taken(Claimed),
    /// Not for this owner, or not now.
    Passed,
    /// Its log cannot be read.
    Damaged(Error),
}

fn take_expired(connection: &Connection, claim: &Claim, margin_ms: u64) -> Result<Vec<Claimed>> {
    // A later life of the owner has a later lease, so its end is the end of all before it.
    const SELECT: &str = "select job, until is null or until <= ?2 from jobs indexed by jobs_held \
         left join owners on owner = holder_owner \
         where holder_incarnation is not null and job > ?1 \
         and (until is null or until <= ?2 or incarnation <> holder_incarnation) \
         order by job limit ?3";
    let margin = i64::try_from(margin_ms).unwrap_or(i64::MAX);
    let before = moment(claim.now).saturating_sub(margin);
    let room = claim.at_most as usize;
    let (mut haul, mut after) = (Haul::default(), [0; 16]);
    while haul.taken.len() < room {
        let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
        let limit = PAGE.min((room - haul.taken.len()) as u32);
        let values = params![after, before, limit];
        let page = select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)));
        let page: Vec<([u8; 16], bool)> = page.and_then(Iterator::collect).map_err(failed)?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (job, over) in page {
            let lease = if over { Lease::Over } else { Lease::Replaced };
            haul.add(take(connection, job_id(job)?, claim, lease)?);
        }
    }
    haul.end()
}

/// Takes one job, if this build can read it, core agrees and no other job drives its conversation. A takeover drives it already:
/// agents may have given two of them one name.
fn take(connection: &Connection, id: JobId, claim: &Claim, lease: Lease) -> Result<Candidate> {
    let found =
        find(connection, id)?.ok_or_else(|| Error::Corrupt(format!("{id} is ready but has no row")))?;
    if found.least_reader > READER || (lease == Lease::Live && is_busy(connection, id, &found)?) {
        return Ok(Candidate::Passed);
    }
    let corrupt = |error: lastword_core::Illegal| Error::Corrupt(error.to_string());
    let log = reader::load(connection, id, Seq(0));
    let log = log.and_then(|events| Job::fold(id, &events).map(|job| (events, job)).map_err(corrupt));
    let (mut events, job) = match log {
        Err(error @ Error::Corrupt(_)) => return Ok(Candidate::Damaged(error)),
        other => other?,
    };
    if job.version != found.version {
        let what = format!("the log of {id} ends at event {}, its row says {}", job.version, found.version);
        return Ok(Candidate::Damaged(Error::Corrupt(what)));
    }
    let Ok(facts) = decision::decide(&job, &claim.by, lease, claim.now) else {
        return Ok(Candidate::Passed);
    };
    let fence =
        Fence { owner: claim.by.owner.clone(), incarnation: claim.by.incarnation, epoch: job.epoch.next() };
    let id = AppendId::of_owner(&fence, CLAIM_APPEND);
    let (append, _) = Append::new(&job, None, id, claim.now, facts).map_err(corrupt)?;
    events.extend(append.events.iter().cloned());
    write(connection, Some(&found), &Prepared::new(append))?;
    Ok(Candidate::Taken(Claimed { job: job.id, events, fence }))
}

fn is_busy(connection: &Connection, job: JobId, found: &Found) -> Result<bool> {
    const SELECT: &str = "select job <> ?3 from conversations where provider = ?1 and reference = ?2";
    let Some(Conversation { provider, reference }) = &found.conversation else { return Ok(false) };
    let mut select = connection.prepare_cached(SELECT).map_err(failed)?;
    let busy = select.query_row(params![provider, reference, key(job)], |row| row.get(0)).optional();
    Ok(busy.map_err(failed)?.unwrap_or(false))
}
