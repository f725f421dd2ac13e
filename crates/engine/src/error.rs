//! Why a request came to nothing, by what the caller can do.

use lastword_core::Illegal;
use lastword_core::decide::Refusal;
use lastword_core::view::row::Row;
use lastword_store as store;

use crate::NoAttempt;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not apply.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The journal said no.
    #[error(transparent)]
    Journal(#[from] store::Error),
    /// The log breaks a rule.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// There is no such recording.
    #[error(transparent)]
    NoAttempt(#[from] NoAttempt),
    /// A file of the job could not be written or read.
    #[error("{what}: {source}")]
    Disk {
        /// What was tried.
        what: String,
        /// What it came to.
        source: std::io::Error,
    },
    /// Work would be lost that is nowhere else.
    #[error("{job} is not removed, because its worktree holds work that was not applied: {what}")]
    Unsaved {
        /// Whose worktree.
        job: lastword_core::JobId,
        /// What would be lost.
        what: String,
    },
    /// Another job, which has not ended, runs in the worktree.
    #[error("{job} is not removed, because {user} runs in its worktree and has not ended")]
    InUse {
        /// The job whose worktree it is, as a person calls it.
        job: String,
        /// The job that runs there, as a person calls it.
        user: String,
        /// The job that runs there.
        by: lastword_core::JobId,
    },
    /// A group cannot be removed.
    #[error("{0}")]
    GroupStays(&'static str),
    /// No random bytes could be had.
    #[error("no random bytes: {0}")]
    NoRandom(std::io::Error),
    /// The engine goes down and takes no more.
    #[error("the supervisor is going down; ask the next one")]
    GoingDown,
}

/// Why a reference names no job.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// Nothing fits.
    #[error("no job is meant by `{0}`")]
    NotFound(String),
    /// More than one fits.
    #[error("`{reference}` fits {} jobs: use more of the id", candidates.len())]
    Ambiguous {
        /// What was asked for.
        reference: String,
        /// Some of the jobs that fit.
        candidates: Vec<Row>,
    },
    /// It could not be looked up.
    #[error(transparent)]
    Engine(#[from] Error),
}
