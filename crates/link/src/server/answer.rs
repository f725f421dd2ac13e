//! Answers requests of one principal from the store, after what the principal may do was checked.

use std::sync::Arc;

use lastword_core::{Append, Event, Incarnation, JobId, OwnerId, Seq, Timestamp};
use lastword_store::attempts::NotRead;
use lastword_store::{Claim, Claimed, Cursor, Error, Renew, Renewed, Result, Source, Store};

use super::hosts::{Entry, Hosts};
use super::worker::Worker;
use crate::ask::{Ask, Told};
use crate::asking::Asks as _;
use crate::bells::Ear;
use crate::carried::{Carried, Out};
use crate::frame::MESSAGE_MAX;
use crate::gate::Principal;
use crate::policy::check_request;
use crate::wire::{
    AddGroup, AskWorker, Dependents, EndLife, Find, FindPrunable, Held, LoadLog, Log, MarkSeen, ReadFeed,
    ReadList, ReadListed, ReadReady, ReadRow, ReadRows, Remove, RemoveGroup, RenewLease, Request, SetGroup,
    Settle, SpentOn, StoreAndTake, StoreAppend, StoreKey, TakeJobs, Taken, WaitsOver,
};

/// Bytes of events in an answer that would be too long with all of them.
const ROOM: usize = MESSAGE_MAX / 2;

/// Answers the requests of one connection.
pub(super) struct Desk<S> {
    store: S,
    clock: fn() -> Timestamp,
    /// `None` for a server, which may do everything.
    worker: Option<Worker>,
    /// Where a worker hears of jobs that are ready.
    ear: Option<Ear>,
    /// The host of a worker.
    entry: Option<Arc<Entry>>,
    /// The hosts of all workers that are connected.
    hosts: Hosts,
}

impl<S: Store> Desk<S> {
    pub(super) fn new(
        store: S,
        principal: Principal,
        clock: fn() -> Timestamp,
        ear: Option<Ear>,
        entry: Option<Arc<Entry>>,
        hosts: Hosts,
    ) -> Desk<S> {
        let worker = match principal {
            Principal::Server => None,
            Principal::Worker { owner, labels } => Some(Worker::new(owner, labels)),
        };
        Desk { store, clock, worker, ear, entry, hosts }
    }

    /// Returns the encoded answer.
    pub(super) async fn answer(&self, request: Request) -> Vec<u8> {
        if let Some(worker) = &self.worker
            && let Err(refused) = check_request(&worker.owner, &request)
        {
            return encode::<()>(&Err(refused));
        }
        let store = &self.store;
        match request {
            Request::LoadLog(LoadLog { job, after }) => {
                let log = self.load(job, after).await.map(|events| Log { events, more: false });
                encode_or_shorten(log, shorten_log)
            }
            Request::StoreAppend(StoreAppend { append }) => encode(&self.append(append).await),
            Request::TakeJobs(TakeJobs { claim }) => {
                encode_or_shorten(self.claim(claim).await.map(all_whole), shorten_taken)
            }
            Request::StoreAndTake(StoreAndTake { append, claim }) => {
                let (stored, taken) = self.append_and_claim(append, claim).await;
                let answer = Ok((stored, taken.map(all_whole)));
                encode_or_shorten(answer, |(_, taken)| taken.iter_mut().for_each(shorten_taken))
            }
            Request::RenewLease(RenewLease { renew }) => encode(&self.renew(renew).await),
            Request::ReadLives(_) => encode(&store.lives().await),
            Request::EndLife(EndLife { life, beat }) => encode(&self.end_life(life, beat).await),
            Request::ReadInstance(_) => encode(&store.instance().await),
            Request::Settle(Settle { instance }) => encode(&store.settle(instance).await),
            Request::Held(Held { by, after, limit }) => {
                let held = store.held(by, after, limit).await;
                encode(&self.if_own(held).await)
            }
            Request::ReadFeed(ReadFeed { after, limit }) => self.read(after, limit).await,
            Request::FeedEnd(_) => encode(&store.feed_end().await),
            Request::Dependents(Dependents { other }) => encode(&store.dependents(other).await),
            Request::WaitsOver(WaitsOver { after, limit }) => encode(&store.waits_over(after, limit).await),
            Request::ReadReady(ReadReady { now }) => encode(&store.ready(now).await),
            Request::ReadRow(ReadRow { job }) => encode(&store.row(job).await),
            Request::ReadRows(ReadRows { filter, before, limit }) => {
                encode(&store.rows(filter, before, limit).await)
            }
            Request::ReadList(ReadList { list }) => encode(&store.list(list).await),
            Request::ReadListed(ReadListed { jobs }) => encode(&store.listed(jobs).await),
            Request::Find(Find { reference }) => encode(&store.find(reference).await),
            Request::Count(_) => encode(&store.counts().await),
            Request::CountByGroup(_) => encode(&store.counts_by_group().await),
            Request::MarkSeen(MarkSeen { job, now }) => encode(&store.mark_seen(job, now).await),
            Request::FindPrunable(FindPrunable { prune }) => encode(&store.prunable(prune).await),
            Request::Remove(Remove { job, now }) => encode(&store.remove(job, now).await),
            Request::ReadGroups(_) => encode(&store.groups().await),
            Request::AddGroup(AddGroup { group }) => encode(&store.add_group(group).await),
            Request::SetGroup(SetGroup { group }) => encode(&store.set_group(group).await),
            Request::SpentOn(SpentOn { day }) => encode(&store.spent(day).await),
            Request::RemoveGroup(RemoveGroup { name }) => encode(&store.remove_group(&name).await),
            Request::StoreKey(StoreKey { key }) => encode(&store.key(key).await),
            Request::AskWorker(AskWorker { owner, ask }) => self.ask_worker(owner, &ask).await,
        }
    }

