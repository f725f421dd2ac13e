//! The journal that the engine is given: the one in memory, behind a way on which calls get lost, late or hurt.

use std::future::Future;

use lastword_core::budget::{Day, Spent};
use lastword_core::life::Life;
use lastword_core::reference::Reference;
use lastword_core::view::row::Row;
use lastword_core::{Append, Event, Incarnation, JobId, Seq, Timestamp};
use lastword_store::hints::{Bell, Hints};
use lastword_store::{
    Catalog, Claim, Claimed, Counts, Cursor, Error, Feed, Filter, Group, GroupCounts, Groups, Instance,
    Journal, Key, KeyRecord, Keys, List, Listed, Prunable, Prune, Ready, Removal, Renew, Renewed, Result,
    WaitOver,
};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::fault::Fault;
use super::world::{Arrival, Doing, Process, World};

/// The journal, as the engine of a host reaches it.
#[derive(Clone)]
pub(super) struct Frail(pub(super) Process);

/// What happens to a call.
enum Fate {
    /// The call is done after `after_ms`, whether or not its caller still waits. The answer takes another `answer_ms`, or is lost:
    /// then the caller is told that the outcome is unknown.
    Done { after_ms: u64, answer_ms: u64, lost: bool },
    /// It is not done.
    Fails(Error),
    /// Its caller dies, and it is done or not.
    Kills(bool),
}

/// What a call is about.
#[derive(Clone, Copy)]
struct About {
    verb: u64,
    job: Option<JobId>,
    /// It gives something back that can be damaged.
    reads: bool,
    /// It changes something.
    writes: bool,
}

fn away() -> Error {
    Error::Unavailable("simulated".to_owned())
}

impl World {
    fn meet(&mut self, host: usize, about: About) -> Fate {
        self.note(about.verb);
        self.step();
        if self.acts(host) {
            self.struck(Fault::KilledInCall, about.job);
            return Fate::Kills(self.random.chance(50));
        }
        if self.journal_away {
            return Fate::Fails(away());
        }
        if self.unlucky(2) {
            self.struck(Fault::CallFailed, about.job);
            return Fate::Fails(away());
        }
        let (mut after_ms, mut answer_ms, mut lost) = (0, 0, false);
        if self.unlucky(2) || self.late_loss() {
            self.struck(Fault::AnswerLost, about.job);
            (answer_ms, lost) = (self.random.below(400), true);
        } else if self.unlucky(2) {
            self.struck(Fault::JournalSlow, about.job);
            after_ms = self.random.below(800);
            answer_ms = self.random.below(800);
        } else if about.reads && self.unlucky(1) {
            self.struck(Fault::CorruptRead, about.job);
            return Fate::Fails(Error::Corrupt("simulated".to_owned()));
        } else if self.random.chance(20) {
            (after_ms, answer_ms) = (self.random.below(4), self.random.below(4));
        }
        if about.writes {
            // Writes are done in the order in which they were sent.
            let now = self.now();
            let life = &mut self.lives[host];
            after_ms = after_ms.max(life.writes_until.saturating_sub(now));
            life.writes_until = now + after_ms;
        }
        Fate::Done { after_ms, answer_ms, lost }
    }

    /// Reports whether an answer is lost although all is well otherwise: what follows from the call must happen at once all the same.
    fn late_loss(&mut self) -> bool {
        let strikes = self.is_prompt(self.now()) && !self.lost_late && self.random.chance(3);
        self.lost_late |= strikes;
        strikes
    }

    /// A claim is sent; returns when.
    fn claim_sent(&mut self, process: &Process, claim: &Claim) -> u64 {
        if process.is_alive(self) && self.lives[process.host].went_down {
            self.fail("jobs are taken after going down", |_| format!("{:?}", claim.from));
        }
        self.now()
    }

    fn append(&mut self, append: Append) -> Result<Seq> {
        let job = append.job;
        let (seq, record) = self.ledger.append(append)?;
        if let Some(record) = record {
            self.ledger.apply(&record);
            self.witnessed(job);
        }
        Ok(seq)
    }

    fn claim(&mut self, claim: &Claim, sent_at: u64) -> Result<Vec<Claimed>> {
        let (taken, records) = self.ledger.claim(claim)?;
        self.check_claim(claim, &taken, sent_at);
        for record in &records {
            self.ledger.apply(record);
        }
        for claimed in &taken {
            self.witnessed(claimed.job);
        }
        Ok(taken)
    }

    /// Sends a call on its way.
    fn send(&mut self, host: usize, ms: u64, arrival: Arrival) {
        let no = self.count();
        self.lives[host].arrivals.insert(no, arrival);
        self.after(ms, Doing::Arrive(host, no));
    }
}

