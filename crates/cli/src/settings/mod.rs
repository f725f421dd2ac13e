//! Settings. A flag overrides the environment, which overrides the file, which overrides the default. An invalid setting prevents the
//! start of a daemon and the work of a command, and the error names it (C55).

mod error;
mod file;
mod key;

use std::path::Path;

pub(crate) use error::{Origin, SettingsError};
pub(crate) use file::write_value;
pub(crate) use key::{KEYS, Key, Value};

use crate::text::similar;

/// All settings, and where their values came from.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    values: Vec<(Value, Origin)>,
}

impl Settings {
    /// Loads all settings. A missing file sets nothing.
    pub(crate) fn load(
        path: &Path,
        environment: &[(String, String)],
        flags: &[(String, String)],
    ) -> Result<Settings, SettingsError> {
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

    fn set(&mut self, name: &str, value: &str, at: Origin) -> Result<(), SettingsError> {
        let index = find(name, &at)?;
        let value = KEYS[index].parse(value, &at)?;
        self.values[index] = (value, at);
        Ok(())
    }

    /// Iterates over all keys with their values and origins.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static Key, Value, &Origin)> {
        KEYS.iter().zip(&self.values).map(|(key, (value, origin))| (key, *value, origin))
    }

    /// Returns the numeric value of a key.
    ///
    /// # Panics
    /// If there is no such key.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let (_, value, _) = self.iter().find(|(key, ..)| key.name == name).expect("a key of the table");
        value.number()
    }

    /// Returns the numeric value of a key if it was set; `None` if it is the default.
    pub(crate) fn number_if_set(&self, name: &str) -> Option<u64> {
        let set = self.iter().find(|(key, _, origin)| key.name == name && **origin != Origin::Default);
        set.map(|(_, value, _)| value.number())
    }

    /// Returns the numeric value of a key if the environment sets it.
    pub(crate) fn number_in_environment(&self, name: &str) -> Option<u64> {
        let (_, value, _) = self.in_environment().find(|(key, ..)| key.name == name)?;
        Some(value.number())
    }

    /// Iterates over the keys that the environment sets.
    pub(crate) fn in_environment(&self) -> impl Iterator<Item = (&'static Key, Value, &Origin)> {
        self.iter().filter(|(.., origin)| matches!(origin, Origin::Environment(_)))
    }

    /// Returns the log level.
    pub(crate) fn log_level(&self) -> tracing::Level {
        let level = self.iter().find_map(|(_, value, _)| match value {
            Value::Level(level) => Some(level),
            _ => None,
        });
        level.unwrap_or(tracing::Level::INFO)
    }
}

/// Returns the index of a key in [`KEYS`].
fn find(name: &str, at: &Origin) -> Result<usize, SettingsError> {
    let index = KEYS.iter().position(|key| key.name == name);
    index.ok_or_else(|| {
        let near = similar::nearest(name, KEYS.iter().map(|key| key.name));
        let suggestion = near.map(|near| match at {
            // Spelled as it must be written there.
            Origin::Environment(_) => variable(near),
            _ => near.to_owned(),
        });
        let hint = suggestion.map_or_else(
            || "; `lastword config show` lists all settings".to_owned(),
            |suggestion| format!(" (did you mean `{suggestion}`?)"),
        );
        SettingsError::Unknown { at: at.clone(), name: crate::text::clean::clean(name).into_owned(), hint }
    })
}

/// Finds a key by the name that `config` was given.
pub(crate) fn key(name: &str) -> Result<&'static Key, SettingsError> {
    find(name, &Origin::Config).map(|index| &KEYS[index])
}

/// Returns the environment variable of a key.
pub(crate) fn variable(name: &str) -> String {
    format!("LASTWORD_{}", name.replace('.', "__").to_ascii_uppercase())
}

#[cfg(test)]
mod tests;
