//! `agents`: the trial of real agents, and then their pictures, which need the same agents.

use crate::program::Outcome;
use crate::{docs, trials};

/// Arguments that run a part of the trial.
const PARTS: &[&str] = &["--agent", "--only", "--compare"];

/// Runs the trial. When all of it has passed, plays the scenes with agents again and compares their pictures.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    trials::run("agents", arguments)?;
    if arguments.iter().any(|word| PARTS.contains(word)) {
        return Ok(());
    }
    let profile = if arguments.contains(&"--dev") { "debug" } else { "release" };
    docs::check_agent_pictures(profile)
}
