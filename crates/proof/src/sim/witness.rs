//! What the witness knows of the jobs of a schedule, beyond their logs: what was promised to callers, and what a recovery has read.

use lastword_core::{JobId, Seq};

use super::plan::{JOBS_MAX, Plan};
use crate::world::witness::{Judgement, Known};

/// What the witness knows of one job.
pub(super) struct Watched {
    pub(super) known: Known,
    /// Events read back after a crash so far.
    pub(super) reread: usize,
    /// How far a caller was told that it is stored.
    pub(super) acknowledged: Seq,
    /// A caller was told that it exists.
    pub(super) submitted: bool,
    /// A part of its log is lost.
    pub(super) has_lost: bool,
}

/// What the witness knows.
pub(super) struct Witness {
    pub(super) jobs: [Watched; JOBS_MAX],
}

impl Witness {
    pub(super) fn new(plan: &Plan) -> Witness {
        let watched = |id| Watched {
            known: Known::new(id),
            reread: 0,
            acknowledged: Seq(0),
            submitted: false,
            has_lost: false,
        };
        Witness { jobs: plan.ids.map(watched) }
    }

    /// Notes that a caller was told that a write is stored.
    pub(super) fn acknowledged(&mut self, job: JobId, seq: Seq) {
        if let Some(watched) = self.jobs.iter_mut().find(|watched| watched.known.job.id == job) {
            watched.acknowledged = watched.acknowledged.max(seq);
        }
    }

    /// A server has taken over that has only so many events of a job.
    pub(super) fn lost(&mut self, job: usize, kept: usize) -> Judgement {
        let watched = &mut self.jobs[job];
        if kept >= watched.known.events.len() {
            return Ok(());
        }
        watched.has_lost = true;
        watched.acknowledged = watched.acknowledged.min(Seq(kept as u64));
        watched.known.roll_back(kept)
    }

    /// Reports whether every job that exists has ended.
    pub(super) fn all_ended(&self) -> bool {
        self.jobs.iter().all(|watched| !watched.known.is_live())
    }
}
