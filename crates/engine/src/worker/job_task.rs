//! One job from its claim to its release: feeds the owner's step and does what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::decide::{late, shut_down};
use lastword_core::effects::Effect;
use lastword_core::job::Phase;
use lastword_core::limits::Limit;
use lastword_core::outcome::Cause;
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::report::{Report, Signal};
use lastword_core::{Append, Illegal, Job, JobId, Now, Seq};
use lastword_store::{Claimed, Error, Store};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::Worker;
use crate::host::Order;
use crate::lock::lock;
use crate::mailbox::{Held, HeldStop, Mail, Mailbox, Reports};
use crate::troubles::Troubles;

/// First pause before a failed effect or write is tried again. It doubles.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Failures of an effect in a row before it is reported as a trouble: they take about a second.
const FAILURES_UNREPORTED: u32 = 6;

/// Interval at which the output of a job with an output limit is measured.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(200);

/// Interval at which a slot is asked for, for an idle agent with a message, where hosts share the journal: which of them is told of a free slot
/// is not decided by who waits for one.
const SLOT_INTERVAL: Duration = Duration::from_secs(2);

/// Measurements of the output within the stall limit of a job: a stall is noticed at most an eighth of the limit late.
const STALL_CHECKS: u64 = 8;

/// Held by a job task until it is known what became of the tree that an earlier incarnation left. The start of the worker waits until every
/// task has dropped its own: the channel closes then.
pub(super) type Pass = mpsc::Sender<()>;

/// The task of one job: does the IO for the owner's step.
pub(super) struct JobTask<J> {
    worker: Arc<Worker<J>>,
    /// Decides; it has no IO of its own.
    owner: Owner,
    mailbox: Arc<Mailbox>,
    /// The watch of the tree, aborted with the task. Other effects end soon on their own.
    watch: Option<AbortOnDrop>,
    /// Effects that failed since something was last stored, and how often. Determines the pause before the next try.
    failed: Vec<(Effect, u32)>,
    /// Failed calls of the journal in a row.
    unanswered: u32,
    /// When a tick makes the owner repeat a failed call of the journal.
    retry_at: Option<Instant>,
    /// When the output was last measured.
    measured_at: Option<Instant>,
    /// Held until the tree of an earlier owner is located, or cannot be.
    pass: Option<Pass>,
}

impl<J: Store> JobTask<J> {
    /// Returns the task of a job that was just claimed; an error if its log breaks a rule.
    pub(super) fn new(
        worker: Arc<Worker<J>>,
        claimed: &Claimed,
        mailbox: Arc<Mailbox>,
        pass: Option<Pass>,
    ) -> Result<JobTask<J>, Illegal> {
        let job = Job::fold(claimed.job, &claimed.events)?;
        let (host, boot, now) = (worker.options.host.clone(), worker.host.boot(), worker.desk.now());
        let owner = Owner::new(job, claimed.fence.clone(), host, boot, now);
        let task = JobTask {
            worker,
            owner,
            mailbox,
            watch: None,
            failed: Vec::new(),
            unanswered: 0,
            retry_at: None,
            measured_at: None,
            pass,
        };
        task.mailbox.set_locating(task.is_locating());
        task.worker.desk.agenda.tasks.set_idle(claimed.job, &task.mailbox, task.owner.job().idle);
        Ok(task)
    }

    /// Runs until the job is released.
    pub(super) async fn run(mut self: Box<Self>) {
        let id = self.id();
        let mut mail = Mail::Input(Input::Tick);
        loop {
            match mail {
                Mail::Input(input) => {
                    if self.step(input) {
                        break;
                    }
                }
                Mail::Stop(stop) => self.stop_by_keeper(stop),
                Mail::Leave => {
                    // Boxed: otherwise every waiting task would reserve memory for this future.
                    Box::pin(self.leave()).await;
                    break;
                }
            }
            mail = self.next().await;
        }
        self.worker.desk.agenda.tasks.remove(id, &self.mailbox);
        self.worker.slots.freed(&self.worker.desk.agenda);
    }

