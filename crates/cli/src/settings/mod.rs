//! Settings: few keys, each with one place where it may come from. A flag beats the environment, which beats the file, which
//! beats the default. What does not read stops the start, with its name (C55).

mod file;
mod key;

use std::path::{Path, PathBuf};

pub(crate) use file::write_value;
pub(crate) use key::{KEYS, Key, Value};

use crate::text::similar;

/// Why settings cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Bad {
    /// There is no such key.
    #[error("{at}: there is no setting `{name}`{meant}")]
    Unknown { at: Origin, name: String, meant: String },
    /// The key has a value that does not fit it.
    #[error("{at}: setting `{name}`: {why}")]
    Malformed { at: Origin, name: &'static str, why: String },
    /// The file is not TOML.
    #[error("{0}")]
    NotToml(String),
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File { path: PathBuf, error: String },
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// A variable.
    Environment(String),
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "environment ({name})"),
            Origin::Flag => f.write_str("--set"),
        }
    }
}

/// Every setting, with where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: Vec<(Value, Origin)>,
}

impl Settings {
    /// Reads all of them. A file that is not there sets nothing.
    pub(crate) fn load(
        path: &Path,
        environment: &[(String, String)],
        flags: &[(String, String)],
    ) -> Result<Settings, Bad> {
        let mut settings =
            Settings { values: KEYS.iter().map(|key| ((key.default)(), Origin::Default)).collect() };
        for found in file::read(path)? {
            let at = Origin::File(path.to_owned(), found.line);
            settings.set(&found.name, &found.value, at)?;
        }
        for (name, value) in environment {
            let at = Origin::Environment(format!("LASTWORD_{name}"));
            settings.set(&name.to_ascii_lowercase().replace("__", "."), value, at)?;
        }
        for (name, value) in flags {
            settings.set(name, value, Origin::Flag)?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str, at: Origin) -> Result<(), Bad> {
        let index = find(name, &at)?;
        let value = KEYS[index].parse(value, &at)?;
        self.values[index] = (value, at);
        Ok(())
    }

    /// Returns every key with its value and where that came from.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Key, Value, &Origin)> {
        KEYS.iter().zip(&self.values).map(|(key, (value, origin))| (key, *value, origin))
    }

    /// Returns the number a key is set to.
    ///
    /// # Panics
    /// If there is no such key: names in this program are spelled right, which a test makes sure of.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let (_, value, _) = self.iter().find(|(key, ..)| key.name == name).expect("a key of the table");
        value.number()
    }

    /// Returns the number somebody set a key to; none if it is what it is by default.
    pub(crate) fn chosen(&self, name: &str) -> Option<u64> {
        let set = self.iter().find(|(key, _, origin)| key.name == name && **origin != Origin::Default);
        set.map(|(_, value, _)| value.number())
    }

    /// Returns how much is logged.
    pub(crate) fn log_level(&self) -> tracing::Level {
        let level = self.iter().find_map(|(_, value, _)| match value {
            Value::Level(level) => Some(level),
            _ => None,
        });
        level.unwrap_or(tracing::Level::INFO)
    }
}

/// Returns the place of a key in the table.
fn find(name: &str, at: &Origin) -> Result<usize, Bad> {
    let place = KEYS.iter().position(|key| key.name == name);
    place.ok_or_else(|| {
        let near = similar::nearest(name, KEYS.iter().map(|key| key.name));
        let meant = near.map(|near| match at {
            // Named as it would have to be written there.
            Origin::Environment(_) => variable(near),
            _ => near.to_owned(),
        });
        let meant = meant.map_or_else(
            || "; `lastword config show` lists them".to_owned(),
            |meant| format!(" (did you mean `{meant}`?)"),
        );
        Bad::Unknown { at: at.clone(), name: crate::text::clean::clean(name).into_owned(), meant }
    })
}

/// Returns the key of a name that a person gave.
pub(crate) fn key(name: &str) -> Result<&'static Key, Bad> {
    find(name, &Origin::Flag).map(|index| &KEYS[index])
}

/// Returns the variable that sets a key.
pub(crate) fn variable(name: &str) -> String {
    format!("LASTWORD_{}", name.replace('.', "__").to_ascii_uppercase())
}

#[cfg(test)]
mod tests;
