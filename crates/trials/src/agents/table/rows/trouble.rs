//! Rows about a model that fails. Agents differ in how long they go on trying; none of it may be called completed.

use std::time::Duration;

use serde_json::Value;

use super::super::setup::{Job, Setup};
use crate::clock;

/// How long an agent may go on trying before it is stopped by a limit. Some try for minutes.
const TRYING: Duration = Duration::from_secs(12);

const LOOK: Duration = Duration::from_millis(100);

/// Makes sure that a turn does not complete, whether the agent gives up or a limit ends it.
fn does_not_complete(setup: &Setup, script: &str) -> Result<(), String> {
    let job = setup.run(&[], &format!("Answer. [[{script}]]"))?;
    setup.asked(script)?;
    ends_otherwise(&job)?;
    not_completed(&job)
}

/// Makes sure that a job does not complete, whether the agent gives up or a limit ends it.
pub(super) fn ends_otherwise(job: &Job<'_>) -> Result<(), String> {
    let is_over = || job.all("last_word").ok().filter(|words| !words.is_empty());
    if clock::until(TRYING, LOOK, is_over).is_none() {
        job.tell("limit", &["wall=1s"])?;
    }
    let word = job.nth("last_word", 1)?;
    if word["outcome"] == "completed" {
        return Err(format!("the job completed; {}", job.story()));
    }
    Ok(())
}

fn not_completed(job: &Job<'_>) -> Result<(), String> {
    let turns = job.all("turn_ended")?;
    match turns.as_slice() {
        [turn] if turn["ending"] != "completed" => Ok(()),
        other => Err(format!("one turn was to end otherwise than completed, not {other:?}")),
    }
}

pub(super) fn status_500(setup: &Setup) -> Result<(), String> {
    does_not_complete(setup, "status 500")
}

pub(super) fn status_429(setup: &Setup) -> Result<(), String> {
    does_not_complete(setup, "status 429")
}

pub(super) fn drops(setup: &Setup) -> Result<(), String> {
    does_not_complete(setup, "drop")?;
    does_not_complete(setup, "dropmid")
}

pub(super) fn next_is_not_begun(setup: &Setup) -> Result<(), String> {
    let prompt = format!("Run it. [[sh {}]] [[status 400]]", setup.until_made("go"));
    let job = setup.run(&["--permissions", "allow"], &prompt)?;
    setup.until("the command runs", || (!setup.holding(0).is_empty()).then_some(()))?;
    job.tell("send", &["Go on. [[say second]]"])?;
    setup.make("go")?;
    let word = job.nth("last_word", 1)?;
    if word["outcome"] != "failed" {
        return Err(format!("it ended {}; {}", word["outcome"], job.story()));
    }
    not_completed(&job)?;
    match setup.times_asked("say second") {
        0 => Ok(()),
        times => Err(format!("the model was asked {times} times for the turn after it")),
    }
}

pub(super) fn recovers(setup: &Setup) -> Result<(), String> {
    setup.run(&[], "Answer. [[status 529 x1]]")?.completes(1)
}

/// Claude learns the time of the reset only if it runs on a subscription: it has a token instead of a key.
const SUBSCRIPTION: &[(&str, Option<&str>)] =
    &[("CLAUDE_CODE_OAUTH_TOKEN", Some("sk-ant-oat01-dummy")), ("ANTHROPIC_API_KEY", None)];

pub(super) fn quota(setup: &Setup) -> Result<(), String> {
    let prompt = "Answer. [[quota 6 x1]]";
    let variables = if setup.agent.name == "claude" { SUBSCRIPTION } else { &[] };
    let job = setup.run_with_variables(variables, &["--wait-for-quota"], prompt)?;
    let waits = job.nth("provider_awaited", 1)?;
    let refused = job.nth("provider_refused", 1)?;
    if waits["why"] != "quota" || refused["until"].is_null() {
        return Err(format!("it was refused as {refused}, and waits as {waits}"));
    }
    if setup.times_asked("quota") != 1 {
        return Err("it asked again before it was told to wait".to_owned());
    }
    let shown: Value = serde_json::from_str(&setup.product.said(&["show", &job.id, "--json"])?)
        .map_err(|error| error.to_string())?;
    if shown["phase"] != "backoff" || shown["waits"]["for"] != "quota" {
        return Err(format!("it is {}, and waits for {}", shown["phase"], shown["waits"]));
    }
    job.ends("completed", "finished")?;
    match setup.times_asked("quota") {
        2 => Ok(()),
        times => Err(format!("it asked {times} times; {}", job.story())),
    }
}

pub(super) fn hangs(setup: &Setup) -> Result<(), String> {
    let job = setup.run(&[], "Answer. [[hang0]]")?;
    setup.asked("hang0")?;
    job.nth("turn_started", 1)?;
    job.tell("limit", &["stall=2s"])?;
    job.nth("last_word", 1)?;
    let fired = job.all("limit_fired")?;
    match fired.as_slice() {
        [fired] if fired["limit"] == "stall" => not_completed(&job),
        other => Err(format!("not the stall limit ended it, but {other:?}; {}", job.story())),
    }
}
