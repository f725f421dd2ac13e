//! A job as folded from its log: phases with their data. The fold is in `job/`.
//!
//! Only the fold writes these types. It refuses facts that cannot follow, so the damage of a broken owner is found on the next read.

mod agent;
mod conversation;
mod family;
mod fold;
mod owner;
mod provider_wait;
mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conversation::{Position, Spending};
use crate::event::{AttemptEnded, LastWord, Paused, SessionState, TurnEnding, Usage};
use crate::ids::{AttemptNo, Awake, Epoch, Fence, HostId, InputNo, JobId, OwnerId, Seq, Timestamp, TurnNo};
use crate::limits::{Clock, Limit, Limits};
use crate::outcome::Cause;
use crate::provider;
use crate::question::{self, Reply, StandingRule};
use crate::receipt::{Proof, Rung, Tree};
use crate::session::Session;
use crate::spec::{Dependency, Spec, Work};

/// A job, folded from its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The number of its newest event.
    pub version: Seq,
    /// When the newest event was decided, late reports aside.
    pub updated_at: Timestamp,
    /// When its state last changed, as lists are ordered: whether it waits, is with a worker, is being stopped or has ended; whether it waits
    /// for a person, and whether its agent works.
    pub changed_at: Timestamp,
    /// When the first event was decided.
    pub submitted_at: Timestamp,
    /// Since when it waits for a slot: since its submission, unless the clock was wrong then, or since a message came for its idle agent.
    pub queued_at: Timestamp,
    /// Its spec; `None` before the submission.
    pub spec: Option<Arc<Spec>>,
    /// Its phase.
    pub phase: Phase,
    /// Its holder.
    pub holder: Option<Holder>,
    /// The number of its newest claim.
    pub epoch: Epoch,
    /// The current limits.
    pub limits: Limits,
    /// The current labels.
    pub labels: BTreeMap<String, String>,
    /// What it said of its own work, if it ever did.
    pub said: Option<Box<Said>>,
    /// Why it is to stop. The first reason counts.
    pub stop: Option<Stop>,
    /// Why its tree is frozen.
    pub pause: Option<Pause>,
    /// Limits that were reported as near, with their values at the time.
    pub neared: Vec<(Limit, u64)>,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
    /// Dependencies that have not ended.
    pub unmet: Vec<Dependency>,
    /// The agent's session in the newest attempt that had one.
    pub session: Option<Session>,
    /// Its agent is open between turns: it waits for a message and holds no slot.
    pub idle: bool,
    /// Turns begun, over all attempts.
    pub turns: TurnNo,
    /// Questions asked, over all attempts.
    pub questions_asked: u32,
    /// What a person allowed for the rest of the job.
    pub rules: Vec<StandingRule>,
    /// Rules made, removed ones included.
    pub rules_made: u32,
    /// Inputs not delivered yet.
    pub inputs: Vec<PendingInput>,
    /// The number of the newest input.
    pub inputs_made: InputNo,
    /// Whether its input is closed, or will be after the pending inputs.
    pub input_closed: bool,
    /// Tokens and money spent, over all attempts, by completed turns and others alike.
    pub usage: Usage,
    /// Awake milliseconds that ended turns took, without those in which a person was asked.
    pub active_ms: u64,
    /// The same of ended attempts.
    pub ran_ms: u64,
    /// Its place in a conversation that another job began.
    pub position: Option<Position>,
    /// What the jobs of its conversation before it used up.
    pub spent_before: Spending,
    /// The job as which its conversation goes on.
    pub continued_by: Option<JobId>,
    /// The jobs that processes of this one submitted and that have not ended.
    pub children: Vec<Child>,
    /// Those that ended because this one did.
    pub children_stopped: Vec<JobId>,
    /// How it waits for its provider, or tries it again.
    pub provider_wait: Option<Box<provider::Wait>>,
    /// How its next or open attempt goes on after its provider refused to answer.
    pub again: Option<Box<provider::Again>>,
    /// What the newest turn was told, of a job that may have to say it again.
    pub told: Option<Box<provider::Told>>,
    /// The number of late reports recorded.
    pub late: u32,
    /// Whether a user gave up on the host of the open attempt.
    pub abandoned: bool,
    /// Whether the log has a fact that this build cannot read.
    pub foreign: bool,
}

/// The phase of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The log is empty.
    Unborn,
    /// It waits for its first attempt.
    Queued {
        /// What it waits for.
        waits: Waits,
    },
    /// An attempt is intended; whether its tree exists is unknown.
    Launching,
    /// Its tree is running.
    Running,
    /// A stop was requested, and processes may still be alive.
    Stopping {
        /// When it was requested.
        since: Timestamp,
        /// The last rung reached.
        rung: Option<Rung>,
        /// Processes alive at that rung.
        alive: Option<u32>,
    },
    /// It waits for its next attempt.
    Backoff {
        /// When that is due.
        until: Timestamp,
    },
    /// Nothing of it runs, and jobs that are tied to it have not ended. Then this is its last word.
    Awaiting(LastWord),
    /// It has ended.
    Ended(LastWord),
}

