//! `api`: requests that schemathesis makes up from the OpenAPI document, right and wrong ones, against a real daemon with jobs. Every
//! response must be as the document says, and no request may make the daemon fail.
//!
//! It runs in its own namespaces, and the daemon as an ordinary user if the trial is started by root. Requests can run only commands of a
//! list.
//!
//! - [`install`]: schemathesis. `hooks.py`: what its requests may do.
//! - [`trial`]: the trial itself.
//! - [`rows`]: `api --rows`, followers of the list while jobs change and the daemon is killed.

mod install;
mod rows;
mod trial;

use std::ffi::OsStr;
use std::time::Instant;

use crate::agents::apart;
use crate::args::Args;
use crate::place::{Programs, temporary};
use crate::verdict::{bug, verdict};

/// The hidden verb that runs the trial inside the namespaces.
pub(crate) const PART: &str = "api-part";

/// Requests, unless another number is asked for.
const CASES: u64 = 20_000;

/// Runs the trial. With `--bug` the server is wrong on purpose, and that must be noticed.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    if words.contains(&"--rows") {
        return rows::run(words);
    }
    let args = Args::new(words, &["--cases", "--seed", "--bug"], &[])?;
    let bug = bug(&args, &["undocumented-status", "limit-cut"])?;
    let cases = args.value("--cases", CASES)?.to_string();
    let seed = args.value("--seed", 1_u64)?.to_string();
    let schemathesis = install::schemathesis()?;
    let begun = Instant::now();
    let place = temporary("api")?;
    let programs = Programs::beside()?;
    let words: [&OsStr; 6] = [
        place.path().as_ref(),
        schemathesis.as_ref(),
        programs.lastword.as_ref(),
        OsStr::new(&cases),
        OsStr::new(&seed),
        OsStr::new(bug.unwrap_or("none")),
    ];
    let found = apart::run(&programs, PART, &words)?;
    println!("seed {seed}, {:.0} s", begun.elapsed().as_secs_f64());
    Ok(verdict(bug, found))
}

/// The trial, inside.
pub(crate) fn part(words: &[&str]) -> Result<bool, String> {
    let [place, schemathesis, lastword, cases, seed, bug] = words else {
        return Err("what is to be tried?".to_owned());
    };
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is not a number"));
    let setup = trial::Setup {
        place: place.into(),
        schemathesis: schemathesis.into(),
        lastword: lastword.into(),
        cases: number(cases)?,
        seed: number(seed)?,
        bug: Some(*bug).filter(|bug| *bug != "none").map(str::to_owned),
    };
    trial::run(&setup).map(|()| true)
}
