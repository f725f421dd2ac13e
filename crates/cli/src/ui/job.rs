//! The screen of a job: name, timeline, receipt, limits, last lines of output.

use lastword_api::{IoKind, Job, Phase, SessionState, Waits, WaitsFor};

use super::style::Style;
use super::{Ui, describe, receipt, session, timeline};
use crate::text::clean::{clean, clean_lines, cut};
use crate::text::duration;
use crate::text::moment::{Clock, between};

/// Returns the screen of a job; `tail` is the end of its output.
pub(crate) fn screen(job: &Job, tail: Option<&str>, ui: &Ui) -> Vec<String> {
    let clock = Clock::local();
    let width = ui.width.min(140);
    let mut lines = head(job, ui.out, width);
    lines.push(String::new());
    lines.extend(timeline::draw(job, &clock, ui.out, width));
    let section = |title: &str, body: Vec<String>, lines: &mut Vec<String>| {
        if !body.is_empty() {
            lines.push(String::new());
            lines.push(ui.out.strong(title));
            lines.extend(body);
        }
    };
    section("Waits", waits(job, &clock), &mut lines);
    section("Questions", session::questions(job, &clock, ui, width), &mut lines);
    if let Some(conversation) = &job.session {
        section("Conversation", session::lines(job, conversation, &clock, ui.out, width), &mut lines);
    }
    if let Some(attempt) = job.last_attempt() {
        section("Receipt", receipt::lines(attempt, job.stop.as_ref(), ui.out, width), &mut lines);
        let error = attempt.error.iter().map(|error| format!("  {}", ui.out.bad(&clean(error))));
        section("Error", error.collect(), &mut lines);
    }
    section("Details", details(job, &clock, ui.out), &mut lines);
    if let Some(tail) = tail.filter(|tail| !tail.is_empty()) {
        let shown = clean_lines(tail);
        let body = shown.lines().map(|line| format!("  {} {}", ui.out.faint("│"), cut(line, width - 4)));
        section("Last lines of output", body.collect(), &mut lines);
    }
    lines
}

/// Returns the jobs that a queued job waits for, uncut.
fn waits(job: &Job, clock: &Clock) -> Vec<String> {
    let is_told =
        |waits: &&Waits| !waits.by.is_empty() || matches!(waits.on, WaitsFor::Quota | WaitsFor::Overload);
    let waits = job.waits.iter().filter(is_told);
    waits.map(|waits| format!("  {}", describe::waits(waits, |until| between(clock.now(), until)))).collect()
}

/// Reports whether a running agent works on nothing.
fn rests(job: &Job) -> bool {
    let session = job.session.as_ref().filter(|_| matches!(job.phase, Phase::Running | Phase::Idle));
    session.is_some_and(|session| {
        let is_still = session.active_turn.is_none() && session.background == 0;
        is_still && matches!(session.state, SessionState::Ready | SessionState::Interrupted)
    })
}

fn head(job: &Job, style: Style, width: usize) -> Vec<String> {
    let asks = !job.open_questions().is_empty();
    let state = match &job.outcome {
        Some(outcome) => style.by_state(&job.phase, Some(outcome), &describe::outcome_name(outcome)),
        None if asks => style.warn("needs input"),
        None if rests(job) => {
            let state = job.session.as_ref().map(|session| &session.state);
            style.by_state(&job.phase, None, describe::rests(state))
        }
        None => style.by_state(&job.phase, None, job.phase.as_str()),
    };
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    vec![
        format!("{}  {state}", style.strong(&job_name)),
        format!("  {}", cut(&clean(&command(job)), width.saturating_sub(2))),
        format!("  {}", style.faint(&folder(&job.cwd))),
    ]
}

/// Says where it runs. Whole, however long it is, so that it can be copied.
fn folder(cwd: &str) -> String {
    match cwd {
        "" => "in a new folder of its worker".to_owned(),
        cwd => format!("in {}", clean(cwd)),
    }
}

/// Returns the command as one would type it in a shell.
fn command(job: &Job) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    match job.argv.is_empty() {
        true => job.title.clone(),
        false => job.argv.iter().map(quote).collect::<Vec<_>>().join(" "),
    }
}

