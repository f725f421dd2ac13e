//! `abandon`: a user gives up on a host that does not come back. Nothing else gives up on a host.

use super::{Decision, Refusal};
use crate::event::Abandoned;
use crate::job::{Job, Phase};

/// Decides to give up on the host of the open attempt. The next owner ends the attempt.
pub fn decide(job: &Job, by: &str) -> Decision {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => Ok(Vec::new()),
        _ if job.abandoned => Ok(Vec::new()),
        _ if job.open_attempt().is_none() => {
            Err(Refusal::Nothing(job.id, "no attempt to abandon; cancel it instead"))
        }
        _ => Ok(vec![Abandoned { by: by.to_owned() }.into()]),
    }
}