/// What a queued job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waits {
    /// A claim, which needs a free slot.
    Slot,
    /// Its dependencies.
    Dependencies,
    /// A point in time.
    Until(Timestamp),
}

/// The owner that holds a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The fence that its writes are checked against.
    pub fence: Fence,
    /// The host of its trees.
    pub host: HostId,
}

/// Why a job is to stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    /// The cause.
    pub cause: Cause,
    /// When the stop was requested, or the limit fired.
    pub requested_at: Timestamp,
    /// The requester, if there is one.
    pub by: Option<String>,
    /// Skip to the last rung.
    pub force: bool,
    /// When the owner began to stop the tree.
    pub began_at: Option<Timestamp>,
    /// The agent had completed its last turn by then, and nothing was left to do.
    pub after_work: bool,
}

/// What a job said of its own work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Said {
    /// How far the newest attempt said it is.
    pub progress: Option<Progress>,
    /// The result that the newest attempt reported.
    pub result: Option<Arc<str>>,
    /// Reports of progress and results, over all attempts.
    pub reports: u32,
    /// Those of them that had a result.
    pub results: u32,
}

/// How far a job said it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Progress {
    /// How far it is, in one line. Written by a process of the job: do not trust it.
    pub text: String,
    /// When it said so.
    pub at: Timestamp,
}

/// A pause: a limit was reached, the tree is frozen, and a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pause {
    /// The limit.
    pub limit: Limit,
    /// The measured value.
    pub measured: u64,
    /// The allowed value.
    pub allowed: u64,
    /// When it began.
    pub since: Timestamp,
    /// When it began, by the awake clock of the host.
    pub awake: Awake,
    /// Whether a person denied a higher limit.
    pub is_denied: bool,
}

impl Pause {
    /// Returns the pause that began with a fact.
    pub fn new(since: Timestamp, paused: &Paused) -> Pause {
        let &Paused { limit, measured, allowed, awake, .. } = paused;
        Pause { limit, measured, allowed, since, awake, is_denied: false }
    }

    /// Returns the name by which its question is answered: `tokens-7k2m`.
    pub fn name(&self) -> String {
        let Pause { limit, measured, allowed, since, .. } = self;
        question::limit_name(*limit, &format!("{measured} of {allowed} at {}", since.0))
    }
}

/// An attempt to do the job's work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Its number.
    pub no: AttemptNo,
    /// The claim that intended or adopted it.
    pub epoch: Epoch,
    /// The owner that made that claim: its host has the output.
    pub owner: OwnerId,
    /// The host of its tree.
    pub host: HostId,
    /// The boot of that host; `None` in logs of older builds.
    pub boot: Option<Arc<str>>,
    /// Its tree, once it was seen.
    pub tree: Option<Tree>,
    /// When the tree was started, by the awake clock of the host.
    pub launched: Option<Awake>,
    /// When the tree was first known to run, by the wall clock.
    pub started_at: Option<Timestamp>,
    /// When its end was recorded, by the wall clock.
    pub ended_at: Option<Timestamp>,
    /// The offset up to which the recording was heard.
    pub heard: u64,
    /// The newest turn before this attempt.
    pub turns_before: TurnNo,
    /// Completed turns of this attempt.
    pub turns_completed: u32,
    /// Whether it was ever paused. If so, the keeper must be told to thaw the tree.
    pub was_paused: bool,
    /// Since when a person is asked, by the awake clock. The clocks of the limits rest meanwhile.
    pub asked: Option<Awake>,
    /// Awake milliseconds in which a person was asked before.
    pub rested_ms: u64,
    /// Its provider refused to answer, which is no try of the job.
    pub was_refused: bool,
    /// How it ended.
    pub end: Option<Arc<AttemptEnded>>,
}

impl Attempt {
    /// Returns how long a person was asked by `now`.
    fn rests_ms(&self, now: Awake) -> u64 {
        let asked = self.asked.map_or(0, |asked| now.0.saturating_sub(asked.0));
        self.rested_ms.saturating_add(asked)
    }

    /// Returns how long it has run by `now`, without the time in which a person was asked.
    pub(crate) fn ran_ms(&self, now: Awake) -> Option<u64> {
        let since = now.0.saturating_sub(self.launched?.0);
        Some(since.saturating_sub(self.rests_ms(now)))
    }
}

