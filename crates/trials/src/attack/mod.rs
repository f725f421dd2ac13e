//! `attack`: attacks on a user of the product, carried out against the real daemon and command line by real other users and by hostile
//! jobs. Each attempt is a row: refused, survived, or a limit that a page admits.
//!
//! - [`setup`]: the parties.
//! - [`attacker`]: what an attacker does as a process of its own, as another user or inside a job.
//! - [`transport`]: the way to the daemon.
//! - [`agent`]: a job against the processes that hold it.
//! - [`records`]: a job against what is written down about it.
//! - [`rights`]: a job that asks for more than is its own.
//! - [`secrets`]: which users and processes see what a job was given.
//! - [`names`]: names, paths and texts that lead elsewhere.
//! - [`terminal`]: what a job writes, against the user that looks at it.
//! - [`questions`]: an agent against the person it asks.
//! - [`profiles`]: a repository against the user that runs jobs in it.
//! - [`bombs`]: too much of something.
//! - [`fleet`]: the same against a server and its workers.
//! - [`attempt`]: an attempt, and how it must end. [`bug`]: guards that can be taken away.
//! - [`seeded`]: what is broken on purpose, and must be noticed.

mod agent;
pub(crate) mod attacker;
mod attempt;
mod bombs;
mod bug;
mod fleet;
mod names;
mod parties;
mod profiles;
mod questions;
mod records;
mod rights;
mod secrets;
mod seeded;
mod setup;
mod terminal;
mod transport;

use std::time::Instant;

use crate::args::Args;
use attempt::Groups;
use setup::Setup;

const USAGE: &str = "attack [--fleet] [--short] [--only WORD] [--no-bugs]

Starts the product for an ordinary user and attacks it: as other users, from inside of jobs, with names, output and requests that
no client of ours would send. Every attempt must be refused, survived, or be a limit that the book admits. Then some of it is broken
on purpose, and that must be noticed. Needs root, to be those users.

  --fleet      attacks a server and its workers, by a stolen token, from inside of jobs, as another host and over the network
  --short      smaller bombs
  --only WORD  only attempts of this item or group, or with this word in them
  --no-bugs    nothing is broken on purpose";

/// The attempts, by group.
#[rustfmt::skip] // One row, one group.
const GROUPS: &Groups<Setup> = &[
    ("transport", transport::ATTEMPTS),
    ("a job against its supervisor", agent::ATTEMPTS),
    ("a job against its records", records::ATTEMPTS),
    ("a job and its rights", rights::ATTEMPTS),
    ("secrets", secrets::ATTEMPTS),
    ("names and texts", names::ATTEMPTS),
    ("terminal", terminal::ATTEMPTS),
    ("questions", questions::ATTEMPTS),
    ("profiles", profiles::ATTEMPTS),
    ("bombs", bombs::ATTEMPTS),
];

/// Runs `attack`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(true);
    }
    let args = Args::new(words, &["--only"], &["--fleet", "--short", "--no-bugs"])?;
    if !rustix::process::geteuid().is_root() {
        return Err("only root can be several users: run it as root".to_owned());
    }
    let begun = Instant::now();
    let (only, is_short) = (args.text("--only"), args.has("--short"));
    let fleet = args.has("--fleet").then(|| fleet::Grounds::new(is_short)).transpose()?;
    let (tried, wrong) = match &fleet {
        Some(grounds) => attempt::make_all(fleet::GROUPS, only, || grounds.parties(None))?,
        None => attempt::make_all(GROUPS, only, || Setup::new(None, is_short))?,
    };
    println!("\n{tried} attempts in {:.1} s", begun.elapsed().as_secs_f64());
    if tried == 0 {
        return Err(format!("there is no attempt called `{}`", only.unwrap_or_default()));
    }
    if wrong > 0 {
        eprintln!("FAILED: {wrong} of {tried} attempts did not end as they must");
    }
    let is_noticed = match &fleet {
        _ if args.has("--no-bugs") || only.is_some() => true,
        Some(grounds) => seeded::run(seeded::OF_A_FLEET, fleet::GROUPS, |bug| grounds.parties(Some(bug)))?,
        None => seeded::run(seeded::BUGS, GROUPS, |bug| Setup::new(Some(bug), is_short))?,
    };
    Ok(wrong == 0 && is_noticed)
}

#[cfg(test)]
mod tests {
    use super::attempt::{Attempt, Ends, PAGE, admits};
    use super::*;

    fn check<S: parties::Parties>(groups: &Groups<S>) {
        let all: Vec<&Attempt<S>> = groups.iter().flat_map(|(_, attempts)| attempts.iter()).collect();
        for attempt in &all {
            if let Ends::Limit(heading) = attempt.ends {
                assert!(admits(PAGE.1, heading), "{}: {heading}", attempt.what);
            }
        }
        let mut names: Vec<&str> = all.iter().map(|attempt| attempt.what).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn every_limit_is_admitted_and_every_attempt_has_a_name_of_its_own() {
        check(GROUPS);
        check(fleet::GROUPS);
        assert!(!admits(PAGE.1, "nothing is wrong"));
    }
}
