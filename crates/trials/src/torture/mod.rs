//! `torture`: trees that do not want to die, stopped at bad moments at every level, and judged from outside.
//!
//! * `driver` is on trial: it drives the keeper as a daemon would, as root or as a user without rights.
//! * `judge` watches by an `observer` control group around it and by the canaries that every process of a tree is.
//! * `standin` has keepers that are wrong on purpose; `torture --bugs` shows that the judge notices each.

mod adversaries;
pub(crate) mod container;
pub(crate) mod driver;
mod judge;
mod kept;
pub(crate) mod observer;
mod order;
mod report;
mod standin;
mod word;

use std::process::Command;
use std::time::{Duration, Instant};

use lastword_core::receipt::Level;

use adversaries::{ADVERSARIES, Adversary, SETUID_ALLOWED, UNKILLABLE};
use judge::{Judge, USER};
use order::{Victim, level_of, name_of};
use report::{Faults, Row, Verdict};
use standin::Bug;

use crate::args::Args;
use crate::place::Programs;

/// When a tree is stopped, in microseconds after its launch: before it is there, while it grows, once it is settled.
const MOMENTS_US: [u64; 6] = [0, 200, 1_000, 5_000, 20_000, 40_000];

/// The moments for the stand-ins: a growing tree and a settled one.
const BUG_MOMENTS_US: [u64; 2] = [5_000, 40_000];

/// Reasons printed below a row: enough to see what went wrong, not a page of the same.
const NOTES: usize = 3;

/// What to try.
struct Plan {
    adversaries: Vec<Adversary>,
    /// Levels asked for by name; otherwise all that the nursery found.
    levels: Option<Vec<Level>>,
    moments: Vec<Duration>,
    repeats: u32,
    /// Whether each row is followed by its times at each level.
    by_level: bool,
    victim: Victim,
}

/// Runs the verb.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let with_value = ["--repeats", "--adversaries", "--levels", "--bug", "--kill"];
    let args = Args::new(words, &with_value, &["--as-user", "--as-root", "--bugs", "--by-level"])?;
    agree_with_the_adversary()?;
    let levels = args.text("--levels").map(|list| list.split(',').map(level_of).collect()).transpose()?;
    let plan = Plan {
        adversaries: adversaries::named(args.text("--adversaries"))?,
        levels,
        moments: moments(&MOMENTS_US),
        repeats: args.value("--repeats", 3)?,
        by_level: args.has("--by-level"),
        victim: Victim::named(args.text("--kill").unwrap_or("none"))?,
    };
    if args.has("--bugs") {
        return bugs();
    }
    if let Some(name) = args.text("--bug") {
        return Ok(!with_bug(Bug::named(name)?)?.any());
    }
    let mut faults = Faults::default();
    if !args.has("--as-user") {
        faults.add(try_as("root", None, None, &plan)?);
    }
    if !args.has("--as-root") {
        faults.add(try_as("a user without rights", Some(USER), None, &plan)?);
    }
    // A p99 of a few trials is the worst of them, and the worst of them may be the machine's: it is shown, and decides nothing.
    let decisive = if plan.repeats < REPEATS_FOR_BOUNDS { Faults { late: 0, ..faults } } else { faults };
    let verdict = if decisive.any() { "NOT HELD" } else { "held" };
    println!(
        "{verdict}: {} trials with survivors, {} with an early last word, {} otherwise wrong, {} bounds missed",
        faults.survivors, faults.early, faults.wrong, faults.late
    );
    Ok(!decisive.any())
}

/// From so many repeats on, the bounds on time decide.
const REPEATS_FOR_BOUNDS: u32 = 3;

/// Runs every stand-in and reports whether the judge found what is wrong with each, and nothing wrong with the right one.
fn bugs() -> Result<bool, String> {
    let mut missed = Vec::new();
    for bug in Bug::all() {
        let found = with_bug(bug)?;
        if !bug.is_caught_by(found) {
            missed.push(bug.name());
        }
        println!("{}: {found:?}\n", bug.name());
    }
    if missed.is_empty() {
        println!("every stand-in was judged rightly");
    } else {
        println!("MISJUDGED: {}", missed.join(", "));
    }
    Ok(missed.is_empty())
}

