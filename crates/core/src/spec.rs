//! What was asked for: the part of a job that its submitter fixes once.
//!
//! Nothing secret belongs here: a spec is stored, listed and shown. The environment of a job is kept elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Timestamp};
use crate::limits::Limits;
use crate::receipt::Level;

/// A job as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// What people call it; it need not be the only one of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What runs.
    pub work: Work,
    /// The folder it runs in.
    pub cwd: String,
    /// The worktree it runs in, in place of the checkout that `cwd` is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// What a command reads from and writes to. Agents are spoken to in their own way.
    #[serde(default, skip_serializing_if = "Io::is_null")]
    pub io: Io,
    /// The strongest level to hold its tree with; `None` is the strongest that its host has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// The group it waits in; slots are counted per group. Stored as `queue`, its first name.
    #[serde(rename = "queue")]
    pub group: String,
    /// Higher goes first.
    pub priority: i16,
    /// Names and values for people and filters; never paths.
    pub labels: BTreeMap<String, String>,
    /// Limits that were set for this job; the defaults of its kind of work fill the rest.
    pub limits: Limits,
    /// Whether and when another attempt follows one that failed.
    pub retry: RetryPolicy,
    /// How politely it is stopped.
    pub ladder: Ladder,
    /// Jobs that must end first.
    pub after: Vec<Dependency>,
    /// Not to be started before this moment.
    pub not_before: Option<Timestamp>,
    /// What happens to the tree when its host loses the journal.
    pub on_partition: OnPartition,
    /// What happens when it has used up what it may use.
    #[serde(default, skip_serializing_if = "OnLimit::is_stop")]
    pub on_limit: OnLimit,
    /// The conversation to go on with.
    pub resume: Option<Conversation>,
    /// It goes on with a copy of that conversation, which stays as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// The ended job that this one tries again.
    pub retry_of: Option<JobId>,
    /// The job that asked for this one from inside its tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
}

impl Spec {
    /// Returns the spec of a command in the default group, with defaults for everything else.
    pub fn command(argv: impl IntoIterator<Item = impl Into<String>>, cwd: impl Into<String>) -> Spec {
        Spec::of(Work::Command { argv: argv.into_iter().map(Into::into).collect() }, cwd)
    }

    /// The same, for any kind of work.
    pub fn of(work: Work, cwd: impl Into<String>) -> Spec {
        Spec {
            name: None,
            work,
            cwd: cwd.into(),
            worktree: None,
            io: Io::Null,
            level: None,
            group: DEFAULT_GROUP.to_owned(),
            priority: 0,
            labels: BTreeMap::new(),
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            ladder: Ladder::default(),
            after: Vec::new(),
            not_before: None,
            on_partition: OnPartition::Stop,
            on_limit: OnLimit::Stop,
            resume: None,
            fork: false,
            retry_of: None,
            parent: None,
        }
    }
}

/// The group of a job that names none. It always exists.
pub const DEFAULT_GROUP: &str = "default";

/// A worktree of a git repository, for one job alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Worktree {
    /// The repository's own folder.
    pub git_dir: String,
    /// The top folder of the checkout it was asked for in.
    pub checkout: String,
    /// The commit at which it begins: whoever tries the job again begins there, too.
    pub base: String,
    /// Whether it stays although nothing was changed in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

impl Worktree {
    /// Returns the branch of a job of this name. No other job has the same, so nobody has to look for one that is free.
    pub fn branch(name: Option<&str>, job: JobId) -> String {
        // Two dots in a row mean a range to git.
        let name = name.map_or_else(String::new, |name| format!("{}-", name.replace("..", "--")));
        format!("{BRANCHES}{name}{}", job.short())
    }
}

/// What the branches of jobs open with.
pub const BRANCHES: &str = "lastword/";

/// What a command reads from and writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// It reads nothing; what it writes is recorded.
    #[default]
    Null,
    /// It reads what is sent to it; what it writes is recorded.
    Pipe,
    /// It has a terminal, and both are one stream.
    Terminal {
        /// Lines.
        rows: u16,
        /// Characters in a line.
        columns: u16,
    },
}

impl Io {
    /// Reports whether nothing can be sent to it.
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
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// A coding agent, spoken to in its own dialect.
    Agent {
        /// Which one, for example `codex`.
        provider: String,
        /// The first prompt.
        prompt: String,
        /// How it is started and treated.
        #[serde(default, skip_serializing_if = "Terms::is_default")]
        terms: Box<Terms>,
    },
}

/// Default wall-clock limit of an agent: four hours. An unattended agent must not work for ever.
const AGENT_WALL_MS: u64 = 4 * 60 * 60 * 1_000;

/// Default stall limit of an agent: twenty minutes without progress, tool or open question.
const AGENT_STALL_MS: u64 = 20 * 60 * 1_000;

impl Work {
    /// Returns the default limits: agents are bounded, plain commands are not.
    pub fn default_limits(&self) -> Limits {
        match self {
            Work::Agent { .. } => {
                Limits { wall_ms: Some(AGENT_WALL_MS), stall_ms: Some(AGENT_STALL_MS), ..Limits::default() }
            }
            Work::Command { .. } => Limits::default(),
        }
    }

