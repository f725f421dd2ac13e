//! The exhaustive model: every order of events within bounds, over the production decisions.
//!
//! `cargo xtask model` explores two of them with stateright, depth first: the life of a job among owners that crash
//! (`lifecycle`), and an agent's session among requests (`sessions`). It says how many worlds it has seen, within which bounds,
//! that nothing forbidden was found and that everything that should be possible is. With `--fleet` it explores hosts that share a journal
//! (`fleet`).

#![expect(clippy::print_stdout, reason = "its verb reports to a person")]

mod coverage;
pub(crate) mod fleet;
mod lifecycle;
mod sessions;
mod step;
mod world;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use coverage::Coverage;
use lifecycle::Lifecycle;
use sessions::Sessions;
use world::Bounds;

/// One part of a run: bounds, and the count of generated worlds at which it stops if it was not exhausted before.
struct Slice {
    /// How far.
    bounds: Bounds,
    /// Stop there; small slices never get there.
    generated_max: usize,
}

/// Everything at once: the bounds every run must have. Too many worlds to see all of them.
const WIDE: Bounds = Bounds { owners: 3, attempts: 2, incarnations: 5, crashes: 2, losses: 1, wishes: true };

/// What every change is checked with: two small slices to the last world, and a part of the wide one.
const QUICK: [Slice; 6] = [
    Slice { bounds: small(1, 2, 1, 0), generated_max: NEVER },
    Slice { bounds: small(1, 1, 0, 1), generated_max: NEVER },
    Slice { bounds: small(2, 2, 0, 0), generated_max: NEVER },
    Slice { bounds: Bounds { attempts: 2, wishes: false, ..small(1, 2, 1, 1) }, generated_max: NEVER },
    Slice { bounds: Bounds { wishes: false, ..small(2, 3, 1, 1) }, generated_max: NEVER },
    Slice { bounds: WIDE, generated_max: 2_500_000 },
];

/// The long run: larger slices to the last world, and more of the wide one.
const FULL: [Slice; 5] = [
    Slice { bounds: Bounds { attempts: 2, ..small(1, 2, 1, 0) }, generated_max: NEVER },
    Slice { bounds: small(1, 2, 1, 1), generated_max: NEVER },
    Slice { bounds: small(2, 2, 0, 1), generated_max: NEVER },
    Slice { bounds: Bounds { wishes: false, ..WIDE }, generated_max: 20_000_000 },
    Slice { bounds: WIDE, generated_max: 80_000_000 },
];

/// Bounds with one attempt (two, when the first never started).
const fn small(owners: usize, incarnations: u8, crashes: u8, losses: u8) -> Bounds {
    Bounds { owners, attempts: 1, incarnations, crashes, losses, wishes: true }
}

/// No small slice generates so many.
const NEVER: usize = 1 << 40;

/// Signals and requests of the second model: quick, and in the long run. Each is looked at with agents that stay open between turns as well.
const TALK: [Sessions; 2] =
    [Sessions { signals: 5, requests: 1, open: false }, Sessions { signals: 6, requests: 2, open: false }];

/// What a run has seen.
struct Explored {
    states: usize,
    depth: usize,
    generated: usize,
    /// What was violated, with the way there.
    violations: Vec<(&'static str, Vec<String>)>,
    /// What was reached of what should be possible.
    reached: Vec<&'static str>,
}

/// How to look: for everything, or only until something is wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Depth first, in little memory.
    Everywhere,
    /// Breadth first, which gives the shortest way to it.
    ForTheFirstFailure,
}

fn explore<M>(model: M, generated_max: usize, look: Look) -> Explored
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + Send + Sync + PartialEq,
    M::Action: Clone + Debug + Send + Sync + PartialEq,
{
    let builder = model.checker().threads(2).target_state_count(generated_max);
    match look {
        Look::Everywhere => summed_up(&builder.spawn_dfs().join()),
        Look::ForTheFirstFailure => {
            summed_up(&builder.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join())
        }
    }
}

fn summed_up<M>(checker: &impl Checker<M>) -> Explored
where
    M: Model,
    M::State: Hash + Debug + PartialEq + Clone,
    M::Action: Clone + Debug + PartialEq,
{
    let (mut violations, mut reached) = (Vec::new(), Vec::new());
    for (name, path) in checker.discoveries() {
        let expected = checker.model().properties().into_iter().find(|property| property.name == name);
        match expected.map(|property| property.expectation) {
            Some(stateright::Expectation::Sometimes) => reached.push(name),
            _ => {
                let way = path.into_actions().iter().map(|action| format!("{action:?}")).collect();
                violations.push((name, way));
            }
        }
    }
    let (states, generated) = (checker.unique_state_count(), checker.state_count());
    Explored { states, depth: checker.max_depth(), generated, violations, reached }
}

