//! The row about agents that take one prompt as an argument and are gone.

use std::fs;

use serde_json::Value;

use super::super::setup::{Setup, kill};
use super::{ending, recovery, trouble, turns};

/// The forms of the agents for one prompt, by their names.
const FORMS: &[(&str, &str)] = &[
    ("claude", "claude-print"),
    ("codex", "codex-exec"),
    ("goose", "goose-run"),
    ("opencode", "opencode-run"),
    ("gemini", "gemini-prompt"),
];

pub(super) fn all(setup: &Setup) -> Result<(), String> {
    let form = FORMS.iter().find(|(name, _)| *name == setup.agent.name).ok_or("it has no such form")?.1;
    allow(setup)?;
    answer(setup, form).map_err(|why| format!("answer: {why}"))?;
    tool(setup, form).map_err(|why| format!("tool: {why}"))?;
    failure(setup, form).map_err(|why| format!("failure: {why}"))?;
    killed(setup, form).map_err(|why| format!("kill: {why}"))?;
    resumed(setup, form).map_err(|why| format!("resume: {why}"))
}

/// Lets the agent run commands: in this form it never asks, and its own settings or flags say what it may do.
fn allow(setup: &Setup) -> Result<(), String> {
    let (file, text) = match setup.agent.name {
        "claude" => ("home/.claude/settings.json", r#"{ "permissions": { "allow": ["Bash"] } }"#),
        // What its settings allow does not hold for a command with a redirection.
        "gemini" => (
            "state/agents.toml",
            "[gemini-prompt]\ndialect = 'once'\nresume = ['--resume', '{}']\n\
             command = ['gemini', '--yolo', '--output-format', 'stream-json', '--prompt={prompt}']\n",
        ),
        _ => return Ok(()),
    };
    let file = setup.work.with_file_name(file);
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(&file)).map_err(failed)?;
    fs::write(&file, text).map_err(failed)
}

/// A prompt that looks like an option is answered, the answer is the result, and what it took is counted.
fn answer(setup: &Setup, form: &str) -> Result<(), String> {
    let job = setup.run_as(form, &[], "--answer this. [[@usage 1234 56]] [[say good day]]")?;
    turns::used(&job)?;
    let result = job.tell("result", &[])?;
    match result.trim() {
        "good day" => Ok(()),
        _ => Err(format!("its result is {result:?}; {}", job.story())),
    }
}

fn tool(setup: &Setup, form: &str) -> Result<(), String> {
    let job = setup.run_as(form, &[], "Run it. [[sh echo made >> made]] [[say done]]")?;
    turns::ran(setup, &job)
}

fn failure(setup: &Setup, form: &str) -> Result<(), String> {
    let job = setup.run_as(form, &[], "Answer. [[status 500]]")?;
    setup.asked("status 500")?;
    trouble::ends_otherwise(&job)?;
    no_turn_completed(&job.all("turn_ended")?)
}

fn no_turn_completed(turns: &[Value]) -> Result<(), String> {
    match turns.iter().any(|turn| turn["ending"] == "completed") {
        true => Err(format!("a turn is said to have completed: {turns:?}")),
        false => Ok(()),
    }
}

/// It hears nothing while it works, and when it is killed its turn was not completed and nothing is left of its tools.
fn killed(setup: &Setup, form: &str) -> Result<(), String> {
    let job = setup.run_as(form, &[], &ending::stubborn(setup))?;
    let held =
        setup.until("all four commands run", || Some(setup.holding(0)).filter(|held| held.len() == 4))?;
    match job.tell("send", &["and more"]) {
        Err(why) if why.contains("single prompt") => {}
        other => return Err(format!("it was to hear nothing: {other:?}")),
    }
    let agent = job.agent()?;
    kill(&agent);
    job.ends("failed", "agent")?;
    no_turn_completed(&job.all("turn_ended")?)?;
    ending::none_survives(&[&held[..], &[agent]].concat(), setup)
}

fn resumed(setup: &Setup, form: &str) -> Result<(), String> {
    let job = setup.run_as(form, &[], "Begin. [[say first]]")?;
    job.completes(1)?;
    recovery::resumed(setup, &job)?.completes(1)?;
    recovery::remembered(setup)
}
