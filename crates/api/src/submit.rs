//! What is asked for when a job is submitted.

use std::collections::BTreeMap;

use lastword_core::JobId;
use lastword_core::spec::{self, Dependency, OnLimit, RetryPolicy, Spec, Work};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::agent::AgentRequest;
use crate::attributes::Attributes;
use crate::enums::{IoKind, Needs};
use crate::job::{After, Io, Ladder, Retry};
use crate::limits::Limits;
use crate::worktree::WorktreeRequest;

/// A job as it is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Submit {
    /// Its id, if the client made one; asking again with the same id and the same job is asking once.
    pub id: Option<String>,
    /// A name for people: a letter or digit, then up to 63 letters, digits, dots, underscores and dashes.
    pub name: Option<String>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The coding agent that does the work, in place of `argv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRequest>,
    /// The folder it runs in: an absolute path.
    pub cwd: String,
    /// A git worktree of its own to run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeRequest>,
    /// Its environment. It is kept in a private file until the job has ended, and never shown.
    pub env: BTreeMap<String, String>,
    /// Umask, resource limits and nice value of its process. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// The group it belongs to; `default` if not said. One that is not there is made, with one slot.
    pub group: Option<String>,
    /// Higher goes first.
    pub priority: i16,
    /// Names and values for people and filters.
    pub labels: BTreeMap<String, String>,
    /// Limits of this job; the settings fill the rest.
    pub limits: Limits,
    /// When it has used up its turns, tokens, money or output: it holds still, and who raises the limit within so many milliseconds lets
    /// it go on. Absent: it is stopped at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_at_limit_ms: Option<u64>,
    /// Whether and when another attempt follows one that failed.
    pub retry: Retry,
    /// How politely it is stopped.
    pub ladder: Ladder,
    /// Jobs that must end first.
    pub after: Vec<After>,
    /// Not to be started before this moment.
    pub not_before: Option<Time>,
    /// What it reads from.
    pub io: Io,
}

/// The group of a job that names none.
pub const GROUP: &str = spec::DEFAULT_GROUP;

impl Submit {
    /// Returns the spec, with its agent and the jobs it waits for already looked up, and without the environment.
    pub fn spec(&self, work: Work, after: Vec<Dependency>, parent: Option<JobId>) -> Result<Spec, UnknownIo> {
        Ok(Spec {
            name: self.name.clone(),
            worktree: self.worktree.as_ref().map(WorktreeRequest::to_core),
            io: self.io.to_core().ok_or(UnknownIo)?,
            parent,
            group: self.group.clone().unwrap_or_else(|| GROUP.to_owned()),
            priority: self.priority,
            labels: self.labels.clone(),
            limits: self.limits.to_core(),
            on_limit: self.ask_at_limit_ms.map_or(OnLimit::Stop, |expires_ms| OnLimit::Ask { expires_ms }),
            retry: RetryPolicy {
                attempts_max: self.retry.attempts,
                backoff_ms: self.retry.backoff_ms,
                backoff_max_ms: self.retry.backoff_max_ms,
                when_lost: self.retry.when_lost,
                ..RetryPolicy::default()
            },
            ladder: spec::Ladder { interrupt_ms: self.ladder.interrupt_ms, term_ms: self.ladder.term_ms },
            after,
            not_before: self.not_before.map(Into::into),
            ..Spec::of(work, self.cwd.clone())
        })
    }
}

/// The request names something to read from that this build does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`io`: `kind` is `none`, `pipe`, or `terminal` with `rows` and `columns`")]
pub struct UnknownIo;

impl Io {
    /// Returns what is asked for in the words of core; `None` if this build does not know it.
    fn to_core(&self) -> Option<spec::Io> {
        match (&self.kind, self.rows, self.columns) {
            (IoKind::None, None, None) => Some(spec::Io::Null),
            (IoKind::Pipe, None, None) => Some(spec::Io::Pipe),
            (IoKind::Terminal, Some(rows), Some(columns)) => Some(spec::Io::Terminal { rows, columns }),
            _ => None,
        }
    }
}

impl Needs {
    /// Returns the need in the words of core; `None` if this build does not know it.
    pub fn to_core(&self) -> Option<spec::Needs> {
        match self {
            Needs::Success => Some(spec::Needs::Success),
            Needs::Any => Some(spec::Needs::AnyEnd),
            Needs::Other(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_no_worktree_and_no_agent_does_not_speak_of_one() {
        // A daemon that is older refuses what it does not know, and must not refuse every job.
        let said = serde_json::to_value(Submit::default()).unwrap();
        assert_eq!((said.get("worktree"), said.get("agent"), said.get("attributes")), (None, None, None));
        let prune = serde_json::to_value(crate::Prune::default()).unwrap();
        assert_eq!(prune.get("unsaved"), None);
    }
}
