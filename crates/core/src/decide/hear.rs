//! `hear`: what a signal of the agent means for its session and turns, in any dialect.
//!
//! Only a completed turn changes the conversation, with the fact that ends it. A stop or a limit that came first ends the turn without
//! changing the conversation; its usage counts anyway.
//!
//! An agent that says it works on nothing has ended its turn, with or without the message that should say so. That message is waited for
//! for a moment, because agents send it just after.

use super::limit;
use crate::event::{
    Fact, ItemCompleted, ProviderRefused, QuestionAsked, QuestionClosed, SessionChanged, SessionStarted,
    SessionState, Spent, TurnEnded, TurnEnding, TurnStarted, Usage,
};
use crate::ids::{Awake, Now, TurnNo};
use crate::job::Job;
use crate::limits::Limit;
use crate::outcome::Cause;
use crate::provider::Reset;
use crate::question;
use crate::report::{Pulse, Signal};

/// Characters kept of a question, a title or an error.
const LINE_CHARS_MAX: usize = 2_000;

/// Questions open at once. More cannot be meant for a person.
const QUESTIONS_MAX: usize = 64;

/// Milliseconds between the word of an agent that it works on nothing and the end of its turn, unless the agent ends it first.
pub const SETTLE_MS: u64 = 5_000;

/// Returns the facts that follow from a signal at `offset` of the open attempt's recording.
pub fn decide(job: &Job, offset: u64, signal: &Signal, pulse: &Pulse, now: Now) -> Vec<Fact> {
    let facts = follow(job, offset, signal, pulse, now);
    facts.into_iter().map(|fact| with_time(job, fact, now.awake)).collect()
}

/// Adds the time from which on the agent waits for a message, if it does.
fn waits_from(job: &Job, ended: TurnEnded, now: Awake) -> TurnEnded {
    let waits = match ended.ending {
        TurnEnding::Interrupted => true,
        TurnEnding::Completed => job.stays_open(),
        _ => false,
    };
    let awake = waits.then_some(now);
    TurnEnded { awake, ..ended }
}

/// Adds to the end of the active turn how long that took.
fn with_time(job: &Job, mut fact: Fact, now: Awake) -> Fact {
    if let Fact::TurnEnded(ended) = &mut fact
        && job.active_turn() == Some(ended.turn)
    {
        ended.active_ms = job.turn_ms(now);
    }
    fact
}

