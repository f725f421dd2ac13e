//! `upgrade --old EXECUTABLE`: a state folder of 0.1.0 with live jobs of every kind, taken over by the executable of this repository.
//!
//! 0.1.0 makes the jobs and reports everything about them. Then its daemon is replaced, in three ways at once, each in a home of its own.
//! The new daemon must report the same, every process must keep running, and every job must come to the end that its row states.
//!
//! - [`jobs`]: the jobs, a row each.
//! - [`home`]: the state folder and the two executables.
//! - [`takeover`]: the three ways.
//! - [`account`]: everything that is reported, compared.
//! - [`judge`]: the verdict on one job.
//! - [`checks`]: the verdict on what jobs share.

mod account;
mod checks;
mod home;
mod jobs;
mod judge;
mod takeover;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::args::Args;
use crate::place::Programs;
use account::{Account, Screens};
use checks::Leaders;
use home::{Home, Version};
use jobs::{Row, When};
use takeover::Way;

/// Bounds of the seconds after which the clocks of timed jobs run out.
const CLOCK_MIN_S: u64 = 10;
const CLOCK_MAX_S: u64 = 90;

/// Runs `upgrade --old EXECUTABLE [--new EXECUTABLE] [--way NAME]`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--old", "--new", "--way"], &[])?;
    let old = PathBuf::from(args.text("--old").ok_or("--old EXECUTABLE is missing: the one of 0.1.0")?);
    let new = match args.text("--new") {
        Some(new) => new.into(),
        None => Programs::beside()?.lastword,
    };
    let is_asked = |way: &Way| args.text("--way").is_none_or(|name| name == way.name());
    let ways: Vec<Way> = Way::ALL.into_iter().filter(is_asked).collect();
    if ways.is_empty() {
        return Err(format!("--way is one of {}", Way::ALL.map(Way::name).join(", ")));
    }
    let verdicts: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = ways.iter().map(|way| scope.spawn(|| one_way(*way, &old, &new))).collect();
        runs.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let mut is_fine = true;
    for (way, verdict) in ways.iter().zip(verdicts) {
        match verdict.unwrap_or_else(|_| Err(vec!["the trial panicked".to_owned()])) {
            Ok(report) => println!("{report}"),
            Err(found) => {
                is_fine = false;
                found.iter().for_each(|what| eprintln!("FAILED, {}: {what}", way.name()));
            }
        }
    }
    Ok(is_fine)
}

/// Makes the jobs, replaces the daemon and judges. Returns a line of figures, or everything that is wrong.
fn one_way(way: Way, old: &Path, new: &Path) -> Result<String, Vec<String>> {
    let mut found = Vec::new();
    match upgrade(way, old, new, &mut found) {
        Ok(report) if found.is_empty() => Ok(report),
        Ok(_) => Err(found),
        Err(why) => {
            found.push(why);
            Err(found)
        }
    }
}

fn upgrade(way: Way, old: &Path, new: &Path, found: &mut Vec<String>) -> Result<String, String> {
    let begin = Instant::now();
    let mut home = Home::new(old, new)?;
    set_up(&home)?;
    make(&mut home, &jobs::all(CLOCK_MIN_S), When::First)?;
    // On a busy machine it takes longer until the takeover, too.
    let rows = jobs::all((begin.elapsed().as_secs() * 2).clamp(CLOCK_MIN_S, CLOCK_MAX_S));
    let known: Vec<Row> = rows.iter().filter(|row| row.when != When::After).cloned().collect();
    let screens = Screens::of(&home, &known, Version::Old)?;
    if way == Way::Restarted {
        let by_new = Screens::of(&home, &known, Version::New)?;
        found.extend(screens.compare(&by_new, "the new client at the old daemon: "));
    }
    make(&mut home, &known, When::Live)?;
    let untimed: Vec<Row> = known.iter().filter(|row| row.when != When::Timed).cloned().collect();
    let mut before = Account::of(&home, &untimed, Version::Old)?;
    found.extend(checks::dialogues(&home, &known)?);
    make(&mut home, &known, When::Timed)?;
    before.add(&home, &known)?;
    let leaders = Leaders::of(&known, &before)?;

    let replaced = Instant::now();
    way.take_over(&mut home, &known)?;
    found.extend(leaders.still_run(&home));
    let after = Account::of(&home, &known, Version::New)?;
    let took = replaced.elapsed();
    found.extend(before.compare(&known, &after));
    found.extend(screens.compare(&Screens::of(&home, &known, Version::New)?, ""));

    finish(&mut home, way, &rows)?;
    found.extend(checks::at_the_end(&mut home, &rows, &before)?);
    home.ask(Version::New, &["daemon", "stop"])?;
    found.extend(leaders.are_gone(&home));
    let count = |is: fn(&Row) -> bool| known.iter().filter(|row| is(row)).count();
    Ok(format!(
        "{:<9} {} live jobs: {} adopted with their keepers, {} waiting; {} ended before; {} events of {} kinds read back; \
         replaced and compared in {:.1} s, {:.0} s in all",
        way.name(),
        count(Row::is_live),
        count(Row::is_adopted),
        count(Row::is_waiting),
        count(|row| row.when == When::First),
        before.feed.len(),
        before.kinds().len(),
        took.as_secs_f64(),
        begin.elapsed().as_secs_f64()
    ))
}

/// Starts 0.1.0 with a setting and two groups, removes a job, and leaves a result unread.
fn set_up(home: &Home) -> Result<(), String> {
    for line in [
        "config set limits.wall 3h",
        "daemon start",
        "group set lane --slots 1",
        "group set shut --slots 1",
        "group pause shut",
    ] {
        home.ask(Version::Old, &line.split_whitespace().collect::<Vec<_>>())?;
    }
    let removed = home.ask(Version::Old, &["run", "-d", "true"])?;
    home.ask(Version::Old, &["wait", &removed])?;
    home.ask(Version::Old, &["rm", &removed])?;
    // No row: 0.1.0 counts a result as read when its job is shown.
    home.ask(Version::Old, &["run", "-d", "--name", "unread", "echo", "unread"]).map(drop)
}

/// Has 0.1.0 make the jobs of one time, and waits until their conditions hold.
fn make(home: &mut Home, rows: &[Row], when: When) -> Result<(), String> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.when == when).collect();
    for row in &rows {
        home.make(row, Version::Old)?;
        for step in &row.by_old {
            home.step(row, step, Version::Old)?;
        }
    }
    if when == When::Live {
        for line in ["logs -f count-1", "wait count-1", "events -f --json count-1"] {
            home.attach("", &line.split_whitespace().collect::<Vec<_>>())?;
        }
        // So that jobs are adopted a second time at the takeover.
        home.ask(Version::Old, &["daemon", "restart"])?;
    }
    for row in &rows {
        for condition in row.before.iter().chain(row.ends.iter().filter(|_| when == When::First)) {
            home.until_holds(&row.name, condition)?;
        }
    }
    Ok(())
}

/// Takes the steps of the new executable, has it make the last jobs, and waits until all have ended.
fn finish(home: &mut Home, way: Way, rows: &[Row]) -> Result<(), String> {
    for row in rows.iter().filter(|row| row.when != When::After) {
        let gap = row.in_gap.iter().filter(|_| !way.has_gap());
        for step in gap.chain(&row.by_new) {
            home.step(row, step, Version::New)?;
        }
    }
    for row in rows.iter().filter(|row| row.when == When::After) {
        home.make(row, Version::New)?;
    }
    rows.iter().try_for_each(|row| home.until_holds(&row.name, "/phase=ended"))
}
