//! The settings of this process, and those of the running daemon as its lock file has them: what a command has that differs.

use serde::{Deserialize, Serialize};

use crate::environment;
use crate::failure::Failure;
use crate::paths::Paths;
use crate::settings::{Key, Origin, Settings, Value, variable};

/// A setting of a running daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InForce {
    key: String,
    value: String,
    /// The rank of its origin.
    rank: u8,
}

impl Settings {
    /// Loads the settings of this process, with flags written `name=value`.
    pub(crate) fn of_process(paths: &Paths, flags: &[String]) -> Result<Settings, Failure> {
        let flags = flags.iter().map(|flag| {
            let pair = flag.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
            pair.ok_or_else(|| Failure::usage(format!("--set {flag}: write --set KEY=VALUE")))
        });
        let flags: Vec<_> = flags.collect::<Result<_, _>>()?;
        Ok(Settings::load(&paths.config, &environment::settings(), &flags)?)
    }

    /// Returns all settings, to be recorded by a daemon that starts with them.
    pub(crate) fn in_force(&self) -> Vec<InForce> {
        let row = |(key, value, origin): (&Key, Value, &Origin)| InForce {
            key: key.name.to_owned(),
            value: value.to_string(),
            rank: rank(origin),
        };
        self.iter().map(row).collect()
    }

    /// Returns a line for each setting that was given to this command and that the running daemon does not have.
    pub(crate) fn not_in_force(&self, daemon: &[InForce]) -> Vec<String> {
        let mut lines = Vec::new();
        for (key, value, origin) in self.iter() {
            let Some(running) = daemon.iter().find(|running| running.key == key.name) else { continue };
            // An origin that overrides this one is meant to.
            let is_overridden = running.rank > rank(origin);
            let differs = running.value != value.to_string();
            if *origin != Origin::Default && differs && !is_overridden && !is_submitted(key.name, origin) {
                lines.push(format!(
                    "{origin}: the daemon runs with {} = {}, not {value}; `{}` applies it, and jobs keep running",
                    key.name,
                    running.value,
                    restart(key.name, value, origin),
                ));
            }
        }
        lines
    }
}

/// Reports whether a setting travels with each job that a command submits, so that the daemon's own value does not matter.
fn is_submitted(name: &str, origin: &Origin) -> bool {
    name == "grace" || name.starts_with("limits.") && matches!(origin, Origin::Environment(_))
}

/// Returns the command that restarts the daemon with a setting.
fn restart(name: &str, value: Value, origin: &Origin) -> String {
    let restart = "lastword daemon restart";
    match origin {
        Origin::Environment(_) => format!("{}={value} {restart}", variable(name)),
        Origin::Flag => format!("{restart} --set {name}={value}"),
        Origin::File(..) | Origin::Default | Origin::Config => restart.to_owned(),
    }
}

/// Ranks origins: a higher one overrides a lower one.
fn rank(origin: &Origin) -> u8 {
    match origin {
        Origin::Default => 0,
        Origin::File(..) => 1,
        Origin::Environment(_) => 2,
        Origin::Flag | Origin::Config => 3,
    }
}
