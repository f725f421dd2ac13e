//! The conversation of an agent on a screen: what it asks, its turns, what it has spent.

use lastword_api::{Job, Question, Session, Turn, TurnEnding, Usage};

use super::Ui;
use super::style::Style;
use super::words;
use crate::text::clean::{clean, cut};
use crate::text::duration;
use crate::text::moment::{Clock, between};

/// Turns that are shown: the newest. All of them are in `events`.
const TURNS_MAX: usize = 8;

/// Returns what the agent asks, each question with the command to answer it.
pub(super) fn questions(job: &Job, session: &Session, clock: &Clock, ui: &Ui, width: usize) -> Vec<String> {
    let several = session.questions.len() > 1;
    session
        .questions
        .iter()
        .flat_map(|question| asked(job, question, several, clock, ui.out, width))
        .collect()
}

fn asked(
    job: &Job,
    question: &Question,
    several: bool,
    clock: &Clock,
    style: Style,
    width: usize,
) -> [String; 2] {
    let which = several.then_some(question.id.as_str());
    let until = question.expires_at.map(|at| duration::show_coarse(between(clock.now(), at)));
    let until = until.map_or_else(String::new, |until| format!("; no answer in {until} is a no"));
    let command = words::approve(job, which);
    [
        format!("  {}", style.warn(&cut(&clean(&question.text), width.saturating_sub(2)))),
        format!("    {command}    {}", style.faint(&format!("# or deny, or answer{until}"))),
    ]
}

/// Returns where the conversation stands, its turns, and what was spent.
pub(super) fn lines(job: &Job, session: &Session, clock: &Clock, style: Style, width: usize) -> Vec<String> {
    let mut lines = vec![fact("state", &state(job, session), style, width)];
    let left_out = session.turns.len().saturating_sub(TURNS_MAX);
    if left_out > 0 {
        let earlier = format!("{left_out} before these; `lastword events {}` has all", words::reference(job));
        lines.push(fact("turns", &earlier, style, width));
    }
    for turn in &session.turns[left_out..] {
        let name = format!("turn {}", turn.turn);
        lines.push(fact(&name, &told(turn, clock), style, width));
    }
    if job.spent != Usage::default() {
        lines.push(fact("spent", &words::spent(&job.spent), style, width));
    }
    if !session.denials.is_empty() {
        lines.push(fact("denied", &session.denials.join(", "), style, width));
    }
    if let Some(from) = &session.resumed_from {
        lines.push(fact("goes on", from, style, width));
    }
    if job.is_ended() && session.resume_reference.is_some() {
        let more = format!("lastword resume {} PROMPT", words::reference(job));
        lines.push(fact("resume", &more, style, width));
    }
    lines
}

fn fact(name: &str, text: &str, style: Style, width: usize) -> String {
    format!("  {}  {}", style.faint(&format!("{name:<8}")), cut(&clean(text), width.saturating_sub(12)))
}

fn state(job: &Job, session: &Session) -> String {
    let mut text = session.state.to_string();
    if !session.questions.is_empty() {
        text.push_str(", waits for a person");
    }
    if session.background > 0 && !job.is_ended() {
        let tasks = words::count(session.background.into(), "task", "tasks");
        text.push_str(&format!(", {tasks} in the background"));
    }
    text
}

fn told(turn: &Turn, clock: &Clock) -> String {
    let time = duration::show_ms(between(turn.started_at, turn.ended_at.unwrap_or(clock.now())));
    let how = turn.ending.as_ref().map_or("at work", ending);
    let error = turn.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("{how}, {time}{error}")
}

/// Returns how a turn ended, in words.
fn ending(ending: &TurnEnding) -> &str {
    match ending {
        TurnEnding::Limited => "limited by the agent or its model",
        TurnEnding::OverLimit => "stopped by a limit of the job",
        TurnEnding::AgentExit => "cut short by the agent's exit",
        TurnEnding::RuntimeError => "cut short by an error of the agent",
        other => other.as_str(),
    }
}
