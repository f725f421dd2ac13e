//! `submit`: a job is asked for. The client made its id, so asking twice is asking once.

use std::sync::Arc;

use super::{Decision, Refusal};
use crate::event::Submitted;
use crate::job::Job;
use crate::limits::Limits;
use crate::spec::{Spec, Work};

/// Bytes of everything a submitter may write into a spec. A spec is stored, folded and listed for ever.
const SPEC_BYTES_MAX: usize = 256 * 1024;

/// Labels of one job: enough for any filter, too few for a payload.
const LABELS_MAX: usize = 64;

/// Jobs one job may wait for; each is looked at when it ends.
const DEPENDENCIES_MAX: usize = 256;

/// Decides a submission. `global` are the limits of the installation; the job's own win over them.
pub fn decide(job: &Job, spec: &Arc<Spec>, by: &str, global: Limits) -> Decision {
    match &job.spec {
        None => {
            check(job, spec)?;
            let limits = spec.limits.or(global).or(Limits::default_for(&spec.work));
            Ok(vec![Submitted { spec: Arc::clone(spec), by: by.to_owned(), limits }.into()])
        }
        Some(before) if before == spec => Ok(Vec::new()),
        Some(_) => Err(Refusal::IdTaken(job.id)),
    }
}

fn check(job: &Job, spec: &Spec) -> Result<(), Refusal> {
    let words: usize = match &spec.work {
        Work::Command { argv } if argv.is_empty() => return Err(Refusal::Invalid("there is no command")),
        Work::Command { argv } => argv.iter().map(|word| word.len() + 1).sum(),
        Work::Agent { provider, .. } if provider.is_empty() => {
            return Err(Refusal::Invalid("the agent has no name"));
        }
        Work::Agent { provider, prompt } => provider.len() + prompt.len(),
    };
    let labels: usize = spec.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
    let resume = spec.resume.as_ref().map_or(0, |resume| resume.provider.len() + resume.reference.len());
    let too_large = words + labels + resume + spec.cwd.len() + spec.queue.len() > SPEC_BYTES_MAX;
    match spec {
        _ if too_large => Err(Refusal::Invalid("it is larger than 256 KiB")),
        _ if spec.queue.is_empty() => Err(Refusal::Invalid("the queue has no name")),
        _ if spec.labels.len() > LABELS_MAX => Err(Refusal::Invalid("it has more than 64 labels")),
        _ if spec.after.len() > DEPENDENCIES_MAX => Err(Refusal::Invalid("it waits for more than 256 jobs")),
        _ if spec.after.iter().any(|other| other.job == job.id) => {
            Err(Refusal::Invalid("it waits for itself"))
        }
        _ if spec.retry.attempts_max == 0 => Err(Refusal::Invalid("it may not be tried even once")),
        _ => Ok(()),
    }
}
