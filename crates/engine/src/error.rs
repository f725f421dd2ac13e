//! Errors of requests, by what the caller can do.

use lastword_core::Illegal;
use lastword_core::decide::Refusal;
use lastword_core::view::row::Row;
use lastword_store as store;

use crate::NoAttempt;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request does not apply to the job.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] store::Error),
    /// The log breaks a rule.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// There is no such recording.
    #[error(transparent)]
    NoAttempt(#[from] NoAttempt),
    /// The output is on a host that cannot be asked now.
    #[error(transparent)]
    Away(#[from] Box<Away>),
    /// The output could not be read.
    #[error("the output of {job} cannot be read: {why}")]
    Unread {
        /// The job, as a person calls it.
        job: String,
        /// The error.
        why: String,
    },
    /// A file of the job could not be written or read.
    #[error("{what}: {source}")]
    Disk {
        /// What was tried.
        what: String,
        /// The error.
        source: std::io::Error,
    },
    /// Unsaved work would be lost.
    #[error("{job} is not removed, because its worktree holds work that was not applied: {what}")]
    Unsaved {
        /// The job with the worktree.
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
    /// It is one of several jobs of a conversation.
    #[error("{job} is one of {jobs} jobs of a conversation, which is removed as a whole")]
    InConversation {
        /// The job, as a person calls it.
        job: String,
        /// The job.
        id: lastword_core::JobId,
        /// The number of jobs of the conversation.
        jobs: usize,
    },
    /// A job that waits for it cannot be told how it ended.
    #[error(
        "{job} is not removed, because {dependent} waits for it and cannot be told how it ended; cancel that one first"
    )]
    Awaited {
        /// The job that was to be removed, as a person calls it.
        job: String,
        /// The job that waits for it, as a person calls it.
        dependent: String,
        /// The job that waits for it.
        by: lastword_core::JobId,
    },
    /// A group cannot be removed.
    #[error("{0}")]
    GroupStays(&'static str),
    /// The system has no random bytes.
    #[error("no random bytes: {0}")]
    NoRandom(std::io::Error),
    /// The engine is shutting down.
    #[error("the daemon is shutting down; try again")]
    GoingDown,
}

/// The host that has the output of a job cannot be asked now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output of {job} is on the host of worker {owner}, which cannot be asked now")]
pub struct Away {
    /// The job, as a person calls it.
    pub job: String,
    /// The job.
    pub id: lastword_core::JobId,
    /// The worker.
    pub owner: lastword_core::OwnerId,
    /// Since when it is not connected; `None` if it never was since this process started.
    pub since: Option<lastword_core::Timestamp>,
    /// Its life goes on, so it may be connected to another server.
    pub may_be_elsewhere: bool,
}

/// Returns how many jobs match. A store looks no further than its bound.
fn matches(found: usize) -> String {
    match found < store::FOUND_MAX as usize {
        true => found.to_string(),
        false => format!("{found} or more"),
    }
}

/// Why a reference matches no single job.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No match.
    #[error("no job matches `{0}`")]
    NotFound(String),
    /// More than one match.
    #[error("`{reference}` matches {} jobs: use more of the id", matches(candidates.len()))]
    Ambiguous {
        /// What was asked for.
        reference: String,
        /// Some of the matches.
        candidates: Vec<Row>,
    },
    /// The lookup failed.
    #[error(transparent)]
    Engine(#[from] Error),
}
