//! The desk: takes requests and answers reads with a journal alone, wherever a job runs.
//!
//! - `requests.rs`: load, decide, append, and again if another writer was faster. Every request that changes a job is one call of
//!   `Desk::request`.
//! - `reads.rs`: jobs, rows and events as the journal has them. A process with a worker settles first (`local/reads.rs`).
//! - `folded.rs`: long logs are not folded again for each request.
//! - `accounts.rs`: jobs whose provider refused to answer.
//! - `find.rs`: which job a reference means. `conversations.rs`: the jobs of a conversation. `groups.rs`, `group_cache.rs`: slots and pauses. `depend.rs`: jobs that wait for others. `families.rs`: jobs inside others.
//!   `reschedule.rs`: due times after the clock was set back. `seen.rs`: endings that a person has read. `usage.rs`: sums over jobs. `waits.rs`: why a job does not start.

mod accounts;
mod conversations;
mod depend;
mod families;
mod find;
mod folded;
mod group_cache;
mod groups;
mod reads;
mod requests;
mod reschedule;
mod seen;
mod usage;
mod waits;

use std::sync::Arc;

use lastword_core::limits::Limits;
use lastword_core::{BootTime, Job, Now};
use lastword_store::Workers;
use tokio::sync::broadcast;

use crate::agenda::Agenda;
use crate::changes::Changes;
use crate::host::Clock;
use crate::troubles::Troubles;
use crate::{Options, Trouble};

use folded::FoldedLogs;
use group_cache::GroupCache;

pub use folded::Folded;
pub use groups::UNSET_SLOTS;
pub use waits::WaitReason;

/// Requests and reads on one journal.
pub struct Desk<J> {
    pub(crate) journal: J,
    clock: Arc<dyn Clock>,
    /// Limits of jobs that have none of their own.
    pub(crate) default_limits: Limits,
    pub(crate) changes: Changes,
    pub(crate) troubles: Troubles,
    pub(crate) groups: GroupCache,
    folded_logs: FoldedLogs,
    pub(crate) agenda: Arc<Agenda>,
    /// The workers of other processes, for a clerk.
    pub(crate) workers: Option<Arc<dyn Workers>>,
}

impl<J> std::fmt::Debug for Desk<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").finish_non_exhaustive()
    }
}

impl<J> Desk<J> {
    pub(crate) fn new(journal: J, clock: Arc<dyn Clock>, agenda: Arc<Agenda>, options: &Options) -> Desk<J> {
        Desk {
            journal,
            default_limits: options.limits,
            changes: Changes::default(),
            troubles: Troubles::new(Arc::clone(&clock)),
            groups: GroupCache::new(options.default_slots),
            folded_logs: FoldedLogs::default(),
            clock,
            agenda,
            workers: options.workers.clone(),
        }
    }

    /// Returns the present, by the clocks of the host.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Returns the time since this boot of the host, including suspends.
    pub(crate) fn since_boot(&self) -> BootTime {
        self.clock.since_boot()
    }

    /// Returns the journal, for direct reads.
    pub fn journal(&self) -> &J {
        &self.journal
    }

    /// Returns what a person should know of, oldest first.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.troubles.list()
    }

    /// Adds something that a person should know of, with what to do next.
    pub fn report(&self, what: String, next: &str) {
        self.troubles.add(None, what, next);
    }

    /// Returns the feed of jobs that have new events. A hint: a listener that lags behind reads everything again.
    pub fn changes(&self) -> broadcast::Receiver<lastword_core::JobId> {
        self.changes.subscribe()
    }

    /// Announces a write, and notes what follows from it.
    pub(crate) fn wrote(&self, job: &Job) {
        self.changes.announce(job.id);
        // Without a look at the feed: the caller of a cancel waits.
        if let (Some(workers), Some(holder)) = (&self.workers, &job.holder) {
            workers.news(&holder.fence.owner, job.id);
        }
        if job.is_ended() {
            self.troubles.forget(job.id);
        }
        self.agenda.wrote(job, self.now().wall);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use lastword_core::job::Holder;
    use lastword_core::{Awake, Epoch, Fence, HostId, Incarnation, JobId, OwnerId, Timestamp};
    use lastword_store::Line;
    use lastword_store::memory::Memory;

    use super::*;

    /// A clock that stands still.
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Now {
            Now { wall: Timestamp(1), awake: Awake(1) }
        }

        fn since_boot(&self) -> BootTime {
            BootTime(1)
        }

        fn random(&self, _: &mut [u8]) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Notes what it is told.
    #[derive(Debug, Default)]
    struct Noted(Mutex<Vec<(OwnerId, JobId)>>);

    impl Workers for Noted {
        fn news(&self, holder: &OwnerId, job: JobId) {
            self.0.lock().unwrap().push((holder.clone(), job));
        }

        fn ready(&self, _: &Line) {}

        fn groups_changed(&self) {}
    }

    #[test]
    fn a_clerk_that_wrote_to_a_job_tells_its_holder_at_once() {
        let workers = Arc::new(Noted::default());
        let options = Options::new(OwnerId("server".into()), HostId("here".into()));
        let options = options.clerk(Arc::clone(&workers) as _, 1_000);
        let (agenda, _ended) = Agenda::new();
        let desk = Desk::new(Memory::new(1), Arc::new(Still), Arc::new(agenda), &options);
        let mut job = Job::unborn(JobId::new(0, Timestamp(1), [1; 10]));
        desk.wrote(&job);
        assert!(workers.0.lock().unwrap().is_empty(), "it has no holder");
        let owner = OwnerId("ann".into());
        let incarnation = Incarnation { instance: 1, number: 1 };
        let fence = Fence { owner: owner.clone(), incarnation, epoch: Epoch(1) };
        job.holder = Some(Holder { fence, host: HostId("there".into()) });
        desk.wrote(&job);
        assert_eq!(*workers.0.lock().unwrap(), [(owner, job.id)]);
    }
}
