//! The keeper on trial. Each verb is a file; `cargo xtask help` lists them.

mod args;
mod clock;
mod place;
mod points;
mod record;
mod torture;
mod tracer;

use std::process::ExitCode;

/// A verb, and what runs it. Its answer is the exit code: everything that was promised held, or something did not.
type Verb = (&'static str, fn(&[&str]) -> Result<bool, String>);

#[rustfmt::skip] // One row, one verb.
const VERBS: &[Verb] = &[
    ("torture", torture::run),
    (torture::driver::VERB, torture::driver::run),
    ("kill-points", points::kill::run),
    ("fault-points", points::fault::run),
    (points::leader::VERB, points::leader::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [name, rest @ ..] = arguments.as_slice() else {
        eprintln!("lastword-trials: which verb? `cargo xtask help` lists them");
        return ExitCode::from(2);
    };
    let Some((_, run)) = VERBS.iter().find(|(verb, _)| verb == name) else {
        eprintln!("lastword-trials: there is no verb `{name}`");
        return ExitCode::from(2);
    };
    match run(rest) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{name}: {why}");
            ExitCode::from(2)
        }
    }
}
