//! How a journal uses its server.

use std::path::PathBuf;
use std::time::Duration;

/// How long one statement or connection may take. A server that takes longer counts as away.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Whose clock tells which jobs are due, and which day it is for a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The server's, the one clock that all its callers share: one whose own clock is ahead starts no job early.
    #[default]
    Server,
    /// The caller's: [`Claim::now`](crate::Claim::now). For tests, which invent their times.
    Caller,
}

/// How a journal uses its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections that store appends. Two keep the server busy while one waits for its flush.
    pub writers: usize,
    /// Connections for everything else.
    pub readers: usize,
    /// Appends in one statement, at most.
    pub batch_max: usize,
    /// Whether commits wake other processes.
    pub wake: bool,
    /// How long a call is tried before the server counts as unavailable.
    pub patience: Duration,
    /// How long the first renewal waits for others, which are then one statement. It is time that the lease has run when it is stored.
    pub gather: Duration,
    /// Whose clock claims go by.
    pub clock: Clock,
    /// A folder outside the database, in which a file remembers how far the journal has come. It belongs to one process at a time.
    pub remember: Option<PathBuf>,
    /// Raises the longest lease that the journal gives to this. After a loss nothing is given out for that long.
    pub lease_max_ms: Option<u64>,
    /// Whether a server is accepted that loses or damages what is stored when its machine fails. For tests.
    pub may_lose: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            writers: 2,
            readers: 4,
            // Beyond this a batch gains nothing measurable and only delays its first answer.
            batch_max: 500,
            wake: true,
            // Longer than PostgreSQL takes to recover from a crash, shorter than the patience of a person.
            patience: Duration::from_secs(15),
            // At most fifty statements a second, and nothing beside a lease, which lasts seconds.
            gather: Duration::from_millis(20),
            clock: Clock::Server,
            remember: None,
            lease_max_ms: None,
            may_lose: false,
        }
    }
}

impl Options {
    /// Returns how a server of a fleet uses it, which renews for all its workers: one statement in two seconds, however many they are. Of a
    /// short lease it is a part.
    pub fn of_server() -> Options {
        Options { gather: Duration::from_secs(2), ..Options::default() }
    }
}