fn follow(job: &Job, offset: u64, signal: &Signal, pulse: &Pulse, now: Now) -> Vec<Fact> {
    let session = job.open_attempt().zip(job.session.as_ref());
    let session = session.filter(|(attempt, session)| attempt.no == session.attempt);
    let session = session.map(|(_, session)| session);
    match signal {
        Signal::SessionStarted { reference, resumed_from } => {
            started(job, offset, reference.as_deref(), resumed_from.as_deref())
        }
        Signal::Unopened { error } if session.is_none() => unopened(job, offset, error, now),
        // All other signals need a session of this attempt.
        _ if session.is_none() => Vec::new(),
        Signal::Progress
        | Signal::Wrote { .. }
        | Signal::ToolStarted
        | Signal::ToolEnded
        | Signal::Active
        | Signal::Inactive { .. }
        | Signal::Unopened { .. } => Vec::new(),
        Signal::SessionChanged { state, background } => changed(job, offset, *state, *background, now),
        Signal::TurnStarted => turn_started(job, offset, pulse, now),
        Signal::QuestionAsked { question, text, ask, .. } => match session {
            // A question outside a turn, or one too many, is ignored.
            Some(session) if session.active.is_some() && session.questions.len() < QUESTIONS_MAX => {
                let (text, number) = (line(text), job.questions_asked + 1);
                let name = question::name(number, &text, ask);
                let (question, ask) = (line(question), Some(ask.clone()));
                let awake = Some(now.awake);
                vec![QuestionAsked { offset, question, name, text, ask, awake }.into()]
            }
            _ => Vec::new(),
        },
        Signal::QuestionClosed { question } => {
            let open =
                session.is_some_and(|session| session.questions.iter().any(|open| open.id == *question));
            if open { vec![QuestionClosed { offset, question: question.clone() }.into()] } else { Vec::new() }
        }
        // What a turn still does when it has ended is no part of it.
        Signal::ItemCompleted { .. } if job.reports_turns() && job.active_turn().is_none() => Vec::new(),
        Signal::ItemCompleted { title } => vec![ItemCompleted { offset, title: line(title) }.into()],
        Signal::Spent(usage) => vec![Spent { offset, usage: *usage, overcounted_micros: 0 }.into()],
        Signal::Overcounted { money_micros } => {
            vec![Spent { offset, usage: Usage::default(), overcounted_micros: *money_micros }.into()]
        }
        Signal::Unpriced { model } => unpriced(job, offset, model, pulse),
        Signal::ProviderRefused { why, reset } if job.active_turn().is_some() => {
            let until = match *reset {
                Reset::Unknown => None,
                Reset::At(until) => Some(until),
                Reset::After(ms) => Some(now.wall.plus_ms(ms)),
            };
            vec![ProviderRefused { offset, why: *why, until }.into()]
        }
        Signal::ProviderRefused { .. } => Vec::new(),
        Signal::TurnEnded { ending: reported, error, commit } => match job.active_turn() {
            // A turn ends once.
            None => Vec::new(),
            Some(turn) => {
                let limit = limit::fire(job, pulse, now.awake);
                // An ended turn spends no more, so there is nothing to pause.
                let limit = limit.filter(|fact| matches!(fact, Fact::LimitFired(_)));
                let ending = settle(job, turn, *reported, limit.as_ref());
                let completed = ending == TurnEnding::Completed;
                let commit = completed.then(|| commit.clone());
                let error = error.as_deref().map(line);
                let acknowledged = acknowledges(*reported, ending);
                let (awake, active_ms) = (None, None);
                let ended = TurnEnded { offset, turn, ending, error, commit, acknowledged, awake, active_ms };
                let ended = waits_from(job, ended, now.awake);
                limit.into_iter().chain([ended.into()]).collect()
            }
        },
    }
}

/// Returns how a turn ended: the log and the limits take precedence over what the agent reports.
fn settle(job: &Job, turn: TurnNo, reported: TurnEnding, limit: Option<&Fact>) -> TurnEnding {
    let interrupted = job.session.as_ref().is_some_and(|session| session.interrupt == Some(turn));
    match (job.stop.as_ref().map(|stop| stop.cause), limit) {
        (Some(Cause::Limit(limit)), _) => TurnEnding::OverLimit(limit),
        (Some(_), _) => TurnEnding::Cancelled,
        (None, Some(Fact::LimitFired(fired))) => TurnEnding::OverLimit(fired.limit),
        _ if interrupted => TurnEnding::Interrupted,
        // Only the log can decide these; an agent that reports one gave its turn up.
        _ if matches!(
            reported,
            TurnEnding::Cancelled | TurnEnding::OverLimit(_) | TurnEnding::Interrupted
        ) =>
        {
            TurnEnding::Aborted
        }
        _ => reported,
    }
}

/// Returns whether the agent itself ended a turn that it was told to end. One that died first did not.
fn acknowledges(reported: TurnEnding, ending: TurnEnding) -> Option<bool> {
    match reported {
        _ if !ending.was_told() => None,
        TurnEnding::Aborted | TurnEnding::Interrupted | TurnEnding::Cancelled => Some(true),
        TurnEnding::AgentExit | TurnEnding::RuntimeError => Some(false),
        // It ended in another way before it heard of it.
        _ => None,
    }
}

