//! The rows, by subject.
//!
//! - [`cancel`]: what a cancel reaches, and when it may answer.
//! - [`dependents`]: jobs that wait for another one.
//! - [`ending`]: one ending, true to the work.
//! - [`feed`]: events and the API.
//! - [`journal`]: a journal that cannot be written, was deleted or replaced.
//! - [`limits`]: decisions that stay.
//! - [`others`]: single reports of other tools.
//! - [`output`]: terminals and readers.
//! - [`owners`]: daemons, keepers and pids.
//! - [`reads`]: what a caller learns when something is gone.
//! - [`settings`]: where they come from.
//! - [`trees`]: processes and receipts.
//! - [`turns`]: turns of agents: how they end, and what a cancel does to them.
//! - [`worktrees`]: worktrees of jobs.

mod cancel;
mod dependents;
mod ending;
mod feed;
mod journal;
mod limits;
mod others;
mod output;
mod owners;
mod reads;
mod settings;
mod trees;
mod turns;
mod worktrees;

use super::row::Row;

/// Every row, by subject.
#[rustfmt::skip] // One row, one subject.
const SUBJECTS: &[&[Row]] = &[
    cancel::ROWS,
    dependents::ROWS,
    ending::ROWS,
    feed::ROWS,
    journal::ROWS,
    limits::ROWS,
    others::ROWS,
    output::ROWS,
    owners::ROWS,
    reads::ROWS,
    settings::ROWS,
    trees::ROWS,
    turns::ROWS,
    worktrees::ROWS,
];

/// Returns all rows.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    SUBJECTS.iter().copied().flatten()
}

/// Returns all rows by their ids: `A2` before `A11` and `A11-key`.
pub(super) fn sorted() -> impl Iterator<Item = &'static Row> {
    let mut rows: Vec<&Row> = all().collect();
    rows.sort_by_key(|row| {
        let is_digit = |c: char| c.is_ascii_digit();
        let (letters, rest) = row.id.split_at(row.id.find(is_digit).unwrap_or(row.id.len()));
        let digits = rest.split(|c| !is_digit(c)).next().and_then(|digits| digits.parse::<u32>().ok());
        (letters, digits, row.id)
    });
    rows.into_iter()
}
