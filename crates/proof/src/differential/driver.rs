//! Carries operations out on one journal, and remembers what only this journal can have given.

use std::collections::BTreeMap;
use std::time::Duration;

use lastword_core::budget::Day;
use lastword_core::decide::claim::Claimant;
use lastword_core::life::Place;
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{
    Append, AppendId, Event, Fact, Fence, HostId, Incarnation, Job, JobId, OwnerId, Phase, Seq, Timestamp,
};
use lastword_store::{Claim, Error, Filter, Group, KEY_MS, Key, List, Removal, Renew, Result, Source, Store};

use super::answer::{Answer, Lives};
use super::operation::{OWNERS, Operation, Submission};
use crate::jobs::{self, NOW};

/// The boot of every host.
const BOOT: &str = "boot";

/// More rows, events or orphans than a run can make.
const ALL: u32 = 1_000_000;

/// How long the feed may lag behind what is stored; see the feed's conformance cases.
const LAG_MAX: Duration = Duration::from_secs(60);

/// One journal and what it has given so far.
pub(super) struct Driver<J> {
    journal: J,
    now: Timestamp,
    /// Keys expire by a clock of their own: no job waits for a week.
    keys_now: Timestamp,
    appends: u64,
    /// The lives of each owner, newest last.
    owners: Vec<Vec<Incarnation>>,
    lives: Lives,
    jobs: Vec<JobId>,
    sent: Vec<Append>,
    fences: Vec<(JobId, Fence)>,
}

impl<J: Store> Driver<J> {
    pub(super) fn new(journal: J) -> Driver<J> {
        let owners = vec![Vec::new(); OWNERS as usize];
        let lives = Lives::default();
        let (jobs, sent, fences) = (vec![], vec![], vec![]);
        Driver { journal, now: NOW, keys_now: NOW, appends: 0, owners, lives, jobs, sent, fences }
    }

    /// Carries an operation out, one millisecond after the one before.
    pub(super) async fn carry_out(&mut self, operation: &Operation) -> Answer {
        self.now = self.now.plus_ms(1);
        match operation {
            Operation::Submit(submission) => self.submit(submission).await,
            Operation::Request { job, choice } => self.request(*job, 0, *choice).await,
            Operation::Stale { job, unseen, choice } => self.request(*job, *unseen, *choice).await,
            Operation::Claim { owner, life, queue, at_most, slots } => {
                let from = Source::Ready { group: queue_name(*queue), slots: *slots };
                self.claim(*owner, *life, from, *at_most).await
            }
            Operation::TakeOver { owner } => self.claim(*owner, 0, Source::Expired, ALL).await,
            Operation::Register { owner } => self.renew(*owner, None).await,
            Operation::Renew { owner, life } => match self.life(*owner, *life) {
                Some(incarnation) => self.renew(*owner, Some(incarnation)).await,
                None => Answer::Nothing,
            },
            Operation::EndLife { owner, life, unseen } => match self.life(*owner, *life) {
                Some(incarnation) => self.end_life(incarnation, *unseen).await,
                None => Answer::Nothing,
            },
            Operation::Work { job, choice } => self.work(*job, *choice).await,
            Operation::Unwind { fence, choice } => self.unwind(*fence, *choice).await,
            Operation::Repeat { append } => match pick(&self.sent, *append).cloned() {
                Some(append) => Answer::Appended(self.journal.append(append).await),
                None => Answer::Nothing,
            },
            Operation::Load { job, after } => self.load(*job, *after).await,
            Operation::List { phase, queue, before, limit } => {
                let filter = Filter {
                    phases: phase
                        .and_then(|place| pick(&PhaseName::ALL, place).copied())
                        .into_iter()
                        .collect(),
                    group: queue.map(queue_name),
                    ..Filter::default()
                };
                let before = before.and_then(|job| pick(&self.jobs, job).copied());
                self.list(filter, before, *limit).await
            }
            Operation::SetGroup { queue, slots, paused, budget } => {
                let group =
                    Group { paused: *paused, budget: *budget, ..Group::new(&queue_name(*queue), *slots) };
                Answer::Set(self.journal.set_group(group).await)
            }
            Operation::Held { owner, after, limit } => match self.life(*owner, 0) {
                Some(incarnation) => {
                    let after = after.and_then(|job| pick(&self.jobs, job).copied());
                    Answer::Held(self.journal.held(incarnation, after, *limit).await)
                }
                None => Answer::Nothing,
            },
            Operation::Key { key, job, late } => self.key(*key, *job, *late).await,
            Operation::Remove { job } => match pick(&self.jobs, *job) {
                Some(job) => self.remove(*job).await,
                None => Answer::Nothing,
            },
            Operation::Everything => self.everything().await,
        }
    }

