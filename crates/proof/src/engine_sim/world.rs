//! One schedule: a clock, a queue of what is to happen, and everybody it happens to.
//!
//! The world is plain data behind one lock. The engine's journal, its trees and its clients each take the lock for a moment and
//! never wait while they have it; the one who runs a life of the engine lets happen what is due.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use lastword_core::receipt::Exit;
use lastword_core::view::row::PhaseName;
use lastword_core::{Awake, JobId, Now, Timestamp};
use lastword_store::memory::Ledger;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::check::Known;
use super::clients::Client;
use super::fault::{Fault, TABLE};
use super::journal::Arrival;
use super::keeper::{Key, Launched, Place};
use super::plan::Plan;
use super::trees::LaunchOrder;
use crate::random::Random;
use crate::schedules::{Coverage, Queue, Trace, Violation};

/// Where the wall clock stands at first: far enough from zero to jump back.
pub(super) const EPOCH_MS: u64 = 100_000;

/// Steps after which a schedule is stuck, whatever the clock says.
const STEPS_MAX: u32 = 20_000;

/// Something that is to happen.
pub(super) enum Doing {
    /// The engine starts.
    Start,
    /// A call reaches the journal.
    Arrive(u64),
    /// The engine, which went down, is gone.
    Quit(u32),
    /// The journal can be reached again.
    JournalBack,
    /// A launch reaches the nursery.
    Launch(Box<LaunchOrder>, oneshot::Sender<Launched>),
    /// A tree comes to its end.
    Exit(Key, Exit),
    /// A stop climbs a rung.
    Climb(Key, u32),
    /// A deadline is reached.
    Deadline(Key, Awake),
    /// A guard has ended the tree of its dead shim.
    GuardEnds(Key),
    /// A client asks for something.
    Ask(usize),
    /// A fault strikes.
    Strike,
    /// The faults are over.
    Heal,
    /// Patience is over: what still runs is cancelled.
    Impatience,
    /// A look at what should not take long.
    Audit,
}

/// The engine's life, as the world sees it.
#[derive(Default)]
pub(super) struct Life {
    /// Counts lives.
    pub(super) no: u32,
    /// When it began, by tokio's clock and by the world's; none while there is none.
    began: Option<(Instant, u64)>,
    /// Nothing it does reaches anybody any more.
    pub(super) dead: bool,
    /// Calls and effects so far.
    pub(super) deeds: u32,
    /// It said that it is ready.
    pub(super) ready: bool,
    /// It dies at this one.
    pub(super) dies_at: Option<u32>,
    /// Keepers it has a line to; cut ones are false.
    pub(super) lines: BTreeMap<JobId, (Key, bool)>,
    /// Jobs whose environment it kept.
    pub(super) kept: BTreeSet<JobId>,
    /// It has gone down as it was asked to: nothing more may be written.
    pub(super) went_down: bool,
}

/// Everything there is in a schedule.
pub(super) struct World {
    pub(super) random: Random,
    /// What the engine names things with, apart from the rest: a name more does not change what happens.
    pub(super) names: Random,
    now: u64,
    queue: Queue<Doing>,
    /// Something was planned: whoever sleeps until the next must look again.
    replan: bool,
    pub(super) trace: Trace,
    pub(super) plan: Plan,
    pub(super) ledger: Ledger,
    pub(super) arrivals: BTreeMap<u64, Arrival>,
    pub(super) journal_away: bool,
    /// When the last write that is on its way is done.
    pub(super) writes_until: u64,
    pub(super) life: Life,
    pub(super) places: BTreeMap<Key, Place>,
    /// Environments that are kept, by their mark.
    pub(super) envs: BTreeMap<JobId, String>,
    pub(super) boot: u32,
    booted_at: u64,
    skew_ms: i64,
    /// The latest moment that the wall clock ever showed.
    pub(super) wall_max: Timestamp,
    pub(super) clients: Vec<Client>,
    /// Clients that are to ask now, for whoever can start them.
    pub(super) asking: Vec<usize>,
    pub(super) witness: BTreeMap<JobId, Known>,
    pub(super) coverage: Coverage,
    pub(super) faults: u32,
    pub(super) calm_since: Option<u64>,
    /// An answer was lost although all was well.
    pub(super) lost_late: bool,
    /// What takes too long, and since when.
    pub(super) since: BTreeMap<(JobId, &'static str), u64>,
    pub(super) violation: Option<Violation>,
    pub(super) steps: u32,
    pub(super) over: bool,
    counter: u64,
}

/// A handle of the world.
#[derive(Clone)]
pub(super) struct Sim(Arc<Shared>);

struct Shared {
    world: Mutex<World>,
    planned: Notify,
}

impl Sim {
    pub(super) fn new(seed: u64, readable: bool) -> Sim {
        let mut world = World::new(seed, readable);
        world.begin();
        Sim(Arc::new(Shared { world: Mutex::new(world), planned: Notify::new() }))
    }

