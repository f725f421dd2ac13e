//! Submissions of jobs.

use std::collections::BTreeMap;

use lastword_core::JobId;
use lastword_core::spec::{self, Dependency, OnLimit, RetryPolicy, Spec, Work};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;
use crate::agent::AgentRequest;
use crate::attributes::Attributes;
use crate::enums::{IoKind, Needs};
use crate::job::{Io, Ladder, Retry};
use crate::limits::Limits;
use crate::waits::After;
use crate::worktree::WorktreeRequest;

/// A request to run a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Submit {
    /// Its id, if the client makes one. A repeated submission with the same id and job has no effect.
    #[schema(pattern = "^job_[0-9a-z]{28}$")]
    pub id: Option<String>,
    /// A name: a letter or digit, then up to 63 letters, digits, dots, underscores and dashes.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub name: Option<String>,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The coding agent to run, instead of `argv`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentRequest>,
    /// The directory it runs in, as an absolute path. On a fleet it is one of the worker's host; empty for a new one.
    pub cwd: String,
    /// On a fleet: names of variables that the worker passes on from its own environment, besides the usual ones. A daemon passes on `env`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// A git worktree to run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeRequest>,
    /// Its environment. It is kept in a private file until the job has ended, and never shown.
    pub env: BTreeMap<String, String>,
    /// Umask, resource limits and nice value of its process. Absent: umask 022, and the daemon's limits and nice value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// Its group; `default` by default. A group that does not exist is created with one slot.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    pub group: Option<String>,
    /// Higher starts first.
    pub priority: i16,
    /// Names and values for users and filters.
    pub labels: BTreeMap<String, String>,
    /// Labels that its worker must have, at most 16: lower-case letters, digits, dots, underscores, dashes and slashes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Limits of this job. The settings fill the rest.
    pub limits: Limits,
    /// When its turns, tokens, money or output are used up: freeze it for so many milliseconds, in which the limit can be raised. Absent:
    /// stop it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_at_limit_ms: Option<u64>,
    /// Whether and when a failed attempt is followed by another.
    pub retry: Retry,
    /// The grace periods of a stop.
    pub ladder: Ladder,
    /// Jobs that must end before it starts.
    pub after: Vec<After>,
    /// The earliest time to start it.
    pub not_before: Option<Time>,
    /// Its standard input.
    pub io: Io,
    /// Of a job that is submitted from inside another one: it may outlive that one. Otherwise it ends when that one is cancelled, fails or
    /// reaches a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
}

/// The group of a job that names none.
pub const GROUP: &str = spec::DEFAULT_GROUP;

impl Submit {
    /// Returns the spec, without the environment. The caller has looked up the agent and the dependencies.
    pub fn spec(&self, work: Work, after: Vec<Dependency>, parent: Option<JobId>) -> Result<Spec, UnknownIo> {
        Ok(Spec {
            name: self.name.clone(),
            variables: self.variables.clone(),
            worktree: self.worktree.as_ref().map(WorktreeRequest::to_core),
            io: self.io.to_core().ok_or(UnknownIo)?,
            parent,
            tied: parent.is_some() && !self.keep,
            group: self.group.clone().unwrap_or_else(|| GROUP.to_owned()),
            priority: self.priority,
            labels: self.labels.clone(),
            on: self.on.iter().cloned().collect(),
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
            stays_open: self.agent.as_ref().is_some_and(|agent| agent.stays_open),
            wait_for_quota: self.agent.as_ref().and_then(|agent| agent.wait_for_quota_ms),
            ..Spec::of(work, self.cwd.clone())
        })
    }
}

/// The request names an unknown kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`io`: `kind` must be `none`, `pipe`, or `terminal` with `rows` and `columns`")]
pub struct UnknownIo;

impl Io {
    /// Converts to core's type; `None` if this build does not know it.
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
    /// Converts to core's type; `None` if this build does not know it.
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
    fn unused_newer_fields_are_not_sent() {
        // An older daemon refuses unknown fields, so they must be absent unless they are used.
        let submit = serde_json::to_value(Submit::default()).unwrap();
        assert_eq!(
            (submit.get("worktree"), submit.get("agent"), submit.get("attributes"), submit.get("on")),
            (None, None, None, None)
        );
        let prune = serde_json::to_value(crate::Prune::default()).unwrap();
        assert_eq!(prune.get("unsaved"), None);
    }
}
