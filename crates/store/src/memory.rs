//! The store in memory: the rules of the other two without their machinery.
//!
//! [`Ledger`] is plain data and takes no lock: a verb checks and returns which records to write, `apply` writes
//! them. The simulation puts a disk between the two. [`Memory`] is the ledger as a [`Store`](crate::Store).

mod book;
mod catalog;
mod enrolments;
mod groups;
mod keys;
mod removals;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lastword_core::budget::{Day, Spent};
use lastword_core::decide::claim::Lease;
use lastword_core::event::READER;
use lastword_core::life::Life;
use lastword_core::spec::ProviderSession;
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, Event, Fence, Incarnation, JobId, OwnerId, Seq, Timestamp};

use self::book::Book;
use crate::admit::{Standing, Verdict, admit};
use crate::claim::{
    Haul, Taken, check_owner, lease, leaves_news, may_be_given_in_pause, may_drive, room, slots, take,
};
use crate::hints::{Bell, Hints};
use crate::waits::WaitChange;
use crate::{
    Claim, Claimed, Cursor, Error, Feed, Group, Instance, Journal, KeyRecord, Line, Ready, Renew, Renewed,
    Result, Source, WaitOver,
};

/// Everything a journal holds.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    instance: u64,
    /// Counts its instances; names the pause of one.
    pauses: u64,
    settling: Option<u64>,
    jobs: BTreeMap<JobId, Entry>,
    /// Whether hosts share it.
    shared: bool,
    /// Lives that are not over.
    lives: BTreeMap<Incarnation, Life>,
    conversations: BTreeMap<ProviderSession, JobId>,
    /// Each job that is waited for, with one that waits for it.
    dependencies: BTreeSet<(JobId, JobId)>,
    /// In the order of writing. A removed job leaves its places empty.
    feed: Vec<Option<(JobId, Seq)>>,
    incarnations: u64,
    groups: BTreeMap<String, Group>,
    /// What the jobs of groups spent, by day.
    spent: BTreeMap<(Day, String), Spent>,
    /// Each with the moment it was stored.
    keys: BTreeMap<String, (KeyRecord, Timestamp)>,
    enrolments: Book,
}

#[derive(Clone, Debug)]
struct Entry {
    row: Row,
    /// Another writer changed it since the holder last wrote.
    news: bool,
    /// When a person read its ending; zero before.
    seen_at: Timestamp,
    events: Vec<(AppendId, Event)>,
}

/// One thing to be written. Applying a record cannot fail: it was checked before.
#[derive(Clone, Debug)]
pub enum Record {
    /// An append that was accepted.
    Append(Box<Append>),
    /// A registration or a renewal.
    Life(Life),
    /// The end of a life.
    LifeOver(Incarnation),
}

impl Ledger {
    /// Returns an empty ledger, as instance `instance` of a database.
    pub fn new(instance: u64) -> Ledger {
        Ledger { instance, ..Ledger::default() }
    }

    /// Returns an empty ledger that several hosts use.
    pub fn shared(instance: u64) -> Ledger {
        Ledger { shared: true, ..Ledger::new(instance) }
    }

    /// Begins another instance, as a database does that has lost something. Nothing is given out until it is settled.
    pub fn replace_instance(&mut self, instance: u64) {
        self.instance = instance;
        self.pauses += 1;
        self.settling = Some(self.pauses);
    }

    /// Returns the present instance.
    pub fn instance(&self) -> Instance {
        Instance { number: self.instance, settling: self.settling, lease_max_ms: u64::MAX }
    }

    /// Ends the pause of an instance, if it is still this one.
    pub fn settle(&mut self, instance: Instance) -> bool {
        let is_due = self.settling.is_some() && self.instance() == instance;
        if is_due {
            self.settling = None;
        }
        is_due
    }

