//! Limits and their arithmetic: wall clock, time of a turn, time of all turns, handshake, idle time, stall, output, turns, tokens, money.
//!
//! Times are measured by the awake clock. `decide::limit` decides what a reached limit means for the job.

use serde::{Deserialize, Serialize};

use crate::ids::Awake;

/// Limits from one source. Zero switches a limit off; an absent one is left to the next source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Awake milliseconds that the attempts of a job may take together. The time in which a person is asked does not count.
    pub wall_ms: Option<u64>,
    /// The same for each turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
    /// The same for all turns of a conversation together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<u64>,
    /// Awake milliseconds in which an agent must open its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    /// Awake milliseconds in which an agent whose turn was interrupted must get a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Awake milliseconds without progress.
    pub stall_ms: Option<u64>,
    /// Bytes an attempt may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// Turns of a conversation.
    pub turns: Option<u64>,
    /// Input and output tokens of a conversation.
    pub tokens: Option<u64>,
    /// Money that a conversation costs, in millionths of a dollar.
    pub money_micros: Option<u64>,
}

/// A kind of limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The wall clock. A stored `limit_fired` whose kind cannot be read counts as this one, so that it still stops the job.
    #[default]
    Wall,
    /// The time of one turn.
    Turn,
    /// The time of all turns of a conversation.
    Active,
    /// The time until an agent opens its session.
    Handshake,
    /// The time without a message after a turn was interrupted.
    Idle,
    /// Time without progress.
    Stall,
    /// Bytes of output.
    Output,
    /// Turns.
    Turns,
    /// Tokens.
    Tokens,
    /// Money.
    Money,
    /// Tokens that all jobs of its group spent today.
    GroupTokens,
    /// Money that all jobs of its group spent today.
    GroupMoney,
}

/// What a limit is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Turns or tokens.
    Count,
    /// Millionths of a dollar.
    Money,
}

impl Limit {
    /// Returns every limit with its name: those of a job, which are settings, and those of a group.
    pub fn all() -> impl Iterator<Item = (Limit, &'static str)> {
        SETTINGS.into_iter().chain([(Limit::GroupTokens, "group_tokens"), (Limit::GroupMoney, "group_money")])
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Limit::all().find(|(known, _)| *known == self).map_or("unknown", |(_, name)| name)
    }

    /// Returns what it is measured in.
    pub fn unit(self) -> Unit {
        match self {
            Limit::Wall | Limit::Turn | Limit::Active | Limit::Handshake | Limit::Idle | Limit::Stall => {
                Unit::Time
            }
            Limit::Output => Unit::Bytes,
            Limit::Turns | Limit::Tokens | Limit::GroupTokens => Unit::Count,
            Limit::Money | Limit::GroupMoney => Unit::Money,
        }
    }

    /// Reports whether only an agent can reach it.
    pub fn is_of_agents(self) -> bool {
        matches!(
            self,
            Limit::Turn
                | Limit::Active
                | Limit::Handshake
                | Limit::Idle
                | Limit::Turns
                | Limit::Tokens
                | Limit::Money
        )
    }

    /// Reports whether this limits something that is used up, rather than time.
    pub fn is_budget(self) -> bool {
        self.unit() != Unit::Time
    }
}

/// Every limit that a job can have, with the name of its setting. Those of a group are in `budget`.
pub const SETTINGS: [(Limit, &str); 10] = [
    (Limit::Wall, "wall"),
    (Limit::Turn, "turn"),
    (Limit::Active, "active"),
    (Limit::Handshake, "handshake"),
    (Limit::Idle, "idle"),
    (Limit::Stall, "stall"),
    (Limit::Output, "output"),
    (Limit::Turns, "turns"),
    (Limit::Tokens, "tokens"),
    (Limit::Money, "money"),
];

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// No limit has this name.
    #[error(
        "unknown setting `{0}`: the limits are wall, turn, active, handshake, idle, stall, output, turns, tokens, money"
    )]
    Unknown(String),
    /// The value does not fit the limit.
    #[error("setting `{name}`: `{value}` is not {expected}; 0 switches the limit off")]
    Malformed {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What the value must be.
        expected: &'static str,
    },
}

