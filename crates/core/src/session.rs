//! An agent's session and its turns, as the log tells them.
//!
//! Questions and usage count as they happen; the conversation changes only when a turn completes.

use crate::event::{Commit, SessionStarted, SessionState, TurnEnded, TurnEnding};
use crate::ids::{AttemptNo, Timestamp, TurnNo};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// The attempt it lives in.
    pub attempt: AttemptNo,
    /// The provider's name for it.
    pub reference: Option<String>,
    /// What it goes on from.
    pub resumed_from: Option<String>,
    /// Its state.
    pub state: SessionState,
    /// The turn it works on.
    pub active: Option<TurnNo>,
    /// The turn a person wants interrupted.
    pub interrupt: Option<TurnNo>,
    /// What the agent keeps going outside turns.
    pub background: u32,
    /// Questions that wait for an answer, or whose answer is on its way.
    pub questions: Vec<Question>,
    /// The conversation, as completed turns left it.
    pub conversation: Commit,
    /// The last turn's ending.
    pub last_turn: Option<(TurnNo, TurnEnding)>,
    /// What was said to be wrong with it.
    pub last_error: Option<String>,
}

/// A question of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// The agent's name for it.
    pub id: String,
    /// What it asks.
    pub text: String,
    /// When it asked.
    pub asked_at: Timestamp,
    /// Whether somebody answered.
    pub answered: bool,
}

impl Session {
    /// Returns the session that `started` begins. Within one attempt the conversation goes on.
    pub(crate) fn started(started: &SessionStarted, before: Option<Session>) -> Session {
        let resumed = started.resumed_from.is_some();
        let same_attempt = |session: &Session| session.attempt == started.attempt;
        let conversation = before
            .filter(|session| resumed || same_attempt(session))
            .map(|session| session.conversation)
            .unwrap_or_default();
        Session {
            attempt: started.attempt,
            reference: started.reference.clone(),
            resumed_from: started.resumed_from.clone(),
            state: SessionState::Starting,
            active: None,
            interrupt: None,
            background: 0,
            questions: Vec::new(),
            conversation,
            last_turn: None,
            last_error: None,
        }
    }

    /// Returns the reference a resume may use: only one that a completed turn acknowledged.
    pub fn resume_reference(&self) -> Option<&str> {
        self.conversation.resume.as_deref()
    }

    /// Reports whether a question waits for an answer.
    pub fn has_open_question(&self) -> bool {
        self.open_questions().next().is_some()
    }

    /// Returns the questions that wait for an answer.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| !question.answered)
    }

    /// Reports whether nothing goes on: no turn, nothing in the background.
    pub fn is_settled(&self) -> bool {
        self.active.is_none() && self.background == 0 && !self.state.may_hold_turn()
    }

    pub(crate) fn begin(&mut self, turn: TurnNo) -> Result<(), &'static str> {
        if self.active.is_some() {
            return Err("another turn is active");
        }
        self.active = Some(turn);
        self.state = SessionState::Running;
        Ok(())
    }

    pub(crate) fn end_turn(&mut self, ended: &TurnEnded) -> Result<(), &'static str> {
        if self.active != Some(ended.turn) {
            return Err("that turn is not active");
        }
        match (ended.ending, &ended.commit) {
            (TurnEnding::Completed, Some(commit)) => self.commit(commit),
            (TurnEnding::Completed, None) | (_, None) => {}
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
        self.active = None;
        self.interrupt = None;
        self.change(state, self.background);
        Ok(())
    }

    fn commit(&mut self, commit: &Commit) {
        let conversation = &mut self.conversation;
        conversation.messages = conversation.messages.saturating_add(commit.messages);
        conversation.transcript = conversation.transcript.max(commit.transcript);
        conversation.denials.extend(commit.denials.iter().cloned());
        conversation.usage.add(commit.usage);
        if commit.resume.is_some() {
            conversation.resume.clone_from(&commit.resume);
        }
    }

    /// Goes into another state. One that may not hold a turn holds none, whoever asked.
    pub(crate) fn change(&mut self, state: SessionState, background: u32) {
        self.state = state;
        self.background = background;
        if !state.may_hold_turn() {
            self.active = None;
            self.interrupt = None;
            self.questions.clear();
        }
    }

    /// The attempt is over, and everything in it.
    pub(crate) fn over(&mut self, errored: bool) {
        let state = match self.state {
            SessionState::Errored => SessionState::Errored,
            _ if errored => SessionState::Errored,
            _ => SessionState::Stopped,
        };
        self.change(state, 0);
    }

    pub(crate) fn ask(&mut self, id: &str, text: &str, asked_at: Timestamp) {
        let (id, text) = (id.to_owned(), text.to_owned());
        self.questions.push(Question { id, text, asked_at, answered: false });
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
