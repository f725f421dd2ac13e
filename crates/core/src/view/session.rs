//! The session view: what readers see of the agent's conversation.
//!
//! It is folded from the same log as the job, so the two always agree.

use serde::{Deserialize, Serialize};

use crate::decide::answer;
use crate::event::{Commit, Event, Fact, SessionState, TurnEnding};
use crate::ids::{AttemptNo, JobId, Seq, Timestamp, TurnNo};
use crate::job::Job;
use crate::question::Ask;

/// An agent's session in the newest attempt that had one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionView {
    /// The job.
    pub job: JobId,
    /// The version of the job.
    pub version: Seq,
    /// Its attempt.
    pub attempt: AttemptNo,
    /// Its state.
    pub state: SessionState,
    /// The active turn.
    pub active: Option<TurnNo>,
    /// The agent's name for it.
    pub reference: Option<String>,
    /// The conversation it resumes.
    pub resumed_from: Option<String>,
    /// The reference that a resume may use, which only a completed turn provides.
    pub resume: Option<String>,
    /// Processes or tasks of the agent that run outside a turn.
    pub background: u32,
    /// Whether the agent is idle: no turn, nothing in the background.
    pub settled: bool,
    /// Questions without an answer.
    pub open_questions: Vec<OpenQuestion>,
    /// The conversation after the last completed turn.
    pub conversation: Commit,
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The agent's id of the question.
    pub id: String,
    /// The name by which a person answers it.
    pub name: String,
    /// Its text, in one line. Written by the agent: do not trust it.
    pub text: String,
    /// All that is asked; `None` if 0.1.0 recorded it.
    pub ask: Option<Box<Ask>>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it expires and is denied.
    pub expires_at: Option<Timestamp>,
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnView {
    /// Its number.
    pub turn: TurnNo,
    /// Its attempt.
    pub attempt: AttemptNo,
    /// When it began.
    pub started_at: Timestamp,
    /// How it ended; `None` while it is active.
    pub ended: Option<TurnEnd>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnEnd {
    /// When it ended.
    pub at: Timestamp,
    /// How it ended.
    pub ending: TurnEnding,
    /// The error, if any.
    pub error: Option<String>,
    /// Whether the agent itself ended it when it was told to; `None` if it was not told to, or it is not known.
    pub acknowledged: Option<bool>,
}

impl SessionView {
    /// Returns the session of a job, if it ever had one.
    pub fn of(job: &Job) -> Option<SessionView> {
        let session = job.session.as_ref()?;
        let open = session.open_questions().map(|question| OpenQuestion {
            id: question.id.clone(),
            name: question.name.clone(),
            text: question.text.clone(),
            ask: question.ask.clone(),
            asked_at: question.asked_at,
            expires_at: answer::expires_at(job, question),
        });
        Some(SessionView {
            job: job.id,
            version: job.version,
            attempt: session.attempt,
            state: session.state,
            active: session.active,
            reference: session.reference.clone(),
            resumed_from: session.resumed_from.clone(),
            resume: session.resume_reference().map(str::to_owned),
            background: session.background,
            settled: session.is_settled(),
            open_questions: open.collect(),
            conversation: session.conversation.clone(),
        })
    }
}

/// Returns the turns in a log, in order. The log must be valid.
pub fn turns<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<TurnView> {
    let mut turns: Vec<TurnView> = Vec::new();
    let mut attempt = AttemptNo(0);
    for event in events {
        match &event.fact {
            Fact::LaunchIntended(intent) => attempt = intent.attempt,
            Fact::TurnStarted(started) => {
                turns.push(TurnView { turn: started.turn, attempt, started_at: event.at, ended: None });
            }
            Fact::TurnEnded(ended) => {
                if let Some(turn) = turns.iter_mut().rfind(|turn| turn.turn == ended.turn) {
                    let (ending, error, acknowledged) =
                        (ended.ending, ended.error.clone(), ended.acknowledged);
                    turn.ended = Some(TurnEnd { at: event.at, ending, error, acknowledged });
                }
            }
            _ => {}
        }
    }
    turns
}
