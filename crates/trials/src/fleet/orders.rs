//! What a history asks for: jobs, and faults with their moments.

use super::canary::Song;
use super::fault::Fault;

/// A job that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) at_ms: u64,
    /// Which server is asked first.
    pub(super) server: usize,
    pub(super) song: Song,
    pub(super) attempts: u32,
    pub(super) backoff_ms: u64,
    pub(super) when_lost: bool,
    /// The place in the plan of a job that must end before.
    pub(super) after: Option<usize>,
    /// When it is cancelled.
    pub(super) cancel_at_ms: Option<u64>,
    /// It is submitted when the script says so.
    pub(super) on_cue: bool,
}

/// A fault, and its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    pub(super) fault: Fault,
    pub(super) at_ms: u64,
    /// It waits until a worker launches the job that it is aimed at.
    pub(super) at_launch: bool,
    /// How long it lasts.
    pub(super) for_ms: u64,
    /// The job that it is aimed at: a fault of workers strikes the one that has it.
    pub(super) aim: usize,
    /// The worker and the server that it strikes otherwise.
    pub(super) worker: usize,
    pub(super) server: usize,
    /// The clock goes forward, not back. The host of a database that is replaced is up, and refuses connections.
    pub(super) forward: bool,
}

/// How long leases are, and what a watcher waits in addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) lease_ms: u64,
    pub(super) margin_ms: u64,
}

impl Order {
    /// Makes it a job that is started again at once wherever it may be: two that are alive at the same time show soon.
    pub(super) fn insist(&mut self) {
        (self.attempts, self.when_lost, self.after, self.cancel_at_ms) = (4, true, None, None);
        self.backoff_ms = 1;
        self.song = Song { fails: 0, runs_ms: self.song.runs_ms.max(2_500), ..self.song };
    }
}
