//! Limits of a job, and changes to them.

use lastword_core::limits::{self, Limit};
use lastword_core::view::nearest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::patch::present;

/// Limits of a job. An absent one does not exist; in a request, an absent one is left to the settings and zero switches it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Milliseconds that the attempts of a job may take together, not counting suspends of the machine and the time in which a person is
    /// asked.
    pub wall_ms: Option<u64>,
    /// The same for each turn of an agent. Of a job, `agent_limits` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
    /// The same for all turns of a conversation together. Of a job, `agent_limits` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<u64>,
    /// Milliseconds in which an agent must open its session. Of a job, `agent_limits` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    /// Milliseconds in which an agent whose turn was interrupted must get a message. Of a job, `agent_limits` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
    /// Milliseconds without progress; for a plain command, without output.
    pub stall_ms: Option<u64>,
    /// Bytes of standard output and error together.
    pub output_bytes: Option<u64>,
    /// Turns of a conversation.
    pub turns: Option<u64>,
    /// Input and output tokens of a conversation.
    pub tokens: Option<u64>,
    /// Money that a conversation costs, in millionths of a dollar.
    pub money_micros: Option<u64>,
}

/// Limits of a job that only agents have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentLimits {
    /// Milliseconds that a turn may take, not counting the time in which a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_ms: Option<u64>,
    /// Milliseconds that all turns of the conversation may take together, not counting the time in which a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_ms: Option<u64>,
    /// Milliseconds in which the agent must open its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake_ms: Option<u64>,
    /// Milliseconds in which the agent must get a message after its turn was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_ms: Option<u64>,
}

impl AgentLimits {
    /// Returns those in force, if there are any.
    pub(crate) fn of(limits: &limits::Limits) -> Option<AgentLimits> {
        let all = AgentLimits {
            turn_ms: limits.get(Limit::Turn),
            active_ms: limits.get(Limit::Active),
            handshake_ms: limits.get(Limit::Handshake),
            idle_ms: limits.get(Limit::Idle),
        };
        (all != AgentLimits::default()).then_some(all)
    }
}

/// How much of a limit is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsedLimit {
    /// The limit, such as `turns` or `money`.
    pub limit: String,
    /// How much of it is used: milliseconds, bytes, a number, or millionths of a dollar.
    pub used: u64,
    /// How much is allowed.
    pub allowed: u64,
}

impl UsedLimit {
    pub(crate) fn of(used: nearest::Used) -> UsedLimit {
        UsedLimit { limit: used.limit.name().to_owned(), used: used.used, allowed: used.allowed }
    }
}

/// A merge patch of limits: an absent one is unchanged, null or zero switches it off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsPatch {
    /// Milliseconds that the attempts of a job may take together.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub wall_ms: Option<Option<u64>>,
    /// Milliseconds that a turn may take.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub turn_ms: Option<Option<u64>>,
    /// Milliseconds that all turns of a conversation may take together.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub active_ms: Option<Option<u64>>,
    /// Milliseconds in which an agent must open its session.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub handshake_ms: Option<Option<u64>>,
    /// Milliseconds in which an agent whose turn was interrupted must get a message.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub idle_ms: Option<Option<u64>>,
    /// Milliseconds without progress.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub stall_ms: Option<Option<u64>>,
    /// Bytes of standard output and error together.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub output_bytes: Option<Option<u64>>,
    /// Turns of a conversation.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub turns: Option<Option<u64>>,
    /// Input and output tokens of a conversation.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub tokens: Option<Option<u64>>,
    /// Money that a conversation costs, in millionths of a dollar.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub money_micros: Option<Option<u64>>,
}

impl Limits {
    /// Converts limits in force: one that is switched off is absent, and so are those of agents alone, which clients of 0.1.0 refuse.
    pub fn in_force(limits: &limits::Limits) -> Limits {
        Limits {
            wall_ms: limits.get(Limit::Wall),
            turn_ms: None,
            active_ms: None,
            handshake_ms: None,
            idle_ms: None,
            stall_ms: limits.get(Limit::Stall),
            output_bytes: limits.get(Limit::Output),
            turns: limits.get(Limit::Turns),
            tokens: limits.get(Limit::Tokens),
            money_micros: limits.get(Limit::Money),
        }
    }

    /// Converts to core's limits.
    pub fn to_core(&self) -> limits::Limits {
        limits::Limits {
            wall_ms: self.wall_ms,
            turn_ms: self.turn_ms,
            active_ms: self.active_ms,
            handshake_ms: self.handshake_ms,
            idle_ms: self.idle_ms,
            stall_ms: self.stall_ms,
            output_bytes: self.output_bytes,
            turns: self.turns,
            tokens: self.tokens,
            money_micros: self.money_micros,
        }
    }
}

impl LimitsPatch {
    /// Returns the changes; zero is off.
    pub fn changes(&self) -> Vec<(Limit, u64)> {
        let fields = [
            (Limit::Wall, self.wall_ms),
            (Limit::Turn, self.turn_ms),
            (Limit::Active, self.active_ms),
            (Limit::Handshake, self.handshake_ms),
            (Limit::Idle, self.idle_ms),
            (Limit::Stall, self.stall_ms),
            (Limit::Output, self.output_bytes),
            (Limit::Turns, self.turns),
            (Limit::Tokens, self.tokens),
            (Limit::Money, self.money_micros),
        ];
        let present = fields.into_iter().filter_map(|(limit, value)| Some((limit, value?)));
        present.map(|(limit, value)| (limit, value.unwrap_or(0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_distinguishes_absent_from_null() {
        let patch: LimitsPatch = serde_json::from_str(r#"{"wall_ms": 5, "stall_ms": null}"#).unwrap();
        assert_eq!(patch.changes(), [(Limit::Wall, 5), (Limit::Stall, 0)]);
        assert_eq!(serde_json::to_string(&patch).unwrap(), r#"{"wall_ms":5,"stall_ms":null}"#);
        assert!(serde_json::from_str::<LimitsPatch>(r#"{"wal_ms": 5}"#).is_err(), "a typo is not ignored");
    }
}
