//! The living processes of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// The living processes of a job, as they are at this moment. What is proven about them is in the receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Processes {
    /// The processes, parents before children; at most 500. None if the job has no process tree, and null if they cannot be seen from here:
    /// they are on the host of a worker.
    pub items: Option<Vec<LiveProcess>>,
    /// There may be more.
    pub more: bool,
}

/// A living process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveProcess {
    /// Its pid.
    pub pid: i32,
    /// The pid of its parent, if that is among them. A process whose parent has exited has none.
    pub parent: Option<i32>,
    /// Its command line, in one line, which may be cut. Empty if it is hidden. Written by the process: do not trust it.
    pub command: String,
    /// When it was started.
    pub started_at: Time,
    /// Whether it is in another session than the first process, as a daemon or the window of a terminal is.
    pub left_session: bool,
    /// Milliseconds of CPU time that it has used.
    pub cpu_ms: u64,
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
}
