//! One life of an owner: registers, keeps its lease, takes jobs and runs a task for each.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use lastword_core::decide::claim::Claimant;
use lastword_core::{Incarnation, JobId};
use lastword_store::{Claim, Claimed, Error, Journal, Renew, Source};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use crate::job_task::{JobTask, Nudge};
use crate::{Options, Trees, clock};

/// Jobs taken at once: more are taken on the next look, which follows at once.
const CLAIM_MAX: u32 = 64;

/// Pause after the journal could not be reached.
const RETRY: Duration = Duration::from_millis(500);

/// Nudges that may wait for one job: they only say "look", so one is as good as many.
const NUDGES_MAX: usize = 1;

/// What tells the life that a job task is over.
type Over = mpsc::UnboundedSender<JobId>;

/// A life, before and while it runs.
pub(crate) struct Life<J, T> {
    journal: J,
    trees: T,
    options: Options,
    wake: Arc<Notify>,
    alive: Weak<()>,
    tasks: HashMap<JobId, mpsc::Sender<Nudge>>,
}

impl<J: Journal, T: Trees> Life<J, T> {
    pub(crate) fn new(
        journal: J,
        trees: T,
        options: Options,
        wake: Arc<Notify>,
        alive: Weak<()>,
    ) -> Life<J, T> {
        Life { journal, trees, options, wake, alive, tasks: HashMap::new() }
    }

    /// Runs until the last handle is gone.
    pub(crate) async fn run(mut self) {
        let (over, mut overs) = mpsc::unbounded_channel();
        let mut incarnation = None;
        let mut renew_at = Instant::now();
        while self.alive.strong_count() > 0 {
            if Instant::now() >= renew_at {
                incarnation = self.renew(incarnation).await;
                let pause = Duration::from_millis(self.options.lease_ms / 3);
                renew_at = Instant::now() + if incarnation.is_some() { pause } else { RETRY };
            }
            let mut more = false;
            if let Some(incarnation) = incarnation {
                more = self.take(incarnation, &over).await;
            }
            let look_at = Instant::now() + Duration::from_millis(if more { 0 } else { self.options.look_ms });
            tokio::select! {
                () = sleep_until(look_at.min(renew_at)) => {}
                () = self.wake.notified() => self.nudge_all(),
                Some(job) = overs.recv() => {
                    self.tasks.remove(&job);
                }
            }
        }
    }

    /// Extends the lease, or registers if there is none; passes on whose jobs have news.
    async fn renew(&self, incarnation: Option<Incarnation>) -> Option<Incarnation> {
        let renew = Renew {
            owner: self.options.owner.clone(),
            incarnation,
            lease_ms: self.options.lease_ms,
            now: clock::now().wall,
        };
        match self.journal.renew(renew).await {
            Ok(renewed) => {
                for job in &renewed.news {
                    self.nudge(*job);
                }
                Some(renewed.incarnation)
            }
            // Registered again at the next look: what it held is taken over by its new life.
            Err(Error::Lapsed { .. }) => None,
            Err(_) => incarnation,
        }
    }

    /// Takes what it can get; reports whether there may be more.
    async fn take(&mut self, incarnation: Incarnation, over: &Over) -> bool {
        let by = Claimant { owner: self.options.owner.clone(), incarnation, host: self.options.host.clone() };
        let mut sources = vec![Source::Expired { margin_ms: 0 }];
        let queues = self.options.queues.iter();
        sources.extend(queues.map(|(queue, slots)| Source::Ready { queue: queue.clone(), slots: *slots }));
        let mut more = false;
        for from in sources {
            let claim = Claim { by: by.clone(), from, at_most: CLAIM_MAX, now: clock::now().wall };
            let Ok(taken) = self.journal.claim(claim).await else { continue };
            more |= taken.len() == CLAIM_MAX as usize;
            for claimed in taken {
                self.start(claimed, over.clone());
            }
        }
        more
    }

    fn start(&mut self, claimed: Claimed, over: Over) {
        let (nudge, nudges) = mpsc::channel(NUDGES_MAX);
        let job = claimed.job;
        self.tasks.insert(job, nudge);
        let host = self.options.host.clone();
        let (journal, trees, wake) = (self.journal.clone(), self.trees.clone(), Arc::clone(&self.wake));
        tokio::spawn(async move {
            if let Some(task) = JobTask::new(claimed, host, journal, trees, nudges) {
                task.run().await;
            }
            let _ = over.send(job);
            // What it let go of may be taken again, or others waited for its slot.
            wake.notify_one();
        });
    }

    fn nudge(&self, job: JobId) {
        if let Some(task) = self.tasks.get(&job) {
            // Full means that it will look anyway.
            let _ = task.try_send(Nudge::News);
        }
    }

    fn nudge_all(&self) {
        self.tasks.keys().for_each(|job| self.nudge(*job));
    }
}
