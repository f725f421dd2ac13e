//! Runs git with a time limit and a clean environment, and never executes anything a repository configures.
//!
//! A job may change its repository's configuration. Anything git executed because of that would run outside the job's tree, after its
//! last word: hooks, file-system monitors, content filters, external diffs, transports. All of them are disabled. Filters from the user's
//! global configuration (as `git lfs install` sets up) are not the repository's and keep working.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lastword_proc::{Tool, ToolOutput, stdin_from};

use crate::Error;

/// Time limit of one git process. Checking out the largest repositories from a slow disk takes minutes; anything longer is a hang.
const TIME_MAX: Duration = Duration::from_secs(600);

/// Bytes of git's stderr that go into an error message: about one screen.
const STDERR_MAX: usize = 600;

/// The variables git needs from the user's environment: to find git itself and the user's settings.
const INHERITED: [&str; 6] = ["PATH", "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "TMPDIR"];

/// Set for every invocation; they win over the user's environment.
const VARIABLES: [(&str, &str); 7] = [
    ("LC_ALL", "C"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    // No transport at all, not even to fetch objects that a partial clone left out.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
];

/// Settings that override those of the repository. The first group would execute something; the second would change what git reads or
/// writes.
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
    // A worktree is complete even if the checkout is sparse: a file missing from it was deleted by the job.
    ("core.sparseCheckout", "false"),
    ("core.splitIndex", "false"),
    ("worktree.useRelativePaths", "false"),
    ("core.safecrlf", "false"),
    ("core.quotePath", "true"),
    ("core.looseCompression", "0"),
    ("advice.addEmbeddedRepo", "false"),
    // Other worktrees of the same repository are created and removed concurrently.
    ("core.packedRefsTimeout", "10000"),
    ("core.filesRefLockTimeout", "10000"),
];

/// The `git` executable of this machine and the environment it runs in.
#[derive(Clone, Debug)]
pub struct Git {
    env: Arc<[(OsString, OsString)]>,
}

impl Git {
    /// Keeps only the variables git needs from an environment.
    pub fn new(env: impl IntoIterator<Item = (OsString, OsString)>) -> Git {
        let needed = |(name, _): &(OsString, OsString)| INHERITED.iter().any(|needed| name == needed);
        Git { env: env.into_iter().filter(needed).collect() }
    }

    /// Returns the commit a branch points to; `None` if there is no such branch.
    pub fn branch(&self, git_dir: &Path, branch: &str) -> Result<Option<String>, Error> {
        Repository::open(self, git_dir)?.commit(&format!("refs/heads/{branch}"))
    }

    /// Prepares an invocation in a folder. Git finds the repository by itself.
    pub(crate) fn call<'a>(&'a self, folder: &'a Path) -> Invocation<'a> {
        let variables = VARIABLES.map(|(name, value)| (name.into(), value.into()));
        let settings = SETTINGS.map(|(name, value)| (name.into(), value.to_owned()));
        Invocation {
            folder,
            env: [self.env.to_vec(), variables.to_vec()].concat(),
            settings: settings.to_vec(),
            args: Vec::new(),
            input: None,
            lock: None,
        }
    }
}

/// A repository, and the filters it configures, which must not run.
#[derive(Clone, Debug)]
pub(crate) struct Repository {
    git: Git,
    /// The common git directory, shared by all worktrees.
    pub(crate) dir: PathBuf,
    filters: Vec<OsString>,
}

impl Repository {
    /// Opens a repository by its common git directory.
    pub(crate) fn open(git: &Git, dir: &Path) -> Result<Repository, Error> {
        if !dir.is_dir() {
            return Err(Error::Gone(dir.to_owned()));
        }
        let mut repository = Repository { git: git.clone(), dir: dir.to_owned(), filters: Vec::new() };
        let mut call = repository.call();
        call.args(["config", "--null", "--show-scope", "--get-regexp", r"^filter\."]);
        // Exit status 1 means that no filter is configured.
        let listed = match call.output()? {
            output if output.status.code() == Some(1) => Vec::new(),
            output => checked("config", output)?,
        };
        repository.filters = repository_filters(&listed);
        Ok(repository)
    }

    /// Prepares an invocation on this repository.
    pub(crate) fn call(&self) -> Invocation<'_> {
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

    /// Returns git's administrative folder of a worktree.
    pub(crate) fn admin_dir(&self, id: impl AsRef<Path>) -> PathBuf {
        worktrees_dir(&self.dir).join(id)
    }

    /// Prepares an invocation on a worktree, given its administrative folder.
    pub(crate) fn call_in_worktree(&self, admin: &Path) -> Invocation<'_> {
        let mut call = self.call();
        call.env("GIT_DIR", admin).env("GIT_COMMON_DIR", &self.dir);
        call
    }

    /// Reports whether the repository configures filters.
    pub(crate) fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Resolves a name to a commit; `None` if it does not exist.
    pub(crate) fn commit(&self, name: &str) -> Result<Option<String>, Error> {
        let mut call = self.call();
        call.args(["rev-parse", "--quiet", "--verify", "--end-of-options"]).arg(format!("{name}^{{commit}}"));
        let output = call.output()?;
        Ok(output.status.success().then(|| line(&output.stdout)))
    }
}

