//! `bench … --beside EXECUTABLE`: another build and this one, in turn in every round, with the same measurements.
//!
//! The other build is measured twice in a round. How far these two differ is the noise of the machine, and a ratio is judged by it.

use std::path::Path;
use std::process::{Command, Stdio};

use lastword_core::receipt::Level;
use serde_json::Value;

use super::folders::Folders;
use super::{latency, rates};
use crate::statistics::{goal, percentile};

/// The least that this build may have of the other's figures.
const LEAST: f64 = 0.97;

/// Figures by name. Of each, more is better.
pub(super) type Figures = Vec<(String, f64)>;

/// What is measured in a round. The first two are the same executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Before,
    Again,
    Now,
}

/// The order of turns changes with the round, so that no turn always comes first.
const ORDERS: [[Turn; 3]; 3] = [
    [Turn::Before, Turn::Now, Turn::Again],
    [Turn::Now, Turn::Again, Turn::Before],
    [Turn::Again, Turn::Before, Turn::Now],
];

/// One figure over all rounds: this build by the other, and the other by itself.
#[derive(Default)]
struct Ratios {
    name: String,
    now: Vec<f64>,
    noise: Vec<f64>,
}

/// Measures both in turn, prints the table and reports whether every ratio is high enough.
pub(super) fn compare(
    rounds: usize,
    other: &Path,
    own: &Path,
    mut measure: impl FnMut(&Path) -> Result<Figures, String>,
) -> Result<bool, String> {
    println!("{} beside {}: {rounds} rounds, in turn", own.display(), other.display());
    let mut all: Vec<Ratios> = Vec::new();
    for round in 0..rounds {
        let [mut before, mut again, mut now] = [Figures::new(), Figures::new(), Figures::new()];
        for turn in ORDERS[round % ORDERS.len()] {
            match turn {
                Turn::Before => before = measure(other)?,
                Turn::Again => again = measure(other)?,
                Turn::Now => now = measure(own)?,
            }
        }
        add(&mut all, &before, &again, &now)?;
    }
    Ok(print(&mut all))
}

fn add(all: &mut Vec<Ratios>, before: &Figures, again: &Figures, now: &Figures) -> Result<(), String> {
    if all.is_empty() {
        all.extend(now.iter().map(|(name, _)| Ratios { name: name.clone(), ..Ratios::default() }));
    }
    for ratios in all {
        let of = |figures: &Figures| {
            let found = figures.iter().find(|(name, _)| *name == ratios.name);
            found
                .map(|(_, figure)| *figure)
                .ok_or_else(|| format!("one build has no figure `{}`", ratios.name))
        };
        let (before, again, now) = (of(before)?, of(again)?, of(now)?);
        ratios.now.push(now / f64::midpoint(before, again));
        ratios.noise.push(before.min(again) / before.max(again));
    }
    Ok(())
}

fn print(all: &mut [Ratios]) -> bool {
    println!(
        "\n{:<54} {:>8} {:>8} {:>8} {:>8}",
        "this build by the other", "ratio", "least", "most", "noise"
    );
    let mut reached = true;
    for Ratios { name, now, noise } in all {
        let (ratio, noise) = (percentile(now, 50), percentile(noise, 50));
        let fine = is_fine(ratio, noise);
        reached &= fine;
        println!(
            "{name:<54} {ratio:>8.3} {:>8.3} {:>8.3} {noise:>8.3}{}",
            percentile(now, 0),
            percentile(now, 100),
            goal(fine)
        );
    }
    println!(
        "ratio: the median of the rounds; noise: the median of the other build by itself, slower by faster"
    );
    println!("goal: a ratio of {LEAST}, or of the noise if that is lower");
    reached
}

fn is_fine(ratio: f64, noise: f64) -> bool {
    ratio >= LEAST.min(noise)
}

/// Measures a keeper: `true` per second, and how soon a job starts and is proven dead.
pub(super) fn keeper(executable: &Path, folders: &Folders, short: bool) -> Result<Figures, String> {
    let (jobs, count) = if short { (60, 20) } else { (300, 100) };
    let mut figures = Figures::new();
    for (level, name) in [(Level::Cgroup, "in a control group"), (Level::Landlock, "ungrouped")] {
        for at_once in rates::AT_ONCE {
            let rate = rates::ours(executable, folders, level, at_once, jobs)?;
            figures.push((format!("`true` per second, {name}, {at_once} at once"), rate));
        }
    }
    figures.push((
        "starts per second, one at a time".to_owned(),
        1e3 / latency::start_p50(executable, folders, count)?,
    ));
    figures.push((
        "cancels per second, one at a time".to_owned(),
        1e3 / latency::cancel_p50(executable, folders, count)?,
    ));
    Ok(figures)
}

/// Has a build of the proof measure its journal: once SQLite, once each part of PostgreSQL.
pub(super) fn store(proof: &Path, engine: &str) -> Result<Figures, String> {
    const PARTS: [&[&str]; 3] = [
        &["sqlite", "--stored", "0"],
        &["postgres", "--only", "append", "--seconds", "1"],
        &["postgres", "--only", "life", "--seconds", "1"],
    ];
    let mut figures = Figures::new();
    for part in PARTS.iter().filter(|part| part[0] == engine) {
        let mut command = Command::new(proof);
        command.args(["bench", "store"]).args(*part).args(["--rounds", "1", "--json"]);
        let output = command.stderr(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", proof.display()))?;
        // It exits with 1 if a goal beside the bare engine was missed, which is another question.
        let lines: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("{command:?}: {}: not figures: {error}", output.status))?;
        let figure =
            |line: &Value| Some((format!("{engine}: {}", line["name"].as_str()?), line["ours"].as_f64()?));
        figures.extend(lines.as_array().ok_or("not a list of figures")?.iter().filter_map(figure));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(now: f64, noise: f64) -> bool {
        let figures = |factor: f64, round: usize| vec![("rate".to_owned(), factor * (100 + round) as f64)];
        let mut all = Vec::new();
        for round in 0..7 {
            add(&mut all, &figures(1.0, round), &figures(noise, round), &figures(now, round)).unwrap();
        }
        print(&mut all)
    }

    #[test]
    fn a_slower_build_is_noticed_unless_the_machine_is_as_noisy() {
        assert!(compared(1.0, 1.0));
        assert!(compared(0.975, 1.0));
        assert!(!compared(0.95, 1.0));
        assert!(compared(0.95, 0.9));
        assert!(!compared(0.8, 0.9));
    }

    #[test]
    fn a_figure_that_one_build_lacks_is_an_error() {
        let figures = |name: &str| vec![(name.to_owned(), 1.0)];
        assert!(add(&mut Vec::new(), &figures("a"), &figures("a"), &figures("b")).is_err());
    }
}
