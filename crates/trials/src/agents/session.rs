//! `agent-session`: runs a command in a home where agents are installed and a scripted model answers them. The pictures of agents are
//! taken in one.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::install;
use super::known::{Home, named};
use super::model::Model;

pub(crate) const VERB: &str = "agent-session";

/// Takes the names of agents, a folder with `bin` and `home` in it, a file of scripts and a command. Each line of the file is a prompt
/// followed by its directives.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [names, folder, scripts, program, arguments @ ..] = words else {
        return Err(format!("usage: {VERB} AGENTS FOLDER SCRIPTS COMMAND..."));
    };
    let scripts = fs::read_to_string(scripts).map_err(|error| format!("{scripts}: {error}"))?;
    let model = Model::with_scripts(scripts.lines().filter_map(script).collect())?;
    let installed = install::all(&named(names)?)?;
    if let Some((agent, why)) = installed.skipped.first() {
        return Err(format!("{}: {why}", agent.name));
    }
    let home = Home { place: Path::new(folder), port: model.port(), server: None, asks: true };
    let mut command = Command::new(program);
    // Where this program found the agents; what it runs has a home of its own.
    command.args(arguments).env_remove("XDG_CACHE_HOME");
    for agent in installed.agents {
        agent.link(&install::folder(agent, &installed.cache), &home.place.join("bin"))?;
        command.envs(agent.settings(&home)?);
    }
    let status = command.status().map_err(|error| format!("{program}: {error}"))?;
    Ok(status.success())
}

/// Splits a line into its prompt and its directives.
fn script(line: &str) -> Option<(String, String)> {
    let (prompt, directives) = line.split_at(line.find("[[")?);
    Some((prompt.trim().to_owned(), directives.to_owned()))
}
