//! The journal in memory: the rules of the other two without their machinery.
//!
//! [`Ledger`] is plain data and takes no lock: a verb checks and says which records to write, `apply` writes
//! them. The simulation puts a disk between the two. [`Memory`] is the ledger as a [`Journal`].

mod siblings;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::decide::claim::{self, Lease};
use lastword_core::spec::Conversation;
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, Event, Fence, Incarnation, Job, JobId, OwnerId, Seq, Timestamp};

use crate::admit::{Standing, Verdict, admit};
use crate::{Claim, Claimed, Cursor, Error, Journal, Page, Read, Renew, Renewed, Result, Source};

/// Everything a journal holds.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    instance: u64,
    jobs: BTreeMap<JobId, Entry>,
    owners: BTreeMap<OwnerId, Owner>,
    conversations: BTreeMap<Conversation, JobId>,
    /// In the order of writing. Of a job that was removed only the places are left.
    feed: Vec<Option<(JobId, Seq)>>,
    incarnations: u64,
    beside: siblings::Beside,
}

#[derive(Clone, Debug)]
struct Entry {
    row: Row,
    /// Another writer changed it since the holder last wrote.
    news: bool,
    /// Its ending was read.
    read: bool,
    events: Vec<(AppendId, Event)>,
}

/// An owner's registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub owner: OwnerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The end of its lease.
    pub until: Timestamp,
}

/// One thing to be written. Applying a record cannot fail: it was checked before.
#[derive(Clone, Debug)]
pub enum Record {
    /// An append that was let in.
    Append(Box<Append>),
    /// A registration or a renewal.
    Owner(Owner),
}

impl Ledger {
    /// Returns an empty ledger, as instance `instance` of a database.
    pub fn new(instance: u64) -> Ledger {
        Ledger { instance, ..Ledger::default() }
    }

