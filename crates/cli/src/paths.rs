//! Where things are: the state folder, the socket, the file of settings. Private folders are made here and looked at here.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use lastword_api::Code;

use crate::environment;
use crate::failure::Failure;

/// The name of the socket in its folder.
const SOCKET: &str = "lastword.sock";

/// Where this user's things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Journal, jobs, log and lock.
    pub(crate) state: PathBuf,
    /// What belongs to the user's work: worktrees of jobs.
    pub(crate) data: PathBuf,
    /// Where the daemon listens.
    pub(crate) socket: PathBuf,
    /// The file of settings.
    pub(crate) config: PathBuf,
}

/// The variables that say where.
#[derive(Debug, Default)]
struct Places {
    lastword_home: Option<PathBuf>,
    home: Option<PathBuf>,
    state: Option<PathBuf>,
    data: Option<PathBuf>,
    config: Option<PathBuf>,
    runtime: Option<PathBuf>,
    temporary: Option<PathBuf>,
}

impl Paths {
    /// Finds them from the environment.
    pub(crate) fn find() -> Result<Paths, Failure> {
        let path = |name: &str| environment::get_os(name).map(PathBuf::from);
        // By the convention of XDG a relative path counts as none; one of ours is taken from here.
        let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
        let lastword_home = match path("LASTWORD_HOME") {
            // Where a link leads to is what is looked at and used from here on; what is not there yet is made.
            Some(home) => {
                Some(std::fs::canonicalize(&home).or_else(|_| std::path::absolute(&home)).map_err(
                    |error| Failure::new(Code::Invalid, format!("LASTWORD_HOME={}: {error}", home.display())),
                )?)
            }
            None => None,
        };
        let places = Places {
            lastword_home,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
            state: absolute("XDG_STATE_HOME"),
            data: absolute("XDG_DATA_HOME"),
            config: absolute("XDG_CONFIG_HOME"),
            runtime: absolute("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir()),
            temporary: absolute("TMPDIR"),
        };
        Paths::of(places).ok_or_else(|| {
            Failure::new(
                Code::Invalid,
                "there is no home folder: set HOME, or LASTWORD_HOME to a private folder",
            )
        })
    }

    fn of(places: Places) -> Option<Paths> {
        if let Some(home) = places.lastword_home {
            let (socket, config) = (home.join(SOCKET), home.join("config.toml"));
            return Some(Paths { socket, config, data: home.clone(), state: home });
        }
        let below = |given: Option<PathBuf>, usual: &str| {
            Some(given.or_else(|| Some(places.home.as_ref()?.join(usual)))?.join("lastword"))
        };
        let sockets = match places.runtime {
            Some(runtime) => runtime.join("lastword"),
            None => {
                let user = rustix::process::geteuid().as_raw();
                places.temporary.unwrap_or_else(|| "/tmp".into()).join(format!("lastword-{user}"))
            }
        };
        Some(Paths {
            state: below(places.state, ".local/state")?,
            data: below(places.data, ".local/share")?,
            socket: sockets.join(SOCKET),
            config: below(places.config, ".config")?.join("config.toml"),
        })
    }

    /// Returns the file with the user's own agents.
    pub(crate) fn agents(&self) -> PathBuf {
        self.config.with_file_name("agents.toml")
    }

    /// Returns a file of the state folder.
    pub(crate) fn in_state(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// Returns the folder of the socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        self.socket.parent().unwrap_or(Path::new("/"))
    }
}

/// Makes a folder for this user alone, or makes sure that it is one.
pub(crate) fn make_private(folder: &Path) -> Result<(), Failure> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let text = format!("{}: cannot make this folder: {error}", folder.display());
        Failure::new(Code::Unavailable, text).next("set LASTWORD_HOME to a folder that can be written to")
    })?;
    check_private(folder)
}

/// Makes sure that a folder is this user's alone.
pub(crate) fn check_private(folder: &Path) -> Result<(), Failure> {
    let refused = |why: String| Failure::new(Code::Forbidden, format!("{}: {why}", folder.display()));
    let found = std::fs::metadata(folder).map_err(|error| refused(error.to_string()))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        let failure = refused("this folder belongs to somebody else, and is not used".to_owned());
        return Err(failure.next("set LASTWORD_HOME to a folder of your own"));
    }
    if found.mode() & 0o077 != 0 {
        let failure = refused("others may look into this folder".to_owned());
        return Err(failure.next(format!("chmod 700 {}", folder.display())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_moves_everything() {
        let places = Places {
            lastword_home: Some("/lw".into()),
            home: Some("/home/ann".into()),
            runtime: Some("/run/user/7".into()),
            ..Places::default()
        };
        let paths = Paths::of(places).expect("paths");
        assert_eq!(paths.state, Path::new("/lw"));
        assert_eq!(paths.data, Path::new("/lw"));
        assert_eq!(paths.socket, Path::new("/lw/lastword.sock"));
        assert_eq!(paths.config, Path::new("/lw/config.toml"));
        assert_eq!(paths.agents(), Path::new("/lw/agents.toml"));
    }

    #[test]
    fn without_it_each_thing_is_where_its_kind_belongs() {
        let places = || Places { home: Some("/home/ann".into()), ..Places::default() };
        let paths = Paths::of(Places { runtime: Some("/run/user/7".into()), ..places() }).expect("paths");
        assert_eq!(paths.state, Path::new("/home/ann/.local/state/lastword"));
        assert_eq!(paths.data, Path::new("/home/ann/.local/share/lastword"));
        assert_eq!(paths.config, Path::new("/home/ann/.config/lastword/config.toml"));
        assert_eq!(paths.socket, Path::new("/run/user/7/lastword/lastword.sock"));
        let paths = Paths::of(Places { temporary: Some("/var/tmp".into()), ..places() }).expect("paths");
        let user = rustix::process::geteuid().as_raw();
        assert_eq!(paths.socket, PathBuf::from(format!("/var/tmp/lastword-{user}/lastword.sock")));
        assert_eq!(Paths::of(Places::default()), None, "no home, no guess");
    }

    #[test]
    fn a_folder_that_others_can_look_into_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("a/b");
        make_private(&mine).expect("it is made");
        assert_eq!(std::fs::metadata(&mine).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&mine, std::fs::Permissions::from_mode(0o750)).unwrap();
        let refused = make_private(&mine).expect_err("others may look");
        assert!(refused.words().contains("chmod 700"), "{}", refused.words());
    }
}