fn open(talk: Sessions) -> Sessions {
    Sessions { open: true, ..talk }
}

/// Looks for a violation, as a seeded bug must cause one: its name and the shortest way to it.
pub fn find(generated_max: usize) -> Option<(&'static str, Vec<String>)> {
    let look = Look::ForTheFirstFailure;
    let talks = [TALK[0], open(TALK[0])];
    let talk =
        talks.into_iter().find_map(|talk| explore(talk, generated_max, look).violations.into_iter().next());
    talk.or_else(|| {
        let bounds = Bounds { owners: 2, ..WIDE };
        let model = Lifecycle { bounds, coverage: Arc::new(Coverage::default()) };
        explore(model, generated_max, look).violations.into_iter().next()
    })
}

/// What a whole run has seen.
#[derive(Default)]
struct Total {
    states: usize,
    violations: Vec<(&'static str, Vec<String>)>,
    reached: Vec<&'static str>,
}

impl Total {
    fn add(&mut self, name: &dyn Debug, generated_max: usize, run: impl FnOnce() -> Explored) {
        let started = Instant::now();
        let seen = run();
        let how = if seen.generated < generated_max { "to the last world" } else { "stopped at the count" };
        let seconds = started.elapsed().as_secs_f64();
        println!("{name:?}\n  {} states, {how}, depth {}, {seconds:.1} s", seen.states, seen.depth);
        self.states += seen.states;
        self.violations.extend(seen.violations);
        self.reached.extend(seen.reached);
    }
}

const USAGE: &str = "usage: model [--fleet [--bug NAME]] [--full]";

/// The verb `model`: explores, reports, and fails on anything that is not as it should be.
pub fn main(arguments: &[String]) -> Result<(), String> {
    let (slices, talk): (&[Slice], _) = match arguments {
        [] => (&QUICK, TALK[0]),
        [flag] if flag == "--full" => (&FULL, TALK[1]),
        [flag, rest @ ..] if flag == "--fleet" => {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            return match rest.as_slice() {
                [] => fleet::main(false),
                ["--full"] => fleet::main(true),
                ["--bug", name] => fleet::expect(name),
                _ => Err(USAGE.to_owned()),
            };
        }
        _ => return Err(USAGE.to_owned()),
    };
    let coverage = Arc::new(Coverage::default());
    let mut total = Total::default();
    let started = Instant::now();
    for slice in slices {
        let model = Lifecycle { bounds: slice.bounds, coverage: Arc::clone(&coverage) };
        total.add(&slice.bounds, slice.generated_max, || {
            explore(model, slice.generated_max, Look::Everywhere)
        });
    }
    for talk in [talk, open(talk)] {
        total.add(&talk, NEVER, || explore(talk, NEVER, Look::Everywhere));
    }
    report(&total, &coverage, started.elapsed().as_secs_f64())
}

fn report(total: &Total, coverage: &Coverage, seconds: f64) -> Result<(), String> {
    let rules = lifecycle::ALWAYS.len() + sessions::ALWAYS.len();
    let possible = lifecycle::SOMETIMES.iter().map(|(name, _)| *name);
    let possible: Vec<&str> = possible.chain(sessions::SOMETIMES.iter().map(|(name, _)| *name)).collect();
    let unreached: Vec<&str> =
        possible.iter().copied().filter(|name| !total.reached.contains(name)).collect();
    let (table, holes) = coverage::table(coverage);
    println!("states      {} in {seconds:.1} s ({:.0}/s)", total.states, total.states as f64 / seconds);
    println!("rules       {rules} in every world, {} violated", total.violations.len());
    println!("can happen  {} of {} reached", possible.len() - unreached.len(), possible.len());
    println!("\nfaults taken in each phase (- cannot be):\n{table}");
    for (name, way) in &total.violations {
        println!("\nVIOLATED: {name}\n  {}", way.join("\n  "));
    }
    let failures = [
        (!total.violations.is_empty()).then(|| format!("{} rules violated", total.violations.len())),
        (!unreached.is_empty()).then(|| format!("not reached: {}", unreached.join(", "))),
        (!holes.is_empty()).then(|| format!("empty cells: {}", holes.join(", "))),
    ];
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}
