//! One schedule: a clock, a queue of what is to happen, and everything it happens to.
//!
//! First comes the chaos, with at least three faults; then everything heals, and every job must come to its last word.

use std::collections::BTreeMap;

use lastword_core::receipt::Exit;
use lastword_core::report::Report;
use lastword_core::{Incarnation, Now, Timestamp};

use super::agent::Leader;
use super::fault::{Fault, TABLE};
use super::journal::{Answer, Call, Caller, Store};
use super::plan::Plan;
use super::process::{Errand, Hold, Process};
use super::wish::{Asker, Wish};
use super::witness::Witness;
use crate::random::Random;
use crate::schedules::{Coverage, Queue, Run, Trace, Violation};
use crate::world::host::{EPOCH_MS, Host};
use crate::world::place::{Key, Places};

/// How long an owner's lease lasts.
pub(super) const LEASE_MS: u64 = 5_000;
/// How much later than that another owner may take over.
pub(super) const MARGIN_MS: u64 = 300;
/// How long a keeper takes to end its tree: it begins that much before the lease runs out.
pub(super) const STOP_MS: u64 = 300;
/// How often an owner renews.
pub(super) const BEAT_MS: u64 = 2_000;
/// How long a caller waits for an answer before it gives up.
pub(super) const TIMEOUT_MS: u64 = 400;
/// How long after the chaos the jobs that still run are cancelled.
const PATIENCE_MS: u64 = 3_500;
/// How long a message to an idle agent may wait for its slot, of which there are enough: the pause of another server, a take-over, and three
/// beats, at one of which an owner asks for a slot.
pub(super) const MESSAGE_MS: u64 = 25_000;
/// How long after the chaos every job must have ended: leases, back-offs and ladders fit in many times.
const CONVERGE_MS: u64 = 90_000;
/// Steps after which a schedule is stuck, whatever the clock says.
const STEPS_MAX: u32 = 6_000;

/// Something that is to happen.
pub(super) enum Doing {
    /// A call reaches the journal.
    Arrive(Box<Call>),
    /// The journal syncs its disk.
    Sync,
    /// The journal is back after a crash.
    StoreBack,
    /// An answer reaches its caller.
    Answered(Caller, u64, Answer),
    /// An owner's heart beats.
    Beat(usize, u32),
    /// An owner comes back.
    Restart(usize),
    /// An effect is carried out.
    Carry(Box<Errand>),
    /// A report reaches an owner.
    Tell(Hold, Box<Report>, Option<Fault>),
    /// An owner reads on in a recording.
    Listen(Hold),
    /// A process hears that there may be something to take.
    Hint(usize),
    /// An owner hears that there may be news of a job.
    Poke(usize, usize),
    /// A tree does something.
    Live(Key),
    /// A stop climbs a rung.
    Climb(Key, u32),
    /// The last process of a tree is gone.
    Exit(Key, Exit),
    /// A guard has ended the tree of its dead shim.
    GuardEnds(Key),
    /// A keeper looks at its lease and its deadline.
    LookAtClock(Key),
    /// An asker begins with its request.
    Ask(usize),
    /// A sweep looks for jobs whose dependencies have ended.
    Sweep,
    /// The chaos is over, and so is the patience with jobs that still run.
    Impatience,
}

/// Everything there is in a schedule.
pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: u64,
    queue: Queue<Doing>,
    pub(super) trace: Trace,
    pub(super) plan: Plan,
    pub(super) store: Store,
    pub(super) processes: [Process; 3],
    pub(super) hosts: [Host; 2],
    /// The lease files: when the lease of each life runs out for its keepers.
    pub(super) leases: BTreeMap<Incarnation, u64>,
    pub(super) places: Places<Leader>,
    pub(super) askers: Vec<Asker>,
    pub(super) witness: Witness,
    pub(super) coverage: Coverage,
    pub(super) faults: u32,
    pub(super) calm: bool,
    pub(super) calm_since: u64,
    /// Steps at which a fault is to strike, the next one last.
    planned: Vec<u32>,
    pub(super) violation: Option<Violation>,
    pub(super) calls: u64,
}

