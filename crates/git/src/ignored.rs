//! Files of a worktree that git ignores: builds and downloads, and perhaps results. They are in no diff, and are deleted with the worktree.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::run::Repository;
use crate::view::split_nul;
use crate::{Error, Git};

/// A file or folder that git ignores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// Its path within the worktree. That of a folder ends with a slash.
    pub path: PathBuf,
    /// It is a folder that the main checkout has too, where such a folder is a build or a cache.
    pub is_usual: bool,
}

impl Git {
    /// Lists what git ignores in a worktree. A folder with nothing else in it is listed as one.
    pub fn ignored(&self, git_dir: &Path, folder: &Path) -> Result<Vec<Ignored>, Error> {
        list(&Repository::open(self, git_dir)?, folder)
    }
}

/// Lists what git ignores in the worktree at `folder`.
pub(crate) fn list(repository: &Repository, folder: &Path) -> Result<Vec<Ignored>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let admin = repository.admin_dir(folder.file_name().unwrap_or_default());
    let mut call = repository.call_in_worktree(&admin);
    call.env("GIT_WORK_TREE", folder).in_folder(folder);
    call.args(["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"]);
    let paths = split_nul(&call.arg("--no-empty-directory").stdout()?);
    let checkout = repository.dir.parent().filter(|_| repository.dir.ends_with(".git"));
    let is_usual = |path: &Path| {
        path.as_os_str().as_bytes().ends_with(b"/")
            && checkout.is_some_and(|checkout| checkout.join(path).is_dir())
    };
    Ok(paths.into_iter().map(|path| Ignored { is_usual: is_usual(&path), path }).collect())
}
