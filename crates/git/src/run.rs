//! How git is run: bounded in time, in an environment of ours, and without executing what a repository says should be.
//!
//! A job may write to its repository's configuration. Whatever git would execute because of that would run outside the job's tree,
//! after its last word: hooks, file-system monitors, content filters, external diffs, transports. All of them are switched off.
//! Filters that the user set up for all repositories (as `git lfs install` does) are not the repository's, and work.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lastword_proc::{Said, Tool, input_of};

use crate::Error;

/// How long git may take over whole trees. A checkout of the largest repositories from a slow disk takes minutes; more is a hang.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Bytes of what git complains about that are passed on: a screen, not a page.
const COMPLAINT_MAX: usize = 600;

/// What git needs of the user's environment: to be found, and to find the user's own settings.
const NEEDED: [&str; 6] = ["PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR"];

/// What is set for every call, whatever else is.
const VARIABLES: [(&str, &str); 7] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    // No transport at all, not even for objects that a partial clone left out.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
];

/// Settings that win over those of the repository: first those that would execute something, then those that change what is read
/// or written.
const SETTINGS: [(&str, &str); 19] = [
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", ""),
    ("core.sshCommand", "false"),
    ("core.gitProxy", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    // A worktree is whole, also of a checkout that is not: what is missing in it was removed by the job.
    ("core.sparseCheckout", "false"),
    ("core.splitIndex", "false"),
    ("worktree.useRelativePaths", "false"),
    ("core.safecrlf", "false"),
    ("core.quotePath", "true"),
    ("core.looseCompression", "0"),
    ("advice.addEmbeddedRepo", "false"),
    // Other worktrees of the same repository are made and removed at the same time.
    ("core.packedRefsTimeout", "10000"),
    ("core.filesRefLockTimeout", "10000"),
];

/// The git of this machine, with the environment it is run in.
#[derive(Clone, Debug)]
pub struct Git {
    env: Arc<[(OsString, OsString)]>,
}

impl Git {
    /// Takes from an environment what git needs, and nothing else of it.
    pub fn new(env: impl IntoIterator<Item = (OsString, OsString)>) -> Git {
        let needed = |(name, _): &(OsString, OsString)| NEEDED.iter().any(|needed| name == needed);
        Git { env: env.into_iter().filter(needed).collect() }
    }

    /// Returns where a branch of a repository stands; `None` if there is no such branch.
    pub fn branch(&self, git_dir: &Path, branch: &str) -> Result<Option<String>, Error> {
        Repository::open(self, git_dir)?.commit(&format!("refs/heads/{branch}"))
    }

    /// Returns a call in a folder, of a repository that git is to look for.
    pub(crate) fn call<'a>(&'a self, folder: &'a Path) -> Call<'a> {
        let variables = VARIABLES.map(|(name, value)| (name.into(), value.into()));
        let settings = SETTINGS.map(|(name, value)| (name.into(), value.to_owned()));
        Call {
            folder,
            env: [self.env.to_vec(), variables.to_vec()].concat(),
            settings: settings.to_vec(),
            words: Vec::new(),
            input: None,
            held: None,
        }
    }
}

/// A repository, by its own folder, and what of its settings must not count.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    git: Git,
    /// The folder that all worktrees of it share.
    pub(crate) dir: PathBuf,
    filters: Vec<OsString>,
}

impl Repository {
    /// Opens a repository by its folder.
    pub(crate) fn open(git: &Git, dir: &Path) -> Result<Repository, Error> {
        if !dir.is_dir() {
            return Err(Error::Gone(dir.to_owned()));
        }
        let mut repository = Repository { git: git.clone(), dir: dir.to_owned(), filters: Vec::new() };
        let mut call = repository.call();
        call.words(["config", "--null", "--show-scope", "--get-regexp", r"^filter\."]);
        // It says no if there is none.
        let listed = match call.ask()? {
            said if said.status.code() == Some(1) => Vec::new(),
            said => checked("config", said)?,
        };
        repository.filters = filters_of_repository(&listed);
        Ok(repository)
    }

    /// Returns a call about this repository, wherever git would look.
    pub(crate) fn call(&self) -> Call<'_> {
        let mut call = self.git.call(&self.dir);
        call.env("GIT_DIR", &self.dir);
        for filter in &self.filters {
            for (setting, value) in [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")] {
                let name = [b"filter.", filter.as_bytes(), b".", setting.as_bytes()].concat();
                call.settings.push((OsString::from_vec(name), value.to_owned()));
            }
        }
        call
    }

    /// Returns the folder that it keeps for a worktree.
    pub(crate) fn own_dir(&self, id: impl AsRef<Path>) -> PathBuf {
        listing(&self.dir).join(id)
    }

    /// Returns a call about one of its worktrees, by the folder that it keeps for that.
    pub(crate) fn call_in(&self, own: &Path) -> Call<'_> {
        let mut call = self.call();
        call.env("GIT_DIR", own).env("GIT_COMMON_DIR", &self.dir);
        call
    }

    /// Reports whether it sets up filters of its own.
    pub(crate) fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Returns the commit that something names; `None` if nothing is named so.
    pub(crate) fn commit(&self, name: &str) -> Result<Option<String>, Error> {
        let mut call = self.call();
        call.words(["rev-parse", "--quiet", "--verify", "--end-of-options"])
            .word(format!("{name}^{{commit}}"));
        let said = call.ask()?;
        Ok(said.status.success().then(|| line(&said.stdout)))
    }
}

/// Returns the folder in which a repository keeps what it knows of its worktrees.
pub(crate) fn listing(git_dir: &Path) -> PathBuf {
    git_dir.join("worktrees")
}

