//! What goes into a request and what comes back, besides the words of core and store.

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
    /// Says how much there is, and nothing of what.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Env({} variables)", self.variables.len())
    }
}

/// An answer, and whether it is the whole truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled<T> {
    /// The answer.
    pub value: T,
    /// A keeper is dead, and what became of its job could not be stored in time: the answer is older than that death.
    pub unsettled: bool,
}

impl<T> Settled<T> {
    /// Returns the same for another answer.
    pub fn map<U>(self, turn: impl FnOnce(T) -> U) -> Settled<U> {
        Settled { value: turn(self.value), unsettled: self.unsettled }
    }
}

/// Work in the worktree of a job that is nowhere else, in words: what would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsaved(pub String);

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Its first tree is there, or it is over.
    Started,
    /// It is over.
    Ended,
    /// Its log is longer than this.
    After(lastword_core::Seq),
}

impl Until {
    /// Reports whether a job has come that far.
    pub fn is_met(self, job: &Job) -> bool {
        match self {
            Until::Started => job.is_ended() || job.attempts.iter().any(|attempt| attempt.tree.is_some()),
            Until::Ended => job.is_ended(),
            Until::After(seq) => job.version > seq,
        }
    }
}

/// Which ended jobs are to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Those whose last word is at least so old.
    pub older_than_ms: u64,
    /// Also those whose result nobody has read.
    pub unread: bool,
    /// Also those in whose worktree there is work that is nowhere else.
    pub unsaved: bool,
    /// Only say which.
    pub dry_run: bool,
}

/// What a prune came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Jobs that were removed, or would be.
    pub removed: Vec<JobId>,
    /// Jobs that are old enough and were kept because nobody has read their result.
    pub kept_unread: u64,
    /// Jobs that would go and were kept because of the work in their worktree.
    pub kept_unsaved: u64,
    /// Jobs that would go and were kept because a job that has not ended runs in their worktree.
    pub kept_in_use: u64,
}

/// What becomes of live jobs when their supervisor goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// Trees go on under their keepers, and the next engine adopts them.
    Keep,
    /// All of them are cancelled.
    Cancel,
}

/// A stream of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output; of a job with a terminal, all there is.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// Returns its name in the attempt's folder.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// Something a person should know of: it went wrong, and the engine could not put it right by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When it was last seen.
    pub at: Timestamp,
    /// Which job, if it is about one.
    pub job: Option<JobId>,
    /// What went wrong.
    pub what: String,
    /// What to do about it.
    pub next: String,
    /// How often it was seen.
    pub count: u32,
}

/// Names an attempt of which nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("of attempt {attempt} of {job} nothing was recorded")]
pub struct NoAttempt {
    /// Which job.
    pub job: JobId,
    /// Which attempt was asked for.
    pub attempt: AttemptNo,
}