/// Returns the folder that holds git's administrative folders of all worktrees of a repository.
pub(crate) fn worktrees_dir(git_dir: &Path) -> PathBuf {
    git_dir.join("worktrees")
}

/// Returns the filters configured in the repository itself. The input repeats: scope, NUL, key, line feed, value, NUL.
fn repository_filters(listed: &[u8]) -> Vec<OsString> {
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

/// One invocation of git.
pub(crate) struct Invocation<'a> {
    folder: &'a Path,
    env: Vec<(OsString, OsString)>,
    settings: Vec<(OsString, String)>,
    args: Vec<OsString>,
    input: Option<Vec<u8>>,
    lock: Option<&'a File>,
}

impl<'a> Invocation<'a> {
    /// Adds arguments.
    pub(crate) fn args<T: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = T>) -> &mut Invocation<'a> {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Invocation<'a> {
        self.args([arg])
    }

    /// Sets the working folder.
    pub(crate) fn in_folder(&mut self, folder: &'a Path) -> &mut Invocation<'a> {
        self.folder = folder;
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(&mut self, name: &str, value: impl AsRef<OsStr>) -> &mut Invocation<'a> {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the bytes git reads from stdin.
    pub(crate) fn input(&mut self, bytes: Vec<u8>) -> &mut Invocation<'a> {
        self.input = Some(bytes);
        self
    }

    /// Makes the git process hold this lock until it exits, even if the daemon dies first.
    pub(crate) fn holding(&mut self, lock: &'a File) -> &mut Invocation<'a> {
        self.lock = Some(lock);
        self
    }

    /// Runs git and returns its stdout; a non-zero exit status is an error.
    pub(crate) fn stdout(&mut self) -> Result<Vec<u8>, Error> {
        let verb = self.verb();
        checked(&verb, self.output()?)
    }

    /// Runs git and returns the single line it printed.
    pub(crate) fn line(&mut self) -> Result<String, Error> {
        self.stdout().map(|output| line(&output))
    }

    /// Runs git and returns its output, whatever its exit status.
    pub(crate) fn output(&mut self) -> Result<ToolOutput, Error> {
        let verb = self.verb();
        let failed =
            |source: io::Error| Error::Disk { what: format!("`git {verb}` could not be started"), source };
        let mut env = std::mem::take(&mut self.env);
        env.push(("GIT_CONFIG_COUNT".into(), self.settings.len().to_string().into()));
        for (number, (name, value)) in std::mem::take(&mut self.settings).into_iter().enumerate() {
            env.push((format!("GIT_CONFIG_KEY_{number}").into(), name));
            env.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
        }
        let input = match (self.input.take(), self.lock) {
            (Some(bytes), _) => Some(stdin_from(&bytes).map_err(failed)?),
            (None, Some(lock)) => Some(lock.try_clone().map_err(failed)?.into()),
            (None, None) => None,
        };
        let tool = Tool {
            program: OsStr::new("git"),
            arguments: std::mem::take(&mut self.args),
            folder: self.folder,
            env,
            input,
            time_max: TIME_MAX,
        };
        tool.run().map_err(|error| match error.kind() {
            // `NotFound` could also mean that the folder is missing.
            io::ErrorKind::NotFound if self.folder.is_dir() => Error::NoGit,
            io::ErrorKind::TimedOut => Error::TooSlow { verb: verb.clone(), after: TIME_MAX },
            _ => failed(error),
        })
    }

    fn verb(&self) -> String {
        let mut args = self.args.iter().map(|arg| arg.to_string_lossy().into_owned());
        let first = args.next().unwrap_or_default();
        match (first.as_str(), args.next()) {
            ("worktree", Some(second)) => format!("{first} {second}"),
            _ => first,
        }
    }
}

fn checked(verb: &str, output: ToolOutput) -> Result<Vec<u8>, Error> {
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Error::Failed { verb: verb.to_owned(), message: stderr_line(&output) }),
    }
}

/// Returns git's stderr as one line, without hints.
pub(crate) fn stderr_line(output: &ToolOutput) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .map(|line| line.strip_prefix("fatal: ").or(line.strip_prefix("error: ")).unwrap_or(line))
        .collect();
    let mut text = lines.join("; ");
    if let Some((cut, _)) = text.char_indices().find(|(at, _)| *at >= STDERR_MAX) {
        text.truncate(cut);
    }
    match text.is_empty() {
        true => format!("no error message ({})", output.status),
        false => text,
    }
}

fn line(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filters_of_the_repository_itself_are_disabled() {
        let listed = b"global\0filter.lfs.clean\ngit-lfs clean -- %f\0local\0filter.evil.smudge\nrm -rf\0\
            worktree\0filter.a.b.clean\nx\ny\0local\0filter.evil.clean\n\0command\0filter.c.process\nz\0";
        assert_eq!(repository_filters(listed), ["evil", "a.b", "c"]);
        assert!(repository_filters(b"").is_empty());
    }

    #[test]
    fn git_inherits_only_the_variables_it_needs() {
        let pair = |name: &str| (OsString::from(name), OsString::from("x"));
        let git = Git::new([pair("PATH"), pair("GIT_DIR"), pair("LD_PRELOAD"), pair("HOME")]);
        assert_eq!(&*git.env, &[pair("PATH"), pair("HOME")]);
    }
}
