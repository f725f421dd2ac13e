//! Why a call failed, by what its caller can do about it.

use std::time::Duration;

use lastword_api::Problem;

use crate::connect::ConnectError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon refused.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// No daemon can be reached.
    #[error("{0}")]
    Unreachable(ConnectError),
    /// The daemon went away in the middle of the call, again and again.
    #[error("the daemon went away in the middle of {path}: {error}")]
    WentAway {
        /// The path of the call.
        path: String,
        /// The last error of the connection.
        error: String,
    },
    /// The daemon is there and does not answer. It may still do what was asked.
    #[error("the daemon has not answered for {} s", .0.as_secs())]
    Silent(Duration),
    /// The server is not a daemon of Lastword.
    #[error("what answers is not a daemon of Lastword")]
    NotADaemon,
    /// The reply cannot be read. The daemon may be of another version.
    #[error("the daemon's answer to {path} does not read: {why}")]
    Unreadable {
        /// The path of the call.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The call is not a valid request.
    #[error("{0}")]
    Invalid(String),
    /// The system gives no random bytes for a key.
    #[error("this system gives no random bytes: {0}")]
    NoRandom(String),
}