impl Limits {
    /// Returns these limits, with absent ones taken from `fallback`.
    pub fn or(self, fallback: Limits) -> Limits {
        Limits {
            wall_ms: self.wall_ms.or(fallback.wall_ms),
            turn_ms: self.turn_ms.or(fallback.turn_ms),
            active_ms: self.active_ms.or(fallback.active_ms),
            handshake_ms: self.handshake_ms.or(fallback.handshake_ms),
            idle_ms: self.idle_ms.or(fallback.idle_ms),
            stall_ms: self.stall_ms.or(fallback.stall_ms),
            output_bytes: self.output_bytes.or(fallback.output_bytes),
            turns: self.turns.or(fallback.turns),
            tokens: self.tokens.or(fallback.tokens),
            money_micros: self.money_micros.or(fallback.money_micros),
        }
    }

    /// Returns the value of one limit; `None` if it is absent or switched off.
    pub fn get(&self, limit: Limit) -> Option<u64> {
        let value = match limit {
            Limit::Wall => self.wall_ms,
            Limit::Turn => self.turn_ms,
            Limit::Active => self.active_ms,
            Limit::Handshake => self.handshake_ms,
            Limit::Idle => self.idle_ms,
            Limit::Stall => self.stall_ms,
            Limit::Output => self.output_bytes,
            Limit::Turns => self.turns,
            Limit::Tokens => self.tokens,
            Limit::Money => self.money_micros,
            Limit::GroupTokens | Limit::GroupMoney => None,
        };
        value.filter(|value| *value > 0)
    }

    /// Sets one limit of a job; zero switches it off.
    pub fn set(&mut self, limit: Limit, value: u64) {
        let slot = match limit {
            Limit::Wall => &mut self.wall_ms,
            Limit::Turn => &mut self.turn_ms,
            Limit::Active => &mut self.active_ms,
            Limit::Handshake => &mut self.handshake_ms,
            Limit::Idle => &mut self.idle_ms,
            Limit::Stall => &mut self.stall_ms,
            Limit::Output => &mut self.output_bytes,
            Limit::Turns => &mut self.turns,
            Limit::Tokens => &mut self.tokens,
            Limit::Money => &mut self.money_micros,
            Limit::GroupTokens | Limit::GroupMoney => return,
        };
        *slot = Some(value);
    }

    /// Parses settings as users write them (`wall=2h`, `output=10M`, `money=1.50`).
    pub fn parse<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Limits, BadSetting> {
        let mut limits = Limits::default();
        for (key, value) in settings {
            let (limit, value) = parse_setting(key, value)?;
            limits.set(limit, value);
        }
        Ok(limits)
    }
}

/// Parses one setting.
pub fn parse_setting(key: &str, value: &str) -> Result<(Limit, u64), BadSetting> {
    let &(limit, name) = SETTINGS
        .iter()
        .find(|(_, name)| *name == key)
        .ok_or_else(|| BadSetting::Unknown(key.chars().take(64).collect()))?;
    let (parsed, expected) = match limit.unit() {
        Unit::Time => (parse_duration_ms(value), "a duration such as 90s, 20m or 4h"),
        Unit::Bytes => (parse_bytes(value), "a size such as 500k, 10M or 1G"),
        Unit::Count => (whole(value), "a whole number"),
        Unit::Money => (parse_micros(value), "an amount in dollars such as 1.50"),
    };
    parsed.map(|value| (limit, value)).ok_or_else(|| BadSetting::Malformed {
        name,
        value: value.chars().take(64).collect(),
        expected,
    })
}

fn parse_duration_ms(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    whole(digits)?.checked_mul(unit_ms)
}

/// Parses a size. Units are powers of 1024, as in `head -c` and `du`.
fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    whole(digits)?.checked_mul(1 << shift)
}

