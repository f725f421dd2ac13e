//! Definitions of agents: built-in ones, and those in the user's `agents.toml`.

use std::collections::BTreeMap;

use lastword_core::spec::{Dialect, Permissions, Prices, Terms};
use serde::Deserialize;

/// The built-in definitions.
const BUILT_IN: &str = include_str!("agents.toml");

/// Definitions by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Definitions(BTreeMap<String, Definition>);

/// The definition of one agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The protocol it speaks.
    pub dialect: Dialect,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Extra arguments to resume a conversation; `{}` stands for its reference.
    #[serde(default)]
    pub resume: Vec<String>,
    /// Extra arguments to resume a copy of it.
    #[serde(default)]
    pub fork: Vec<String>,
    /// Why `resume` is refused, for an agent that loses a conversation when it is told to go on with it.
    #[serde(default)]
    pub no_resume: Option<String>,
    /// Arguments that make the program print its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// The package to install it from.
    #[serde(default)]
    pub package: Option<String>,
    /// Dollars per million tokens.
    #[serde(default)]
    prices: Option<Dollars>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dollars {
    #[serde(rename = "in")]
    tokens_in: f64,
    #[serde(default)]
    cached: Option<f64>,
    #[serde(rename = "out")]
    tokens_out: f64,
}

/// A file of definitions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadDefinition {
    /// The file does not parse.
    #[error("{0}")]
    Malformed(String),
    /// A definition in it is invalid.
    #[error("agent `{name}`: {why}")]
    Unusable {
        /// The name of the agent.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Definitions {
    /// Returns the built-in definitions, overridden and extended by those of a file.
    pub fn with(own: Option<&str>) -> Result<Definitions, BadDefinition> {
        let mut all = read(BUILT_IN)?;
        all.extend(own.map(read).transpose()?.unwrap_or_default());
        Ok(Definitions(all))
    }

    /// Returns the definition of this name.
    pub fn get(&self, name: &str) -> Option<&Definition> {
        self.0.get(name)
    }

    /// Returns all definitions, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Definition)> {
        self.0.iter().map(|(name, definition)| (name.as_str(), definition))
    }
}

impl Definition {
    /// Returns the program it runs.
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    /// Returns the terms of a job of this agent, with these permissions.
    pub fn terms(&self, permissions: Permissions) -> Terms {
        Terms {
            dialect: self.dialect,
            argv: self.command.clone(),
            resume: self.resume.clone(),
            fork: self.fork.clone(),
            no_resume: self.no_resume.clone(),
            permissions,
            prices: self.prices.map(Dollars::micros),
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let prompt = self.command.iter().any(|word| word.contains("{prompt}"));
        let prices = self
            .prices
            .iter()
            .flat_map(|prices| [prices.tokens_in, prices.tokens_out].into_iter().chain(prices.cached));
        match self.dialect {
            _ if self.command.first().is_none_or(String::is_empty) => Err("it has no command"),
            _ if self.no_resume.as_deref().is_some_and(|why| why.trim().is_empty()) => {
                Err("`no_resume` says no reason")
            }
            _ if prices.into_iter().any(|price| !(0.0..=1e6).contains(&price)) => {
                Err("a price is not between 0 and 1000000 dollars for a million tokens")
            }
            Dialect::Plain | Dialect::Once if !prompt => {
                Err("its command lacks `{prompt}`, so the prompt would never reach it")
            }
            Dialect::Plain if !self.resume.is_empty() => Err("a plain agent cannot be resumed"),
            Dialect::Plain | Dialect::Once => Ok(()),
            _ if prompt => {
                Err("`{prompt}` is only for the dialects `plain` and `once`; others send the prompt")
            }
            Dialect::Claude | Dialect::Codex | Dialect::Acp => Ok(()),
        }
    }
}

impl Dollars {
    /// Converts to core's prices. A cached token costs as much as any other, unless it has a price of its own.
    fn micros(self) -> Prices {
        let micros = |dollars: f64| (dollars * 1e6).round() as u64;
        Prices {
            tokens_in: micros(self.tokens_in),
            cached: micros(self.cached.unwrap_or(self.tokens_in)),
            tokens_out: micros(self.tokens_out),
        }
    }
}

fn read(text: &str) -> Result<BTreeMap<String, Definition>, BadDefinition> {
    let all: BTreeMap<String, Definition> =
        toml_edit::de::from_str(text).map_err(|error| BadDefinition::Malformed(error.to_string()))?;
    for (name, definition) in &all {
        definition.check().map_err(|why| BadDefinition::Unusable { name: name.clone(), why })?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_definitions_are_valid_and_a_file_overrides_them() {
        let known = Definitions::with(None).unwrap();
        assert_eq!(known.get("codex").map(|codex| codex.dialect), Some(Dialect::Codex));
        let own = "[codex]\ndialect = 'plain'\ncommand = ['codex', 'exec', '{prompt}']\n[mine]\ndialect = 'acp'\ncommand = ['m']";
        let both = Definitions::with(Some(own)).unwrap();
        assert_eq!(both.get("codex").map(|codex| codex.dialect), Some(Dialect::Plain));
        assert!(both.get("mine").is_some() && both.get("claude").is_some());
    }

    #[test]
    fn an_invalid_file_is_refused_with_the_name_of_the_agent() {
        let refused = |text: &str| Definitions::with(Some(text)).unwrap_err().to_string();
        assert!(refused("[x]\ndialect = 'acp'\ncommand = []").contains("`x`: it has no command"));
        assert!(refused("[x]\ndialect = 'plain'\ncommand = ['a']").contains("{prompt}"));
        assert!(refused("[x]\ndialect = 'once'\ncommand = ['a']").contains("{prompt}"));
        assert!(refused("[x]\ndialect = 'acp'\ncommand = ['{prompt}']").contains("`once`"));
        assert!(refused("[x]\ndialect = 'klingon'\ncommand = ['a']").contains("klingon"));
        assert!(refused("[x]\ndialect = 'acp'\ncommand = ['a']\nwall = 3").contains("wall"));
        assert!(refused("[x]\ndialect = 'acp'\ncommand = ['a']\nno_resume = ''").contains("no reason"));
        let priced = "[x]\ndialect = 'acp'\ncommand = ['a']\nprices = { in = -1, out = 2 }";
        assert!(refused(priced).contains("a price"));
    }

    #[test]
    fn prices_are_stored_in_millionths() {
        let text = "[x]\ndialect = 'acp'\ncommand = ['a']\nprices = { in = 1.25, out = 10 }";
        let all = Definitions::with(Some(text)).unwrap();
        let terms = all.get("x").unwrap().terms(Permissions::default());
        let prices = Prices { tokens_in: 1_250_000, cached: 1_250_000, tokens_out: 10_000_000 };
        assert_eq!(terms.prices, Some(prices));
    }
}
