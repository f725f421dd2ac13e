//! `contract`: holds `docs/contract.md` to the tests, so that the page cannot lie.
//!
//! A test proves a promise by carrying its id in its name (`c33_two_starters_exactly_one_wins`); so does a row of `docs/agents.md`. The page must name
//! exactly those tests at exactly those promises, and say of every other promise what is missing. With `--write`
//! the names are taken over from the test list; with `--require` the promises of [`promise::REQUIRED`] must have a test, and those of
//! [`promise::REQUIRED_ACROSS_HOSTS`] one in a module `across_hosts`, which runs two workers or more.

mod agents;
mod check;
mod listing;
mod page;
mod promise;

use std::collections::BTreeMap;
use std::fs;

use crate::program::{Failure, Outcome};
use check::Demand;
use page::Page;

const PAGE: &str = "docs/contract.md";

/// Checks the page, and with `--write` first brings its test names up to date.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let mut write = false;
    let mut demand = Demand::Truth;
    for argument in arguments {
        match *argument {
            "--write" => write = true,
            "--require" => demand = Demand::TruthAndProof,
            _ => return Err(Failure::new("usage: cargo xtask contract [--write] [--require]")),
        }
    }
    let mut tests = listing::all()?;
    let agents = fs::read_to_string(agents::PAGE)
        .map_err(|error| Failure::new(format!("{}: {error}", agents::PAGE)))?;
    tests.tests.extend(agents::rows(&agents));
    let text = fs::read_to_string(PAGE).map_err(|error| Failure::new(format!("{PAGE}: {error}")))?;
    let mut page = Page::parse(&text).map_err(|error| Failure::new(format!("{PAGE}: {error}")))?;
    if write {
        page.take_over(&tests);
        fs::write(PAGE, page.to_string()).map_err(|error| Failure::new(format!("{PAGE}: {error}")))?;
    }
    let lies = check::lies(&page, &tests, demand);
    summarise(&page);
    if lies.is_empty() {
        return Ok(());
    }
    for lie in &lies {
        eprintln!("{PAGE}: {lie}");
    }
    let hint = if write { "" } else { "; `cargo xtask contract --write` brings the test names up to date" };
    Err(Failure::new(format!("{} in {PAGE}{hint}", count(lies.len(), "lie"))))
}

/// Prints how many promises are proven, per group.
fn summarise(page: &Page) {
    let mut groups: Vec<&str> = Vec::new();
    let mut proven: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for promise in page.promises() {
        if !groups.contains(&promise.group.as_str()) {
            groups.push(&promise.group);
        }
        let (yes, no) = proven.entry(&promise.group).or_default();
        *(if promise.tests.is_empty() { no } else { yes }) += 1;
    }
    println!("{:<40} {:>6} {:>8}", "", "proven", "not yet");
    for group in groups {
        let (yes, no) = proven[group];
        println!("{group:<40} {yes:>6} {no:>8}");
    }
    let (yes, no) = proven.values().fold((0, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
    println!("{:<40} {yes:>6} {no:>8}", "total");
    let by_agents = page.promises().filter(|promise| promise.is_shown_by_agents()).count();
    println!("{:<40} {by_agents:>6}", "with real agents");
    let is_across_hosts = |promise: &&page::Promise| promise.tests.iter().any(listing::Test::is_across_hosts);
    println!("{:<40} {:>6}", "across hosts", page.promises().filter(is_across_hosts).count());
}

fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}
