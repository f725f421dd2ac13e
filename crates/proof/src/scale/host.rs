//! A host without processes: a launch succeeds at once, and a tree runs until it is told to stop. What is measured is the fleet, not a kernel.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read as _};
use std::sync::{Arc, Mutex, PoisonError};

use lastword_core::effects::Effect;
use lastword_core::receipt::{Level, Proof, Receipt, Tree};
use lastword_core::report::{Found, Report};
use lastword_core::{AttemptNo, Awake, BootTime, JobId, Now, OwnerId};
use lastword_engine::host::{BoxFuture, Clock, JobFiles, JobWorktrees, Keepers, Order, Reports};
use lastword_engine::{Env, now};
use lastword_store::Attempts;
use tokio::sync::watch;

/// Trees, each with whether it was told to stop.
type Trees = HashMap<(JobId, AttemptNo), watch::Sender<bool>>;

/// A host, with the trees that run on it.
#[derive(Clone, Default)]
pub(super) struct Treeless(Arc<Mutex<Trees>>);

impl Treeless {
    fn tree() -> Tree {
        let (pid, start_ticks) = (4_711, 99);
        Tree { boot: boot(), pid, start_ticks, level: Level::Subreaper, withheld: None }
    }

    /// Returns whether a tree was told to stop, as it changes; `None` if there is no such tree.
    fn stopped(&self, job: JobId, attempt: AttemptNo) -> Option<watch::Receiver<bool>> {
        self.trees(|trees| trees.get(&(job, attempt)).map(watch::Sender::subscribe))
    }

    fn trees<T>(&self, of: impl FnOnce(&mut Trees) -> T) -> T {
        // Ignores poison: nothing here can panic half-way.
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn carry_out(self, order: Order, reports: Reports) -> Result<(), String> {
        let job = order.job.id;
        match order.effect {
            Effect::Launch { attempt } => {
                self.trees(|trees| trees.insert((job, attempt), watch::Sender::new(false)));
                reports
                    .report(Report::Launched { attempt, tree: Treeless::tree(), awake: now().awake })
                    .await;
            }
            Effect::Locate { attempt } => {
                let found = match self.stopped(job, attempt) {
                    Some(_) => Found::Alive { tree: Treeless::tree(), awake: Awake(0) },
                    None => Found::NeverStarted,
                };
                reports.report(Report::Located { attempt, found }).await;
            }
            Effect::Watch { attempt } => {
                reports.is_there();
                if let Some(mut stopped) = self.stopped(job, attempt) {
                    // The sender goes when the tree is taken away.
                    let _ = stopped.wait_for(|stopped| *stopped).await;
                }
                self.trees(|trees| trees.remove(&(job, attempt)));
                let receipt = Box::new(Receipt::bare(Proof::NoChildren));
                reports.report(Report::Emptied { attempt, receipt }).await;
            }
            Effect::Stop { attempt, .. } => {
                self.trees(|trees| trees.get(&(job, attempt)).map(|tree| tree.send_replace(true)));
            }
            Effect::Deadline { .. }
            | Effect::Hold { .. }
            | Effect::Tell { .. }
            | Effect::Interrupt { .. }
            | Effect::Close { .. } => {}
        }
        Ok(())
    }
}

fn boot() -> String {
    "boot-1".to_owned()
}

impl Attempts for Treeless {}

impl Clock for Treeless {
    fn now(&self) -> Now {
        now()
    }

    fn since_boot(&self) -> BootTime {
        BootTime(now().awake.0)
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        std::fs::File::open("/dev/urandom")?.read_exact(bytes)
    }
}

impl Keepers for Treeless {
    fn boot(&self) -> Arc<str> {
        boot().into()
    }

    fn perform(&self, order: Order, reports: Reports) -> BoxFuture<Result<(), String>> {
        Box::pin(self.clone().carry_out(order, reports))
    }

    fn hold_stop(&self, _: Order) -> BoxFuture<Result<bool, String>> {
        Box::pin(std::future::ready(Err("there is no disk here".to_owned())))
    }

    fn gone(&self, _: Option<JobId>) -> Vec<JobId> {
        Vec::new()
    }

    fn written(&self, _: JobId, _: AttemptNo) -> u64 {
        0
    }

    fn holder_of(&self, _: &[(i32, u64)]) -> Option<JobId> {
        None
    }
}

impl JobFiles for Treeless {
    fn keep_env(&self, _: JobId, _: Env) -> BoxFuture<io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn sync_env(&self, _: JobId) -> BoxFuture<io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn drop_env(&self, _: JobId) -> BoxFuture<io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn sweep_envs(&self, _: HashSet<JobId>) -> BoxFuture<io::Result<u32>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn remove(&self, _: JobId, _: Vec<OwnerId>) -> BoxFuture<io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl JobWorktrees for Treeless {}