    /// Writes one record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Append(append) => self.apply_append(append),
            Record::Owner(owner) => {
                self.incarnations = self.incarnations.max(owner.incarnation.number);
                self.owners.insert(owner.owner.clone(), owner.clone());
            }
        }
    }

    fn apply_append(&mut self, append: &Append) {
        let row = append.row.clone();
        // A conversation is taken with the claim and given back with the job.
        let kept = row.conversation.clone().filter(|_| row.holder.is_some());
        self.conversations.retain(|key, job| *job != append.job || Some(key) == kept.as_ref());
        if let Some(conversation) = kept {
            self.conversations.entry(conversation).or_insert(append.job);
        }
        // A request leaves news for the holder; whatever the holder writes, a claim included, shows that it has read.
        let by_holder = append.fence.is_some() || row.holder.is_none() || claims(append);
        let entry = self.jobs.entry(append.job).or_insert_with(|| Entry {
            row: row.clone(),
            news: false,
            read: false,
            events: Vec::new(),
        });
        entry.news = !by_holder;
        entry.row = row;
        for event in &append.events {
            entry.events.push((append.id, event.clone()));
            self.feed.push(Some((append.job, event.seq)));
        }
    }

    /// Returns the events of a job after `after`.
    pub fn load(&self, job: JobId, after: Seq) -> Vec<Event> {
        let events = self.jobs.get(&job).map_or(&[][..], |entry| &entry.events);
        events.iter().map(|(_, event)| event).filter(|event| event.seq > after).cloned().collect()
    }

    /// Returns the row of a job.
    pub fn row(&self, job: JobId) -> Option<&Row> {
        self.jobs.get(&job).map(|entry| &entry.row)
    }

    /// Decides an append: the record to write, or none if it is there already.
    pub fn append(&self, append: Append) -> Result<(Seq, Option<Record>)> {
        let stored = append.expected.0 + append.events.len() as u64;
        let entry = self.jobs.get(&append.job);
        let next = entry.and_then(|entry| entry.events.get(append.expected.0 as usize));
        let standing = Standing {
            version: entry.map_or(Seq(0), |entry| entry.row.version),
            holder: entry.and_then(|entry| entry.row.holder.as_ref()),
            ended: entry.is_some_and(|entry| entry.row.outcome.is_some()),
            next_written_by: next.map(|(id, _)| *id),
            instance: self.instance,
        };
        let verdict = admit(&append, &standing)?;
        let record = (verdict == Verdict::Write).then(|| Record::Append(Box::new(append)));
        Ok((Seq(stored), record))
    }

    /// Decides a claim: what was taken, and the records that make it so.
    pub fn claim(&self, claim: &Claim) -> Result<(Vec<Claimed>, Vec<Record>)> {
        let by = &claim.by;
        let lapsed = || Error::Lapsed { owner: by.owner.clone() };
        let me = self.owners.get(&by.owner).ok_or_else(lapsed)?;
        if me.incarnation != by.incarnation || me.until <= claim.now {
            return Err(lapsed());
        }
        let (candidates, room) = match &claim.from {
            Source::Ready { queue, slots } => {
                let held = |row: &&Row| row.group == *queue && row.holder.is_some();
                let held = self.jobs.values().map(|entry| &entry.row).filter(held).count();
                let room = slots.map_or(usize::MAX, |slots| (slots as usize).saturating_sub(held));
                (self.ready(queue, claim.now), room)
            }
            Source::Expired { margin_ms } => (self.expired(claim.now, *margin_ms), usize::MAX),
        };
        let (mut taken, mut records) = (Vec::new(), Vec::new());
        let mut talking: BTreeSet<&Conversation> = BTreeSet::new();
        for (row, lease) in candidates {
            if taken.len() >= room.min(claim.at_most as usize) {
                break;
            }
            let is_taken = row.conversation.as_ref().is_some_and(|key| talking.contains(key));
            if lease == Lease::Live && is_taken {
                continue;
            }
            if let Some((claimed, record)) = self.take(row, claim, lease)? {
                talking.extend(&row.conversation);
                taken.push(claimed);
                records.push(record);
            }
        }
        Ok((taken, records))
    }

    /// Takes one job, if core agrees and no other job drives its conversation. A takeover drives it already.
    fn take(&self, row: &Row, claim: &Claim, lease: Lease) -> Result<Option<(Claimed, Record)>> {
        let busy = row.conversation.as_ref().and_then(|key| self.conversations.get(key));
        if lease == Lease::Live && busy.is_some_and(|job| *job != row.job) {
            return Ok(None);
        }
        let mut events = self.load(row.job, Seq(0));
        let corrupt = |error: lastword_core::Illegal| Error::Corrupt(error.to_string());
        let job = Job::fold(row.job, &events).map_err(corrupt)?;
        let Ok(facts) = claim::decide(&job, &claim.by, lease, claim.now) else { return Ok(None) };
        let fence = Fence {
            owner: claim.by.owner.clone(),
            incarnation: claim.by.incarnation,
            epoch: job.epoch.next(),
        };
        let id = AppendId::of_owner(&fence, CLAIM_APPEND);
        let (append, _) = Append::new(&job, None, id, claim.now, facts).map_err(corrupt)?;
        events.extend(append.events.iter().cloned());
        Ok(Some((Claimed { job: row.job, events, fence }, Record::Append(Box::new(append)))))
    }

    fn ready(&self, queue: &str, now: Timestamp) -> Vec<(&Row, Lease)> {
        let rows = self.jobs.values().map(|entry| &entry.row);
        let mut rows: Vec<&Row> = rows
            .filter(|row| row.group == queue && row.least_reader <= lastword_core::event::READER)
            .filter(|row| row.due.is_some_and(|due| due <= now))
            .collect();
        rows.sort_by_key(|row| (-i32::from(row.priority), row.due, row.job));
        rows.into_iter().map(|row| (row, Lease::Live)).collect()
    }

    fn expired(&self, now: Timestamp, margin_ms: u64) -> Vec<(&Row, Lease)> {
        let lease = |fence: &Fence| match self.owners.get(&fence.owner) {
            // A later life has a later lease, so its end is the end of all before it.
            Some(owner) if owner.until.plus_ms(margin_ms) <= now => Lease::Over,
            Some(owner) if owner.incarnation != fence.incarnation => Lease::Replaced,
            Some(_) => Lease::Live,
            None => Lease::Over,
        };
        let rows = self.jobs.values().map(|entry| &entry.row);
        let held = rows.filter_map(|row| Some((row, lease(row.holder.as_ref()?))));
        held.filter(|(_, lease)| *lease != Lease::Live).collect()
    }

    /// Decides a renewal or a registration.
    pub fn renew(&self, renew: &Renew) -> Result<(Renewed, Record)> {
        let known = self.owners.get(&renew.owner).map(|owner| owner.incarnation);
        let incarnation = match renew.incarnation {
            None => Incarnation { instance: self.instance, number: self.incarnations + 1 },
            Some(given) if known == Some(given) && given.instance == self.instance => given,
            Some(_) => return Err(Error::Lapsed { owner: renew.owner.clone() }),
        };
        let until = renew.now.plus_ms(renew.lease_ms);
        let news = self.jobs.values().filter(|entry| {
            entry.news && entry.row.holder.as_ref().is_some_and(|holder| holder.incarnation == incarnation)
        });
        let news = news.map(|entry| entry.row.job).collect();
        let owner = Owner { owner: renew.owner.clone(), incarnation, until };
        Ok((Renewed { incarnation, news }, Record::Owner(owner)))
    }

    /// Reads rows or the feed.
    pub fn read(&self, read: &Read) -> Result<Page> {
        match read {
            Read::Row(job) => Ok(Page::Rows(self.row(*job).cloned().into_iter().collect())),
            Read::Rows { filter, before, limit } => {
                let end = before.map_or(Bound::Unbounded, Bound::Excluded);
                let entries = self.jobs.range((Bound::Unbounded, end)).rev();
                let rows = entries.map(|(_, entry)| &entry.row).filter(|row| filter.passes(row));
                Ok(Page::Rows(rows.take(*limit as usize).cloned().collect()))
            }
            Read::Feed { after, limit } => {
                let start = match after {
                    None => 0,
                    Some(cursor) => cursor.0.parse().map_err(|_| bad_cursor(cursor))?,
                };
                let told = self.feed.iter().enumerate().skip(start);
                let told = told.filter_map(|(place, event)| Some((place, self.event((*event)?)?)));
                let told: Vec<_> = told.take(*limit as usize).collect();
                let next = told.last().map(|(place, _)| Cursor((place + 1).to_string()));
                let next = next.or_else(|| after.clone());
                let events = told.into_iter().map(|(_, event)| event).collect();
                Ok(Page::Feed { events, next })
            }
        }
    }

    fn event(&self, (job, seq): (JobId, Seq)) -> Option<(JobId, Event)> {
        let (_, event) = self.jobs.get(&job)?.events.get(seq.0 as usize - 1)?;
        Some((job, event.clone()))
    }
}

