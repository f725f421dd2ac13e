//! The jobs that processes of a job submitted.

use lastword_core::JobId;
use lastword_core::job::{self, Phase};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The jobs that processes of a job submitted, as far as they have not ended or ended with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Children {
    /// Jobs that have not ended and end with it.
    pub tied: Vec<String>,
    /// Jobs that had not ended and may outlive it.
    pub kept: Vec<String>,
    /// Jobs that were cancelled because it did not complete or was stopped. At most 64 are named.
    pub stopped: Vec<String>,
    /// Nothing of the job itself runs any more: it ends when `tied` is empty.
    pub awaited: bool,
}

impl Children {
    /// Converts them; `None` if there are none.
    pub(crate) fn of(job: &job::Job) -> Option<Children> {
        let texts = |ids: &mut dyn Iterator<Item = JobId>| ids.map(|id| id.to_string()).collect();
        let of_kind =
            |tied| job.children.iter().filter(move |child| child.tied == tied).map(|child| child.job);
        let children = Children {
            tied: texts(&mut of_kind(true)),
            kept: texts(&mut of_kind(false)),
            stopped: texts(&mut job.children_stopped.iter().copied()),
            awaited: matches!(job.phase, Phase::Awaiting(_)),
        };
        (children != Children::default()).then_some(children)
    }
}
