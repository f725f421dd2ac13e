//! Renders an agent's conversation: its questions, its turns, what it has spent.

use lastword_api::{Cause, Job, Question, Session, Turn, TurnEnding, Unfinished, Usage};

use super::Ui;
use super::style::Style;
use super::{describe, question};
use crate::text::clean::{clean, cut};
use crate::text::duration;
use crate::text::moment::{Clock, between};

/// Turns shown: the newest. `events` has all of them.
const TURNS_MAX: usize = 8;

/// Returns the open questions, each with how to answer it.
pub(super) fn questions(job: &Job, clock: &Clock, ui: &Ui, width: usize) -> Vec<String> {
    let lines = |asked: &Question| {
        let mut lines = question::brief(job, asked, ui.out, width);
        lines.extend(question::deadline(asked, clock, ui.out));
        lines
    };
    job.open_questions().iter().flat_map(lines).collect()
}

/// Returns the state of the conversation, its turns and what it has spent.
pub(super) fn lines(job: &Job, session: &Session, clock: &Clock, style: Style, width: usize) -> Vec<String> {
    let mut lines = vec![fact("state", &state(job, session), style, width)];
    let left_out = session.turns.len().saturating_sub(TURNS_MAX);
    if left_out > 0 {
        let earlier = format!("{left_out} more; `lastword events {}` shows all", describe::reference(job));
        lines.push(fact("turns", &earlier, style, width));
    }
    for turn in &session.turns[left_out..] {
        let name = format!("turn {}", turn.turn);
        lines.push(fact(&name, &turn_summary(job, turn, clock), style, width));
    }
    if job.spent != Usage::default() {
        lines.push(fact("spent", &describe::spent(&job.spent), style, width));
    }
    if !session.denials.is_empty() {
        lines.push(fact("denied", &session.denials.join(", "), style, width));
    }
    if let Some(from) = &session.resumed_from {
        lines.push(fact("continues", from, style, width));
    }
    if job.is_ended() && session.resume_reference.is_some() {
        let more = format!("lastword resume {} PROMPT", describe::reference(job));
        lines.push(fact("resume", &more, style, width));
    }
    let unfinished = match &session.unfinished {
        Some(Unfinished::Forgotten) => Some("the last turn is forgotten when the conversation goes on"),
        Some(Unfinished::Kept) => Some("the last turn stays in the conversation: the agent cannot forget it"),
        _ => None,
    };
    lines.extend(unfinished.map(|what| fact("not done", what, style, width)));
    lines
}

fn fact(name: &str, text: &str, style: Style, width: usize) -> String {
    format!("  {}  {}", style.faint(&format!("{name:<8}")), cut(&clean(text), width.saturating_sub(12)))
}

fn state(job: &Job, session: &Session) -> String {
    let mut text = session.state.to_string();
    if !session.questions.is_empty() {
        text.push_str(", waiting for your answer");
    }
    if session.background > 0 && !job.is_ended() {
        let tasks = describe::count(session.background.into(), "task", "tasks");
        text.push_str(&format!(", {tasks} in the background"));
    }
    text
}

fn turn_summary(job: &Job, turn: &Turn, clock: &Clock) -> String {
    let time = duration::show_ms(between(turn.started_at, turn.ended_at.unwrap_or(clock.now())));
    let of_group = matches!(job.cause, Some(Cause::LimitGroupTokens | Cause::LimitGroupMoney));
    let how = match &turn.ending {
        None => "running",
        Some(TurnEnding::OverLimit) if of_group => "stopped by the budget of its group",
        Some(TurnEnding::OverLimit) if job.is_ended() => "stopped by a limit of this job",
        Some(other) => ending(other),
    };
    let how = match turn.acknowledged {
        Some(true) => format!("{how}, and the agent acknowledged it"),
        Some(false) => format!("{how}, and the agent was killed before it acknowledged it"),
        None => how.to_owned(),
    };
    let error = turn.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("{how}, {time}{error}")
}

/// Describes how a turn ended.
pub(super) fn ending(ending: &TurnEnding) -> &str {
    match ending {
        TurnEnding::Limited => "stopped by a limit of the agent or its model",
        TurnEnding::OverLimit => "stopped by a limit of the job or its group",
        TurnEnding::AgentExit => "the agent exited during the turn",
        TurnEnding::RuntimeError => "the agent failed during the turn",
        other => other.as_str(),
    }
}
