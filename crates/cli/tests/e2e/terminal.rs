//! Commands in a pseudo-terminal, which `script` provides.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use crate::home::Home;

/// Runs a command in a pseudo-terminal.
pub(crate) fn at_terminal(home: &Home, words: &[&str]) -> Child {
    command(home, words).spawn().unwrap()
}

/// Runs a command in a pseudo-terminal to its end, and returns what that shows, with plain line feeds.
pub(crate) fn shown_at_terminal(home: &Home, words: &[&str], variables: &[(&str, &str)]) -> String {
    let output = command(home, words).envs(variables.iter().copied()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

/// Returns a command that runs another one in a pseudo-terminal.
fn command(home: &Home, words: &[&str]) -> Command {
    let inner = home.command(words);
    let mut command = Command::new("script");
    let line = format!("{} {}", inner.get_program().display(), words.join(" "));
    command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Reads the output of a command until it contains a text.
pub(crate) fn until_shown(child: &mut Child, what: &str) -> String {
    let (mut shown, mut piece) = (String::new(), [0; 256]);
    let stdout = child.stdout.as_mut().unwrap();
    while !shown.contains(what) {
        let read = stdout.read(&mut piece).unwrap();
        assert_ne!(read, 0, "it ended without `{what}`: {shown}");
        shown.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    shown
}
