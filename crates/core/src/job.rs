//! A job as its log tells it: phases with their data. The fold that moves them is in `job/`.
//!
//! The fold is the only writer of these types. It refuses what cannot follow, so a log that was
//! written by a broken owner is found on the next read and not believed.

mod asked;
mod fold;
mod heard;
mod owned;

use std::sync::Arc;

use crate::event::{AttemptEnded, LastWord, SessionState, Usage};
use crate::ids::{AttemptNo, Awake, Epoch, Fence, HostId, InputNo, JobId, Seq, Timestamp, TurnNo};
use crate::limits::{Limit, Limits};
use crate::outcome::Cause;
use crate::receipt::{Proof, Rung, Tree};
use crate::session::Session;
use crate::spec::{Dependency, Spec};

/// A job, folded from its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Its newest event.
    pub version: Seq,
    /// When that was decided.
    pub updated_at: Timestamp,
    /// When the first was decided.
    pub submitted_at: Timestamp,
    /// What was asked; `None` until it was.
    pub spec: Option<Arc<Spec>>,
    /// Where it stands.
    pub phase: Phase,
    /// Who holds it.
    pub holder: Option<Holder>,
    /// How often it was claimed.
    pub epoch: Epoch,
    /// Limits in force.
    pub limits: Limits,
    /// Why it is to stop. The first reason stands.
    pub stop: Option<Stop>,
    /// Why everything of it holds still.
    pub pause: Option<Pause>,
    /// Limits that were said to be near, with what they allowed then.
    pub neared: Vec<(Limit, u64)>,
    /// Every try, in order.
    pub attempts: Vec<Attempt>,
    /// Jobs it still waits for.
    pub unmet: Vec<Dependency>,
    /// The agent's session, of the newest attempt that had one.
    pub session: Option<Session>,
    /// Turns begun, over all attempts.
    pub turns: TurnNo,
    /// Inputs asked for and not yet delivered.
    pub inputs: Vec<PendingInput>,
    /// The number of the newest input.
    pub inputs_made: InputNo,
    /// Whether its input was closed, or will be after what waits.
    pub input_closed: bool,
    /// Tokens and money spent, over all attempts, by completed turns and others alike.
    pub usage: Usage,
    /// Late reports that were kept.
    pub late: u32,
    /// Whether a person gave up on the host of the open attempt.
    pub abandoned: bool,
    /// Whether the log holds a fact this build cannot read.
    pub foreign: bool,
}

/// Where a job stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was ever written.
    Unborn,
    /// Waits for its first attempt.
    Queued {
        /// Why.
        waits: Waits,
    },
    /// An attempt is intended; whether its tree exists is not known yet.
    Launching,
    /// The tree is there.
    Running,
    /// A stop was asked for, and something may still be alive.
    Stopping {
        /// Since when.
        since: Timestamp,
        /// The last rung climbed.
        rung: Option<Rung>,
        /// Processes alive at that rung.
        alive: Option<u32>,
    },
    /// Waits for the next attempt.
    Backoff {
        /// Until when.
        until: Timestamp,
    },
    /// Over.
    Ended(LastWord),
}

/// Why a queued job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waits {
    /// For somebody to take it.
    Slot,
    /// For other jobs.
    Dependencies,
    /// For a moment.
    Until(Timestamp),
}

/// Who holds a job, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// What its writes are checked against.
    pub fence: Fence,
    /// Where its trees are.
    pub host: HostId,
}

/// Why a job is to stop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stop {
    /// The reason.
    pub cause: Cause,
    /// When it was asked for or fired.
    pub requested_at: Timestamp,
    /// Who asked, if somebody did.
    pub by: Option<String>,
    /// Straight to the last rung.
    pub force: bool,
    /// When the owner began, if it did.
    pub began_at: Option<Timestamp>,
}

/// Why everything of a job holds still: a limit was reached, and a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pause {
    /// Which limit.
    pub limit: Limit,
    /// What was measured.
    pub measured: u64,
    /// What was allowed.
    pub allowed: u64,
    /// Since when.
    pub since: Timestamp,
    /// The same, by the awake clock of its host.
    pub awake: Awake,
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    /// Its number.
    pub no: AttemptNo,
    /// The claim under which it is owned.
    pub epoch: Epoch,
    /// Where its tree is, if there is one.
    pub host: HostId,
    /// Which boot of that host it was intended in; `None` in a log of an older build.
    pub boot: Option<Arc<str>>,
    /// Its tree, once seen.
    pub tree: Option<Tree>,
    /// When the tree was launched, by the awake clock of its host.
    pub launched: Option<Awake>,
    /// When its tree was first known to be there, by the wall clock.
    pub started_at: Option<Timestamp>,
    /// When it was known to have ended, by the wall clock.
    pub ended_at: Option<Timestamp>,
    /// How far the recording was heard.
    pub heard: u64,
    /// The newest turn before it began: its own are those after.
    pub turns_before: TurnNo,
    /// Turns of this attempt that completed.
    pub turns_completed: u32,
    /// Whether it was ever made to hold still: then it must be known to go on.
    pub was_paused: bool,
    /// How it ended.
    pub end: Option<Arc<AttemptEnded>>,
}

