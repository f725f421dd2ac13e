//! What came of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Job;
use crate::attempt::{Exit, Receipt};
use crate::enums::{Cause, Outcome, OutcomeDetail};

/// What came of a job that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobResult {
    /// Which job.
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What the outcome leaves open.
    pub outcome_detail: Option<OutcomeDetail>,
    /// Why it ended.
    pub cause: Cause,
    /// Who asked for its end, if somebody did; or the job that did not end as this one needed.
    pub by: Option<String>,
    /// How the first process of the last attempt exited.
    pub exit: Option<Exit>,
    /// What was reported wrong.
    pub error: Option<String>,
    /// What proves that nothing of the last attempt is left.
    pub receipt: Option<Receipt>,
    /// The end of standard output, at most 64 KiB, with what is not UTF-8 replaced; of an agent, its last message.
    pub text: String,
    /// Bytes of standard output before that text.
    pub text_skipped: u64,
}

impl JobResult {
    /// Returns the result of a job; `None` while it has none.
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
            text,
            text_skipped,
        })
    }
}
