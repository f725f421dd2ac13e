//! The bodies of facts that say something about a job and decide nothing: its labels, and what it says of its work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::AttemptNo;

bodies! {
    /// Labels were changed.
    LabelsChanged {
        /// The requester.
        by: String,
        /// Each label that was set, with its value, or removed.
        labels: BTreeMap<String, Option<String>>,
    }
    /// A process of the job said how far its work is, or what its result is.
    ProgressReported {
        /// The attempt whose process it was.
        attempt: AttemptNo,
        /// How far it is, in one line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
    }
}

impl LabelsChanged {
    /// Makes the change.
    pub(crate) fn apply(&self, labels: &mut BTreeMap<String, String>) {
        for (name, value) in &self.labels {
            match value {
                Some(value) => labels.insert(name.clone(), value.clone()),
                None => labels.remove(name),
            };
        }
    }
}