/// Runs the schedule of a seed.
pub fn run(seed: u64, readable: bool) -> Run {
    let mut world = World::new(seed, readable);
    let steps = world.live();
    if world.violation.is_none() {
        world.last_look();
    }
    if let Some(violation) = &world.violation {
        world.trace.say(world.now, || format!("VIOLATION {}: {}", violation.name, violation.detail));
    }
    Run {
        hash: world.trace.hash(),
        violation: world.violation,
        coverage: world.coverage,
        faults: world.faults,
        steps,
        lines: world.trace.into_lines(),
    }
}

impl World {
    fn new(seed: u64, readable: bool) -> World {
        // Neighbouring seeds must not give neighbouring schedules.
        let mut random = Random::new(seed ^ 0x5eed_0fa1_a570_0001);
        let plan = Plan::draw(&mut random);
        let faults = 3 + random.below(3);
        let mut planned: Vec<u32> = (0..faults).map(|_| 4 + random.below(70) as u32).collect();
        planned.sort_unstable_by(|one, other| other.cmp(one));
        let hosts = [0, 0, 1];
        let mut world = World {
            witness: Witness::new(&plan),
            plan,
            now: 0,
            queue: Queue::default(),
            trace: Trace::new(readable),
            store: Store::new(),
            processes: std::array::from_fn(|no| Process::new(no, hosts[no])),
            hosts: [Host::default(), Host::default()],
            leases: BTreeMap::new(),
            places: Places::new(),
            askers: Vec::new(),
            coverage: Coverage::of(TABLE),
            faults: 0,
            calm: false,
            calm_since: 0,
            planned,
            violation: None,
            calls: 0,
            random,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for process in 0..self.processes.len() {
            let at = self.random.below(300);
            self.after(at, Doing::Restart(process));
        }
        for job in 0..self.plan.specs.len() {
            let at = self.random.below(400);
            self.ask(at, job, Wish::Submit);
            if self.random.chance(25) {
                let again = at + self.random.below(1_500);
                self.ask(again, job, Wish::Submit);
            }
            self.draw_wishes(job);
        }
        self.after(700, Doing::Sweep);
    }

    /// Lets things happen until every job has ended, and returns how many steps that took.
    fn live(&mut self) -> u32 {
        let mut steps = 0;
        let mut ended_at = None;
        while self.violation.is_none() {
            let Some((at, doing)) = self.queue.pop() else { break };
            steps += 1;
            self.now = self.now.max(at);
            self.happen(doing);
            while self.planned.last().is_some_and(|step| *step <= steps) {
                self.planned.pop();
                self.strike();
            }
            if !self.calm && self.planned.is_empty() && self.now > 2_500 {
                self.heal();
                self.after(PATIENCE_MS, Doing::Impatience);
            }
            if !self.calm {
                continue;
            }
            if self.is_over() {
                // A little longer: nothing may come to life again.
                let since = *ended_at.get_or_insert(self.now);
                if self.now > since + 600 {
                    break;
                }
            } else if steps > STEPS_MAX || self.now > self.calm_since + CONVERGE_MS {
                let unfinished = self.unfinished();
                self.fail("liveness", || format!("not over {steps} steps on: {unfinished}"));
            }
        }
        steps
    }

    fn happen(&mut self, doing: Doing) {
        if let Some(until) = self.held_up(&doing) {
            self.after(until - self.now, doing);
            return;
        }
        match doing {
            Doing::Arrive(call) => self.arrive(*call),
            Doing::Sync => self.sync(),
            Doing::StoreBack => self.store.up = true,
            Doing::Answered(caller, call, answer) => self.answered(caller, call, answer),
            Doing::Beat(process, life) => self.beat(process, life),
            Doing::Restart(process) => self.restart(process),
            Doing::Carry(errand) => self.carry(*errand),
            Doing::Tell(hold, report, fault) => self.told(hold, *report, fault),
            Doing::Listen(hold) => self.listen(hold),
            Doing::Hint(process) => self.hint(process),
            Doing::Poke(process, job) => self.poke(process, job),
            Doing::Live(key) => self.tree_lives(key),
            Doing::Climb(key, run) => self.climb(key, run),
            Doing::Exit(key, exit) => self.exit(key, Some(exit), None),
            Doing::GuardEnds(key) => self.guard_ends(key),
            Doing::LookAtClock(key) => self.look_at_clock(key),
            Doing::Ask(asker) => self.begin_asking(asker),
            Doing::Sweep => self.sweep(),
            Doing::Impatience => self.impatience(),
        }
    }

    /// Returns until when an actor stands still, if it does.
    fn held_up(&self, doing: &Doing) -> Option<u64> {
        let process = match doing {
            Doing::Beat(process, _) | Doing::Poke(process, _) | Doing::Hint(process) => Some(*process),
            Doing::Carry(errand) => Some(errand.hold.process),
            Doing::Tell(hold, ..) | Doing::Listen(hold) => Some(hold.process),
            Doing::Answered(Caller::Hand(hold), ..) => Some(hold.process),
            Doing::Answered(Caller::Process(process, _), ..) => Some(*process),
            _ => None,
        };
        let until = match (process, doing) {
            (Some(process), _) => {
                let process = &self.processes[process];
                process.paused_until.max(self.hosts[process.host].asleep_until)
            }
            (None, Doing::Live(key) | Doing::Climb(key, _) | Doing::Exit(key, _) | Doing::GuardEnds(key)) => {
                self.hosts[key.host].asleep_until
            }
            _ => 0,
        };
        (until > self.now).then_some(until)
    }

    /// Plans something.
    pub(super) fn after(&mut self, ms: u64, doing: Doing) {
        self.queue.push(self.now + ms, doing);
    }

    /// Returns the clocks of a host.
    pub(super) fn clock(&self, host: usize) -> Now {
        self.hosts[host].clocks(self.now)
    }

    /// Returns the time of the journal's clock, which is never off.
    pub(super) fn journal_clock(&self) -> Timestamp {
        Timestamp(EPOCH_MS + self.now)
    }

    /// Notes that a promise was broken; the first one counts.
    pub(super) fn fail(&mut self, name: &'static str, detail: impl FnOnce() -> String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { name, detail: detail() });
        }
    }

