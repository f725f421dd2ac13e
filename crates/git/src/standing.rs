//! What would be lost if a worktree were removed.

use std::path::Path;

use crate::record::{self, Record, Stage};
use crate::run::Repository;
use crate::{Error, Git, View};

/// What would be lost if a worktree and its branch were removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no worktree.
    Absent,
    /// Nothing was changed in it.
    Unchanged,
    /// Its changes were applied, or are on another branch.
    Saved,
    /// It holds work that exists nowhere else.
    Unsaved(Work),
}

/// Work that exists nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Files that differ from the base commit.
    pub files: usize,
    /// Commits that no other branch has.
    pub commits: u64,
    /// The worktree's branch.
    pub branch: String,
    /// The commit that the branch points to.
    pub tip: Option<String>,
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let files = count(self.files as u64, "changed file");
        match self.commits {
            0 => write!(f, "{files}"),
            commits => write!(f, "{files}, {} on {}", count(commits, "commit"), self.branch),
        }
    }
}

/// Determines what would be lost with the worktree of this record.
pub(crate) fn of(git: &Git, place: &Path, id: &str, record: &Record) -> Result<Standing, Error> {
    let repository = Repository::open(git, &record.git_dir)?;
    let folder = place.join(id);
    let tip = repository.commit(&format!("refs/heads/{}", record.branch))?;
    let is_there = record.stage == Stage::Made && folder.is_dir();
    // The job may have checked out another branch, or a detached commit.
    let head = match is_there {
        true => head(&repository, id)?,
        false => None,
    };
    let commits = commits(&repository, record, tip.iter().chain(&head))?;
    let work = |files| Work { files, commits, branch: record.branch.clone(), tip: tip.clone() };
    if !is_there {
        return Ok(if commits > 0 { Standing::Unsaved(work(0)) } else { Standing::Unchanged });
    }
    let Some(view) = View::open(git, &record.git_dir, &folder, &record.base, &record.branch)? else {
        return Ok(Standing::Absent);
    };
    let files = view.files()?.len();
    let is_head = match &head {
        Some(head) => {
            view.compare(&["--raw", "--numstat", "-z", "--no-renames"], head, &view.tree)?.is_empty()
        }
        None => false,
    };
    // An applied tree also covers the commits below it, provided it differs from their base.
    let is_applied = || -> Result<bool, Error> {
        let is_it = files > 0 && record::applied(place, id).as_ref() == Some(&view.tree);
        Ok(is_it && is_below(&repository, tip.as_deref(), head.as_deref())?)
    };
    Ok(match view.skipped() {
        Some(_) => Standing::Unsaved(work(files.max(1))),
        None if files == 0 && commits == 0 => Standing::Unchanged,
        None if is_applied()? => Standing::Saved,
        None if commits == 0 && is_head => Standing::Saved,
        None => Standing::Unsaved(work(files)),
    })
}

/// Returns the commit that is checked out in the worktree.
fn head(repository: &Repository, id: &str) -> Result<Option<String>, Error> {
    let mut call = repository.call_in_worktree(&repository.admin_dir(id));
    let output = call.args(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).output()?;
    let line = || String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(output.status.success().then(line))
}

/// Reports whether everything on the branch is an ancestor of the checked-out commit.
fn is_below(repository: &Repository, tip: Option<&str>, head: Option<&str>) -> Result<bool, Error> {
    let (Some(tip), Some(head)) = (tip, head) else { return Ok(tip.is_none()) };
    let output = repository.call().args(["merge-base", "--is-ancestor", tip, head]).output()?;
    Ok(output.status.success())
}

/// Counts a job's commits that no other branch or tag has, nor the main checkout. Branches of other jobs do not count: they may be
/// removed in the same way.
fn commits<'a>(
    repository: &Repository,
    record: &Record,
    tips: impl Iterator<Item = &'a String>,
) -> Result<u64, Error> {
    let tips: Vec<&String> = tips.filter(|tip| **tip != record.base).collect();
    if tips.is_empty() {
        return Ok(0);
    }
    let mut call = repository.call();
    call.args(["rev-list", "--count"]).args(tips).args(["--not", &record.base]);
    call.args(["--exclude=lastword/*", "--branches", "--tags", "--remotes"]);
    if repository.commit("HEAD")?.is_some() {
        call.arg("HEAD");
    }
    let output = call.line()?;
    output.parse().map_err(|_| Error::Unreadable { verb: "rev-list".to_owned() })
}
