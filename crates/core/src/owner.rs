//! The owner of a job as a state machine without IO.
//!
//! Inputs go in, outputs come out, and the driver (the engine, the model checker, the simulation) does the IO. The owner decides on the
//! stored state, stores facts before it acts, and acts only on effects that are due. One append is in flight at a time; a report is
//! kept until the facts that follow from it are stored.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::append::{Append, Illegal};
use crate::budget::Standing;
use crate::decide::{answer, hear, launch, limit, observe, take_over};
use crate::effects::{self, Effect};
use crate::event::{Event, Fact, LimitFired};
use crate::ids::{AppendId, Awake, Fence, HostId, Now, Seq, Timestamp};
use crate::job::Job;
use crate::report::{Pulse, Report, Signal};

/// Facts per append, except that the last report may add a few more. A larger append would delay others. Reports without facts do not
/// count: the one after them may be the last.
const BATCH_MAX: usize = 64;

/// Reports kept while the journal does not answer. Any more stay in the recording, whose reader waits.
const INBOX_MAX: usize = 256;

/// The owner of a job under one claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    fence: Fence,
    host: HostId,
    /// The id of the host's boot. No tree of an earlier boot can be alive.
    boot: Arc<str>,
    /// The job as stored.
    job: Job,
    /// Reports whose facts are not stored yet.
    inbox: VecDeque<Report>,
    /// The append in flight.
    flight: Option<Box<Flight>>,
    /// Whether a load is in flight.
    loading: bool,
    /// Others may have written to the job, so the log must be read before the next decision.
    news: bool,
    /// A load failed and is repeated with the next tick.
    unread: bool,
    /// An append conflicted, so that none can be stored before the log is read.
    outdated: bool,
    /// What was read cannot follow what is known, so the whole log is read.
    doubt: bool,
    /// Effects that were requested and are still due.
    requested: Vec<Effect>,
    /// The exclusive effect that has not reported back yet.
    busy: Option<Effect>,
    /// Whether a launch may have happened without a report. A tree may exist then, so it is located instead of launched again.
    unsure: bool,
    /// The agent's activity, for the limits.
    pulse: Pulse,
    /// A limit that fired and was acted on while the journal was unavailable. It is stored before any report.
    fired: Option<LimitFired>,
    /// Appends built so far. The count makes their ids unique under this fence.
    appends: u32,
    /// Whether the job was let go of, or given up.
    gone: bool,
}

/// An append that the journal has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    append: Append,
    /// The job as it is once the append is stored.
    after: Job,
    /// How many reports of the inbox it covers.
    reports: usize,
    /// The journal failed to answer: the next tick repeats the append.
    unanswered: bool,
}

/// An input of the owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A report about the tree or its agent.
    Report(Report),
    /// The append in flight is stored.
    Stored,
    /// The append in flight conflicts with another write.
    Conflict,
    /// Another owner holds the job.
    Fenced,
    /// The journal did not answer; the append may or may not be stored.
    Unavailable,
    /// The events that were requested.
    Loaded(Vec<Event>),
    /// Others may have written to the job.
    News,
}

/// An output of the owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Store this append. A repeat is identical.
    Append(Box<Append>),
    /// Read the newer events.
    Load {
        /// The newest known event.
        after: Seq,
    },
    /// Carry out this effect.
    Do(Effect),
    /// The job has ended or has another owner: do not touch it any more. Record late reports as late.
    LetGo {
        /// One line for each report that came too late.
        late: Vec<String>,
    },
    /// The log breaks a rule: do not touch the job, and alert a person.
    Broken(Illegal),
}

impl Owner {
    /// Returns the owner of a job that was just claimed with `fence`, on `host` in its current `boot`.
    pub fn new(job: Job, fence: Fence, host: HostId, boot: Arc<str>, now: Now) -> Owner {
        Owner {
            fence,
            host,
            boot,
            job,
            inbox: VecDeque::new(),
            flight: None,
            loading: false,
            news: false,
            unread: false,
            outdated: false,
            doubt: false,
            requested: Vec::new(),
            busy: None,
            unsure: false,
            pulse: Pulse { progress: now.awake, ..Pulse::default() },
            fired: None,
            appends: 0,
            gone: false,
        }
    }

