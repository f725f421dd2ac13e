//! The result of one check, and the fixes that are safe to apply.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::text::clean::clean;
use crate::text::shell::quoted;

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Fine.
    Ok,
    /// Works, but could be better.
    Warn,
    /// Broken.
    Fail,
}

/// The result of one check. Field names and ids are stable: programs rely on them.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    /// What was checked.
    pub(crate) id: Cow<'static, str>,
    pub(crate) status: Status,
    /// What was found.
    pub(crate) text: String,
    /// How to fix it: a command, or a sentence.
    pub(crate) remedy: Option<String>,
    /// What `--fix` has just done.
    pub(crate) fixed: Option<String>,
    /// A fix that is safe to apply without asking.
    #[serde(skip)]
    pub(crate) fix: Option<Fix>,
}

impl Check {
    pub(super) fn new(id: impl Into<Cow<'static, str>>, status: Status, text: impl Into<String>) -> Check {
        let (id, text) = (id.into(), clean(&text.into()).into_owned());
        Check { id, status, text, remedy: None, fixed: None, fix: None }
    }

    pub(super) fn ok(id: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Check {
        Check::new(id, Status::Ok, text)
    }

    pub(super) fn warn(id: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Check {
        Check::new(id, Status::Warn, text)
    }

    pub(super) fn fail(id: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Check {
        Check::new(id, Status::Fail, text)
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Check {
        self.remedy = Some(clean(&remedy.into()).into_owned());
        self
    }

    /// Adds a fix that makes a file private.
    pub(super) fn private(self, path: &Path, mode: u32) -> Check {
        let fix = Fix { path: path.to_owned(), mode };
        Check { fix: Some(fix), ..self.remedy(format!("chmod {mode:o} {}", quoted(path))) }
    }
}

/// A safe fix: removes other users' access to a file of ours.
#[derive(Debug)]
pub(crate) struct Fix {
    path: PathBuf,
    mode: u32,
}

impl Fix {
    /// Applies the fix and returns what was done.
    pub(crate) fn apply(&self) -> Result<String, String> {
        let path = quoted(&self.path);
        let failed = |error: std::io::Error| format!("chmod {:o} {path}: {error}", self.mode);
        // Follow no symbolic link: its target was not checked. Opened with O_PATH, because a socket cannot be opened otherwise.
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::open(&self.path, flags, rustix::fs::Mode::empty());
        let opened = File::from(opened.map_err(|error| failed(error.into()))?);
        let found = opened.metadata().map_err(failed)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.is_symlink() {
            return Err(format!("{path} is not changed: it belongs to another user or is a symbolic link"));
        }
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        std::fs::set_permissions(descriptor, std::fs::Permissions::from_mode(self.mode)).map_err(failed)?;
        Ok(format!("chmod {:o} {path}", self.mode))
    }
}

/// Reports whether a folder is Lastword's: it holds a journal or a socket of it, or nothing at all.
pub(super) fn is_lastwords(folder: &Path) -> bool {
    ["journal.db", "lastword.sock"].iter().any(|name| folder.join(name).exists())
        || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbolic_link_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert!(Fix { path: link, mode: 0o600 }.apply().is_err());
        assert_eq!(mode(), 0o644);
        Fix { path: file.clone(), mode: 0o600 }.apply().unwrap();
        assert_eq!(mode(), 0o600);
    }
}
