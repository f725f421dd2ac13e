//! How long each side waits for the other.

use std::time::Duration;

/// How long each side waits for the other. Both sides of a fleet should have the same.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Connecting, TLS and the hello together.
    pub handshake: Duration,
    /// Between two beats.
    pub beat: Duration,
    /// Without a frame, the connection is a black hole.
    pub silence: Duration,
    /// For a peer to take one frame.
    pub write: Duration,
    /// For an answer. The server gives up a little earlier than the client.
    pub answer: Duration,
    /// Before the second attempt to connect; doubled after each failure, up to `backoff_max`.
    pub backoff: Duration,
    /// Between two attempts to connect, at most.
    pub backoff_max: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            handshake: Duration::from_secs(5),
            beat: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            write: Duration::from_secs(10),
            answer: Duration::from_secs(15),
            backoff: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
        }
    }
}
