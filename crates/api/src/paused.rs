//! A pause at a limit.

use lastword_core::{job, spec};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// A limit was reached, and the job is frozen until it is raised. It is one of the open questions, of kind `limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// The limit.
    pub limit: String,
    /// The measured value.
    pub measured: u64,
    /// The allowed value.
    pub allowed: u64,
    /// The `id` of the question, which is answered with a higher limit, or denied, which stops the job.
    #[serde(default)]
    pub question: String,
    /// When the pause began.
    pub since: Time,
    /// When the job is stopped unless the limit is raised.
    pub until: Time,
}

impl Paused {
    pub(crate) fn of(job: &job::Job) -> Option<Paused> {
        let pause = job.pause.filter(|pause| !job.is_ended() && !pause.is_denied)?;
        let spec::OnLimit::Ask { expires_ms } = job.spec.as_ref()?.on_limit else { return None };
        Some(Paused {
            limit: pause.limit.name().to_owned(),
            measured: pause.measured,
            // Another limit may be in force since, though not a sufficient one.
            allowed: job.limits.get(pause.limit).unwrap_or(pause.allowed),
            question: pause.name(),
            since: pause.since.into(),
            until: pause.since.plus_ms(expires_ms).into(),
        })
    }
}