    /// Reports whether this is an agent, which has a session and default limits.
    pub fn is_agent(&self) -> bool {
        matches!(self, Work::Agent { .. })
    }

    /// Reports whether this is an agent that reports how its turns end.
    pub fn reports_turns(&self) -> bool {
        matches!(self, Work::Agent { terms, .. } if terms.dialect != Dialect::Plain)
    }

    /// Reports whether something can be said into a turn of it. What is said to another waits for the next.
    pub fn can_be_steered(&self) -> bool {
        matches!(self, Work::Agent { terms, .. } if matches!(terms.dialect, Dialect::Claude | Dialect::Codex))
    }

    /// Reports whether this is an agent that takes its one prompt as an argument and reads no further input.
    pub fn is_one_shot(&self) -> bool {
        matches!(self, Work::Agent { terms, .. } if terms.dialect.is_one_shot())
    }
}

/// How an agent is started and treated, fixed when its job is submitted: a definition that changes later changes no job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Arguments behind those, to go on with a conversation; `{}` stands for its reference. None, if the dialect has a word for it.
    pub resume: Vec<String>,
    /// The same, to go on with a copy of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fork: Vec<String>,
    /// Why a conversation of it must not be gone on with, for an agent that would lose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_resume: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// What tokens cost, for an agent that does not say.
    pub prices: Option<Prices>,
}

impl Terms {
    fn is_default(&self) -> bool {
        *self == Terms::default()
    }

    /// Returns how many bytes of it its submitter chose.
    pub(crate) fn bytes(&self) -> usize {
        let words = self.argv.iter().chain(&self.resume).chain(&self.fork).map(|word| word.len() + 1);
        let rules = self.permissions.rules.iter().map(|rule| rule.pattern.len() + 1);
        let why = self.no_resume.as_ref().map(String::len);
        words.chain(rules).chain(why).sum()
    }
}

/// How an agent is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The Agent Client Protocol.
    #[default]
    Acp,
    /// The lines of Claude Code, both ways.
    Claude,
    /// The app server of Codex.
    Codex,
    /// Not at all: one turn, its prompt among the arguments as `{prompt}`, its exit status is its result.
    Plain,
    /// One turn, its prompt among the arguments as `{prompt}`; it is not spoken to, and says in lines of JSON how its turn goes.
    Once,
}

impl Dialect {
    /// Reports whether the agent takes one prompt, as an argument, and reads no further input.
    pub fn is_one_shot(self) -> bool {
        matches!(self, Dialect::Plain | Dialect::Once)
    }
}

/// What an agent may do without asking: the first rule that fits, else the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    /// Rules, in order.
    pub rules: Vec<Rule>,
    /// What becomes of a wish that no rule fits.
    pub otherwise: Permission,
    /// Milliseconds after which a wish that nobody answered is denied.
    pub expires_ms: Option<u64>,
}

/// One rule for what an agent wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Fits the line that says what the agent wants, such as `Bash: cargo test`; `*` stands for anything.
    pub pattern: String,
    /// What becomes of it.
    pub permission: Permission,
}

/// What becomes of what an agent wants to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// A person is asked.
    #[default]
    Ask,
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// What tokens cost, in millionths of a dollar for a million of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Prices {
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens read from a cache.
    pub cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
}

/// Whether another attempt follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Attempts in all; one means that nothing is tried again.
    pub attempts_max: u32,
    /// Attempts on top that end before anything was started, through nobody's fault: a supervisor that died between
    /// its intent and the launch must not cost the job its only try.
    pub relaunches_max: u32,
    /// Pause before the second attempt; it doubles with each one after.
    pub backoff_ms: u64,
    /// The longest pause.
    pub backoff_max_ms: u64,
    /// Also try again when nobody can say how an attempt ended. Off by default, because the work may have been done.
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

/// The graces between the rungs of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ladder {
    /// After the protocol's own interrupt; agents only.
    pub interrupt_ms: u64,
    /// After TERM to the whole tree.
    pub term_ms: u64,
}

impl Default for Ladder {
    fn default() -> Ladder {
        Ladder { interrupt_ms: 5_000, term_ms: 5_000 }
    }
}

/// Another job that must end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dependency {
    /// Which one.
    pub job: JobId,
    /// What it must come to.
    pub on: Needs,
}

/// How a job that others wait for must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needs {
    /// It must complete.
    Success,
    /// Any ending will do.
    AnyEnd,
}

/// What a keeper does when its lease runs out unheard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnPartition {
    /// It ends its tree, so that another host may take the job.
    #[default]
    Stop,
    /// It keeps the tree running, and no other host ever takes the job.
    Keep,
}

/// What happens to a job that has used up what it may use: turns, tokens, money, output. A time that is over is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// It is stopped.
    #[default]
    Stop,
    /// Nothing of it runs on, and a person is asked: who raises the limit lets it go on.
    Ask {
        /// After so many milliseconds without that it is stopped.
        expires_ms: u64,
    },
}

impl OnLimit {
    fn is_stop(&self) -> bool {
        *self == OnLimit::Stop
    }
}

/// An agent's conversation, by the name its provider gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Conversation {
    /// Whose reference this is.
    pub provider: String,
    /// The reference.
    pub reference: String,
}