impl Frail {
    fn call<R: Send + 'static>(
        &self,
        about: About,
        deed: impl FnOnce(&mut World) -> Result<R> + Send + 'static,
    ) -> impl Future<Output = Result<R>> + Send {
        let process = self.0.clone();
        let host = process.host;
        async move {
            match process.act(|world| world.meet(host, about)).await {
                Fate::Done { after_ms, answer_ms, lost } => {
                    let answer = match after_ms {
                        0 => process.act(deed).await,
                        _ => {
                            let (answer, answered) = oneshot::channel();
                            let arrival: Arrival = Box::new(move |world| drop(answer.send(deed(world))));
                            process.act(|world| world.send(host, after_ms, arrival)).await;
                            answered.await.unwrap_or(Err(away()))
                        }
                    };
                    if answer_ms > 0 {
                        pause(answer_ms).await;
                    }
                    // Its caller may have died meanwhile.
                    process.act(|_| if lost { Err(away()) } else { answer }).await
                }
                Fate::Fails(error) => Err(error),
                Fate::Kills(done) => {
                    let dies = |world: &mut World| {
                        if done {
                            drop(deed(world));
                        }
                        world.engine_dies(host);
                    };
                    process.act(dies).await;
                    std::future::pending().await
                }
            }
        }
    }

    /// Notes that a claim is sent; returns when.
    fn claim_sent(&self, claim: &Claim) -> u64 {
        self.0.sim.with(|world| world.claim_sent(&self.0, claim))
    }

    fn about(verb: u64, job: Option<JobId>) -> About {
        About { verb, job, reads: false, writes: true }
    }

    fn reading(verb: u64, job: Option<JobId>) -> About {
        About { verb, job, reads: true, writes: false }
    }
}

/// Waits; a pause of nothing is one in which others come first.
pub(super) async fn pause(ms: u64) {
    match ms {
        0 => tokio::task::yield_now().await,
        _ => sleep(std::time::Duration::from_millis(ms)).await,
    }
}

impl Journal for Frail {
    fn load(&self, job: JobId, after: Seq) -> impl Future<Output = Result<Vec<Event>>> + Send {
        self.call(Frail::reading(1, Some(job)), move |world| Ok(world.ledger.load(job, after)))
    }

    fn append(&self, append: Append) -> impl Future<Output = Result<Seq>> + Send {
        let job = append.job;
        self.call(Frail::about(2, Some(job)), move |world| world.append(append))
    }

    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Vec<Claimed>>> + Send {
        let sent_at = self.claim_sent(&claim);
        let about = About { writes: true, ..Frail::reading(3, None) };
        self.call(about, move |world| world.claim(&claim, sent_at))
    }

    fn renew(&self, renew: Renew) -> impl Future<Output = Result<Renewed>> + Send {
        self.call(Frail::about(4, None), move |world| {
            let (renewed, record) = world.ledger.renew(&renew)?;
            world.ledger.apply(&record);
            Ok(renewed)
        })
    }

    fn lives(&self) -> impl Future<Output = Result<Vec<Life>>> + Send {
        self.call(Frail::reading(17, None), |world| Ok(world.ledger.lives()))
    }

    fn end_life(&self, life: Incarnation, beat: u64) -> impl Future<Output = Result<bool>> + Send {
        self.call(Frail::about(18, None), move |world| {
            let record = world.ledger.end_life(life, beat);
            record.iter().for_each(|record| world.ledger.apply(record));
            Ok(record.is_some())
        })
    }

    fn is_shared(&self) -> bool {
        self.0.sim.with(|world| world.hosts.len() > 1)
    }

    fn instance(&self) -> impl Future<Output = Result<Instance>> + Send {
        self.call(Frail::reading(21, None), move |world| Ok(world.ledger.instance()))
    }

    fn instance_seen(&self) -> Option<u64> {
        Some(self.0.sim.with(|world| world.ledger.instance().number))
    }

    fn settle(&self, instance: Instance) -> impl Future<Output = Result<bool>> + Send {
        self.call(Frail::about(22, None), move |world| Ok(world.ledger.settle(instance)))
    }

    fn append_and_claim(
        &self,
        append: Append,
        claim: Claim,
    ) -> impl Future<Output = (Result<Seq>, Result<Vec<Claimed>>)> + Send {
        let sent_at = self.claim_sent(&claim);
        let about = Frail::about(16, Some(append.job));
        let both = self.call(about, move |world| {
            let stored = world.append(append);
            Ok((stored, world.claim(&claim, sent_at)))
        });
        async { both.await.unwrap_or_else(|error| (Err(error.clone()), Err(error))) }
    }

