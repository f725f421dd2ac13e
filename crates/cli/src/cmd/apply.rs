//! `apply`: applies a job's changes to the checkout it was started from.

use std::path::Path;

use lastword_api::{Code, Job, Worktree};
use lastword_git::{ApplyRefusal, Plan};
use serde::Serialize;

use super::newest::newest;
use super::worktree;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::describe;

/// Apply a job's changes to your checkout
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Merges the changes with the checked-out commit and writes them to your files: all of them, or none. Commits and stages \
                  nothing. Applying twice is harmless."
)]
pub(crate) struct Args {
    /// Job whose changes to apply; the newest by default
    #[arg(value_name = "JOB", default_value = "@last", hide_default_value = true, value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Only check whether it is possible
    #[arg(long)]
    dry_run: bool,
}

/// Files listed in an error; the rest are counted.
const NAMED_MAX: usize = 20;

/// The result as JSON.
#[derive(Debug, Serialize)]
struct Applied<'a> {
    job: &'a str,
    checkout: &'a str,
    files: usize,
    dry_run: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    // The worktree is that of the conversation, in which another job may be at work.
    let (job, ui) = (newest(&client, client.job(&args.job).await?).await?, client.ui());
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let (view, place) = (worktree::view(&job)?, worktree::of(&job)?);
    if !job.is_ended() {
        let failure =
            Failure::new(Code::NotEnded, format!("{job_name} has not ended and may still change files"));
        return Err(
            failure.next(format!("lastword wait {}    # then apply again", describe::reference(&job)))
        );
    }
    let failed = |error: lastword_git::Error| worktree::failed(&error);
    let mut files = 0;
    if let Some(view) = &view {
        if let Some(why) = view.skipped() {
            let text =
                format!("nothing of {job_name} was applied, because some files could not be read: {why}");
            let failure = Failure::new(Code::Unavailable, text);
            let folder = place.path.as_deref().unwrap_or("its worktree");
            return Err(failure
                .next(format!("make those files in {folder} readable or remove them, and apply again")));
        }
        let checkout = Path::new(&place.checkout);
        let plan = Plan::make(view, &worktree::git(), checkout).map_err(failed)?;
        let plan = plan.map_err(|trouble| refused(&job, place, &trouble, view.has_filters()))?;
        files = plan.count();
        if !args.dry_run {
            let applied = plan.apply().map_err(failed)?;
            applied.map_err(|trouble| refused(&job, place, &trouble, view.has_filters()))?;
            if let Some(folder) = place.path.as_deref().and_then(|path| Path::new(path).parent()) {
                plan.mark_applied(folder, worktree::owner(&job, place)).map_err(failed)?;
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
    let count = describe::count(files as u64, "file", "files");
    let be = match (args.dry_run, files) {
        (true, _) => "would be",
        (false, 1) => "was",
        (false, _) => "were",
    };
    match (has_changed, files) {
        (false, _) => {
            ui.say(&format!("{job_name} changed nothing"));
            if let Some(merge) = worktree::merge(&job) {
                ui.say(&format!("its branch has commits, though: `{merge}` merges them"));
            }
        }
        (true, 0) => ui.say(&format!("all changes are already in {}", place.checkout)),
        (true, _) => {
            ui.print(&format!("{count} {be} changed in {}", place.checkout))?;
            if !args.dry_run {
                ui.say("nothing is committed; `git status` shows the changes");
            }
        }
    }
    Ok(0)
}

/// Returns why nothing was applied, the files that prevent it, and what to do.
fn refused(job: &Job, place: &Worktree, trouble: &ApplyRefusal, has_filters: bool) -> Failure {
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let reference = describe::reference(job);
    let mut failure = Failure::new(
        Code::Conflict,
        format!("nothing of {job_name} was applied to {}: {trouble}", place.checkout),
    );
    let files = trouble.files();
    for file in files.iter().take(NAMED_MAX) {
        failure = failure.next(format!("  {}", file.display()));
    }
    if files.len() > NAMED_MAX {
        failure = failure.next(format!("  and {} more", files.len() - NAMED_MAX));
    }
    let by_hand =
        format!("lastword diff {reference} | git apply --3way    # marks the conflicts in your files");
    match trouble {
        ApplyRefusal::NoCheckout(_) => {
            failure.next(format!("lastword diff {reference} > changes.patch    # saves the changes"))
        }
        ApplyRefusal::Unmerged(_) => failure.next("resolve them and apply again"),
        ApplyRefusal::Conflicts(_) => failure.next(by_hand),
        ApplyRefusal::Saved(_) => failure.next("commit or stash them if they have changed, and apply again"),
        ApplyRefusal::Uncommitted(_) => {
            let failure = failure.next("commit or stash these files and apply again");
            match has_filters {
                true => failure.next(format!(
                    "if git shows no change in them, a filter of this repository causes it: {by_hand}"
                )),
                false => failure,
            }
        }
        ApplyRefusal::Repositories(_) => failure
            .next(format!("copy them by hand from {}", place.path.as_deref().unwrap_or("its worktree"))),
    }
}
