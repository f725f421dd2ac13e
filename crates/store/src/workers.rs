//! How a clerk reaches the workers of other processes.

use lastword_core::{JobId, OwnerId};

use crate::Line;

/// The workers of other processes, as a clerk tells them what to look at. Each call is a hint.
pub trait Workers: std::fmt::Debug + Send + Sync + 'static {
    /// Others wrote to a job of this holder.
    fn news(&self, holder: &OwnerId, job: JobId);

    /// A line has a job that can be claimed.
    fn ready(&self, line: &Line);

    /// Groups were changed. Every worker may have jobs of them.
    fn groups_changed(&self);
}