    /// Asks a worker that is connected here, for another server.
    async fn ask_worker(&self, owner: OwnerId, ask: &Ask) -> Vec<u8> {
        let told = match self.hosts.ask(&ask.of(owner), ask.what).await {
            Ok((told, bytes)) => return told.encode(&bytes),
            Err(NotRead::NoAttempt) => Told::NoAttempt,
            Err(NotRead::Away(since)) => Told::Away(since),
            Err(NotRead::Failed(why)) => Told::Failed(why),
        };
        told.encode(&[])
    }

    async fn load(&self, job: JobId, after: Seq) -> Result<Vec<Event>> {
        if let Some(worker) = &self.worker {
            worker.check_job(&self.store, job).await?;
        }
        self.store.load(job, after).await
    }

    async fn append(&self, append: Append) -> Result<Seq> {
        let Some(worker) = &self.worker else { return self.store.append(append).await };
        let Some((made, after)) = worker.make(&self.store, &append).await? else {
            return self.store.append(append).await;
        };
        let stored = self.store.append(made).await?;
        worker.stored(after);
        Ok(stored)
    }

    async fn claim(&self, claim: Claim) -> Result<Vec<Claimed>> {
        let Some(worker) = &self.worker else { return self.store.claim(claim).await };
        worker.check_place(&self.store, &claim.by).await?;
        let (ear, at_most) = (&self.ear, claim.at_most as usize);
        let ear = ear.as_ref().filter(|_| matches!(claim.from, Source::Ready { .. }));
        ear.inspect(|ear| ear.wants());
        let claim = Claim { now: (self.clock)(), labels: worker.labels.clone(), ..claim };
        let taken = self.store.claim(claim).await?;
        worker.claimed(&taken);
        ear.filter(|_| taken.len() >= at_most).inspect(|ear| ear.wants_none());
        Ok(taken)
    }

    /// Stores and claims at once for a server. For a worker it is two steps: its append is made anew first.
    async fn append_and_claim(&self, append: Append, claim: Claim) -> (Result<Seq>, Result<Vec<Claimed>>) {
        match &self.worker {
            None => self.store.append_and_claim(append, claim).await,
            Some(_) => {
                let stored = self.append(append).await;
                (stored, self.claim(claim).await)
            }
        }
    }

