//! What is said on the wire: requests, answers, problems. No IO.
//!
//! These types are the API, and nothing else is: what core calls a thing may change, what is said here may not. A field is
//! added, never renamed; a word of an open list may be new to the reader and is kept as it came. Every doc comment here is
//! read by users, in the OpenAPI document.
//!
//! - [`Job`], [`Row`]: a job in full, and as a line of a list; [`attempt`]: its tries and their receipts.
//! - [`Event`]: a fact of its log. [`enums`]: the lists of names that may grow. [`Time`]: moments.
//! - [`AgentRequest`]: a coding agent in place of a command; [`Session`]: its conversation. [`Worktree`]: the git worktree that a job may run in.
//! - [`Submit`] and [`requests`]: what is asked for. [`daemon`]: the supervisor itself, its groups, its troubles.
//! - [`Problem`]: every answer that is not a success.

mod agent;
pub mod attempt;
mod attributes;
pub mod daemon;
pub mod enums;
mod event;
mod job;
mod limits;
mod page;
mod patch;
mod problem;
pub mod requests;
mod result;
mod row;
mod session;
mod submit;
mod time;
mod usage;
mod worktree;

pub use agent::{Agent, AgentRequest, Permissions, Rule, UnknownPermission};
pub use attempt::{Attempt, Exit, Output, Process, Receipt, RungTaken};
pub use attributes::{Attributes, ResourceLimit};
pub use daemon::{Daemon, Group, GroupChange, Trouble};
pub use enums::{
    Cause, Code, Dialect, IoKind, JobsFate, KeeperStop, Level, Needs, Outcome, OutcomeDetail, Permission,
    Phase, Proof, Rung, SessionState, TurnEnding, WaitsFor,
};
pub use event::{ENVELOPE, Event};
pub use job::{After, Io, Job, Ladder, Paused, Retry, Stop, Waits};
pub use limits::{Limits, LimitsPatch};
pub use page::{Feed, Page};
pub use problem::{Candidate, Problem};
pub use requests::{
    Accepted, Answer, Cancel, CancelMany, Interrupt, Message, Prune, Pruned, Resume, RetryJob, StopDaemon,
    Stopping,
};
pub use result::JobResult;
pub use row::Row;
pub use session::{Question, Session, Turn};
pub use submit::{GROUP, Submit, UnknownIo};
pub use time::{NotATime, Time};
pub use usage::Usage;
pub use worktree::{Worktree, WorktreeRequest};

/// The header in which every answer carries the version of the daemon that gave it.
pub const VERSION_HEADER: &str = "lastword-version";

/// The version of this build, as [`VERSION_HEADER`] and [`Daemon`] say it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
