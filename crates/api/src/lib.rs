//! Wire types of the API: requests, responses, problems. No IO.
//!
//! Core's names may change; the names here may not. Fields are added, never renamed. Readers must accept unknown names in open enums and
//! keep them as they are. Users read every doc comment here in the OpenAPI document.
//!
//! - [`Job`], [`Row`]: a job in full, and as a line of a list; [`attempt`]: its attempts and their receipts.
//! - [`Event`]: a fact of its log. [`enums`]: enums that may grow. [`Time`]: timestamps.
//! - [`AgentRequest`]: a coding agent instead of a command; [`Session`]: its session; [`Conversation`]: the jobs around it. [`Worktree`]: the git worktree of a job.
//! - [`Transcript`]: what an agent says and does, as items.
//! - [`Submit`] and [`requests`]: requests. [`daemon`]: the daemon, its groups and its troubles.
//! - [`Problem`]: every response that is not a success.
//!
//! Tests: beside the code; the document of the API is compared in `crates/server/tests`.

mod agent;
mod asks;
pub mod attempt;
mod attributes;
mod children;
mod conversation;
pub mod daemon;
pub mod enums;
mod event;
mod fleet;
mod job;
mod limits;
mod page;
mod patch;
mod paused;
mod place;
mod problem;
mod processes;
pub mod requests;
mod result;
mod row;
mod session;
mod submit;
mod sums;
mod time;
mod transcript;
mod usage;
mod waits;
mod worktree;

pub use agent::{Agent, AgentRequest, Permissions, Rule, StandingRule, UnknownPermission};
pub use asks::Asks;
pub use attempt::{Attempt, Exit, LaunchError, Output, Process, Receipt, RungTaken};
pub use attributes::{Attributes, ResourceLimit};
pub use children::Children;
pub use conversation::{Conversation, ConversationInFull};
pub use daemon::{Daemon, Group, GroupChange, Spent, Trouble};
pub use enums::{
    Cause, Code, Dialect, HeldIn, IoKind, JobsFate, KeeperStop, LaunchStep, Level, Needs, Outcome,
    OutcomeDetail, Permission, Phase, Proof, Rung, SessionState, TurnEnding, Unfinished, WaitsFor,
    WorkerState,
};
pub use event::{ENVELOPE, Event};
pub use fleet::{Fleet, Invitation, Invite, LeftBehind, Unmatched, Worker};
pub use job::{Io, Job, Ladder, Progress, Retry, Stop};
pub use limits::{AgentLimits, Limits, LimitsPatch, UsedLimit};
pub use page::{Feed, Page};
pub use paused::Paused;
pub use place::{Place, Used};
pub use problem::{Candidate, Problem};
pub use processes::{LiveProcess, Processes};
pub use requests::{
    Accepted, Answer, Cancel, CancelMany, Interrupt, Message, Prune, Pruned, ReportProgress, Resize, Resized,
    Resume, RetryJob, StopDaemon, Stopping, Verdict,
};
pub use result::JobResult;
pub use row::{Row, RowGone, RowsHere};
pub use session::{Question, QuestionKind, QuestionLimit, QuestionOption, QuestionPart, Session, Turn};
pub use submit::{GROUP, Submit, UnknownIo};
pub use sums::{UsageSum, UsageSums};
pub use time::{NotATime, Time};
pub use transcript::{Item, ItemKind, ItemStatus, Transcript};
pub use usage::Usage;
pub use waits::{After, Awaited, Waits};
pub use worktree::{Changes, FileChange, Worktree, WorktreeRequest};

/// The header with the daemon's version, in every response.
pub const VERSION_HEADER: &str = "lastword-version";

/// The header of every response of a daemon that closes its connections because it stops: a [`Stopping`] as JSON.
pub const STOPPING_HEADER: &str = "lastword-stopping";

/// The version of this build, as in [`VERSION_HEADER`] and [`Daemon`].
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