/// A job that a process of another one submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    /// Its id.
    pub job: JobId,
    /// Whether it ends with the other one.
    pub tied: bool,
}

/// An input that is not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingInput {
    /// Its number.
    pub no: InputNo,
    /// The question it answers, if it is an answer.
    pub question: Option<String>,
    /// The input.
    pub text: String,
    /// The answer, if it is one.
    pub reply: Option<Reply>,
    /// Close the input after it.
    pub eof: bool,
    /// For the active turn.
    pub steer: bool,
}

impl Job {
    /// Returns a job with an empty log. Start and recovery both begin here.
    pub fn unborn(id: JobId) -> Job {
        Job {
            id,
            version: Seq(0),
            updated_at: Timestamp(0),
            changed_at: Timestamp(0),
            submitted_at: Timestamp(0),
            queued_at: Timestamp(0),
            spec: None,
            phase: Phase::Unborn,
            holder: None,
            epoch: Epoch(0),
            limits: Limits::default(),
            labels: BTreeMap::new(),
            said: None,
            stop: None,
            pause: None,
            neared: Vec::new(),
            attempts: Vec::new(),
            unmet: Vec::new(),
            session: None,
            idle: false,
            turns: TurnNo(0),
            questions_asked: 0,
            rules: Vec::new(),
            rules_made: 0,
            inputs: Vec::new(),
            inputs_made: InputNo(0),
            input_closed: false,
            usage: Usage::default(),
            active_ms: 0,
            ran_ms: 0,
            position: None,
            spent_before: Spending::default(),
            continued_by: None,
            children: Vec::new(),
            children_stopped: Vec::new(),
            provider_wait: None,
            again: None,
            told: None,
            late: 0,
            abandoned: false,
            foreign: false,
        }
    }

    /// Returns the job as a person calls it: by its name, if it has one, and its short id.
    pub fn called(&self) -> String {
        self.id.called(self.spec.as_ref().and_then(|spec| spec.name.as_deref()))
    }

