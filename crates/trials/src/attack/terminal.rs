//! Control sequences in names and output of a job, against the terminal that shows them. The rule: at a terminal there is no control
//! character but those that end a line or a column, and nothing that reorders or hides.

use std::fs;
use std::process::Stdio;

use super::attacker;
use super::attempt::{Attempt, Ends};
use super::bug::Bug;
use super::setup::{Setup, at, text};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 22, what: "command lines, labels and references steer a terminal", ends: Ends::Refused, make: by_names },
    Attempt { item: 22, what: "what a job writes steers a terminal", ends: Ends::Refused, make: by_output },
    Attempt { item: 22, what: "the same byte by byte, while somebody follows it", ends: Ends::Refused, make: byte_by_byte },
    Attempt { item: 22, what: "ten million bytes without a line break", ends: Ends::Survived, make: endless_line },
    Attempt { item: 22, what: "what a job writes goes into a pipe", ends: Ends::Limit("Output is recorded as it is written"), make: into_pipe },
    Attempt { item: 22, what: "a job steers the terminal that `run -t` gave it", ends: Ends::Limit("A job with a terminal has yours"), make: given_terminal },
];

/// Cursor, colour, title, link, clipboard, device control, the other strings, their C1 forms, bells, reordering, what is not seen.
const STEERS: &str = "\x1b[2J\x1b[1;31m\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1b]52;c;ZXZpbA==\x07\x1bP+q544e\x1b\\\x1b_apc\x1b\\\x1b^pm\x1b\\\
     \x1bXsos\x1b\\\u{9b}31m\u{9d}0;c1\u{9c}\u{90}q\u{9c}\x07\x08\x7f\x0b\x0c\u{202e}gnp.exe\u{2066}\u{200b}\u{feff}\u{e0041}\x1b";

/// The same with what is no text: C1 in eight bits, half a character.
fn written() -> Vec<u8> {
    [b"before\r\n", STEERS.as_bytes(), b"\x9b31m\x9d0;x\x9c\xff\xc3\nover\rwritten\nafter\x1b"].concat()
}

fn is_harmless(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || "\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}".contains(c))
}

/// Runs a verb at a terminal, and looks at what the terminal is told.
fn at_terminal(setup: &Setup, words: &[&str]) -> Result<String, String> {
    let quoted: Vec<String> = [setup.home.0.program().display().to_string().as_str()]
        .iter()
        .chain(words)
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")))
        .collect();
    let line = quoted.join(" ") + if setup.has(Bug::TerminalIsRaw) { " | cat" } else { "" };
    let mut script = setup.home.0.command(&[] as &[&str]);
    script.env("NO_COLOR", "1").env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut other = std::process::Command::new("script");
    other.args(["--quiet", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    other.envs(script.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = setup.home.0.run_to_end(&other)?;
    // The line discipline of the terminal returns the carriage itself.
    Ok(String::from_utf8_lossy(&said.stdout).replace("\r\n", "\n"))
}

/// Makes sure that nothing steers a terminal at any of these faces.
fn check(setup: &Setup, faces: &[&[&str]]) -> Result<String, String> {
    for words in faces {
        let said = at_terminal(setup, words)?;
        if said.trim().is_empty() {
            return Err(format!("{words:?} says nothing"));
        }
        if let Some(found) = said.chars().find(|c| !is_harmless(*c)) {
            return Err(format!("{words:?} prints {found:?}"));
        }
    }
    let names: Vec<&str> = faces.iter().map(|words| words[0]).collect();
    Ok(format!("no control character in {}", names.join(", ")))
}

/// Puts what is to be written where a job can read it.
fn payload(setup: &Setup) -> Result<String, String> {
    let path = setup.home.0.place().join("payload");
    fs::write(&path, written()).map_err(at(&path))?;
    Ok(path.display().to_string())
}

fn by_names(setup: &Setup) -> Result<String, String> {
    let label = format!("colour={STEERS}");
    let id = setup.home.0.said(&["run", "-d", "-l", &label, "--", "sh", "-c", "exit 3", STEERS])?;
    setup.home.0.run(&["wait", &id])?;
    let wild = setup.home.0.said(&["run", "-d", "--", &format!("./{STEERS}")])?;
    setup.home.0.run(&["wait", &wild])?;
    check(
        setup,
        &[
            &["ls", "-a"],
            &["show", &id],
            &["show", &wild],
            &["events", &wild],
            &["wait", &wild],
            &["result", &wild],
            &["cancel", &wild],
            &["show", STEERS],
            &["run", "--name", STEERS, "true"],
            &["config", "get", STEERS],
            &["ls", "-a", "--json"],
            &["show", &id, "--json"],
        ],
    )
}

fn by_output(setup: &Setup) -> Result<String, String> {
    let script = format!("cat {0}; cat {0} >&2", payload(setup)?);
    let id = setup.home.0.said(&["run", "-d", "--", "sh", "-c", &script])?;
    setup.home.0.run(&["wait", &id])?;
    check(
        setup,
        &[
            &["logs", &id],
            &["logs", "--stderr", &id],
            &["logs", "-f", &id],
            &["logs", "-n", "3", &id],
            &["result", &id],
            &["show", &id],
            &["run", "--", "sh", "-c", &script],
            &["result", &id, "--json"],
        ],
    )
}

fn byte_by_byte(setup: &Setup) -> Result<String, String> {
    let program = setup.programs.trials.display().to_string();
    check(setup, &[&["run", "--", &program, attacker::VERB, "dribble", &payload(setup)?]])
}

fn endless_line(setup: &Setup) -> Result<String, String> {
    let script = "head -c 10000000 /dev/zero | tr '\\0' x";
    let id = setup.home.0.said(&["run", "-d", "--", "sh", "-c", script])?;
    setup.home.0.said(&["wait", &id])?;
    let (logs, show) = (setup.home.0.said(&["logs", &id])?, setup.home.0.said(&["show", &id])?);
    let longest = show.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    match (logs.len(), longest) {
        (10_000_000, ..=200) => {
            Ok(format!("`logs` has all of it, the longest line of `show` {longest} characters"))
        }
        found => Err(format!("{found:?}")),
    }
}

fn into_pipe(setup: &Setup) -> Result<String, String> {
    let id = setup.home.0.said(&["run", "-d", "--", "cat", &payload(setup)?])?;
    setup.home.0.said(&["wait", &id])?;
    let said = setup.home.0.run(&["logs", &id])?;
    match said.stdout == written() {
        true => Ok("`logs` has every byte of it, and whoever shows it must clean it".to_owned()),
        false => Err(format!("it is not as it was written: {:?}", text(&said.stdout))),
    }
}

fn given_terminal(setup: &Setup) -> Result<String, String> {
    let said = at_terminal(setup, &["run", "-t", "--", "printf", "\x1b[5m"])?;
    match said.contains("\x1b[5m") {
        true => Ok("what it writes reaches the terminal as it is".to_owned()),
        false => Err(format!("it does not: {said:?}")),
    }
}
