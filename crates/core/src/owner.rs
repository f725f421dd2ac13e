//! The owner's step: what the holder of a job does between two IOs.
//!
//! A value, not a task: inputs go in, outputs come out, and whoever drives it (the engine, the model, the simulation) does
//! the IO. It decides on what is remembered, remembers before it does, and does only what is due. One append is
//! in flight at a time; a report is kept until the facts that follow from it are stored.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::append::{Append, Illegal};
use crate::decide::{answer, launch, limit, observe, take_over};
use crate::effects::{self, Effect};
use crate::event::{Event, Fact, LimitFired};
use crate::ids::{AppendId, Awake, Fence, HostId, Now, Seq, Timestamp};
use crate::job::Job;
use crate::report::{Pulse, Report, Signal};

/// Facts of reports one append may carry, give or take the last report's. More would only make a single write slower
/// than its neighbours. Reports that add nothing are passed over: the one behind them may be the last.
const BATCH_MAX: usize = 64;

/// Reports kept while the journal does not answer. The recording holds the rest: its reader waits.
const INBOX_MAX: usize = 256;

/// The holder of one job, at one claim of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    fence: Fence,
    host: HostId,
    /// Which boot of it.
    boot: Arc<str>,
    /// The job as it is remembered.
    job: Job,
    /// Reports whose facts are not stored yet.
    inbox: VecDeque<Report>,
    /// The append that has no answer yet.
    flight: Option<Box<Flight>>,
    /// A load that has no answer yet.
    loading: bool,
    /// Somebody else wrote while an append was in flight.
    news: bool,
    /// News could not be read. They are asked for again with the next tick.
    unread: bool,
    /// Effects asked for that are still due.
    asked: Vec<Effect>,
    /// The effect that must report back before another is asked for.
    busy: Option<Effect>,
    /// Whether a launch of ours may have happened without our knowing.
    unsure: bool,
    pulse: Pulse,
    /// A limit that fired and was acted on while the journal was away. It stands, and is stored before any report.
    fired: Option<LimitFired>,
    appends: u32,
    gone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    append: Append,
    after: Job,
    /// Reports of the inbox it takes care of.
    reports: usize,
    /// Whether it must be sent again.
    unanswered: bool,
}

/// What an owner is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// Something came back from the world.
    Report(Report),
    /// The append in flight is durable.
    Stored,
    /// Somebody else wrote first.
    Conflict,
    /// The job is held by somebody else.
    Fenced,
    /// The journal did not answer; the append may be stored or not.
    Unavailable,
    /// The events that were asked for.
    Loaded(Vec<Event>),
    /// Somebody else may have written.
    News,
}

/// What an owner wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Store this. A repeat is the very same append.
    Append(Box<Append>),
    /// Read the events after this one.
    Load {
        /// The newest event that is known.
        after: Seq,
    },
    /// Do this.
    Do(Effect),
    /// The job is not ours any more, or over: touch nothing of it. What was reported too late is to be kept as late.
    LetGo {
        /// One line for each report that found no place.
        late: Vec<String>,
    },
    /// The log breaks a rule: touch nothing, tell a person.
    Broken(Illegal),
}

