//! The spec of a job: what its submitter asked for. It never changes.
//!
//! A spec is stored, listed and shown, so it must not contain secrets. The environment of a job is kept elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::conversation::Position;
use crate::ids::{JobId, Timestamp};
use crate::limits::Limits;
use crate::receipt::Level;
use crate::worker_labels::WorkerLabels;

/// What a submitter asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// Its name. Several jobs can have the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What runs.
    pub work: Work,
    /// The directory it runs in; empty for one of its own.
    pub cwd: String,
    /// Names of variables that its worker passes on from its own environment, besides the usual ones. A daemon that runs jobs itself was
    /// given the whole environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// The worktree it runs in, instead of the checkout that contains `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// Standard input and output of a command. Agents have their own protocol.
    #[serde(default, skip_serializing_if = "Io::is_null")]
    pub io: Io,
    /// The strongest containment level to use; `None` for the strongest that its host offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The group it waits in; slots are counted per group. Stored as `queue`, its first name.
    #[serde(rename = "queue")]
    pub group: String,
    /// Higher starts first.
    pub priority: i16,
    /// Names and values for users and filters.
    pub labels: BTreeMap<String, String>,
    /// Labels that its worker must have.
    #[serde(default, skip_serializing_if = "WorkerLabels::is_empty")]
    pub on: WorkerLabels,
    /// The job's own limits. Global limits and defaults fill the rest.
    pub limits: Limits,
    /// Whether and when a failed attempt is followed by another.
    pub retry: RetryPolicy,
    /// The grace periods of a stop.
    pub ladder: Ladder,
    /// Jobs that must end before it starts.
    pub after: Vec<Dependency>,
    /// The earliest time to start it.
    pub not_before: Option<Timestamp>,
    /// What happens to the tree when its host cannot reach the journal.
    pub on_partition: OnPartition,
    /// What happens when a budget is used up.
    #[serde(default, skip_serializing_if = "OnLimit::is_stop")]
    pub on_limit: OnLimit,
    /// Its place in a conversation that another job began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Position>,
    /// The session of the agent to resume.
    pub resume: Option<ProviderSession>,
    /// Resume a copy of that session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// Where in the record of that session its last completed turn ends, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_at: Option<String>,
    /// The record holds turns after that, which did not complete, and what becomes of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<Unfinished>,
    /// The ended job that this one repeats.
    pub retry_of: Option<JobId>,
    /// If its provider refuses to answer, it waits for that so many milliseconds at most, and goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_quota: Option<u64>,
    /// Its agent stays open between turns, until no message comes for as long as the limit `idle` allows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays_open: bool,
    /// The job whose tree submitted this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// It ends with its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tied: bool,
}

impl Spec {
    /// Returns the spec of a command in the default group, with defaults for everything else.
    pub fn command(argv: impl IntoIterator<Item = impl Into<String>>, cwd: impl Into<String>) -> Spec {
        Spec::of(Work::Command { argv: argv.into_iter().map(Into::into).collect() }, cwd)
    }

    /// Returns the spec of any work in the default group, with defaults for everything else.
    pub fn of(work: Work, cwd: impl Into<String>) -> Spec {
        Spec {
            name: None,
            work,
            cwd: cwd.into(),
            variables: Vec::new(),
            worktree: None,
            io: Io::Null,
            level: None,
            group: DEFAULT_GROUP.to_owned(),
            priority: 0,
            labels: BTreeMap::new(),
            on: WorkerLabels::default(),
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            ladder: Ladder::default(),
            after: Vec::new(),
            not_before: None,
            on_partition: OnPartition::Stop,
            on_limit: OnLimit::Stop,
            conversation: None,
            resume: None,
            fork: false,
            resume_at: None,
            unfinished: None,
            wait_for_quota: None,
            stays_open: false,
            tied: false,
            retry_of: None,
            parent: None,
        }
    }
}

/// The group of a job that names none. It always exists.
pub const DEFAULT_GROUP: &str = "default";

/// A git worktree for one job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Worktree {
    /// The repository's git directory.
    pub git_dir: String,
    /// The top directory of the checkout that the job was submitted from.
    pub checkout: String,
    /// The commit it starts at. A retry starts there too.
    pub base: String,
    /// Keep it even if nothing was changed in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

impl Worktree {
    /// Returns the branch for a job of this name. It contains the job's short id, so no other job has it.
    pub fn branch(name: Option<&str>, job: JobId) -> String {
        // Git reserves two dots in a row for ranges.
        let name = name.map_or_else(String::new, |name| format!("{}-", name.replace("..", "--")));
        format!("{BRANCHES}{name}{}", job.short())
    }
}

/// The prefix of the branches of jobs.
pub const BRANCHES: &str = "lastword/";

/// Standard input and output of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// No input. Output is recorded.
    #[default]
    Null,
    /// Input from a pipe. Output is recorded.
    Pipe,
    /// A terminal, with both as one stream.
    Terminal {
        /// Its height.
        rows: u16,
        /// Its width.
        columns: u16,
    },
}

