//! What happens to the product: its processes are killed, its disk is full for a while, its journal cannot be written, its clock jumps.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::members::Member;
use super::stage::Stage;
use super::wrong_clock::WrongClock;
use crate::clock;
use crate::product::figures;
use crate::random::Random;

/// How often a full disk is topped up, and the list of processes with a wrong clock.
const AGAIN: Duration = Duration::from_millis(50);

/// How far a clock jumps, in hours.
const HOURS_MAX: u64 = 30;

/// How long a kill waits for the end of a job that others wait for.
const AIM_MAX: Duration = Duration::from_secs(2);

/// How long after the exit of its leader the daemon is killed, in microseconds: its last word is stored then, and others are told.
const AIM_US: u64 = 30_000;

/// How often a supervisor of a server and a worker looks.
const SUPERVISED: Duration = Duration::from_secs(1);

/// Kills a member every 2 to 10 seconds, where possible while it tells jobs that the one they wait for has ended. Half of the time a
/// supervisor starts it anew at once; else the next command does, or later the supervisor of a fleet.
pub(crate) fn kill_members(stage: &Stage, seed: u64) {
    let mut random = Random::new(seed ^ 0x6b69_6c6c);
    while stage.rest_among_faults(Duration::from_millis(2_000 + random.below(6_000))) {
        let since = clock::boot_ns();
        let ends = || stage.ending_ns.load(Ordering::Relaxed) > since || stage.is_calm();
        if clock::until(AIM_MAX, Duration::from_millis(1), || ends().then_some(())).is_some() {
            clock::rest(Duration::from_micros(random.below(AIM_US)));
        }
        let mut hit = false;
        for member in victims(stage.members.all(), &mut random) {
            if stage.members.kill(*member) {
                stage.count(member.killed());
                println!("at {:.1} s: the {} is killed", stage.elapsed_s(), member.name());
                hit = true;
            }
        }
        if hit && random.chance(50) {
            stage.count("daemons started by a supervisor");
            stage.members.revive();
        }
    }
}

/// Draws the members to kill: one, or all at once.
fn victims<'a>(all: &'a [Member], random: &mut Random) -> &'a [Member] {
    match all {
        [_] => all,
        _ => match random.below(5) {
            0 | 1 => &all[..1],
            2 | 3 => &all[1..],
            _ => all,
        },
    }
}

/// Starts what is gone, until the run is over. No command starts a server or a worker.
pub(crate) fn supervise(stage: &Stage) {
    while !stage.is_over() {
        stage.members.revive();
        clock::until(SUPERVISED, AGAIN, || stage.is_over().then_some(()));
    }
}

/// What can be done to disk, journal and clock on this machine.
pub(crate) struct Windows {
    pub(crate) disk: Result<(), String>,
    pub(crate) read_only: Result<(), String>,
    pub(crate) clock: Result<WrongClock, String>,
    /// From one window to the next, and how long each lasts, in milliseconds, at least and at most.
    pub(crate) apart_ms: (u64, u64),
    pub(crate) lasts_ms: (u64, u64),
}

impl Windows {
    /// Fills the disk, closes the journal and lets the clock jump in turn.
    pub(crate) fn open(&self, stage: &Stage, seed: u64) {
        let mut random = Random::new(seed ^ 0x7769_6e64);
        let between = |random: &mut Random, (least, most): (u64, u64)| {
            Duration::from_millis(least + random.below(most - least + 1))
        };
        let mut turn = 0;
        while stage.rest_among_faults(between(&mut random, self.apart_ms)) {
            let lasts = between(&mut random, self.lasts_ms);
            turn += 1;
            match turn % 3 {
                1 if self.disk.is_ok() => disk_full(stage, lasts),
                2 if stage.members.is_link() => database_away(stage, lasts),
                2 if self.read_only.is_ok() => read_only(stage, lasts),
                _ => {
                    if let Ok(wrong) = &self.clock {
                        let seconds = 3_600 + random.below(HOURS_MAX * 3_600) as i64;
                        let back = random.chance(50);
                        clock_jump(stage, wrong, if back { -seconds } else { seconds }, lasts);
                    }
                }
            }
        }
    }
}

fn disk_full(stage: &Stage, lasts: Duration) {
    Stage::open(&stage.full);
    match stage.ground.fill() {
        Ok(mut ballast) => {
            stage.count("disk-full windows");
            println!("at {:.1} s: the disk is full", stage.elapsed_s());
            clock::until(lasts, AGAIN, || ballast.top_up().err());
            println!("at {:.1} s: the disk has room", stage.elapsed_s());
        }
        Err(why) => eprintln!("the disk was not filled: {why}"),
    }
    Stage::shut(&stage.full);
}

/// Takes the right to write from the files of the journal, those that appear meanwhile included.
fn read_only(stage: &Stage, lasts: Duration) {
    Stage::open(&stage.read_only);
    let closed = stage.ground.read_only(stage.product.home());
    stage.count("read-only windows");
    clock::until(lasts, AGAIN, || {
        closed.again().err().inspect(|why| eprintln!("the journal was not closed: {why}"))
    });
    drop(closed);
    Stage::shut(&stage.read_only);
}

/// Kills the database, which is away for a while.
fn database_away(stage: &Stage, lasts: Duration) {
    Stage::open(&stage.read_only);
    stage.members.kill_database();
    stage.count("databases killed");
    println!("at {:.1} s: the database is killed", stage.elapsed_s());
    clock::until(lasts, AGAIN, || stage.is_over().then_some(()));
    if let Err(why) = stage.members.start_database() {
        eprintln!("{why}");
    }
    println!("at {:.1} s: the database is back", stage.elapsed_s());
    Stage::shut(&stage.read_only);
}

/// Gives every process that runs the product a wrong clock, including processes that start later.
fn clock_jump(stage: &Stage, wrong: &WrongClock, offset_s: i64, lasts: Duration) {
    let mut wronged: BTreeSet<i32> = BTreeSet::new();
    Stage::open(&stage.wrong_clock);
    stage.count(if offset_s > 0 { "clock jumps forward" } else { "clock jumps back" });
    let ours = || figures::living().into_iter().filter(|pid| figures::runs(*pid, stage.product.program()));
    clock::until(lasts, AGAIN, || {
        for pid in ours() {
            if !wronged.contains(&pid) && wrong.jump(pid, offset_s).is_ok() {
                wronged.insert(pid);
            }
        }
        stage.is_over().then_some(())
    });
    // Also the forks of a process with a wrong clock, which were not counted.
    for pid in ours() {
        if let Err(why) = wrong.restore(pid)
            && figures::runs(pid, stage.product.program())
        {
            eprintln!("{why}");
        }
    }
    Stage::shut(&stage.wrong_clock);
    stage.add("processes with a wrong clock", wronged.len());
}
