//! What is done in the world: effects in, reports out.

mod kept;

use std::future::Future;

use lastword_core::effects::Effect;
use lastword_core::report::Report;
use lastword_core::{Epoch, Job};
use tokio::sync::mpsc;

pub use kept::Kept;

/// Whoever can carry out effects: keepers of real processes, or simulated ones.
pub trait Trees: Clone + Send + Sync + 'static {
    /// Carries out an effect for the claim of that epoch, and reports what comes of it. Returns when there is no more to report.
    fn perform(
        &self,
        job: Job,
        epoch: Epoch,
        effect: Effect,
        report: mpsc::Sender<Report>,
    ) -> impl Future<Output = ()> + Send;
}
