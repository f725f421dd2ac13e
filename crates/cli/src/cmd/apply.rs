//! `apply`: brings what a job changed in its worktree to the checkout it was asked for in.

use std::path::Path;

use lastword_api::{Code, Job, Worktree};
use lastword_git::{ApplyRefusal, Plan};
use serde::Serialize;

use super::worktree;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::words;

/// Brings what a job changed in its worktree to your checkout
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The changes are merged with what is checked out, and written to files: all of them, or none. Nothing is committed or \
                  staged. Asking twice changes nothing the second time."
)]
pub(crate) struct Args {
    /// Which job
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, add = super::completion::jobs())]
    job: String,
    /// Only says whether it can be done
    #[arg(long)]
    dry_run: bool,
}

/// Files that are named when nothing can be done; the rest is counted.
const NAMED_MAX: usize = 20;

/// What was done, as a document.
#[derive(Debug, Serialize)]
struct Applied<'a> {
    job: &'a str,
    checkout: &'a str,
    files: usize,
    dry_run: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let (job, ui) = (client.job(&args.job).await?, client.ui());
    let called = words::called(job.name.as_deref(), &job.short);
    let (view, place) = (worktree::view(&job)?, worktree::of(&job)?);
    if !job.is_ended() {
        let failure = Failure::new(Code::NotEnded, format!("{called} has not ended, and may change more"));
        return Err(failure.next(format!("lastword wait {}    # until it has", words::reference(&job))));
    }
    let failed = |error: lastword_git::Error| worktree::failed(&error);
    let mut files = 0;
    if let Some(view) = &view {
        if let Some(why) = view.skipped() {
            let text = format!("nothing of {called} was applied: some of it could not be looked at: {why}");
            let failure = Failure::new(Code::Unavailable, text);
            let folder = place.path.as_deref().unwrap_or("its worktree");
            return Err(failure.next(format!(
                "what that is lies in {folder}: bring it over or remove it there, and apply again"
            )));
        }
        let checkout = Path::new(&place.checkout);
        let plan = Plan::make(view, &worktree::git(), checkout).map_err(failed)?;
        let plan = plan.map_err(|trouble| refused(&job, place, &trouble, view.has_filters()))?;
        files = plan.count();
        if !args.dry_run {
            plan.apply().map_err(failed)?;
            if let Some(folder) = place.path.as_deref().and_then(|path| Path::new(path).parent()) {
                plan.mark_applied(folder, &job.id).map_err(failed)?;
            }
        }
    }
    if ui.json {
        ui.print_json(&Applied { job: &job.id, checkout: &place.checkout, files, dry_run: args.dry_run })?;
        return Ok(0);
    }
    let has_changed = match &view {
        Some(view) => !view.files().map_err(failed)?.is_empty(),
        None => false,
    };
    let count = words::count(files as u64, "file", "files");
    let be = match (args.dry_run, files) {
        (true, _) => "would be",
        (false, 1) => "was",
        (false, _) => "were",
    };
    match (has_changed, files) {
        (false, _) => {
            ui.say(&format!("{called} has changed nothing"));
            if let Some(merge) = worktree::merge(&job) {
                ui.say(&format!("its branch has commits all the same: `{merge}` brings them over"));
            }
        }
        (true, 0) => ui.say(&format!("{} has all of it already; nothing was done", place.checkout)),
        (true, _) => {
            ui.print(&format!("{count} {be} changed in {}", place.checkout))?;
            if !args.dry_run {
                ui.say("nothing is committed: `git status` shows what came");
            }
        }
    }
    Ok(0)
}

/// Says why nothing was done, to which files it is due, and what to do.
fn refused(job: &Job, place: &Worktree, trouble: &ApplyRefusal, has_filters: bool) -> Failure {
    let called = words::called(job.name.as_deref(), &job.short);
    let reference = words::reference(job);
    let mut failure = Failure::new(
        Code::Conflict,
        format!("nothing of {called} was applied to {}: {trouble}", place.checkout),
    );
    let files = trouble.files();
    for file in files.iter().take(NAMED_MAX) {
        failure = failure.next(format!("  {}", file.display()));
    }
    if files.len() > NAMED_MAX {
        failure = failure.next(format!("  and {} more", files.len() - NAMED_MAX));
    }
    let by_hand =
        format!("lastword diff {reference} | git apply --3way    # leaves the conflicts in your files");
    match trouble {
        ApplyRefusal::NoCheckout(_) => {
            failure.next(format!("lastword diff {reference} > changes.patch    # keeps them"))
        }
        ApplyRefusal::Unmerged(_) => failure.next("resolve them, and apply it again"),
        ApplyRefusal::Conflicts(_) => failure.next(by_hand),
        ApplyRefusal::Uncommitted(_) => {
            let failure = failure.next("commit or stash these files, and apply it again");
            match has_filters {
                true => failure.next(format!(
                    "if git sees no change in them, a filter that this repository sets up made it: {by_hand}"
                )),
                false => failure,
            }
        }
        ApplyRefusal::Repositories(_) => failure.next(format!(
            "bring them over by hand from {}",
            place.path.as_deref().unwrap_or("its worktree")
        )),
    }
}
