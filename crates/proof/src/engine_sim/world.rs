//! One schedule: a clock, a queue of what is to happen, and everything it happens to.
//!
//! The world is plain data behind one lock. The engines' journal, their hosts and their clients each take the lock for a moment and never
//! wait while they have it. All engines run on one runtime: whatever a dead one still tries to do waits for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use lastword_core::receipt::{Exit, Tree};
use lastword_core::report::Found;
use lastword_core::view::row::PhaseName;
use lastword_core::{AttemptNo, Awake, Epoch, Job, JobId, Now, Timestamp};
use lastword_store::memory::Ledger;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::fault::{Fault, TABLE};
use super::plan::{Leader, Plan};
use super::wish::Client;
use super::witness::Watched;
use crate::random::Random;
use crate::schedules::{Coverage, Queue, Trace, Violation};
use crate::world::host::{EPOCH_MS, Host};
use crate::world::place::{Key, Place, Places};
use crate::world::witness::of;

/// Steps after which a schedule is stuck, whatever the clock says.
const STEPS_MAX: u32 = 20_000;

/// Something that is to happen.
pub(super) enum Doing {
    /// The engine of a host starts.
    Start(usize),
    /// A call of a host's engine reaches the journal.
    Arrive(usize, u64),
    /// The engine of a host, which was shut down in this life, exits.
    Quit(usize, u32),
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

/// A call that is on its way to the journal.
pub(super) type Arrival = Box<dyn FnOnce(&mut World) + Send>;

/// A launch on its way to the nursery, which is a process of its own: it arrives whatever becomes of the engine.
pub(super) struct LaunchOrder {
    pub(super) job: Job,
    pub(super) epoch: Epoch,
    pub(super) attempt: AttemptNo,
    pub(super) host: usize,
    /// A boot ends what was on its way.
    pub(super) boot: u32,
}

/// What came of a launch.
pub(super) enum Launched {
    /// The tree is there.
    Tree(Tree, Awake),
    /// Nothing was started, and nothing will be.
    Failed(String),
    /// Another launch was there before: this is what is to be said of it.
    Found(Found),
}

/// The life of a host's engine, as the world sees it.
#[derive(Default)]
pub(super) struct Life {
    /// Counts lives.
    pub(super) no: u32,
    /// It runs: what it does reaches the world.
    pub(super) up: bool,
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
    /// It was shut down as it was asked to: nothing more may be written.
    pub(super) went_down: bool,
    /// Its calls on their way to the journal, in the order in which they were sent.
    pub(super) arrivals: BTreeMap<u64, Arrival>,
    /// When the last of its writes that are on their way is done.
    pub(super) writes_until: u64,
}

impl Life {
    /// Reports whether clients may ask.
    pub(super) fn is_serving(&self) -> bool {
        self.up && self.ready && !self.went_down
    }
}

/// Everything there is in a schedule.
pub(super) struct World {
    pub(super) random: Random,
    /// What the engines name things with, apart from the rest: a name more does not change what happens.
    pub(super) names: Random,
    began: Option<Instant>,
    now: u64,
    queue: Queue<Doing>,
    /// Something was planned: whatever sleeps until the next must look again.
    replan: bool,
    pub(super) trace: Trace,
    pub(super) plan: Plan,
    pub(super) ledger: Ledger,
    pub(super) journal_away: bool,
    pub(super) hosts: Vec<Host>,
    /// The engine of each host.
    pub(super) lives: Vec<Life>,
    /// Hosts whose engine is to start now.
    pub(super) starting: Vec<usize>,
    pub(super) places: Places<Leader>,
    /// Wakes whatever watches a place.
    pub(super) watches: BTreeMap<Key, Arc<Notify>>,
    /// Environments that are kept on a host, by their mark.
    pub(super) envs: BTreeMap<(usize, JobId), String>,
    /// Hosts that were given the environment of a job.
    pub(super) homes: BTreeSet<(usize, JobId)>,
    /// The latest moment that a wall clock ever showed.
    pub(super) wall_max: Timestamp,
    pub(super) clients: Vec<Client>,
    /// Clients that are to ask as soon as their engine is ready.
    pub(super) asking: Vec<usize>,
    pub(super) witness: BTreeMap<JobId, Watched>,
    pub(super) coverage: Coverage,
    pub(super) faults: u32,
    pub(super) calm_since: Option<u64>,
    /// An answer was lost although all was well.
    pub(super) lost_late: bool,
    /// What takes too long, and since when.
    pub(super) since: BTreeMap<(JobId, &'static str), u64>,
    /// Attempts whose keeper was told to stop them while the journal was away.
    pub(super) held_stops: Vec<(JobId, AttemptNo)>,
    pub(super) violation: Option<Violation>,
    pub(super) steps: u32,
    pub(super) over: bool,
    counter: u64,
}

/// A handle of the world.
#[derive(Clone)]
pub(super) struct Sim(Arc<Shared>);

/// A life of a host's engine, for everything that acts on its behalf.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) sim: Sim,
    pub(super) host: usize,
    pub(super) life: u32,
}

impl Process {
    /// Reports whether this life still goes on.
    pub(super) fn is_alive(&self, world: &World) -> bool {
        let life = &world.lives[self.host];
        life.up && life.no == self.life
    }