/// The append number a claim uses under its own fence; the owner counts its own from zero.
pub(crate) const CLAIM_APPEND: u32 = u32::MAX;

/// Reports whether an append is a claim.
pub(crate) fn claims(append: &Append) -> bool {
    append.events.iter().any(|event| matches!(event.fact, lastword_core::Fact::Claimed(_)))
}

/// Says that a cursor was not made by this journal.
pub(crate) fn bad_cursor(cursor: &Cursor) -> Error {
    Error::Corrupt(format!("`{}` is not a place in this feed", cursor.0.escape_default()))
}

/// The ledger as a journal. Gone with the process.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Ledger>>);

impl Memory {
    /// Returns an empty journal.
    pub fn new(instance: u64) -> Memory {
        Memory(Arc::new(Mutex::new(Ledger::new(instance))))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A panic elsewhere cannot leave a record half applied that a reader would miss.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for Memory {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        Ok(self.ledger().load(job, after))
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let mut ledger = self.ledger();
        let (seq, record) = ledger.append(append)?;
        if let Some(record) = &record {
            ledger.apply(record);
        }
        Ok(seq)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        let mut ledger = self.ledger();
        let (taken, records) = ledger.claim(&claim)?;
        records.iter().for_each(|record| ledger.apply(record));
        Ok(taken)
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let mut ledger = self.ledger();
        let (renewed, record) = ledger.renew(&renew)?;
        ledger.apply(&record);
        Ok(renewed)
    }

    async fn read(&self, read: Read) -> Result<Page> {
        self.ledger().read(&read)
    }
}
