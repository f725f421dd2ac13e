//! Checks of this installation, each with its result and a suggested fix.
//!
//! No check needs a daemon or starts one. A check that cannot be done says so, and does not prevent the others.

mod agents;
mod check;
mod daemon;
mod journal;
mod machine;
mod places;
mod service;
pub(crate) mod trees;

pub(crate) use check::{Check, Status};

use crate::paths::Paths;

/// Runs all checks; with `start_agents`, also starts the installed agents and talks to them.
pub(crate) async fn check_all(start_agents: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    match Paths::find() {
        Ok(paths) => {
            checks.push(places::settings(&paths));
            checks.push(places::state(&paths));
            checks.push(places::disk(&paths));
            checks.extend(daemon::check(&paths).await);
            checks.extend(journal::check(&paths));
            checks.push(trees::check(&paths));
            checks.extend(machine::containment());
            checks.push(service::units(&paths));
            checks.extend(agents::check(&paths, start_agents));
        }
        Err(failure) => {
            checks.push(Check::fail("state", failure.text()).remedy("export HOME=… or LASTWORD_HOME=…"));
            checks.extend(machine::containment());
        }
    }
    checks.push(service::linger());
    checks.push(machine::git());
    checks.push(machine::kernel());
    checks.push(machine::orphans());
    checks.extend(machine::limits());
    checks
}
