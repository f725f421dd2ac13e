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
//! - [`attempt`]: an attempt, and how it must end. [`bug`]: guards that can be taken away.
//! - [`seeded`]: what is broken on purpose, and must be noticed.

mod agent;
pub(crate) mod attacker;
mod attempt;
mod bombs;
mod bug;
mod names;
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
use attempt::{Attempt, Ends};
use setup::Setup;

const USAGE: &str = "attack [--short] [--only WORD] [--no-bugs]

Starts the product for an ordinary user and attacks it: as other users, from inside of jobs, with names, output and requests that
no client of ours would send. Every attempt must be refused, survived, or be a limit that the book admits. Then some of it is broken
on purpose, and that must be noticed. Needs root, to be those users.

  --short      smaller bombs
  --only WORD  only attempts of this item or group, or with this word in them
  --no-bugs    nothing is broken on purpose";

/// The page that admits what is not guarded against.
const PAGE: (&str, &str) = ("docs/concepts/attacks.md", include_str!("../../../../docs/concepts/attacks.md"));

/// The attempts, by group.
#[rustfmt::skip] // One row, one group.
const GROUPS: &[(&str, &[Attempt])] = &[
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
    let args = Args::new(words, &["--only"], &["--short", "--no-bugs"])?;
    if !rustix::process::geteuid().is_root() {
        return Err("only root can be several users: run it as root".to_owned());
    }
    let begun = Instant::now();
    let only = args.text("--only");
    let (mut tried, mut wrong) = (0, 0);
    for (group, attempts) in GROUPS {
        let chosen: Vec<&Attempt> = attempts
            .iter()
            .filter(|attempt| only.is_none_or(|only| attempt.is_called(group, only)))
            .collect();
        if chosen.is_empty() {
            continue;
        }
        println!("\n{group}");
        let setup = Setup::new(None, args.has("--short"))?;
        for attempt in chosen {
            tried += 1;
            wrong += usize::from(!attempt.row(&setup));
        }
    }
    println!("\n{tried} attempts in {:.1} s", begun.elapsed().as_secs_f64());
    if tried == 0 {
        return Err(format!("there is no attempt called `{}`", only.unwrap_or_default()));
    }
    if wrong > 0 {
        eprintln!("FAILED: {wrong} of {tried} attempts did not end as they must");
    }
    let bugs = args.has("--no-bugs") || only.is_some() || seeded::run(args.has("--short"), attempt_named)?;
    Ok(wrong == 0 && bugs)
}

impl Attempt {
    fn is_called(&self, group: &str, word: &str) -> bool {
        word == group || word == self.item.to_string() || self.what.contains(word)
    }

    /// Makes it and prints its row; reports whether it ended as it must.
    fn row(&self, setup: &Setup) -> bool {
        let ended = (self.make)(setup).and_then(|how| match self.ends {
            Ends::Limit(heading) if !admits(PAGE.1, heading) => {
                Err(format!("{how}; {} has no heading `{heading}`", PAGE.0))
            }
            Ends::Limit(heading) => Ok(format!("{how}; {}: {heading}", PAGE.0)),
            Ends::Refused | Ends::Survived => Ok(how),
        });
        let (word, how) = match &ended {
            Ok(how) => (self.ends.word(), how),
            Err(why) => ("FAILED", why),
        };
        println!("{:>3}  {:<74} {word:<9} {}", self.item, self.what, setup.shown(how));
        ended.is_ok()
    }
}

/// Reports whether a page has a heading.
fn admits(page: &str, heading: &str) -> bool {
    page.lines().any(|line| line.trim_start_matches('#').trim() == heading && line.starts_with('#'))
}

/// Returns the attempt of a name.
fn attempt_named(what: &str) -> Option<&'static Attempt> {
    GROUPS.iter().flat_map(|(_, attempts)| attempts.iter()).find(|attempt| attempt.what == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_admitted_and_every_attempt_has_a_name_of_its_own() {
        let all: Vec<&Attempt> = GROUPS.iter().flat_map(|(_, attempts)| attempts.iter()).collect();
        for attempt in &all {
            if let Ends::Limit(heading) = attempt.ends {
                assert!(admits(PAGE.1, heading), "{}: {heading}", attempt.what);
            }
        }
        let mut names: Vec<&str> = all.iter().map(|attempt| attempt.what).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        assert!(!admits(PAGE.1, "nothing is wrong"));
    }
}
