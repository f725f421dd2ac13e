//! A store whose appends wait until a test lets them through.

use lastword_core::budget::{Day, Spent};
use lastword_core::life::Life;
use lastword_core::reference::Reference;
use lastword_core::view::row::Row;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use lastword_store::hints::Hints;
use lastword_store::memory::Memory;
use lastword_store::{
    Catalog, Claim, Claimed, Counts, Cursor, Feed, Filter, Group, GroupCounts, Groups, Instance, Journal,
    Key, KeyRecord, Keys, List, Listed, Prunable, Prune, Ready, Removal, Renew, Renewed, Result, WaitOver,
};
use tokio::sync::watch;

/// A store in memory with a gate before its appends.
#[derive(Clone)]
pub(super) struct Stuck {
    pub(super) store: Memory,
    gate: watch::Sender<Gate>,
}

#[derive(Clone, Copy, Default)]
struct Gate {
    is_closed: bool,
    waiting: usize,
}

impl Stuck {
    pub(super) fn new(instance: u64) -> Stuck {
        Stuck { store: Memory::shared(instance), gate: watch::Sender::new(Gate::default()) }
    }

    pub(super) fn close(&self) {
        self.gate.send_modify(|gate| gate.is_closed = true);
    }

    pub(super) fn open(&self) {
        self.gate.send_modify(|gate| gate.is_closed = false);
    }

    /// Waits until so many appends have come to the gate since the beginning.
    pub(super) async fn until_waiting(&self, count: usize) {
        self.gate.subscribe().wait_for(|gate| gate.waiting >= count).await.expect("the gate is there");
    }
}

impl Journal for Stuck {
    async fn append(&self, append: Append) -> Result<Seq> {
        let mut gate = self.gate.subscribe();
        self.gate.send_modify(|gate| gate.waiting += 1);
        gate.wait_for(|gate| !gate.is_closed).await.expect("the gate is there");
        self.store.append(append).await
    }

    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        self.store.load(job, after).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        self.store.claim(claim).await
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        self.store.renew(renew).await
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        self.store.lives().await
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        self.store.end_life(life, beat).await
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        self.store.held(by, after, limit).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        self.store.read(after, limit).await
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        self.store.dependents(other).await
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        self.store.waits_over(after, limit).await
    }

    async fn instance(&self) -> Result<Instance> {
        self.store.instance().await
    }

    fn instance_seen(&self) -> Option<u64> {
        self.store.instance_seen()
    }

    async fn settle(&self, instance: Instance) -> Result<bool> {
        self.store.settle(instance).await
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        self.store.ready(now).await
    }

    fn hints(&self) -> Hints {
        self.store.hints()
    }
}

impl Catalog for Stuck {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        self.store.row(job).await
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        self.store.rows(filter, before, limit).await
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        self.store.list(list).await
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        self.store.listed(jobs).await
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.store.find(reference).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.store.counts().await
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        self.store.counts_by_group().await
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        self.store.mark_seen(job, now).await
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.store.prunable(prune).await
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        self.store.remove(job, now).await
    }
}

impl Groups for Stuck {
    async fn groups(&self) -> Result<Vec<Group>> {
        self.store.groups().await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.store.add_group(group).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.store.set_group(group).await
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        self.store.spent(day).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.store.remove_group(name).await
    }
}

impl Keys for Stuck {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.store.key(key).await
    }
}
