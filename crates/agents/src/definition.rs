//! Definitions of agents: built-in ones, and those in the user's `agents.toml`.

use std::collections::BTreeMap;

use lastword_core::spec::{Dialect, Measures, Permissions, Terms};
use serde::Deserialize;

use crate::prices::Dollars;
use crate::rules::ToolNames;

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
    /// It says when its provider refuses to answer, although its dialect need not.
    #[serde(default)]
    tells_refusals: bool,
    /// The account of its provider, whose jobs share a quota.
    account: Option<String>,
    /// How it is told to forget what is recorded after a completed turn: extra arguments, or the name of a request of its protocol.
    #[serde(default)]
    pub rewind: Vec<String>,
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
    /// What it reports while a turn runs. If nothing is said, what its dialect always reports.
    #[serde(default)]
    measures: Option<Vec<Measure>>,
    /// Extra arguments that choose a model; `{}` stands for its name. Not needed if the protocol can do it.
    #[serde(default)]
    model: Vec<String>,
    /// Extra arguments that choose an effort.
    #[serde(default)]
    effort: Vec<String>,
    /// Why an effort is refused, for an agent that speaks ACP and offers none.
    #[serde(default)]
    no_effort: Option<String>,
    /// Variables of its environment, unless the job's own environment has them.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Variables that get a random value at each start, unless the job's own environment has them.
    #[serde(default)]
    secrets: Vec<String>,
    /// Names of tools in its requests beside those of its dialect. Tools of servers need not be listed.
    #[serde(default)]
    tools: Vec<String>,
    /// Arguments that a job must not add, each with the reason. A name of two words also needs the next argument to begin so.
    #[serde(default)]
    refused: BTreeMap<String, String>,
}

/// Something that an agent can report while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Measure {
    Tokens,
    Money,
}

