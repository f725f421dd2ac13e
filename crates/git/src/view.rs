//! What was changed in a worktree, as it was when looked at: committed or not, known to git or not. What git is told to ignore is
//! not looked at, unless the job has added it all the same.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::changes::{self, FileChange};
use crate::run::{Repository, complaint};
use crate::scratch::Scratch;
use crate::{Error, Git};

/// A worktree at one moment, against the commit at which it began.
#[derive(Debug)]
pub struct View {
    pub(crate) repository: Repository,
    pub(crate) scratch: Scratch,
    pub(crate) base: String,
    /// Everything in it, as a tree of git.
    pub(crate) tree: String,
    left_out: Option<String>,
}

/// What every comparison is asked with: no program of the repository's, no style of the user's.
const PLAIN: [&str; 7] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
];

impl View {
    /// Looks at a worktree. If its folder is gone, at its branch; `None` if there is neither.
    pub fn open(
        git: &Git,
        git_dir: &Path,
        folder: &Path,
        base: &str,
        branch: &str,
    ) -> Result<Option<View>, Error> {
        let repository = Repository::open(git, git_dir)?;
        let scratch = Scratch::new(folder.parent().unwrap_or(folder))?;
        let (tree, left_out) = if folder.is_dir() {
            snapshot(&repository, &scratch, folder, base)?
        } else {
            match repository.commit(&format!("refs/heads/{branch}"))? {
                Some(tip) => (tip, None),
                None => return Ok(None),
            }
        };
        Ok(Some(View { repository, scratch, base: base.to_owned(), tree, left_out }))
    }

    /// Returns what could not be looked at, in the words of git.
    pub fn left_out(&self) -> Option<&str> {
        self.left_out.as_deref()
    }

    /// Reports whether the repository sets up filters of its own. They are not run, so files may look changed that are not.
    pub fn has_filters(&self) -> bool {
        self.repository.has_filters()
    }

    /// Returns the files that changed.
    pub fn files(&self) -> Result<Vec<FileChange>, Error> {
        self.compare(&["--raw", "--numstat", "-z", "--find-renames"], &self.base, &self.tree)
    }

    /// Returns the changes as a patch that git can apply.
    pub fn patch(&self) -> Result<std::fs::File, Error> {
        self.written(&["--unified=3", "--binary", "--find-renames"])
    }

    /// Returns the changes as a small drawing, of lines no longer than `width`.
    pub fn stat(&self, width: usize) -> Result<std::fs::File, Error> {
        self.written(&[&format!("--stat={width}"), "--find-renames"])
    }

    /// Has git write a comparison to a file.
    pub(crate) fn written(&self, how: &[&str]) -> Result<std::fs::File, Error> {
        let path = self.scratch.file("diff");
        let mut call = self.scratch.call(&self.repository, "index");
        call.word("diff").words(PLAIN).words(how).word(format!("--output={}", path.display()));
        call.words([&self.base, &self.tree]).word("--").get()?;
        std::fs::File::open(&path).map_err(Error::disk(format!("cannot read {}", path.display())))
    }

    /// Lists the differences between two trees.
    pub(crate) fn compare(&self, how: &[&str], from: &str, to: &str) -> Result<Vec<FileChange>, Error> {
        let mut call = self.scratch.call(&self.repository, "index");
        call.word("diff").words(PLAIN).words(how).words([from, to]).word("--");
        changes::parse(&call.get()?).ok_or_else(|| Error::Unreadable { verb: "diff".to_owned() })
    }
}

/// Makes a tree of everything in a folder. The index of the worktree itself is only asked for names: a job can hide changes in it.
fn snapshot(
    repository: &Repository,
    scratch: &Scratch,
    folder: &Path,
    base: &str,
) -> Result<(String, Option<String>), Error> {
    scratch.call(repository, "index").words(["read-tree", base]).get()?;
    let mut add = scratch.call(repository, "index");
    add.in_folder(folder).env("GIT_WORK_TREE", folder);
    let added = add.words(["add", "--all", "--ignore-errors", "--", "."]).ask()?;
    // What cannot be read is left as it was, and said.
    let mut left_out = (!added.status.success()).then(|| complaint(&added));
    let known = known(repository, folder, base)?;
    if !known.is_empty() {
        let mut add = scratch.call(repository, "index");
        add.in_folder(folder).env("GIT_WORK_TREE", folder).input(lines(&known));
        let added = add.words(["update-index", "--add", "-z", "--stdin"]).ask()?;
        left_out = left_out.or((!added.status.success()).then(|| complaint(&added)));
    }
    let tree = scratch.call(repository, "index").word("write-tree").line()?;
    Ok((tree, left_out))
}

/// Returns files that came to be and are known to git in the worktree, staged or committed, also if they are to be ignored.
fn known(repository: &Repository, folder: &Path, base: &str) -> Result<Vec<PathBuf>, Error> {
    let own = repository.own_dir(folder.file_name().unwrap_or_default());
    let added = |words: &[&str]| -> Result<Vec<PathBuf>, Error> {
        let mut call = repository.call_in(&own);
        let said = call.words(words).ask()?;
        // A worktree whose own part is broken names nothing.
        Ok(if said.status.success() { split(&said.stdout) } else { Vec::new() })
    };
    let plain = ["-r", "-z", "--name-only", "--diff-filter=A", "--no-renames"];
    let staged = added(&[&["diff-index"], &plain[..], &["--cached", base]].concat())?;
    let committed = added(&[&["diff-tree"], &plain[..], &[base, "HEAD"]].concat())?;
    let all: BTreeSet<PathBuf> = committed.into_iter().chain(staged).collect();
    let is_folder = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_there = |path: &PathBuf| {
        let found = std::fs::symlink_metadata(folder.join(path));
        found.is_ok_and(|found| !found.is_dir()) && above(path).all(|above| is_folder(&folder.join(above)))
    };
    Ok(all.into_iter().filter(is_there).collect())
}

/// Returns the paths of a list of git, each closed by a zero.
fn split(said: &[u8]) -> Vec<PathBuf> {
    let paths = said.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsString::from_vec(path.to_vec()))).collect()
}

/// Returns the folders that a path of a repository is in, the innermost first.
pub(crate) fn above(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty())
}

/// Returns paths as git reads them, each closed by a zero.
pub(crate) fn lines(files: &[PathBuf]) -> Vec<u8> {
    files.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect()
}