    /// Returns the attempt that may have a live tree.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.end.is_none())
    }

    /// Reports whether this attempt runs and is not being stopped.
    pub(crate) fn runs(&self, no: AttemptNo) -> bool {
        matches!(self.phase, Phase::Running) && self.open_attempt().is_some_and(|attempt| attempt.no == no)
    }

    /// Returns the last word, if the job has ended.
    pub fn last_word(&self) -> Option<&LastWord> {
        match &self.phase {
            Phase::Ended(last_word) => Some(last_word),
            _ => None,
        }
    }

    /// Reports whether the job has ended.
    pub fn is_ended(&self) -> bool {
        self.last_word().is_some()
    }

    /// Reports whether a user gave up on the host of this job.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Reports whether any process of this job may have been started: a tree was seen, or an attempt ended without proof that there was
    /// none.
    pub fn has_begun(&self) -> bool {
        self.attempts.iter().any(|attempt| match &attempt.end {
            Some(end) => attempt.tree.is_some() || end.receipt.proof != Proof::NeverStarted,
            None => attempt.tree.is_some(),
        })
    }

    /// Reports whether the model answered in the active or last turn of the newest attempt.
    pub fn has_answer(&self) -> bool {
        let newest = self.attempts.last().map(|attempt| attempt.no);
        self.session.as_ref().is_some_and(|session| session.answered && Some(session.attempt) == newest)
    }

    /// Returns how far its newest attempt said it is.
    pub fn progress(&self) -> Option<&Progress> {
        self.said.as_ref()?.progress.as_ref()
    }

    /// Returns the result that its newest attempt reported.
    pub fn result(&self) -> Option<&str> {
        self.said.as_ref()?.result.as_deref()
    }

    /// Returns the active turn.
    pub fn active_turn(&self) -> Option<TurnNo> {
        self.session.as_ref().and_then(|session| session.active)
    }

    /// Returns the name of its agent.
    pub fn provider(&self) -> Option<&str> {
        match &self.spec.as_ref()?.work {
            Work::Agent { provider, .. } => Some(provider),
            Work::Command { .. } => None,
        }
    }

    /// Reports whether the job runs an agent that reports how its turns end.
    pub fn reports_turns(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.work.reports_turns())
    }

    /// Reports whether the agent of the newest attempt has completed its last turn and has no inputs left.
    pub(crate) fn has_completed_turns(&self) -> bool {
        let newest = self.attempts.last().map(|attempt| attempt.no);
        let session = self.session.as_ref().filter(|session| Some(session.attempt) == newest);
        let completed = |session: &Session| {
            session.active.is_none() && matches!(session.last_turn, Some((_, TurnEnding::Completed)))
        };
        session.is_some_and(completed) && self.inputs.is_empty()
    }

    /// Reports whether an agent has nothing left to do: its turns are completed, and it runs nothing in the background.
    pub(crate) fn is_idle_agent(&self) -> bool {
        let background = self.session.as_ref().is_some_and(|session| session.background > 0);
        // One that stays open may have a message by now, and not have begun its turn.
        self.reports_turns() && self.has_completed_turns() && !background && (self.idle || !self.stays_open())
    }

    /// Reports whether an agent has done all that it was given, so that its input is closed and it ends. It can be told nothing more.
    pub(crate) fn is_finished_agent(&self) -> bool {
        let Some(attempt) = self.open_attempt().filter(|_| !self.stays_open()) else { return false };
        let session = self.session.as_ref().filter(|session| session.attempt == attempt.no);
        let is_ready = |session: &Session| session.state == SessionState::Ready && session.is_settled();
        session.is_some_and(is_ready) && attempt.turns_completed > 0 && self.inputs.is_empty()
    }

    /// Returns the inputs that may be delivered now. An input that begins a turn must wait until the turn before it has ended and its end
    /// is stored.
    pub fn inputs_due(&self) -> impl Iterator<Item = &PendingInput> {
        let next = self.next_prompt().map(|input| input.no);
        self.inputs.iter().filter(move |input| !self.begins_turn(input) || next == Some(input.no))
    }

    /// Returns the input that begins the next turn, if it may begin now. The first turn of an attempt begins with the job's own prompt.
    fn next_prompt(&self) -> Option<&PendingInput> {
        let begun = u64::from(self.spending().turns);
        let has_room = self.limits.get(Limit::Turns).is_none_or(|turns| begun < turns);
        let is_first = self.open_attempt().is_none_or(|attempt| attempt.turns_before == self.turns);
        // An idle agent needs a slot first.
        let may_begin = has_room && !is_first && !self.idle && self.active_turn().is_none();
        self.inputs.iter().find(|input| may_begin && self.begins_turn(input))
    }

    /// Reports whether a pending input will begin a turn.
    pub fn wants_turn(&self) -> bool {
        self.active_turn().is_none() && self.inputs.iter().any(|input| self.begins_turn(input))
    }

    fn begins_turn(&self, input: &PendingInput) -> bool {
        let can_be_steered = self.spec.as_ref().is_some_and(|spec| spec.work.can_be_steered());
        let steers = input.steer && can_be_steered && self.active_turn().is_some();
        self.reports_turns() && input.question.is_none() && !steers
    }

    /// Reports whether its agent stays open between turns.
    pub fn stays_open(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.stays_open)
    }

    /// Reports whether the job waits for a person.
    pub fn waits_for_person(&self) -> bool {
        let asks = self.session.as_ref().is_some_and(Session::has_open_question);
        matches!(self.phase, Phase::Running) && (asks || self.pause.is_some())
    }

    /// Returns how long the active turn has taken by `now`, without the time in which a person was asked.
    pub(crate) fn turn_ms(&self, now: Awake) -> Option<u64> {
        let (attempt, clock) = (self.open_attempt()?, self.session.as_ref()?.clock?);
        let rested = attempt.rests_ms(now).saturating_sub(clock.rested_ms);
        Some(now.0.saturating_sub(clock.began.0).saturating_sub(rested))
    }

    /// Returns how much of the wall clock the attempts that ended have left.
    pub fn wall_left(&self) -> Option<u64> {
        Some(self.limits.get(Limit::Wall)?.saturating_sub(self.ran_ms))
    }

    /// Returns the deadline of an attempt for its keeper; `None` while a person is asked.
    pub(crate) fn keeper_deadline(&self, attempt: &Attempt) -> Option<Awake> {
        let since = attempt.launched.filter(|_| attempt.asked.is_none())?;
        let clock = Clock { since: since.plus_ms(attempt.rested_ms), before_ms: self.ran_ms };
        Some(clock.reaches(self.limits.get(Limit::Wall)?))
    }

    /// Returns when the job may be claimed; `None` while it may not.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            // Its holder may claim a slot for it.
            _ if self.idle => self.wants_turn().then_some(self.queued_at),
            _ if self.holder.is_some() => None,
            Phase::Queued { waits: Waits::Slot } => Some(self.queued_at),
            Phase::Queued { waits: Waits::Until(at) } => Some(at),
            // Its account decides when it may try.
            Phase::Backoff { .. } if self.provider_wait.as_ref().is_some_and(|wait| !wait.is_opened) => None,
            Phase::Backoff { until } => Some(until),
            _ => None,
        }
    }

    /// Returns the state of the session, if there is one.
    pub fn session_state(&self) -> Option<SessionState> {
        self.session.as_ref().map(|session| session.state)
    }
}