/// Returns what else there is to know, uncut: paths and ids are copied.
fn details(job: &Job, clock: &Clock, style: Style) -> Vec<String> {
    let mut facts: Vec<(&str, String)> = vec![("id", job.id.clone())];
    let mut group = job.group.clone();
    if job.priority != 0 {
        group.push_str(&format!(", priority {}", job.priority));
    }
    facts.push(("group", group));
    if !job.on.is_empty() {
        facts.push(("on", job.on.join(" ")));
    }
    facts.push(("by", job.by.clone()));
    facts.extend(job.progress.as_ref().map(|said| {
        let ago = duration::show_coarse(between(said.at, clock.now()));
        ("progress", format!("{}, {ago} ago", said.text))
    }));
    if let Some(worktree) = &job.worktree {
        facts.push(match &worktree.path {
            Some(path) if worktree.present => ("worktree", path.clone()),
            _ if job.is_ended() => ("worktree", "removed, or nothing was changed in it".to_owned()),
            _ => ("worktree", "created when the job starts".to_owned()),
        });
        let base = worktree.base.get(..10).unwrap_or(&worktree.base);
        facts.push(("branch", format!("{}, from {base}", worktree.branch)));
    }
    if let Some(agent) = &job.agent {
        facts.extend(agent.model.clone().map(|model| ("model", model)));
        facts.extend(agent.effort.clone().map(|effort| ("effort", effort)));
        facts.extend(describe::permissions(&agent.permissions).map(|rules| ("rules", rules)));
    }
    facts.extend(job.parent.as_deref().map(|parent| {
        let tied = if job.tied { ", ends with it" } else { "" };
        ("parent", format!("{parent}{tied}"))
    }));
    let shorts = |ids: &[String]| {
        let short = |id: &String| id.get(id.len().saturating_sub(8)..).unwrap_or(id).to_owned();
        ids.iter().map(short).collect::<Vec<_>>().join(", ")
    };
    if let Some(children) = &job.children {
        let (left, kept) = if job.is_ended() { ("left", "left running") } else { ("its jobs", "its jobs") };
        let named = [
            (left, &children.tied, ", which end with it"),
            ("stopped", &children.stopped, ", because it ended"),
            (kept, &children.kept, ", which may outlive it"),
        ];
        let named = named.into_iter().filter(|(_, ids, _)| !ids.is_empty());
        facts.extend(named.map(|(name, ids, why)| (name, format!("{}{why}", shorts(ids)))));
    }
    if !job.after.is_empty() {
        facts.push(("after", describe::after(&job.after)));
    }
    facts.extend(job.retry_of.clone().map(|before| ("retry of", before)));
    let labels: Vec<String> = job.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !labels.is_empty() {
        facts.push(("labels", labels.join(" ")));
    }
    facts.extend(describe::limits(job).map(|limits| ("limits", limits)));
    if job.retry.attempts > 1 {
        let pause = duration::spell_ms(job.retry.backoff_ms);
        facts.push(("retry", format!("up to {} attempts, first pause {pause}", job.retry.attempts)));
    }
    facts.push(("grace", format!("{} between TERM and KILL", duration::spell_ms(job.ladder.term_ms))));
    if job.io.kind != IoKind::None {
        facts.push(("input", job.io.kind.to_string()));
    }
    if let Some(level) = job.last_attempt().and_then(|attempt| attempt.level.as_ref()) {
        facts.push(("tree", describe::level(level).to_owned()));
    }
    if let Some(withheld) = job.last_attempt().and_then(|attempt| attempt.withheld.as_deref()) {
        facts.push(("withheld", clean(withheld).into_owned()));
    }
    if job.inputs_waiting > 0 {
        facts.push(("queued", describe::count(job.inputs_waiting.into(), "message", "messages")));
    }
    if job.unsettled {
        facts.push((
            "note",
            "its keeper just died, and how it ended is not recorded yet: try again".to_owned(),
        ));
    }
    let ended = job.ended_at.map(|ended| between(ended, clock.now()));
    facts.extend(ended.map(|ago| ("ended", format!("{} ago", duration::show_coarse(ago)))));
    let line =
        |(name, text): (&str, String)| format!("  {}  {}", style.faint(&format!("{name:<8}")), clean(&text));
    facts.into_iter().map(line).collect()
}
