//! The exhaustive model: every order of events within bounds, over the production decisions.
//!
//! `cargo xtask model` explores it with stateright, depth first, and says how many worlds it has seen, within which bounds,
//! that nothing forbidden was found and that everything that should be possible is.

#![expect(clippy::print_stdout, reason = "its verb reports to a person")]

mod properties;
mod step;
mod world;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use lastword_core::view::row::PhaseName;
use lastword_core::{Job, Phase};
use stateright::{Checker, Model, Property};

pub use world::Bounds;

use properties::{ALWAYS, SOMETIMES};
use step::Action;
use world::World;

/// One part of a run: bounds, and the count of generated worlds at which it stops if it was not exhausted before.
pub struct Slice {
    /// How far.
    pub bounds: Bounds,
    /// Stop there; small slices never get there.
    pub generated_max: usize,
}

/// Everything at once: the bounds every run must have. Too many worlds to see all of them.
pub const WIDE: Bounds =
    Bounds { owners: 3, attempts: 2, incarnations: 5, crashes: 2, losses: 1, wishes: true };

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

/// Faults of the coverage table.
const FAULTS: [&str; 9] = [
    "owner crash",
    "keeper crash",
    "reboot",
    "lease over",
    "answer lost",
    "report lost",
    "late append",
    "cancel",
    "limit",
];

/// How often each fault was taken in each phase.
#[derive(Debug, Default)]
pub struct Coverage([[AtomicU64; FAULTS.len()]; 6]);

struct Lifecycle {
    bounds: Bounds,
    coverage: Arc<Coverage>,
}

fn fault_of(action: Action) -> Option<usize> {
    Some(match action {
        Action::Crash(_) => 0,
        Action::KeeperCrash(_) => 1,
        Action::Reboot(_) => 2,
        Action::LeaseOver(_) => 3,
        Action::LoseAnswer(_) => 4,
        Action::LoseReport(..) => 5,
        Action::Ghost(_) => 6,
        Action::DeliverCancel => 7,
        Action::GetLate => 8,
        _ => return None,
    })
}

fn phase_of(job: &Job) -> PhaseName {
    match job.phase {
        Phase::Unborn | Phase::Queued { .. } => PhaseName::Queued,
        Phase::Launching => PhaseName::Launching,
        Phase::Running => PhaseName::Running,
        Phase::Stopping { .. } => PhaseName::Stopping,
        Phase::Backoff { .. } => PhaseName::Backoff,
        Phase::Ended(_) => PhaseName::Ended,
    }
}

impl Model for Lifecycle {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.bounds)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        // What is broken stays broken; nothing is learned by going on.
        if world.broken.is_none() {
            step::actions(world, &self.bounds, actions);
            shuffle(world, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        if let Some(fault) = fault_of(action) {
            let phase = phase_of(&world.shelf.job) as usize;
            self.coverage.0[phase][fault].fetch_add(1, Ordering::Relaxed);
        }
        step::step(world, action).filter(|next| next != world)
    }

    fn properties(&self) -> Vec<Property<Lifecycle>> {
        let always = ALWAYS.iter().map(|(name, condition)| Property::always(name, *condition));
        let sometimes = SOMETIMES.iter().map(|(name, condition)| Property::sometimes(name, *condition));
        always.chain(sometimes).collect()
    }
}

/// Puts the ways on into an order of their own for each world, so that a run that stops at a count has been everywhere
/// a little, instead of everywhere at one end. The same world always gets the same order.
fn shuffle(world: &World, actions: &mut [Action]) {
    let mut hasher = std::hash::DefaultHasher::new();
    (world.shelf.log.len(), &world.keepers, world.crashes, world.losses).hash(&mut hasher);
    world.procs.iter().for_each(|proc| (&proc.doing, proc.life, proc.sending.is_some()).hash(&mut hasher));
    let mut state = hasher.finish();
    for end in (1..actions.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        actions.swap(end, (state >> 33) as usize % (end + 1));
    }
}