    fn held(
        &self,
        by: Incarnation,
        after: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<JobId>>> + Send {
        self.call(Frail::reading(17, None), move |world| Ok(world.ledger.held(by, after, limit)))
    }

    fn read(&self, after: Option<Cursor>, limit: u32) -> impl Future<Output = Result<Feed>> + Send {
        self.call(Frail::reading(18, None), move |world| world.ledger.feed(after, limit))
    }

    fn dependents(&self, other: JobId) -> impl Future<Output = Result<Vec<JobId>>> + Send {
        self.call(Frail::reading(19, Some(other)), move |world| Ok(world.ledger.dependents(other)))
    }

    fn waits_over(
        &self,
        after: Option<(JobId, JobId)>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<WaitOver>>> + Send {
        self.call(Frail::reading(20, None), move |world| Ok(world.ledger.waits_over(after, limit)))
    }

    fn ready(&self, now: Timestamp) -> impl Future<Output = Result<Ready>> + Send {
        self.call(Frail::reading(23, None), move |world| Ok(world.ledger.ready(now)))
    }

    /// All of them get lost.
    fn hints(&self) -> Hints {
        Bell::default().hints()
    }
}

impl Catalog for Frail {
    fn row(&self, job: JobId) -> impl Future<Output = Result<Option<Row>>> + Send {
        self.call(Frail::reading(5, None), move |world| Ok(world.ledger.row(job).cloned()))
    }

    fn rows(
        &self,
        filter: Filter,
        before: Option<JobId>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send {
        self.call(Frail::reading(5, None), move |world| Ok(world.ledger.rows(&filter, before, limit)))
    }

    fn list(&self, list: List) -> impl Future<Output = Result<Vec<Listed>>> + Send {
        self.call(Frail::reading(5, None), move |world| Ok(world.ledger.list(&list)))
    }

    fn listed(&self, jobs: Vec<JobId>) -> impl Future<Output = Result<Vec<Listed>>> + Send {
        self.call(Frail::reading(5, None), move |world| Ok(world.ledger.listed(&jobs)))
    }

    fn find(&self, reference: Reference) -> impl Future<Output = Result<Vec<Row>>> + Send {
        self.call(Frail::reading(6, None), move |world| Ok(world.ledger.find(&reference)))
    }

    fn remove(&self, job: JobId, now: Timestamp) -> impl Future<Output = Result<Removal>> + Send {
        self.call(Frail::about(12, Some(job)), move |world| {
            let removal = world.ledger.remove(job, now);
            if removal == Removal::Gone {
                world.removed(job);
            }
            Ok(removal)
        })
    }

    fn counts_by_group(&self) -> impl Future<Output = Result<GroupCounts>> + Send {
        self.call(Frail::reading(15, None), move |world| Ok(world.ledger.counts_by_group()))
    }

    fn mark_seen(&self, job: JobId, now: Timestamp) -> impl Future<Output = Result<()>> + Send {
        self.call(Frail::about(13, Some(job)), move |world| {
            world.ledger.mark_seen(job, now);
            Ok(())
        })
    }

    fn prunable(&self, prune: Prune) -> impl Future<Output = Result<Prunable>> + Send {
        self.call(Frail::reading(14, None), move |world| Ok(world.ledger.prunable(prune)))
    }

    fn counts(&self) -> impl Future<Output = Result<Counts>> + Send {
        self.call(Frail::reading(15, None), move |world| Ok(world.ledger.counts()))
    }
}

impl Groups for Frail {
    fn groups(&self) -> impl Future<Output = Result<Vec<Group>>> + Send {
        self.call(Frail::reading(8, None), move |world| Ok(world.ledger.groups()))
    }

    fn add_group(&self, group: Group) -> impl Future<Output = Result<Group>> + Send {
        self.call(Frail::about(9, None), move |world| Ok(world.ledger.add_group(group)))
    }

    fn set_group(&self, group: Group) -> impl Future<Output = Result<()>> + Send {
        self.call(Frail::about(10, None), move |world| {
            world.say(|_| {
                format!("group {} has {:?} slots, paused {}", group.name, group.slots, group.paused)
            });
            world.ledger.set_group(group);
            Ok(())
        })
    }

    fn spent(&self, day: Day) -> impl Future<Output = Result<Vec<(String, Spent)>>> + Send {
        self.call(Frail::reading(8, None), move |world| Ok(world.ledger.spent(day)))
    }

    fn remove_group(&self, name: &str) -> impl Future<Output = Result<bool>> + Send {
        let name = name.to_owned();
        self.call(Frail::about(11, None), move |world| Ok(world.ledger.remove_group(&name)))
    }
}

impl Keys for Frail {
    fn key(&self, key: Key) -> impl Future<Output = Result<KeyRecord>> + Send {
        self.call(Frail::about(7, None), move |world| Ok(world.ledger.key(key)))
    }
}
