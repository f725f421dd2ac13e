//! The keys there are, what each may be set to, and what it is without being set.

use super::{Bad, Origin};
use crate::text::{duration, size};

/// One setting.
pub(crate) struct Key {
    /// Its name in the file: `limits.wall` is `wall` in the table `limits`.
    pub(crate) name: &'static str,
    /// What it is when nobody set it.
    pub(crate) default: fn() -> Value,
    /// What it does, in a line.
    pub(crate) about: &'static str,
}

/// What a setting is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Count(u32),
    Duration(u64),
    Size(u64),
    Level(tracing::Level),
}

#[rustfmt::skip] // One row, one key.
pub(crate) const KEYS: &[Key] = &[
    Key { name: "slots", default: || Value::Count(0), about: "jobs of the group `default` that run at once; 0 is no bound" },
    Key { name: "grace", default: || Value::Duration(5_000), about: "time a tree has between TERM and KILL" },
    Key { name: "limits.wall", default: || Value::Duration(0), about: "time an attempt may take; 0 is no limit" },
    Key { name: "limits.stall", default: || Value::Duration(0), about: "time an attempt may write nothing; 0 is no limit" },
    Key { name: "limits.output", default: || Value::Size(0), about: "bytes an attempt may write; 0 is no limit" },
    Key { name: "output.head", default: || Value::Size(4 << 20), about: "first bytes of each stream that are kept" },
    Key { name: "output.tail", default: || Value::Size(12 << 20), about: "last bytes of each stream that are kept" },
    Key { name: "log_level", default: || Value::Level(tracing::Level::INFO), about: "what the daemon logs: error, warn, info, debug or trace" },
];

impl Key {
    /// Reads a value for this key.
    pub(crate) fn parse(&self, text: &str, at: &Origin) -> Result<Value, Bad> {
        let malformed = |why: String| Bad::Malformed { at: at.clone(), name: self.name, why };
        let shown = crate::text::clean::clean(text);
        match (self.default)() {
            Value::Count(_) => {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let count = digits.then(|| text.parse().ok()).flatten();
                count
                    .map(Value::Count)
                    .ok_or_else(|| malformed(format!("`{shown}` is not a whole number from 0 on")))
            }
            Value::Duration(_) => duration::parse_ms(text).map(Value::Duration).map_err(malformed),
            Value::Size(_) => size::parse(text).map(Value::Size).map_err(malformed),
            Value::Level(_) => match text {
                "error" | "warn" | "info" | "debug" | "trace" => {
                    text.parse().map(Value::Level).map_err(|_| malformed(format!("`{shown}` is not a level")))
                }
                _ => Err(malformed(format!("`{shown}` is none of error, warn, info, debug, trace"))),
            },
        }
    }
}

impl Value {
    /// Returns the number; of a level, none.
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
