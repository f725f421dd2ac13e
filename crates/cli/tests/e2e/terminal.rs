//! Commands in a pseudo-terminal: one that `script` provides, or one whose size can be changed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::home::{Heard, Home, until};

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
    let words: Vec<&str> = inner.get_args().map(|word| word.to_str().unwrap()).collect();
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

/// A command in a terminal of its own. Dropping it hangs up.
pub(crate) struct Screen {
    terminal: File,
    child: Child,
    shown: Heard,
}

impl Screen {
    /// Starts a command in a terminal of this size.
    pub(crate) fn start(home: &Home, (rows, columns): (u16, u16), words: &[&str]) -> Screen {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let inside = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let terminal = File::from(terminal);
        set_size(&terminal, rows, columns);
        let inner = home.command(words);
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(home.work())
            .env_clear();
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm");
        let stdio = || Stdio::from(OwnedFd::from(inside.try_clone().unwrap()));
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        let shown = Heard::new(terminal.try_clone().unwrap());
        Screen { terminal, child, shown }
    }

    /// Changes the size of the terminal; the kernel tells the command.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        set_size(&self.terminal, rows, columns);
    }

    /// Types a text.
    pub(crate) fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Returns what it has shown so far.
    pub(crate) fn so_far(&self) -> String {
        self.shown.so_far()
    }

    /// Waits until it shows a text.
    pub(crate) fn until_shown(&self, text: &str) {
        until(&format!("it shows {text:?}"), || self.shown.so_far().contains(text).then_some(()));
    }

    /// Waits for the end of the command, and returns everything it showed.
    pub(crate) fn end(mut self) -> String {
        self.child.wait().unwrap();
        self.shown.all_of_it()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}