    /// Sends an append and remembers it, whatever the answer: a refused one may be repeated too.
    async fn send(&mut self, job: &Job, fence: Option<&Fence>, facts: Vec<Fact>) -> Answer {
        self.appends += 1;
        let id = AppendId((1 << 127) | u128::from(self.appends));
        // What the fold refuses no writer sends.
        let Ok((append, _)) = Append::new(job, fence, id, self.now, facts) else { return Answer::Nothing };
        self.sent.push(append.clone());
        Answer::Appended(self.journal.append(append).await)
    }

    async fn submit(&mut self, submission: &Submission) -> Answer {
        let Submission { job, queue, priority, due_in_ms, resume, keep, labels: needed } = submission;
        let id = jobs::id(*job);
        if !self.jobs.contains(&id) {
            self.jobs.push(id);
        }
        let spec = Spec {
            priority: *priority,
            not_before: due_in_ms.map(|ms| self.now.plus_ms(ms)),
            resume: resume.map(|talk| jobs::conversation(&format!("thread-{talk}"))),
            on: labels(*needed),
            on_partition: if *keep { OnPartition::Keep } else { OnPartition::Stop },
            ..jobs::agent(&queue_name(*queue))
        };
        self.send(&Job::unborn(id), None, vec![jobs::submitted(spec)]).await
    }

    async fn request(&mut self, job: u64, unseen: u64, choice: u64) -> Answer {
        let Some(id) = pick(&self.jobs, job).copied() else { return Answer::Nothing };
        match self.folded(id, unseen).await {
            Ok(job) => self.send(&job, None, requests(&job, choice)).await,
            Err(error) => Answer::Loaded(Err(error)),
        }
    }

    async fn work(&mut self, job: u64, choice: u64) -> Answer {
        let rows = match self.rows(Filter::default(), None, ALL).await {
            Ok(rows) => rows,
            Err(error) => return Answer::Rows(Err(error)),
        };
        let held: Vec<Row> = rows.into_iter().filter(|row| row.holder.is_some()).collect();
        let Some(row) = pick(&held, job) else { return Answer::Nothing };
        match self.folded(row.job, 0).await {
            Ok(job) => self.send(&job, row.holder.as_ref(), self.observations(&job, choice)).await,
            Err(error) => Answer::Loaded(Err(error)),
        }
    }

    async fn unwind(&mut self, fence: u64, choice: u64) -> Answer {
        let Some((id, fence)) = pick(&self.fences, fence).cloned() else { return Answer::Nothing };
        match self.folded(id, 0).await {
            Ok(job) => self.send(&job, Some(&fence), self.observations(&job, choice)).await,
            Err(error) => Answer::Loaded(Err(error)),
        }
    }

    /// Returns what an owner may write of a job now.
    fn observations(&self, job: &Job, choice: u64) -> Vec<Fact> {
        let attempt = jobs::newest_attempt(job);
        let failed = jobs::attempt_ended(attempt, Outcome::Failed, Cause::Agent);
        let retry = vec![failed, jobs::retry_scheduled(attempt.next(), self.now.plus_ms(choice % 20))];
        // One fact in sixteen is of a newer build.
        if choice % 16 == 15 {
            return vec![jobs::unknown()];
        }
        match (&job.phase, choice % 4) {
            (Phase::Queued { .. } | Phase::Backoff { .. }, 0) => vec![jobs::released(job)],
            (Phase::Queued { .. } | Phase::Backoff { .. }, _) => vec![jobs::launch_intended(job)],
            (Phase::Launching, 0) => retry,
            (Phase::Launching, 1) => {
                vec![jobs::launched(attempt), jobs::session_started(attempt, &format!("named-{}", job.id))]
            }
            (Phase::Launching, _) => vec![jobs::launched(attempt)],
            (Phase::Running, 0) => retry,
            (Phase::Running, 1) => vec![jobs::spent(choice), jobs::spent(1)],
            (Phase::Running | Phase::Stopping { .. }, _) => jobs::completed(job),
            (Phase::Unborn | Phase::Awaiting(_) | Phase::Ended(_), _) => vec![jobs::late_reported(job)],
        }
    }

