//! An agent's session and its turns, as folded from the log.
//!
//! Questions and usage count as they happen; the conversation changes only when a turn completes.

use crate::event::{Commit, QuestionAsked, SessionStarted, SessionState, TurnEnded, TurnEnding};
use crate::ids::{AttemptNo, Awake, Timestamp, TurnNo};
use crate::provider::Refused;
use crate::question::Ask;

/// Characters of what an agent did last. It is shown in a line of a list.
const DID_CHARS_MAX: usize = 120;

/// An agent's session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Its attempt.
    pub attempt: AttemptNo,
    /// The agent's name for it.
    pub reference: Option<String>,
    /// The conversation it resumes.
    pub resumed_from: Option<String>,
    /// Its state.
    pub state: SessionState,
    /// The active turn.
    pub active: Option<TurnNo>,
    /// When the active turn began; `None` if 0.1.0 recorded it.
    pub clock: Option<TurnClock>,
    /// Since when it waits for a message after a turn was interrupted, by the awake clock.
    pub idle: Option<Awake>,
    /// The turn that is to be interrupted.
    pub interrupt: Option<TurnNo>,
    /// Processes or tasks of the agent that run outside a turn.
    pub background: u32,
    /// Questions without an answer, or whose answer is not delivered yet.
    pub questions: Vec<Question>,
    /// The conversation after the last completed turn.
    pub conversation: Commit,
    /// When its last turn was completed, if that was in this session.
    pub completed_at: Option<Timestamp>,
    /// The agent's record may hold a turn after that, which did not complete.
    pub has_unfinished: bool,
    /// It held one already when the active or last turn began.
    pub had_unfinished: bool,
    /// The first of those began in the second in which the completed turn ended.
    pub in_same_second: bool,
    /// Its model answered in the active or last turn.
    pub answered: bool,
    /// Its provider refused to answer in the active or last turn: why, and until when if it said so.
    pub refused: Option<(Refused, Option<Timestamp>)>,
    /// What the agent did last, in the active turn: the title of the item, as far as a list has room for it.
    pub did: Option<Box<str>>,
    /// The last turn and how it ended.
    pub last_turn: Option<(TurnNo, TurnEnding)>,
    /// The error of the last turn.
    pub last_error: Option<String>,
}

/// When a turn began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurnClock {
    /// By the awake clock.
    pub began: Awake,
    /// How long the clocks of the attempt had rested by then.
    pub rested_ms: u64,
}

/// A question that an agent asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The agent's id of the question.
    pub id: String,
    /// The name by which a person answers it.
    pub name: String,
    /// The text of the question, in one line.
    pub text: String,
    /// All that is asked; `None` if 0.1.0 recorded it.
    pub ask: Option<Box<Ask>>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// Whether it was answered.
    pub answered: bool,
}

impl Session {
    /// Returns the session that `started` begins. It keeps the conversation of a session that it resumes or follows in the same attempt.
    /// `keeps_unfinished`: a record that it resumes holds a turn that did not complete, and the agent was not told to forget it.
    pub(crate) fn started(
        started: &SessionStarted,
        before: Option<Session>,
        keeps_unfinished: bool,
    ) -> Session {
        let resumed = started.resumed_from.is_some();
        let same_attempt = |session: &Session| session.attempt == started.attempt;
        let before = before.filter(|session| resumed || same_attempt(session));
        let (has_unfinished, in_same_second) = match &before {
            Some(session) if same_attempt(session) => (session.has_unfinished, session.in_same_second),
            _ => (resumed && keeps_unfinished, false),
        };
        let conversation = before.map(|session| session.conversation).unwrap_or_default();
        Session {
            attempt: started.attempt,
            reference: started.reference.clone(),
            resumed_from: started.resumed_from.clone(),
            state: SessionState::Starting,
            active: None,
            clock: None,
            idle: None,
            interrupt: None,
            background: 0,
            questions: Vec::new(),
            conversation,
            completed_at: None,
            has_unfinished,
            had_unfinished: false,
            in_same_second,
            answered: false,
            refused: None,
            did: None,
            last_turn: None,
            last_error: None,
        }
    }

    /// Returns the reference that a resume may use, which only a completed turn provides.
    pub fn resume_reference(&self) -> Option<&str> {
        self.conversation.resume.as_deref()
    }

    /// Reports whether a question is open.
    pub fn has_open_question(&self) -> bool {
        self.open_questions().next().is_some()
    }

