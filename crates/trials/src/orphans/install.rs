//! Getting the agents: from the registry of npm, once, into a cache that outlives the clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::agents::Agent;
use crate::place;

/// Makes sure that all of them are there, and returns the folder they are in.
pub(super) fn all(agents: &[&Agent]) -> Result<PathBuf, String> {
    let cache = place::cache("lastword/agents")?;
    let done: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let each: Vec<_> = agents.iter().map(|agent| scope.spawn(|| one(agent, &cache))).collect();
        let joined = each
            .into_iter()
            .map(|each| each.join().unwrap_or_else(|_| Err("the install panicked".to_owned())));
        joined.collect()
    });
    done.into_iter().collect::<Result<(), String>>()?;
    Ok(cache)
}

/// Returns the folder of an agent's packages.
pub(super) fn folder(agent: &Agent, cache: &Path) -> PathBuf {
    cache.join(agent.package.trim_start_matches('@').replace('/', "-"))
}

fn one(agent: &Agent, cache: &Path) -> Result<(), String> {
    let folder = folder(agent, cache);
    if agent.program(&folder).is_file() {
        return Ok(());
    }
    let begun = Instant::now();
    // Under another name until it is whole.
    let draft = cache.join(format!("{}.{}", agent.name, std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", draft.display());
    fs::create_dir_all(&draft).map_err(failed)?;
    fs::write(draft.join("package.json"), "{\"private\":true}").map_err(failed)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", agent.package]);
    let said = npm.current_dir(&draft).stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("npm is needed (packages nodejs and npm of Debian): {error}"))?;
    if !said.status.success() || !agent.program(&draft).is_file() {
        let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        let _ = fs::remove_dir_all(&draft);
        return Err(format!("npm install {}: {} {why}", agent.package, said.status));
    }
    let _ = fs::remove_dir_all(&folder);
    match fs::rename(&draft, &folder) {
        // Another trial was faster.
        Err(_) if agent.program(&folder).is_file() => drop(fs::remove_dir_all(&draft)),
        renamed => renamed.map_err(failed)?,
    }
    println!("{} installed in {:.0} s", agent.package, begun.elapsed().as_secs_f64());
    Ok(())
}
