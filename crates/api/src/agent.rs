//! Coding agents: asked for with a job, and as the job tells of them.

use lastword_core::spec;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::enums::{Dialect, Permission};

/// A wish for a coding agent to do the work, in place of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRequest {
    /// Which one: a name that every installation knows, such as `claude` or `codex`, or one of the user's `agents.toml`. How it is started
    /// is fixed with the job.
    pub name: String,
    /// What it is to do.
    pub prompt: String,
    /// What it may do without asking.
    #[serde(default)]
    pub permissions: Permissions,
}

/// What an agent may do without asking: the first rule that fits, else the rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// Rules, in order.
    pub rules: Vec<Rule>,
    /// What becomes of a wish that no rule fits; `ask` if not said.
    pub otherwise: Permission,
    /// Milliseconds after which a wish that nobody answered is denied; absent is never.
    pub expires_ms: Option<u64>,
}

/// One rule for what an agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Fits the whole line that says what the agent wants, such as `Bash: cargo test`; `*` stands for anything.
    pub pattern: String,
    /// What becomes of it.
    pub permission: Permission,
}

/// A coding agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agent {
    /// Which one.
    pub provider: String,
    /// How it is spoken to, which is what its output is written in.
    pub dialect: Dialect,
    /// The first prompt.
    pub prompt: String,
    /// What it may do without asking.
    #[serde(default)]
    pub permissions: Permissions,
}

/// The request names a permission that this build does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`permissions`: a permission is `ask`, `allow` or `deny`")]
pub struct UnknownPermission;

impl Permissions {
    /// Returns the rules in the words of core.
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
    /// Returns the dialect in the words of core; `None` if this build does not know it.
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
    /// Returns the agent of a spec, if one does the work.
    pub(crate) fn of(work: &spec::Work) -> Option<Agent> {
        let spec::Work::Agent { provider, prompt, terms } = work else { return None };
        Some(Agent {
            provider: provider.clone(),
            dialect: terms.dialect.into(),
            prompt: prompt.clone(),
            permissions: Permissions::of(&terms.permissions),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_go_to_core_and_come_back_and_an_unknown_one_does_not() {
        let said =
            r#"{"rules":[{"pattern":"Bash: *","permission":"deny"}],"otherwise":"allow","expires_ms":5}"#;
        let asked: Permissions = serde_json::from_str(said).unwrap();
        assert_eq!(Permissions::of(&asked.to_core().unwrap()), asked);
        let odd: Permissions = serde_json::from_str(r#"{"otherwise":"perhaps"}"#).unwrap();
        assert_eq!(odd.to_core(), Err(UnknownPermission));
        assert_eq!(serde_json::from_str::<Permissions>("{}").unwrap().otherwise, Permission::Ask);
    }
}
