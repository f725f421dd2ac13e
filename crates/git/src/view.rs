//! The changes in a worktree at one moment, committed or not, tracked or not. Ignored files are left out unless the job added them
//! explicitly.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::changes::{self, FileChange};
use crate::run::{Repository, stderr_line};
use crate::scratch::Scratch;
use crate::{Error, Git};

/// A snapshot of a worktree, relative to the commit it started from.
#[derive(Debug)]
pub struct View {
    pub(crate) repository: Repository,
    pub(crate) scratch: Scratch,
    pub(crate) base: String,
    /// The snapshot as a git tree.
    pub(crate) tree: String,
    skipped: Option<String>,
}

/// Arguments of every `git diff`: run no external program, ignore the user's diff settings.
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
    /// Takes a snapshot of a worktree, or of its branch if the folder is gone; `None` if both are gone.
    pub fn open(
        git: &Git,
        git_dir: &Path,
        folder: &Path,
        base: &str,
        branch: &str,
    ) -> Result<Option<View>, Error> {
        let repository = Repository::open(git, git_dir)?;
        let scratch = Scratch::new(folder.parent().unwrap_or(folder))?;
        let (tree, skipped) = if folder.is_dir() {
            snapshot(&repository, &scratch, folder, base)?
        } else {
            match repository.commit(&format!("refs/heads/{branch}"))? {
                Some(tip) => (tip, None),
                None => return Ok(None),
            }
        };
        Ok(Some(View { repository, scratch, base: base.to_owned(), tree, skipped }))
    }

    /// Returns git's error message if some files could not be read and are missing from the snapshot.
    pub fn skipped(&self) -> Option<&str> {
        self.skipped.as_deref()
    }

    /// Reports whether the repository configures filters. They do not run, so unchanged files may look changed.
    pub fn has_filters(&self) -> bool {
        self.repository.has_filters()
    }

    /// Returns the changed files.
    pub fn files(&self) -> Result<Vec<FileChange>, Error> {
        self.compare(&["--raw", "--numstat", "-z", "--find-renames"], &self.base, &self.tree)
    }

    /// Returns the changes as a patch for `git apply`.
    pub fn patch(&self) -> Result<std::fs::File, Error> {
        self.write_diff(&["--unified=3", "--binary", "--find-renames"])
    }

    /// Returns the changes of one of the changed files as a patch.
    pub fn patch_of(&self, file: &FileChange) -> Result<std::fs::File, Error> {
        // A name may look like a pattern. A renamed file is one only if both of its names are compared.
        let paths = file.from.iter().chain([&file.path]).map(|path| {
            let mut literal = OsString::from(":(top,literal)");
            literal.push(path);
            literal
        });
        self.write_diff_of(&["--unified=3", "--binary", "--find-renames"], paths)
    }

    /// Returns the changes as a diffstat with lines of at most `width` columns.
    pub fn stat(&self, width: usize) -> Result<std::fs::File, Error> {
        self.write_diff(&[&format!("--stat={width}"), "--find-renames"])
    }

    /// Writes a diff between base and snapshot to a file.
    pub(crate) fn write_diff(&self, how: &[&str]) -> Result<std::fs::File, Error> {
        self.write_diff_of(how, [])
    }

    /// Writes a diff of these paths to a file; of all, if there are none.
    fn write_diff_of(
        &self,
        how: &[&str],
        paths: impl IntoIterator<Item = OsString>,
    ) -> Result<std::fs::File, Error> {
        let path = self.scratch.file("diff");
        let mut call = self.scratch.call(&self.repository, "index");
        call.arg("diff").args(PLAIN).args(how).arg(format!("--output={}", path.display()));
        call.args([&self.base, &self.tree]).arg("--").args(paths).stdout()?;
        std::fs::File::open(&path).map_err(Error::disk(format!("cannot read {}", path.display())))
    }

    /// Lists the differences between two trees.
    pub(crate) fn compare(&self, how: &[&str], from: &str, to: &str) -> Result<Vec<FileChange>, Error> {
        let mut call = self.scratch.call(&self.repository, "index");
        call.arg("diff").args(PLAIN).args(how).args([from, to]).arg("--");
        changes::parse(&call.stdout()?).ok_or_else(|| Error::Unreadable { verb: "diff".to_owned() })
    }
}

/// Writes everything in a folder to a tree. The worktree's own index only supplies names, because a job could hide changes in it.
fn snapshot(
    repository: &Repository,
    scratch: &Scratch,
    folder: &Path,
    base: &str,
) -> Result<(String, Option<String>), Error> {
    scratch.call(repository, "index").args(["read-tree", base]).stdout()?;
    let mut add = scratch.call(repository, "index");
    add.in_folder(folder).env("GIT_WORK_TREE", folder);
    let added = add.args(["add", "--all", "--ignore-errors", "--", "."]).output()?;
    // Unreadable files stay as they were in `base`; the caller learns of it.
    let mut skipped = (!added.status.success()).then(|| stderr_line(&added));
    let added_files = added_files(repository, folder, base)?;
    if !added_files.is_empty() {
        let mut add = scratch.call(repository, "index");
        add.in_folder(folder).env("GIT_WORK_TREE", folder).input(nul_terminated(&added_files));
        let added = add.args(["update-index", "--add", "-z", "--stdin"]).output()?;
        skipped = skipped.or((!added.status.success()).then(|| stderr_line(&added)));
    }
    let tree = scratch.call(repository, "index").arg("write-tree").line()?;
    Ok((tree, skipped))
}

/// Returns files that the job added to the index or committed, including ignored ones.
fn added_files(repository: &Repository, folder: &Path, base: &str) -> Result<Vec<PathBuf>, Error> {
    let admin = repository.admin_dir(folder.file_name().unwrap_or_default());
    let added = |args: &[&str]| -> Result<Vec<PathBuf>, Error> {
        let mut call = repository.call_in_worktree(&admin);
        let output = call.args(args).output()?;
        // A worktree with a broken administrative folder contributes nothing.
        Ok(if output.status.success() { split_nul(&output.stdout) } else { Vec::new() })
    };
    let plain = ["-r", "-z", "--name-only", "--diff-filter=A", "--no-renames"];
    let staged = added(&[&["diff-index"], &plain[..], &["--cached", base]].concat())?;
    let committed = added(&[&["diff-tree"], &plain[..], &[base, "HEAD"]].concat())?;
    let all: BTreeSet<PathBuf> = committed.into_iter().chain(staged).collect();
    let is_folder = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_there = |path: &PathBuf| {
        let found = std::fs::symlink_metadata(folder.join(path));
        found.is_ok_and(|found| !found.is_dir())
            && parents(path).all(|parents| is_folder(&folder.join(parents)))
    };
    Ok(all.into_iter().filter(is_there).collect())
}

/// Splits a NUL-terminated list of paths.
pub(crate) fn split_nul(output: &[u8]) -> Vec<PathBuf> {
    let paths = output.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsString::from_vec(path.to_vec()))).collect()
}

/// Returns the parent folders of a path within a repository, innermost first.
pub(crate) fn parents(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty())
}

/// Returns paths as a NUL-terminated list.
pub(crate) fn nul_terminated(files: &[PathBuf]) -> Vec<u8> {
    files.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect()
}
