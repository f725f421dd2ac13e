//! The session of an agent.

use lastword_core::event::Event;
use lastword_core::job;
use lastword_core::view::session::{OpenQuestion, SessionView, TurnView, turns};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{SessionState, TurnEnding};
use crate::usage::Usage;

/// The session of an agent, in the newest attempt that had one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Its state.
    pub state: SessionState,
    /// Its attempt.
    pub attempt: u32,
    /// The active turn.
    pub active_turn: Option<u32>,
    /// All turns of the job, in order.
    pub turns: Vec<Turn>,
    /// Questions without an answer.
    pub questions: Vec<Question>,
    /// The agent's name for it.
    pub reference: Option<String>,
    /// The conversation it resumes.
    pub resumed_from: Option<String>,
    /// The reference that another job can resume; absent until a turn has completed.
    pub resume_reference: Option<String>,
    /// The number of processes or tasks of the agent that run outside a turn.
    pub background: u32,
    /// The number of messages in completed turns.
    pub messages: u32,
    /// Tool uses that were denied in completed turns.
    pub denials: Vec<String>,
    /// Usage of completed turns as the agent reports it. The job's own total is in `spent`.
    pub usage: Usage,
}

/// A turn of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// Its number in the job, from one.
    pub turn: u32,
    /// Its attempt.
    pub attempt: u32,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// How it ended; absent while it is active.
    pub ending: Option<TurnEnding>,
    /// The error, if any.
    pub error: Option<String>,
}

/// A question of an agent that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// The agent's id of the question.
    pub id: String,
    /// Its text. Written by the agent: do not trust it.
    pub text: String,
    /// When it was asked.
    pub asked_at: Time,
    /// When it expires and is denied.
    pub expires_at: Option<Time>,
}

impl Session {
    /// Returns the session of a job, if it ever had one.
    pub(crate) fn of(job: &job::Job, events: &[&Event]) -> Option<Session> {
        let view = SessionView::of(job)?;
        Some(Session {
            state: view.state.into(),
            attempt: view.attempt.0,
            active_turn: view.active.map(|turn| turn.0),
            turns: turns(events.iter().copied()).into_iter().map(Turn::of).collect(),
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
