//! What commands about worktrees share: the checkout a job is started from, and its worktree.

use std::path::Path;

use lastword_api::{Code, Job, Worktree, WorktreeRequest};
use lastword_git::{Checkout, Git, Probe, View};

use crate::client::Client;
use crate::environment;
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::{Ui, describe};

/// Ignored files named in a message; the rest are counted.
const NAMED_MAX: usize = 6;

/// Returns git with this user's environment.
pub(super) fn git() -> Git {
    Git::new(environment::all())
}

/// Wraps an error of git.
pub(super) fn failed(error: &lastword_git::Error) -> Failure {
    Failure::new(Code::Unavailable, error.to_string())
}

/// Requests a worktree of the checkout that a folder is in, and warns about what it will not contain.
pub(super) fn request(folder: &str, keep: bool, ui: &Ui) -> Result<WorktreeRequest, Failure> {
    let refused = |why: &str| Failure::usage(format!("cannot create a worktree for {folder}: {why}"));
    let checkout = match Checkout::probe(&git(), Path::new(folder)).map_err(|error| failed(&error))? {
        Probe::Checkout(checkout) => checkout,
        Probe::NoRepository(why) => {
            return Err(refused(&why).next("run from a git repository, or without --worktree"));
        }
        Probe::NoFiles => {
            return Err(refused("there is no checkout here").next("run from a checkout of the repository"));
        }
        Probe::NoCommit => {
            return Err(refused("the repository has no commits")
                .next("git commit    # a worktree starts from a commit"));
        }
        Probe::NotCommitted => {
            let why = "this folder is not part of the checked-out commit";
            return Err(refused(why).next("commit something in it, or choose another folder with -C"));
        }
    };
    if checkout.uncommitted > 0 {
        let files = describe::count(checkout.uncommitted as u64, "uncommitted change", "uncommitted changes");
        ui.say(&format!("lastword: the worktree starts from {}, without {files}", short(&checkout.base)));
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

/// Abbreviates a commit id.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// Returns the job that a worktree was made for. Its path, branch and records have this id.
pub(super) fn owner<'a>(job: &'a Job, worktree: &'a Worktree) -> &'a str {
    if worktree.job.is_empty() { &job.id } else { &worktree.job }
}

/// Returns the command that merges a job's branch, if the branch has commits.
pub(super) fn merge(job: &Job) -> Option<String> {
    tip(job)?;
    Some(format!("git merge {}", job.worktree.as_ref()?.branch))
}

/// Returns the last commit of a job's branch, if the branch has commits.
pub(super) fn tip(job: &Job) -> Option<String> {
    let worktree = job.worktree.as_ref()?;
    let tip = git().branch(Path::new(&worktree.git_dir), &worktree.branch).ok()??;
    (tip != worktree.base).then_some(tip)
}

/// Returns the commands that keep commits which a job left behind in its worktree, on no branch.
pub(super) fn strays(job: &Job) -> Vec<String> {
    let Some(worktree) = &job.worktree else { return Vec::new() };
    let Worktree { git_dir, base, branch, .. } = &**worktree;
    let strays = git().strays(Path::new(git_dir), owner(job, worktree), base, branch).unwrap_or_default();
    strays.iter().map(|id| format!("git branch NAME {}", short(id))).collect()
}

/// Reports whether a job changed files. If that cannot be seen, it may have.
pub(super) fn has_changes(job: &Job) -> bool {
    let view = view(job).ok().flatten();
    view.and_then(|view| view.files().ok()).is_none_or(|files| !files.is_empty())
}

/// Returns the ignored files of a job's worktree in words, each folder as one; `None` if there are none. Folders that the checkout has as
/// well, such as builds, are left out unless `usual`.
pub(super) fn ignored(job: &Job, usual: bool) -> Option<String> {
    let worktree = job.worktree.as_ref()?;
    let found = git().ignored(Path::new(&worktree.git_dir), Path::new(worktree.path.as_ref()?)).ok()?;
    let found = found.iter().filter(|found| usual || !found.is_usual);
    let mut names: Vec<String> =
        found.map(|found| clean(&found.path.display().to_string()).into_owned()).collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// Returns the worktree of a job, which must have one.
pub(super) fn of(job: &Job) -> Result<&Worktree, Failure> {
    job.worktree.as_deref().ok_or_else(|| {
        let job_name = describe::job_name(job.name.as_deref(), &job.short);
        Failure::new(
            Code::Invalid,
            format!("{job_name} was not run with --worktree, so its changes are unknown"),
        )
    })
}

/// Returns what a job changed so far; `None` if its worktree does not exist yet or any more.
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

/// Prints how many files an ended job changed, and how to apply the changes.
pub(super) async fn print_changes(client: &Client, job: &str) {
    let Ok(job) = client.job(job).await else { return };
    // Best effort: `diff` and `apply` report errors.
    let Ok(Some(view)) = view(&job) else { return };
    let files = view.files().map_or(0, |files| files.len() as u64);
    if let Some(ignored) = ignored(&job, false)
        && let Some(path) = job.worktree.as_ref().and_then(|worktree| worktree.path.as_deref())
    {
        client.ui().say(&format!(
            "lastword: it left files that git ignores: {ignored}; they are in {path} until the job is deleted"
        ));
    }
    if job.is_ended() && files > 0 {
        let (count, reference) = (describe::count(files, "file", "files"), describe::reference(&job));
        client.ui().say(&format!(
            "lastword: it changed {count}; see `lastword diff {reference}`, and apply with `lastword apply {reference}`"
        ));
    }
}
