//! A journal that becomes unavailable or loses answers on demand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lastword_core::budget::{Day, Spent};
use lastword_core::life::Life;
use lastword_core::reference::Reference;
use lastword_core::view::row::Row;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use lastword_store::hints::Hints;
use lastword_store::sqlite::Sqlite;
use lastword_store::{
    Catalog, Claim, Claimed, Counts, Cursor, Error, Feed, Filter, Group, GroupCounts, Groups, Instance,
    Journal, Key, KeyRecord, Keys, List, Listed, Prunable, Prune, Ready, Removal, Renew, Renewed, Result,
    Store, WaitOver,
};
use tokio::sync::Semaphore;

/// Concurrent renewals, unless a test holds them back: unlimited in practice.
pub(crate) const RENEWALS: u32 = 1_000;

/// A journal with faults.
#[derive(Clone)]
pub(crate) struct Faulty<J = Sqlite> {
    inner: J,
    /// All calls fail.
    pub(crate) away: Arc<AtomicBool>,
    /// Appends fail; everything else works.
    pub(crate) unwritable: Arc<AtomicBool>,
    /// Registering or renewing requires a permit.
    pub(crate) renewals: Arc<Semaphore>,
    /// The answer to the next claim is lost.
    pub(crate) lose_claim: Arc<AtomicBool>,
    /// The answer to the next claim lacks the first event.
    pub(crate) damage_claim: Arc<AtomicBool>,
    /// Events that were loaded.
    pub(crate) loaded: Arc<AtomicU64>,
    /// How often the lives of others were looked at.
    pub(crate) looks: Arc<AtomicU64>,
    /// How often the groups were read.
    pub(crate) group_reads: Arc<AtomicU64>,
    /// Appends to this job wait at this gate.
    pub(crate) held_back: HeldBack,
}

/// The job whose appends wait, and their gate.
type HeldBack = Arc<Mutex<Option<(JobId, Arc<Gate>)>>>;

/// Blocks an append until a test releases it.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) reached: Semaphore,
    pub(crate) open: Semaphore,
}

impl Gate {
    pub(crate) fn shut() -> Gate {
        Gate { reached: Semaphore::new(0), open: Semaphore::new(0) }
    }

    async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.expect("it is never closed").forget();
    }
}

impl<J> Faulty<J> {
    pub(crate) fn new(inner: J) -> Faulty<J> {
        Faulty {
            inner,
            away: Arc::default(),
            unwritable: Arc::default(),
            renewals: Arc::new(Semaphore::new(RENEWALS as usize)),
            lose_claim: Arc::default(),
            damage_claim: Arc::default(),
            loaded: Arc::default(),
            looks: Arc::default(),
            group_reads: Arc::default(),
            held_back: Arc::default(),
        }
    }

    fn reach(&self) -> Result<&J> {
        match self.away.load(Ordering::Relaxed) {
            true => Err(unavailable()),
            false => Ok(&self.inner),
        }
    }
}

fn unavailable() -> Error {
    Error::Unavailable("it was told to be away".to_owned())
}

impl<J: Store> Journal for Faulty<J> {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        let events = self.reach()?.load(job, after).await?;
        self.loaded.fetch_add(events.len() as u64, Ordering::Relaxed);
        Ok(events)
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let gate = self.held_back.lock().unwrap().clone().filter(|(job, _)| *job == append.job);
        if let Some((_, gate)) = gate {
            gate.pass().await;
        }
        match self.unwritable.load(Ordering::Relaxed) {
            true => Err(unavailable()),
            false => self.reach()?.append(append).await,
        }
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        let mut taken = self.reach()?.claim(claim).await?;
        if !taken.is_empty() && self.lose_claim.swap(false, Ordering::Relaxed) {
            return Err(unavailable());
        }
        if !taken.is_empty() && self.damage_claim.swap(false, Ordering::Relaxed) {
            taken.iter_mut().for_each(|claimed| drop(claimed.events.remove(0)));
        }
        Ok(taken)
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let _one = self.renewals.acquire().await.map_err(|_| unavailable())?;
        self.reach()?.renew(renew).await
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        let lives = self.reach()?.lives().await?;
        self.looks.fetch_add(1, Ordering::Relaxed);
        Ok(lives)
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        self.reach()?.end_life(life, beat).await
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    async fn instance(&self) -> Result<Instance> {
        self.reach()?.instance().await
    }

    fn instance_seen(&self) -> Option<u64> {
        self.inner.instance_seen()
    }

    async fn settle(&self, instance: Instance) -> Result<bool> {
        self.reach()?.settle(instance).await
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        self.reach()?.held(by, after, limit).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        self.reach()?.read(after, limit).await
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        self.reach()?.dependents(other).await
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        self.reach()?.waits_over(after, limit).await
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        self.reach()?.ready(now).await
    }

    fn hints(&self) -> Hints {
        self.inner.hints()
    }
}

impl<J: Store> Catalog for Faulty<J> {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        self.reach()?.row(job).await
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        self.reach()?.rows(filter, before, limit).await
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        self.reach()?.list(list).await
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        self.reach()?.listed(jobs).await
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.reach()?.find(reference).await
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        self.reach()?.remove(job, now).await
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        self.reach()?.counts_by_group().await
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        self.reach()?.mark_seen(job, now).await
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.reach()?.prunable(prune).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.reach()?.counts().await
    }
}

impl<J: Store> Groups for Faulty<J> {
    async fn groups(&self) -> Result<Vec<Group>> {
        self.group_reads.fetch_add(1, Ordering::Relaxed);
        self.reach()?.groups().await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.reach()?.add_group(group).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.reach()?.set_group(group).await
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        self.reach()?.spent(day).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.reach()?.remove_group(name).await
    }
}

impl<J: Store> Keys for Faulty<J> {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.reach()?.key(key).await
    }
}
