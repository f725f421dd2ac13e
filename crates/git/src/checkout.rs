//! The checkout that a folder is in, and the commit at which a worktree of it would begin.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use crate::run::{Repository, complaint};
use crate::{Error, Git};

/// A checkout, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The repository's own folder, which its worktrees share.
    pub git_dir: PathBuf,
    /// The top folder of the checkout.
    pub top: PathBuf,
    /// The commit that is checked out.
    pub base: String,
    /// Files that differ from it, or are not in it; a worktree does not have them.
    pub uncommitted: usize,
    /// Whether it has submodules, which are empty folders in a worktree.
    pub has_submodules: bool,
}

/// What was found where a checkout was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// One that can have worktrees.
    Checkout(Checkout),
    /// No repository, as git says.
    NoRepository(String),
    /// A repository without files: a bare one, or the folder `.git` itself.
    NoFiles,
    /// A repository in which nothing was ever committed.
    NoCommit,
    /// The folder is not part of the commit that is checked out.
    NotCommitted,
}

impl Checkout {
    /// Looks at the checkout that a folder is in.
    pub fn probe(git: &Git, folder: &Path) -> Result<Probe, Error> {
        let ask = |words: &[&str]| git.call(folder).words(["rev-parse"]).words(words).ask();
        let found = ask(&["--is-inside-work-tree"])?;
        if !found.status.success() {
            return Ok(Probe::NoRepository(complaint(&found)));
        }
        if found.stdout != b"true\n" {
            return Ok(Probe::NoFiles);
        }
        let git_dir = path(&ask(&["--path-format=absolute", "--git-common-dir"])?.stdout);
        let top = path(&ask(&["--path-format=absolute", "--show-toplevel"])?.stdout);
        let head = ask(&["--quiet", "--verify", "HEAD^{commit}"])?;
        if !head.status.success() {
            return Ok(Probe::NoCommit);
        }
        let base = String::from_utf8_lossy(&head.stdout).trim().to_owned();
        let below = folder.strip_prefix(&top).unwrap_or(Path::new(""));
        let mut named = OsString::from(format!("{base}:"));
        named.push(below);
        let mut kind = git.call(folder);
        kind.words(["cat-file", "-t"]).word(named);
        if kind.ask()?.stdout != b"tree\n" {
            return Ok(Probe::NotCommitted);
        }
        let repository = Repository::open(git, &git_dir)?;
        let uncommitted = uncommitted(&repository, git, &top)?;
        let has_submodules = top.join(".gitmodules").exists();
        Ok(Probe::Checkout(Checkout { git_dir, top, base, uncommitted, has_submodules }))
    }
}

/// Counts what is not committed, without refreshing anything.
fn uncommitted(repository: &Repository, git: &Git, top: &Path) -> Result<usize, Error> {
    // The checkout's own folder of git, which is another than the repository's if it is a worktree itself.
    let own = path(&git.call(top).words(["rev-parse", "--absolute-git-dir"]).get()?);
    let mut call = repository.call();
    call.env("GIT_DIR", own).env("GIT_WORK_TREE", top);
    call.words(["status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=all"]);
    Ok(call.get()?.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()).count())
}

/// Returns the path that git printed on a line.
fn path(said: &[u8]) -> PathBuf {
    let line = said.strip_suffix(b"\n").unwrap_or(said);
    PathBuf::from(OsString::from_vec(line.to_vec()))
}