    /// Writes one record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Append(append) => self.apply_append(append),
            Record::Life(life) => {
                self.incarnations = self.incarnations.max(life.incarnation.number);
                if !self.shared {
                    self.lives.retain(|_, other| {
                        other.place.host != life.place.host || other.place.boot == life.place.boot
                    });
                }
                self.lives.insert(life.incarnation, life.clone());
            }
            Record::LifeOver(life) => {
                self.lives.remove(life);
            }
        }
    }

    fn apply_append(&mut self, append: &Append) {
        let row = append.row.clone();
        // A session is taken with the claim and released with the job.
        let kept = row.drives.clone().filter(|_| row.holder.is_some());
        self.conversations.retain(|key, job| *job != append.job || Some(key) == kept.as_ref());
        if let Some(conversation) = kept {
            self.conversations.entry(conversation).or_insert(append.job);
        }
        self.change_waits(append);
        self.spend(append);
        let entry = self.jobs.entry(append.job).or_insert_with(|| Entry {
            row: row.clone(),
            news: false,
            seen_at: Timestamp(0),
            events: Vec::new(),
        });
        entry.news = leaves_news(append);
        entry.row = row;
        for event in &append.events {
            entry.events.push((append.id, event.clone()));
            self.feed.push(Some((append.job, event.seq)));
        }
    }

    fn change_waits(&mut self, append: &Append) {
        let WaitChange { begun, over, all_over } = WaitChange::of(append);
        self.dependencies.extend(begun.into_iter().map(|other| (other, append.job)));
        self.dependencies.retain(|(other, job)| *job != append.job || !(all_over || over.contains(other)));
    }

    /// Returns the jobs that wait for a job.
    pub fn dependents(&self, other: JobId) -> Vec<JobId> {
        self.dependencies.iter().filter(|(awaited, _)| *awaited == other).map(|(_, job)| *job).collect()
    }

    /// Returns waits for jobs that have ended or are not there.
    pub fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Vec<WaitOver> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let over = self.dependencies.range((start, Bound::Unbounded)).filter_map(|(other, job)| {
            let outcome = match self.row(*other) {
                Some(row) => Some(row.outcome?),
                None => None,
            };
            Some(WaitOver { other: *other, job: *job, outcome })
        });
        over.take(limit as usize).collect()
    }

    /// Returns where jobs can be claimed.
    pub fn ready(&self, now: Timestamp) -> Ready {
        let is_paused = |row: &Row| self.groups.get(&row.group).is_some_and(|group| group.paused);
        let mut firsts = BTreeMap::<Line, Timestamp>::new();
        for row in self.jobs.values().map(|entry| &entry.row).filter(|row| !is_paused(row)) {
            let Some(due) = row.due else { continue };
            let first = firsts.entry(Line { group: row.group.clone(), labels: row.summary.on.key() });
            first.and_modify(|first| *first = due.min(*first)).or_insert(due);
        }
        let later = firsts.values().filter(|first| **first > now).min();
        let next_ms = later.map(|later| later.0 - now.0);
        Ready {
            lines: firsts.into_iter().filter(|(_, first)| *first <= now).map(|(line, _)| line).collect(),
            next_ms,
        }
    }

    /// Returns the events of a job after `after`.
    pub fn load(&self, job: JobId, after: Seq) -> Vec<Event> {
        let events = self.jobs.get(&job).map_or(&[][..], |entry| &entry.events);
        events.iter().map(|(_, event)| event).filter(|event| event.seq > after).cloned().collect()
    }

    /// Decides an append: the record to write, or none if it is stored already.
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
            settling: self.settling.is_some(),
        };
        let verdict = admit(&append, &standing)?;
        let record = (verdict == Verdict::Write).then(|| Record::Append(Box::new(append)));
        Ok((Seq(stored), record))
    }

    /// Decides a claim: what was taken, and the records that make it so.
    pub fn claim(&self, claim: &Claim) -> Result<(Vec<Claimed>, Vec<Record>)> {
        check_owner(claim, self.present(&claim.by.owner), self.instance)?;
        let is_settling = self.settling.is_some();
        if is_settling && !may_be_given_in_pause(claim) {
            return Ok((Vec::new(), Vec::new()));
        }
        let (candidates, room) = match &claim.from {
            Source::Ready { group, slots: unset } => {
                let held = |row: &&Row| row.group == *group && row.has_slot();
                let held = self.jobs.values().map(|entry| &entry.row).filter(held).count() as u32;
                let spent = self.spent_in(group, Day::of(claim.now));
                let slots = slots(self.groups.get(group), *unset, &spent);
                (self.ready_in(group, claim), room(claim, slots, held))
            }
            Source::Expired => (self.expired(claim), room(claim, None, 0)),
            Source::Alive { trees } => {
                let mut candidates = self.expired(claim);
                candidates.retain(|(row, _)| trees.iter().any(|(job, _)| *job == row.job));
                (candidates, room(claim, None, 0))
            }
        };
        let mut haul = Haul::new();
        // Conversations that this claim takes.
        let mut taken: BTreeMap<&ProviderSession, JobId> = BTreeMap::new();
        for (row, lease) in candidates {
            if haul.taken.len() >= room {
                break;
            }
            let driver =
                |key: &ProviderSession| self.conversations.get(key).or_else(|| taken.get(key)).copied();
            if !may_drive(row.job, lease, row.drives.as_ref().and_then(driver)) {
                continue;
            }
            let decided = take(claim, row.job, lease, self.load(row.job, Seq(0)));
            if let Some(claimed) = haul.unless_damaged(decided)? {
                taken.extend(row.drives.as_ref().map(|key| (key, row.job)));
                haul.taken.push(claimed);
            }
        }
        let taken = haul.end()?;
        Ok(taken
            .into_iter()
            .map(|Taken { append, claimed }| (claimed, Record::Append(Box::new(append))))
            .unzip())
    }

    /// Returns the newest life of an owner.
    fn present(&self, owner: &OwnerId) -> Option<Incarnation> {
        let of_owner = self.lives.values().filter(|life| life.owner == *owner);
        of_owner.map(|life| life.incarnation).filter(|life| life.instance == self.instance).max()
    }

    fn ready_in(&self, group: &str, claim: &Claim) -> Vec<(&Row, Lease)> {
        let now = claim.now;
        let rows = self.jobs.values().map(|entry| &entry.row);
        let due = rows
            .filter(|row| row.group == group && row.summary.on.are_among(&claim.labels))
            .filter(|row| row.due.is_some_and(|due| due <= now));
        // Each line of jobs with one priority and the same labels.
        let mut lines: BTreeMap<(i32, String), Vec<&Row>> = BTreeMap::new();
        for row in due {
            lines.entry((-i32::from(row.priority), row.summary.on.key())).or_default().push(row);
        }
        let place = |row: &Row| (row.due, row.job);
        let mut lines: Vec<(i32, Vec<&Row>)> =
            lines.into_iter().map(|((rank, _), line)| (rank, line)).collect();
        for (_, line) in &mut lines {
            line.sort_by_key(|row| place(row));
        }
        lines.sort_by_key(|(rank, line)| (*rank, line.first().map(|row| place(row))));
        let rows = lines.into_iter().flat_map(|(_, line)| line);
        rows.filter(|row| row.least_reader <= READER).map(|row| (row, Lease::Live)).collect()
    }

    fn expired(&self, claim: &Claim) -> Vec<(&Row, Lease)> {
        let lease_of = |holder: &Fence| {
            let life = holder.incarnation;
            let stored = self.lives.get(&life).filter(|_| life.instance == self.instance);
            lease(claim, life, stored.map(|life| life.place.clone()), self.present(&holder.owner))
        };
        let rows = self.jobs.values().map(|entry| &entry.row);
        let held = rows.filter_map(|row| Some((row, lease_of(row.holder.as_ref()?))));
        held.filter(|(_, lease)| *lease != Lease::Live).collect()
    }

    /// Decides a renewal or a registration.
    pub fn renew(&self, renew: &Renew) -> Result<(Renewed, Record)> {
        let owner = renew.owner.clone();
        let (incarnation, beat) = match renew.incarnation {
            None => {
                let is_elsewhere = |life: &Life| life.owner == owner && life.place != renew.place;
                if self.shared && self.lives().iter().any(is_elsewhere) {
                    return Err(Error::Taken { owner });
                }
                (Incarnation { instance: self.instance, number: self.incarnations + 1 }, 0)
            }
            Some(given) if self.present(&owner) == Some(given) => (given, self.lives[&given].beat + 1),
            Some(_) => return Err(Error::Lapsed { owner }),
        };
        let news = self.jobs.values().filter(|entry| {
            entry.news && entry.row.holder.as_ref().is_some_and(|holder| holder.incarnation == incarnation)
        });
        let news = news.map(|entry| entry.row.job).collect();
        let (place, lease_ms) = (renew.place.clone(), renew.lease_ms);
        let life = Life { owner, incarnation, place, beat, lease_ms };
        Ok((Renewed { incarnation, beat, news, settling: self.settling.is_some() }, Record::Life(life)))
    }

    /// Returns the lives that are not over.
    pub fn lives(&self) -> Vec<Life> {
        let lives = self.lives.values().filter(|life| life.incarnation.instance == self.instance);
        lives.cloned().collect()
    }

    /// Decides the end of a life; none if its beat is another one.
    pub fn end_life(&self, life: Incarnation, beat: u64) -> Option<Record> {
        let stands = self.lives.get(&life).is_some_and(|life| life.beat == beat);
        stands.then_some(Record::LifeOver(life))
    }

    /// Returns the jobs that an incarnation holds.
    pub fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Vec<JobId> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.jobs.range((start, Bound::Unbounded));
        let held = entries
            .filter(|(_, entry)| entry.row.holder.as_ref().is_some_and(|holder| holder.incarnation == by));
        held.map(|(job, _)| *job).take(limit as usize).collect()
    }

    /// Reads the feed.
    pub fn feed(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        let start = match &after {
            None => 0,
            Some(cursor) => cursor.0.parse().map_err(|_| cursor.foreign())?,
        };
        let told = self.feed.iter().enumerate().skip(start);
        let told = told.filter_map(|(place, event)| Some((place, self.event((*event)?)?)));
        let told: Vec<_> = told.take(limit as usize).collect();
        let next = told.last().map(|(place, _)| Cursor((place + 1).to_string())).or(after);
        Ok(Feed { events: told.into_iter().map(|(_, event)| event).collect(), next })
    }

    fn event(&self, (job, seq): (JobId, Seq)) -> Option<(JobId, Event)> {
        let (_, event) = self.jobs.get(&job)?.events.get(seq.0 as usize - 1)?;
        Some((job, event.clone()))
    }
}

