//! Output: data on stdout, everything else on stderr.

pub(crate) mod conversation;
pub(crate) mod describe;
pub(crate) mod job;
pub(crate) mod progress;
pub(crate) mod question;
pub(crate) mod receipt;
mod session;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod timeline;

use std::io::{IsTerminal as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
use serde::Serialize;

use crate::environment;
use crate::failure::Failure;
use crate::in_force::InForce;
use crate::settings::Settings;
use crate::text::clean;
use style::Style;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal that supports it.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to print, given the flags and the streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    /// Print data as JSON.
    pub(crate) json: bool,
    /// Colour on stdout.
    pub(crate) out: Style,
    /// Colour on stderr.
    pub(crate) err: Style,
    /// Width of the terminal.
    pub(crate) width: usize,
    /// Whether a person watches stderr, so that progress is worth showing.
    pub(crate) watched: bool,
    /// Whether a person can be prompted.
    pub(crate) can_ask: bool,
    /// Whether a person reads what is printed: it goes to a terminal, not into a variable or a pipe, and no agent asked for it.
    pub(crate) read_by_person: bool,
}

/// A complete list as JSON, in the form of the API's pages.
#[derive(Serialize)]
pub(crate) struct JsonList<'a, T> {
    pub(crate) items: &'a [T],
    pub(crate) next_cursor: Option<String>,
}

/// The width of a terminal that does not report one.
const WIDTH_DEFAULT: usize = 80;

/// The height of a terminal that does not report one.
const HEIGHT_DEFAULT: usize = 24;

/// The minimum width for layouts; lines wrap on narrower terminals.
const WIDTH_MIN: usize = 40;

/// The width without a terminal: programs and files get lines uncut.
const WIDTH_UNBOUND: usize = 1_000;

/// Variables that mark the caller as an agent or CI job, which is never prompted.
const AGENTS: [&str; 4] = ["CLAUDECODE", "CODEX_SANDBOX", "CURSOR_AGENT", "CI"];

impl Ui {
    /// Determines how to print, from the flags first and then from the streams.
    pub(crate) fn new(json: bool, colour: Colour, no_input: bool) -> Ui {
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let (out_tty, err_tty) = (stdout.is_terminal(), stderr.is_terminal());
        let dumb = environment::get("TERM").is_some_and(|term| term == "dumb");
        let forced = environment::get("CLICOLOR_FORCE").is_some_and(|value| value != "0")
            || environment::is_set("FORCE_COLOR");
        let style = |tty: bool| {
            let on = match colour {
                Colour::Always => true,
                Colour::Never => false,
                Colour::Auto if environment::is_set("NO_COLOR") => false,
                Colour::Auto => forced || (tty && !dumb),
            };
            Style { on }
        };
        let person = !AGENTS.iter().any(|name| environment::is_set(name));
        Ui {
            json,
            out: style(out_tty),
            err: style(err_tty),
            width: width(out_tty),
            watched: err_tty && !dumb && !json && !environment::is_set("CI"),
            can_ask: stdin.is_terminal() && err_tty && !no_input && !json && person,
            read_by_person: out_tty && !json && person,
        }
    }

    /// Prints data and a line feed.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// Prints one JSON document on a line.
    pub(crate) fn print_json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(std::io::Error::from)?;
        self.print(&clean::clean_json(&text))
    }

    /// Prints a message to stderr. If that fails, the message is lost.
    pub(crate) fn say(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Prints which settings the running daemon does not have.
    pub(crate) fn say_not_in_force(&self, settings: &Settings, daemon: &[InForce]) {
        for line in settings.not_in_force(daemon) {
            self.say(&format!("lastword: {}", clean::clean(&line)));
        }
    }

    /// Asks a yes-or-no question; call it only if `can_ask`.
    pub(crate) fn confirm(&self, question: &str) -> bool {
        let _ = write!(std::io::stderr().lock(), "{question}");
        // What invites an answer comes last: an answer typed after it always counts.
        let discarded = if take_typed().is_empty() { "" } else { "\n(discarded what was typed before)" };
        let _ = write!(std::io::stderr().lock(), "{discarded} [y/N] ");
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        read.is_ok() && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    /// Prints an error.
    pub(crate) fn report(&self, failure: &Failure) {
        if failure.is_quiet() {
            return;
        }
        match serde_json::to_string(&failure.problem) {
            Ok(problem) if self.json => self.say(&clean::clean_json(&problem)),
            _ => self.say(&format!("{} {}", self.err.bad("lastword:"), failure.text())),
        }
    }
}

/// Bytes that are taken of what was typed. A terminal holds no more.
const TYPED_BYTES_MAX: usize = 4096;

/// Takes what was typed at the terminal and not read. Of a line without an end the terminal tells only outside of its usual mode, so that is
/// left for a moment; nothing typed before this returns can be read later.
pub(crate) fn take_typed() -> Vec<u8> {
    let stdin = rustix::stdio::stdin();
    let Ok(before) = tcgetattr(stdin) else { return Vec::new() };
    let mut by_bytes = before.clone();
    by_bytes.local_modes.remove(LocalModes::ICANON);
    // A read without anything to read returns.
    by_bytes.special_codes[SpecialCodeIndex::VMIN] = 0;
    by_bytes.special_codes[SpecialCodeIndex::VTIME] = 0;
    let mut typed = vec![0; TYPED_BYTES_MAX];
    let set = tcsetattr(stdin, OptionalActions::Now, &by_bytes);
    let read = set.and_then(|()| rustix::io::read(stdin, &mut typed));
    let _ = tcsetattr(stdin, OptionalActions::Flush, &before);
    typed.truncate(read.unwrap_or(0));
    typed
}

/// Returns the height and width of the terminal that messages go to.
pub(crate) fn screen() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let of = |length: fn(rustix::termios::Winsize) -> u16, otherwise: usize| {
        size.map(|size| usize::from(length(size))).filter(|length| *length > 0).unwrap_or(otherwise)
    };
    (of(|size| size.ws_row, HEIGHT_DEFAULT), of(|size| size.ws_col, WIDTH_UNBOUND))
}

fn width(out_is_terminal: bool) -> usize {
    let set = environment::get("COLUMNS").and_then(|columns| columns.parse::<usize>().ok());
    let reported = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    match set {
        Some(columns) => columns.max(WIDTH_MIN),
        None if out_is_terminal => reported().unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN),
        None => WIDTH_UNBOUND,
    }
}
