//! Stops trees through their keepers when there is no daemon and none can be started: the journal is damaged, say.
//!
//! A keeper stops its tree when it is asked to end, and records that. The next daemon that can read the journal gives the job its ending.

use lastword_api::Code;
use lastword_proc::Kept;

use crate::client::Client;
use crate::doctor::trees::{STOPPED_MAX, kept};
use crate::failure::Failure;
use crate::lock;
use crate::paths::Paths;

/// How to see what runs, since names are in the journal.
const LIST: &str = "lastword doctor --trees    # lists what runs; cancel takes those ids";

/// Stops the trees that a reference means, or all if there is none. Returns the failure if there is a daemon, or no such tree.
pub(super) fn stop(reference: Option<&str>, failure: Failure, client: &Client) -> Result<(), Failure> {
    let Ok(paths) = Paths::find() else { return Err(failure) };
    if lock::is_held(&paths) {
        return Err(failure);
    }
    let Ok(mut trees) = kept(&paths) else { return Err(failure) };
    trees.retain(|tree| reference.is_none_or(|reference| means(reference, tree)));
    let is_clear = reference.is_none() || trees.len() == 1;
    if trees.is_empty() || !is_clear {
        return Err(failure.next(LIST));
    }
    let ui = client.ui();
    ui.report(&failure);
    let mut failed = None;
    for tree in &trees {
        let said = match tree.stop(STOPPED_MAX) {
            Ok(Some(_)) => "its keeper has stopped it, and no process of it is left",
            Ok(None) => "its keeper was told to stop it; processes of it are still alive",
            // The others are stopped all the same.
            Err(error) => {
                let failure = Failure::new(Code::Unavailable, error.to_string());
                failed.replace(failure).inspect(|former| ui.report(former));
                continue;
            }
        };
        ui.say(&format!("{}: {said}; its ending is recorded once a daemon can read the journal", tree.job));
    }
    failed.map_or(Ok(()), Err)
}

/// Reports whether a reference means a tree: by the id of its job, its beginning or its end.
fn means(reference: &str, tree: &Kept) -> bool {
    tree.job.starts_with(reference) || tree.job.ends_with(reference)
}