    /// Passes one input to the owner and carries out its outputs. Reports whether the job was released.
    fn step(&mut self, input: Input) -> bool {
        let stored = matches!(input, Input::Stored);
        let unavailable = matches!(input, Input::Unavailable);
        match &input {
            Input::Unavailable => {
                self.retry_at = Some(Instant::now() + pause(self.unanswered));
                self.unanswered += 1;
            }
            Input::Stored => {
                self.unanswered = 0;
                self.failed.clear();
            }
            Input::Conflict | Input::Loaded(_) => self.unanswered = 0,
            Input::Report(Report::Unclear(effect)) => self.count_failure(&effect.clone()),
            _ => {}
        }
        self.measure_output();
        self.measure_budget();
        let (spent, was_idle) = (self.owner.job().usage, self.owner.job().idle);
        let outputs = self.owner.step(input, self.worker.desk.now());
        if stored {
            self.worker.desk.wrote(self.owner.job());
            if self.owner.job().usage != spent {
                self.count_spent();
            }
        }
        self.note_idle(was_idle);
        for output in outputs {
            match output {
                Output::Append(append) => self.append(*append),
                Output::Load { after } => self.load(after),
                Output::Do(effect) => self.perform(effect, unavailable),
                Output::LetGo { late } => {
                    self.store_late(late);
                    return true;
                }
                Output::Broken(illegal) => {
                    self.give_up(&illegal);
                    return true;
                }
            }
        }
        if !self.owner.waits_for_journal() {
            // Everything that was reported is stored.
            self.mailbox.settle();
            if self.is_located() {
                self.pass = None;
            }
            self.mailbox.set_locating(self.is_locating());
        }
        false
    }

    /// Gives the slot of an idle agent back, and claims one for the message that waits: the journal counts it.
    fn note_idle(&self, was_idle: bool) {
        let (job, agenda) = (self.owner.job(), &self.worker.desk.agenda);
        if job.idle != was_idle {
            agenda.tasks.set_idle(job.id, &self.mailbox, job.idle);
            self.worker.slots.freed(agenda);
        }
        if job.idle && job.due().is_some() {
            agenda.wrote(job, self.worker.desk.now().wall);
        }
    }

    /// Waits for mail, for the next time to check a limit, or for the next retry.
    async fn next(&mut self) -> Mail {
        let busy = self.owner.waits_for_journal();
        let tick_at = [self.next_check(), self.retry_at].into_iter().flatten().min();
        let tick = async {
            match tick_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            mail = self.mailbox.next(busy) => mail,
            () = tick => {
                let now = Instant::now();
                self.retry_at = self.retry_at.filter(|at| *at > now);
                Mail::Input(Input::Tick)
            }
        }
    }

    /// Returns when the owner has to check something next: a time limit, the output, or whether a question has expired.
    fn next_check(&self) -> Option<Instant> {
        // Nothing is decided before the journal answers.
        if self.owner.waits_for_journal() {
            return None;
        }
        let now = Instant::now();
        let Now { wall, awake } = self.worker.desk.now();
        let time_limit =
            self.owner.next_check().map(|at| now + Duration::from_millis(at.0.saturating_sub(awake.0)));
        let question = self
            .owner
            .next_question_expiry()
            .map(|at| now + Duration::from_millis(at.0.saturating_sub(wall.0)));
        let output = self.output_interval().map(|every| self.measured_at.map_or(now, |at| at + every));
        let waits_for_slot = self.owner.job().idle && self.owner.job().due().is_some();
        let slot = (waits_for_slot && self.worker.desk.journal.is_shared()).then(|| now + SLOT_INTERVAL);
        [time_limit, question, output, slot].into_iter().flatten().min()
    }

    /// Returns how often to measure the output of a running command that has a limit on it. An agent's output is read as it comes.
    fn output_interval(&self) -> Option<Duration> {
        let job = self.owner.job();
        if !matches!(job.phase, Phase::Running) || job.reports_turns() {
            return None;
        }
        let output = job.limits.get(Limit::Output).map(|_| OUTPUT_INTERVAL);
        let stall = job.limits.get(Limit::Stall).map(|ms| Duration::from_millis(ms.div_ceil(STALL_CHECKS)));
        // Even for a tiny stall limit, not more often than every 50 ms.
        [output, stall.map(|every| every.max(OUTPUT_INTERVAL / 4))].into_iter().flatten().min()
    }

    /// Measures the output of a command before each decision, whatever its limits are. Nothing was measured while the journal was
    /// unavailable, and a limit may have been set since; a tree that wrote all the time must not count as silent then.
    fn measure_output(&mut self) {
        let job = self.owner.job();
        let Some(attempt) = job.open_attempt().map(|attempt| attempt.no) else { return };
        if !job.reports_turns() {
            self.measured_at = Some(Instant::now());
            let total_bytes = self.worker.host.written(job.id, attempt);
            self.owner.record_activity(&Signal::Wrote { total_bytes }, self.worker.desk.now().awake);
        }
    }

    /// Tells the owner where the budget of the job's group stands.
    fn measure_budget(&mut self) {
        let spec = self.owner.job().spec.clone();
        self.owner.record_budget(spec.map(|spec| self.worker.desk.standing(&spec.group)).unwrap_or_default());
    }

