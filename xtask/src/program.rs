//! Starting other programs, and what became of them.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// What every verb returns.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a verb did not succeed, and the code to exit with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) why: String,
}

impl Failure {
    /// Returns a failure of our own making.
    pub(crate) fn new(why: impl Into<String>) -> Failure {
        Failure { code: 1, why: why.into() }
    }

    /// Returns the failure of a program, with the code it exited with.
    fn of(program: &str, status: ExitStatus) -> Failure {
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        Failure { code, why: format!("`{program}` failed: {status}") }
    }
}

/// Returns the folder into which cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

/// Returns the user's cache, which keeps what is fetched and built between runs.
pub(crate) fn cache() -> Result<PathBuf, Failure> {
    let given = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = given.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    cache.ok_or_else(|| Failure::new("there is no home folder to keep programs in: set HOME"))
}

/// Runs `cargo` with the words of `line`, at the terminal.
pub(crate) fn cargo(line: &str) -> Outcome {
    cargo_with(&line.split_whitespace().collect::<Vec<_>>(), &[])
}

/// Runs `cargo` at the terminal with more in its environment.
pub(crate) fn cargo_with(words: &[&str], environment: &[(&str, &str)]) -> Outcome {
    eprintln!("$ cargo {}", words.join(" "));
    at_terminal("cargo", words, environment)
}

/// Returns a command that runs a verb of this program, even if a build has replaced the executable since it started.
pub(crate) fn itself(words: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(words);
    command
}

/// Runs a program at the terminal.
pub(crate) fn runs(program: &str, words: &[&str]) -> Outcome {
    at_terminal(program, words, &[])
}

fn at_terminal(program: &str, words: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| describes_this_package(name)) {
        command.env_remove(name);
    }
    command.args(words).envs(environment.iter().copied());
    status(&format!("{program} {}", words.join(" ")), command)
}

/// Reports whether cargo set this variable to describe xtask. The build script of a dependency watches such variables, so what `cargo build`
/// built would be built again by a verb.
fn describes_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Runs a command at the terminal; `line` is what a failure calls it.
pub(crate) fn status(line: &str, mut command: Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::of(line, status)),
        Err(error) => Err(Failure::new(format!("`{line}` did not start: {error}"))),
    }
}

/// Runs a program and returns what it printed; its talk goes to the terminal.
pub(crate) fn output(program: &str, words: &[&str]) -> Result<String, Failure> {
    let line = format!("{program} {}", words.join(" "));
    let output = Command::new(program)
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("`{line}` did not start: {error}")))?;
    if !output.status.success() {
        return Err(Failure::of(&line, output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| Failure::new(format!("`{line}` printed something that is not text")))
}

/// Reports whether a program runs and succeeds; what it says is of no interest.
pub(crate) fn succeeds(program: &str, words: &[&str]) -> bool {
    let status = Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Returns the CPU time of all children that have exited.
pub(crate) fn spent_by_children() -> Duration {
    // Fields 16 and 17: user and system time of children.
    ticks("self", 13)
}

/// Returns the CPU time of a process so far.
pub(crate) fn spent_by(pid: u32) -> Duration {
    ticks(&pid.to_string(), 11)
}

/// Returns the sum of two fields of `/proc/PID/stat`, counted after the process name, which may contain spaces.
fn ticks(process: &str, from: usize) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(from).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // USER_HZ is 100 on every Linux.
    Duration::from_millis(ticks * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_counted() {
        let before = spent_by(std::process::id());
        let mut sum = 0_u64;
        while spent_by(std::process::id()) < before + Duration::from_millis(20) {
            sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        let before = spent_by_children();
        assert!(succeeds("sh", &["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]));
        assert!(spent_by_children() > before);
    }
}
