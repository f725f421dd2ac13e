//! The settings, their types and defaults.

use super::error::{Origin, SettingsError};
use crate::text::{duration, size};

/// One setting.
pub(crate) struct Key {
    /// Its name in the file: `limits.wall` is `wall` in the table `limits`.
    pub(crate) name: &'static str,
    /// Its default.
    pub(crate) default: fn() -> Value,
    /// What it does, in one line.
    pub(crate) about: &'static str,
}

/// The value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Count(u32),
    Duration(u64),
    Size(u64),
    Level(tracing::Level),
}

#[rustfmt::skip] // One row, one key.
pub(crate) const KEYS: &[Key] = &[
    Key { name: "slots", default: || Value::Count(0), about: "jobs of the group `default` that may run at once; 0 for no limit" },
    Key { name: "grace", default: || Value::Duration(5_000), about: "time between TERM and KILL when a job is stopped" },
    Key { name: "limits.wall", default: || Value::Duration(0), about: "maximum run time of an attempt; 0 for no limit" },
    Key { name: "limits.stall", default: || Value::Duration(0), about: "maximum time an attempt may write nothing; 0 for no limit" },
    Key { name: "limits.output", default: || Value::Size(0), about: "maximum output of an attempt; 0 for no limit" },
    Key { name: "output.head", default: || Value::Size(4 << 20), about: "bytes kept from the start of each output stream" },
    Key { name: "output.tail", default: || Value::Size(12 << 20), about: "bytes kept from the end of each output stream" },
    Key { name: "log_level", default: || Value::Level(tracing::Level::INFO), about: "verbosity of the daemon's log: error, warn, info, debug or trace" },
];

impl Key {
    /// Parses a value for this key.
    pub(crate) fn parse(&self, text: &str, at: &Origin) -> Result<Value, SettingsError> {
        let malformed = |why: String| SettingsError::Malformed { at: at.clone(), name: self.name, why };
        let shown = crate::text::clean::clean(text);
        match (self.default)() {
            Value::Count(_) => {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let count = digits.then(|| text.parse().ok()).flatten();
                count.map(Value::Count).ok_or_else(|| malformed(format!("`{shown}` is not a whole number")))
            }
            Value::Duration(_) => duration::parse_ms(text).map(Value::Duration).map_err(malformed),
            Value::Size(_) => size::parse(text).map(Value::Size).map_err(malformed),
            Value::Level(_) => match text {
                "error" | "warn" | "info" | "debug" | "trace" => {
                    text.parse().map(Value::Level).map_err(|_| malformed(format!("`{shown}` is not a level")))
                }
                _ => Err(malformed(format!("`{shown}` is not one of error, warn, info, debug, trace"))),
            },
        }
    }
}

impl Value {
    /// Returns the value as a number; 0 for a log level.
    pub(crate) fn number(self) -> u64 {
        match self {
            Value::Count(count) => count.into(),
            Value::Duration(number) | Value::Size(number) => number,
            Value::Level(_) => 0,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Duration(ms) => f.write_str(&duration::spell_ms(*ms)),
            Value::Size(bytes) => f.write_str(&size::spell(*bytes)),
            Value::Level(level) => f.write_str(&level.to_string().to_ascii_lowercase()),
        }
    }
}