/// Returns the names of filters that are set up in the repository itself: `scope`, zero, `key`, line break, `value`, zero.
fn filters_of_repository(listed: &[u8]) -> Vec<OsString> {
    let mut parts = listed.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let (Some(scope), Some(pair)) = (parts.next(), parts.next()) {
        let key = pair.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let name = key.get(b"filter.".len()..).unwrap_or_default();
        let Some(dot) = name.iter().rposition(|byte| *byte == b'.') else { continue };
        let name = OsString::from_vec(name[..dot].to_vec());
        if !matches!(scope, b"global" | b"system") && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

/// One run of git.
pub(crate) struct Call<'a> {
    folder: &'a Path,
    env: Vec<(OsString, OsString)>,
    settings: Vec<(OsString, String)>,
    words: Vec<OsString>,
    input: Option<Vec<u8>>,
    held: Option<&'a File>,
}

impl<'a> Call<'a> {
    /// Adds words.
    pub(crate) fn words<T: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = T>) -> &mut Call<'a> {
        self.words.extend(words.into_iter().map(|word| word.as_ref().to_owned()));
        self
    }

    /// Adds a word.
    pub(crate) fn word(&mut self, word: impl AsRef<OsStr>) -> &mut Call<'a> {
        self.words([word])
    }

    /// Runs it in another folder.
    pub(crate) fn in_folder(&mut self, folder: &'a Path) -> &mut Call<'a> {
        self.folder = folder;
        self
    }

    /// Sets a variable.
    pub(crate) fn env(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Call<'a> {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Gives it something to read.
    pub(crate) fn input(&mut self, bytes: Vec<u8>) -> &mut Call<'a> {
        self.input = Some(bytes);
        self
    }

    /// Has it hold a lock until it ends, whatever becomes of us.
    pub(crate) fn holding(&mut self, lock: &'a File) -> &mut Call<'a> {
        self.held = Some(lock);
        self
    }

    /// Runs it and returns what it printed, if it succeeded.
    pub(crate) fn get(&mut self) -> Result<Vec<u8>, Error> {
        let verb = self.verb();
        checked(&verb, self.ask()?)
    }

    /// Runs it and returns the one line it printed.
    pub(crate) fn line(&mut self) -> Result<String, Error> {
        self.get().map(|said| line(&said))
    }

    /// Runs it and returns what it came to.
    pub(crate) fn ask(&mut self) -> Result<Said, Error> {
        let verb = self.verb();
        let failed = |source: io::Error| Error::Disk { what: format!("`git {verb}` cannot be run"), source };
        let mut env = std::mem::take(&mut self.env);
        env.push(("GIT_CONFIG_COUNT".into(), self.settings.len().to_string().into()));
        for (number, (name, value)) in std::mem::take(&mut self.settings).into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}").into(), name));
            env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        let input = match (self.input.take(), self.held) {
            (Some(bytes), _) => Some(input_of(&bytes).map_err(failed)?),
            (None, Some(lock)) => Some(lock.try_clone().map_err(failed)?.into()),
            (None, None) => None,
        };
        let tool = Tool {
            program: OsStr::new("git"),
            arguments: std::mem::take(&mut self.words),
            folder: self.folder,
            env,
            input,
            time_max: TIME_MAX,
        };
        tool.run().map_err(|error| match error.kind() {
            // The folder may be what is not there.
            io::ErrorKind::NotFound if self.folder.is_dir() => Error::NoGit,
            io::ErrorKind::TimedOut => Error::TooSlow { verb: verb.clone(), after: TIME_MAX },
            _ => failed(error),
        })
    }

    fn verb(&self) -> String {
        let mut words = self.words.iter().map(|word| word.to_string_lossy().into_owned());
        let first = words.next().unwrap_or_default();
        match (first.as_str(), words.next()) {
            ("worktree", Some(second)) => format!("{first} {second}"),
            _ => first,
        }
    }
}

fn checked(verb: &str, said: Said) -> Result<Vec<u8>, Error> {
    match said.status.success() {
        true => Ok(said.stdout),
        false => Err(Error::Failed { verb: verb.to_owned(), said: complaint(&said) }),
    }
}

/// Returns what git complained about, in one line.
pub(crate) fn complaint(said: &Said) -> String {
    let text = String::from_utf8_lossy(&said.stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .map(|line| line.strip_prefix("fatal: ").or(line.strip_prefix("error: ")).unwrap_or(line))
        .collect();
    let mut text = lines.join("; ");
    if let Some((cut, _)) = text.char_indices().find(|(at, _)| *at >= COMPLAINT_MAX) {
        text.truncate(cut);
    }
    match text.is_empty() {
        true => format!("it said nothing ({})", said.status),
        false => text,
    }
}

fn line(said: &[u8]) -> String {
    String::from_utf8_lossy(said).trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filters_of_the_repository_itself_are_found() {
        let listed = b"global\0filter.lfs.clean\ngit-lfs clean -- %f\0local\0filter.evil.smudge\nrm -rf\0\
            worktree\0filter.a.b.clean\nx\ny\0local\0filter.evil.clean\n\0command\0filter.c.process\nz\0";
        assert_eq!(filters_of_repository(listed), ["evil", "a.b", "c"]);
        assert!(filters_of_repository(b"").is_empty());
    }

    #[test]
    fn only_what_git_needs_is_taken_from_an_environment() {
        let pair = |name: &str| (OsString::from(name), OsString::from("x"));
        let git = Git::new([pair("PATH"), pair("GIT_DIR"), pair("LD_PRELOAD"), pair("HOME")]);
        assert_eq!(&*git.env, &[pair("PATH"), pair("HOME")]);
    }
}
