//! Hears what other processes write to a journal that hosts share, in a task of its own.
//!
//! A worker is told what to look at by its server. A clerk reads the feed: callers that wait for a job hear of it, dependents are told, and the
//! workers of other processes are told of requests to their jobs and of jobs that can be claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lastword_core::outcome::Outcome;
use lastword_core::{Event, Fact, JobId};
use lastword_store::hints::Hint;
use lastword_store::{Cursor, Error, Store};

use super::Worker;

/// How often a clerk looks without a hint.
const INTERVAL: Duration = Duration::from_secs(1);

/// Between two looks: many commits are one look.
const PAUSE: Duration = Duration::from_millis(10);

/// Events read at once.
const PAGE: u32 = 500;

/// Hears, until the journal is closed.
pub(super) struct Hearing<J> {
    worker: Arc<Worker<J>>,
    /// How far the feed was read.
    place: Option<Cursor>,
}

/// What a part of the feed is about.
#[derive(Debug, Default)]
struct Heard {
    jobs: BTreeSet<JobId>,
    /// Jobs that others than their holders wrote to.
    asked: BTreeSet<JobId>,
    ended: BTreeMap<JobId, Outcome>,
    /// Groups that a job was submitted to.
    groups: BTreeSet<String>,
}

impl Heard {
    fn add(&mut self, job: JobId, event: &Event) {
        self.jobs.insert(job);
        match &event.fact {
            Fact::LastWord(last_word) => _ = self.ended.insert(job, last_word.outcome),
            Fact::Submitted(submitted) => _ = self.groups.insert(submitted.spec.group.clone()),
            Fact::Claimed(_) => {}
            fact if fact.is_owners() => {}
            _ => _ = self.asked.insert(job),
        }
    }
}

impl<J: Store> Hearing<J> {
    pub(super) fn new(worker: Arc<Worker<J>>) -> Hearing<J> {
        Hearing { worker, place: None }
    }

    /// Runs until the engine is dropped, if other processes can write to the journal.
    pub(super) async fn run(mut self) {
        let (desk, duties) = (Arc::clone(&self.worker.desk), self.worker.options.duties);
        if !desk.journal.is_shared() {
            return;
        }
        let mut hints = desk.journal.hints();
        if duties.is_clerk() {
            while let Err(error) = self.begin().await {
                desk.troubles.journal(None, "the feed cannot be read", &error);
                tokio::time::sleep(INTERVAL).await;
            }
        }
        loop {
            let hint = tokio::select! {
                hint = hints.next() => hint,
                () = tokio::time::sleep(INTERVAL), if duties.is_clerk() => Some(Hint::Commit),
            };
            match hint {
                None => return,
                Some(Hint::News(job)) => {
                    desk.agenda.tasks.nudge(job);
                    desk.changes.announce(job);
                }
                Some(Hint::Ready(group)) => {
                    desk.agenda.claim(&group);
                    desk.agenda.wake();
                }
                Some(Hint::Commit) if duties.is_clerk() => {
                    if let Err(error) = self.look().await {
                        desk.troubles.journal(None, "what other processes wrote cannot be read", &error);
                        tokio::time::sleep(INTERVAL).await;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                // Hints were lost.
                Some(Hint::Commit) => {
                    desk.agenda.ask_for_sweep();
                    desk.agenda.wake();
                }
            }
        }
    }

    /// Begins at the end of the feed. What was not told before is found by a sweep.
    async fn begin(&mut self) -> Result<(), Error> {
        self.place = self.worker.desk.journal.feed_end().await?;
        Ok(())
    }

    /// Reads what is new in the feed and passes it on, and tells workers of jobs that can be claimed.
    async fn look(&mut self) -> Result<(), Error> {
        let desk = Arc::clone(&self.worker.desk);
        loop {
            let feed = desk.journal.read(self.place.clone(), PAGE).await?;
            let mut heard = Heard::default();
            for (job, event) in &feed.events {
                heard.add(*job, event);
            }
            self.pass_on(heard).await?;
            self.place = feed.next;
            if feed.events.len() < PAGE as usize {
                break;
            }
        }
        if let Some(workers) = &self.worker.options.workers {
            for line in desk.journal.ready(desk.now().wall).await? {
                workers.ready(&line);
            }
        }
        Ok(())
    }

    async fn pass_on(&self, heard: Heard) -> Result<(), Error> {
        let desk = &self.worker.desk;
        for job in &heard.jobs {
            desk.changes.announce(*job);
        }
        for job in &heard.asked {
            desk.agenda.tasks.nudge(*job);
            if let Some(workers) = &self.worker.options.workers {
                let holder = desk.row(*job).await?.and_then(|row| row.holder);
                holder.inspect(|fence| workers.news(&fence.owner, *job));
            }
        }
        for (job, outcome) in heard.ended {
            desk.tell_dependents(job, outcome).await;
        }
        for group in &heard.groups {
            desk.agenda.claim(group);
            desk.agenda.wake();
        }
        Ok(())
    }
}
