//! Attempts side by side: each worker has a harness of its own, and all note into one table.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lastword_core::receipt::Level;

use super::case::{Case, Variant};
use super::harness::{Harness, Recovery, Story};
use super::table::Table;
use crate::place::Programs;
use crate::tracer::{Aim, Blow, Call, Plan, Point, Role, Side};

/// Attempts that may end before their point until a series is over: how many calls a role makes depends on timing.
const UNREACHED_MAX: usize = 6;

/// The workers of a run.
pub(super) struct Crew {
    stands: Vec<Mutex<Harness>>,
    table: Mutex<Table>,
    recovery: Recovery,
    /// Changed on the way to the judge; identity, but for a bug that is seeded in the checker's eyes.
    bend: fn(&mut Story),
}

impl Crew {
    pub(super) fn new(
        folder: &Path,
        workers: usize,
        recovery: Recovery,
        bend: fn(&mut Story),
    ) -> Result<Crew, String> {
        let programs = Programs::beside()?;
        let harness =
            |number: usize| Harness::new(programs.clone(), folder, &format!("w{number}")).map(Mutex::new);
        let stands = (0..workers).map(harness).collect::<Result<_, _>>()?;
        Ok(Crew { stands, table: Mutex::new(Table::default()), recovery, bend })
    }

    /// Returns the levels to try: the strongest that needs no control group, and what this machine has above it.
    pub(super) fn levels(&self) -> Vec<Level> {
        let here = lock(&self.stands[0]).levels().to_vec();
        let plain = here.iter().filter(|level| **level < Level::Cgroup).max().copied();
        let above = here.iter().filter(|level| **level >= Level::Cgroup).copied();
        plain.into_iter().chain(above).collect()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// Lists the calls of a role in an undisturbed attempt, which must come out clean.
    pub(super) fn list(&self, variant: Variant, level: Level, role: Role) -> Result<Vec<Call>, String> {
        let first = Aim { role, point: Point::Nth(1), side: Side::Entry, blow: Blow::None };
        let case = Case { variant, level, plan: Plan { first, times: 1, then: None } };
        let story = lock(&self.stands[0]).attempt(&case, Recovery::Locate)?;
        self.table().note(&case, &story);
        Ok(story.seen.calls)
    }

    /// Tries each of these cases.
    pub(super) fn each(&self, cases: &[Case]) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        self.work(|harness| {
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.one(harness, case)?;
            }
            Ok(())
        })
    }

    /// Tries the first, the second, … until the role ends before its point is reached.
    pub(super) fn series(&self, case: impl Fn(usize) -> Case + Sync) -> Result<(), String> {
        let (next, unreached, over) = (AtomicUsize::new(1), AtomicUsize::new(0), AtomicBool::new(false));
        self.work(|harness| {
            while !over.load(Ordering::Relaxed) {
                if !self.one(harness, &case(next.fetch_add(1, Ordering::Relaxed)))?
                    && unreached.fetch_add(1, Ordering::Relaxed) + 1 >= UNREACHED_MAX
                {
                    over.store(true, Ordering::Relaxed);
                }
            }
            Ok(())
        })
    }

    fn one(&self, harness: &mut Harness, case: &Case) -> Result<bool, String> {
        let mut story = harness.attempt(case, self.recovery)?;
        (self.bend)(&mut story);
        Ok(self.table().note(case, &story))
    }

    fn work(&self, job: impl Fn(&mut Harness) -> Result<(), String> + Sync) -> Result<(), String> {
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                self.stands.iter().map(|harness| scope.spawn(|| job(&mut lock(harness)))).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".into())))
        })
    }
}

/// A worker that panicked has said so; what it held is still good to read.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
