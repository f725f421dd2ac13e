//! What is said and where: data on standard output, everything else on standard error.

pub(crate) mod job;
pub(crate) mod progress;
pub(crate) mod receipt;
mod session;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod timeline;
pub(crate) mod words;

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

use crate::environment;
use crate::failure::Failure;
use crate::text::clean;
use style::Style;

/// When colour is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal that can.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to speak to whoever called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    /// Data as JSON.
    pub(crate) json: bool,
    /// Colour on standard output.
    pub(crate) out: Style,
    /// Colour on standard error.
    pub(crate) err: Style,
    /// Columns of the terminal.
    pub(crate) width: usize,
    /// Whether a person watches standard error, and wants to see that something moves.
    pub(crate) watched: bool,
    /// Whether a person can be asked.
    pub(crate) can_ask: bool,
}

/// Columns when nobody says.
const WIDTH_USUAL: usize = 80;

/// Nothing is laid out for less: lines wrap then.
const WIDTH_MIN: usize = 40;

/// Where there is no terminal, lines are not cut for one: a program or a file takes them whole.
const WIDTH_UNBOUND: usize = 1_000;

/// Variables by which an agent says that it is the caller: it is never asked anything.
const AGENTS: [&str; 4] = ["CLAUDECODE", "CODEX_SANDBOX", "CURSOR_AGENT", "CI"];

impl Ui {
    /// Returns how to speak, by flags first and then by what the streams are.
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
        }
    }

    /// Prints data and a line break.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// Prints one document, or one line of a stream of them.
    pub(crate) fn print_json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(std::io::Error::from)?;
        self.print(&clean::clean_json(&text))
    }

    /// Says something to a person. Nobody reads it? Then it is lost, and nothing else with it.
    pub(crate) fn say(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Asks a yes-or-no question; only where somebody can answer.
    pub(crate) fn ask(&self, question: &str) -> bool {
        let _ = write!(std::io::stderr().lock(), "{question} [y/N] ");
        if discard_typed() {
            let _ =
                write!(std::io::stderr().lock(), "\n(discarded what was typed before)\n{question} [y/N] ");
        }
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        read.is_ok() && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    /// Tells of a failure.
    pub(crate) fn tell(&self, failure: &Failure) {
        if failure.is_quiet() {
            return;
        }
        match serde_json::to_string(&failure.problem) {
            Ok(problem) if self.json => self.say(&clean::clean_json(&problem)),
            _ => self.say(&format!("{} {}", self.err.bad("lastword:"), failure.words())),
        }
    }
}

/// Discards what was typed at the terminal and not read; reports whether that was a line or more. What was typed of a line
/// without an end goes too, but is not reported: the terminal does not tell of it.
pub(crate) fn discard_typed() -> bool {
    let stdin = rustix::stdio::stdin();
    let typed = rustix::io::ioctl_fionread(stdin).is_ok_and(|count| count > 0);
    let _ = rustix::termios::tcflush(stdin, rustix::termios::QueueSelector::IFlush);
    typed
}

fn width(out_is_terminal: bool) -> usize {
    let said = environment::get("COLUMNS").and_then(|columns| columns.parse::<usize>().ok());
    let asked = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    match said {
        Some(columns) => columns.max(WIDTH_MIN),
        None if out_is_terminal => asked().unwrap_or(WIDTH_USUAL).max(WIDTH_MIN),
        None => WIDTH_UNBOUND,
    }
}
