//! The jobs that an upgrade finds, a row each.
//!
//! - `row`: what a row holds.
//! - `ended`: jobs that ended before the upgrade, with every outcome.
//! - `commands`: plain commands that are live.
//! - `agents`: coding agents that are live, in every dialect.

mod agents;
mod commands;
mod ended;
mod row;

use std::time::Duration;

pub(super) use row::{Row, When, Wrote};

/// Returns every job, in the order in which they are made. The clocks of timed jobs run out after `clock_s` seconds.
pub(super) fn all(clock_s: u64) -> Vec<Row> {
    let clock = format!("{clock_s}s");
    let mut rows: Vec<Row> =
        [ended::rows(), commands::rows(&clock), agents::rows(&clock)].into_iter().flatten().collect();
    for row in rows.iter_mut().filter(|row| row.stops_after.is_some()) {
        row.stops_after = Some(Duration::from_secs(clock_s));
    }
    let order = [When::First, When::Live, When::Timed, When::After];
    rows.sort_by_key(|row| order.iter().position(|when| *when == row.when));
    rows
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn fifty_jobs_are_live_and_every_name_is_unique() {
        let rows = all(10);
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().filter(|row| row.is_live()).count() >= 50);
    }
}