    /// Renews. Each renewal is a task of its own; the store gathers those of all connections.
    async fn renew(&self, renew: Renew) -> Result<Renewed> {
        let registers = renew.incarnation.is_none().then(|| renew.place.clone());
        let renewed = self.store.renew(renew).await?;
        self.entry.as_ref().inspect(|entry| entry.speaks());
        if let (Some(worker), Some(place)) = (&self.worker, registers) {
            worker.registered(renewed.incarnation, place);
        }
        Ok(renewed)
    }

    async fn end_life(&self, life: Incarnation, beat: u64) -> Result<bool> {
        if let Some(worker) = &self.worker {
            worker.check_life(&self.store, life).await?;
        }
        self.store.end_life(life, beat).await
    }

    async fn if_own(&self, held: Result<Vec<JobId>>) -> Result<Vec<JobId>> {
        let held = held?;
        if let Some(worker) = &self.worker {
            worker.check_held(&self.store, &held).await?;
        }
        Ok(held)
    }

    /// Reads as much of the feed as fits. A place in it is the store's, so a shorter part is read again.
    async fn read(&self, after: Option<Cursor>, limit: u32) -> Vec<u8> {
        let feed = self.store.read(after.clone(), limit).await;
        match (try_encode(&feed), feed) {
            (Err(_), Ok(feed)) => {
                let fitting = fitting(feed.events.iter().map(|(_, event)| event), &mut { ROOM }).max(1);
                encode(&self.store.read(after, fitting as u32).await)
            }
            (encoded, _) => or_refusal(encoded),
        }
    }
}

/// Encodes an answer; one that is too long becomes a refusal.
pub(super) fn encode<T: Carried>(answer: &Result<T>) -> Vec<u8> {
    or_refusal(try_encode(answer))
}

/// Encodes an answer. The error is its length, if that is too much.
fn try_encode<T: Carried>(answer: &Result<T>) -> std::result::Result<Vec<u8>, usize> {
    // It fails for maps with keys that are no text; no answer has one.
    let body = serde_json::to_vec(&Out(answer)).unwrap_or_default();
    if body.len() > MESSAGE_MAX { Err(body.len()) } else { Ok(body) }
}

fn or_refusal(encoded: std::result::Result<Vec<u8>, usize>) -> Vec<u8> {
    encoded.unwrap_or_else(|length| {
        let words =
            format!("the answer has {length} bytes, and {MESSAGE_MAX} fit into a message: ask for less");
        serde_json::to_vec(&Out(&Err::<(), _>(Error::Refused(words)))).unwrap_or_default()
    })
}

/// Encodes an answer, and shortens it if it is too long.
fn encode_or_shorten<T: Carried>(mut answer: Result<T>, shorten: fn(&mut T)) -> Vec<u8> {
    try_encode(&answer).unwrap_or_else(|_| {
        answer.iter_mut().for_each(shorten);
        encode(&answer)
    })
}

fn all_whole(taken: Vec<Claimed>) -> Vec<Taken> {
    let whole = |Claimed { job, events, fence }: Claimed| Taken {
        job,
        version: Seq(events.len() as u64),
        events,
        fence,
    };
    taken.into_iter().map(whole).collect()
}

/// Leaves out the end of a log. At least one event stays, so that the client comes to its end.
fn shorten_log(log: &mut Log) {
    let fitting = fitting(&log.events, &mut { ROOM }).max(1);
    log.more = fitting < log.events.len();
    log.events.truncate(fitting);
}

/// Leaves out ends of logs, which the client then loads.
fn shorten_taken(taken: &mut Vec<Taken>) {
    let mut room = ROOM;
    for one in taken {
        one.events.truncate(fitting(&one.events, &mut room));
    }
}

/// Returns how many events fit, and takes their room. JSON in JSON is at most twice as long.
fn fitting<'a>(events: impl IntoIterator<Item = &'a Event>, room: &mut usize) -> usize {
    let fits = |event: &&Event| {
        let length = 2 * event.fact.encode().body.len() + 200;
        let fits = length <= *room;
        *room = room.saturating_sub(length);
        fits
    };
    events.into_iter().take_while(fits).count()
}
