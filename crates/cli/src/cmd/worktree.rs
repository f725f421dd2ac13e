//! What verbs about worktrees share: the checkout that a job is asked for in, and the worktree it was given.

use std::path::Path;

use lastword_api::{Code, Job, Worktree, WorktreeRequest};
use lastword_git::{Checkout, Git, Probe, View};

use crate::client::Client;
use crate::environment;
use crate::failure::Failure;
use crate::ui::{Ui, words};

/// Returns the git of this user.
pub(super) fn git() -> Git {
    Git::new(environment::all())
}

/// Returns a failure of git.
pub(super) fn failed(error: &lastword_git::Error) -> Failure {
    Failure::new(Code::Unavailable, error.to_string())
}

/// Returns the wish for a worktree of the checkout that a folder is in, and says what will not be in it.
pub(super) fn wish(folder: &str, keep: bool, ui: &Ui) -> Result<WorktreeRequest, Failure> {
    let refused = |why: &str| Failure::usage(format!("no worktree can be made for {folder}: {why}"));
    let checkout = match Checkout::probe(&git(), Path::new(folder)).map_err(|error| failed(&error))? {
        Probe::Checkout(checkout) => checkout,
        Probe::NoRepository(said) => {
            return Err(refused(&said).next("run without --worktree, or from a git repository"));
        }
        Probe::NoFiles => {
            return Err(refused("the repository has no files here").next("run from a checkout of it"));
        }
        Probe::NoCommit => {
            return Err(
                refused("nothing was committed yet").next("git commit    # a worktree begins at a commit")
            );
        }
        Probe::NotCommitted => {
            let why = "this folder is not in the commit that is checked out";
            return Err(refused(why).next("commit something in it, or use -C with another folder"));
        }
    };
    if checkout.uncommitted > 0 {
        let files = words::count(checkout.uncommitted as u64, "uncommitted change", "uncommitted changes");
        ui.say(&format!("lastword: the worktree begins at {}, without {files}", short(&checkout.base)));
    }
    if checkout.has_submodules {
        ui.say("lastword: submodules are empty folders in the worktree");
    }
    let text = |path: &Path| match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(refused("its name is not UTF-8")),
    };
    Ok(WorktreeRequest {
        git_dir: text(&checkout.git_dir)?,
        checkout: text(&checkout.top)?,
        base: checkout.base,
        keep,
    })
}

/// Returns the beginning of the name of a commit, as git shows it.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Returns the command that brings over what the branch of a job has, if it has commits of its own.
pub(super) fn merge(job: &Job) -> Option<String> {
    tip(job)?;
    Some(format!("git merge {}", job.worktree.as_ref()?.branch))
}

/// Returns where the branch of a job stands, if it has commits of its own.
pub(super) fn tip(job: &Job) -> Option<String> {
    let worktree = job.worktree.as_ref()?;
    let tip = git().branch(Path::new(&worktree.git_dir), &worktree.branch).ok()??;
    (tip != worktree.base).then_some(tip)
}

/// Returns the worktree of a job, which must have one.
pub(super) fn of(job: &Job) -> Result<&Worktree, Failure> {
    job.worktree.as_deref().ok_or_else(|| {
        let called = words::called(job.name.as_deref(), &job.short);
        Failure::new(
            Code::Invalid,
            format!("{called} was not run with --worktree, and what it changed is not known"),
        )
    })
}

/// Returns what a job changed so far; `None` if nothing is left of its worktree, or nothing was made of it yet.
pub(super) fn view(job: &Job) -> Result<Option<View>, Failure> {
    let worktree = of(job)?;
    let Some(path) = &worktree.path else { return Ok(None) };
    let git_dir = Path::new(&worktree.git_dir);
    let view = View::open(&git(), git_dir, Path::new(path), &worktree.base, &worktree.branch);
    view.map_err(|error| match error {
        lastword_git::Error::Gone(_) => failed(&error).next(format!("its files are in {path}")),
        _ => failed(&error),
    })
}

/// Says how to go on with what a job changed, once it has ended.
pub(super) async fn say_changes(client: &Client, job: &str) {
    let Ok(job) = client.job(job).await else { return };
    // Whatever cannot be found out now is found out by whoever asks for it.
    let Ok(Some(view)) = view(&job) else { return };
    let files = view.files().map_or(0, |files| files.len() as u64);
    if job.is_ended() && files > 0 {
        let (count, reference) = (words::count(files, "file", "files"), words::reference(&job));
        client.ui().say(&format!(
            "lastword: it changed {count}: `lastword diff {reference}` shows it, `lastword apply {reference}` brings it over"
        ));
    }
}
