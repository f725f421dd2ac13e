//! `fleet`: histories of a real fleet with faults. Three workers, two servers, PostgreSQL with a standby, each on a host of its own; judged by what canaries noted,
//! what clients were told, and the log.
//!
//! - [`host`]: a host, its network and its processes. [`database`]: PostgreSQL on one. [`cast`]: all of them.
//! - [`plan`]: what happens in a history, from its seed. [`orders`]: its jobs and faults. [`fault`]: what can happen. [`strike`]: how it is done. [`phase`]: what it met.
//! - [`script`]: histories whose faults are aimed. [`stage`]: what they can do and see.
//! - [`canary`]: the command of every job. [`ask`]: one request of a client. [`history`]: one history.
//! - [`evidence`], [`check`]: what is known at the end, and what is wrong with it. [`report`]: the figures of many.

pub(crate) mod ask;
pub(crate) mod canary;
mod cast;
mod check;
mod database;
mod evidence;
mod fault;
pub(crate) mod history;
pub(crate) mod host;
mod orders;
mod phase;
mod plan;
mod report;
mod script;
mod stage;
mod strike;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::apart;
use crate::args::Args;
use crate::clock;
use crate::place::{self, Programs};
use crate::verdict::verdict;
use fault::FAULTS;
use plan::Only;
use report::Report;
use script::SCRIPTS;

const USAGE: &str = "fleet [--histories N] [--seed S] [--at-once N] [--fault NAME] [--script NAME] [--bug NAME]

Histories of a fleet: 3 workers, 2 servers, PostgreSQL with a standby, each a host with its own network, processes, machine id and boot id. Each has 12 jobs and
at least 3 faults. No two attempts of a job may be alive at the same moment, no job may have a second last word, and what was acknowledged must count. Needs root.

  --histories N  how many, 12 if nothing is said
  --seed S       the first of them; each has a seed of its own
  --at-once N    how many run side by side
  --fault NAME   no other faults than this one
  --script NAME  faults that are aimed at one rule
  --bug NAME     with a seeded bug, which must be noticed; the run is over then";

/// How long a history may take before it counts as failed.
const HISTORY_MAX: Duration = Duration::from_secs(240);

/// The lease of these workers, and what a watcher waits in addition.
const LEASE_MS: u64 = 3_000;
const MARGIN_MS: u64 = 2_000;

/// A history that is under way.
struct Playing {
    seed: u64,
    folder: PathBuf,
    process: Child,
    begin: Instant,
}

/// What all histories of a run have in common.
struct Setting<'a> {
    lease_ms: u64,
    /// The fault or the script that they are restricted to.
    only: &'a str,
}

/// Runs `fleet`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        println!("{USAGE}");
        return Ok(true);
    }
    let args =
        Args::new(words, &["--histories", "--seed", "--at-once", "--fault", "--script", "--bug"], &[])?;
    let (histories, first): (u64, u64) = (args.value("--histories", 12)?, args.value("--seed", 1)?);
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let at_once: usize = args.value("--at-once", cores * 3)?;
    let bug = args.text("--bug");
    let only = only(&args)?;
    let lease_ms = match only {
        Some((_, Only::Script(script))) => script.lease_ms(),
        _ => LEASE_MS,
    };
    let setting = Setting { lease_ms, only: only.map_or("any", |(name, _)| name) };
    if !rustix::process::geteuid().is_root() {
        return Err("hosts need root: network namespaces with a bridge between them".to_owned());
    }
    let mut programs = Programs::beside()?;
    let place = place::temporary("fleet")?;
    if let Some(bug) = bug {
        // A keeper inherits no environment, so the bug travels in the name by which the program is called.
        let named = programs.lastword.with_extension(bug);
        let _ = fs::remove_file(&named);
        fs::hard_link(&programs.lastword, &named).map_err(|error| format!("{}: {error}", named.display()))?;
        programs.lastword = named;
    }
    let template = database::template(place.path())?;
    println!("fleet: {histories} histories from seed {first}, {at_once} at once, lease {lease_ms} ms");
    let begin = Instant::now();
    let report = play_all(first..first + histories, at_once, bug.is_some(), |seed| {
        play(&programs, place.path(), &template, seed, &setting)
    })?;
    report.print(begin.elapsed());
    let found = if bug.is_some() { report.caught() } else { report.verdict() };
    if found.is_err() == bug.is_none() {
        let kept = place.keep();
        eprintln!("what is left of it: {}", kept.display());
    }
    Ok(verdict(bug, found))
}

