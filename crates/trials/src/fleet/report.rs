//! The figures of many histories: what struck in which phase, what was counted, what is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::fault::{FAULTS, PHASES, Phase};

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    histories: u64,
    /// How often a fault struck while a job was in a phase.
    met: BTreeMap<(String, String), u64>,
    strikes: u64,
    counts: BTreeMap<&'static str, u64>,
    losses: u64,
    lossy: u64,
    /// How long after the last fault the slowest job was told not to have ended, beside its own run time.
    slowest_ms: u64,
    /// For how long the machine kept the process of one history waiting, at most.
    stalled_ms: u64,
    /// Seed, rule and what was seen.
    violations: Vec<(u64, String, String)>,
    /// Histories that could not be played.
    failures: Vec<(u64, String)>,
}

/// What is counted of each history.
const COUNTED: [(&str, &str); 5] = [
    ("jobs", "jobs in the log"),
    ("completed", "of these completed"),
    ("lost", "of these lost"),
    ("runs", "processes that ran"),
    ("refused", "stale writes refused"),
];

impl Report {
    /// Adds what a history left, and says a line about it.
    pub(super) fn add(&mut self, result: &Value) {
        self.histories += 1;
        let seed = result["seed"].as_u64().unwrap_or(0);
        if let Some(why) = result["failed"].as_str() {
            println!("seed {seed}: could not be played: {why}");
            self.failures.push((seed, why.to_owned()));
            return;
        }
        for (name, _) in COUNTED {
            *self.counts.entry(name).or_default() += result[name].as_u64().unwrap_or(0);
        }
        let mut struck = Vec::new();
        for met in array(&result["met"]) {
            let fault = met[0].as_str().unwrap_or_default();
            struck.push(fault);
            self.strikes += 1;
            for phase in array(&met[1]) {
                let phase = phase.as_str().unwrap_or_default().to_owned();
                *self.met.entry((fault.to_owned(), phase)).or_default() += 1;
            }
        }
        let losses = array(&result["losses"]).len() as u64;
        self.losses += losses;
        self.lossy += u64::from(losses > 0);
        let longer = |known: u64, name: &str| known.max(result[name].as_u64().unwrap_or(0));
        self.slowest_ms = longer(self.slowest_ms, "slowest_ms");
        self.stalled_ms = longer(self.stalled_ms, "stalled_ms");
        println!("seed {seed}: {:.1} s: {}", result["seconds"].as_f64().unwrap_or(0.0), struck.join("; "));
        for violation in array(&result["violations"]) {
            let word = |place: usize| violation[place].as_str().unwrap_or_default().to_owned();
            eprintln!("VIOLATION: seed {seed}: {}: {}", word(0), word(1));
            self.violations.push((seed, word(0), word(1)));
        }
    }

    /// Returns what a seeded bug did, first. That a job is late may have other reasons.
    pub(super) fn caught(&self) -> Result<(), String> {
        match self.violations.iter().find(|(_, rule, _)| rule != "Late") {
            Some((seed, rule, what)) => Err(format!("seed {seed}: {rule}: {what}")),
            None => Ok(()),
        }
    }

    /// Prints all figures.
    pub(super) fn print(&self, took: Duration) {
        println!(
            "\n{:<46} {}",
            "struck while a job was",
            PHASES.map(|(_, name)| format!("{name:>10}")).concat()
        );
        let mut empty = 0;
        for (fault, name) in FAULTS {
            let cell = |(phase, _): (Phase, &str)| {
                let met = self.met.get(&(name.to_owned(), format!("{phase:?}"))).copied();
                // An idle worker has no keeper.
                match met {
                    None if phase == Phase::Idle && fault.is_of_keeper() => format!("{:>10}", "-"),
                    met => {
                        empty += u64::from(met.is_none());
                        format!("{:>10}", met.unwrap_or(0))
                    }
                }
            };
            println!("{name:<46} {}", PHASES.map(cell).concat());
        }
        println!("{:<46} {empty:>10}", "empty cells");
        println!("\n{} histories, {} faults, {:.0} s", self.histories, self.strikes, took.as_secs_f64());
        for (name, about) in COUNTED {
            println!("{about:<46} {:>10}", self.counts.get(name).copied().unwrap_or(0));
        }
        println!("{:<46} {:>10}", "acknowledged and lost with the database", self.losses);
        println!("{:<46} {:>10}", "histories with such a loss", self.lossy);
        println!("{:<46} {:>7} ms", "the slowest end after the last fault", self.slowest_ms);
        println!("{:<46} {:>7} ms", "the machine stood still in a history, at most", self.stalled_ms);
        for rule in ["Overlap", "SecondLastWord", "Loss", "FalseSuccess", "Late"] {
            let count = self.violations.iter().filter(|(_, broken, _)| broken == rule).count();
            println!("violations: {rule:<34} {count:>10}");
        }
    }

    /// Returns what is wrong first.
    pub(super) fn verdict(&self) -> Result<(), String> {
        if let Some((seed, rule, what)) = self.violations.first() {
            return Err(format!("{rule}: {what}; again: cargo xtask fleet --histories 1 --seed {seed}"));
        }
        match self.failures.first() {
            Some((seed, why)) => Err(format!("seed {seed} could not be played: {why}")),
            None => Ok(()),
        }
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
