//! `orphans`: real agents are killed in the middle of a tool, and what they leave behind is found, ended and proven gone;
//! what only looks like it is left alone.
//!
//! All of it happens in namespaces of its own: nothing outside can be ended by mistake, the agents reach no network, and
//! nothing is left when the trial is over.
//!
//! - [`agents`]: which agents, how they are set up, what they are told to run.
//! - [`install`]: getting them, once, into a cache outside the repository.
//! - [`model`]: what they take for a model.
//! - [`server`]: a tool server that does not go when its agent does.
//! - [`conduct`]: the trial itself.

mod agents;
mod conduct;
mod install;
mod model;
pub(crate) mod server;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use lastword_proc::seeded::{self, Bug};

use crate::args::Args;
use crate::place::{Programs, temporary};
use crate::verdict::{bug, verdict};
use agents::{AGENTS, Agent};

/// The verb by which this program becomes the first process of the namespace.
pub(crate) const INIT: &str = "orphans-init";

/// The verb by which it conducts the trial inside.
pub(crate) const PART: &str = "orphans-part";

/// Agents that must have been tried, unless fewer were asked for.
const AGENTS_LEAST: usize = 3;

/// Tries it. With `--bug` the reaper is wrong on purpose, and that must be noticed.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--agents", "--bug"], &[])?;
    let bug = bug(&args, &[Bug::ReapByName.name(), Bug::NoDoubts.name()])?;
    // One agent is enough to catch a wrong reaper, and this one starts in no time.
    let wanted = args.text("--agents").or(bug.map(|_| "codex"));
    let mut chosen: Vec<&Agent> = AGENTS.iter().collect();
    if let Some(wanted) = wanted {
        let find = |name: &str| AGENTS.iter().find(|agent| agent.name == name);
        chosen = wanted
            .split(',')
            .map(|name| find(name).ok_or_else(|| format!("there is no agent `{name}`")))
            .collect::<Result<_, _>>()?;
    }
    chosen.retain(|agent| match agent.missing() {
        Some(why) => {
            println!("SKIPPED: {}: {why}", agent.name);
            false
        }
        None => true,
    });
    if chosen.len() < AGENTS_LEAST.min(wanted.map_or(AGENTS_LEAST, |_| 1)) {
        return Err(format!("only {} agents can be tried here", chosen.len()));
    }
    let cache = install::all(&chosen)?;
    let begun = Instant::now();
    let place = temporary("orphans")?;
    let programs = Programs::beside()?;
    let mut stage = Command::new("unshare");
    stage.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--net", "--cgroup", "--ipc"]);
    if !rustix::process::geteuid().is_root() {
        stage.args(["--user", "--map-root-user"]);
    }
    stage.arg(&programs.trials).arg(INIT).arg(place.path()).arg(&cache).arg(&programs.lastword);
    stage.arg(bug.unwrap_or("none")).args(chosen.iter().map(|agent| agent.name));
    let said = stage
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output);
    let said = said.map_err(|error| format!("unshare (of util-linux) is needed: {error}"))?;
    let found = match said.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()),
    };
    let plural = if chosen.len() == 1 { "" } else { "s" };
    println!("{} agent{plural} in {:.1} s", chosen.len(), begun.elapsed().as_secs_f64());
    Ok(verdict(bug, found))
}

/// The first process of the namespace: everybody who loses a parent becomes its child, and is buried.
pub(crate) fn init(words: &[&str]) -> Result<bool, String> {
    // SAFETY: no handler, only the default; whoever runs the trial may have been started by nohup, and everybody here would
    // seem to be.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let conductor = Command::new(own).arg(PART).args(words).spawn().map_err(|error| error.to_string())?;
    let conductor = conductor.id().cast_signed();
    loop {
        let mut status = 0;
        // SAFETY: the status is ours to write to.
        let gone = unsafe { libc::wait(&raw mut status) };
        if gone == conductor {
            return Ok(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
        }
        if gone < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD) {
            return Err("the conductor is gone".to_owned());
        }
    }
}

/// The trial, inside.
pub(crate) fn part(words: &[&str]) -> Result<bool, String> {
    let [place, cache, lastword, bug, names @ ..] = words else {
        return Err("what is to be tried?".to_owned());
    };
    seeded::switch(Bug::ALL.iter().copied().find(|known| known.name() == *bug));
    let agents = AGENTS.iter().filter(|agent| names.contains(&agent.name)).collect();
    let stage = conduct::Stage {
        place: PathBuf::from(place),
        cache: PathBuf::from(cache),
        lastword: PathBuf::from(lastword),
        is_seeded: *bug != "none",
    };
    conduct::run(&stage, agents).map(|()| true)
}
