//! `survive`: a stand-in for the daemon is killed with -9 at random moments, at times together with its nursery, while
//! its jobs speak and are spoken to. Another finds what it left, goes on with the inputs and waits for the end: every byte of
//! both streams must be there, every input once, and every exit status must be true.
//!
//! - [`script`]: what each job says, from its seed.
//! - `files`: the files of one round.
//! - `stand_in`: the one that is killed.

mod files;
pub(crate) mod script;
pub(crate) mod stand_in;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use lastword_proc::{ExitRecord, Located, Recording, boot_id, exit_record, locate, wait};

use crate::args::Args;
use crate::clock;
use crate::place::temporary;
use crate::random::Random;
use crate::verdict::{bug, verdict};
use files::{Files, JOBS};
use script::Script;

/// Bugs that must be caught.
const BUGS: [&str; 1] = ["plain-child"];

/// The latest moment of a kill: a little before the last of the jobs would be over.
const LIFE_MAX_US: u64 = 250_000;

/// The longest a job may take after its adoption: a script takes a third of a second, this machine may be busy.
const END_MAX: Duration = Duration::from_secs(60);

/// Runs `survive [--rounds N] [--seed N] [--bug plain-child]`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--rounds", "--seed", "--bug"], &[])?;
    let rounds: u64 = args.value("--rounds", 100)?;
    let seed: u64 = args.value("--seed", 1)?;
    let bug = bug(&args, &BUGS)?;
    println!("survive: seed {seed}, {rounds} kills");
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut found = Ok(());
    for round in 0..rounds {
        found = one_round(&mut random, bug, &mut tally).map_err(|why| format!("kill {round}: {why}"));
        if found.is_err() {
            break;
        }
    }
    println!(
        "{} kills ({} with the nursery), {} jobs: {} ended before they were found, {} adopted alive, {} never started",
        tally.kills,
        tally.with_nursery,
        tally.jobs(),
        tally.ended,
        tally.alive,
        tally.never_started
    );
    println!(
        "{} bytes of output, {} inputs ({} sent before the kill)",
        tally.bytes, tally.inputs, tally.inputs_before
    );
    let vacuous =
        bug.is_none() && rounds >= 20 && (tally.ended == 0 || tally.alive == 0 || tally.inputs_before == 0);
    if vacuous {
        found = found.and(Err("the kills never came at a moment that matters".to_owned()));
    }
    Ok(verdict(bug, found))
}

/// What came before the checker, so that an empty run cannot pass for a good one.
#[derive(Default)]
struct Tally {
    kills: u64,
    with_nursery: u64,
    ended: u64,
    alive: u64,
    never_started: u64,
    bytes: u64,
    inputs: u64,
    inputs_before: u64,
}

impl Tally {
    fn jobs(&self) -> u64 {
        self.ended + self.alive + self.never_started
    }
}

fn one_round(random: &mut Random, bug: Option<&str>, tally: &mut Tally) -> Result<(), String> {
    let temp = temporary("survive")?;
    let files = Files::at(temp.path());
    let seed = random.draw() >> 1;
    let standing = Standing(stand_in(temp.path(), seed, bug)?);
    // Most kills are counted from when there is something to lose; on a busy machine the others come before.
    if bug.is_none() && random.chance(80) {
        let begun = clock::until(END_MAX, Duration::from_millis(1), || Promised::read(&files).nursery);
        begun.ok_or("the stand-in never had a nursery")?;
    }
    clock::rest(Duration::from_micros(random.below(LIFE_MAX_US)));
    let with_nursery = random.chance(50);
    let promised = standing.kill(&files, with_nursery)?;
    tally.kills += 1;
    tally.with_nursery += u64::from(with_nursery && promised.nursery.is_some());
    for job in 0..JOBS {
        let script = Script::of(seed.wrapping_add(job));
        adopt(&files, job, &script, &promised, tally)
            .map_err(|why| format!("seed {seed}, job {job}: {why}"))?;
    }
    started_late(&files, seed)
}

/// Looks once more, at the end of the round, for leaders of attempts that were said never to have started.
fn started_late(files: &Files, seed: u64) -> Result<(), String> {
    for job in 0..JOBS {
        let located = locate(&files.folder(job), boot_id()).map_err(|error| error.to_string())?;
        if located == Located::NeverStarted && files.started(job).exists() {
            return Err(format!(
                "seed {seed}, job {job}: its leader ran after it was said never to have started"
            ));
        }
    }
    Ok(())
}

fn stand_in(root: &Path, seed: u64, bug: Option<&str>) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.arg("stand-in").arg(root).arg(seed.to_string()).args(bug);
    command.spawn().map_err(|error| format!("the stand-in did not start: {error}"))
}

/// The living stand-in. Killed in any case.
struct Standing(Child);

