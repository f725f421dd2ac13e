//! What a schedule is about: its jobs, drawn from the seed, and what runs in their trees.

use std::sync::Arc;

use lastword_core::limits::{Limit, Limits};
use lastword_core::receipt::Exit;
use lastword_core::spec::{Dependency, Io, Ladder, Needs, OnPartition, RetryPolicy, Spec};
use lastword_core::{InputNo, JobId, Timestamp};

use crate::random::Random;
use crate::world::host::EPOCH_MS;
use crate::world::place::Tree;

/// Jobs that are asked for amid the faults, at most.
const EARLY_MAX: u64 = 5;

/// Jobs that are asked for when everything is calm again: an engine that is well does what it should at once.
pub(super) const LATE: usize = 4;

/// Schedules in a hundred that have two hosts on one journal. What one engine must do at once can be seen only where it is alone.
const TWO_HOSTS_PERCENT: u64 = 25;

/// The groups: one that is always there, and one that no client makes.
pub(super) const GROUPS: [&str; 2] = ["default", "g"];

/// A job that will be asked for.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) id: JobId,
    pub(super) spec: Arc<Spec>,
    /// A variable of its environment, by which it is known again.
    pub(super) mark: String,
}

/// The jobs of a schedule.
pub(super) struct Plan {
    /// Those that are asked for amid the faults.
    pub(super) early: Vec<Planned>,
    /// Those that are asked for afterwards.
    pub(super) late: Vec<Planned>,
    /// Slots of the default group.
    pub(super) default_slots: Option<u32>,
    /// Hosts, each with an engine of its own; all of them share the journal.
    pub(super) hosts: usize,
}

impl Plan {
    /// Draws a plan.
    pub(super) fn draw(random: &mut Random) -> Plan {
        let hosts = if random.chance(TWO_HOSTS_PERCENT) { 2 } else { 1 };
        let default_slots = (!random.chance(20)).then(|| 1 + random.below(3) as u32);
        let count = 2 + random.below(EARLY_MAX - 1);
        let mut early: Vec<Planned> = Vec::new();
        for no in 0..count {
            let spec = Spec { on_partition: partition(hosts), ..early_spec(random, &early) };
            early.push(planned(random, no, spec));
        }
        let mut late: Vec<Planned> = Vec::new();
        for no in 0..LATE {
            let spec = Spec { on_partition: partition(hosts), ..late_spec(no, &late) };
            late.push(planned(random, count + no as u64, spec));
        }
        Plan { early, late, default_slots, hosts }
    }
}

/// Returns what happens to a job whose host cannot be reached. Only a keeper with a lease ends its tree by itself, and the engine gives none:
/// with several hosts, its jobs stay where they are.
fn partition(hosts: usize) -> OnPartition {
    if hosts > 1 { OnPartition::Keep } else { OnPartition::Stop }
}

fn planned(random: &mut Random, no: u64, spec: Spec) -> Planned {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&random.draw().to_le_bytes());
    let id = JobId::new(0, Timestamp(EPOCH_MS - 1_000 + no), bytes);
    Planned { id, spec: Arc::new(spec), mark: format!("mark-{no}-{}", random.below(1_000_000)) }
}

fn early_spec(random: &mut Random, before: &[Planned]) -> Spec {
    let mut after = Vec::new();
    while !before.is_empty() && after.len() < 2 && random.chance(30) {
        let on = *random.pick(&[Needs::Success, Needs::AnyEnd]);
        after.push(Dependency { job: random.pick(before).id, on });
    }
    Spec {
        group: random.pick(&GROUPS).to_string(),
        priority: random.below(3) as i16 - 1,
        io: if random.chance(35) { Io::Pipe } else { Io::Null },
        limits: limits(random),
        retry: RetryPolicy {
            attempts_max: 1 + random.below(3) as u32,
            relaunches_max: random.below(3) as u32,
            backoff_ms: 200 + random.below(1_200),
            backoff_max_ms: 2_000,
            when_lost: random.chance(50),
        },
        ladder: Ladder { interrupt_ms: 0, term_ms: 50 + random.below(300) },
        after,
        not_before: random.chance(10).then(|| Timestamp(EPOCH_MS + random.below(3_000))),
        ..Spec::command(["c"], "/")
    }
}

