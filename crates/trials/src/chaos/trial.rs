//! One run: load and faults, a quiet leg, the end of every job, the judgement.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lastword_api::GroupChange;
use lastword_client::{groups, jobs};

use super::canary::Life;
use super::faults::Windows;
use super::ground::Ground;
use super::judge::run::{Need, Run};
use super::judge::{Violation, run};
use super::members::{Members, Store, locked};
use super::plan::{Mix, NARROW, NARROW_SLOTS};
use super::stage::{Entry, Stage};
use super::wrong_clock::WrongClock;
use super::{conduct, faults, journal, watch};
use crate::clock;
use crate::place::Programs;
use crate::product::{Product, figures};

/// How long the last jobs may take: longer than an adversary lives and than any request is repeated.
const END_MAX: Duration = Duration::from_secs(90);

/// How long processes may take to leave after the last job.
const LEAVING_MAX: Duration = Duration::from_secs(5);

/// How much longer faults may last than asked for, until each has happened: on a slow machine a window or a death comes late.
const LONGER_MAX: Duration = Duration::from_mins(2);

/// What is done to jobs that a run must have had.
const CHANGES: [&str; 7] = [
    "dependents while the other one ends",
    "dependents beside a removal",
    "removed",
    "prunes",
    "run again",
    "limits changed",
    "keys used again after a removal",
];

/// Slots of the default group: more than are ever needed at once, so that the rate is kept.
const SLOTS: u32 = 200;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) store: Store,
    pub(crate) faults: Duration,
    /// After them, the same load and nothing else.
    pub(crate) quiet: Duration,
    pub(crate) rate: f64,
    pub(crate) mix: Mix,
    /// Whether anything happens at all, beside the load.
    pub(crate) is_hostile: bool,
    /// A seeded bug. The run is over as soon as a judge has found something.
    pub(crate) bug: Option<&'static str>,
}

impl Shape {
    pub(super) fn of(store: Store, faults: Duration, rate: f64, mix: Mix) -> Shape {
        let quiet = (faults / 6).clamp(Duration::from_secs(5), Duration::from_mins(2));
        Shape { store, faults, quiet, rate, mix, is_hostile: true, bug: None }
    }

    /// Returns the most jobs that it may have, rows and those that are run again included.
    fn jobs(&self) -> u64 {
        ((self.faults + LONGER_MAX + self.quiet).as_secs_f64() * self.rate * 8.0) as u64 + 1
    }

    /// Reports whether its windows are short, since it is.
    fn is_short(&self) -> bool {
        self.faults < Duration::from_secs(60)
    }
}

/// Holds a run, and returns what was found. Behind the back of the judges, `during` is done to it while jobs run, and `after` when
/// every job has ended.
pub(crate) fn hold(
    shape: &Shape,
    during: impl FnOnce(&Stage) + Send,
    after: impl FnOnce(&Stage),
) -> Result<(Stage, Run, Vec<Violation>), String> {
    let programs = Programs::beside()?;
    let (ground, disk) = Ground::make(shape.jobs())?;
    let home = ground.state().join("home");
    let product = match shape.bug {
        None => Product::install(&programs.lastword, ground.path(), &home)?,
        // A program has the bug switched on that it is called after.
        Some(bug) => {
            let program = ground.path().join(format!("lastword.{bug}"));
            std::fs::copy(&programs.lastword, &program)
                .map_err(|error| format!("{}: {error}", program.display()))?;
            Product::at(program, ground.path(), &home)?
        }
    };
    let members = Members::install(shape.store, product, &ground.state().join("worker"))?;
    let read_only = disk.clone().and_then(|()| ground.can_close());
    let windows = windows(shape, disk, read_only, WrongClock::find());
    // Longer than a window and a start of the daemon take.
    let patience = Duration::from_secs(if shape.is_short() { 10 } else { 12 });
    let stage = Stage::new(members, programs.adversary, ground, shape.mix, patience);
    let held = prepare(&stage).and_then(|()| {
        let mut run = play(&stage, shape, &windows, during);
        after(&stage);
        conclude(&stage, shape, &windows, &mut run)?;
        Ok(run)
    });
    stage.members.tear_down();
    let run = held?;
    let mut violations = std::mem::take(&mut *locked(&stage.violations));
    violations.extend(run::judge(&run));
    Ok((stage, run, violations))
}

