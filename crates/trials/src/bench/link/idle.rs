//! Workers that have nothing to do: what they and their server cost the database.

use std::time::{Duration, Instant};

use super::members::Fleet;
use crate::clock;
use crate::statistics::goal;

/// A session of PostgreSQL reports what it counted at most this much later.
const REPORTED: Duration = Duration::from_secs(11);

/// Transactions per worker and minute.
const TRANSACTIONS_MAX: f64 = 1.0;

/// Connections of one server.
const CONNECTIONS_MAX: f64 = 10.0;

const TRANSACTIONS: &str =
    "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()";
const CONNECTIONS: &str =
    "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";

/// Lets them idle for so long, and prints what that cost.
pub(super) fn measure(workers: usize, time: Duration) -> Result<bool, String> {
    let fleet = Fleet::start(workers, 4)?;
    // What PostgreSQL does for itself is counted with the rest, and is no transaction of a worker.
    fleet.sql("alter system set autovacuum = off")?;
    fleet.sql("select pg_reload_conf()")?;
    // Their first claims and sweeps are no idleness.
    clock::rest(REPORTED + Duration::from_secs(10));
    let (before, began) = (fleet.number(TRANSACTIONS)?, Instant::now());
    clock::rest(time);
    let connections = fleet.number(CONNECTIONS)?;
    // Sessions report late, before and after: both figures are as old. Two of these are our own questions.
    let transactions = fleet.number(TRANSACTIONS)? - before - 2.0;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let each = transactions / minutes / workers as f64;
    let fine = each <= TRANSACTIONS_MAX && connections <= CONNECTIONS_MAX;
    println!(
        "{workers} idle workers through one server: {connections:.0} database connections (goal at most {CONNECTIONS_MAX:.0}); {each:.2} transactions per worker and minute (goal at most {TRANSACTIONS_MAX:.0}), {:.0} a minute in all{}",
        transactions / minutes,
        goal(fine)
    );
    Ok(fine)
}
