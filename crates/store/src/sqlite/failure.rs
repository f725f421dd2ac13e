//! What an error of SQLite means to a caller.

use rusqlite::{Connection, ErrorCode, Params};

use crate::{Error, Result};

/// Runs a statement and reports whether it changed anything.
pub(super) fn execute(connection: &Connection, sql: &str, values: impl Params) -> Result<bool> {
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    statement.execute(values).map(|rows| rows > 0).map_err(failed)
}

/// Returns what a caller can do about an error of SQLite.
pub(super) fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        // A constraint stands behind every rule that `admit` checks, so one that fires shows a broken rule.
        // `Unknown` is what SQLite says about a table or column that is not there.
        Some(
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::Unknown,
        ) => Error::Corrupt(error.to_string()),
        Some(_) => Error::Unavailable(error.to_string()),
        // Not from SQLite: a stored value has a type or a form that this code never writes.
        None => Error::Corrupt(error.to_string()),
    }
}
