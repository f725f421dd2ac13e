//! The arguments of `run` for coding agents: which one, its permissions, its limits, its prompt.

use lastword_api::{AgentRequest, Code, Permission, Permissions, Rule};
use lastword_core::limits::Limit;
use lastword_server::known_agents;

use crate::cmd::prompt;
use crate::failure::Failure;
use crate::paths::Paths;
use crate::profile::Profile;
use crate::text::{duration, limit, similar};

/// The heading of these options.
const AGENTS: &str = "Agents";

/// The name that stands for no agent.
const NONE: &str = "none";

/// The options for agents.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = AGENTS)]
pub(super) struct AgentArgs {
    /// Run a coding agent; COMMAND is its prompt, read from standard input if missing or `-`; words after a further `--` are arguments of the agent. `none`
    /// runs COMMAND itself, whatever the profile says
    #[arg(long, value_name = "NAME", conflicts_with_all = ["interactive", "terminal"])]
    pub(super) agent: Option<String>,
    /// How to decide permission requests: ask (you, the default), allow or deny
    #[arg(long, value_name = "RULE", hide_possible_values = true)]
    permissions: Option<Otherwise>,
    /// Allow requests that match, such as `Bash: cargo *`
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    allow: Vec<String>,
    /// Deny requests that match, even if they are allowed
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    deny: Vec<String>,
    /// Deny requests that are not answered within this time
    #[arg(long, value_name = "TIME", value_parser = ask_expires)]
    ask_expires: Option<u64>,
    /// The model to use, by the agent's name for it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How much the model is to think, by the agent's word for it, such as `high`
    #[arg(long, value_name = "WORD")]
    effort: Option<String>,
    /// Stop the agent when one turn takes this long, not counting the time in which you are asked
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    pub(super) turn: Option<u64>,
    /// Stop the agent when all turns of its conversation took this long together, not counting the time in which you are asked
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    pub(super) active: Option<u64>,
    /// Stop an agent that has not opened its session after this long; 2 minutes if nothing is said
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    pub(super) handshake: Option<u64>,
    /// Keep the agent open between turns, without a slot, and end it when no message comes for this long. Without the option it ends after its last
    /// turn, and 15 minutes after one that was interrupted
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    idle: Option<u64>,
    /// Stop the agent after this many turns
    #[arg(long, value_name = "N", value_parser = limit::whole, allow_negative_numbers = true)]
    pub(super) turns: Option<u64>,
    /// Stop the agent when it has used this many tokens
    #[arg(long, value_name = "N", value_parser = limit::whole, allow_negative_numbers = true)]
    pub(super) tokens: Option<u64>,
    /// Stop the agent when it has spent this much
    #[arg(long, value_name = "USD", value_parser = limit::money, allow_negative_numbers = true)]
    pub(super) money: Option<u64>,
    /// If the quota of its provider is used up, or the provider is overloaded, wait and go on: for this long at most, a day if nothing is said
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms, num_args = 0..=1, require_equals = true, default_missing_value = "24h")]
    wait_for_quota: Option<u64>,
    /// The account of its provider; agents of one account wait for its quota together
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// The limit on its idle time from a profile, which keeps no agent open.
    #[arg(skip)]
    profile_idle: Option<u64>,
    /// Arguments of its program from a profile.
    #[arg(skip)]
    profile_args: Vec<String>,
}

/// What to do with a request that no pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Otherwise {
    Ask,
    Allow,
    Deny,
}

fn pattern(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an empty pattern matches nothing".to_owned()),
        text => Ok(text.to_owned()),
    }
}

fn ask_expires(text: &str) -> Result<u64, String> {
    match duration::parse_ms(text)? {
        0 => Err("every request would be denied at once: write `--permissions deny` for that, and leave the option out to wait without end".to_owned()),
        ms => Ok(ms),
    }
}

