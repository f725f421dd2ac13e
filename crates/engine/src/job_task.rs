//! One job, from its claim until it is let go: feeds the owner's step and does what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use lastword_core::decide::{late, shut_down};
use lastword_core::effects::Effect;
use lastword_core::job::Phase;
use lastword_core::limits::Limit;
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::report::{Report, Signal};
use lastword_core::{Append, Illegal, Job, JobId, Now, Seq};
use lastword_store::siblings::Siblings;
use lastword_store::{Claimed, Error};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::claims::Pass;
use crate::mailbox::{Mail, Mailbox, Reports};
use crate::shared::{Shared, lock};
use crate::trees::Order;

/// The first pause after which what could not be done or stored is tried again. It doubles.
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// The longest one.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// After so many failures in a row a person is told: about a second.
const FAILURES_TOLD: u32 = 6;

/// How often the output of a job is looked at that may write only so much.
const OUTPUT_LOOK: Duration = Duration::from_millis(200);

/// The output of a job that must not fall silent is looked at so often within the time it may be silent.
const STALL_LOOKS: u64 = 8;

/// The task.
pub(crate) struct JobTask<J> {
    shared: Arc<Shared<J>>,
    owner: Owner,
    mailbox: Arc<Mailbox>,
    /// What follows the tree; ended with the task. All else that is under way ends by itself, and soon.
    watch: Option<Ended>,
    /// Effects that failed since something was last stored, and how often.
    failed: Vec<(Effect, u32)>,
    /// How often in a row the journal did not answer.
    unanswered: u32,
    retry_at: Option<Instant>,
    looked_at: Option<Instant>,
    pass: Option<Pass>,
}

impl<J: Siblings> JobTask<J> {
    /// Returns the task of a job that was just claimed. One whose log breaks a rule has none.
    pub(crate) fn new(
        shared: Arc<Shared<J>>,
        claimed: &Claimed,
        mailbox: Arc<Mailbox>,
        pass: Option<Pass>,
    ) -> Result<JobTask<J>, Illegal> {
        let job = Job::fold(claimed.job, &claimed.events)?;
        let (host, boot, now) = (shared.options.host.clone(), shared.trees.boot(), shared.now());
        let owner = Owner::new(job, claimed.fence.clone(), host, boot, now);
        let task = JobTask {
            shared,
            owner,
            mailbox,
            watch: None,
            failed: Vec::new(),
            unanswered: 0,
            retry_at: None,
            looked_at: None,
            pass,
        };
        task.mailbox.look(task.looks_for_another());
        Ok(task)
    }

    /// Runs until the job is let go.
    pub(crate) async fn run(mut self: Box<Self>) {
        let id = self.id();
        let mut mail = Mail::Input(Input::Tick);
        loop {
            let Mail::Input(input) = mail else {
                // Boxed, because every task would keep the room for what each does once.
                Box::pin(self.leave()).await;
                break;
            };
            if self.step(input) {
                break;
            }
            mail = self.next().await;
        }
        self.shared.tasks.remove(id, &self.mailbox);
    }

