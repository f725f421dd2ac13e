//! What an error of the server means: whether another try helps, and which error a caller gets.

use deadpool_postgres::{Pool, PoolError};

use super::options::ANSWER_MAX;
use crate::Error;

/// The way out for a server behind a pooler that gives each transaction another connection.
pub(super) const POOLER: &str = "a connection pooler in transaction mode is not supported: connect to the server itself, or set the pooler to session mode";

/// The way out for a server that only resembles PostgreSQL.
const DERIVED: &str =
    "the journal needs PostgreSQL itself; servers derived from it, such as Citus, are not supported";

/// The way out for a journal without its tables.
const GONE: &str =
    "a table of the journal is gone: put it back, or restart the daemon to use what is there now";

/// What one try comes to.
pub(super) type Try<T> = std::result::Result<T, Failure>;

/// Why a try did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server is away, or the connection broke; what was sent may have happened.
    Away(String),
    /// The session can only read; another one may be able to write.
    ReadOnly(String),
    /// Nothing was answered in time. The connection may be dead, and its statement may still run.
    Silent(String),
    /// The statement did not find the journal that was opened, and changed nothing: look what is there now.
    Moved,
    /// The server rolled everything back because of another transaction.
    Clash(String),
    /// Another try would fail in the same way.
    Final(Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Moved => f.write_str("the journal was exchanged, and put back"),
            Failure::Away(text)
            | Failure::Silent(text)
            | Failure::ReadOnly(text)
            | Failure::Clash(text)
            | Failure::Final(Error::Unavailable(text) | Error::Corrupt(text)) => f.write_str(text),
            Failure::Final(error) => error.fmt(f),
        }
    }
}

impl Failure {
    /// Lets go of the idle connections of a pool if they can only read, because a session keeps the defaults that it began with; or if
    /// one of them did not answer, because the others lead the same way.
    pub(super) fn leave(&self, pool: &Pool) {
        if let Failure::ReadOnly(_) | Failure::Silent(_) = self {
            pool.retain(|_, _| false);
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
            None => Failure::Away(with_cause(&error)),
        }
    }
}

/// Returns the words of an error of the client, which name no cause by themselves, and those of its cause.
fn with_cause(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
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
        Failure::Silent(format!("no answer within {} s", ANSWER_MAX.as_secs()))
    }
}

/// Classifies an error of the server by its SQLSTATE: the first two characters are its class.
fn classify(code: &str, message: &str) -> Failure {
    let text = format!("{message} ({code})");
    match (code, code.get(..2).unwrap_or(code)) {
        // A prepared statement is unknown, or known already, because another connection prepared it.
        ("26000" | "42P05", _) => Failure::Final(Error::Unavailable(format!("{text}: {POOLER}"))),
        // The server does not support the statement: Citus says so of a claim and of a renewal.
        ("0A000", _) => Failure::Final(Error::Unavailable(format!("{text}: {DERIVED}"))),
        ("42P01", _) => Failure::Final(Error::Unavailable(format!("{text}: {GONE}"))),
        ("XX001" | "XX002", _) => Failure::Final(Error::Corrupt(text)),
        // A constraint stands behind every rule that `admit` checks, so one that fires shows rows that break a rule.
        (_, "23") => Failure::Final(Error::Corrupt(text)),
        ("25006", _) => {
            Failure::ReadOnly(format!("{text}: the server, the database or the role only allows reading"))
        }
        // Connections, resources, the operator, the disk; and a transaction that was idle for too long.
        (_, "08" | "25" | "53" | "57" | "58") => Failure::Away(text),
        // Serialisation failures, deadlocks, locks that were not to be had.
        (_, "40" | "55") => Failure::Clash(text),
        // Rights, settings, a missing table, SQL that this server does not know: not about what is stored, and not over by waiting.
        _ => Failure::Final(Error::Unavailable(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damage_is_called_damage() {
        let away = |code: &str| assert!(matches!(classify(code, "m"), Failure::Away(_)), "{code}");
        let clash = |code: &str| assert!(matches!(classify(code, "m"), Failure::Clash(_)), "{code}");
        let unavailable = |code: &str| {
            let text = Error::Unavailable(format!("m ({code})"));
            assert_eq!(classify(code, "m"), Failure::Final(text));
        };
        let corrupt = |code: &str| {
            assert_eq!(classify(code, "m"), Failure::Final(Error::Corrupt(format!("m ({code})"))));
        };
        // Connections, resources, shutdowns, cancelled statements, a failing disk.
        ["08006", "25P03", "53100", "53300", "57014", "57P01", "57P03", "58030"].into_iter().for_each(away);
        ["40001", "40P01", "55P03"].into_iter().for_each(clash);
        assert!(matches!(classify("25006", "m"), Failure::ReadOnly(_)));
        // Wrong password, no such database, no rights, syntax, an internal error, an unknown code.
        ["28P01", "3D000", "42501", "42601", "XX000", "22021", "LW123"].into_iter().for_each(unavailable);
        ["XX001", "XX002", "23505", "23514"].into_iter().for_each(corrupt);
    }

    #[test]
    fn a_server_derived_from_postgresql_is_named() {
        // What Citus answers to a claim.
        let failure = classify("0A000", "recursive CTEs are not supported in distributed queries");
        let Failure::Final(error @ Error::Unavailable(_)) = failure else { panic!("{failure:?}") };
        assert!(error.to_string().contains("needs PostgreSQL itself"), "{error}");
    }

    #[test]
    fn a_pooler_in_transaction_mode_is_named() {
        for code in ["26000", "42P05"] {
            let failure = classify(code, "prepared statement \"s22\" does not exist");
            let Failure::Final(error @ Error::Unavailable(_)) = failure else { panic!("{failure:?}") };
            assert!(error.to_string().contains("pooler in transaction mode is not supported"), "{error}");
        }
    }
}