fn windows(
    shape: &Shape,
    disk: Result<(), String>,
    read_only: Result<(), String>,
    clock: Result<WrongClock, String>,
) -> Windows {
    let is_link = shape.store == Store::Link;
    for (name, possible) in [("disk-full windows", &disk), ("read-only windows", &read_only)] {
        // On a link the database is killed instead, on any file system.
        if let Err(why) = possible
            && !(is_link && name == "read-only windows")
        {
            println!("SKIPPED, {name}: {why}");
        }
    }
    // Keepers close their memory to every user but root.
    let clock = clock.and_then(|clock| match rustix::process::geteuid().is_root() {
        true => Ok(clock),
        false => Err("only root may change the clock of a daemon that has closed its memory".to_owned()),
    });
    if let Err(why) = &clock {
        println!("SKIPPED, clock jumps: {why}");
    }
    let (apart_ms, lasts_ms) = match shape.is_short() {
        true => ((1_500, 3_000), (1_500, 2_500)),
        false => ((6_000, 14_000), (2_000, 6_000)),
    };
    Windows { disk, read_only, clock, apart_ms, lasts_ms }
}

/// Starts the product and sets the groups.
fn prepare(stage: &Stage) -> Result<(), String> {
    stage.members.start()?;
    for (name, slots) in [("default", SLOTS), (NARROW, NARROW_SLOTS)] {
        let change = GroupChange { slots: Some(Some(slots)), ..GroupChange::default() };
        stage.product.client().call(&groups::set(name, &change))?;
    }
    Ok(())
}

/// Runs it: the load, the faults and the observers, until every job has ended or the time is up.
fn play(stage: &Stage, shape: &Shape, windows: &Windows, during: impl FnOnce(&Stage) + Send) -> Run {
    let seed = shape.mix.seed;
    std::thread::scope(|scope| {
        let feed = scope.spawn(|| watch::follow(stage));
        let samples = stage.members.all().iter();
        let samples: Vec<_> =
            samples.map(|member| (*member, scope.spawn(|| watch::sample(stage, *member)))).collect();
        scope.spawn(|| watch::judge(stage));
        scope.spawn(|| during(stage));
        if stage.members.is_link() {
            scope.spawn(|| faults::supervise(stage));
        }
        if shape.is_hostile {
            scope.spawn(|| faults::kill_members(stage, seed));
            scope.spawn(|| windows.open(stage, seed));
        }
        load(stage, shape, windows);
        let all_ended = || stage.entries().iter().all(Entry::is_over);
        clock::until(END_MAX, Duration::from_millis(100), || {
            if shape.bug.is_some() && stage.caught().is_some() {
                return Some(());
            }
            // A supervisor keeps it up: a fault may have been the last thing that happened.
            stage.members.revive();
            all_ended().then_some(())
        });
        let stuck = stuck(stage);
        stage.over.store(true, Ordering::Relaxed);
        let samples = samples.into_iter();
        let samples = samples.map(|(member, samples)| (member, samples.join().unwrap_or_default())).collect();
        let feed = feed.join().unwrap_or_default();
        Run { stuck, samples, feed, ..Run::default() }
    })
}

/// Submits at the rate, first among faults, until each kind has happened, and then without.
fn load(stage: &Stage, shape: &Shape, windows: &Windows) {
    let begin = Instant::now();
    let mut calm_at = None;
    std::thread::scope(|scope| {
        for number in 0.. {
            let at = Duration::from_secs_f64(number as f64 / shape.rate);
            let is_enough =
                || faults(stage, shape, windows).is_ok_and(|faults| faults.iter().all(Need::is_met));
            if calm_at.is_none() && at > shape.faults && (at > shape.faults + LONGER_MAX || is_enough()) {
                calm_at = Some(at);
                stage.calm.store(true, Ordering::Relaxed);
            }
            if calm_at.is_some_and(|calm| at > calm + shape.quiet) {
                return;
            }
            if shape.bug.is_some() && stage.caught().is_some() {
                stage.calm.store(true, Ordering::Relaxed);
                stage.over.store(true, Ordering::Relaxed);
                return;
            }
            clock::rest(at.saturating_sub(begin.elapsed()));
            let order = shape.mix.order(number);
            scope.spawn(move || conduct::conduct(stage, &order));
        }
    });
}