/// What the submitter of a job chose for its agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// What it may do without asking.
    pub permissions: Permissions,
    /// The model.
    pub model: Option<String>,
    /// The effort.
    pub effort: Option<String>,
    /// The account of its provider.
    pub account: Option<String>,
    /// Further arguments of its program.
    pub args: Vec<String>,
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

    /// Returns the terms of a job of this agent; if it cannot have what was chosen, the reason.
    pub fn terms(&self, chosen: Chosen) -> Result<Terms, String> {
        let Chosen { mut permissions, model, effort, account, args } = chosen;
        permissions.rules = ToolNames::new(self.dialect, &self.tools).check(permissions.rules)?;
        let mut argv = self.command.clone();
        // Options must come before `--`.
        let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
        let by_protocol = matches!(self.dialect, Dialect::Codex | Dialect::Acp);
        if let Some(why) = self.no_effort.as_ref().filter(|_| effort.is_some()) {
            return Err(format!("its effort cannot be chosen: {why}"));
        }
        let model_words = words_for("model", &self.model, model.as_deref(), by_protocol)?;
        let effort_words = words_for("effort", &self.effort, effort.as_deref(), by_protocol)?;
        if let Some((name, why)) = self.refusal(&args) {
            return Err(format!("the argument `{name}` is refused: {why}"));
        }
        argv.splice(end..end, model_words.into_iter().chain(effort_words).chain(args));
        Ok(Terms {
            dialect: self.dialect,
            argv,
            resume: self.resume.clone(),
            fork: self.fork.clone(),
            rewind: self.rewind.clone(),
            no_resume: self.no_resume.clone(),
            permissions,
            prices: self.prices.and_then(Dollars::prices),
            model_prices: BTreeMap::new(),
            measures: Some(self.measures()),
            tells_refusals: self.tells_refusals || matches!(self.dialect, Dialect::Claude | Dialect::Codex),
            env: self.env.clone(),
            secrets: self.secrets.clone(),
            model,
            effort,
            account: account.or_else(|| self.account.clone()),
        })
    }

    /// Returns the first argument that must not be added, with the reason.
    fn refusal(&self, args: &[String]) -> Option<(&str, &str)> {
        let is = |at: usize, name: &str| {
            let (flag, value) = name.split_once(' ').unwrap_or((name, ""));
            let rest = args[at].strip_prefix(flag);
            let next = args.get(at + 1).map_or("", String::as_str);
            // Agents ignore spaces and quotes around the key of a setting.
            let is_value = |text: &str| text.trim_start_matches([' ', '\t', '"', '\'']).starts_with(value);
            match rest {
                Some("") => is_value(next),
                // A short flag takes its value, or other short flags, without a space.
                Some(rest) if flag.len() == 2 => is_value(rest.trim_start_matches('=')),
                Some(rest) => rest.strip_prefix('=').is_some_and(is_value),
                None => false,
            }
        };
        let each = self.refused.iter().map(|(name, why)| (name.as_str(), why.as_str()));
        let mut each = each.filter(|(name, _)| (0..args.len()).any(|at| is(at, name)));
        each.next()
    }

    /// Returns what it reports while a turn runs.
    fn measures(&self) -> Measures {
        match &self.measures {
            Some(measures) => Measures {
                tokens: measures.contains(&Measure::Tokens),
                money: measures.contains(&Measure::Money),
            },
            None => {
                let always = matches!(self.dialect, Dialect::Claude | Dialect::Codex);
                Measures { tokens: always, money: always }
            }
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let prompt = self.command.iter().any(|word| word.contains("{prompt}"));
        let is_bad = self.prices.is_some_and(|prices| prices.prices().is_none());
        match self.dialect {
            _ if self.command.first().is_none_or(String::is_empty) => Err("it has no command"),
            _ if self.no_resume.as_deref().is_some_and(|why| why.trim().is_empty()) => {
                Err("`no_resume` says no reason")
            }
            _ if self.env.iter().any(is_no_variable) => Err("`env` has a name that is none, or a zero byte"),
            _ if self.secrets.iter().any(|name| is_no_variable((name, name))) => {
                Err("`secrets` has a name that is none")
            }
            _ if is_bad => Err("a price is not between 0 and 1000000 dollars for a million tokens"),
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

/// Returns the arguments that choose a model or an effort. None if nothing was chosen, or if the protocol does it.
fn words_for(
    what: &str,
    words: &[String],
    chosen: Option<&str>,
    by_protocol: bool,
) -> Result<Vec<String>, String> {
    let Some(chosen) = chosen else { return Ok(Vec::new()) };
    match words {
        [] if !by_protocol => Err(format!("its {what} cannot be chosen: use its own settings")),
        words => Ok(words.iter().map(|word| word.replace("{}", chosen)).collect()),
    }
}

fn is_no_variable((name, value): (&String, &String)) -> bool {
    name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
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
    use lastword_core::spec::Prices;

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
        let terms = all.get("x").unwrap().terms(Chosen::default()).unwrap();
        let (tokens_in, cached, tokens_out) = (1_250_000, 1_250_000, 10_000_000);
        let prices = Prices { tokens_in, cached, tokens_out, ..Prices::default() };
        assert_eq!(terms.prices, Some(prices));
    }

    fn chosen(model: Option<&str>, effort: Option<&str>, args: &[&str]) -> Chosen {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let args = args.iter().map(|word| (*word).to_owned()).collect();
        Chosen { model: owned(model), effort: owned(effort), args, ..Chosen::default() }
    }

    #[test]
    fn a_model_an_effort_and_arguments_are_added_before_the_double_dash() {
        let known = Definitions::with(None).unwrap();
        let argv = |name: &str, chosen: Chosen| {
            known.get(name).unwrap().terms(chosen).map(|terms| terms.argv.join(" "))
        };
        let all = || chosen(Some("m1"), Some("high"), &["--add-dir", "x"]);
        assert!(argv("claude", all()).unwrap().ends_with(" stdio --model m1 --effort high --add-dir x"));
        let claude = argv("claude-print", all()).unwrap();
        assert!(claude.contains(" --model m1 --effort high --add-dir x -- {prompt}"), "{claude}");
        // These are told through their protocol.
        assert_eq!(argv("codex", chosen(Some("m1"), Some("high"), &[])).unwrap(), "codex app-server");
        assert_eq!(argv("opencode", chosen(Some("m1"), None, &[])).unwrap(), "opencode acp");
        assert_eq!(
            argv("goose", chosen(None, Some("high"), &[])).unwrap(),
            "goose acp --with-builtin developer"
        );
        let refused = argv("gemini", chosen(None, Some("high"), &[])).unwrap_err();
        assert_eq!(
            refused,
            "its effort cannot be chosen: its protocol has no choice of it; use its own settings"
        );
        let own = Definitions::with(Some("[x]\ndialect = 'plain'\ncommand = ['x', '{prompt}']")).unwrap();
        let refused = own.get("x").unwrap().terms(chosen(Some("m1"), None, &[])).unwrap_err();
        assert_eq!(refused, "its model cannot be chosen: use its own settings");
    }

    #[test]
    fn arguments_that_break_the_protocol_or_the_rules_are_refused_by_name() {
        let known = Definitions::with(None).unwrap();
        let refused = |name: &str, args: &[&str]| {
            let terms = known.get(name).unwrap().terms(chosen(None, None, args));
            terms.err().and_then(|why| why.split('`').nth(1).map(str::to_owned))
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(refused("claude", &["--output-format", "text"]), some("--output-format"));
        assert_eq!(refused("claude", &["--output-format=text"]), some("--output-format"));
        assert_eq!(
            refused("claude", &["-v", "--dangerously-skip-permissions"]),
            some("--dangerously-skip-permissions")
        );
        assert_eq!(refused("claude", &["--allowedTools=Bash"]), some("--allowedTools"));
        assert_eq!(refused("claude", &["--bare", "--add-dir", "x"]), None);
        assert_eq!(refused("codex", &["-c", "approval_policy=never"]), some("-c approval_policy"));
        assert_eq!(refused("codex", &["-c=approval_policy=never"]), some("-c approval_policy"));
        assert_eq!(refused("codex", &["-capproval_policy=never"]), some("-c approval_policy"));
        assert_eq!(refused("codex", &["-c", " approval_policy=never"]), some("-c approval_policy"));
        assert_eq!(refused("codex", &["-c", " \"approval_policy\"=never"]), some("-c approval_policy"));
        assert_eq!(refused("codex", &["-c", "sandbox_mode=danger-full-access"]), some("-c sandbox_mode"));
        assert_eq!(refused("codex", &["--sandbox=danger-full-access"]), some("--sandbox"));
        assert_eq!(refused("codex", &["--yolo"]), some("--yolo"));
        assert_eq!(refused("claude", &["-pc"]), some("-p"));
        assert_eq!(refused("claude", &["-rx"]), some("-r"));
        assert_eq!(refused("codex", &["-c", "model_verbosity=low"]), None);
        assert_eq!(refused("gemini", &["--yolo"]), some("--yolo"));
        assert_eq!(refused("goose", &["--yolo"]), None);
    }

    #[test]
    fn an_agent_measures_what_it_reports_during_a_turn() {
        let known = Definitions::with(Some("[mine]\ndialect = 'acp'\ncommand = ['m']")).unwrap();
        let measures = |name: &str| {
            let measures = known.get(name).unwrap().measures();
            (measures.tokens, measures.money)
        };
        assert_eq!([measures("claude"), measures("codex")], [(true, true); 2]);
        assert_eq!(measures("goose"), (false, true));
        assert_eq!([measures("opencode"), measures("gemini"), measures("mine")], [(false, false); 3]);
    }
}
