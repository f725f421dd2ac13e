//! What would be lost with a worktree.

use std::path::Path;

use crate::record::{self, Record, Stage};
use crate::run::Repository;
use crate::{Error, Git, View};

/// What would be lost if a worktree were removed with its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    Absent,
    /// Nothing was changed in it.
    Unchanged,
    /// What was changed was applied, or is in a branch of somebody else.
    Saved,
    /// Work that is nowhere else.
    Unsaved(Work),
}

/// Work that is nowhere else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Files that differ from where it began.
    pub files: usize,
    /// Commits that no other branch has.
    pub commits: u64,
    /// The branch.
    pub branch: String,
    /// Where the branch stands.
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

/// Looks at what would be lost with a worktree that has this record.
pub(crate) fn of(git: &Git, place: &Path, id: &str, record: &Record) -> Result<Standing, Error> {
    let repository = Repository::open(git, &record.git_dir)?;
    let folder = place.join(id);
    let tip = repository.commit(&format!("refs/heads/{}", record.branch))?;
    let is_there = record.stage == Stage::Made && folder.is_dir();
    // The job may have left its branch for another one, or for none.
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
    // What was applied is a state of files. It stands for the commits it is built on, if it differs from where they began.
    let is_applied = || -> Result<bool, Error> {
        let is_it = files > 0 && record::applied(place, id).as_ref() == Some(&view.tree);
        Ok(is_it && is_below(&repository, tip.as_deref(), head.as_deref())?)
    };
    Ok(match view.left_out() {
        Some(_) => Standing::Unsaved(work(files.max(1))),
        None if files == 0 && commits == 0 => Standing::Unchanged,
        None if is_applied()? => Standing::Saved,
        None if commits == 0 && is_head => Standing::Saved,
        None => Standing::Unsaved(work(files)),
    })
}

/// Returns what is checked out in the worktree.
fn head(repository: &Repository, id: &str) -> Result<Option<String>, Error> {
    let mut call = repository.call_in(&repository.own_dir(id));
    let said = call.words(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).ask()?;
    let line = || String::from_utf8_lossy(&said.stdout).trim().to_owned();
    Ok(said.status.success().then(line))
}

/// Reports whether a branch has nothing that what is checked out is not built on.
fn is_below(repository: &Repository, tip: Option<&str>, head: Option<&str>) -> Result<bool, Error> {
    let (Some(tip), Some(head)) = (tip, head) else { return Ok(tip.is_none()) };
    let said = repository.call().words(["merge-base", "--is-ancestor", tip, head]).ask()?;
    Ok(said.status.success())
}

/// Counts the commits of a job that no branch or tag of anybody else has, nor what is checked out. Branches of other jobs do not count
/// as somebody else's: they may go in the same way.
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
    call.words(["rev-list", "--count"]).words(tips).words(["--not", &record.base]);
    call.words(["--exclude=lastword/*", "--branches", "--tags", "--remotes"]);
    if repository.commit("HEAD")?.is_some() {
        call.word("HEAD");
    }
    let said = call.line()?;
    said.parse().map_err(|_| Error::Unreadable { verb: "rev-list".to_owned() })
}
