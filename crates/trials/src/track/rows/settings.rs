//! Settings: from which place they come, and what happens to wrong ones.

use crate::track::home::Home;
use crate::track::row::{Seen, held_if, rows};

rows! {
    "001-11" OUROBOROS_1207 After010 Nothing [55]
        "A limit in the environment is honoured by some commands only."
        => "While a daemon runs, `LASTWORD_LIMITS__WALL=7s lastword run` submits a job with that limit.",
        limit_in_the_environment;
    "001-12" OUROBOROS_1207 After010 Nothing [55]
        "A setting that cannot be read is passed over in silence."
        => "While a daemon runs, `LASTWORD_LIMITS__WALL=abc` and an unknown key in the file are refused by name.",
        wrong_settings_are_refused;
    "001-16" OUROBOROS_1207 From010 Nothing [55]
        "The variable is in no reference."
        => "`config show` lists the limit with what it means and where its value comes from.",
        setting_is_documented;
    "002-05" CODEX_PLUGIN_184 From010 Nothing [53]
        "A task has no time limit by default."
        => "An agent has one.",
        default_limit_of_agents;
    "002-06" CODEX_PLUGIN_184 After010 Nothing [53, 55]
        "The time limit can be set neither for one job nor by the environment."
        => "Both work, and the job's own limit wins.",
        limit_of_one_job;
    "B7" ours After010 Nothing [55]
        "With a running daemon, a limit in the environment has no effect and nothing is said."
        => "The job has the limit.",
        limit_in_the_environment;
}

fn wall_of(home: &Home, command: &str) -> Result<serde_json::Value, String> {
    let submitted = home.shell(command)?;
    let job = submitted.out.trim();
    if submitted.code != 0 || job.is_empty() {
        return Err(format!("`{command}`: {}", submitted.printed()));
    }
    Ok(home.show(job)?["limits"]["wall_ms"].clone())
}

fn limit_in_the_environment(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let wall = wall_of(home, "LASTWORD_LIMITS__WALL=7s $LASTWORD run -d -- sleep 1000")?;
    held_if(wall == 7000, format!("wall_ms of the job: {wall}"))
}

fn wrong_settings_are_refused(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let value = home.shell("LASTWORD_LIMITS__WALL=abc $LASTWORD ls")?;
    home.shell("echo 'slotz = 1' > $LASTWORD_HOME/config.toml")?;
    let key = home.run(&["ls"])?;
    let is_held = value.code == 125
        && value.err.contains("LASTWORD_LIMITS__WALL")
        && key.code == 125
        && key.err.contains("slotz");
    held_if(
        is_held,
        format!("exit {} {}; exit {} {}", value.code, value.err.trim(), key.code, key.err.trim()),
    )
}

fn setting_is_documented(home: &Home) -> Seen {
    let shown = home.json(&["config", "show"])?;
    let wall =
        shown["items"].as_array().and_then(|items| items.iter().find(|item| item["key"] == "limits.wall"));
    let is_held = wall.is_some_and(|wall| wall["about"].is_string() && wall["origin"].is_string());
    held_if(is_held, format!("{wall:?}"))
}

fn default_limit_of_agents(home: &Home) -> Seen {
    let job = home.start_agent("", "hello")?;
    let wall = home.show(&job)?["limits"]["wall_ms"].clone();
    held_if(wall.as_u64().is_some_and(|wall| wall > 0), format!("wall_ms of the agent: {wall}"))
}

fn limit_of_one_job(home: &Home) -> Seen {
    home.ok(&["daemon", "start"])?;
    let own = wall_of(home, "LASTWORD_LIMITS__WALL=7s $LASTWORD run -d --wall 5s -- sleep 1000")?;
    let general = wall_of(home, "LASTWORD_LIMITS__WALL=7s $LASTWORD run -d -- sleep 1000")?;
    held_if(own == 5000 && general == 7000, format!("--wall 5s: {own}; environment alone: {general}"))
}
