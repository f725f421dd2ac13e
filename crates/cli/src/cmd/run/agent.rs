//! The part of `run` that is about agents: which one, what it may do, what it may cost, and what it is told.

use std::io::IsTerminal as _;

use lastword_api::{AgentRequest, Code, Permission, Permissions, Rule};
use lastword_server::known_agents;

use crate::failure::Failure;
use crate::paths::Paths;
use crate::text::{duration, similar};

/// Under what these flags stand.
const AGENTS: &str = "Agents";

/// What is asked for with an agent.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = AGENTS)]
pub(super) struct Asked {
    /// Has a coding agent do the work; COMMAND is its prompt, and standard input if it is missing or `-`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["interactive", "terminal"])]
    pub(super) agent: Option<String>,
    /// What becomes of what it wants to do: ask (a person), allow or deny
    #[arg(long, value_name = "RULE", requires = "agent", hide_possible_values = true)]
    permissions: Option<Otherwise>,
    /// Allows what fits, such as `Bash: cargo *`
    #[arg(long, value_name = "PATTERN", requires = "agent", value_parser = pattern)]
    allow: Vec<String>,
    /// Denies what fits, also if it is allowed
    #[arg(long, value_name = "PATTERN", requires = "agent", value_parser = pattern)]
    deny: Vec<String>,
    /// Denies what nobody has answered after this time
    #[arg(long, value_name = "TIME", requires = "agent", value_parser = duration::parse_ms)]
    ask_expires: Option<u64>,
    /// Ends it after this many turns
    #[arg(long, value_name = "N", requires = "agent")]
    pub(super) turns: Option<u64>,
    /// Ends it when it has used this many tokens
    #[arg(long, value_name = "N", requires = "agent")]
    pub(super) tokens: Option<u64>,
    /// Ends it when it has spent this much
    #[arg(long, value_name = "USD", requires = "agent", value_parser = super::super::limit::money)]
    pub(super) money: Option<u64>,
}

/// What becomes of a wish that no pattern fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Otherwise {
    Ask,
    Allow,
    Deny,
}

fn pattern(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an empty pattern fits nothing".to_owned()),
        text => Ok(text.to_owned()),
    }
}

impl Asked {
    /// Returns the agent that is asked for, if one is, with its prompt: `words`, or what standard input says.
    pub(super) fn wish(&self, words: &[String]) -> Result<Option<AgentRequest>, Failure> {
        let Some(name) = self.agent.clone() else { return Ok(None) };
        let prompt = prompt(words)?;
        let rules = |patterns: &[String], permission: Permission| -> Vec<Rule> {
            let rule = |pattern: &String| Rule { pattern: pattern.clone(), permission: permission.clone() };
            patterns.iter().map(rule).collect()
        };
        // The first that fits decides, and no is the safer word.
        let mut all = rules(&self.deny, Permission::Deny);
        all.extend(rules(&self.allow, Permission::Allow));
        let otherwise = match self.permissions {
            None | Some(Otherwise::Ask) => Permission::Ask,
            Some(Otherwise::Allow) => Permission::Allow,
            Some(Otherwise::Deny) => Permission::Deny,
        };
        let permissions = Permissions { rules: all, otherwise, expires_ms: self.ask_expires };
        Ok(Some(AgentRequest { name, prompt, permissions }))
    }

    /// Adds a close guess to a failure, if the agent is one that nobody knows.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        let Some(name) = self.agent.as_deref().filter(|_| failure.problem.code == Code::Invalid) else {
            return failure;
        };
        let known = Paths::find().ok().and_then(|paths| known_agents(&paths.agents()).ok());
        let near = known
            .as_ref()
            .filter(|known| known.get(name).is_none())
            .and_then(|known| similar::nearest(name, known.all().map(|(name, _)| name)));
        match near {
            Some(near) => failure.next(format!("did you mean `{near}`?")),
            None => failure,
        }
    }
}

/// Returns what an agent is told: these words, or what comes from standard input.
pub(in crate::cmd) fn prompt(words: &[String]) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let text = match words {
        [] if stdin.is_terminal() => {
            return Err(Failure::usage("the prompt is missing: say what is to be done behind the options"));
        }
        [dash] if dash == "-" => read(stdin)?,
        [] => read(stdin)?,
        words => words.join(" "),
    };
    match text.trim().is_empty() {
        true => Err(Failure::usage("the prompt is empty: there is nothing to do")),
        false => Ok(text),
    }
}

fn read(stdin: std::io::Stdin) -> Result<String, Failure> {
    std::io::read_to_string(stdin)
        .map_err(|error| Failure::usage(format!("cannot read the prompt from standard input: {error}")))
}