fn parse_micros(text: &str) -> Option<u64> {
    let (dollars, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let micros = whole(fraction)? * 10u64.pow(6 - fraction.len() as u32);
    whole(dollars)?.checked_mul(1_000_000)?.checked_add(micros)
}

/// Formats an amount in dollars, with two decimals or more if needed.
pub fn dollars(micros: u64) -> String {
    let fraction = format!("{:06}", micros % 1_000_000);
    let below_cents = fraction[2..].trim_end_matches('0');
    format!("${}.{}{below_cents}", micros / 1_000_000, &fraction[..2])
}

/// Parses digits only: no sign, no space.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// What a job has used so far. Turns, their time, tokens and money are those of its conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Awake milliseconds that its attempts took, without those in which a person was asked.
    pub wall_ms: u64,
    /// The same for the active turn; zero without one.
    pub turn_ms: u64,
    /// The same for all turns.
    pub active_ms: u64,
    /// Awake milliseconds since it was launched, if its agent has not opened a session; else zero.
    pub handshake_ms: u64,
    /// Awake milliseconds since a turn was interrupted, if no message came; else zero.
    pub idle_ms: u64,
    /// Awake milliseconds without progress; zero while the stall clock is suspended.
    pub stall_ms: u64,
    /// Bytes it has written.
    pub output_bytes: u64,
    /// Turns begun.
    pub turns: u64,
    /// Tokens spent.
    pub tokens: u64,
    /// Money spent.
    pub money_micros: u64,
}

/// A limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reached {
    /// The limit.
    pub limit: Limit,
    /// The measured value.
    pub measured: u64,
    /// The allowed value.
    pub allowed: u64,
}

/// Returns the first limit that is reached, in the order of [`SETTINGS`].
pub fn reached(limits: &Limits, used: &Used) -> Option<Reached> {
    SETTINGS.iter().find_map(|&(limit, _)| {
        let allowed = limits.get(limit)?;
        let measured = match limit {
            Limit::Wall => used.wall_ms,
            Limit::Turn => used.turn_ms,
            Limit::Active => used.active_ms,
            Limit::Handshake => used.handshake_ms,
            Limit::Idle => used.idle_ms,
            Limit::Stall => used.stall_ms,
            Limit::Output => used.output_bytes,
            Limit::Turns => used.turns,
            Limit::Tokens => used.tokens,
            Limit::Money => used.money_micros,
            Limit::GroupTokens | Limit::GroupMoney => return None,
        };
        // Time is up at the limit; a count may reach it, but not exceed it.
        let over = if limit.is_budget() { measured > allowed } else { measured >= allowed };
        over.then_some(Reached { limit, measured, allowed })
    })
}

/// A clock that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// When it started, by the awake clock.
    pub since: Awake,
    /// Milliseconds that count from before.
    pub before_ms: u64,
}

impl Clock {
    /// Returns a clock that began at zero.
    pub fn since(since: Awake) -> Clock {
        Clock { since, before_ms: 0 }
    }

    /// Returns what it shows.
    pub fn shows(self, now: Awake) -> u64 {
        now.0.saturating_sub(self.since.0).saturating_add(self.before_ms)
    }

    /// Returns when it will show so much: at once, if it has shown more before.
    pub fn reaches(self, ms: u64) -> Awake {
        self.since.plus_ms(ms.saturating_sub(self.before_ms))
    }
}

/// The clocks of an attempt. A clock that rests is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Of all attempts.
    pub wall: Option<Clock>,
    /// Of the active turn.
    pub turn: Option<Clock>,
    /// Of all turns.
    pub active: Option<Clock>,
    /// Of the handshake.
    pub handshake: Option<Clock>,
    /// Of the wait for a message.
    pub idle: Option<Clock>,
    /// Of the time without progress.
    pub stall: Option<Clock>,
}

/// Returns when the next time limit is reached; `None` if none is set.
pub fn next_deadline(limits: &Limits, clocks: &Clocks) -> Option<Awake> {
    let each = [
        (Limit::Wall, clocks.wall),
        (Limit::Turn, clocks.turn),
        (Limit::Active, clocks.active),
        (Limit::Handshake, clocks.handshake),
        (Limit::Idle, clocks.idle),
        (Limit::Stall, clocks.stall),
    ];
    each.into_iter().filter_map(|(limit, clock)| Some(clock?.reaches(limits.get(limit)?))).min()
}
