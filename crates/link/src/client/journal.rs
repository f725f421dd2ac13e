//! The store's traits, each verb as a call.

use lastword_core::budget::{Day, Spent};
use lastword_core::life::Life;
use lastword_core::reference::Reference;
use lastword_core::view::row::Row;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use lastword_store::hints::Hints;
use lastword_store::{
    Catalog, Claim, Claimed, Counts, Cursor, Feed, Filter, Group, GroupCounts, Groups, Instance, Journal,
    Key, KeyRecord, Keys, List, Listed, Prunable, Prune, Ready, Removal, Renew, Renewed, Result, WaitOver,
};

use super::Link;
use crate::wire::{
    AddGroup, Count, CountByGroup, Dependents, EndLife, FeedEnd, Find, FindPrunable, Held, LoadLog, Log,
    MarkSeen, ReadFeed, ReadGroups, ReadInstance, ReadList, ReadListed, ReadLives, ReadReady, ReadRow,
    ReadRows, Remove, RemoveGroup, RenewLease, SetGroup, Settle, SpentOn, StoreAndTake, StoreAppend,
    StoreKey, TakeJobs, Taken, WaitsOver,
};

impl Link {
    /// Loads what is missing of the logs of claimed jobs.
    async fn complete(&self, taken: Vec<Taken>) -> Result<Vec<Claimed>> {
        let mut whole = Vec::with_capacity(taken.len());
        for Taken { job, mut events, version, fence } in taken {
            if (events.len() as u64) < version.0 {
                events.extend(self.load(job, Seq(events.len() as u64)).await?);
                // Later events are news.
                events.truncate(version.0 as usize);
            }
            whole.push(Claimed { job, events, fence });
        }
        Ok(whole)
    }
}

impl Journal for Link {
    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        let Log { mut events, mut more } = self.call(LoadLog { job, after }).await?;
        while more {
            let after = events.last().map_or(after, |event| event.seq);
            let rest = self.call(LoadLog { job, after }).await?;
            events.extend(rest.events);
            more = rest.more;
        }
        Ok(events)
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        self.call(StoreAppend { append }).await
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        let taken = self.call(TakeJobs { claim }).await?;
        self.complete(taken).await
    }

    async fn append_and_claim(&self, append: Append, claim: Claim) -> (Result<Seq>, Result<Vec<Claimed>>) {
        match self.call(StoreAndTake { append, claim }).await {
            Ok((stored, Ok(taken))) => (stored, self.complete(taken).await),
            Ok((stored, Err(error))) => (stored, Err(error)),
            Err(error) => (Err(error.clone()), Err(error)),
        }
    }

    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        self.call(RenewLease { renew }).await
    }

    async fn lives(&self) -> Result<Vec<Life>> {
        self.call(ReadLives {}).await
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        self.call(EndLife { life, beat }).await
    }

    /// True whatever the server has: it goes on without this host, and may give its jobs to another.
    fn is_shared(&self) -> bool {
        true
    }

    async fn held(&self, by: Incarnation, after: Option<JobId>, limit: u32) -> Result<Vec<JobId>> {
        self.call(Held { by, after, limit }).await
    }

    async fn read(&self, after: Option<Cursor>, limit: u32) -> Result<Feed> {
        self.call(ReadFeed { after, limit }).await
    }

    async fn feed_end(&self) -> Result<Option<Cursor>> {
        self.call(FeedEnd {}).await
    }

    async fn dependents(&self, other: JobId) -> Result<Vec<JobId>> {
        self.call(Dependents { other }).await
    }

    async fn waits_over(&self, after: Option<(JobId, JobId)>, limit: u32) -> Result<Vec<WaitOver>> {
        self.call(WaitsOver { after, limit }).await
    }

    async fn ready(&self, now: Timestamp) -> Result<Ready> {
        self.call(ReadReady { now }).await
    }

    async fn instance(&self) -> Result<Instance> {
        self.call(ReadInstance {}).await
    }

    /// A worker makes no requests. What it writes without a fence, the server decides anew on what it reads itself.
    fn instance_seen(&self) -> Option<u64> {
        None
    }

    async fn settle(&self, instance: Instance) -> Result<bool> {
        self.call(Settle { instance }).await
    }

    fn hints(&self) -> Hints {
        self.bell()
    }
}

impl Catalog for Link {
    async fn row(&self, job: JobId) -> Result<Option<Row>> {
        self.call(ReadRow { job }).await
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        self.call(ReadRows { filter, before, limit }).await
    }

    async fn list(&self, list: List) -> Result<Vec<Listed>> {
        self.call(ReadList { list }).await
    }

    async fn listed(&self, jobs: Vec<JobId>) -> Result<Vec<Listed>> {
        self.call(ReadListed { jobs }).await
    }

    async fn find(&self, reference: Reference) -> Result<Vec<Row>> {
        self.call(Find { reference }).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.call(Count {}).await
    }

    async fn counts_by_group(&self) -> Result<GroupCounts> {
        self.call(CountByGroup {}).await
    }

    async fn mark_seen(&self, job: JobId, now: Timestamp) -> Result<()> {
        self.call(MarkSeen { job, now }).await
    }

    async fn prunable(&self, prune: Prune) -> Result<Prunable> {
        self.call(FindPrunable { prune }).await
    }

    async fn remove(&self, job: JobId, now: Timestamp) -> Result<Removal> {
        self.call(Remove { job, now }).await
    }
}

impl Groups for Link {
    async fn groups(&self) -> Result<Vec<Group>> {
        self.call(ReadGroups {}).await
    }

    async fn add_group(&self, group: Group) -> Result<Group> {
        self.call(AddGroup { group }).await
    }

    async fn set_group(&self, group: Group) -> Result<()> {
        self.call(SetGroup { group }).await
    }

    async fn spent(&self, day: Day) -> Result<Vec<(String, Spent)>> {
        self.call(SpentOn { day }).await
    }

    async fn remove_group(&self, name: &str) -> Result<bool> {
        self.call(RemoveGroup { name: name.to_owned() }).await
    }
}

impl Keys for Link {
    async fn key(&self, key: Key) -> Result<KeyRecord> {
        self.call(StoreKey { key }).await
    }
}
