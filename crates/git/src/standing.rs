//! What would be lost if a worktree were removed.

use std::path::{Path, PathBuf};

use crate::record::{self, Record, Stage};
use crate::run::{Invocation, Repository};
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
    /// Nothing was changed, but files that git ignores were left, which may be results. Only [`release`](crate::Worktrees::release) keeps it
    /// for them.
    Ignored(Vec<PathBuf>),
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
    /// Commits that were left behind on no branch.
    pub strays: Vec<String>,
}

/// Commits named in a message; the rest are counted.
const NAMED_MAX: usize = 3;

/// Commits that are looked for: those that were left behind last.
const STRAYS_MAX: usize = 64;

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let mut parts = Vec::new();
        if self.files > 0 || self.strays.is_empty() {
            parts.push(count(self.files as u64, "changed file"));
        }
        if self.commits > 0 {
            parts.push(format!("{} on {}", count(self.commits, "commit"), self.branch));
        }
        if !self.strays.is_empty() {
            let named = self.strays.iter().take(NAMED_MAX).map(|id| id.get(..10).unwrap_or(id));
            let named: Vec<&str> = named.chain((self.strays.len() > NAMED_MAX).then_some("…")).collect();
            let strays = count(self.strays.len() as u64, "commit");
            parts.push(format!("{strays} on no branch ({})", named.join(", ")));
        }
        f.write_str(&parts.join(", "))
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
    let strays = match is_there {
        true => strays(&repository, id, &record.base, tip.iter().chain(&head))?,
        false => Vec::new(),
    };
    let is_stray = !strays.is_empty();
    let work = |files| {
        let (branch, tip) = (record.branch.clone(), tip.clone());
        Work { files, commits, branch, tip, strays: strays.clone() }
    };
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
        None if is_stray => Standing::Unsaved(work(files)),
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
    call.args(["rev-list", "--count"]).args(tips);
    let output = but_others(&mut call, repository, &record.base)?.line()?;
    output.parse().map_err(|_| Error::Unreadable { verb: "rev-list".to_owned() })
}

/// Excludes from a `rev-list` what others have: the base, other branches and tags, and the main checkout.
fn but_others<'c, 'a>(
    call: &'c mut Invocation<'a>,
    repository: &Repository,
    base: &str,
) -> Result<&'c mut Invocation<'a>, Error> {
    call.args(["--not", base, "--exclude=lastword/*", "--branches", "--tags", "--remotes"]);
    if repository.commit("HEAD")?.is_some() {
        call.arg("HEAD");
    }
    Ok(call)
}

/// Returns commits that are on no branch because the job left them by a checkout: those of which git warns at that moment. Commits that
/// were amended, rebased or reset away were given up on purpose.
fn strays<'a>(
    repository: &Repository,
    id: &str,
    base: &str,
    tips: impl Iterator<Item = &'a String>,
) -> Result<Vec<String>, Error> {
    let mut call = repository.call_in_worktree(&repository.admin_dir(id));
    // A repository may want signatures to be shown, by a program of its choice.
    call.args(["log", "--walk-reflogs", "--no-show-signature", "--no-patch", "--no-color", "--format=%gs"]);
    let moves = call.args(["HEAD", "--"]).output()?;
    // Without a HEAD or its log nothing is known.
    let moves = if moves.status.success() { moves.stdout } else { Vec::new() };
    let mut left: Vec<&str> = Vec::new();
    for line in moves.split(|byte| *byte == b'\n') {
        let words =
            std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("checkout: moving from "));
        // A branch is named, a detached commit spelled out.
        let from = words.and_then(|words| words.split(' ').next());
        let is_id =
            |word: &&str| matches!(word.len(), 40 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match from.filter(is_id).filter(|from| !left.contains(from)) {
            Some(from) if left.len() < STRAYS_MAX => left.push(from),
            _ => {}
        }
    }
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let mut call = repository.call();
    call.args(["rev-list", "--ignore-missing"]).args(&left);
    let only = but_others(&mut call, repository, base)?.args(tips).stdout()?;
    let only = String::from_utf8_lossy(&only);
    Ok(left.into_iter().filter(|id| only.lines().any(|line| line == *id)).map(str::to_owned).collect())
}

impl Git {
    /// Returns commits that a job left behind in its worktree, on no branch.
    pub fn strays(&self, git_dir: &Path, id: &str, base: &str, branch: &str) -> Result<Vec<String>, Error> {
        let repository = Repository::open(self, git_dir)?;
        let tip = repository.commit(&format!("refs/heads/{branch}"))?;
        let head = head(&repository, id)?;
        strays(&repository, id, base, tip.iter().chain(&head))
    }
}