    async fn claim(&mut self, owner: u64, life: u64, from: Source, at_most: u32) -> Answer {
        // An owner that never registered uses a life that was never given.
        let incarnation = self.life(owner, life).unwrap_or(Incarnation { instance: 0, number: 0 });
        // Two of the owners share a host.
        // Some intend with their claim, some after it.
        let boot = owner.is_multiple_of(2).then(|| BOOT.into());
        let by = Claimant { owner: owner_name(owner), incarnation, host: host_name(owner), boot };
        let ordered = matches!(from, Source::Ready { .. });
        let mut answer = self
            .journal
            // The third owner has all labels.
            .claim(Claim { by, from, labels: labels(owner + 1), at_most, now: self.now })
            .await;
        for claimed in answer.iter_mut().flatten() {
            self.fences.push((claimed.job, claimed.fence.clone()));
            self.lives.plain(&mut claimed.fence.incarnation);
            self.lives.plain_events(&mut claimed.events);
        }
        if let (false, Ok(taken)) = (ordered, &mut answer) {
            taken.sort_by_key(|claimed| claimed.job);
            // The fences just noted are chosen from by place later on.
            let start = self.fences.len() - taken.len();
            self.fences[start..].sort_by_key(|(job, _)| *job);
        }
        Answer::Taken(answer)
    }

    async fn renew(&mut self, owner: u64, incarnation: Option<Incarnation>) -> Answer {
        let place = Place { host: host_name(owner), boot: BOOT.into() };
        let renew = Renew { owner: owner_name(owner), place, incarnation, lease_ms: 15_000 };
        let mut answer = self.journal.renew(renew).await;
        if let Ok(renewed) = &mut answer {
            if incarnation.is_none() {
                self.lives.begin(renewed.incarnation);
                self.owners[owner as usize].push(renewed.incarnation);
            }
            self.lives.plain(&mut renewed.incarnation);
            renewed.news.sort();
        }
        Answer::Renewed(answer)
    }

    async fn end_life(&mut self, life: Incarnation, unseen: u64) -> Answer {
        let lives = match self.journal.lives().await {
            Ok(lives) => lives,
            Err(error) => return Answer::LifeEnded(Err(error)),
        };
        let beat = lives.iter().find(|stored| stored.incarnation == life).map_or(0, |stored| stored.beat);
        Answer::LifeEnded(self.journal.end_life(life, beat.wrapping_sub(unseen)).await)
    }

    async fn load(&mut self, job: u64, after: u64) -> Answer {
        let Some(id) = pick(&self.jobs, job).copied() else { return Answer::Nothing };
        let mut answer = self.journal.load(id, Seq(after)).await;
        answer.iter_mut().for_each(|events| self.lives.plain_events(events));
        Answer::Loaded(answer)
    }

    async fn remove(&mut self, job: JobId) -> Answer {
        let answer = self.journal.remove(job, self.keys_now).await;
        // Outside of this run no id is used again, so what was written to the job before is not repeated to the next one of that id.
        if answer == Ok(Removal::Gone) {
            self.sent.retain(|append| append.job != job);
            self.fences.retain(|(fenced, _)| *fenced != job);
        }
        Answer::Removed(answer)
    }

    async fn key(&mut self, key: u64, job: u64, late: bool) -> Answer {
        self.keys_now = self.keys_now.plus_ms(if late { KEY_MS + 1 } else { 1 });
        let (key, job) = (format!("key-{key}"), jobs::id(job));
        Answer::Keyed(self.journal.key(Key { key, fingerprint: 7, job, now: self.keys_now }).await)
    }

    async fn list(&mut self, filter: Filter, before: Option<JobId>, limit: u32) -> Answer {
        let mut answer = self.rows(filter.clone(), before, limit).await;
        if let Ok(rows) = &mut answer {
            // The same rows as people read them.
            let list = List { filter, limit, ..List::default() };
            match self.journal.list(list).await {
                Ok(listed) => rows.extend(listed.into_iter().map(|listed| listed.row)),
                Err(error) => answer = Err(error),
            }
        }
        answer.iter_mut().for_each(|rows| self.lives.plain_rows(rows));
        Answer::Rows(answer)
    }

