//! Where files are: the state folder, the socket, the settings file. Creates and checks private folders.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use lastword_api::Code;

use crate::environment;
use crate::failure::Failure;

/// The name of the socket.
const SOCKET: &str = "lastword.sock";

/// The paths of this user's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Journal, jobs, log and lock.
    pub(crate) state: PathBuf,
    /// The user's work: worktrees of jobs.
    pub(crate) data: PathBuf,
    /// Where the daemon listens.
    pub(crate) socket: PathBuf,
    /// The settings file.
    pub(crate) config: PathBuf,
}

/// The variables that determine paths.
#[derive(Debug, Default)]
struct Variables {
    lastword_home: Option<PathBuf>,
    home: Option<PathBuf>,
    state: Option<PathBuf>,
    data: Option<PathBuf>,
    config: Option<PathBuf>,
    runtime: Option<PathBuf>,
    temporary: Option<PathBuf>,
}

impl Paths {
    /// Determines the paths from the environment.
    pub(crate) fn find() -> Result<Paths, Failure> {
        let path = |name: &str| environment::get_os(name).map(PathBuf::from);
        // By the XDG convention a relative path is ignored; ours may be relative.
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let lastword_home = match path("LASTWORD_HOME") {
            // Resolved once, so that what is checked is what is used. A missing folder is created later.
            Some(home) => {
                Some(std::fs::canonicalize(&home).or_else(|_| std::path::absolute(&home)).map_err(
                    |error| Failure::new(Code::Invalid, format!("LASTWORD_HOME={}: {error}", home.display())),
                )?)
            }
            None => None,
        };
        let variables = Variables {
            lastword_home,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            state: absolute("XDG_STATE_HOME"),
            data: absolute("XDG_DATA_HOME"),
            config: absolute("XDG_CONFIG_HOME"),
            runtime: absolute("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir()),
            temporary: absolute("TMPDIR"),
        };
        Paths::of(variables).ok_or_else(|| {
            Failure::new(
                Code::Invalid,
                "no home folder found: set HOME, or set LASTWORD_HOME to a private folder",
            )
        })
    }

    fn of(variables: Variables) -> Option<Paths> {
        if let Some(home) = variables.lastword_home {
            let (socket, config) = (home.join(SOCKET), home.join("config.toml"));
            return Some(Paths { socket, config, data: home.clone(), state: home });
        }
        let below = |given: Option<PathBuf>, usual: &str| {
            Some(given.or_else(|| Some(variables.home.as_ref()?.join(usual)))?.join("lastword"))
        };
        let sockets = match variables.runtime {
            Some(runtime) => runtime.join("lastword"),
            None => {
                let user = rustix::process::geteuid().as_raw();
                variables.temporary.unwrap_or_else(|| "/tmp".into()).join(format!("lastword-{user}"))
            }
        };
        Some(Paths {
            state: below(variables.state, ".local/state")?,
            data: below(variables.data, ".local/share")?,
            socket: sockets.join(SOCKET),
            config: below(variables.config, ".config")?.join("config.toml"),
        })
    }

    /// Returns the file with the user's own prices of models.
    pub(crate) fn prices(&self) -> PathBuf {
        self.config.with_file_name("prices.toml")
    }

    /// Returns the file with the user's own agent definitions.
    pub(crate) fn agents(&self) -> PathBuf {
        self.config.with_file_name("agents.toml")
    }

    /// Returns a file in the state folder.
    pub(crate) fn in_state(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// Returns the folder of the socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }
}

/// Creates a private folder, or checks that an existing one is private.
pub(crate) fn make_private(folder: &Path) -> Result<(), Failure> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let text = format!("cannot create the folder {}: {error}", folder.display());
        Failure::new(Code::Unavailable, text).next("set LASTWORD_HOME to a writable folder")
    })?;
    check_private(folder)
}

/// Checks that a folder belongs to this user and is inaccessible to others.
pub(crate) fn check_private(folder: &Path) -> Result<(), Failure> {
    let refused = |why: String| Failure::new(Code::Forbidden, format!("{}: {why}", folder.display()));
    let found = std::fs::metadata(folder).map_err(|error| refused(error.to_string()))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        let failure = refused("this folder belongs to another user".to_owned());
        return Err(failure.next("set LASTWORD_HOME to a folder of your own"));
    }
    if found.mode() & 0o077 != 0 {
        let failure = refused("other users can access this folder".to_owned());
        return Err(failure.next(format!("chmod 700 {}", folder.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lastword_home_moves_everything() {
        let variables = Variables {
            lastword_home: Some("/lw".into()),
            home: Some("/home/ann".into()),
            runtime: Some("/run/user/7".into()),
            ..Variables::default()
        };
        let paths = Paths::of(variables).expect("paths");
        assert_eq!(paths.state, Path::new("/lw"));
        assert_eq!(paths.data, Path::new("/lw"));
        assert_eq!(paths.socket, Path::new("/lw/lastword.sock"));
        assert_eq!(paths.config, Path::new("/lw/config.toml"));
        assert_eq!(paths.agents(), Path::new("/lw/agents.toml"));
    }

    #[test]
    fn without_it_the_xdg_folders_are_used() {
        let variables = || Variables { home: Some("/home/ann".into()), ..Variables::default() };
        let paths =
            Paths::of(Variables { runtime: Some("/run/user/7".into()), ..variables() }).expect("paths");
        assert_eq!(paths.state, Path::new("/home/ann/.local/state/lastword"));
        assert_eq!(paths.data, Path::new("/home/ann/.local/share/lastword"));
        assert_eq!(paths.config, Path::new("/home/ann/.config/lastword/config.toml"));
        assert_eq!(paths.socket, Path::new("/run/user/7/lastword/lastword.sock"));
        let paths =
            Paths::of(Variables { temporary: Some("/var/tmp".into()), ..variables() }).expect("paths");
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(paths.socket, PathBuf::from(format!("/var/tmp/lastword-{user}/lastword.sock")));
        assert_eq!(Paths::of(Variables::default()), None, "no home");
    }

    #[test]
    fn a_folder_accessible_to_others_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("a/b");
        make_private(&mine).expect("created");
        assert_eq!(std::fs::metadata(&mine).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&mine, std::fs::Permissions::from_mode(0o750)).unwrap();
        let refused = make_private(&mine).expect_err("accessible to others");
        assert!(refused.text().contains("chmod 700"), "{}", refused.text());
    }
}