impl Io {
    /// Reports whether it has no input.
    pub fn is_null(&self) -> bool {
        *self == Io::Null
    }
}

/// What a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A plain command.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// A coding agent.
    Agent {
        /// Its name, for example `codex`.
        provider: String,
        /// The first prompt.
        prompt: String,
        /// How it is started, and its rules.
        #[serde(default, skip_serializing_if = "Terms::is_default")]
        terms: Box<Terms>,
    },
}

/// Default wall-clock limit of an agent: four hours. An unattended agent must not work for ever.
const AGENT_WALL_MS: u64 = 4 * 60 * 60 * 1_000;

/// Default stall limit of an agent: twenty minutes without progress, tool or open question.
const AGENT_STALL_MS: u64 = 20 * 60 * 1_000;

/// Default time in which an agent must open its session: two minutes. One that is installed when it starts may need it.
const AGENT_HANDSHAKE_MS: u64 = 2 * 60 * 1_000;

/// Default time in which an agent whose turn was interrupted must get a message: fifteen minutes. A person writes one in that time; an
/// agent that nothing comes for holds its slot and its memory.
const AGENT_IDLE_MS: u64 = 15 * 60 * 1_000;

impl Work {
    /// Returns the default limits: agents are bounded, plain commands are not.
    pub fn default_limits(&self) -> Limits {
        match self {
            Work::Agent { .. } => {
                let handshake_ms = self.shakes_hands().then_some(AGENT_HANDSHAKE_MS);
                let idle_ms = self.shakes_hands().then_some(AGENT_IDLE_MS);
                let (wall_ms, stall_ms) = (Some(AGENT_WALL_MS), Some(AGENT_STALL_MS));
                Limits { wall_ms, stall_ms, handshake_ms, idle_ms, ..Limits::default() }
            }
            Work::Command { .. } => Limits::default(),
        }
    }

    /// Reports whether this is an agent.
    pub fn is_agent(&self) -> bool {
        matches!(self, Work::Agent { .. })
    }

    /// Reports whether this is an agent that reports how its turns end.
    pub fn reports_turns(&self) -> bool {
        matches!(self, Work::Agent { terms, .. } if terms.dialect != Dialect::Plain)
    }

    /// Reports whether this is an agent that opens a session before its work. A one-shot agent may say nothing before its model answers.
    pub fn shakes_hands(&self) -> bool {
        self.reports_turns() && !self.is_one_shot()
    }

    /// Reports whether this is an agent that accepts input during a turn. Input for others waits for the next turn.
    pub fn can_be_steered(&self) -> bool {
        matches!(self, Work::Agent { terms, .. } if matches!(terms.dialect, Dialect::Claude | Dialect::Codex))
    }

    /// Reports whether this is an agent that takes its one prompt as an argument and reads no further input.
    pub fn is_one_shot(&self) -> bool {
        matches!(self, Work::Agent { terms, .. } if terms.dialect.is_one_shot())
    }
}

/// How an agent is started, and its rules. Fixed at submission: later changes to a definition do not affect the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// The protocol it speaks.
    pub dialect: Dialect,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Extra arguments to resume a conversation; `{}` stands for its reference. Not needed if the protocol can do it.
    pub resume: Vec<String>,
    /// Extra arguments to resume a copy of a conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fork: Vec<String>,
    /// How it is told to forget what is recorded after a completed turn: extra arguments, in which `{}` stands for the mark of that turn, or
    /// for an agent with a protocol the name of a request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rewind: Vec<String>,
    /// Why a conversation of it must not be gone on with, for an agent that would lose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_resume: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// Token prices of the agent, whatever its model.
    pub prices: Option<Prices>,
    /// The user's token prices by model. They take precedence over those that are built in.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub model_prices: BTreeMap<String, Prices>,
    /// What it reports while a turn runs; `None` if 0.1.0 recorded it. A limit on anything else is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measures: Option<Measures>,
    /// It says when its provider refuses to answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tells_refusals: bool,
    /// Variables of its environment, unless the job's own environment has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables that get a random value at each start, unless the job's own environment has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The model that the submitter chose, for an agent that is told through its protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort that the submitter chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The account of its provider: jobs with the same one share a quota. Without it, all jobs of the agent do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// What an agent reports while a turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Measures {
    /// Tokens.
    pub tokens: bool,
    /// Money, or tokens whose price is known.
    pub money: bool,
}

impl Terms {
    /// Reports whether the agent can forget what is recorded after a completed turn.
    pub fn can_rewind(&self) -> bool {
        match self.dialect {
            Dialect::Codex => true,
            Dialect::Claude | Dialect::Once | Dialect::Acp => !self.rewind.is_empty(),
            Dialect::Plain => false,
        }
    }

