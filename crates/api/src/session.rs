//! The session of an agent.

use lastword_core::decide::resume;
use lastword_core::event::Event;
use lastword_core::job;
use lastword_core::question::{Ask, AskKind, Choice, Part};
use lastword_core::view::session::{OpenQuestion, SessionView, TurnView, turns};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{SessionState, TurnEnding, Unfinished};
use crate::paused::Paused;
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
    /// Questions without an answer: those of the agent, and the one at a limit.
    pub questions: Vec<Question>,
    /// The agent's name for it.
    pub reference: Option<String>,
    /// The conversation it resumes.
    pub resumed_from: Option<String>,
    /// The reference that another job can resume; absent until a turn has completed.
    pub resume_reference: Option<String>,
    /// What becomes of turns that did not complete when the conversation goes on; absent if there are none after its last completed turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
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
    /// Whether the agent itself ended the turn when it was told to, instead of being killed. Absent if it was not told to, or if version
    /// 0.1.0 recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<bool>,
}

/// A question of an agent, or at a limit, that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Question {
    /// The name by which it is answered. It depends on everything that is asked: show all of it to a person before the name is used.
    pub id: String,
    /// The agent's own id of it; the same as `id` at a limit.
    pub agent_id: String,
    /// The kind of answer it needs; absent if version 0.1.0 recorded it.
    pub kind: Option<QuestionKind>,
    /// Its text, in one line, which may be cut. Written by the agent, like all that follows: do not trust it.
    pub text: String,
    /// The tool that is to be used, by the agent's name for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// The complete request: a command, a diff, or the arguments of a tool. Empty if there is no more than the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// What of it cannot be shown, and why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacks: String,
    /// What a person is asked, one by one. None for a permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<QuestionPart>,
    /// What is used up, for the kind `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<QuestionLimit>,
    /// When it was asked.
    pub asked_at: Time,
    /// When it expires and is denied. At a limit, that stops the job.
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
            questions: open_questions(job, view.open_questions),
            reference: view.reference,
            resumed_from: view.resumed_from,
            resume_reference: view.resume,
            unfinished: resume::source(job)
                .unfinished
                .filter(|_| view.active.is_none())
                .map(Unfinished::from),
            background: view.background,
            messages: view.conversation.messages,
            denials: view.conversation.denials,
            usage: Usage::of(view.conversation.usage),
        })
    }
}

/// Returns the questions of the agent, and the one at a limit.
fn open_questions(job: &job::Job, of_agent: Vec<OpenQuestion>) -> Vec<Question> {
    let at_limit = Paused::of(job).map(|paused| Question::at_limit(&paused));
    of_agent.into_iter().map(Question::of).chain(at_limit).collect()
}

/// Returns the text of the question at a limit.
pub(crate) fn used_up(limit: &str, measured: u64, allowed: u64) -> String {
    // The turn that exceeds the limit is counted, but has not begun.
    let used = if limit == "turns" { measured.min(allowed) } else { measured };
    format!("the {} limit is used up: {used} of {allowed}", limit.replace('_', " "))
}

impl Turn {
    fn of(view: TurnView) -> Turn {
        let ended = view.ended;
        Turn {
            turn: view.turn.0,
            attempt: view.attempt.0,
            started_at: view.started_at.into(),
            ended_at: ended.as_ref().map(|end| end.at.into()),
            ending: ended.as_ref().map(|end| end.ending.into()),
            acknowledged: ended.as_ref().and_then(|end| end.acknowledged),
            error: ended.and_then(|end| end.error),
        }
    }
}

impl Question {
    /// Returns the question that a pause at a limit is.
    pub(crate) fn at_limit(paused: &Paused) -> Question {
        let Paused { limit, measured, allowed, question, since, until } = paused.clone();
        Question {
            id: question.clone(),
            agent_id: question,
            kind: Some(QuestionKind::Limit),
            text: used_up(&limit, measured, allowed),
            tool: String::new(),
            request: String::new(),
            lacks: String::new(),
            parts: Vec::new(),
            limit: Some(QuestionLimit { limit, measured, allowed }),
            asked_at: since,
            expires_at: Some(until),
        }
    }

    fn of(open: OpenQuestion) -> Question {
        let ask = open.ask.map(|ask| *ask);
        let kind = ask.as_ref().map(|ask| ask.kind.into());
        let ask = ask.unwrap_or_else(|| Ask::permission("", ""));
        Question {
            id: open.name,
            agent_id: open.id,
            kind,
            text: open.text,
            tool: ask.tool,
            request: ask.request,
            lacks: ask.lacks,
            parts: ask.parts.into_iter().map(QuestionPart::of).collect(),
            limit: None,
            asked_at: open.asked_at.into(),
            expires_at: open.expires_at.map(Time::from),
        }
    }
}

/// The kind of answer that a question needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// It is allowed or denied.
    Permission,
    /// One of several options is chosen, or several of them, or words are given instead.
    Choice,
    /// It is answered in words.
    Text,
    /// A limit is used up and the job is paused. It is answered with a higher limit, as `money=`, `tokens=` and so on take it, or denied.
    Limit,
}

impl From<AskKind> for QuestionKind {
    fn from(kind: AskKind) -> QuestionKind {
        match kind {
            AskKind::Permission => QuestionKind::Permission,
            AskKind::Choice => QuestionKind::Choice,
            AskKind::Text => QuestionKind::Text,
        }
    }
}

/// A limit that is used up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuestionLimit {
    /// The limit.
    pub limit: String,
    /// The measured value.
    pub measured: u64,
    /// The allowed value.
    pub allowed: u64,
}

/// One of the things that a question asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuestionPart {
    /// Its text.
    pub text: String,
    /// What can be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<QuestionOption>,
    /// Whether several can be chosen; they are given with a comma between them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub several: bool,
}

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuestionOption {
    /// Its name, which is the answer.
    pub label: String,
    /// What it means.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl QuestionPart {
    fn of(part: Part) -> QuestionPart {
        let option = |choice: Choice| QuestionOption { label: choice.label, description: choice.description };
        let options = part.options.into_iter().map(option).collect();
        QuestionPart { text: part.text, options, several: part.several }
    }
}