    /// Reads what the group has spent, after this job has spent something of its budget.
    fn count_spent(&self) {
        let (desk, spec) = (Arc::clone(&self.worker.desk), self.owner.job().spec.clone());
        let group = spec.and_then(|spec| desk.groups.get(&spec.group));
        if group.is_some_and(|group| group.budget.is_set()) {
            tokio::spawn(async move {
                if let Err(error) = desk.read_groups().await {
                    desk.troubles.journal(None, "what a group has spent cannot be read", &error);
                    desk.agenda.ask_for_sweep();
                    desk.agenda.wake();
                }
            });
        }
    }

    /// Stores an append in the background. The answer comes as mail.
    fn append(&self, append: Append) {
        let (desk, mailbox, id) = (Arc::clone(&self.worker.desk), Arc::clone(&self.mailbox), self.id());
        tokio::spawn(async move {
            let answer = match desk.journal.append(append).await {
                Ok(_) => Input::Stored,
                Err(Error::Conflict { .. }) => Input::Conflict,
                Err(Error::Fenced { .. }) => {
                    tracing::info!(job = %id, "a write was refused: the job is not of this life any more");
                    Input::Fenced
                }
                Err(error) => {
                    let job = troubled_job(&error, id);
                    desk.troubles.journal(job, "the state of a job cannot be stored", &error);
                    Input::Unavailable
                }
            };
            mailbox.answer(answer);
        });
    }

    /// Reads newer events in the background. The answer comes as mail.
    fn load(&self, after: Seq) {
        let (desk, mailbox, id) = (Arc::clone(&self.worker.desk), Arc::clone(&self.mailbox), self.id());
        tokio::spawn(async move {
            let answer = match desk.journal.load(id, after).await {
                Ok(events) => Input::Loaded(events),
                Err(error) => {
                    let job = troubled_job(&error, id);
                    desk.troubles.journal(job, "the log of a job cannot be read", &error);
                    Input::Unavailable
                }
            };
            mailbox.answer(answer);
        });
    }

    /// Carries out an effect in the background. Its reports come as mail. `local` if the journal is unavailable: the keeper must record
    /// the effect.
    fn perform(&mut self, effect: Effect, local: bool) {
        let failed = self.failed.iter().find(|(known, _)| *known == effect);
        let failures = failed.map_or(0, |(_, times)| *times);
        let (desk, mailbox, id) = (Arc::clone(&self.worker.desk), Arc::clone(&self.mailbox), self.id());
        let order = Order {
            job: self.owner.job().clone(),
            epoch: self.owner.fence().epoch,
            life: self.owner.fence().incarnation,
            effect: effect.clone(),
            local,
        };
        let performing = self.worker.host.perform(order, Reports::to(&self.mailbox));
        let is_watch = matches!(effect, Effect::Watch { .. });
        let done = tokio::spawn(async move {
            let Err(why) = performing.await else { return };
            Box::pin(report_failure(&desk.troubles, &mailbox, id, effect, failures, why)).await;
        });
        if is_watch {
            self.watch = Some(AbortOnDrop(done.abort_handle()));
        }
    }

    /// Has the keeper stop the tree, because the journal cannot store the request. Its receipt will say so.
    fn stop_by_keeper(&self, HeldStop { force, answer }: HeldStop) {
        let job = self.owner.job();
        // Before it is located, no keeper can be reached.
        let reachable = job.open_attempt().filter(|_| self.is_located());
        let Some(attempt) = reachable.map(|attempt| attempt.no) else { return };
        let effect = Effect::Stop { attempt, cause: Cause::User, force };
        let (epoch, life) = (self.owner.fence().epoch, self.owner.fence().incarnation);
        let order = Order { job: job.clone(), epoch, life, effect, local: true };
        let (held, job) = (self.worker.host.hold_stop(order), Box::new(job.clone()));
        tokio::spawn(async move {
            if let Ok(on_disk) = held.await {
                // The caller may have gone away.
                let _ = answer.send(Held { job, on_disk });
            }
        });
    }

    /// Counts a failure of an effect.
    fn count_failure(&mut self, effect: &Effect) {
        // The start of the worker waits for the first answer only, also if that is a failed locate.
        self.pass = None;
        match self.failed.iter_mut().find(|(known, _)| known == effect) {
            Some((_, times)) => *times += 1,
            None => self.failed.push((effect.clone(), 1)),
        }
    }