    fn is_default(&self) -> bool {
        *self == Terms::default()
    }

    /// Returns the size of what the submitter chose, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let lists = [&self.argv, &self.resume, &self.fork, &self.rewind, &self.secrets];
        let words = lists.into_iter().flatten().map(|word| word.len() + 1);
        let rules = self.permissions.rules.iter().map(|rule| rule.pattern.len() + 1);
        let chosen = [&self.no_resume, &self.model, &self.effort, &self.account]
            .into_iter()
            .flatten()
            .map(String::len);
        // A price has four numbers, and four more for long requests.
        let prices = self.model_prices.keys().map(|model| model.len() + 64);
        let prices = prices.chain(self.env.iter().map(|(name, value)| name.len() + value.len()));
        words.chain(rules).chain(chosen).chain(prices).sum()
    }
}

/// The protocol of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The Agent Client Protocol.
    #[default]
    Acp,
    /// The JSON lines of Claude Code.
    Claude,
    /// The app server of Codex.
    Codex,
    /// None: one turn, with the prompt as the argument `{prompt}`, and the exit status as the result.
    Plain,
    /// One turn, with the prompt as the argument `{prompt}`, reported in JSON lines. No input.
    Once,
}

impl Dialect {
    /// Reports whether the agent takes one prompt, as an argument, and reads no further input.
    pub fn is_one_shot(self) -> bool {
        matches!(self, Dialect::Plain | Dialect::Once)
    }
}

/// What an agent may do without asking. The first matching rule counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    /// Rules, in order.
    pub rules: Vec<Rule>,
    /// The permission if no rule matches.
    pub otherwise: Permission,
    /// Milliseconds after which an unanswered question is denied.
    pub expires_ms: Option<u64>,
}

/// A rule about tool uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Matches the line of a tool use, such as `Bash: cargo test`; `*` matches anything.
    pub pattern: String,
    /// The permission for matching ones.
    pub permission: Permission,
}

/// A permission for a tool use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Ask a person.
    #[default]
    Ask,
    /// Allow it.
    Allow,
    /// Deny it.
    Deny,
}

/// Token prices, in millionths of a dollar per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Prices {
    /// Input tokens.
    pub tokens_in: u64,
    /// Cached input tokens.
    pub cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Input tokens that are stored in the cache; `None` if they cost as much as others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<u64>,
    /// Prices of a long request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrices>,
}

/// Token prices of a request whose input is long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LongPrices {
    /// The input tokens above which they apply.
    pub above: u64,
    /// Input tokens.
    pub tokens_in: u64,
    /// Cached input tokens.
    pub cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Input tokens that are stored in the cache.
    pub stored: u64,
}

/// Whether and when another attempt follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The number of attempts; one means no retry.
    pub attempts_max: u32,
    /// Extra attempts for those that ended before anything was started. A supervisor that crashed between the intent and the launch must
    /// not cost the job its only attempt.
    pub relaunches_max: u32,
    /// The pause before the second attempt. It doubles with each further one.
    pub backoff_ms: u64,
    /// The longest pause.
    pub backoff_max_ms: u64,
    /// Also retry a lost attempt. Off by default, because the work may have been done.
    pub when_lost: bool,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts_max: 1,
            relaunches_max: 3,
            backoff_ms: 1_000,
            backoff_max_ms: 300_000,
            when_lost: false,
        }
    }
}

/// The grace periods between the rungs of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ladder {
    /// After an interrupt in the agent's protocol. Agents only.
    pub interrupt_ms: u64,
    /// After SIGTERM to the whole tree.
    pub term_ms: u64,
}

impl Default for Ladder {
    fn default() -> Ladder {
        Ladder { interrupt_ms: 5_000, term_ms: 5_000 }
    }
}

/// A job that must end before another starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// The job.
    pub job: JobId,
    /// How it must end.
    pub on: Needs,
}

/// How a dependency must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// It must complete.
    Success,
    /// In any way.
    AnyEnd,
}

/// What a keeper does when its lease runs out without a renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPartition {
    /// It ends its tree, so that another host may take the job over.
    #[default]
    Stop,
    /// It keeps the tree running, and no other host takes the job over.
    Keep,
}

/// What happens to a job whose turns, tokens, money or output are used up. Time limits always stop it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// It is stopped.
    #[default]
    Stop,
    /// It is frozen until a person raises the limit.
    Ask {
        /// Milliseconds after which it is stopped.
        expires_ms: u64,
    },
}

impl OnLimit {
    fn is_stop(&self) -> bool {
        *self == OnLimit::Stop
    }
}

/// A session of an agent, as its agent knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProviderSession {
    /// The agent.
    pub provider: String,
    /// The agent's reference for it.
    pub reference: String,
}

/// What becomes of turns that did not complete when the session that holds them goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfinished {
    /// The agent is told to forget them first.
    Forgotten,
    /// They stay, because the agent cannot forget them or was not to.
    Kept,
}
