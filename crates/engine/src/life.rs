//! One life of an owner: registers, finds out what its former life left, keeps its lease, and takes jobs when they are due.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::{JobId, Timestamp};
use lastword_store::Error;
use lastword_store::siblings::Siblings;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::shared::{Shared, lock};

/// Pause after the journal could not be reached.
const RETRY: Duration = Duration::from_millis(500);

/// A life, while it runs.
pub(crate) struct Life<J> {
    shared: Arc<Shared<J>>,
    renew_at: Instant,
    sweep_at: Instant,
}

impl<J: Siblings> Life<J> {
    pub(crate) fn new(shared: Arc<Shared<J>>) -> Life<J> {
        let now = Instant::now();
        Life { shared, renew_at: now, sweep_at: now }
    }

    /// Runs until its engine is gone, or goes down.
    pub(crate) async fn run(mut self) {
        while let Err(error) = self.begin().await {
            self.shared.journal_trouble(None, "what ran before cannot be looked for", &error);
            tokio::time::sleep(RETRY).await;
        }
        self.shared.ready.send_replace(true);
        // What is due from when it goes down is for its next life.
        while !*self.shared.going_down.borrow() {
            if let Err(error) = self.turn().await {
                self.shared.journal_trouble(None, "no job can be taken", &error);
                // Whatever is due, a journal that does not answer is not asked without a pause.
                tokio::time::sleep(RETRY).await;
                self.sweep_at = Instant::now();
                continue;
            }
            let due = self.shared.due.next().map(|at| self.moment(at));
            let doubts = self.shared.doubts.look_at();
            let next = [Some(self.renew_at), Some(self.sweep_at), due, doubts].into_iter().flatten().min();
            tokio::select! {
                biased;
                () = self.shared.wake.notified() => {}
                () = sleep_until(next.unwrap_or(self.sweep_at)) => {}
            }
        }
    }

    /// Registers, and finds out what became of everything that the former life held.
    async fn begin(&mut self) -> Result<(), Error> {
        self.register().await?;
        self.shared.read_groups().await?;
        let (pass, mut passed) = mpsc::channel(1);
        let taken = self.shared.take_over(&pass).await;
        drop(pass);
        // Closed when the last of them is found, or is said not to be.
        while passed.recv().await.is_some() {}
        match taken {
            Err(error @ Error::Corrupt(_)) => self.not_taken(&error),
            other => other?,
        }
        let live = self.look_through().await?;
        self.shared.sweep_worktrees(live.clone());
        self.sweep_envs(live);
        Ok(())
    }

    /// Has the environments removed that no live job needs. What cannot be removed now is tried again by a later sweep.
    fn sweep_envs(&self, live: HashSet<JobId>) {
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            if let Err(error) = shared.trees.sweep(live).await {
                shared.envs_left.store(true, Ordering::Relaxed);
                let what = format!("environments that nobody needs cannot be removed: {error}");
                shared.trouble(None, what, "look for the rights of the folder `jobs` in the state folder");
            }
        });
    }

    /// Keeps the lease, and takes what may be taken now.
    async fn turn(&mut self) -> Result<(), Error> {
        if Instant::now() >= self.renew_at {
            self.renew().await?;
        }
        if self.shared.unsure.swap(false, Ordering::Relaxed) {
            self.sweep_at = Instant::now();
        }
        let mut queues: BTreeSet<String> = self.shared.wanted();
        queues.extend(self.shared.due.take(self.shared.now().wall));
        if Instant::now() >= self.sweep_at {
            self.sweep().await?;
            queues.extend(self.shared.groups.names());
        }
        for queue in queues {
            match self.shared.take(&queue).await {
                // Damage is where it is; other queues go on.
                Err(error @ Error::Corrupt(_)) => self.not_taken(&error),
                Err(error) => {
                    self.shared.want(&queue);
                    return Err(error);
                }
                Ok(()) => {}
            }
        }
        self.shared.settle_doubts().await
    }

    fn not_taken(&self, error: &Error) {
        self.shared.journal_trouble(None, "some jobs cannot be taken", error);
    }

    async fn register(&mut self) -> Result<(), Error> {
        let life = self.shared.renew(None).await?;
        *lock(&self.shared.claimant) = Some(life);
        self.renew_at = Instant::now() + self.shared.options.lease() / 3;
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), Error> {
        let life: Option<Claimant> = lock(&self.shared.claimant).clone();
        self.renew_at = Instant::now() + RETRY;
        match self.shared.renew(life.as_ref()).await {
            Ok(_) => self.renew_at = Instant::now() + self.shared.options.lease() / 3,
            // Somebody registered under our name, or the database is another one: what we hold is taken over by our new life.
            Err(Error::Lapsed { .. }) => {
                let next = "only one supervisor may use a state folder: look for another one that runs";
                self.shared.trouble(
                    None,
                    "another supervisor took the place of this one, and is replaced",
                    next,
                );
                self.register().await?;
                let (pass, _) = mpsc::channel(1);
                self.shared.take_over(&pass).await?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Repairs what hints that got lost, and crashes, leave: jobs of ours without a task, holders that are gone, waiting jobs that
    /// nobody told, moments that nobody waits for.
    async fn sweep(&mut self) -> Result<(), Error> {
        self.sweep_at = Instant::now() + self.shared.options.look();
        self.shared.read_groups().await?;
        self.shared.start_held().await?;
        let (pass, _) = mpsc::channel(1);
        match self.shared.take_over(&pass).await {
            Err(error @ Error::Corrupt(_)) => self.not_taken(&error),
            other => other?,
        }
        for other in self.shared.dependents.awaited() {
            self.shared.look_at_awaited(other).await;
        }
        self.shared.leave_again();
        if self.shared.envs_left.load(Ordering::Relaxed) {
            let live = self.shared.live_rows().await?;
            self.shared.envs_left.store(false, Ordering::Relaxed);
            self.sweep_envs(live.into_iter().map(|row| row.job).collect());
        }
        Ok(())
    }

    /// Looks through the rows of live jobs: when they are due, and whom they wait for. Returns their ids.
    async fn look_through(&self) -> Result<HashSet<JobId>, Error> {
        let mut live = HashSet::new();
        for row in self.shared.live_rows().await? {
            live.insert(row.job);
            self.shared.have_group(&row.group).await?;
            if let Some(due) = row.due {
                self.shared.due.add(due, &row.group);
            } else if row.holder.is_none() {
                self.look_at_waiting(row.job).await?;
            }
        }
        Ok(live)
    }

    async fn look_at_waiting(&self, id: JobId) -> Result<(), Error> {
        match self.shared.load(id).await {
            Ok(job) => self.shared.dependents.add(&job),
            Err(crate::Error::Journal(error @ Error::Unavailable(_))) => return Err(error),
            Err(error) => {
                let next = "nothing of it is touched any more: restore the journal from a copy";
                self.shared.trouble(Some(id), format!("its log cannot be read: {error}"), next);
            }
        }
        Ok(())
    }

    /// Returns when a moment of the wall clock comes, as far as can be said now. The sweep looks again if the clock jumps.
    fn moment(&self, at: Timestamp) -> Instant {
        Instant::now() + Duration::from_millis(at.0.saturating_sub(self.shared.now().wall.0))
    }
}
