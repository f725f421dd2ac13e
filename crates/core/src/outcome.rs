//! Outcome and cause: how a job ends, and why.

use serde::{Deserialize, Serialize};

use crate::limits::Limit;

/// How a job, or one attempt of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The work was done.
    Completed,
    /// The work was not done, and that is known.
    Failed,
    /// It was asked to stop.
    Cancelled(Begun),
    /// A time limit was reached.
    TimedOut(Clock),
    /// A budget was used up.
    OverBudget(Budget),
    /// How it ended is unknown.
    Lost,
}

impl Outcome {
    /// Returns the name that lists and filters use.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Cancelled(_) => "cancelled",
            Outcome::TimedOut(_) => "timed_out",
            Outcome::OverBudget(_) => "over_budget",
            Outcome::Lost => "lost",
        }
    }
}

/// Whether work had begun when it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begun {
    /// No process of the job was ever started.
    BeforeStart,
    /// An attempt was started.
    WhileRunning,
}

/// The time limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The wall clock.
    Deadline,
    /// The stall clock.
    Stall,
}

/// The budget that was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Output.
    Output,
    /// Turns.
    Turns,
    /// Tokens.
    Tokens,
    /// Money.
    Money,
}

/// Why a job ended as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It finished successfully.
    Finished,
    /// The command or agent failed.
    Agent,
    /// It could not be started.
    Launch,
    /// A user or a program asked it to stop.
    User,
    /// Its supervisor was shut down and told to stop its jobs.
    Shutdown,
    /// The job or process it worked for is gone.
    ParentGone,
    /// The reader of its output went away.
    ReaderGone,
    /// A job it waited for did not end as needed.
    Dependency,
    /// A job it waited for was removed before its ending could be read.
    DependencyRemoved,
    /// A limit was reached.
    Limit(Limit),
    /// How it ended cannot be determined.
    Unaccounted,
    /// A user gave up on its host.
    Abandoned,
}

impl Cause {
    /// Reports whether it is a request to stop, which a job ends by as cancelled.
    pub fn is_request(self) -> bool {
        matches!(self, Cause::User | Cause::Shutdown | Cause::ParentGone | Cause::ReaderGone)
    }
}

/// The kind of requester of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A user or a program.
    User,
    /// The supervisor, because it shuts down.
    Shutdown,
    /// The supervisor, because the parent is gone.
    ParentGone,
    /// The command that started it and passed on its output, because the reader of that went away.
    ReaderGone,
}

impl From<Asked> for Cause {
    fn from(asked: Asked) -> Cause {
        match asked {
            Asked::User => Cause::User,
            Asked::Shutdown => Cause::Shutdown,
            Asked::ParentGone => Cause::ParentGone,
            Asked::ReaderGone => Cause::ReaderGone,
        }
    }
}

impl From<Limit> for Outcome {
    fn from(limit: Limit) -> Outcome {
        match limit {
            Limit::Wall | Limit::Turn | Limit::Active => Outcome::TimedOut(Clock::Deadline),
            Limit::Handshake | Limit::Idle | Limit::Stall => Outcome::TimedOut(Clock::Stall),
            Limit::Output => Outcome::OverBudget(Budget::Output),
            Limit::Turns => Outcome::OverBudget(Budget::Turns),
            Limit::Tokens | Limit::GroupTokens => Outcome::OverBudget(Budget::Tokens),
            Limit::Money | Limit::GroupMoney => Outcome::OverBudget(Budget::Money),
        }
    }
}

impl From<Budget> for Limit {
    fn from(budget: Budget) -> Limit {
        match budget {
            Budget::Output => Limit::Output,
            Budget::Turns => Limit::Turns,
            Budget::Tokens => Limit::Tokens,
            Budget::Money => Limit::Money,
        }
    }
}