    /// Reports whether a fault of a message strikes now.
    pub(super) fn unlucky(&mut self, percent: u64) -> bool {
        !self.calm && self.random.chance(percent)
    }

    /// Counts a fault that concerns one job.
    pub(super) fn struck(&mut self, fault: Fault, job: usize) {
        self.faults += 1;
        self.trace.note(0xfa17 + fault as u64);
        if let Some(phase) = self.witness.jobs[job].known.phase() {
            self.coverage.struck(fault as usize, phase);
        }
        self.trace.say(self.now, || format!("FAULT {} for job {job}", fault.name()));
    }

    /// Counts a fault that concerns every job.
    pub(super) fn struck_all(&mut self, fault: Fault) {
        self.faults += 1;
        self.trace.note(0xfa17 + fault as u64);
        for job in 0..self.witness.jobs.len() {
            if let Some(phase) = self.witness.jobs[job].known.phase() {
                self.coverage.struck(fault as usize, phase);
            }
        }
        self.trace.say(self.now, || format!("FAULT {}", fault.name()));
    }

    fn is_over(&self) -> bool {
        self.askers.iter().all(Asker::is_done) && self.witness.all_ended()
    }

    fn unfinished(&self) -> String {
        let jobs = self.witness.jobs.iter().map(|one| &one.known).filter(|known| known.is_live());
        let jobs: Vec<String> = jobs
            .map(|one| {
                format!(
                    "{:?} held by {:?}, stop {:?}",
                    one.job.phase,
                    one.job.holder.as_ref().map(|holder| holder.fence.owner.to_string()),
                    one.job.stop
                )
            })
            .collect();
        let asking = self.askers.iter().filter(|asker| !asker.is_done()).count();
        format!("{}; {asking} requests unanswered", jobs.join("; "))
    }
}
