//! Types of requests and answers, besides those of core and store.

use std::ffi::OsString;

use lastword_core::{AttemptNo, Job, JobId, Timestamp};
use lastword_proc::Attributes;

/// The environment of a job, with what else its process inherits: private, kept beside it, in no event and in no answer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env {
    /// Names and values.
    pub variables: Vec<(OsString, OsString)>,
    /// Umask, resource limits and nice value.
    pub attributes: Attributes,
}

impl Env {
    /// Returns an environment with the usual attributes.
    pub fn new(variables: Vec<(OsString, OsString)>) -> Env {
        Env { variables, ..Env::default() }
    }
}

impl std::fmt::Debug for Env {
    /// Shows the number of variables and none of them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({} variables)", self.variables.len())
    }
}

/// An answer, and whether it is the whole truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled<T> {
    /// The answer.
    pub value: T,
    /// A keeper died and the end of its job could not be stored in time: the answer is older than that death.
    pub unsettled: bool,
}

impl<T> Settled<T> {
    /// Converts the answer.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Settled<U> {
        Settled { value: convert(self.value), unsettled: self.unsettled }
    }
}

/// Work in the worktree of a job that is nowhere else, described for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved(pub String);

/// A condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It started, or ended without a start.
    Started,
    /// It ended.
    Ended,
    /// Its log grew past this.
    After(lastword_core::Seq),
}

impl Until {
    /// Reports whether the condition holds.
    pub fn is_met(self, job: &Job) -> bool {
        match self {
            Until::Started => job.is_ended() || job.attempts.iter().any(|attempt| attempt.tree.is_some()),
            Until::Ended => job.is_ended(),
            Until::After(seq) => job.version > seq,
        }
    }
}

/// Which ended jobs to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Jobs whose last word is at least so old.
    pub older_than_ms: u64,
    /// Also jobs with an unread result.
    pub unread: bool,
    /// Also jobs with unsaved work in their worktree.
    pub unsaved: bool,
    /// Only report which.
    pub dry_run: bool,
}

/// The result of a prune.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs that were removed, or would be.
    pub removed: Vec<JobId>,
    /// Old jobs that were kept because their result is unread.
    pub kept_unread: u64,
    /// Old jobs that were kept because of unsaved work in their worktree.
    pub kept_unsaved: u64,
    /// Old jobs that were kept because a live job runs in their worktree.
    pub kept_in_use: u64,
}

/// What becomes of live jobs at a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// Trees stay alive under their keepers, and the next engine adopts them.
    Keep,
    /// All of them are cancelled.
    Cancel,
    /// Those that were started end by themselves; no other is started.
    Finish,
}

/// A problem that needs a person: the engine could not solve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When it was last seen.
    pub at: Timestamp,
    /// The job it is about, if any.
    pub job: Option<JobId>,
    /// What went wrong.
    pub what: String,
    /// What to do about it.
    pub next: String,
    /// How often it was seen.
    pub count: u32,
}

/// An attempt without recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("attempt {attempt} of {job} has no recordings")]
pub struct NoAttempt {
    /// The job.
    pub job: JobId,
    /// The attempt that was asked for.
    pub attempt: AttemptNo,
}