impl Owner {
    /// Returns the owner of a job that was just claimed under `fence`, from `host` in this `boot` of it.
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
            asked: Vec::new(),
            busy: None,
            unsure: false,
            pulse: Pulse { progress: now.awake, ..Pulse::default() },
            fired: None,
            appends: 0,
            gone: false,
        }
    }

    /// Returns the job as it is remembered.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns what the owner writes under.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Reports whether the owner has let go.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Reports whether an append or a load waits for its answer.
    pub fn waits_for_journal(&self) -> bool {
        self.flight.is_some() || self.loading
    }

    /// Reports whether another report can be taken. The reader of a recording waits while it cannot.
    pub fn has_room(&self) -> bool {
        self.inbox.len() < INBOX_MAX
    }

    /// Returns when the limits of the job must next be checked.
    pub fn next_limit_check(&self) -> Option<Awake> {
        limit::next_check(&self.job, &self.pulse)
    }

    /// Returns when the next unanswered question expires.
    pub fn next_question_expiry(&self) -> Option<Timestamp> {
        answer::next_expiry(&self.job)
    }

    /// Records activity of the agent. It has no effect before the next input.
    pub fn record_activity(&mut self, signal: &Signal, now: Awake) {
        self.pulse.record(signal, now);
    }

    /// Takes one input and returns what is to be done, in order.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Output> {
        let mut outputs = Vec::new();
        // The stall clock rests while a person is asked, and starts anew with the answer.
        if self.job.waits_for_person() {
            self.pulse.progress = self.pulse.progress.max(now.awake);
        }
        if !self.gone {
            self.take(input, now, &mut outputs);
        }
        if !self.gone {
            self.decide(now, &mut outputs);
        }
        if !self.gone {
            self.due(&mut outputs);
        }
        outputs
    }

    fn take(&mut self, input: Input, now: Now, outputs: &mut Vec<Output>) {
        match input {
            Input::Tick => {
                if let Some(flight) = self.flight.as_mut().filter(|flight| flight.unanswered) {
                    flight.unanswered = false;
                    outputs.push(Output::Append(Box::new(flight.append.clone())));
                }
                self.news |= std::mem::take(&mut self.unread);
            }
            Input::Report(report) => self.reported(report, now),
            Input::Stored => {
                if let Some(flight) = self.flight.take() {
                    self.job = flight.after;
                    self.inbox.drain(..flight.reports);
                }
                self.let_go_unless_held(outputs);
            }
            Input::Conflict => {
                self.flight = None;
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
            // Read as soon as nothing is on its way: what is may have been read before this was written.
            Input::News => self.news = true,
        }
    }

    fn reported(&mut self, report: Report, now: Now) {
        match &report {
            Report::Launched { .. } | Report::LaunchFailed { .. } | Report::Located { .. } => {
                self.busy = None
            }
            Report::Unclear(effect) => {
                self.unsure |= matches!(effect, Effect::Launch { .. });
                self.asked.retain(|asked| asked != effect);
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

    fn load(&mut self, outputs: &mut Vec<Output>) {
        self.news = false;
        if !self.loading {
            self.loading = true;
            outputs.push(Output::Load { after: self.job.version });
        }
    }

    fn loaded(&mut self, events: &[Event], outputs: &mut Vec<Output>) {
        self.loading = false;
        let known = self.job.version;
        for event in events.iter().filter(|event| event.seq > known) {
            if let Err(illegal) = self.job.apply(event) {
                return self.broken(illegal, outputs);
            }
        }
        self.let_go_unless_held(outputs);
    }

    /// Lets go when the log says that the job is over or somebody else's.
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

    /// A stop must not wait for a journal that is away, whether it was decided in the append that has no answer or follows
    /// from what was reported or reached since: the keeper notes it and acts.
    fn stop_without_journal(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let Some(flight) = &self.flight else { return };
        let mut draft = Draft { job: flight.after.clone(), facts: Vec::new(), at: now };
        for report in self.inbox.iter().skip(flight.reports) {
            let facts = observe::decide(&draft.job, &self.fence, report, &self.pulse, now);
            // What breaks a rule is told when it is to be stored.
            if draft.extend(facts).is_err() {
                return;
            }
        }
        if draft.extend(limit::fire(&draft.job, &self.pulse, now.awake)).is_err() {
            return;
        }
        let decided = flight.append.events.iter().map(|event| &event.fact).chain(&draft.facts);
        let fired = decided.into_iter().find_map(|fact| match fact {
            Fact::LimitFired(fired) => Some(*fired),
            _ => None,
        });
        self.fired = self.fired.or(fired);
        for effect in effects::due(&draft.job, &self.fence) {
            if matches!(effect, Effect::Stop { .. }) && !self.asked.contains(&effect) {
                outputs.push(Output::Do(effect));
            }
        }
    }

    /// Turns reports, and what is due by itself, into one append.
    fn decide(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.flight.is_some() || self.loading {
            return;
        }
        if self.news {
            return self.load(outputs);
        }
        let mut draft = Draft { job: self.job.clone(), facts: Vec::new(), at: now };
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

    /// Adds what an owner decides without input: the end of an attempt on another host, limits, expired questions, the begin of a
    /// stop, a launch.
    fn decide_unprompted(&self, draft: &mut Draft, now: Now) -> Result<(), Illegal> {
        let holds = |job: &Job| job.holder.as_ref().is_some_and(|holder| holder.fence == self.fence);
        if !holds(&draft.job) {
            return Ok(());
        }
        draft.extend(take_over::account(&draft.job, &self.host, now.wall))?;
        draft.extend(limit::near(&draft.job))?;
        draft.extend(limit::lifted(&draft.job, &self.pulse, now.awake))?;
        draft.extend(limit::fire(&draft.job, &self.pulse, now.awake))?;
        draft.extend(answer::expire(&draft.job, now.wall))?;
        draft.extend(observe::stop_began(&draft.job))?;
        if holds(&draft.job) {
            draft.extend(launch::decide(&draft.job, &self.fence, &self.boot).unwrap_or_default())?;
        }
        Ok(())
    }

    /// What breaks a rule of the fold is told, and nothing is done on the strength of it.
    fn broken(&mut self, illegal: Illegal, outputs: &mut Vec<Output>) {
        self.gone = true;
        outputs.push(Output::Broken(illegal));
    }

    /// Asks for what is due on the remembered state and was not asked for yet.
    fn due(&mut self, outputs: &mut Vec<Output>) {
        let mut due = effects::due(&self.job, &self.fence);
        for effect in &mut due {
            if let (Effect::Launch { attempt }, true) = (&*effect, self.unsure) {
                *effect = Effect::Locate { attempt: *attempt };
            }
        }
        self.asked.retain(|asked| due.contains(asked));
        for effect in due {
            if self.busy.is_some() || self.asked.contains(&effect) {
                continue;
            }
            if effect.is_exclusive() {
                self.busy = Some(effect.clone());
            }
            self.asked.push(effect.clone());
            outputs.push(Output::Do(effect));
        }
    }
}

/// Facts on their way into an append, with the job as they would leave it.
struct Draft {
    job: Job,
    facts: Vec<Fact>,
    at: Now,
}

impl Draft {
    fn extend(&mut self, facts: impl IntoIterator<Item = Fact>) -> Result<(), Illegal> {
        for fact in facts {
            let event = Event { seq: self.job.version.next(), at: self.at.wall, fact };
            self.job.apply(&event)?;
            self.facts.push(event.fact);
        }
        Ok(())
    }
}

/// Returns what is worth keeping of a report that came too late.
fn late_line(report: &Report) -> Option<String> {
    match report {
        Report::Emptied { attempt, receipt } => {
            Some(format!("attempt {attempt}: tree empty, proof {:?}, exit {:?}", receipt.proof, receipt.exit))
        }
        Report::Launched { attempt, tree, .. } => {
            Some(format!("attempt {attempt}: tree launched, pid {} of boot {}", tree.pid, tree.boot))
        }
        Report::LaunchFailed { attempt, error } => Some(format!("attempt {attempt}: not launched: {error}")),
        Report::Located { attempt, .. } => Some(format!("attempt {attempt}: looked for the tree")),
        Report::Climbed { .. } | Report::Told { .. } | Report::Heard { .. } | Report::Unclear(_) => None,
    }
}
