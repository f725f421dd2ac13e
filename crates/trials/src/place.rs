//! Where a trial runs: the programs it starts, a directory that is removed afterwards, and one that stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Returns a directory in the user's cache, which stays.
pub(crate) fn cache(name: &str) -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    let folder = cache.ok_or("there is no home folder to keep programs in: set HOME")?.join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// The programs of a trial. One `cargo build` puts them into one directory.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The executable that ships, which is also the keeper.
    pub(crate) lastword: PathBuf,
    /// The adversary.
    pub(crate) adversary: PathBuf,
    /// This program, to run parts of a trial as separate processes.
    pub(crate) trials: PathBuf,
}

impl Programs {
    /// Returns those next to the running one.
    pub(crate) fn beside() -> Result<Programs, String> {
        let own = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
        let folder = own.parent().ok_or("this program lies in no folder")?;
        Programs::of(folder)
    }

    /// Copies them to where any user may run them: a home directory is often closed to others.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<Programs, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for program in [&self.lastword, &self.adversary, &self.trials] {
            let name = program.file_name().ok_or("a program has a name")?;
            fs::copy(program, folder.join(name))
                .map_err(|error| format!("{}: {error}", program.display()))?;
        }
        Programs::of(folder)
    }

    fn of(folder: &Path) -> Result<Programs, String> {
        let there = |name: &str| {
            let path = folder.join(name);
            match path.is_file() {
                true => Ok(path),
                false => Err(format!("{} is missing: start the trials with `cargo xtask`", path.display())),
            }
        };
        Ok(Programs {
            lastword: there("lastword")?,
            adversary: there("lastword-adversary")?,
            trials: there("lastword-trials")?,
        })
    }
}

/// Creates a directory that any user may enter. It is removed with its contents when the value is dropped.
pub(crate) fn temporary(verb: &str) -> Result<TempDir, String> {
    let folder = tempfile::Builder::new().prefix(&format!("lastword-{verb}-")).tempdir();
    let folder = folder.map_err(|error| format!("no temporary folder: {error}"))?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open)
        .map_err(|error| format!("{}: {error}", folder.path().display()))?;
    Ok(folder)
}