impl AgentArgs {
    /// Takes from a profile what the command line leaves open. `is_command` says that the job cannot be an agent.
    pub(super) fn fill(&mut self, profile: &Profile, is_command: bool) {
        match self.agent.as_deref() {
            Some(NONE) => self.agent = None,
            None if !is_command => self.agent.clone_from(&profile.agent),
            _ => {}
        }
        if self.agent.is_none() {
            return;
        }
        // The model and the arguments of one agent mean nothing to another.
        if self.agent == profile.agent {
            self.model = self.model.take().or_else(|| profile.model.clone());
            self.effort = self.effort.take().or_else(|| profile.effort.clone());
            self.profile_args.clone_from(&profile.args);
        }
        self.turn = self.turn.or(profile.limit(Limit::Turn));
        self.active = self.active.or(profile.limit(Limit::Active));
        self.handshake = self.handshake.or(profile.limit(Limit::Handshake));
        self.profile_idle = profile.limit(Limit::Idle);
        self.turns = self.turns.or(profile.limit(Limit::Turns));
        self.tokens = self.tokens.or(profile.limit(Limit::Tokens));
        self.money = self.money.or(profile.limit(Limit::Money));
    }

    /// Refuses options for agents if there is no agent. Call it after [`AgentArgs::fill`].
    pub(super) fn check(&self) -> Result<(), Failure> {
        let given = [
            ("permissions", self.permissions.is_some()),
            ("allow", !self.allow.is_empty()),
            ("deny", !self.deny.is_empty()),
            ("ask-expires", self.ask_expires.is_some()),
            ("model", self.model.is_some()),
            ("effort", self.effort.is_some()),
            ("wait-for-quota", self.wait_for_quota.is_some()),
            ("account", self.account.is_some()),
            ("turn", self.turn.is_some()),
            ("active", self.active.is_some()),
            ("handshake", self.handshake.is_some()),
            ("idle", self.idle.is_some()),
            ("turns", self.turns.is_some()),
            ("tokens", self.tokens.is_some()),
            ("money", self.money.is_some()),
        ];
        match given.iter().find(|(_, given)| *given && self.agent.is_none()) {
            Some((name, _)) => Err(Failure::usage(format!("--{name} is for agents: name one with --agent"))),
            None => Ok(()),
        }
    }

    /// Returns the requested agent with its prompt, taken from `words` or standard input; `None` if no agent is requested.
    pub(super) fn request(&self, words: &[String]) -> Result<Option<AgentRequest>, Failure> {
        let Some(name) = self.agent.clone() else { return Ok(None) };
        // Words after `--` are arguments of the agent's program.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let (words, args) = words.split_at(end);
        let args = self.profile_args.iter().chain(args.iter().skip(1)).cloned().collect();
        let prompt = prompt::read(words)?;
        let rules = |patterns: &[String], permission: Permission| -> Vec<Rule> {
            let rule = |pattern: &String| Rule { pattern: pattern.clone(), permission: permission.clone() };
            patterns.iter().map(rule).collect()
        };
        // The first match decides, so denials come first.
        let mut all = rules(&self.deny, Permission::Deny);
        all.extend(rules(&self.allow, Permission::Allow));
        let otherwise = match self.permissions {
            None | Some(Otherwise::Ask) => Permission::Ask,
            Some(Otherwise::Allow) => Permission::Allow,
            Some(Otherwise::Deny) => Permission::Deny,
        };
        Ok(Some(AgentRequest {
            name,
            prompt,
            permissions: Permissions { rules: all, otherwise, expires_ms: self.ask_expires },
            model: self.model.clone(),
            effort: self.effort.clone(),
            wait_for_quota_ms: self.wait_for_quota,
            stays_open: self.idle.is_some(),
            account: self.account.clone(),
            args,
        }))
    }

    /// Returns the limit on its idle time.
    pub(super) fn idle_ms(&self) -> Option<u64> {
        self.idle.or(self.profile_idle)
    }

    /// Suggests a similar name if the agent is unknown.
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