/// What a run has seen.
#[derive(Debug)]
pub struct Explored {
    /// Different worlds.
    pub states: usize,
    /// The longest way to one.
    pub depth: usize,
    /// Whether every world within the bounds was seen.
    pub complete: bool,
    /// What was violated, with the way there.
    pub violations: Vec<(&'static str, Vec<String>)>,
    /// What was reached of what should be possible.
    pub reached: Vec<&'static str>,
}

/// Explores the worlds of one slice. With `first_failure`, breadth first and only until something is wrong, which
/// gives the shortest way to it.
pub fn explore(slice: &Slice, coverage: &Arc<Coverage>, first_failure: bool) -> Explored {
    let model = Lifecycle { bounds: slice.bounds, coverage: Arc::clone(coverage) };
    let builder = model.checker().threads(2).target_state_count(slice.generated_max);
    let found = if first_failure {
        Found::of(builder.finish_when(stateright::HasDiscoveries::AnyFailures).spawn_bfs().join())
    } else {
        Found::of(builder.spawn_dfs().join())
    };
    let is_sometimes = |name: &str| SOMETIMES.iter().any(|(other, _)| *other == name);
    let (reached, violations) = found.discoveries.into_iter().partition(|(name, _)| is_sometimes(name));
    let reached: Vec<(&'static str, Vec<String>)> = reached;
    Explored {
        states: found.states,
        depth: found.depth,
        complete: found.generated < slice.generated_max,
        violations,
        reached: reached.into_iter().map(|(name, _)| name).collect(),
    }
}

struct Found {
    states: usize,
    generated: usize,
    depth: usize,
    discoveries: Vec<(&'static str, Vec<String>)>,
}

impl Found {
    fn of(checker: impl Checker<Lifecycle>) -> Found {
        let ways = checker.discoveries().into_iter();
        Found {
            states: checker.unique_state_count(),
            generated: checker.state_count(),
            depth: checker.max_depth(),
            discoveries: ways
                .map(|(name, path)| {
                    (name, path.into_actions().iter().map(|action| format!("{action:?}")).collect())
                })
                .collect(),
        }
    }
}

/// Cells that no schedule can fill, and why.
fn impossible(phase: PhaseName, fault: &str) -> bool {
    match (phase, fault) {
        // No tree exists, so no keeper does.
        (PhaseName::Queued | PhaseName::Backoff | PhaseName::Ended, "keeper crash" | "reboot") => true,
        // The clock of an attempt runs only while one is open.
        (PhaseName::Queued | PhaseName::Backoff | PhaseName::Ended, "limit") => true,
        // Nothing was launched or looked for before the first attempt.
        (PhaseName::Queued, "report lost") => true,
        _ => false,
    }
}

fn table(coverage: &Coverage) -> (String, Vec<String>) {
    let (mut text, mut holes) = (format!("{:<12}", "phase"), Vec::new());
    FAULTS.iter().for_each(|fault| text.push_str(&format!("{fault:>14}")));
    for phase in PhaseName::ALL {
        text.push_str(&format!("\n{:<12}", phase.as_str()));
        for (n, fault) in FAULTS.iter().enumerate() {
            let count = coverage.0[phase as usize][n].load(Ordering::Relaxed);
            match (count, impossible(phase, fault)) {
                (0, true) => text.push_str(&format!("{:>14}", "-")),
                (count, _) => text.push_str(&format!("{count:>14}")),
            }
            if count == 0 && !impossible(phase, fault) {
                holes.push(format!("{} x {fault}", phase.as_str()));
            }
        }
    }
    (text, holes)
}

/// The verb `model`: explores, reports, and fails on anything that is not as it should be.
pub fn main(arguments: &[String]) -> Result<(), String> {
    let slices: &[Slice] = match arguments {
        [] => &QUICK,
        [flag] if flag == "--full" => &FULL,
        _ => return Err("usage: model [--full]".to_owned()),
    };
    let coverage = Arc::new(Coverage::default());
    let (mut states, mut reached, mut violations) = (0, Vec::new(), Vec::new());
    let started = Instant::now();
    for slice in slices {
        let part = Instant::now();
        let seen = explore(slice, &coverage, false);
        let how = if seen.complete { "to the last world" } else { "stopped at the count" };
        println!("{:?}", slice.bounds);
        println!(
            "  {} states, {how}, depth {}, {:.1} s",
            seen.states,
            seen.depth,
            part.elapsed().as_secs_f64()
        );
        states += seen.states;
        reached.extend(seen.reached);
        violations.extend(seen.violations);
    }
    let seconds = started.elapsed().as_secs_f64();
    let unreached = SOMETIMES.iter().map(|(name, _)| *name).filter(|name| !reached.contains(name));
    let unreached: Vec<&str> = unreached.collect();
    let (table, holes) = table(&coverage);
    println!("states      {states} in {seconds:.1} s ({:.0}/s)", states as f64 / seconds);
    println!("rules       {} in every world, {} violated", ALWAYS.len(), violations.len());
    println!("can happen  {} of {} reached", SOMETIMES.len() - unreached.len(), SOMETIMES.len());
    println!("\nfaults taken in each phase (- cannot be):\n{table}");
    for (name, way) in &violations {
        println!("\nVIOLATED: {name}\n  {}", way.join("\n  "));
    }
    let failures = [
        (!violations.is_empty()).then(|| format!("{} rules violated", violations.len())),
        (!unreached.is_empty()).then(|| format!("not reached: {}", unreached.join(", "))),
        (!holes.is_empty()).then(|| format!("empty cells: {}", holes.join(", "))),
    ];
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}
