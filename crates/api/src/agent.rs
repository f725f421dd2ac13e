//! Coding agents: in a submission, and in a job.

use lastword_core::decide::rule;
use lastword_core::{question, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::enums::{Dialect, Permission};

/// A coding agent to run instead of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// The name of a built-in agent, such as `claude` or `codex`, or of one in the user's `agents.toml`. Later changes to its definition do
    /// not affect the job.
    pub name: String,
    /// The prompt.
    pub prompt: String,
    /// What it may do without asking.
    #[serde(default)]
    pub permissions: Permissions,
    /// The model to use, by the agent's name for it; absent for the one of its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How much the model is to think, by the agent's word for it, such as `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// If its provider's quota is used up, or it is overloaded: wait for that for so many milliseconds at most, without a slot and without a
    /// process, and go on. Absent: such a turn fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_quota_ms: Option<u64>,
    /// It stays open between turns, without a slot, until it is sent a message, and ends when none comes for as long as `limits.idle_ms` allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays_open: bool,
    /// The account of its provider. Jobs with the same one share a quota; without it, all jobs of the agent do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Further arguments of its program. Those that would break its protocol or the rules of the job are refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// Something that a person allowed for the rest of a job: exactly this request of this tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StandingRule {
    /// The name by which it is removed.
    pub id: String,
    /// Its author.
    pub by: String,
    /// When it was made.
    pub created_at: Time,
    /// The tool.
    pub tool: String,
    /// The complete request.
    pub request: String,
}

impl StandingRule {
    pub(crate) fn of(rule: &question::StandingRule) -> StandingRule {
        StandingRule {
            id: rule::name(rule.no),
            by: rule.by.clone(),
            created_at: rule.at.into(),
            tool: rule.tool.clone(),
            request: rule.request.clone(),
        }
    }
}

/// What an agent may do without asking. The first matching rule counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// Rules, in order.
    pub rules: Vec<Rule>,
    /// The permission if no rule matches; `ask` by default.
    pub otherwise: Permission,
    /// Milliseconds after which an unanswered question is denied; absent means never.
    pub expires_ms: Option<u64>,
}

/// A rule about tool uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Matches the whole line of a tool use, such as `Bash: cargo test`; `*` matches anything.
    pub pattern: String,
    /// The permission for matching ones.
    pub permission: Permission,
}

/// The coding agent of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// Its name.
    pub provider: String,
    /// The protocol it speaks, which is the format of its output.
    pub dialect: Dialect,
    /// The first prompt.
    pub prompt: String,
    /// What it may do without asking.
    #[serde(default)]
    pub permissions: Permissions,
    /// The model that was chosen for it; absent for the one of its settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort that was chosen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

/// The request names an unknown permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`permissions`: a permission must be `ask`, `allow` or `deny`")]
pub struct UnknownPermission;

impl Permissions {
    /// Converts to core's permissions.
    pub fn to_core(&self) -> Result<spec::Permissions, UnknownPermission> {
        let rule = |rule: &Rule| {
            Ok(spec::Rule { pattern: rule.pattern.clone(), permission: rule.permission.to_core()? })
        };
        Ok(spec::Permissions {
            rules: self.rules.iter().map(rule).collect::<Result<_, _>>()?,
            otherwise: self.otherwise.to_core()?,
            expires_ms: self.expires_ms,
        })
    }

    fn of(permissions: &spec::Permissions) -> Permissions {
        let rule =
            |rule: &spec::Rule| Rule { pattern: rule.pattern.clone(), permission: rule.permission.into() };
        Permissions {
            rules: permissions.rules.iter().map(rule).collect(),
            otherwise: permissions.otherwise.into(),
            expires_ms: permissions.expires_ms,
        }
    }
}

impl Permission {
    fn to_core(&self) -> Result<spec::Permission, UnknownPermission> {
        match self {
            Permission::Ask => Ok(spec::Permission::Ask),
            Permission::Allow => Ok(spec::Permission::Allow),
            Permission::Deny => Ok(spec::Permission::Deny),
            Permission::Other(_) => Err(UnknownPermission),
        }
    }
}

impl Default for Permissions {
    fn default() -> Permissions {
        Permissions::of(&spec::Permissions::default())
    }
}

impl From<spec::Permission> for Permission {
    fn from(permission: spec::Permission) -> Permission {
        match permission {
            spec::Permission::Ask => Permission::Ask,
            spec::Permission::Allow => Permission::Allow,
            spec::Permission::Deny => Permission::Deny,
        }
    }
}

impl From<spec::Dialect> for Dialect {
    fn from(dialect: spec::Dialect) -> Dialect {
        match dialect {
            spec::Dialect::Acp => Dialect::Acp,
            spec::Dialect::Claude => Dialect::Claude,
            spec::Dialect::Codex => Dialect::Codex,
            spec::Dialect::Plain => Dialect::Plain,
            spec::Dialect::Once => Dialect::Once,
        }
    }
}

impl Dialect {
    /// Converts to core's dialect; `None` if this build does not know it.
    pub fn to_core(&self) -> Option<spec::Dialect> {
        match self {
            Dialect::Acp => Some(spec::Dialect::Acp),
            Dialect::Claude => Some(spec::Dialect::Claude),
            Dialect::Codex => Some(spec::Dialect::Codex),
            Dialect::Plain => Some(spec::Dialect::Plain),
            Dialect::Once => Some(spec::Dialect::Once),
            Dialect::Other(_) => None,
        }
    }
}

impl Agent {
    /// Returns the agent of a job, if it runs one.
    pub(crate) fn of(work: &spec::Work) -> Option<Agent> {
        let spec::Work::Agent { provider, prompt, terms } = work else { return None };
        Some(Agent {
            provider: provider.clone(),
            dialect: terms.dialect.into(),
            prompt: prompt.clone(),
            permissions: Permissions::of(&terms.permissions),
            model: terms.model.clone(),
            effort: terms.effort.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_convert_to_core_and_back_unless_unknown() {
        let said =
            r#"{"rules":[{"pattern":"Bash: *","permission":"deny"}],"otherwise":"allow","expires_ms":5}"#;
        let asked: Permissions = serde_json::from_str(said).unwrap();
        assert_eq!(Permissions::of(&asked.to_core().unwrap()), asked);
        let odd: Permissions = serde_json::from_str(r#"{"otherwise":"perhaps"}"#).unwrap();
        assert_eq!(odd.to_core(), Err(UnknownPermission));
        assert_eq!(serde_json::from_str::<Permissions>("{}").unwrap().otherwise, Permission::Ask);
    }
}