fn limits(random: &mut Random) -> Limits {
    let mut limits = Limits::default();
    if random.chance(25) {
        limits.set(Limit::Wall, 200 + random.below(3_000));
    }
    if random.chance(20) {
        limits.set(Limit::Stall, 300 + random.below(2_000));
    }
    if random.chance(20) {
        limits.set(Limit::Output, 1 + random.below(20_000));
    }
    limits
}

/// The first fails and is tried again, the second waits for it, the third reads what is sent to it and waits for its end, and the
/// fourth waits for the second and is submitted while that one ends.
fn late_spec(no: usize, before: &[Planned]) -> Spec {
    let after = |other: usize, on| vec![Dependency { job: before[other].id, on }];
    let spec = Spec::command([["late-fails"], ["late-waits"], ["late-reads"], ["late-follows"]][no], "/");
    let ladder = Ladder { interrupt_ms: 0, term_ms: 100 };
    match no {
        0 => Spec {
            retry: RetryPolicy { attempts_max: 2, backoff_ms: 700, ..RetryPolicy::default() },
            ladder,
            ..spec
        },
        1 => Spec { group: GROUPS[1].to_owned(), after: after(0, Needs::AnyEnd), ladder, ..spec },
        2 => Spec { group: "late".to_owned(), io: Io::Pipe, ladder, ..spec },
        // It needs a slot of the group that was changed while another one was, without a wake by that change.
        _ => Spec { group: GROUPS[1].to_owned(), after: after(1, Needs::Success), ladder, ..spec },
    }
}

/// What runs in a tree.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// How long it runs by itself; `None` runs until it is stopped or has read enough.
    pub(super) lives_ms: Option<u64>,
    /// How it exits then.
    pub(super) exit: Exit,
    /// It exits well after so many inputs, or when there are no more.
    pub(super) reads: Option<usize>,
    /// How long it takes to obey TERM; `None` does not.
    pub(super) obeys_ms: Option<u64>,
    /// Bytes it writes in a millisecond.
    pub(super) rate: u64,
    /// How long it writes.
    pub(super) writes_ms: u64,
}

impl Program {
    /// Draws what an attempt runs.
    pub(super) fn draw(random: &mut Random, spec: &Spec) -> Program {
        let exit = match random.below(10) {
            0..6 => Exit::Code(0),
            6..9 => Exit::Code(1 + random.below(3) as i32),
            _ => Exit::Signal(11),
        };
        let is_late = |word: &str| matches!(&spec.work, lastword_core::spec::Work::Command { argv } if argv.iter().any(|arg| arg == word));
        let longest = if random.chance(30) { 30 } else { 2_500 };
        let mut program = Program {
            lives_ms: (!random.chance(25)).then(|| random.below(longest)),
            exit,
            reads: (spec.io == Io::Pipe && random.chance(60)).then(|| 1 + random.below(4) as usize),
            obeys_ms: (!random.chance(30)).then(|| random.below(120)),
            rate: random.below(8),
            writes_ms: random.below(3_000),
        };
        if is_late("late-fails") {
            (program.lives_ms, program.exit) = (Some(50), Exit::Code(1));
        } else if is_late("late-waits") || is_late("late-follows") {
            (program.lives_ms, program.exit) = (Some(50), Exit::Code(0));
        } else if is_late("late-reads") {
            (program.lives_ms, program.reads) = (None, None);
        }
        program
    }
}

/// The leader of a tree.
pub(super) struct Leader {
    pub(super) program: Program,
    /// The newest input that its shim took.
    pub(super) taken: u32,
    /// What it has read.
    pub(super) read: Vec<(InputNo, String)>,
}

impl Leader {
    pub(super) fn new(program: Program) -> Leader {
        Leader { program, taken: 0, read: Vec::new() }
    }
}

impl Tree<Leader> {
    /// Returns how many bytes it has written by now.
    pub(super) fn written(&self, now: u64) -> u64 {
        let until = self.gone_at.unwrap_or(now).min(now);
        let program = &self.leader.program;
        program.rate * until.saturating_sub(self.launched_at).min(program.writes_ms)
    }

    /// Returns since when it has written nothing.
    pub(super) fn silent_since(&self, now: u64) -> u64 {
        match self.leader.program.rate {
            0 => self.launched_at,
            // Without a keeper nothing is recorded.
            _ => self.gone_at.unwrap_or(now).min(now).min(self.launched_at + self.leader.program.writes_ms),
        }
    }
}
