//! `hear`: what the agent says about its session and its turns, whatever its dialect.
//!
//! A turn changes the conversation with the fact that ends it and only if it completed: a wish to stop or a limit that
//! got there first ends it without a trace in the conversation. What was spent stays spent.

use super::limit;
use crate::event::{
    Fact, ItemCompleted, QuestionAsked, QuestionClosed, SessionChanged, SessionStarted, SessionState, Spent,
    TurnEnded, TurnEnding, TurnStarted,
};
use crate::ids::{Now, TurnNo};
use crate::job::Job;
use crate::outcome::Cause;
use crate::report::{Pulse, Signal};

/// Characters kept of a line for people: a question, a title, an error.
const LINE_CHARS_MAX: usize = 2_000;

/// Questions open at once. An agent that asks more without an answer is not asking a person.
const QUESTIONS_MAX: usize = 64;

/// Returns the facts that follow from a signal heard up to `offset` of the open attempt's recording.
pub fn decide(job: &Job, offset: u64, signal: &Signal, pulse: &Pulse, now: Now) -> Vec<Fact> {
    let session = job.open_attempt().zip(job.session.as_ref());
    let session = session.filter(|(attempt, session)| attempt.no == session.attempt);
    let session = session.map(|(_, session)| session);
    match signal {
        Signal::Progress | Signal::Wrote { .. } | Signal::ToolStarted | Signal::ToolEnded => Vec::new(),
        Signal::SessionStarted { reference, resumed_from } => {
            started(job, offset, reference.as_deref(), resumed_from.as_deref())
        }
        // Everything below belongs to a session of this attempt.
        _ if session.is_none() => Vec::new(),
        Signal::SessionChanged { state, background } => changed(job, offset, *state, *background),
        Signal::TurnStarted => turn_started(job, offset, pulse, now),
        Signal::QuestionAsked { question, text } => match session {
            // A question outside a turn, or one too many, waits for nobody.
            Some(session) if session.active.is_some() && session.questions.len() < QUESTIONS_MAX => {
                vec![QuestionAsked { offset, question: line(question), text: line(text) }.into()]
            }
            _ => Vec::new(),
        },
        Signal::QuestionClosed { question } => {
            let open =
                session.is_some_and(|session| session.questions.iter().any(|open| open.id == *question));
            if open { vec![QuestionClosed { offset, question: question.clone() }.into()] } else { Vec::new() }
        }
        Signal::ItemCompleted { title } => vec![ItemCompleted { offset, title: line(title) }.into()],
        Signal::Spent(usage) => vec![Spent { offset, usage: *usage }.into()],
        Signal::TurnEnded { ending, error, commit } => match job.active_turn() {
            // No ghost turn: what has ended does not end again.
            None => Vec::new(),
            Some(turn) => {
                let limit = limit::fire(job, pulse, now.awake);
                // A turn that has ended spends no more: there is nothing to hold still.
                let limit = limit.filter(|fact| matches!(fact, Fact::LimitFired(_)));
                let ending = settle(job, turn, *ending, limit.as_ref());
                let completed = ending == TurnEnding::Completed;
                let commit = completed.then(|| commit.clone());
                let error = error.as_deref().map(line);
                let ended = TurnEnded { offset, turn, ending, error, commit };
                limit.into_iter().chain([ended.into()]).collect()
            }
        },
    }
}

/// Returns how a turn really ended, given what is in the log and on the clocks when the agent says so.
fn settle(job: &Job, turn: TurnNo, said: TurnEnding, limit: Option<&Fact>) -> TurnEnding {
    let interrupted = job.session.as_ref().is_some_and(|session| session.interrupt == Some(turn));
    match (job.stop.as_ref().map(|stop| stop.cause), limit) {
        (Some(Cause::Limit(limit)), _) => TurnEnding::OverLimit(limit),
        (Some(_), _) => TurnEnding::Cancelled,
        (None, Some(Fact::LimitFired(fired))) => TurnEnding::OverLimit(fired.limit),
        _ if interrupted => TurnEnding::Interrupted,
        // Only the log knows these; an agent that claims one has given its turn up.
        _ if matches!(said, TurnEnding::Cancelled | TurnEnding::OverLimit(_) | TurnEnding::Interrupted) => {
            TurnEnding::Aborted
        }
        _ => said,
    }
}

fn started(job: &Job, offset: u64, reference: Option<&str>, resumed_from: Option<&str>) -> Vec<Fact> {
    let Some(attempt) = job.open_attempt() else { return Vec::new() };
    // A start notice in mid-turn changes nothing.
    if job.active_turn().is_some() {
        return Vec::new();
    }
    let (reference, resumed_from) = (reference.map(line), resumed_from.map(line));
    vec![SessionStarted { attempt: attempt.no, offset, reference, resumed_from }.into()]
}

fn changed(job: &Job, offset: u64, state: SessionState, background: u32) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    if let Some(turn) = job.active_turn().filter(|_| !state.may_hold_turn()) {
        let said = match state {
            SessionState::Errored => TurnEnding::RuntimeError,
            SessionState::Stopped => TurnEnding::AgentExit,
            _ => TurnEnding::Aborted,
        };
        let ending = settle(job, turn, said, None);
        let error = Some("the session went inactive before the turn ended".to_owned());
        facts.push(TurnEnded { offset, turn, ending, error, commit: None }.into());
    }
    facts.push(SessionChanged { offset, state, background }.into());
    facts
}

fn turn_started(job: &Job, offset: u64, pulse: &Pulse, now: Now) -> Vec<Fact> {
    // A wish to stop is sticky: no further turn begins.
    if job.stop.is_some() {
        return Vec::new();
    }
    let turn = job.turns.next();
    if let Some(fired) = limit::fire_at_turn(job, pulse, now.awake, turn) {
        return vec![fired];
    }
    let mut facts: Vec<Fact> = Vec::new();
    if let Some(active) = job.active_turn() {
        let ending = settle(job, active, TurnEnding::Superseded, None);
        facts.push(TurnEnded { offset, turn: active, ending, error: None, commit: None }.into());
    }
    facts.push(TurnStarted { offset, turn }.into());
    facts
}

fn line(text: &str) -> String {
    text.chars().take(LINE_CHARS_MAX).collect()
}
