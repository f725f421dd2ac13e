//! The session view: what a reader sees of the agent's conversation.
//!
//! One fold over the same log as everything else, so a turn that ended is ended here in the same read as the job.

use serde::{Deserialize, Serialize};

use crate::decide::answer;
use crate::event::{Commit, Event, Fact, SessionState, TurnEnding};
use crate::ids::{AttemptNo, JobId, Seq, Timestamp, TurnNo};
use crate::job::Job;

/// An agent's session, of the newest attempt that had one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionView {
    /// Whose.
    pub job: JobId,
    /// The job's newest event when this was made.
    pub version: Seq,
    /// The attempt it lives in.
    pub attempt: AttemptNo,
    /// Its state.
    pub state: SessionState,
    /// The turn it works on.
    pub active: Option<TurnNo>,
    /// The provider's name for it.
    pub reference: Option<String>,
    /// What it goes on from.
    pub resumed_from: Option<String>,
    /// The reference a resume may use: only one that a completed turn acknowledged.
    pub resume: Option<String>,
    /// Processes or tasks of the agent that go on outside a turn.
    pub background: u32,
    /// Whether nothing goes on, so that it may be reaped.
    pub settled: bool,
    /// Questions that wait for an answer.
    pub open_questions: Vec<OpenQuestion>,
    /// The conversation, as completed turns left it.
    pub conversation: Commit,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenQuestion {
    /// The agent's name for it.
    pub id: String,
    /// What it asks. Text of the agent, not to be trusted.
    pub text: String,
    /// When it asked.
    pub asked_at: Timestamp,
    /// When it is denied, if nobody answers before.
    pub expires_at: Option<Timestamp>,
}

/// One turn, from its start to its settling.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnView {
    /// Which.
    pub turn: TurnNo,
    /// In which attempt.
    pub attempt: AttemptNo,
    /// When it began.
    pub started_at: Timestamp,
    /// How it ended; `None` while it is active.
    pub ended: Option<TurnEnd>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnEnd {
    /// When.
    pub at: Timestamp,
    /// How.
    pub ending: TurnEnding,
    /// What the agent said about it.
    pub error: Option<String>,
}

impl SessionView {
    /// Returns the session of a job, if it ever had one.
    pub fn of(job: &Job) -> Option<SessionView> {
        let session = job.session.as_ref()?;
        let open = session.open_questions().map(|question| OpenQuestion {
            id: question.id.clone(),
            text: question.text.clone(),
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

/// Returns every turn of a log, in order. The log is one that folds to a job.
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
                    let (ending, error) = (ended.ending, ended.error.clone());
                    turn.ended = Some(TurnEnd { at: event.at, ending, error });
                }
            }
            _ => {}
        }
    }
    turns
}