    /// Takes one input and does what follows; reports whether the job was let go.
    fn step(&mut self, input: Input) -> bool {
        let stored = matches!(input, Input::Stored);
        let away = matches!(input, Input::Unavailable);
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
            Input::Report(Report::Unclear(effect)) => self.failed_again(&effect.clone()),
            _ => {}
        }
        self.look();
        let outputs = self.owner.step(input, self.shared.now());
        if stored {
            self.shared.wrote(self.owner.job());
        }
        for output in outputs {
            match output {
                Output::Append(append) => self.append(*append),
                Output::Load { after } => self.load(after),
                Output::Do(effect) => self.perform(effect, away),
                Output::LetGo { late } => {
                    self.keep_late(late);
                    return true;
                }
                Output::Broken(illegal) => {
                    self.give_up(&illegal);
                    return true;
                }
            }
        }
        if !self.owner.waits_for_journal() {
            self.mailbox.settle();
            if self.is_found() {
                self.pass = None;
            }
            self.mailbox.look(self.looks_for_another());
        }
        false
    }

    /// Waits for what is next: mail, or the moment for a look.
    async fn next(&mut self) -> Mail {
        let busy = self.owner.waits_for_journal();
        let look_at = self.next_look();
        let at = [look_at, self.retry_at].into_iter().flatten().min();
        let time = async {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            mail = self.mailbox.next(busy) => mail,
            () = time => {
                let now = Instant::now();
                self.retry_at = self.retry_at.filter(|at| *at > now);
                Mail::Input(Input::Tick)
            }
        }
    }

    /// Returns when a limit needs a look: at the clock, or at what was written; or a question that nobody answers.
    fn next_look(&self) -> Option<Instant> {
        // Nothing is decided before the journal has answered, and it will.
        if self.owner.waits_for_journal() {
            return None;
        }
        let now = Instant::now();
        let Now { wall, awake } = self.shared.now();
        let clock =
            self.owner.next_limit_check().map(|at| now + Duration::from_millis(at.0.saturating_sub(awake.0)));
        let answer = self
            .owner
            .next_question_expiry()
            .map(|at| now + Duration::from_millis(at.0.saturating_sub(wall.0)));
        let output = self.look_every().map(|every| self.looked_at.map_or(now, |at| at + every));
        [clock, answer, output].into_iter().flatten().min()
    }

    /// Returns how often the output must be looked at. What an agent says is read as it comes.
    fn look_every(&self) -> Option<Duration> {
        let job = self.owner.job();
        if !matches!(job.phase, Phase::Running) || job.reports_turns() {
            return None;
        }
        let output = job.limits.get(Limit::Output).map(|_| OUTPUT_LOOK);
        let stall = job.limits.get(Limit::Stall).map(|ms| Duration::from_millis(ms.div_ceil(STALL_LOOKS)));
        [output, stall.map(|every| every.max(OUTPUT_LOOK / 4))].into_iter().flatten().min()
    }

    /// Looks at what a command has written. That is done before anything is decided, whatever its limits are: while the journal was
    /// away nobody looked, and a limit may have been set since; a tree that wrote all the time must not be called silent then.
    fn look(&mut self) {
        let job = self.owner.job();
        let Some(attempt) = job.open_attempt().map(|attempt| attempt.no) else { return };
        if !job.reports_turns() {
            self.looked_at = Some(Instant::now());
            let total_bytes = self.shared.trees.written(job.id, attempt);
            self.owner.record_activity(&Signal::Wrote { total_bytes }, self.shared.now().awake);
        }
    }

    fn append(&self, append: Append) {
        let (shared, mailbox, id) = (Arc::clone(&self.shared), Arc::clone(&self.mailbox), self.id());
        tokio::spawn(async move {
            let answer = match shared.journal.append(append).await {
                Ok(_) => Input::Stored,
                Err(Error::Conflict { .. }) => Input::Conflict,
                Err(Error::Fenced { .. }) => Input::Fenced,
                Err(error) => {
                    shared.journal_trouble(
                        of_job(&error, id),
                        "what became of a job cannot be stored",
                        &error,
                    );
                    Input::Unavailable
                }
            };
            mailbox.answer(answer);
        });
    }

    fn load(&self, after: Seq) {
        let (shared, mailbox, id) = (Arc::clone(&self.shared), Arc::clone(&self.mailbox), self.id());
        tokio::spawn(async move {
            let answer = match shared.journal.load(id, after).await {
                Ok(events) => Input::Loaded(events),
                Err(error) => {
                    shared.journal_trouble(
                        of_job(&error, id),
                        "what was asked of a job cannot be read",
                        &error,
                    );
                    Input::Unavailable
                }
            };
            mailbox.answer(answer);
        });
    }

    fn perform(&mut self, effect: Effect, local: bool) {
        let failed = self.failed.iter().find(|(known, _)| *known == effect);
        let times = failed.map_or(0, |(_, times)| *times);
        let (shared, mailbox, id) = (Arc::clone(&self.shared), Arc::clone(&self.mailbox), self.id());
        let order = Order {
            job: self.owner.job().clone(),
            epoch: self.owner.fence().epoch,
            effect: effect.clone(),
            local,
        };
        let doing = self.shared.trees.perform(order, Reports::to(&self.mailbox));
        let is_watch = matches!(effect, Effect::Watch { .. });
        let done = tokio::spawn(async move {
            let Err(why) = doing.await else { return };
            Box::pin(failed_because(&shared, &mailbox, id, effect, times, why)).await;
        });
        if is_watch {
            self.watch = Some(Ended(done.abort_handle()));
        }
    }

    /// Counts a failure of an effect.
    fn failed_again(&mut self, effect: &Effect) {
        // It was looked for; that nothing could be found out is an answer to whoever waits for a first look.
        self.pass = None;
        match self.failed.iter_mut().find(|(known, _)| known == effect) {
            Some((_, times)) => *times += 1,
            None => self.failed.push((effect.clone(), 1)),
        }
    }

    /// Keeps what was reported too late in the log, where whoever reads it finds it.
    fn keep_late(&mut self, lines: Vec<String>) {
        let (shared, id, epoch) = (Arc::clone(&self.shared), self.id(), self.owner.fence().epoch);
        if lines.is_empty() {
            return;
        }
        tokio::spawn(async move {
            for line in lines {
                let kept = match shared.append_id() {
                    Ok(append) => shared.request(id, append, |job| late::decide(job, epoch, &line)).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = kept {
                    let what = format!("a report came too late and could not be kept ({error}): {line}");
                    shared.trouble(
                        Some(id),
                        what,
                        "nothing has to be done; the log of the job does not have it",
                    );
                }
            }
        });
    }

    /// Touches nothing of the job any more, and tells a person.
    fn give_up(&self, illegal: &Illegal) {
        lock(&self.shared.broken).insert(self.id());
        let next = "nothing of it is touched any more: report this, with the output of `lastword events`";
        self.shared.trouble(Some(self.id()), format!("its log breaks a rule: {illegal}"), next);
    }

    /// Gives back what was not started. What runs goes on, and the next life of this engine finds it.
    async fn leave(&mut self) {
        let (job, fence) = (self.owner.job(), self.owner.fence());
        let now = self.shared.now().wall;
        let facts = shut_down::decide(job, fence, shut_down::Mode::Leave, now).unwrap_or_default();
        let Ok(append) = self.shared.append_id() else { return };
        if facts.is_empty() {
            return;
        }
        let released = match Append::new(job, Some(fence), append, now, facts) {
            Ok((append, after)) => self.shared.journal.append(append).await.map(|_| after),
            Err(_) => return,
        };
        // Whoever wrote in between, or a journal that is away: the next life takes it over all the same.
        if let Ok(after) = released {
            self.shared.changed(after.id);
        }
    }

    /// Reports whether a tree that an earlier owner left was not found yet.
    fn looks_for_another(&self) -> bool {
        let open = self.owner.job().open_attempt();
        open.is_some_and(|attempt| attempt.epoch != self.owner.fence().epoch)
    }

    /// Reports whether it is known what became of what an earlier owner began.
    fn is_found(&self) -> bool {
        self.owner
            .job()
            .open_attempt()
            .is_none_or(|attempt| attempt.epoch == self.owner.fence().epoch && attempt.tree.is_some())
    }

    fn id(&self) -> JobId {
        self.owner.job().id
    }
}