fn with_bug(bug: Bug) -> Result<Faults, String> {
    let plan = Plan {
        adversaries: ADVERSARIES.iter().copied().filter(|adversary| bug.is_tried_with(adversary)).collect(),
        levels: Some(vec![Level::Subreaper]),
        moments: moments(&BUG_MOMENTS_US),
        repeats: bug.repeats(),
        by_level: false,
        victim: Victim::None,
    };
    try_as(&format!("root, with the stand-in `{}`", bug.name()), None, Some(bug), &plan)
}

/// Tries all of a plan as one user and prints its rows.
fn try_as(who: &str, owner: Option<u32>, bug: Option<Bug>, plan: &Plan) -> Result<Faults, String> {
    let started = Instant::now();
    let judge = Judge::new(owner, bug, plan.victim)?;
    let levels = plan.levels.clone().unwrap_or_else(|| judge.levels.clone());
    if let Some(missing) = levels.iter().find(|level| !judge.levels.contains(level)) {
        return Err(format!("the nursery did not find the level {} here", name_of(*missing)));
    }
    let names: Vec<&str> = levels.iter().map(|level| name_of(*level)).collect();
    let victim = match plan.victim {
        Victim::None => String::new(),
        victim => format!(", the {} killed first", victim.name()),
    };
    println!("as {who}{victim}: levels {}", names.join(", "));
    println!("{}", report::heading());
    let mut run = Run { judge, plan, names, faults: Faults::default(), trials: 0 };
    for adversary in &plan.adversaries {
        run.hold(*adversary, &levels)?;
    }
    if owner.is_some() && levels.contains(&Level::Cgroup) {
        run.hold(SETUID_ALLOWED, &[Level::Cgroup])?;
    }
    if owner.is_some() && levels.contains(&Level::Subreaper) && plan.victim == Victim::None {
        let verdicts = (0..plan.repeats).map(|_| run.judge.hold_unkillable()).collect::<Result<_, _>>()?;
        run.note(UNKILLABLE, verdicts);
    }
    println!("{} trials in {:.0} s\n", run.trials, started.elapsed().as_secs_f64());
    Ok(run.faults)
}

/// A plan under way.
struct Run<'a> {
    judge: Judge,
    plan: &'a Plan,
    /// The levels that are tried.
    names: Vec<&'static str>,
    faults: Faults,
    trials: usize,
}

impl Run<'_> {
    /// Tries one adversary at every level and moment.
    fn hold(&mut self, adversary: Adversary, levels: &[Level]) -> Result<(), String> {
        let mut verdicts = Vec::new();
        for level in levels {
            for moment in &self.plan.moments {
                for _ in 0..self.plan.repeats {
                    verdicts.push(self.judge.hold(adversary, *level, *moment)?);
                }
            }
        }
        self.note(adversary, verdicts);
        Ok(())
    }

    /// Prints what became of one adversary.
    fn note(&mut self, adversary: Adversary, verdicts: Vec<Verdict>) {
        self.trials += verdicts.len();
        let row = Row::new(adversary, verdicts);
        println!("{}", row.text(NOTES));
        if self.plan.by_level {
            println!("{}", row.by_level(&self.names));
        }
        self.faults.add(row.faults());
    }
}

fn moments(microseconds: &[u64]) -> Vec<Duration> {
    microseconds.iter().copied().map(Duration::from_micros).collect()
}

/// The kinds are a list here and one in the adversary. One that stands in only one of them would never be tried.
fn agree_with_the_adversary() -> Result<(), String> {
    let adversary = Programs::beside()?.adversary;
    let output = Command::new(&adversary).arg("list").output();
    let output = output.map_err(|error| format!("{}: {error}", adversary.display()))?;
    let theirs = String::from_utf8_lossy(&output.stdout);
    match theirs.lines().eq(ADVERSARIES.iter().map(|adversary| adversary.name)) {
        true => Ok(()),
        false => Err(format!("the adversary's kinds are not those of the judge: {theirs}")),
    }
}
