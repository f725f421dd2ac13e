//! The result of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Job;
use crate::attempt::{Exit, Receipt};
use crate::enums::{Cause, Outcome, OutcomeDetail};

/// The result of an ended job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobResult {
    /// The id of the job.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Details of the outcome.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Cause,
    /// The requester of the stop, or the dependency that did not end as required.
    pub by: Option<String>,
    /// How the first process of the last attempt exited.
    pub exit: Option<Exit>,
    /// The error, if any.
    pub error: Option<String>,
    /// The proof that nothing of the last attempt is left.
    pub receipt: Option<Receipt>,
    /// The result that a process of the last attempt reported. Do not trust it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<String>,
    /// The end of standard output, at most 64 KiB, with invalid UTF-8 replaced. For an agent, its last message, looked for in the last
    /// 4 MiB that it wrote.
    pub text: String,
    /// Bytes of standard output before `text`; for an agent, 0 if its message is whole, and otherwise the bytes that were not searched.
    pub text_skipped: u64,
    /// Why `text` is missing, if the host that has the output is not connected now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_away: Option<String>,
}

impl JobResult {
    /// Returns the result of a job; `None` if it has not ended.
    pub fn of(job: &Job, text: String, text_skipped: u64) -> Option<JobResult> {
        let attempt = job.last_attempt();
        Some(JobResult {
            id: job.id.clone(),
            outcome: job.outcome.clone()?,
            outcome_detail: job.outcome_detail.clone(),
            cause: job.cause.clone()?,
            by: job.stop.as_ref().and_then(|stop| stop.by.clone()),
            exit: attempt.and_then(|attempt| attempt.exit),
            error: attempt.and_then(|attempt| attempt.error.clone()),
            receipt: attempt.and_then(|attempt| attempt.receipt.clone()),
            reported: None,
            text,
            text_skipped,
            text_away: None,
        })
    }
}
