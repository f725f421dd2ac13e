//! What the witness knows of a job, beyond its log.

use lastword_core::{AttemptNo, JobId};

use crate::world::witness::Known;

/// What the witness knows of one job.
pub(super) struct Watched {
    pub(super) known: Known,
    /// When its last word became durable, by the world's clock.
    pub(super) ended_at: Option<u64>,
    /// When the end of an attempt became durable that no keeper saw: until then it ran, as far as is known.
    pub(super) unseen: Vec<(AttemptNo, u64)>,
    /// It was removed, which only an ended job can be.
    pub(super) removed: bool,
}

impl Watched {
    pub(super) fn new(job: JobId) -> Watched {
        Watched { known: Known::new(job), ended_at: None, unseen: Vec::new(), removed: false }
    }
}
