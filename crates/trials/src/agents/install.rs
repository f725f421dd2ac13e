//! Getting the agents: from the registry of npm, once, into a cache that outlives the clone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::known::Agent;
use crate::place;

/// The agents that can be tried here.
pub(crate) struct Installed {
    /// The folder that all packages are in.
    pub(crate) cache: PathBuf,
    pub(crate) agents: Vec<&'static Agent>,
    /// Those that cannot, and why.
    pub(crate) skipped: Vec<(&'static Agent, String)>,
}

/// Makes sure that they are there, as far as this machine can have them, and says which are not.
pub(crate) fn all(agents: &[&'static Agent]) -> Result<Installed, String> {
    let cache = place::cache("lastword/agents")?;
    let done: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let each: Vec<_> = agents.iter().map(|agent| scope.spawn(|| one(agent, &cache))).collect();
        let joined = each
            .into_iter()
            .map(|each| each.join().unwrap_or_else(|_| Err("the install panicked".to_owned())));
        joined.collect()
    });
    let mut installed = Installed { cache, agents: Vec::new(), skipped: Vec::new() };
    for (agent, done) in agents.iter().zip(done) {
        match done {
            Ok(()) => installed.agents.push(agent),
            Err(why) => {
                println!("SKIPPED: {}: {why}", agent.name);
                installed.skipped.push((agent, why));
            }
        }
    }
    Ok(installed)
}

/// Returns the folder of an agent's packages.
pub(crate) fn folder(agent: &Agent, cache: &Path) -> PathBuf {
    cache.join(agent.package().trim_start_matches('@').replace('/', "-"))
}

fn one(agent: &Agent, cache: &Path) -> Result<(), String> {
    if let Some(why) = agent.missing() {
        return Err(why);
    }
    let folder = folder(agent, cache);
    if agent.program(&folder).is_file() {
        return Ok(());
    }
    let begun = Instant::now();
    let package = agent.package();
    // Under another name until it is whole.
    let draft = cache.join(format!("{}.{}", agent.name, std::process::id()));
    let failed = |error: std::io::Error| format!("{}: {error}", draft.display());
    fs::create_dir_all(&draft).map_err(failed)?;
    fs::write(draft.join("package.json"), "{\"private\":true}").map_err(failed)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", &package]);
    let said = npm.current_dir(&draft).stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("npm is needed (packages nodejs and npm of Debian): {error}"));
    let said = said.and_then(|said| match said.status.success() && agent.program(&draft).is_file() {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            Err(format!("npm install {package}: {} {why}", said.status))
        }
    });
    if let Err(why) = said {
        let _ = fs::remove_dir_all(&draft);
        return Err(why);
    }
    let _ = fs::remove_dir_all(&folder);
    match fs::rename(&draft, &folder) {
        // Another trial was faster.
        Err(_) if agent.program(&folder).is_file() => drop(fs::remove_dir_all(&draft)),
        renamed => renamed.map_err(failed)?,
    }
    println!("{package} installed in {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}
