//! What is asked of jobs and of the daemon, apart from a submission.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::attributes::Attributes;
use crate::enums::JobsFate;

/// A wish to stop a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cancel {
    /// Straight to KILL.
    pub force: bool,
    /// Wait at most so long for the proof that nothing is alive; at most a minute.
    pub wait_ms: Option<u64>,
}

/// A wish to stop many jobs. Which ones must be said: who says nothing means none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CancelMany {
    /// Every live one, unless a group or a label says less.
    pub all: bool,
    /// Those of this group.
    pub group: Option<String>,
    /// Those with this label, as `name=value`.
    pub label: Option<String>,
    /// Straight to KILL.
    pub force: bool,
}

/// A wish to try an ended job again, as a new job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryJob {
    /// The environment of the new job: that of the old one was removed at its end.
    pub env: BTreeMap<String, String>,
    /// Umask, resource limits and nice value of the new job. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

/// Something to be said to a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Message {
    /// What, as it is written to the job: a line needs its own line break.
    pub text: String,
    /// Close its input afterwards.
    pub eof: bool,
    /// To an agent: count for the turn it works on, if it can be told so, and not for the next one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub steer: bool,
}

/// An answer to a question of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// Which question; it need not be said if there is one.
    pub question: Option<String>,
    /// What. Where the agent asks for a permission: `allow`, or `deny` with or without a reason. Anything else says what to do instead.
    pub text: String,
}

/// A wish that an agent ends its turn, and goes on living.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Interrupt {
    /// Which turn; the active one if not said.
    pub turn: Option<u32>,
}

/// A wish to go on with the conversation of an ended job, as a new job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// What the agent is to do now.
    pub prompt: String,
    /// Goes on with a copy of the conversation, which stays as it is; then the job need not have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fork: bool,
    /// The environment of the new job: that of the old one was removed at its end.
    pub env: BTreeMap<String, String>,
    /// Umask, resource limits and nice value of the new job. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
}

/// A message that was made durable. It reaches the job once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Its number among the inputs of the job.
    pub input: u32,
}

/// A wish to remove ended jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prune {
    /// Only those that ended longer ago than this.
    pub older_than_ms: u64,
    /// Also those whose result nobody has read.
    pub unread: bool,
    /// Also those whose worktree holds work that was not applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsaved: bool,
    /// Only count.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pruned {
    /// Jobs removed, or that would be.
    pub removed: u64,
    /// Jobs kept because nobody has read their result.
    pub kept_unread: u64,
    /// Jobs kept because their worktree holds work that was not applied.
    #[serde(default)]
    pub kept_unsaved: u64,
    /// Jobs kept because a job that has not ended runs in their worktree.
    #[serde(default)]
    pub kept_in_use: u64,
}

/// A wish that the daemon stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StopDaemon {
    /// What becomes of the jobs.
    pub jobs: JobsFate,
}

/// A daemon that will stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stopping {
    /// Its process number: whoever waits for its end does not take the next daemon for it.
    pub pid: u32,
}

impl Default for StopDaemon {
    fn default() -> StopDaemon {
        StopDaemon { jobs: JobsFate::Keep }
    }
}