    /// Does something with the world, at the present moment of its clock.
    pub(super) fn with<R>(&self, deed: impl FnOnce(&mut World) -> R) -> R {
        let mut world = self.0.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.look_at_clock();
        let result = deed(&mut world);
        if std::mem::take(&mut world.replan) {
            self.0.planned.notify_one();
        }
        result
    }

    /// Waits until something new was planned.
    pub(super) async fn planned(&self) {
        self.0.planned.notified().await;
    }

    /// Returns the world, when nobody else has it any more.
    pub(super) fn into_world(self) -> Option<World> {
        let shared = Arc::into_inner(self.0)?;
        Some(shared.world.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl World {
    fn new(seed: u64, readable: bool) -> World {
        // Neighbouring seeds must not give neighbouring schedules.
        let mut random = Random::new(seed ^ 0x5eed_e461_e000_0001);
        let plan = Plan::draw(&mut random);
        World {
            plan,
            names: Random::new(seed),
            random,
            now: 0,
            queue: Queue::default(),
            replan: false,
            trace: Trace::new(readable),
            ledger: Ledger::new(1),
            arrivals: BTreeMap::new(),
            journal_away: false,
            writes_until: 0,
            life: Life::default(),
            places: BTreeMap::new(),
            envs: BTreeMap::new(),
            boot: 1,
            booted_at: 0,
            skew_ms: 0,
            wall_max: Timestamp(EPOCH_MS),
            clients: Vec::new(),
            asking: Vec::new(),
            witness: BTreeMap::new(),
            coverage: Coverage::of(TABLE),
            faults: 0,
            calm_since: None,
            lost_late: false,
            since: BTreeMap::new(),
            violation: None,
            steps: 0,
            over: false,
            counter: 0,
        }
    }

    /// Returns the moment of the world's clock, in milliseconds.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Returns what the wall clock shows.
    pub(super) fn wall(&self) -> Timestamp {
        Timestamp((EPOCH_MS + self.now).saturating_add_signed(self.skew_ms))
    }

    /// Returns what the awake clock shows.
    pub(super) fn awake(&self) -> Awake {
        Awake(self.now.saturating_sub(self.booted_at))
    }

    /// Returns both clocks, to somebody who may act on it.
    pub(super) fn clocks(&mut self) -> Now {
        let wall = self.wall();
        self.wall_max = self.wall_max.max(wall);
        Now { wall, awake: self.awake() }
    }

    pub(super) fn jump_clock(&mut self, ms: i64) {
        self.skew_ms += ms;
    }

    fn look_at_clock(&mut self) {
        if let Some((began, from)) = self.life.began {
            let passed = Instant::now().duration_since(began).as_millis() as u64;
            self.now = self.now.max(from + passed);
        }
    }

    /// A life of the engine begins.
    pub(super) fn engine_begins(&mut self) {
        let no = self.life.no + 1;
        let dies_at = match self.calm_since {
            None if self.random.chance(65) => Some(1 + self.random.below(70) as u32),
            _ => None,
        };
        self.life = Life { no, began: Some((Instant::now(), self.now)), dies_at, ..Life::default() };
        self.note(0xe461);
        self.say(|_| format!("the engine starts, life {no}"));
    }

    /// The engine says that it is ready.
    pub(super) fn engine_is_ready(&mut self) {
        self.life.ready = true;
        self.replan = true;
        self.say(|_| "the engine is ready".to_owned());
    }

    /// Returns the moment of tokio's clock at which the world's clock shows `at`.
    pub(super) fn instant(&self, at: u64) -> Option<Instant> {
        let (began, from) = self.life.began?;
        Some(began + std::time::Duration::from_millis(at.saturating_sub(from)))
    }

    /// The engine is dead: what it had in memory is gone, and what was on its way to the journal counts or does not.
    pub(super) fn engine_dies(&mut self) {
        self.life.dead = true;
        self.replan = true;
        let arrivals = std::mem::take(&mut self.arrivals);
        self.writes_until = 0;
        for (_, arrival) in arrivals {
            // Of what was sent, the first counts before the second.
            if self.random.chance(50) {
                break;
            }
            arrival(self);
        }
    }

    /// The engine has gone down as it was asked to, and will exit.
    pub(super) fn engine_goes_down(&mut self) {
        self.life.went_down = true;
        let ms = self.random.below(40);
        self.after(ms, Doing::Quit(self.life.no));
    }

    /// Nothing of the engine is left.
    pub(super) fn engine_is_down(&mut self) {
        self.life.lines.clear();
        self.arrivals.clear();
        self.clients_lose_the_engine();
        let away = match self.calm_since {
            Some(_) => 50,
            None if self.random.chance(60) => self.random.below(200),
            None => self.random.below(2_500),
        };
        let off = self.booted_at.saturating_sub(self.now);
        self.after(off + away + 1, Doing::Start);
    }

    /// The host goes off, and comes back after a while with another boot.
    pub(super) fn reboot(&mut self) {
        let off = 100 + self.random.below(2_000);
        self.say(|_| format!("the host boots again, {off} ms"));
        self.all_trees_die();
        self.boot += 1;
        self.engine_dies();
        self.booted_at = self.now + off;
    }

    /// Lets happen what is due; reports whether the life of the engine, or the schedule, is over.
    pub(super) fn happen(&mut self) -> bool {
        while self.queue.next_at().is_some_and(|at| at <= self.now) {
            let Some((_, doing)) = self.queue.pop() else { break };
            self.step();
            self.do_it(doing);
            if self.is_over() {
                break;
            }
        }
        let over = self.life.dead || self.is_over();
        if over {
            // Outside of the engine's runtime, tokio's clock is the real one.
            self.life.began = None;
        }
        over
    }

    /// Lets time pass without an engine until one is to start; reports whether one is.
    pub(super) fn pass_without_engine(&mut self) -> bool {
        while !self.is_over() {
            let Some((at, doing)) = self.queue.pop() else { return false };
            self.step();
            self.now = self.now.max(at);
            if matches!(doing, Doing::Start) {
                return true;
            }
            self.do_it(doing);
        }
        false
    }

    /// Counts a step.
    pub(super) fn step(&mut self) {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            self.fail("stuck", |world| format!("{} steps, at {} ms", world.steps, world.now));
        }
    }

    fn is_over(&self) -> bool {
        self.over || self.violation.is_some()
    }

    fn do_it(&mut self, doing: Doing) {
        match doing {
            Doing::Start => {}
            Doing::Arrive(no) => {
                if let Some(arrival) = self.arrivals.remove(&no) {
                    arrival(self);
                }
            }
            Doing::Quit(life) if life == self.life.no => self.engine_dies(),
            Doing::Quit(_) => {}
            Doing::JournalBack => self.journal_away = false,
            Doing::Launch(order, answer) => self.launch_arrives(*order, answer),
            Doing::Exit(key, exit) => self.exit(key, exit),
            Doing::Climb(key, run) => self.climb(key, run),
            Doing::Deadline(key, at) => self.deadline_comes(key, at),
            Doing::GuardEnds(key) => self.guard_ends(key),
            Doing::Ask(client) => self.ask_now(client),
            Doing::Strike => self.strike(),
            Doing::Heal => self.heal(),
            Doing::Impatience => self.impatience(),
            Doing::Audit => self.audit(),
        }
    }

    /// Returns when something is to happen next.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.queue.next_at()
    }

    /// Plans something.
    pub(super) fn after(&mut self, ms: u64, doing: Doing) {
        self.queue.push(self.now + ms, doing);
        self.replan = true;
    }

    /// Notes that a promise was broken; the first one counts.
    pub(super) fn fail(&mut self, name: &'static str, detail: impl FnOnce(&World) -> String) {
        if self.violation.is_none() {
            let detail = detail(self);
            self.violation = Some(Violation { name, detail });
            self.replan = true;
        }
    }

    /// Reports whether a fault strikes now.
    pub(super) fn unlucky(&mut self, percent: u64) -> bool {
        self.calm_since.is_none() && self.random.chance(percent)
    }

    /// Counts a fault that concerns one job, or all of them.
    pub(super) fn struck(&mut self, fault: Fault, job: Option<JobId>) {
        self.faults += 1;
        self.note(0xfa17 + fault as u64);
        let struck: Vec<PhaseName> = match job {
            Some(job) => self.witness.get(&job).and_then(Known::phase).into_iter().collect(),
            None => self.witness.values().filter_map(Known::phase).collect(),
        };
        for phase in struck {
            self.coverage.struck(fault as usize, phase);
        }
        self.say(|world| match job {
            Some(job) => format!("FAULT {} for {}", fault.name(), world.name(job)),
            None => format!("FAULT {}", fault.name()),
        });
    }

    /// Notes a number, and when.
    pub(super) fn note(&mut self, word: u64) {
        self.trace.note(word ^ (self.now << 20));
    }

    /// Notes a line, if somebody will read it.
    pub(super) fn say(&mut self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_readable() {
            let line = line(self);
            self.trace.say(self.now, || line);
        }
    }

    /// Returns a short name of a job.
    pub(super) fn name(&self, job: JobId) -> String {
        let planned = self.plan.early.iter().chain(&self.plan.late).position(|planned| planned.id == job);
        planned.map_or_else(|| format!("retry {}", job), |no| format!("job {no}"))
    }

    /// Returns a number that was not there before.
    pub(super) fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    pub(super) fn next_pid(&mut self) -> i32 {
        1_000 + self.count() as i32
    }
}
