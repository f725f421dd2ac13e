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

/// The longest time between two looks of a clerk. A hint is lost only together with a connection to the database or with a server, and the holder
/// of a job hears of news with its next renewal too. But nothing gives a hint when the clock of the database is set right, which makes jobs due.
/// So a clerk looks once in a lease, within which everything else goes on after a fault.
const INTERVAL_MAX: Duration = Duration::from_secs(20);

/// Between a look that followed a hint and one more: a transaction that was open during the first may have held the feed back, and need not
/// give a hint when it is over.
const ONCE_MORE: Duration = Duration::from_millis(30);

/// Pause after the journal was unavailable.
const RETRY: Duration = Duration::from_millis(500);

/// Between a hint and the look: many commits are one look.
const PAUSE: Duration = Duration::from_millis(2);

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
                tokio::time::sleep(RETRY).await;
            }
        }
        let mut next = self.interval();
        loop {
            let (hint, is_hint) = tokio::select! {
                hint = hints.next() => (hint, true),
                () = tokio::time::sleep(next), if duties.is_clerk() => (Some(Hint::Commit), false),
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
                    tokio::time::sleep(PAUSE).await;
                    next = match self.look().await {
                        Ok(next) if is_hint => next.min(ONCE_MORE),
                        Ok(next) => next,
                        Err(error) => {
                            desk.troubles.journal(None, "what other processes wrote cannot be read", &error);
                            self.begin_again(&error).await;
                            RETRY
                        }
                    };
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

    /// Begins again after a place was refused for good: it is of an earlier instance, and what is between is found by a sweep. Callers
    /// that wait look for themselves.
    async fn begin_again(&mut self, error: &Error) {
        if matches!(error, Error::Corrupt(_)) && self.begin().await.is_ok() {
            self.worker.desk.changes.announce_all();
            self.worker.desk.agenda.ask_for_sweep();
            self.worker.desk.agenda.wake();
        }
    }

    /// Reads what is new in the feed and passes it on, and tells workers of jobs that can be claimed. Returns when to look again.
    async fn look(&mut self) -> Result<Duration, Error> {
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
        let Some(workers) = &desk.workers else { return Ok(self.interval()) };
        let ready = desk.journal.ready(desk.now().wall).await?;
        for line in &ready.lines {
            workers.ready(line);
        }
        Ok(ready.next_ms.map_or(self.interval(), |ms| self.interval().min(Duration::from_millis(ms))))
    }

    /// Returns how long a clerk waits for a hint.
    fn interval(&self) -> Duration {
        self.worker.options.lease().min(INTERVAL_MAX)
    }

    async fn pass_on(&self, heard: Heard) -> Result<(), Error> {
        let desk = &self.worker.desk;
        for job in &heard.jobs {
            desk.changes.announce(*job);
        }
        for job in &heard.asked {
            desk.agenda.tasks.nudge(*job);
            if let Some(workers) = &desk.workers {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use lastword_core::decide::submit;
    use lastword_core::limits::Limits;
    use lastword_core::spec::Spec;
    use lastword_core::{
        Append, AppendId, Awake, BootTime, HostId, Job, JobId, Now, OwnerId, Seq, Timestamp,
    };
    use lastword_store::attempts::Attempts;
    use lastword_store::memory::Memory;
    use lastword_store::{Journal, Line, Workers};

    use super::*;
    use crate::agenda::Agenda;
    use crate::desk::Desk;
    use crate::host::{Clock, ServerHost};
    use crate::{Options, lock::lock};

    const LEASE_MS: u64 = 3_000;

    const RIGHT: Timestamp = Timestamp(1_794_700_800_000);
    const AN_HOUR_MS: u64 = 3_600_000;

    /// A clock that a test sets.
    struct Wall(AtomicU64);

    impl Clock for Wall {
        fn now(&self) -> Now {
            Now { wall: Timestamp(self.0.load(Ordering::Relaxed)), awake: Awake(0) }
        }

        fn since_boot(&self) -> BootTime {
            BootTime(0)
        }

        fn random(&self, _: &mut [u8]) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Notes which groups workers are told of.
    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<String>>);

    impl Workers for Told {
        fn news(&self, _: &OwnerId, _: JobId) {}

        fn ready(&self, line: &Line) {
            lock(&self.0).push(line.group.clone());
        }

        fn groups_changed(&self) {}
    }

    /// No worker is connected.
    struct NoOutput;

    impl Attempts for NoOutput {}

    #[tokio::test]
    async fn a_clerk_looks_within_a_lease_at_jobs_that_a_wrong_clock_puts_off() {
        let journal = Memory::shared(1);
        let job = Job::unborn(JobId::new(0, RIGHT, [1; 10]));
        let facts = submit::decide(&job, &Arc::new(Spec::command(["true"], "/")), "ann", Limits::default());
        let (append, _) = Append::new(&job, None, AppendId(1), RIGHT, facts.unwrap()).unwrap();
        assert_eq!(journal.append(append).await, Ok(Seq(1)));

        // The clock by which jobs are due.
        let clock = Arc::new(Wall(AtomicU64::new(RIGHT.0 - AN_HOUR_MS)));
        let told = Arc::new(Told::default());
        let options = Options::new(OwnerId("server".into()), HostId("here".into()));
        let options = options.clerk(Arc::clone(&told) as _, LEASE_MS);
        let (agenda, _ended) = Agenda::new();
        let desk = Desk::new(journal.clone(), Arc::clone(&clock) as _, Arc::new(agenda), &options);
        let host = Arc::new(ServerHost::new("/unused".into(), NoOutput, journal));
        let mut hearing = Hearing::new(Arc::new(Worker::new(Arc::new(desk), host, options)));
        assert_eq!(hearing.look().await, Ok(Duration::from_millis(LEASE_MS)));
        assert!(lock(&told.0).is_empty(), "it is not due");

        // It is set right, which gives no hint.
        clock.0.store(RIGHT.0, Ordering::Relaxed);
        hearing.look().await.unwrap();
        assert_eq!(*lock(&told.0), ["default"]);
    }
}
