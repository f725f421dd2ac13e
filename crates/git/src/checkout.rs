//! The checkout that a folder is in, and the commit a worktree of it would start from.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::run::{Repository, stderr_line};
use crate::{Error, Git};

/// A checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The common git directory, shared by all worktrees of the repository.
    pub git_dir: PathBuf,
    /// The top folder.
    pub top: PathBuf,
    /// The checked-out commit.
    pub base: String,
    /// Files with uncommitted changes, and untracked files. A worktree does not get them.
    pub uncommitted: usize,
    /// Whether it has submodules, which are empty folders in a worktree.
    pub has_submodules: bool,
}

/// The result of looking for a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// A checkout that can have worktrees.
    Checkout(Checkout),
    /// Not in a repository; with git's error message.
    NoRepository(String),
    /// A bare repository, or the folder `.git` itself.
    NoFiles,
    /// A repository without any commit.
    NoCommit,
    /// The folder is not part of the checked-out commit.
    NotCommitted,
}

impl Checkout {
    /// Finds the checkout that a folder is in.
    pub fn probe(git: &Git, folder: &Path) -> Result<Probe, Error> {
        let rev_parse = |args: &[&str]| git.call(folder).args(["rev-parse"]).args(args).output();
        let found = rev_parse(&["--is-inside-work-tree"])?;
        if !found.status.success() {
            return Ok(Probe::NoRepository(stderr_line(&found)));
        }
        if found.stdout != b"true\n" {
            return Ok(Probe::NoFiles);
        }
        let git_dir = path(&rev_parse(&["--path-format=absolute", "--git-common-dir"])?.stdout);
        let top = path(&rev_parse(&["--path-format=absolute", "--show-toplevel"])?.stdout);
        let head = rev_parse(&["--quiet", "--verify", "HEAD^{commit}"])?;
        if !head.status.success() {
            return Ok(Probe::NoCommit);
        }
        let base = String::from_utf8_lossy(&head.stdout).trim().to_owned();
        let below = folder.strip_prefix(&top).unwrap_or(Path::new(""));
        let mut named = OsString::from(format!("{base}:"));
        named.push(below);
        let mut kind = git.call(folder);
        kind.args(["cat-file", "-t"]).arg(named);
        if kind.output()?.stdout != b"tree\n" {
            return Ok(Probe::NotCommitted);
        }
        let repository = Repository::open(git, &git_dir)?;
        let uncommitted = uncommitted(&repository, git, &top)?;
        let has_submodules = top.join(".gitmodules").exists();
        Ok(Probe::Checkout(Checkout { git_dir, top, base, uncommitted, has_submodules }))
    }
}

/// Counts uncommitted changes without refreshing the index.
fn uncommitted(repository: &Repository, git: &Git, top: &Path) -> Result<usize, Error> {
    // Differs from the common directory if the checkout is itself a worktree.
    let git_dir = path(&git.call(top).args(["rev-parse", "--absolute-git-dir"]).stdout()?);
    let mut call = repository.call();
    call.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", top);
    call.args(["status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"]);
    Ok(call.stdout()?.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).count())
}

/// Returns the path that git printed on a line.
fn path(output: &[u8]) -> PathBuf {
    let line = output.strip_suffix(b"\n").unwrap_or(output);
    PathBuf::from(OsString::from_vec(line.to_vec()))
}
