//! What can be wrong with this installation, looked at piece by piece: each look says how it is, and what mends it.
//!
//! Nothing here starts a daemon, and no look needs one. A look that cannot be done says so; it does not end the others.

mod agents;
mod daemon;
mod journal;
mod machine;
mod places;
mod service;

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::paths::Paths;
use crate::text::clean::clean;

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// As it should be.
    Ok,
    /// Works, and could be better.
    Warn,
    /// Does not work.
    Fail,
}

/// What one look found. The names of the fields and the ids are a promise to programs.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) id: Cow<'static, str>,
    pub(crate) status: Status,
    /// What was found, in words.
    pub(crate) text: String,
    /// What mends it: a command, or words where there is none.
    pub(crate) remedy: Option<String>,
    /// What was done about it just now.
    pub(crate) fixed: Option<String>,
    /// What can be done about it without asking anybody.
    #[serde(skip)]
    pub(crate) fix: Option<Fix>,
}

impl Check {
    fn new(id: impl Into<Cow<'static, str>>, status: Status, text: impl Into<String>) -> Check {
        let (id, text) = (id.into(), clean(&text.into()).into_owned());
        Check { id, status, text, remedy: None, fixed: None, fix: None }
    }

    fn ok(id: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Check {
        Check::new(id, Status::Ok, text)
    }

    fn warn(id: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Check {
        Check::new(id, Status::Warn, text)
    }

    fn fail(id: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Check {
        Check::new(id, Status::Fail, text)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Check {
        self.remedy = Some(clean(&remedy.into()).into_owned());
        self
    }

    /// Has it mended by taking rights away from others.
    fn private(self, path: &Path, mode: u32) -> Check {
        let fix = Fix { path: path.to_owned(), mode };
        Check { fix: Some(fix), ..self.remedy(format!("chmod {mode:o} {}", shown(path))) }
    }
}

/// What is mended without asking: others lose the right to look at what is ours alone. Nothing that works stops by it.
#[derive(Debug)]
pub(crate) struct Fix {
    path: PathBuf,
    mode: u32,
}

impl Fix {
    /// Mends it, and says what was done.
    pub(crate) fn apply(&self) -> Result<String, String> {
        let path = shown(&self.path);
        let failed = |error: std::io::Error| format!("chmod {:o} {path}: {error}", self.mode);
        // A link is not followed: what it leads to is not what was looked at. A socket cannot be opened, and is changed by its name.
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::open(&self.path, flags, rustix::fs::Mode::empty());
        let opened = File::from(opened.map_err(|error| failed(error.into()))?);
        let found = opened.metadata().map_err(failed)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.is_symlink() {
            return Err(format!("{path} is not changed: it belongs to somebody else, or is a link"));
        }
        let held = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
        std::fs::set_permissions(held, std::fs::Permissions::from_mode(self.mode)).map_err(failed)?;
        Ok(format!("chmod {:o} {path}", self.mode))
    }
}

/// Looks at everything; with `greet`, agents are started and spoken to.
pub(crate) async fn examine(greet: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    match Paths::find() {
        Ok(paths) => {
            checks.push(places::settings(&paths));
            checks.push(places::state(&paths));
            checks.push(places::disk(&paths));
            checks.extend(daemon::examine(&paths).await);
            checks.extend(journal::examine(&paths));
            checks.extend(machine::containment());
            checks.push(service::units(&paths));
            checks.extend(agents::examine(&paths, greet));
        }
        Err(failure) => {
            checks.push(Check::fail("state", failure.words()).remedy("export HOME=… or LASTWORD_HOME=…"));
            checks.extend(machine::containment());
        }
    }
    checks.push(service::linger());
    checks.push(machine::git());
    checks.push(machine::kernel());
    checks.push(machine::orphans());
    checks.extend(machine::limits());
    checks
}

/// Writes a path as a word for a shell.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+@%:,=".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(shown(Path::new("/home/ann/.local/state")), "/home/ann/.local/state");
        assert_eq!(shown(Path::new("/my home/it's")), r"'/my home/it'\''s'");
    }

    #[test]
    fn only_what_is_ours_and_no_link_is_changed() {
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