/// Returns the fault or the script that histories are restricted to, with its name.
fn only<'a>(args: &Args<'a>) -> Result<Option<(&'a str, Only)>, String> {
    let Some(name) = args.text("--script").or(args.text("--fault")) else { return Ok(None) };
    let only = Only::named(name).ok_or_else(|| format!("there is no {name}; there are: {}", names()))?;
    Ok(Some((name, only)))
}

/// Plays histories, so many at once. With a bug, until it is caught.
fn play_all(
    mut ahead: Range<u64>,
    at_once: usize,
    has_bug: bool,
    play: impl Fn(u64) -> Result<Playing, String>,
) -> Result<Report, String> {
    let (mut playing, mut report) = (Vec::<Playing>::new(), Report::default());
    loop {
        let is_enough = has_bug && report.caught().is_err();
        while !is_enough && playing.len() < at_once {
            let Some(seed) = ahead.next() else { break };
            playing.push(play(seed)?);
        }
        if playing.is_empty() || is_enough {
            break;
        }
        clock::rest(Duration::from_millis(50));
        let mut still = Vec::new();
        for mut history in playing {
            let is_late = history.begin.elapsed() > HISTORY_MAX;
            match history.process.try_wait() {
                Ok(None) if !is_late => still.push(history),
                _ => report.add(&result(&mut history, has_bug)),
            }
        }
        playing = still;
    }
    for mut history in playing {
        end(&mut history.process);
    }
    Ok(report)
}

/// Returns the names of all faults and scripts.
fn names() -> String {
    let names = FAULTS.map(|(_, name)| name).into_iter().chain(SCRIPTS.map(|(_, name)| name));
    names.collect::<Vec<_>>().join(", ")
}

/// Starts a history in namespaces of its own, so that nothing of it can be left.
fn play(
    programs: &Programs,
    place: &Path,
    template: &Path,
    seed: u64,
    setting: &Setting<'_>,
) -> Result<Playing, String> {
    let folder = place.join(seed.to_string());
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let said = File::create(folder.join("said")).map_err(|error| error.to_string())?;
    let numbers = [seed, setting.lease_ms, MARGIN_MS].map(|number| number.to_string());
    let [seed_word, lease, margin] = numbers.each_ref().map(|word| OsStr::new(word.as_str()));
    let (product, only) = (programs.lastword.as_os_str(), OsStr::new(setting.only));
    let words = [folder.as_os_str(), template.as_os_str(), product, seed_word, lease, margin, only];
    let mut command = apart::command(programs, history::VERB, &words);
    let errors = said.try_clone().map_err(|error| error.to_string())?;
    let process = command.stdout(Stdio::from(said)).stderr(Stdio::from(errors)).spawn();
    let process = process.map_err(|error| format!("unshare (of util-linux): {error}"))?;
    Ok(Playing { seed, folder, process, begin: Instant::now() })
}

/// Returns what a history left, once it is over. What is left of one that is sound tells why a bug was not caught.
fn result(history: &mut Playing, is_kept: bool) -> Value {
    end(&mut history.process);
    let text = fs::read_to_string(history.folder.join("result.json")).unwrap_or_default();
    let result = serde_json::from_str(&text);
    let said = || fs::read_to_string(history.folder.join("said")).unwrap_or_default();
    let result = result.unwrap_or_else(
        |_| json!({ "seed": history.seed, "failed": format!("it left nothing: {}", said().trim()) }),
    );
    // Files of databases are large, and the log is in the trace.
    for database in ["d1", "d2"] {
        let _ = fs::remove_dir_all(history.folder.join(database));
    }
    let is_sound = result["failed"].is_null() && result["violations"].as_array().is_some_and(Vec::is_empty);
    if is_sound && !is_kept {
        let _ = fs::remove_dir_all(&history.folder);
    }
    result
}

/// Ends a history that is over, or late: with `unshare` all that is in its namespaces ends.
fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