    /// Returns the questions without an answer.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| !question.answered)
    }

    /// Reports whether the agent is idle: no turn, nothing in the background.
    pub fn is_settled(&self) -> bool {
        self.active.is_none() && self.background == 0 && !self.state.may_hold_turn()
    }

    /// Reports whether the agent works on nothing and can be given a message: it is ready, or was interrupted.
    pub fn rests(&self) -> bool {
        self.is_settled() && matches!(self.state, SessionState::Ready | SessionState::Interrupted)
    }

    pub(crate) fn begin(
        &mut self,
        turn: TurnNo,
        at: Timestamp,
        clock: Option<TurnClock>,
    ) -> Result<(), &'static str> {
        if self.active.is_some() {
            return Err("another turn is active");
        }
        (self.active, self.clock, self.idle) = (Some(turn), clock, None);
        (self.answered, self.refused, self.did) = (false, None, None);
        self.had_unfinished = std::mem::replace(&mut self.has_unfinished, true);
        if !self.had_unfinished {
            self.in_same_second = self.completed_at.is_some_and(|ended| at.0 / 1_000 <= ended.0 / 1_000);
        }
        self.state = SessionState::Running;
        Ok(())
    }

    pub(crate) fn end_turn(&mut self, at: Timestamp, ended: &TurnEnded) -> Result<(), &'static str> {
        if self.active != Some(ended.turn) {
            return Err("that turn is not active");
        }
        match (ended.ending, &ended.commit) {
            (TurnEnding::Completed, Some(commit)) => self.commit(at, commit),
            (_, None) => {}
            (_, Some(_)) => return Err("only a completed turn changes the conversation"),
        }
        self.last_turn = Some((ended.turn, ended.ending));
        self.last_error.clone_from(&ended.error);
        let state = match ended.ending {
            TurnEnding::Completed | TurnEnding::Superseded => SessionState::Ready,
            TurnEnding::Interrupted | TurnEnding::Aborted | TurnEnding::Cancelled => {
                SessionState::Interrupted
            }
            TurnEnding::OverLimit(_) => SessionState::Stopped,
            TurnEnding::Failed
            | TurnEnding::Refused
            | TurnEnding::Limited
            | TurnEnding::AgentExit
            | TurnEnding::RuntimeError => SessionState::Errored,
        };
        (self.active, self.clock, self.idle, self.did) = (None, None, ended.awake, None);
        self.interrupt = None;
        self.change(state, self.background);
        Ok(())
    }

    fn commit(&mut self, at: Timestamp, commit: &Commit) {
        let conversation = &mut self.conversation;
        conversation.messages = conversation.messages.saturating_add(commit.messages);
        conversation.transcript = conversation.transcript.max(commit.transcript);
        conversation.denials.extend(commit.denials.iter().cloned());
        conversation.usage.add(commit.usage);
        if commit.resume.is_some() {
            conversation.resume.clone_from(&commit.resume);
        }
        conversation.mark.clone_from(&commit.mark);
        (self.completed_at, self.has_unfinished) = (Some(at), false);
    }

    /// Changes the state. A state that does not allow a turn ends it and closes the questions.
    pub(crate) fn change(&mut self, state: SessionState, background: u32) {
        self.state = state;
        self.background = background;
        if !state.may_hold_turn() {
            (self.active, self.clock, self.did) = (None, None, None);
            self.interrupt = None;
            self.questions.clear();
        }
    }

    /// Ends the session with its attempt.
    pub(crate) fn end(&mut self, errored: bool) {
        let state = match self.state {
            SessionState::Errored => SessionState::Errored,
            _ if errored => SessionState::Errored,
            _ => SessionState::Stopped,
        };
        self.change(state, 0);
    }

    /// Notes what the agent did, if it works on a turn.
    pub(crate) fn note_item(&mut self, title: &str) {
        self.did = self.active.map(|_| title.chars().take(DID_CHARS_MAX).collect::<String>().into());
    }

    pub(crate) fn ask(&mut self, asked: &QuestionAsked, asked_at: Timestamp) {
        let name = if asked.name.is_empty() { &asked.question } else { &asked.name };
        self.questions.push(Question {
            id: asked.question.clone(),
            name: name.clone(),
            text: asked.text.clone(),
            ask: asked.ask.clone(),
            asked_at,
            answered: false,
        });
    }

    pub(crate) fn close_question(&mut self, id: &str) {
        self.questions.retain(|question| question.id != id);
    }

    pub(crate) fn answer(&mut self, id: &str) -> Result<(), &'static str> {
        let question = self.questions.iter_mut().find(|question| question.id == id);
        question.map(|question| question.answered = true).ok_or("that question is not open")
    }

    pub(crate) fn interrupt(&mut self, turn: TurnNo) -> Result<(), &'static str> {
        if self.active != Some(turn) {
            return Err("that turn is not active");
        }
        self.interrupt = Some(turn);
        Ok(())
    }
}
