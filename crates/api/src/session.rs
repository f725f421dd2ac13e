//! The conversation of an agent, as a job tells it.

use lastword_core::event::Event;
use lastword_core::job;
use lastword_core::view::session::{OpenQuestion, SessionView, TurnView, turns};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{SessionState, TurnEnding};
use crate::usage::Usage;

/// The conversation of an agent, in the newest attempt that had one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Where it stands.
    pub state: SessionState,
    /// The attempt it lives in.
    pub attempt: u32,
    /// The turn it works on.
    pub active_turn: Option<u32>,
    /// Every turn of the job, in order.
    pub turns: Vec<Turn>,
    /// Questions that wait for an answer.
    pub questions: Vec<Question>,
    /// The agent's own name for it.
    pub reference: Option<String>,
    /// The conversation it goes on from.
    pub resumed_from: Option<String>,
    /// What another job can go on from; absent until a turn was completed.
    pub resume_reference: Option<String>,
    /// What the agent keeps going outside turns.
    pub background: u32,
    /// Messages in it, as completed turns left them.
    pub messages: u32,
    /// What the agent was not allowed to do, in completed turns.
    pub denials: Vec<String>,
    /// What completed turns used, by the agent's own account. What was spent in all is in the job.
    pub usage: Usage,
}

/// One turn: from a prompt to its settling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// Its number in the job, from one.
    pub turn: u32,
    /// In which attempt.
    pub attempt: u32,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// How it ended; absent while it is active.
    pub ending: Option<TurnEnding>,
    /// What went wrong.
    pub error: Option<String>,
}

/// A question of an agent that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// The agent's name for it.
    pub id: String,
    /// What it asks. Text of the agent, not to be trusted.
    pub text: String,
    /// When it asked.
    pub asked_at: Time,
    /// When it is denied, if nobody answers before.
    pub expires_at: Option<Time>,
}

impl Session {
    /// Returns the session of a job, if it ever had one.
    pub(crate) fn of(job: &job::Job, events: &[Event]) -> Option<Session> {
        let view = SessionView::of(job)?;
        Some(Session {
            state: view.state.into(),
            attempt: view.attempt.0,
            active_turn: view.active.map(|turn| turn.0),
            turns: turns(events).into_iter().map(Turn::of).collect(),
            questions: view.open_questions.into_iter().map(Question::of).collect(),
            reference: view.reference,
            resumed_from: view.resumed_from,
            resume_reference: view.resume,
            background: view.background,
            messages: view.conversation.messages,
            denials: view.conversation.denials,
            usage: Usage::of(view.conversation.usage),
        })
    }
}

impl Turn {
    fn of(view: TurnView) -> Turn {
        let (ended_at, how) = view.ended.map(|end| (end.at.into(), (end.ending, end.error))).unzip();
        let (ending, error) = how.unzip();
        Turn {
            turn: view.turn.0,
            attempt: view.attempt.0,
            started_at: view.started_at.into(),
            ended_at,
            ending: ending.map(TurnEnding::from),
            error: error.flatten(),
        }
    }
}

impl Question {
    fn of(open: OpenQuestion) -> Question {
        Question {
            id: open.id,
            text: open.text,
            asked_at: open.asked_at.into(),
            expires_at: open.expires_at.map(Time::from),
        }
    }
}