/// Something to be said to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingInput {
    /// Its number.
    pub no: InputNo,
    /// What it answers, if it is an answer.
    pub question: Option<String>,
    /// What.
    pub text: String,
    /// Nothing more comes after it.
    pub eof: bool,
    /// Into the turn that is under way.
    pub steer: bool,
}

impl Job {
    /// Returns the job nothing was written about yet. Start and recovery both begin here.
    pub fn unborn(id: JobId) -> Job {
        Job {
            id,
            version: Seq(0),
            updated_at: Timestamp(0),
            submitted_at: Timestamp(0),
            spec: None,
            phase: Phase::Unborn,
            holder: None,
            epoch: Epoch(0),
            limits: Limits::default(),
            stop: None,
            pause: None,
            neared: Vec::new(),
            attempts: Vec::new(),
            unmet: Vec::new(),
            session: None,
            turns: TurnNo(0),
            inputs: Vec::new(),
            inputs_made: InputNo(0),
            input_closed: false,
            usage: Usage::default(),
            late: 0,
            abandoned: false,
            foreign: false,
        }
    }

    /// Returns the attempt that may have a live tree.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.end.is_none())
    }

    /// Reports whether this attempt runs and nobody asked for its stop.
    pub(crate) fn runs(&self, no: AttemptNo) -> bool {
        matches!(self.phase, Phase::Running) && self.open_attempt().is_some_and(|attempt| attempt.no == no)
    }

    /// Returns the last word, once it was spoken.
    pub fn last_word(&self) -> Option<&LastWord> {
        match &self.phase {
            Phase::Ended(last_word) => Some(last_word),
            _ => None,
        }
    }

    /// Reports whether the job is over.
    pub fn is_ended(&self) -> bool {
        self.last_word().is_some()
    }

    /// Reports whether a person gave up on the host of this job.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Reports whether any process of this job may ever have been started: a tree was seen, or an attempt ended without
    /// the proof that there was none.
    pub fn has_begun(&self) -> bool {
        self.attempts.iter().any(|attempt| match &attempt.end {
            Some(end) => attempt.tree.is_some() || end.receipt.proof != Proof::NeverStarted,
            None => attempt.tree.is_some(),
        })
    }

    /// Returns the turn that is active in the session.
    pub fn active_turn(&self) -> Option<TurnNo> {
        self.session.as_ref().and_then(|session| session.active)
    }

    /// Reports whether the job runs an agent that reports how its turns end.
    pub fn reports_turns(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.work.reports_turns())
    }

    /// Returns the inputs that may be said. Of those that begin a turn it is one at a time, and only when it is decided what the end
    /// of the turn before it means.
    pub fn inputs_due(&self) -> impl Iterator<Item = &PendingInput> {
        let next = self.next_prompt().map(|input| input.no);
        self.inputs.iter().filter(move |input| !self.begins_turn(input) || next == Some(input.no))
    }

    /// Returns the input that begins the next turn, if it may begin now. The first turn of an attempt begins with its prompt.
    fn next_prompt(&self) -> Option<&PendingInput> {
        let begun = u64::from(self.turns.0);
        let has_room = self.limits.get(Limit::Turns).is_none_or(|turns| begun < turns);
        let is_first = self.open_attempt().is_none_or(|attempt| attempt.turns_before == self.turns);
        let may_begin = has_room && !is_first && self.active_turn().is_none();
        self.inputs.iter().find(|input| may_begin && self.begins_turn(input))
    }

    /// Reports whether an input waits that begins a turn.
    pub fn wants_turn(&self) -> bool {
        self.active_turn().is_none() && self.inputs.iter().any(|input| self.begins_turn(input))
    }

    fn begins_turn(&self, input: &PendingInput) -> bool {
        let can_be_steered = self.spec.as_ref().is_some_and(|spec| spec.work.can_be_steered());
        let steers = input.steer && can_be_steered && self.active_turn().is_some();
        self.reports_turns() && input.question.is_none() && !steers
    }

    /// Reports whether the job waits for a person.
    pub fn waits_for_person(&self) -> bool {
        let asks = self.session.as_ref().is_some_and(Session::has_open_question);
        matches!(self.phase, Phase::Running) && (asks || self.pause.is_some())
    }

    /// Returns from when on the job may be claimed by anyone; `None` while it may not.
    pub fn due(&self) -> Option<Timestamp> {
        match self.phase {
            _ if self.holder.is_some() => None,
            Phase::Queued { waits: Waits::Slot } => Some(self.submitted_at),
            Phase::Queued { waits: Waits::Until(moment) } => Some(moment),
            Phase::Backoff { until } => Some(until),
            _ => None,
        }
    }

    /// Returns the state of the session, if there is one.
    pub fn session_state(&self) -> Option<SessionState> {
        self.session.as_ref().map(|session| session.state)
    }
}