/// Returns the end of a turn whose agent has said for a while that it works on nothing.
pub fn inactive(job: &Job, pulse: &Pulse, now: Awake) -> Option<Fact> {
    // An agent that asks works on something.
    let turn = job.active_turn().filter(|_| !job.waits_for_person())?;
    let inactive = pulse.inactive.filter(|inactive| now >= inactive.since.plus_ms(SETTLE_MS))?;
    let (reported, error) = match inactive.failed {
        true => (TurnEnding::RuntimeError, "the agent reported an error of its own and did not end its turn"),
        false => (TurnEnding::Aborted, "the agent went idle and did not end its turn"),
    };
    let offset = job.open_attempt()?.heard;
    let ending = settle(job, turn, reported, None);
    let ended = TurnEnded::without_commit(offset, turn, ending, Some(error.to_owned()));
    Some(with_time(job, waits_from(job, ended, now).into(), now))
}

/// Returns when [`inactive`] must be asked next.
pub fn next_inactive(job: &Job, pulse: &Pulse) -> Option<Awake> {
    job.active_turn().filter(|_| !job.waits_for_person())?;
    pulse.inactive.map(|inactive| inactive.since.plus_ms(SETTLE_MS))
}

fn started(job: &Job, offset: u64, reference: Option<&str>, resumed_from: Option<&str>) -> Vec<Fact> {
    let Some(attempt) = job.open_attempt() else { return Vec::new() };
    // Ignored while a turn is active.
    if job.active_turn().is_some() {
        return Vec::new();
    }
    let (reference, resumed_from) = (reference.map(line), resumed_from.map(line));
    vec![SessionStarted { attempt: attempt.no, offset, reference, resumed_from }.into()]
}

/// Records the exit of an agent that never opened a session as a turn that did not complete: that is what the job waits for. One that was
/// told to stop owes none.
fn unopened(job: &Job, offset: u64, error: &str, now: Now) -> Vec<Fact> {
    let Some(attempt) = job.open_attempt().filter(|_| job.stop.is_none()) else { return Vec::new() };
    let (turn, error) = (job.turns.next(), Some(line(error)));
    vec![
        SessionStarted { attempt: attempt.no, offset, reference: None, resumed_from: None }.into(),
        TurnStarted { offset, turn, awake: Some(now.awake) }.into(),
        TurnEnded::without_commit(offset, turn, TurnEnding::AgentExit, error).into(),
        SessionChanged { offset, state: SessionState::Errored, background: 0, awake: None }.into(),
    ]
}

fn changed(job: &Job, offset: u64, state: SessionState, background: u32, now: Now) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    if let Some(turn) = job.active_turn().filter(|_| !state.may_hold_turn()) {
        let reported = match state {
            SessionState::Errored => TurnEnding::RuntimeError,
            SessionState::Stopped => TurnEnding::AgentExit,
            _ => TurnEnding::Aborted,
        };
        let ending = settle(job, turn, reported, None);
        let error = Some("the session went inactive before the turn ended".to_owned());
        let ended = TurnEnded::without_commit(offset, turn, ending, error);
        facts.push(waits_from(job, ended, now.awake).into());
    }
    let awake = job.stays_open().then_some(now.awake);
    facts.push(SessionChanged { offset, state, background, awake }.into());
    facts
}

/// Ends a turn whose money is limited and cannot be counted. A limit that binds nothing would be a lie.
fn unpriced(job: &Job, offset: u64, model: &str, pulse: &Pulse) -> Vec<Fact> {
    let limited = job.limits.get(Limit::Money).is_some() || pulse.budget.bounds_money;
    let Some(turn) = job.active_turn().filter(|_| limited) else { return Vec::new() };
    let error = format!(
        "its money is limited, and no price is known for its model `{}`: add it to prices.toml, or run it without the limit",
        line(model)
    );
    let ending = settle(job, turn, TurnEnding::Failed, None);
    vec![TurnEnded::without_commit(offset, turn, ending, Some(error)).into()]
}

fn turn_started(job: &Job, offset: u64, pulse: &Pulse, now: Now) -> Vec<Fact> {
    // While the job stops, no further turn begins.
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
        facts.push(TurnEnded::without_commit(offset, active, ending, None).into());
    }
    facts.push(TurnStarted { offset, turn, awake: Some(now.awake) }.into());
    facts
}

fn line(text: &str) -> String {
    text.chars().take(LINE_CHARS_MAX).collect()
}