/// The ledger as a store. Gone with the process.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    ledger: Mutex<Ledger>,
    bell: Bell,
}

impl Memory {
    /// Returns an empty store.
    pub fn new(instance: u64) -> Memory {
        Memory(Arc::new(Shared { ledger: Mutex::new(Ledger::new(instance)), bell: Bell::default() }))
    }

    /// Returns an empty store that several hosts use.
    pub fn shared(instance: u64) -> Memory {
        let memory = Memory::new(instance);
        memory.ledger().shared = true;
        memory
    }

    /// Begins another instance: see [`Ledger::replace_instance`].
    pub fn replace_instance(&self, instance: u64) {
        self.ledger().replace_instance(instance);
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Ignores poison: applying a record cannot panic half-way.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes records, and wakes waiters.
    fn write<'a>(&self, ledger: &mut Ledger, records: impl IntoIterator<Item = &'a Record>) {
        records.into_iter().for_each(|record| ledger.apply(record));
        self.0.bell.ring();
    }
}

impl Journal for Memory {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        Ok(self.ledger().load(job, after))
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let mut ledger = self.ledger();
        let (seq, record) = ledger.append(append)?;
        self.write(&mut ledger, &record);
        Ok(seq)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        let mut ledger = self.ledger();
        let (taken, records) = ledger.claim(&claim)?;
        self.write(&mut ledger, &records);
        Ok(taken)
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let mut ledger = self.ledger();
        let (renewed, record) = ledger.renew(&renew)?;
        ledger.apply(&record);
        Ok(renewed)
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        Ok(self.ledger().lives())
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        let mut ledger = self.ledger();
        let record = ledger.end_life(life, beat);
        self.write(&mut ledger, &record);
        Ok(record.is_some())
    }

    fn is_shared(&self) -> bool {
        self.ledger().shared
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        Ok(self.ledger().held(by, after, limit))
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        self.ledger().feed(after, limit)
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        Ok(self.ledger().dependents(other))
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        Ok(self.ledger().waits_over(after, limit))
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        Ok(self.ledger().ready(now))
    }

    async fn feed_end(&self) -> Result<Option<Cursor>> {
        let end = self.ledger().feed.len();
        Ok((end > 0).then(|| Cursor(end.to_string())))
    }

    async fn instance(&self) -> Result<Instance> {
        Ok(self.ledger().instance())
    }

    fn instance_seen(&self) -> Option<u64> {
        Some(self.ledger().instance)
    }

    async fn settle(&self, instance: Instance) -> Result<bool> {
        Ok(self.ledger().settle(instance))
    }

    fn hints(&self) -> Hints {
        self.0.bell.hints()
    }
}
