//! `orphans`: real agents are killed in the middle of a tool, and what they leave behind is found, ended and proven gone. Look-alikes are
//! left alone.
//!
//! It runs in its own namespaces.
//!
//! - [`server`]: a tool server that outlives its agent.
//! - [`trial`]: the trial itself.

pub(crate) mod server;
mod trial;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Instant;

use crate::agents::known::{AGENTS, named};
use crate::agents::{apart, install};
use crate::args::Args;
use crate::place::{Programs, temporary};
use crate::verdict::{bug, verdict};

/// The hidden verb that runs the trial inside the namespaces.
pub(crate) const PART: &str = "orphans-part";

/// Agents that must have been tried, unless fewer were requested.
const AGENTS_LEAST: usize = 3;

/// Runs the trial. With `--bug` the reaper is wrong on purpose, and that must be noticed.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--agents", "--bug"], &[])?;
    let bug = bug(&args, &["reap-by-name", "no-doubts"])?;
    // One agent is enough to catch a wrong reaper, and this one starts quickly.
    let wanted = args.text("--agents").or(bug.map(|_| "codex"));
    let chosen = wanted.map_or_else(|| Ok(AGENTS.iter().collect()), named)?;
    let chosen: Vec<_> = chosen.into_iter().filter(|agent| agent.once.is_some()).collect();
    let installed = install::all(&chosen)?;
    let chosen = &installed.agents;
    if chosen.len() < AGENTS_LEAST.min(wanted.map_or(AGENTS_LEAST, |_| 1)) {
        return Err(format!("only {} agents can be tried here", chosen.len()));
    }
    let begun = Instant::now();
    let place = temporary("orphans")?;
    let programs = Programs::beside()?;
    let mut words: Vec<&OsStr> = vec![place.path().as_ref(), installed.cache.as_ref()];
    words.extend([programs.lastword.as_ref(), OsStr::new(bug.unwrap_or("none"))]);
    words.extend(chosen.iter().map(|agent| OsStr::new(agent.name)));
    let found = apart::run(&programs, PART, &words)?;
    let plural = if chosen.len() == 1 { "" } else { "s" };
    println!("{} agent{plural} in {:.1} s", chosen.len(), begun.elapsed().as_secs_f64());
    Ok(verdict(bug, found))
}

/// The trial, inside.
pub(crate) fn part(words: &[&str]) -> Result<bool, String> {
    let [place, cache, lastword, bug, names @ ..] = words else {
        return Err("what is to be tried?".to_owned());
    };
    let agents = AGENTS.iter().filter(|agent| names.contains(&agent.name)).collect();
    let setup = trial::Setup {
        place: PathBuf::from(place),
        cache: PathBuf::from(cache),
        lastword: PathBuf::from(lastword),
        bug: Some(*bug).filter(|bug| *bug != "none").map(str::to_owned),
    };
    trial::run(&setup, agents).map(|()| true)
}
