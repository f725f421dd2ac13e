//! What an error of the server means: whether another try helps, and which error a caller gets.

use deadpool_postgres::PoolError;

use super::options::ANSWER_MAX;
use crate::Error;

/// What one try comes to.
pub(super) type Try<T> = std::result::Result<T, Failure>;

/// Why a try did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server is away, or the connection broke; what was sent may have happened.
    Away(String),
    /// The server rolled everything back because of another transaction.
    Clash(String),
    /// Another try would fail in the same way.
    Final(Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Away(text)
            | Failure::Clash(text)
            | Failure::Final(Error::Unavailable(text) | Error::Corrupt(text)) => f.write_str(text),
            Failure::Final(error) => error.fmt(f),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Final(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        match error.as_db_error() {
            Some(db) => classify(db.code().code(), db.message()),
            None => Failure::Away(error.to_string()),
        }
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        match error {
            PoolError::Backend(error) => error.into(),
            other => Failure::Away(other.to_string()),
        }
    }
}

impl From<tokio::time::error::Elapsed> for Failure {
    fn from(_: tokio::time::error::Elapsed) -> Failure {
        Failure::Away(format!("no answer within {} s", ANSWER_MAX.as_secs()))
    }
}

/// Classifies an error of the server by its SQLSTATE: the first two characters are its class.
fn classify(code: &str, message: &str) -> Failure {
    let text = format!("{message} ({code})");
    match (code, code.get(..2).unwrap_or(code)) {
        // Connections and resources; shutdowns, a standby, a transaction that was idle for too long, a cancelled statement.
        (_, "08" | "53") | ("57P01" | "57P02" | "57P03" | "25006" | "25P03" | "57014", _) => {
            Failure::Away(text)
        }
        // Serialisation failures and deadlocks.
        (_, "40") => Failure::Clash(text),
        _ => Failure::Final(Error::Corrupt(text)),
    }
}