/// Returns the jobs that did not end, with what is said of them.
fn stuck(stage: &Stage) -> Vec<String> {
    let mut client = stage.product.client();
    let entries = stage.entries();
    let left = entries.iter().filter(|entry| !entry.is_over());
    left.map(|entry| {
        let id = entry.id.clone().unwrap_or_default();
        let job = client.call(&jobs::show(&id).untyped());
        let told = job.map_or_else(
            |why| why,
            |job| {
                let waiting =
                    format!("{} inputs waiting, attempts {}", job["inputs_waiting"], job["attempts"]);
                format!("{}, stop {}, waits {}, {waiting}", job["phase"], job["stop"], job["waits"])
            },
        );
        let life = Life::read(&entry.order, &stage.ground.notes());
        format!(
            "job {}, {id}: {told}; {:?}; {:?}; noted {:?}",
            entry.order.number, entry.order, entry.acts, life.attempts
        )
    })
    .collect()
}

/// Lets the product go, and looks at what is left and at the journal by itself.
fn conclude(stage: &Stage, shape: &Shape, windows: &Windows, run: &mut Run) -> Result<(), String> {
    stage.members.stop()?;
    let left = || stage.product.processes();
    clock::until(LEAVING_MAX, Duration::from_millis(20), || left().is_empty().then_some(()));
    run.left = left().into_iter().map(describe).collect();
    for entry in stage.entries() {
        if let Some(id) = entry.id.clone().filter(|_| entry.may_be_gone()) {
            run.removed.insert(id, entry.seen.is_some() || entry.read.is_some() || has_ended(stage, &entry));
        }
        match entry.id {
            Some(id) if !entry.unanswered => drop(run.acknowledged.insert(entry.order.number, id)),
            _ => {}
        }
        if entry.unanswered {
            run.unanswered.insert(entry.order.number);
        }
    }
    run.journal = journal::jobs(&stage.members)?;
    let unread = stage.counted("removed before they were read");
    let acknowledged = run.acknowledged.len() as u64;
    let judged = Need { what: "jobs judged", count: stage.counted("judged") + unread, least: acknowledged };
    // A few of them: a judgement of what nothing read says little.
    let read = Need {
        what: "jobs read before they were removed",
        count: acknowledged - unread.min(acknowledged),
        least: acknowledged * 4 / 5,
    };
    run.tally = [judged, read].into_iter().chain(faults(stage, shape, windows)?).collect();
    Ok(())
}

/// Reports whether the notes of a job that nothing has read show that it had ended.
fn has_ended(stage: &Stage, entry: &Entry) -> bool {
    let life = Life::read(&entry.order, &stage.ground.notes());
    entry.judged || life.attempts.values().next_back().is_some_and(|attempt| attempt.ends.is_some())
}

/// Counts the faults without which a run shows too little.
fn faults(stage: &Stage, shape: &Shape, windows: &Windows) -> Result<Vec<Need>, String> {
    if !shape.is_hostile {
        return Ok(Vec::new());
    }
    const ASTRAY_MS: u64 = 30 * 60 * 1_000;
    let (now, length) = (wall_ms(), stage.begin.elapsed().as_millis() as u64);
    let astray = || journal::astray(&stage.members, now - length - ASTRAY_MS, now + ASTRAY_MS);
    let count = |names: [&str; 2]| names.iter().map(|name| stage.counted(name)).sum();
    let of = |what: &'static str| Need { what, count: stage.counted(what), least: 1 };
    let mut needs: Vec<Need> = stage.members.all().iter().map(|member| of(member.killed())).collect();
    needs.extend([
        Need { what: "keepers killed", count: count(["guards killed", "shims killed"]), least: 1 },
        Need { what: "cancels", count: count(["cancels, forced", "cancels, polite"]), least: 1 },
    ]);
    needs.extend(CHANGES.map(of));
    needs.extend(windows.disk.is_ok().then(|| of("disk-full windows")));
    match stage.members.is_link() {
        true => needs.push(of("databases killed")),
        false => needs.extend(windows.read_only.is_ok().then(|| of("read-only windows"))),
    }
    if windows.clock.is_ok() {
        let jumps = count(["clock jumps forward", "clock jumps back"]);
        needs.push(Need { what: "clock jumps", count: jumps, least: 1 });
        let now = astray()?;
        let count = stage.astray.fetch_max(now, Ordering::Relaxed).max(now);
        needs.push(Need { what: "facts dated by a wrong clock", count, least: 1 });
    }
    Ok(needs)
}

fn describe(pid: i32) -> String {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let parent = figures::Stat::of(pid).map_or(0, |stat| stat.parent);
    format!("{pid} (below {parent}): {}", command.trim_end())
}

/// Returns the wall clock of this process, which the clock jumps do not touch.
fn wall_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000 + now.tv_nsec as u64 / 1_000_000
}