    /// Appends reports that came too late to the log, so that its readers see them. They change nothing else.
    fn store_late(&mut self, lines: Vec<String>) {
        let (desk, id, epoch) = (Arc::clone(&self.worker.desk), self.id(), self.owner.fence().epoch);
        if lines.is_empty() {
            return;
        }
        tokio::spawn(async move {
            for line in lines {
                if let Err(error) = desk.request(id, None, |job| late::decide(job, epoch, &line)).await {
                    let what = format!("a late report could not be stored ({error}): {line}");
                    desk.troubles.add(Some(id), what, "nothing needs to be done; the job's log lacks it");
                }
            }
        });
    }

    /// Leaves the job alone from now on, and reports a trouble.
    fn give_up(&self, illegal: &Illegal) {
        lock(&self.worker.broken).insert(self.id());
        let next = "it is left alone: report this, with the output of `lastword events`";
        self.worker.desk.troubles.add(Some(self.id()), format!("its log breaks a rule: {illegal}"), next);
    }

    /// Leaves the job at shutdown: a job that was not started goes back to its group; a running tree stays for the next daemon.
    async fn leave(&mut self) {
        let (job, fence) = (self.owner.job(), self.owner.fence());
        let desk = &self.worker.desk;
        let now = desk.now().wall;
        let facts = shut_down::leave(job, fence).unwrap_or_default();
        let Ok(append) = desk.append_id() else { return };
        if facts.is_empty() {
            return;
        }
        let released = match Append::new(job, Some(fence), append, now, facts) {
            Ok((append, after)) => desk.journal.append(append).await.map(|_| after),
            Err(_) => return,
        };
        // If that failed, the next daemon takes the job over like a running one.
        if let Ok(after) = released {
            desk.changes.announce(after.id);
        }
    }

    /// Reports whether the tree of an earlier owner is not located yet. Not the opposite of `is_located`: an attempt of our own that is
    /// being launched is neither.
    fn is_locating(&self) -> bool {
        let open = self.owner.job().open_attempt();
        open.is_some_and(|attempt| attempt.epoch != self.owner.fence().epoch)
    }

    /// Reports whether it is known what became of the attempt of an earlier owner.
    fn is_located(&self) -> bool {
        self.owner
            .job()
            .open_attempt()
            .is_none_or(|attempt| attempt.epoch == self.owner.fence().epoch && attempt.tree.is_some())
    }

    /// Returns the name that its user gave the job.
    pub(super) fn name(&self) -> Option<String> {
        self.owner.job().spec.as_ref().and_then(|spec| spec.name.clone())
    }

    fn id(&self) -> JobId {
        self.owner.job().id
    }
}

/// Reports a failed effect to its task after a pause, which makes it due again; and as a trouble if it failed several times before.
async fn report_failure(
    troubles: &Troubles,
    mailbox: &Arc<Mailbox>,
    id: JobId,
    effect: Effect,
    failures: u32,
    why: String,
) {
    if failures >= FAILURES_UNREPORTED {
        let what = format!("{} keeps failing: {why}", describe(&effect));
        troubles.add(Some(id), what, "it is tried again every few seconds");
    }
    sleep(pause(failures)).await;
    Reports::to(mailbox).report(Report::Unclear(effect)).await;
}

/// Aborts a task when dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the pause after a failure that followed so many others in a row.
fn pause(failures: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX)
}

/// Returns the job that a trouble with the journal belongs to: damage is a trouble of each job, an unavailable journal is one for all.
fn troubled_job(error: &Error, id: JobId) -> Option<JobId> {
    matches!(error, Error::Corrupt(_)).then_some(id)
}

/// Names an effect as the subject of a sentence about its job.
fn describe(effect: &Effect) -> &'static str {
    match effect {
        Effect::Launch { .. } => "launching it",
        Effect::Locate { .. } => "locating its tree",
        Effect::Watch { .. } => "watching its tree",
        Effect::Stop { .. } => "stopping its tree",
        Effect::Deadline { .. } => "sending its deadline",
        Effect::Tell { .. } => "sending its input",
        Effect::Interrupt { .. } => "interrupting it",
        Effect::Close { .. } => "closing its input",
        Effect::Hold { still: true, .. } => "pausing it",
        Effect::Hold { .. } => "resuming it",
    }
}

#[cfg(test)]
mod tests {
    use lastword_store::memory::Memory;

    use super::*;

    /// Returns the bytes of a task and of its future. The argument only names the type of the future.
    fn size_of_task<F>(_: impl Fn(Box<JobTask<Memory>>) -> F) -> usize {
        size_of::<F>() + size_of::<JobTask<Memory>>()
    }

    #[test]
    fn a_task_that_waits_is_small() {
        let bytes = size_of_task(JobTask::run);
        assert!(bytes < 2_048, "{bytes} bytes for each live job");
    }
}
