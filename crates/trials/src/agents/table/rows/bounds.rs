//! Rows about bounds: what is spent within a turn, limits that are refused, the time of a turn, the model that was chosen.

use std::time::Duration;

use super::super::setup::{LOOK, Setup};
use super::ending::fired;
use crate::clock;

/// Model calls that the turn would make.
const CALLS: usize = 10;

/// What one of them costs, in millionths of a dollar, by the prices of the model that each agent uses here.
const COSTS: &[(&str, u64)] = &[("claude", 4_400), ("codex", 1_040), ("goose", 2_700)];

pub(super) fn money_in_turn(setup: &Setup) -> Result<(), String> {
    let cost = COSTS.iter().find(|(name, _)| *name == setup.agent.name).map_or(0, |(_, cost)| *cost);
    // Three calls are within the limit, the fourth exceeds it.
    let limit = cost * 7 / 2;
    let flags = ["--permissions", "allow", "--money", &format!("0.{limit:06}")];
    let mut script = String::from("Work. [[@usage 1000 20]]");
    for call in 0..CALLS {
        script.push_str(&format!(" [[sh touch c{call}; {}]]", setup.hold(1)));
    }
    let job = setup.run(&flags, &format!("{script} [[say done]]"))?;
    job.ends("over_budget", "limit_money")?;
    job.turn_ends(1, "over_limit")?;
    fired(&job, "money")?;
    let spent: u64 = job.all("spent")?.iter().filter_map(|spent| spent["money_micros"].as_u64()).sum();
    match setup.times_asked("touch c4") {
        0 if spent > limit && spent <= limit + cost => Ok(()),
        0 => Err(format!("it spent {spent} of {limit}, and one answer costs {cost}")),
        _ => Err(format!("the model was asked once more after {spent} of {limit} were spent")),
    }
}

pub(super) fn refused(setup: &Setup) -> Result<(), String> {
    let refusals: &[&[&str]] = match setup.agent.name {
        "claude" => &[&["--model", "claude-of-tomorrow", "--money", "1"]],
        "codex" => &[&["--model", "gpt-of-tomorrow", "--money", "1"]],
        "goose" => &[&["--tokens", "1000"]],
        _ => &[&["--tokens", "1000"], &["--money", "1"]],
    };
    // The agent `codex` has prices of its own here, whatever its model.
    let form = if setup.agent.name == "codex" { "unpriced" } else { setup.agent.name };
    for flags in refusals {
        match setup.run_as(form, flags, "Answer. [[say good day]]") {
            Ok(_) => return Err(format!("{flags:?} was accepted")),
            Err(why) if why.contains("could not stop it") => {}
            Err(why) => return Err(format!("{flags:?} was refused without the reason: {why}")),
        }
    }
    if setup.product.said(&["ls", "--all", "--json"])?.contains("\"id\"") {
        return Err("a job was made".to_owned());
    }
    // Without the limit it runs.
    setup.run(&[], "Answer. [[say good day]]")?.completes(1)
}

/// How long a person thinks here: longer than the limit of the turn.
const THINKS: Duration = Duration::from_secs(6);

pub(super) fn turn_deadline(setup: &Setup) -> Result<(), String> {
    let prompt = format!("Work. [[sh touch one]] [[sh {}]] [[say done]]", setup.hold(600));
    let job = setup.run(&["--turn", "4s"], &prompt)?;
    job.nth("question_asked", 1)?;
    if let Some(why) = clock::until(THINKS, LOOK, || job.lives().err()) {
        return Err(why);
    }
    job.answer("approve", &[])?;
    setup.until("the first command ran", || setup.made("one"))?;
    job.nth("question_asked", 2)?;
    job.answer("approve", &[])?;
    job.ends("timed_out", "limit_turn")?;
    job.turn_ends(1, "over_limit")?;
    fired(&job, "turn")
}

/// A name that the agent takes for a model, and the one that its server is then asked for.
const MODELS: &[(&str, &str, &str)] = &[
    ("claude", "claude-sonnet-4-5", "claude-sonnet-4-5"),
    ("codex", "gpt-6.1-sol", "gpt-6.1-sol"),
    ("goose", "gpt-4o-mini", "gpt-4o-mini"),
    ("opencode", "here/other", "other"),
    ("gemini", "gemini-2.5-pro", "gemini-2.5-pro"),
];

pub(super) fn model(setup: &Setup) -> Result<(), String> {
    let (_, chosen, asked) =
        MODELS.iter().find(|(name, ..)| *name == setup.agent.name).ok_or("this agent has no models")?;
    let job = setup.run(&["--model", chosen], "Answer. [[say good day]]")?;
    job.completes(1)?;
    let models = setup.model.models();
    match models.contains(*asked) {
        true => Ok(()),
        false => Err(format!("the models {models:?} were asked")),
    }
}

/// A model that thinks.
const THINKING: &[(&str, &str)] = &[
    ("claude", "claude-opus-5-5"),
    ("codex", "gpt-6.1-sol"),
    ("goose", "gpt-5.4"),
    ("opencode", "here/thinking"),
];

pub(super) fn effort(setup: &Setup) -> Result<(), String> {
    let (_, model) =
        THINKING.iter().find(|(name, _)| *name == setup.agent.name).ok_or("this agent has no efforts")?;
    let job = setup.run(&["--model", model, "--effort", "high"], "Answer. [[say good day]]")?;
    job.completes(1)?;
    let efforts = setup.model.efforts();
    match efforts.contains("high") {
        true => Ok(()),
        false => Err(format!("the efforts {efforts:?} were asked")),
    }
}