    async fn everything(&mut self) -> Answer {
        let mut rows = match self.rows(Filter::default(), None, ALL).await {
            Ok(rows) => rows,
            Err(error) => return Answer::Rows(Err(error)),
        };
        let mut logs = BTreeMap::new();
        for row in &rows {
            match self.journal.load(row.job, Seq(0)).await {
                Ok(events) => drop(logs.insert(row.job, events)),
                Err(error) => return Answer::Loaded(Err(error)),
            }
        }
        let mut told = match self.feed(logs.values().map(Vec::len).sum()).await {
            Ok(told) => told,
            Err(error) => return Answer::Loaded(Err(error)),
        };
        self.lives.plain_rows(&mut rows);
        logs.values_mut().chain(told.values_mut()).for_each(|events| self.lives.plain_events(events));
        match self.journal.spent(Day::of(self.now)).await {
            Ok(spent) => Answer::Everything(rows, logs, told, spent),
            failed => Answer::Spent(failed),
        }
    }

    /// Reads the feed until it has told `count` events, sorted into logs.
    async fn feed(&self, count: usize) -> Result<BTreeMap<JobId, Vec<Event>>> {
        let (mut logs, mut told, mut after) = (BTreeMap::<_, Vec<Event>>::new(), 0, None);
        let following = async {
            while told < count {
                let page = self.journal.read(after.take(), 100).await?;
                told += page.events.len();
                page.events.into_iter().for_each(|(job, event)| logs.entry(job).or_default().push(event));
                after = page.next;
                tokio::task::yield_now().await;
            }
            Ok(())
        };
        match tokio::time::timeout(LAG_MAX, following).await {
            Ok(read) => read.map(|()| logs),
            Err(_) => Err(Error::Corrupt(format!("the feed told {told} of {count} events"))),
        }
    }

    async fn rows(&self, filter: Filter, before: Option<JobId>, limit: u32) -> Result<Vec<Row>> {
        self.journal.rows(filter, before, limit).await
    }

    /// Returns a job as it was `unseen` events ago.
    async fn folded(&self, id: JobId, unseen: u64) -> Result<Job> {
        let events = self.journal.load(id, Seq(0)).await?;
        let seen = events.len().saturating_sub(unseen as usize);
        Job::fold(id, &events[..seen]).map_err(|error| Error::Corrupt(error.to_string()))
    }

    fn life(&self, owner: u64, back: u64) -> Option<Incarnation> {
        self.owners[owner as usize].iter().rev().nth(back as usize).copied()
    }
}

/// Returns the facts that any client may write to a job now.
fn requests(job: &Job, choice: u64) -> Vec<Fact> {
    match (&job.phase, choice % 4) {
        (Phase::Ended(_), _) => vec![jobs::late_reported(job)],
        (_, 0) => vec![jobs::limit_changed(choice)],
        (Phase::Unborn, _) => vec![jobs::submitted(jobs::spec("q-0"))],
        (Phase::Queued { .. } | Phase::Backoff { .. }, 1) => vec![jobs::cancelled_before_start()],
        (Phase::Queued { .. } | Phase::Backoff { .. }, _) => {
            vec![jobs::limit_changed(choice), jobs::limit_changed(1)]
        }
        (_, 1) => vec![jobs::abandoned()],
        (_, _) => vec![jobs::cancel_requested()],
    }
}

fn queue_name(queue: u64) -> String {
    format!("q-{queue}")
}

/// Returns the host of an owner. Each has one: where a name may be used twice is for the conformance suite.
fn host_name(owner: u64) -> HostId {
    HostId(format!("host-{}", owner / 2).into())
}

fn owner_name(owner: u64) -> OwnerId {
    OwnerId(format!("owner-{owner}").into())
}

/// Returns the item at a place, counted round; `None` if there are none.
fn pick<T>(items: &[T], place: u64) -> Option<&T> {
    items.get(place.checked_rem(items.len() as u64)? as usize)
}

/// Returns labels, one for each bit.
fn labels(bits: u64) -> WorkerLabels {
    let of = |(bit, label): (u32, &str)| (bits & (1 << bit) != 0).then(|| label.to_owned());
    (0..).zip(["big", "gpu"]).filter_map(of).collect()
}
