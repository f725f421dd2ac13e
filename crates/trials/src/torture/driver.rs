//! The program under test: starts trees and stops them when the judge says, and knows nothing of how it is judged.
//!
//! A process of its own, because a user without rights is tried as well, while the judge stays root.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use super::order::{Done, Order, Tried, name_of};
use super::standin::{self, Bug};
use crate::place::Programs;

/// The verb by which this program becomes the driver.
pub(crate) const VERB: &str = "torture-driver";

/// Takes orders line by line: `go` once it is where it is watched, then trials.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [ward, rest @ ..] = words else { return Err("where?".into()) };
    let bug = rest.first().map(|name| Bug::named(name)).transpose()?;
    let programs = Programs::beside()?;
    let mut lines = std::io::stdin().lock().lines();
    lines.next();
    let tried: Box<dyn Tried> = match bug {
        Some(bug) if bug.is_of_keeper() => Box::new(super::kept::Kept::start(programs)?.without_fence()),
        Some(bug) => Box::new(StandIn::new(bug, programs, Path::new(ward))),
        None => Box::new(super::kept::Kept::start(programs)?),
    };
    say(&tried.greeting());
    for line in lines {
        let line = line.map_err(|error| format!("the judge is gone: {error}"))?;
        let done = Order::from_line(&line).and_then(|order| tried.try_one(&order));
        let done = done.unwrap_or_else(|trouble| Done { trouble: Some(trouble), ..Done::default() });
        say(&done.to_line());
    }
    Ok(true)
}

struct StandIn {
    bug: Bug,
    programs: Programs,
    ward: PathBuf,
}

impl StandIn {
    fn new(bug: Bug, programs: Programs, ward: &Path) -> StandIn {
        standin::prepare();
        StandIn { bug, programs, ward: ward.to_owned() }
    }
}

impl Tried for StandIn {
    fn greeting(&self) -> String {
        format!("{} {}", std::process::id(), name_of(lastword_core::receipt::Level::Subreaper))
    }

    fn try_one(&self, order: &Order) -> Result<Done, String> {
        standin::try_one(self.bug, &self.programs, &self.ward, order)
    }
}

/// Says a line to the judge. If the judge is gone the next line will not come either.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