/// Tells a person of what fails again and again, and the task after a pause: what is still due is asked for again at once.
async fn failed_because<J: Siblings>(
    shared: &Shared<J>,
    mailbox: &Arc<Mailbox>,
    id: JobId,
    effect: Effect,
    times: u32,
    why: String,
) {
    if times >= FAILURES_TOLD {
        let what = format!("{} fails again and again: {why}", name(&effect));
        shared.trouble(Some(id), what, "it is tried again by itself, every few seconds");
    }
    sleep(pause(times)).await;
    Reports::to(mailbox).report(Report::Unclear(effect)).await;
}

/// Something that is ended when this is dropped.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the pause after so many failures in a row.
fn pause(times: u32) -> Duration {
    PAUSE_MIN.saturating_mul(1 << times.min(10)).min(PAUSE_MAX)
}

/// A journal that is away is one trouble; damage is one for each job.
fn of_job(error: &Error, id: JobId) -> Option<JobId> {
    matches!(error, Error::Corrupt(_)).then_some(id)
}

fn name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Launch { .. } => "its start",
        Effect::Locate { .. } => "the look for its tree",
        Effect::Watch { .. } => "watching its tree",
        Effect::Stop { .. } => "stopping its tree",
        Effect::Deadline { .. } => "telling its keeper the deadline",
        Effect::Tell { .. } => "sending its input",
        Effect::Interrupt { .. } => "interrupting it",
        Effect::Close { .. } => "closing its input",
        Effect::Hold { still: true, .. } => "making it hold still",
        Effect::Hold { .. } => "letting it go on",
    }
}

#[cfg(test)]
mod tests {
    use lastword_store::memory::Memory;

    use super::*;

    /// Returns how much room a call takes while it waits.
    fn room<F>(_: impl Fn(Box<JobTask<Memory>>) -> F) -> usize {
        size_of::<F>() + size_of::<JobTask<Memory>>()
    }

    #[test]
    fn a_task_that_waits_is_small() {
        assert!(room(JobTask::run) < 2_048, "{} bytes for each live job", room(JobTask::run));
    }
}