    /// Does something with the world, if this life still goes on; otherwise waits for ever.
    pub(super) async fn act<R>(&self, deed: impl FnOnce(&mut World) -> R) -> R {
        let done = self.sim.with(|world| self.is_alive(world).then(|| deed(world)));
        match done {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }
}

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

    /// Returns the world, if this is the last handle to it.
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
        let hosts = plan.hosts;
        World {
            plan,
            names: Random::new(seed),
            random,
            began: None,
            now: 0,
            queue: Queue::default(),
            replan: false,
            trace: Trace::new(readable),
            ledger: Ledger::new(1),
            journal_away: false,
            hosts: (0..hosts).map(|_| Host::default()).collect(),
            lives: (0..hosts).map(|_| Life::default()).collect(),
            starting: Vec::new(),
            places: Places::new(),
            watches: BTreeMap::new(),
            envs: BTreeMap::new(),
            homes: BTreeSet::new(),
            wall_max: Timestamp(EPOCH_MS),
            clients: Vec::new(),
            asking: Vec::new(),
            witness: BTreeMap::new(),
            coverage: Coverage::of(TABLE),
            faults: 0,
            calm_since: None,
            lost_late: false,
            since: BTreeMap::new(),
            held_stops: Vec::new(),
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

    /// Returns both clocks of a host. An engine that is alive may act on it.
    pub(super) fn clocks(&mut self, process: &Process) -> Now {
        let now = self.hosts[process.host].clocks(self.now);
        if process.is_alive(self) {
            self.wall_max = self.wall_max.max(now.wall);
        }
        now
    }

    /// Returns one of the hosts.
    pub(super) fn any_host(&mut self) -> usize {
        match self.hosts.len() {
            1 => 0,
            hosts => self.random.below(hosts as u64) as usize,
        }
    }

    /// Returns the place of an attempt, on whichever host it is.
    pub(super) fn place_of(&self, job: JobId, attempt: AttemptNo) -> Option<(usize, &Place<Leader>)> {
        let found = of(&self.places, job).find(|(key, _)| key.attempt == attempt);
        found.map(|(key, place)| (key.host, place))
    }

    /// Returns how long the trees of the attempts before were there, at most: one whose end no keeper saw, until that was stored.
    pub(super) fn ran_before(&self, job: JobId, attempt: AttemptNo) -> u64 {
        let unseen = self.witness.get(&job).map_or(&[][..], |watched| &watched.unseen);
        let earlier = of(&self.places, job).filter(|(key, _)| key.attempt < attempt);
        let trees = earlier.filter_map(|(key, place)| Some((key.attempt, place.tree.as_ref()?)));
        let ages = trees.map(|(attempt, tree)| {
            let stored = unseen.iter().find(|(no, _)| *no == attempt).map(|(_, at)| *at);
            stored.or(tree.gone_at).unwrap_or(self.now).saturating_sub(tree.launched_at)
        });
        ages.sum()
    }

    fn look_at_clock(&mut self) {
        if let Some(began) = self.began {
            self.now = self.now.max(Instant::now().duration_since(began).as_millis() as u64);
        }
    }

    /// The runtime is there: time passes by its clock.
    pub(super) fn clock_starts(&mut self) {
        self.began = Some(Instant::now());
    }

    /// Returns the moment of tokio's clock at which the next thing is to happen.
    pub(super) fn next_instant(&self) -> Option<Instant> {
        Some(self.began? + std::time::Duration::from_millis(self.queue.next_at()?))
    }

    /// A life of a host's engine begins; returns its number.
    pub(super) fn engine_begins(&mut self, host: usize) -> u32 {
        let no = self.lives[host].no + 1;
        let dies_at = match self.calm_since {
            None if self.random.chance(65) => Some(1 + self.random.below(70) as u32),
            _ => None,
        };
        self.lives[host] = Life { no, up: true, dies_at, ..Life::default() };
        self.note(0xe461 + host as u64);
        self.say(|_| format!("the engine of h{host} starts, life {no}"));
        no
    }

    /// The engine of a host says that it is ready.
    pub(super) fn engine_is_ready(&mut self, host: usize) {
        self.lives[host].ready = true;
        self.replan = true;
        self.say(|_| format!("the engine of h{host} is ready"));
    }

    /// The engine of a host is dead: what it had in memory is gone, what was on its way to the journal counts or does not, and it starts
    /// again after a while.
    pub(super) fn engine_dies(&mut self, host: usize) {
        let life = &mut self.lives[host];
        if !std::mem::replace(&mut life.up, false) {
            return;
        }
        life.lines.clear();
        for (_, arrival) in std::mem::take(&mut life.arrivals) {
            // Of what was sent, the first counts before the second.
            if self.random.chance(50) {
                break;
            }
            arrival(self);
        }
        self.clients_lose_the_engine(host);
        let away = match self.calm_since {
            Some(_) => 50,
            None if self.random.chance(60) => self.random.below(200),
            None => self.random.below(2_500),
        };
        self.after(away + 1, Doing::Start(host));
    }

    /// The engine of a host was shut down as it was asked to, and will exit.
    pub(super) fn engine_goes_down(&mut self, host: usize) {
        self.lives[host].went_down = true;
        let ms = self.random.below(40);
        self.after(ms, Doing::Quit(host, self.lives[host].no));
    }

    /// A host goes off, and comes back after a while with another boot.
    pub(super) fn reboot(&mut self, host: usize) {
        let off = 100 + self.random.below(2_000);
        self.say(|_| format!("h{host} boots again, {off} ms"));
        for (_, place) in self.places.iter_mut().filter(|(key, _)| key.host == host) {
            place.power_off(self.now);
        }
        self.hosts[host].reboot(self.now, off);
        self.engine_dies(host);
    }

    /// Lets happen what is due; reports whether the schedule is over.
    pub(super) fn happen(&mut self) -> bool {
        while !self.is_over() && self.queue.next_at().is_some_and(|at| at <= self.now) {
            let Some((_, doing)) = self.queue.pop() else { break };
            self.step();
            self.do_it(doing);
        }
        self.is_over()
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
            Doing::Start(host) => match self.hosts[host].off_ms(self.now) {
                0 => self.starting.push(host),
                ms => self.after(ms, Doing::Start(host)),
            },
            Doing::Arrive(host, no) => {
                if let Some(arrival) = self.lives[host].arrivals.remove(&no) {
                    arrival(self);
                }
            }
            Doing::Quit(host, life) if life == self.lives[host].no => self.engine_dies(host),
            Doing::Quit(..) => {}
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
            Some(job) => {
                self.witness.get(&job).and_then(|watched| watched.known.phase()).into_iter().collect()
            }
            None => self.witness.values().filter_map(|watched| watched.known.phase()).collect(),
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

    /// Notes a line, if the trace is readable.
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