    /// Returns the job as stored.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the fence that the owner writes with.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Reports whether the owner has let go of the job.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Reports whether nothing can be decided before the journal answers: an append or a load is in flight, or a load must succeed first.
    pub fn waits_for_journal(&self) -> bool {
        self.flight.is_some() || self.loading || self.outdated
    }

    /// Reports whether the inbox has room. The reader of the recording must wait while it has not.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_MAX
    }

    /// Returns when the limits of the job must next be checked, or the turn of an agent that says it works on nothing.
    pub fn next_check(&self) -> Option<Awake> {
        let limit = limit::next_check(&self.job, &self.pulse);
        [limit, hear::next_inactive(&self.job, &self.pulse)].into_iter().flatten().min()
    }

    /// Returns when the next unanswered question expires.
    pub fn next_question_expiry(&self) -> Option<Timestamp> {
        answer::next_expiry(&self.job)
    }

    /// Records activity of the agent. It has no effect before the next input.
    pub fn record_activity(&mut self, signal: &Signal, now: Awake) {
        self.pulse.record(signal, now);
    }

    /// Records where the budget of the job's group stands. It has no effect before the next input.
    pub fn record_budget(&mut self, budget: Standing) {
        self.pulse.budget = budget;
    }

    /// Handles one input and returns the outputs, in order: takes the input in, decides facts unless an append is in flight, and requests
    /// the effects that are due on what is stored.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Output> {
        let mut outputs = Vec::new();
        // Waiting for a person is not a stall: the stall clock restarts with the answer.
        if self.job.waits_for_person() {
            self.pulse.progress = self.pulse.progress.max(now.awake);
        }
        if !self.gone {
            self.take_input(input, now, &mut outputs);
        }
        if !self.gone {
            self.decide(now, &mut outputs);
        }
        if !self.gone {
            self.request_due(&mut outputs);
        }
        outputs
    }

    fn take_input(&mut self, input: Input, now: Now, outputs: &mut Vec<Output>) {
        match input {
            Input::Tick => {
                if let Some(flight) = self.flight.as_mut().filter(|flight| flight.unanswered) {
                    flight.unanswered = false;
                    outputs.push(Output::Append(Box::new(flight.append.clone())));
                }
                self.news |= std::mem::take(&mut self.unread);
            }
            Input::Report(report) => self.take_report(report, now),
            Input::Stored => {
                if let Some(flight) = self.flight.take() {
                    self.job = flight.after;
                    self.inbox.drain(..flight.reports);
                }
                self.let_go_unless_held(outputs);
            }
            Input::Conflict => {
                // The reports stay in the inbox: they are decided again on the newer state.
                self.flight = None;
                self.outdated = true;
                self.load(outputs);
            }
            Input::Fenced => self.let_go(outputs),
            Input::Unavailable => {
                self.unread |= std::mem::take(&mut self.loading);
                if let Some(flight) = &mut self.flight {
                    flight.unanswered = true;
                }
                self.stop_without_journal(now, outputs);
            }
            Input::Loaded(events) => self.loaded(&events, outputs),
            // Read it once nothing is in flight: a load in flight may have read before the write.
            Input::News => self.news = true,
        }
    }

    /// Puts a report into the inbox, unless no fact can follow from it.
    fn take_report(&mut self, report: Report, now: Now) {
        match &report {
            Report::Launched { .. } | Report::LaunchFailed { .. } | Report::Located { .. } => {
                self.busy = None
            }
            // No longer requested, so the effect is requested again if it is still due.
            Report::Unclear(effect) => {
                self.unsure |= matches!(effect, Effect::Launch { .. });
                self.requested.retain(|requested| requested != effect);
                if self.busy.as_ref() == Some(effect) {
                    self.busy = None;
                }
                return;
            }
            Report::Heard { signal, .. } => {
                self.pulse.record(signal, now.awake);
                if signal.is_pulse_only() {
                    return;
                }
            }
            Report::Emptied { .. } | Report::Climbed { .. } | Report::Told { .. } => {}
        }
        self.inbox.push_back(report);
    }

    /// Requests the newer events of the job; in doubt, all of them.
    fn load(&mut self, outputs: &mut Vec<Output>) {
        self.news = false;
        if !self.loading {
            self.loading = true;
            let after = if self.doubt { Seq(0) } else { self.job.version };
            outputs.push(Output::Load { after });
        }
    }

    fn loaded(&mut self, events: &[Event], outputs: &mut Vec<Output>) {
        self.loading = false;
        if self.doubt {
            return self.settle_doubt(events, outputs);
        }
        let mut job = self.job.clone();
        for event in events.iter().filter(|event| event.seq > self.job.version) {
            if job.apply(event).is_err() {
                // Nothing is stored on what is known until the doubt is over.
                (self.doubt, self.outdated) = (true, true);
                return self.load(outputs);
            }
        }
        (self.job, self.outdated) = (job, false);
        self.let_go_unless_held(outputs);
    }

    /// Tells a journal that has lost what the owner knows from a log that breaks a rule. In another instance the job is not the owner's any more.
    fn settle_doubt(&mut self, events: &[Event], outputs: &mut Vec<Output>) {
        match Job::fold(self.job.id, events) {
            Ok(_) => self.let_go(outputs),
            Err(illegal) => self.broken(illegal, outputs),
        }
    }

    /// Lets go if the job has ended or has another owner.
    fn let_go_unless_held(&mut self, outputs: &mut Vec<Output>) {
        let ours = self.job.holder.as_ref().is_some_and(|holder| holder.fence == self.fence);
        if !ours {
            self.let_go(outputs);
        }
    }

    fn let_go(&mut self, outputs: &mut Vec<Output>) {
        self.gone = true;
        self.flight = None;
        let late = self.inbox.drain(..).filter_map(|report| late_line(&report)).collect();
        outputs.push(Output::LetGo { late });
    }

    /// Stops the tree without waiting for an unavailable journal, if the append in flight or anything since decides a stop. The keeper
    /// records the cause.
    fn stop_without_journal(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let flight = self.flight.as_deref();
        // With nothing in flight, only an owner that cannot append needs this, and only for a tree that it has located.
        let is_ours = self.job.open_attempt().is_some_and(|attempt| attempt.epoch == self.fence.epoch);
        if flight.is_none() && !(self.outdated && is_ours) {
            return;
        }
        let (job, reports) = flight.map_or((&self.job, 0), |flight| (&flight.after, flight.reports));
        let mut draft = Draft { job: job.clone(), facts: Vec::new(), at: now };
        for report in self.inbox.iter().skip(reports) {
            let facts = observe::decide(&draft.job, &self.fence, report, &self.pulse, now);
            // A broken rule is reported when the facts are to be stored.
            if draft.extend(facts).is_err() {
                return;
            }
        }
        if draft.extend(limit::fire(&draft.job, &self.pulse, now.awake)).is_err() {
            return;
        }
        let decided = flight.into_iter().flat_map(|flight| &flight.append.events).map(|event| &event.fact);
        let decided = decided.chain(&draft.facts);
        let fired = decided.into_iter().find_map(|fact| match fact {
            Fact::LimitFired(fired) => Some(*fired),
            _ => None,
        });
        self.fired = self.fired.or(fired);
        for effect in effects::due(&draft.job, &self.fence) {
            // Not added to `requested`, which has only effects that are due on the stored state: the stop is repeated with each failure,
            // and requested again once it is stored.
            if matches!(effect, Effect::Stop { .. }) && !self.requested.contains(&effect) {
                outputs.push(Output::Do(effect));
            }
        }
    }

    /// Builds the next append from the reports and from what the owner decides unprompted.
    fn decide(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.flight.is_some() || self.loading {
            return;
        }
        if self.news {
            return self.load(outputs);
        }
        if self.outdated {
            return;
        }
        let mut draft = Draft { job: self.job.clone(), facts: Vec::new(), at: now };
        // First, because the tree was already stopped for this limit: the report that it is empty must not give its end another cause.
        let fired = self.fired.filter(|fired| self.job.runs(fired.attempt)).map(Fact::from);
        if let Err(illegal) = draft.extend(fired) {
            return self.broken(illegal, outputs);
        }
        let mut reports = 0;
        for report in &self.inbox {
            if draft.facts.len() >= BATCH_MAX {
                break;
            }
            reports += 1;
            let facts = observe::decide(&draft.job, &self.fence, report, &self.pulse, now);
            if let Err(illegal) = draft.extend(facts) {
                return self.broken(illegal, outputs);
            }
        }
        if let Err(illegal) = self.decide_unprompted(&mut draft, now) {
            return self.broken(illegal, outputs);
        }
        if draft.facts.is_empty() {
            // Nothing to store: the reports change nothing.
            self.inbox.drain(..reports);
            return;
        }
        self.appends += 1;
        let id = AppendId::of_owner(&self.fence, self.appends);
        match Append::new(&self.job, Some(&self.fence), id, now.wall, draft.facts) {
            Ok((append, after)) => {
                outputs.push(Output::Append(Box::new(append.clone())));
                self.flight = Some(Box::new(Flight { append, after, reports, unanswered: false }));
            }
            Err(illegal) => self.broken(illegal, outputs),
        }
    }

    /// Adds what an owner decides without a report: the end of an attempt on another host, the end of an idle
    /// agent's turn, limits, expired questions, the start of a stop, a launch.
    fn decide_unprompted(&self, draft: &mut Draft, now: Now) -> Result<(), Illegal> {
        let holds = |job: &Job| job.holder.as_ref().is_some_and(|holder| holder.fence == self.fence);
        if !holds(&draft.job) {
            return Ok(());
        }
        draft.extend(take_over::account(&draft.job, &self.host, now.wall))?;
        draft.extend(hear::inactive(&draft.job, &self.pulse, now.awake))?;
        draft.extend(limit::rested(&draft.job, now.awake))?;
        draft.extend(limit::near(&draft.job, &self.pulse, now.awake))?;
        draft.extend(limit::lifted(&draft.job, &self.pulse, now.awake))?;
        draft.extend(limit::fire(&draft.job, &self.pulse, now.awake))?;
        draft.extend(answer::by_rule(&draft.job))?;
        draft.extend(answer::expire(&draft.job, now.wall))?;
        draft.extend(observe::stop_began(&draft.job))?;
        // The facts above may have ended the job.
        if holds(&draft.job) {
            draft.extend(launch::decide(&draft.job, &self.fence, &self.boot).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Gives the job up because its log breaks a rule.
    fn broken(&mut self, illegal: Illegal, outputs: &mut Vec<Output>) {
        self.gone = true;
        outputs.push(Output::Broken(illegal));
    }

    /// Requests the effects that are due on the stored state and were not requested yet.
    fn request_due(&mut self, outputs: &mut Vec<Output>) {
        let mut due = effects::due(&self.job, &self.fence);
        // A launch that may have happened must not happen twice.
        for effect in &mut due {
            if let (Effect::Launch { attempt }, true) = (&*effect, self.unsure) {
                *effect = Effect::Locate { attempt: *attempt };
            }
        }
        self.requested.retain(|requested| due.contains(requested));
        for effect in due {
            if self.busy.is_some() || self.requested.contains(&effect) {
                continue;
            }
            if effect.is_exclusive() {
                self.busy = Some(effect.clone());
            }
            self.requested.push(effect.clone());
            outputs.push(Output::Do(effect));
        }
    }
}

/// Facts for an append, with the job as it would be after them.
struct Draft {
    job: Job,
    facts: Vec<Fact>,
    at: Now,
}

impl Draft {
    /// Adds facts and applies them, so that the next decision sees them.
    fn extend(&mut self, facts: impl IntoIterator<Item = Fact>) -> Result<(), Illegal> {
        for fact in facts {
            let event = Event { seq: self.job.version.next(), at: self.at.wall, fact };
            self.job.apply(&event)?;
            self.facts.push(event.fact);
        }
        Ok(())
    }
}

/// Returns the line to record for a late report, if it says what became of a tree.
fn late_line(report: &Report) -> Option<String> {
    match report {
        Report::Emptied { attempt, receipt } => {
            Some(format!("attempt {attempt}: tree empty, proof {:?}, exit {:?}", receipt.proof, receipt.exit))
        }
        Report::Launched { attempt, tree, .. } => {
            Some(format!("attempt {attempt}: tree launched, pid {} of boot {}", tree.pid, tree.boot))
        }
        Report::LaunchFailed { attempt, error, .. } => {
            Some(format!("attempt {attempt}: not launched: {error}"))
        }
        Report::Located { attempt, .. } => Some(format!("attempt {attempt}: located the tree")),
        Report::Climbed { .. } | Report::Told { .. } | Report::Heard { .. } | Report::Unclear(_) => None,
    }
}
