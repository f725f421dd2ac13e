//! Requests to jobs and to the daemon, except submissions.

use std::collections::BTreeMap;

use lastword_core::question::Reply;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::attributes::Attributes;
use crate::enums::JobsFate;

/// A request to stop a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cancel {
    /// Send SIGKILL at once.
    pub force: bool,
    /// How long to wait for the proof that nothing is alive, in milliseconds; at most a minute.
    pub wait_ms: Option<u64>,
    /// It is stopped because its reader went away, which is then its `cause`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reader_gone: bool,
}

/// A request to stop several jobs. It must name them: an empty request stops none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CancelMany {
    /// All live jobs, unless a group or a label narrows it down.
    pub all: bool,
    /// Jobs of this group.
    pub group: Option<String>,
    /// Jobs with this label, as `name=value`.
    pub label: Option<String>,
    /// Send SIGKILL at once.
    pub force: bool,
}

/// A request to repeat an ended job as a new job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryJob {
    /// The environment of the new job: that of the old one was removed at its end.
    pub env: BTreeMap<String, String>,
    /// Umask, resource limits and nice value of the new job. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

/// What a process of a job says of its work: a text, a result, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReportProgress {
    /// How far the work is: one line of at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The result: at most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// A message to a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Message {
    /// The text, written as it is: a line needs its line break.
    pub text: String,
    /// Close the input afterwards.
    pub eof: bool,
    /// For an agent: deliver it in the active turn, if the agent supports that, instead of the next one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
    /// If the job has ended, continue the conversation of its agent with the message, as a new job with this environment. Without it such
    /// a message is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Umask, resource limits and nice value of the new job. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

/// An answer to an agent's question: a verdict on a permission, or words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The `id` of the question, as the job shows it beside all that is asked.
    pub question: String,
    /// Allows or denies a permission. Any question can be denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Allow it not only now, but whenever this job asks for exactly the same again. The rule can be removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// Why it is denied, or what to do instead.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The answer to each part of a question that needs words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

/// A verdict on a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is allowed, once.
    Allow,
    /// It is denied.
    Deny,
}

impl Answer {
    /// Returns the answer as core understands it; what is wrong with it, if it is not one.
    pub fn reply(&self) -> Result<Reply, &'static str> {
        if self.always && self.verdict != Some(Verdict::Allow) {
            return Err("`always` belongs to the verdict `allow`");
        }
        match (self.verdict, self.words.is_empty(), self.reason.is_empty()) {
            (Some(Verdict::Allow), true, true) => Ok(Reply::Allow),
            (Some(Verdict::Deny), true, _) => Ok(Reply::Deny(self.reason.clone())),
            (None, false, true) => Ok(Reply::Words(self.words.clone())),
            (Some(Verdict::Allow), true, false) => Err("a reason belongs to a denial"),
            (Some(_), false, _) => Err("give a verdict or words, not both"),
            (None, _, _) => Err("give a verdict or words"),
        }
    }
}

/// A request to end an agent's turn but not the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Interrupt {
    /// The turn; the active one by default.
    pub turn: Option<u32>,
}

/// A new size for the terminal of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resize {
    /// Its lines, at least one.
    pub rows: u16,
    /// Its columns, at least one.
    pub columns: u16,
}

/// The answer to a new size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resized {
    /// Whether the terminal has this size now. Not if the job does not run, and not if its keeper is of version 0.1.0.
    pub resized: bool,
}

/// A request to resume the conversation of an ended job in a new job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// The prompt.
    pub prompt: String,
    /// Resume a copy of the conversation. Then the job need not have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// Turns that did not complete stay in the conversation. Otherwise the agent is told to forget them, if it can.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep_unfinished: bool,
    /// The environment of the new job: that of the old one was removed at its end.
    pub env: BTreeMap<String, String>,
    /// Umask, resource limits and nice value of the new job. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

/// A message that was stored. It is delivered once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Its number among the inputs of the job; 0 if it is the prompt of a new job.
    pub input: u32,
    /// The job that gets it, if that is not the job of the request: the conversation goes on as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A request to remove ended jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prune {
    /// Only jobs that ended longer ago than this.
    pub older_than_ms: u64,
    /// Also jobs whose result was not read.
    pub unread: bool,
    /// Also jobs whose worktree has work that was not applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsaved: bool,
    /// Only count them.
    pub dry_run: bool,
}

/// The result of a prune.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pruned {
    /// Jobs removed, or to be removed.
    pub removed: u64,
    /// Jobs kept because their result was not read.
    pub kept_unread: u64,
    /// Jobs kept because their worktree has work that was not applied.
    #[serde(default)]
    pub kept_unsaved: u64,
    /// Jobs kept because a job that has not ended runs in their worktree.
    #[serde(default)]
    pub kept_in_use: u64,
}

/// A request to stop the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopDaemon {
    /// What happens to the jobs.
    pub jobs: JobsFate,
}

/// A daemon that is stopping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    /// Its pid, by which a client that waits for its end can tell it from the next daemon.
    pub pid: u32,
    /// What happens to the jobs.
    #[serde(default = "keep")]
    pub jobs: JobsFate,
}

/// Returns what happens to the jobs of a daemon of version 0.1.0, which does not say.
fn keep() -> JobsFate {
    JobsFate::Keep
}

impl Default for StopDaemon {
    fn default() -> StopDaemon {
        StopDaemon { jobs: keep() }
    }
}
