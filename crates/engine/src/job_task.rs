//! One job, from its claim until it is let go: feeds the owner's step and does what comes out of it.

use std::time::Duration;

use lastword_core::effects::Effect;
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::report::Report;
use lastword_core::{Append, HostId, Job, JobId, Seq};
use lastword_store::{Claimed, Error, Journal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::{Trees, clock};

/// Inputs that may wait: answers of the journal and reports of effects that were asked for, so few.
const INPUTS_MAX: usize = 64;

/// Pause after which what could not be done or stored is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// A job with nothing due is looked at this often all the same.
const IDLE: Duration = Duration::from_secs(30);

/// What others tell a job task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Nudge {
    /// Somebody may have written to the job.
    News,
}

/// The task.
pub(crate) struct JobTask<J, T> {
    owner: Owner,
    journal: J,
    trees: T,
    nudges: mpsc::Receiver<Nudge>,
    inputs: mpsc::Receiver<Input>,
    input: mpsc::Sender<Input>,
    retry_at: Option<Instant>,
}

impl<J: Journal, T: Trees> JobTask<J, T> {
    /// Returns the task of a job that was just claimed; none if its log cannot be read, which nobody touches then.
    pub(crate) fn new(
        claimed: Claimed,
        host: HostId,
        journal: J,
        trees: T,
        nudges: mpsc::Receiver<Nudge>,
    ) -> Option<JobTask<J, T>> {
        let job = Job::fold(claimed.job, &claimed.events).ok()?;
        let owner = Owner::new(job, claimed.fence, host, lastword_proc::boot_id().into(), clock::now());
        let (input, inputs) = mpsc::channel(INPUTS_MAX);
        Some(JobTask { owner, journal, trees, nudges, inputs, input, retry_at: None })
    }

    pub(crate) async fn run(mut self) {
        let mut next = Input::Tick;
        loop {
            if matches!(next, Input::Unavailable | Input::Report(Report::Unclear(_))) {
                self.retry_at = Some(Instant::now() + RETRY);
            }
            for output in self.owner.step(next, clock::now()) {
                match output {
                    Output::Append(append) => self.append(*append),
                    Output::Load { after } => self.load(after),
                    Output::Do(effect) => self.perform(effect),
                    // What came too late, and what is broken, reaches nobody yet: docs/design/2026-11-15-the-engine.md.
                    Output::LetGo { .. } | Output::Broken(_) => return,
                }
            }
            next = self.next_input().await;
        }
    }

    async fn next_input(&mut self) -> Input {
        let awake = clock::now().awake;
        let look = self.owner.next_look().map(|at| Duration::from_millis(at.0.saturating_sub(awake.0)));
        let look_at = Instant::now() + look.unwrap_or(IDLE).min(IDLE);
        let tick_at = self.retry_at.map_or(look_at, |at| at.min(look_at));
        tokio::select! {
            // Whoever drops the sender has no more nudges; the job goes on.
            Some(Nudge::News) = self.nudges.recv() => Input::News,
            Some(input) = self.inputs.recv() => input,
            () = sleep_until(tick_at) => {
                self.retry_at = self.retry_at.filter(|at| *at > Instant::now());
                Input::Tick
            }
        }
    }

    fn append(&self, append: Append) {
        let (journal, input) = (self.journal.clone(), self.input.clone());
        tokio::spawn(async move {
            let answer = match journal.append(append).await {
                Ok(_) => Input::Stored,
                Err(Error::Conflict { .. }) => Input::Conflict,
                Err(Error::Fenced { .. }) => Input::Fenced,
                Err(Error::Lapsed { .. } | Error::Unavailable(_) | Error::Corrupt(_)) => Input::Unavailable,
            };
            let _ = input.send(answer).await;
        });
    }

    fn load(&self, after: Seq) {
        let (journal, input, job) = (self.journal.clone(), self.input.clone(), self.id());
        tokio::spawn(async move {
            let answer = journal.load(job, after).await.map_or(Input::Unavailable, Input::Loaded);
            let _ = input.send(answer).await;
        });
    }

    fn perform(&self, effect: Effect) {
        let (trees, input) = (self.trees.clone(), self.input.clone());
        let (job, epoch) = (self.owner.job().clone(), self.owner.fence().epoch);
        tokio::spawn(async move {
            let (report, mut reports) = mpsc::channel(INPUTS_MAX);
            let done = trees.perform(job, epoch, effect, report);
            let pass_on = async {
                while let Some(report) = reports.recv().await {
                    let _ = input.send(Input::Report(report)).await;
                }
            };
            tokio::join!(done, pass_on);
        });
    }

    fn id(&self) -> JobId {
        self.owner.job().id
    }
}
