//! Labels of workers: what a job needs of its worker, and what a worker has.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::ids::OwnerId;

/// Labels, sorted. A worker that has all labels of a job may run it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerLabels(BTreeSet<String>);

/// Labels of a job. Each set of labels is a line of its own in its group.
const LABELS_MAX: usize = 16;

/// Characters of a label.
const LABEL_CHARS_MAX: usize = 64;

/// What the label of one worker begins with, before its name. Each worker has its own, and no enrolment can give it another.
const WORKER: &str = "worker:";

impl WorkerLabels {
    /// Adds the label that only the worker of this name has.
    pub fn with_worker(mut self, name: &OwnerId) -> WorkerLabels {
        self.0.insert(format!("{WORKER}{name}"));
        self
    }

    /// Returns the name of the one worker that has these, if only one has.
    pub fn worker(&self) -> Option<&str> {
        self.iter().find_map(WorkerLabels::worker_of)
    }

    /// Returns the name of the worker whose label this is.
    pub fn worker_of(label: &str) -> Option<&str> {
        label.strip_prefix(WORKER)
    }

    /// Refuses what is no label, and too many.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/');
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_label = |label: &String| {
            let (text, is_allowed): (&str, fn(u8) -> bool) = match WorkerLabels::worker_of(label) {
                Some(name) => (name, is_name),
                None => (label, is_plain),
            };
            (1..=LABEL_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
        };
        match self.0.len() {
            count if count > LABELS_MAX => Err("it needs more than 16 labels of its worker"),
            _ if self.0.iter().all(is_label) => Ok(()),
            _ => {
                Err("a label of its worker must be 1 to 64 lower-case letters, digits, `.`, `_`, `-` or `/`")
            }
        }
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether a worker with the labels `had` has all of these.
    pub fn are_among(&self, had: &WorkerLabels) -> bool {
        self.0.is_subset(&had.0)
    }

    /// Returns them in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns them as one text, the same for the same labels. No label has a space.
    pub fn key(&self) -> String {
        self.iter().collect::<Vec<_>>().join(" ")
    }

    /// Reads what [`key`](WorkerLabels::key) returned.
    pub fn from_key(key: &str) -> WorkerLabels {
        key.split_terminator(' ').map(str::to_owned).collect()
    }
}

impl FromIterator<String> for WorkerLabels {
    fn from_iter<I: IntoIterator<Item = String>>(labels: I) -> WorkerLabels {
        WorkerLabels(labels.into_iter().collect())
    }
}
