//! The bodies of facts about other jobs: those of the same conversation, and those of the same family.

use serde::{Deserialize, Serialize};

use crate::conversation::{Position, Spending};
use crate::ids::JobId;
use crate::outcome::Outcome;

bodies! {
    /// The conversation of an ended job goes on as another job.
    Continued {
        /// The requester.
        by: String,
        /// The job that follows; none if the one that was to follow was never submitted.
        job: Option<JobId>,
    }
    /// A job that 0.1.0 submitted got its place in a conversation.
    Joined {
        /// Its place.
        position: Position,
        /// What the jobs before it used up.
        spent: Spending,
    }
    /// A process of the job submitted another job.
    ChildSubmitted {
        /// The submitter.
        by: String,
        /// The other job. Its submission follows.
        job: JobId,
        /// Whether it ends with this one.
        tied: bool,
    }
    /// A job that a process of this one submitted has ended.
    ChildEnded {
        /// The other job.
        job: JobId,
        /// How; none if it was removed before that could be read, or never submitted.
        outcome: Option<Outcome>,
    }
}
