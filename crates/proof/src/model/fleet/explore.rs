//! Explores every state of the modelled fleet, breadth first, and keeps the graph of steps: from it follows from where the job can still end.
//!
//! Stateright has no such property, and its checkers keep no graph. States are told apart by a hash of 64 bits, as there.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;

use super::coverage::Coverage;
use super::rules::{ALWAYS, REACHABLE, is_good};
use super::step::{Action, actions, step};
use super::world::{Bounds, World};

/// What a run has seen.
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) steps: usize,
    /// Steps of the longest of the shortest ways.
    pub(super) depth: usize,
    /// Whether every state was seen.
    pub(super) is_complete: bool,
    pub(super) coverage: Coverage,
    /// The first violation, with the shortest way there.
    pub(super) violation: Option<(&'static str, Vec<Action>)>,
}

/// The states that were found, by number.
struct Graph {
    numbers: HashMap<u64, u32>,
    /// The step by which each was found first; the first state has none.
    found_by: Vec<Option<(u32, Action)>>,
    /// Steps from one state to another.
    edges: Vec<(u32, u32)>,
    /// States in which the job has ended.
    good: Vec<u32>,
}

/// A step to a state that may be new.
struct Next {
    from: u32,
    action: Action,
    fingerprint: u64,
    /// The state, unless it was known before.
    world: Option<Box<World>>,
}

/// What a thread has found.
#[derive(Default)]
struct Found {
    nexts: Vec<Next>,
    coverage: Coverage,
}

/// Explores everything within bounds, up to a number of states, or to the first violation.
pub(super) fn explore(bounds: &Bounds, states_max: usize) -> Explored {
    let first = World::new(bounds);
    let mut graph = Graph {
        numbers: HashMap::from([(first.fingerprint(), 0)]),
        found_by: vec![None],
        edges: Vec::new(),
        good: Vec::new(),
    };
    let mut frontier = vec![(0, first)];
    let (mut coverage, mut depth) = (Coverage::default(), 0);
    let mut violation = None;
    while !frontier.is_empty() && violation.is_none() && graph.found_by.len() < states_max {
        let mut new = Vec::new();
        for found in expand(&frontier, &graph.numbers) {
            coverage.add(&found.coverage);
            for next in found.nexts {
                let (number, world) = graph.add(next);
                let Some(world) = world else { continue };
                let broken = ALWAYS.iter().find(|(_, holds)| !holds(&world));
                violation = violation.or_else(|| broken.map(|(name, _)| (*name, world.broken, number)));
                if is_good(&world) {
                    graph.good.push(number);
                }
                new.push((number, world));
            }
        }
        depth += usize::from(!new.is_empty());
        frontier = new;
    }
    let is_complete = frontier.is_empty();
    let violation = match violation {
        Some((rule, broken, number)) => Some((broken.unwrap_or(rule), graph.way_to(number))),
        None if is_complete => graph.first_stuck().map(|number| (REACHABLE, graph.way_to(number))),
        None => None,
    };
    let (states, steps) = (graph.found_by.len(), graph.edges.len());
    Explored { states, steps, depth, is_complete, coverage, violation }
}

/// Takes every step from some states, on all processors.
fn expand(frontier: &[(u32, World)], known: &HashMap<u64, u32>) -> Vec<Found> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = frontier.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let shares = frontier.chunks(share).map(|states| scope.spawn(|| steps_from(states, known)));
        let shares: Vec<_> = shares.collect();
        shares.into_iter().map(|share| share.join().expect("a step does not panic")).collect()
    })
}

fn steps_from(states: &[(u32, World)], known: &HashMap<u64, u32>) -> Found {
    let mut found = Found::default();
    for (number, world) in states {
        let own = world.fingerprint();
        for action in actions(world) {
            let next = step(world, action);
            found.coverage.count(next.notes);
            let fingerprint = next.fingerprint();
            if fingerprint == own {
                continue;
            }
            let world = (!known.contains_key(&fingerprint)).then(|| Box::new(next));
            found.nexts.push(Next { from: *number, action, fingerprint, world });
        }
    }
    found
}

impl Graph {
    /// Adds a step. Returns the number of the state that it leads to, with the state if it is new.
    fn add(&mut self, next: Next) -> (u32, Option<World>) {
        let new = self.found_by.len() as u32;
        let number = *self.numbers.entry(next.fingerprint).or_insert(new);
        self.edges.push((next.from, number));
        if number < new {
            return (number, None);
        }
        self.found_by.push(Some((next.from, next.action)));
        (number, next.world.map(|world| *world))
    }

    /// Returns the shortest way to a state.
    fn way_to(&self, number: u32) -> Vec<Action> {
        let mut way = VecDeque::new();
        let mut at = number;
        while let Some((from, action)) = self.found_by[at as usize] {
            way.push_front(action);
            at = from;
        }
        way.into()
    }

    /// Returns the first state from which no way leads to a state in which the job has ended.
    fn first_stuck(&self) -> Option<u32> {
        let mut starts = vec![0u32; self.found_by.len() + 1];
        self.edges.iter().for_each(|(_, to)| starts[*to as usize + 1] += 1);
        for n in 1..starts.len() {
            starts[n] += starts[n - 1];
        }
        let (mut sources, mut filled) = (vec![0u32; self.edges.len()], starts.clone());
        for (from, to) in &self.edges {
            let place = &mut filled[*to as usize];
            sources[*place as usize] = *from;
            *place += 1;
        }
        let mut can_end = vec![false; self.found_by.len()];
        let mut queue = self.good.clone();
        queue.iter().for_each(|number| can_end[*number as usize] = true);
        while let Some(number) = queue.pop() {
            let (start, end) = (starts[number as usize], starts[number as usize + 1]);
            for from in &sources[start as usize..end as usize] {
                if !std::mem::replace(&mut can_end[*from as usize], true) {
                    queue.push(*from);
                }
            }
        }
        can_end.iter().position(|can_end| !can_end).map(|number| number as u32)
    }
}