impl Standing {
    /// Kills it, and its nursery too, and returns what it had promised until then.
    fn kill(mut self, files: &Files, with_nursery: bool) -> Result<Promised, String> {
        if with_nursery && let Some(nursery) = Promised::read(files).nursery {
            // SAFETY: two plain calls. The nursery is a child of the stand-in, which does not reap while it is stopped: the
            // number is its own.
            unsafe {
                libc::kill(self.0.id() as i32, libc::SIGSTOP);
                libc::kill(nursery, libc::SIGKILL);
            }
        }
        self.0.kill().map_err(|error| error.to_string())?;
        self.0.wait().map_err(|error| error.to_string())?;
        Ok(Promised::read(files))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a stand-in said before it died.
struct Promised {
    nursery: Option<i32>,
    launched: Vec<u64>,
    /// How many inputs each job was sent for certain.
    inputs: BTreeMap<u64, u64>,
}

impl Promised {
    fn read(files: &Files) -> Promised {
        let text = std::fs::read_to_string(files.promises()).unwrap_or_default();
        let mut promised = Promised { nursery: None, launched: Vec::new(), inputs: BTreeMap::new() };
        // A line without its end was cut short by the kill.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let number =
                |at: usize| words.get(at).and_then(|word: &&str| word.parse::<u64>().ok()).unwrap_or(0);
            match words[0] {
                "nursery" => promised.nursery = i32::try_from(number(1)).ok(),
                "launched" => promised.launched.push(number(1)),
                "input" => *promised.inputs.entry(number(1)).or_default() += 1,
                _ => {}
            }
        }
        promised
    }
}

/// Does what a new daemon does with one attempt it finds, to the end.
fn adopt(
    files: &Files,
    job: u64,
    script: &Script,
    promised: &Promised,
    tally: &mut Tally,
) -> Result<(), String> {
    let folder = files.folder(job);
    let located = locate(&folder, boot_id()).map_err(|error| error.to_string())?;
    let record = match located {
        Located::Ended(record) => {
            tally.ended += 1;
            *record
        }
        Located::Alive(_) => {
            tally.alive += 1;
            send_the_rest(&folder, script)?;
            let record = wait(&folder, END_MAX).map_err(|error| error.to_string())?;
            record.ok_or("it did not end after its adoption")?
        }
        Located::NeverStarted => {
            tally.never_started += 1;
            return never_started(files, job, promised);
        }
        Located::OtherBoot => return Err("taken for one of another boot".to_owned()),
        Located::Vanished(_) => return Err("its keeper vanished, and nobody had killed it".to_owned()),
    };
    tally.inputs += script.inputs.len() as u64;
    tally.inputs_before += promised.inputs.get(&job).copied().unwrap_or(0);
    tally.bytes += record.receipt.output.seen;
    ended_well(files, job, script, &record)
}

/// Holds a job that is said never to have started to it.
fn never_started(files: &Files, job: u64, promised: &Promised) -> Result<(), String> {
    if promised.launched.contains(&job) {
        return Err("said never to have started, but its launch was acknowledged".to_owned());
    }
    match files.started(job).exists() {
        true => Err("said never to have started, but its leader ran".to_owned()),
        false => Ok(()),
    }
}

/// Sends every input with its number, those that arrived already too: an adopter does not know which did.
fn send_the_rest(folder: &Path, script: &Script) -> Result<(), String> {
    if script.inputs.is_empty() {
        return Ok(());
    }
    let sent = stand_in::send(folder, &script.inputs, |_| {});
    match sent {
        Ok(()) => Ok(()),
        // It had all it needed from the first stand-in, and ended meanwhile.
        Err(_) if exit_record(folder).is_ok_and(|record| record.is_some()) => Ok(()),
        Err(why) => Err(format!("inputs after its adoption: {why}")),
    }
}

fn ended_well(files: &Files, job: u64, script: &Script, record: &ExitRecord) -> Result<(), String> {
    if record.receipt.exit != Some(script.exit) {
        return Err(format!("ended with {:?}, recorded as {:?}", script.exit, record.receipt.exit));
    }
    if record.receipt.output_lost {
        return Err("its record admits that output was lost".to_owned());
    }
    if files.started(job).with_extension("twice").exists() {
        return Err("its leader was started twice".to_owned());
    }
    let folder = files.folder(job);
    let (stdout, stderr) = (whole(&folder, "stdout")?, whole(&folder, "stderr")?);
    let seen = (stdout.len() + stderr.len()) as u64;
    if record.receipt.output.seen != seen {
        return Err(format!("{seen} bytes were recorded, {} counted", record.receipt.output.seen));
    }
    script.check(&stdout, &stderr)
}

/// Reads a whole recording of which nothing may be missing.
pub(crate) fn whole(folder: &Path, stream: &str) -> Result<Vec<u8>, String> {
    let mut recording = Recording::open(folder, stream).map_err(|error| format!("{stream}: {error}"))?;
    let mut all = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read =
            recording.read(all.len() as u64, &mut buffer).map_err(|error| format!("{stream}: {error}"))?;
        if read.skipped > 0 {
            return Err(format!("{stream}: {} bytes are missing at {}", read.skipped, all.len()));
        }
        if read.bytes == 0 {
            return Ok(all);
        }
        all.extend_from_slice(&buffer[..read.bytes]);
    }
}
