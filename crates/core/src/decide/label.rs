//! `label`: changing the labels of a job. They are for people and filters, and decide nothing.

use std::collections::BTreeMap;

use super::{Decision, Refusal};
use crate::event::LabelsChanged;
use crate::job::{Job, Phase};

/// Labels per job: enough for any filter, too few for a payload.
pub(super) const LABELS_MAX: usize = 64;

/// Bytes of all labels of a job, names and values.
const BYTES_MAX: usize = 64 * 1024;

/// Decides a change of labels; a label without a value is removed. Adds nothing if they are as they were.
pub fn decide(job: &Job, by: &str, changes: &BTreeMap<String, Option<String>>) -> Decision {
    match job.phase {
        Phase::Unborn => return Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => return Err(Refusal::Ended(job.id)),
        _ => {}
    }
    let is_change = |(name, value): &(&String, &Option<String>)| job.labels.get(*name) != value.as_ref();
    let labels: BTreeMap<_, _> =
        changes.iter().filter(is_change).map(|(name, value)| (name.clone(), value.clone())).collect();
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let is_name = |name: &String| !name.is_empty() && !name.contains('=');
    if !labels.keys().all(is_name) {
        return Err(Refusal::Invalid("the name of a label must not be empty or contain `=`"));
    }
    let change = LabelsChanged { by: by.to_owned(), labels };
    let mut after = job.labels.clone();
    change.apply(&mut after);
    let bytes: usize = after.iter().map(|(name, value)| name.len() + value.len()).sum();
    match () {
        () if after.len() > LABELS_MAX => Err(Refusal::Invalid("it would have more than 64 labels")),
        () if bytes > BYTES_MAX => Err(Refusal::Invalid("its labels would be larger than 64 KiB")),
        () => Ok(vec![change.into()]),
    }
}
