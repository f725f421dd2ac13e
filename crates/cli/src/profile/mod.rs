//! Profiles: defaults of `run` in a file. At most one counts: the one that the user names, or that of the repository if it is trusted.

mod parse;
pub(crate) mod repository;
pub(crate) mod trusted;

use std::path::{Path, PathBuf};

pub(crate) use parse::{BadProfile, Profile, Worktree};
use repository::RepositoryProfile;
use rustix::fs::OFlags;
use trusted::Trusted;

use crate::failure::Failure;
use crate::paths::Paths;
use crate::text::clean::clean;
use crate::text::shell::quoted;
use crate::text::similar;
use crate::ui::Ui;

/// The name that stands for no profile.
const NONE: &str = "none";

/// Returns the profile for a job in this folder: the named one, or that of the repository if a person trusts its content. Without one, and
/// for a folder on another host, an empty profile.
pub(crate) fn choose(
    name: Option<&str>,
    folder: Option<&Path>,
    paths: &Paths,
    ui: &Ui,
) -> Result<Profile, Failure> {
    match name {
        Some(NONE) => Ok(Profile::default()),
        Some(name) => {
            let profile = named(name, paths)?;
            ui.say(&format!("lastword: using the profile `{}`", clean(name)));
            Ok(profile)
        }
        None => match folder {
            Some(folder) => of_repository(repository::root_of(folder), paths, ui),
            None => Ok(Profile::default()),
        },
    }
}

/// Returns the profile of a repository, if it is trusted. If it is not, says why it is ignored.
fn of_repository(root: &Path, paths: &Paths, ui: &Ui) -> Result<Profile, Failure> {
    let file = repository::file_of(root);
    let shown = |path: &Path| clean(&path.display().to_string()).into_owned();
    let ignored = |why: &str| ui.say(&format!("lastword: ignored {}: {}", shown(&file), clean(why)));
    let found = match RepositoryProfile::read(root) {
        Ok(None) => return Ok(Profile::default()),
        Ok(Some(found)) => found,
        Err(why) => {
            ignored(&why);
            return Ok(Profile::default());
        }
    };
    let why = match Trusted::of(paths).hash_of(root) {
        Ok(Some(hash)) if hash == found.sha256() => {
            let profile = Profile::parse(&found.path, &found.bytes)?;
            ui.say(&format!("lastword: using the profile {}", shown(&file)));
            return Ok(profile);
        }
        Ok(Some(_)) => "it has changed since you trusted it".to_owned(),
        Ok(None) => "you have not trusted it".to_owned(),
        Err(failure) => failure.to_string(),
    };
    ignored(&format!("{why}; `lastword trust {}` shows it and asks", quoted(root)));
    Ok(Profile::default())
}

/// Reads a profile of the user's own.
fn named(name: &str, paths: &Paths) -> Result<Profile, Failure> {
    let folder = paths.profiles();
    let file = folder.join(format!("{name}.toml"));
    // A name is no path: it must not lead out of the folder.
    let bytes = match name.contains('/') {
        true => Ok(None),
        false => repository::read_bounded(&file, OFlags::empty()),
    };
    let bytes = bytes.map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?;
    let bytes = bytes.ok_or_else(|| unknown(name, &folder))?;
    Ok(Profile::parse(&file, &bytes)?)
}

fn unknown(name: &str, folder: &Path) -> Failure {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned)).collect();
    names.sort();
    let near = similar::nearest(name, names.iter().map(String::as_str))
        .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
    let known = match names.is_empty() {
        true => "there are none".to_owned(),
        false => format!("your profiles are {}", names.join(", ")),
    };
    let failure = Failure::usage(format!("there is no profile `{name}`{near}; {known}"));
    failure.next(format!("profiles are files NAME.toml in {}", folder.display()))
}

impl Paths {
    /// Returns the folder with the user's own profiles.
    fn profiles(&self) -> PathBuf {
        self.config.with_file_name("profiles")
    }
}

impl From<BadProfile> for Failure {
    fn from(bad: BadProfile) -> Failure {
        Failure::usage(bad.to_string())
    }
}
