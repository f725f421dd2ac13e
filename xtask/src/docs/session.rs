//! Runs one page as its reader would: in a fresh home, from the first command to the last, in one shell.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::blocks::Block;
use crate::program::{Failure, output, target};

/// How long a page may take, in seconds: the longest waits for a grace period, and the machine may be busy.
const PAGE_MAX: &str = "90";

/// Shown to readers instead of the real home and user.
const HOME: &str = "/home/ann";
const USER: &str = "ann";

/// Runs after a command that detaches: a reader types the next one more slowly than a job starts. A job that was claimed is about to start,
/// though it is still queued; one that waits for something else is not claimed.
const PACE: &str = "while for each in $(lastword ls --phase queued,launching -q); do \
    lastword events $each --json | tail -n 1; \
    done | grep -qE '\"type\":\"(claimed|launch_intended)\"'; do :; done 2>/dev/null; ";

/// Comes after what each command printed. No program here prints it.
const MARK: char = '\u{1}';

/// An empty home with the executable. Dropping it ends everything that runs in it.
pub(super) struct Home {
    folder: PathBuf,
    user: String,
}

impl Home {
    /// Creates a home. Its path is short, because the path of a socket must be.
    pub(super) fn new(name: &str) -> Result<Home, Failure> {
        let folder = std::env::temp_dir().join(format!("lw-docs-{}", std::process::id())).join(name);
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
        let executable = target().join("debug/lastword").canonicalize().map_err(failed)?;
        fs::create_dir_all(folder.join("bin")).map_err(failed)?;
        fs::create_dir(folder.join("home")).map_err(failed)?;
        fs::DirBuilder::new().mode(0o700).create(folder.join("run")).map_err(failed)?;
        symlink(executable, folder.join("bin/lastword")).map_err(failed)?;
        Ok(Home { folder, user: output("id", &["-un"])?.trim().to_owned() })
    }

    /// Returns the folder that contains all of it.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the environment of a new login, and nothing of this one.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        vec![
            ("PATH", format!("{}:{}", path("bin"), std::env::var("PATH").unwrap_or_default())),
            ("HOME", path("home")),
            ("XDG_RUNTIME_DIR", path("run")),
            ("USER", USER.into()),
            ("LANG", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("GIT_AUTHOR_NAME", USER.into()),
            ("GIT_AUTHOR_EMAIL", "ann@example.org".into()),
            ("GIT_COMMITTER_NAME", USER.into()),
            ("GIT_COMMITTER_EMAIL", "ann@example.org".into()),
        ]
    }

    /// Returns a program that is ready to run in this home.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.environment())
            // Otherwise tmux puts its sockets into a folder shared with others.
            .env("TMUX_TMPDIR", &self.folder)
            .current_dir(self.folder.join("home"))
            .stdin(Stdio::null());
        command
    }

    /// Replaces the real home, user and paths in a text.
    pub(super) fn shown(&self, text: &str) -> String {
        let text = text.replace(&self.folder.join("home").display().to_string(), HOME);
        let text = text.replace(&self.folder.join("run").display().to_string(), "/run/user/1000");
        let text = text.replace(&self.folder.join("bin").display().to_string(), "/usr/bin");
        // The user is only shown after this word.
        let named = |line: &str| match line.contains("by ") {
            true => line.replace(&self.user, USER),
            false => line.to_owned(),
        };
        text.split('\n').map(named).collect::<Vec<_>>().join("\n")
    }

    /// Runs the blocks of a page and returns what each command printed.
    pub(super) fn run(&self, blocks: &[Block]) -> Result<Vec<Vec<Vec<String>>>, Failure> {
        let script = self.folder.join("page.sh");
        let printed = self.folder.join("printed");
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", self.folder.display()));
        fs::write(&script, script_of(blocks)).map_err(failed)?;
        let file = fs::File::create(&printed).map_err(failed)?;
        let status = self
            .command("timeout")
            .args(["--kill-after=5", PAGE_MAX, "bash", "--noprofile", "--norc"])
            .arg(&script)
            .env("COLUMNS", "100")
            .stdout(file.try_clone().map_err(failed)?)
            .stderr(file)
            .status()
            .map_err(failed)?;
        let text = self.shown(&String::from_utf8_lossy(&fs::read(&printed).map_err(failed)?));
        let mut parts = text.split(MARK).map(|part| part.lines().map(str::to_owned).collect::<Vec<_>>());
        let count: usize = blocks.iter().map(|block| block.exchanges.len()).sum();
        if text.matches(MARK).count() != count {
            return Err(Failure::new(format!(
                "not all of its commands were run ({status}); it printed:\n{text}"
            )));
        }
        let mut next = || parts.next().unwrap_or_default();
        Ok(blocks.iter().map(|block| block.exchanges.iter().map(|_| next()).collect()).collect())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for words in [&["cancel", "--all", "--force"][..], &["daemon", "stop"]] {
            // Fails if there is nothing to stop.
            let mut command = self.command("bin/lastword");
            command.current_dir(&self.folder).env("LASTWORD_NO_AUTOSTART", "1").args(words);
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(parent) = self.folder.parent() {
            // Only the last home finds it empty.
            let _ = fs::remove_dir(parent);
        }
    }
}

/// Returns a script that runs each command and marks the end of its output. The next command sees its exit status.
fn script_of(blocks: &[Block]) -> String {
    let mut script = String::new();
    for block in blocks {
        for unseen in &block.unseen {
            if !block.is_left_out {
                script.push_str(&format!("{{ {unseen}; }} >/dev/null 2>&1\n"));
            }
        }
        for exchange in &block.exchanges {
            let command = if block.is_left_out { "true" } else { &exchange.command };
            let pace = if command.contains("lastword run -d") { PACE } else { "" };
            script.push_str(&format!("{command}\n{{ status=$?; {pace}printf '\\001'; (exit $status); }}\n"));
        }
    }
    script
}
