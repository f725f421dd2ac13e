//! Checks for process trees that have a keeper and no job in the journal: it was deleted, or an older copy was put in its place.

use std::time::Duration;

use lastword_core::JobId;
use lastword_proc::{Kept, kept_in};
use lastword_store::sqlite::unknown_jobs;

use super::check::Check;
use crate::daemon::JOBS;
use crate::paths::Paths;
use crate::ui::describe;

pub(super) fn check(paths: &Paths) -> Check {
    match unowned(paths) {
        Ok(trees) if trees.is_empty() => Check::ok("trees", "each has a job in the journal"),
        Ok(trees) => {
            let text = format!("{}, which was deleted or is an older copy", say(&trees));
            Check::warn("trees", text).remedy(LIST)
        }
        Err(why) => Check::warn("trees", format!("not checked: {why}")),
    }
}

/// How to see these trees and what to do about them.
pub(crate) const LIST: &str = "lastword doctor --trees    # lists them; --stop stops them";

/// How long a tree may take to end. Its own grace between TERM and KILL is part of it.
pub(crate) const STOPPED_MAX: Duration = Duration::from_secs(60);

/// Returns the trees that have a keeper.
pub(crate) fn kept(paths: &Paths) -> Result<Vec<Kept>, String> {
    kept_in(&paths.in_state(JOBS)).map_err(|error| error.to_string())
}

/// Says how many there are.
pub(crate) fn say(trees: &[Kept]) -> String {
    let count = describe::count(trees.len() as u64, "process tree runs", "process trees run");
    format!("{count} without a job in the journal")
}

/// Returns the trees that have a keeper and no job in the journal.
pub(crate) fn unowned(paths: &Paths) -> Result<Vec<Kept>, String> {
    // First the trees: a job is stored before its tree is started.
    let kept = kept(paths)?;
    let ids = kept.iter().filter_map(|tree| tree.job.parse().ok()).collect::<Vec<JobId>>();
    let unknown = unknown_jobs(&paths.state, &ids).map_err(|error| error.to_string())?;
    let is_unknown = |tree: &Kept| tree.job.parse().is_ok_and(|job| unknown.contains(&job));
    Ok(kept.into_iter().filter(is_unknown).collect())
}
