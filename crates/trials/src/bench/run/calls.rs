//! One thing at a time, as a person does it at a shell: from the command to the job's first instruction, a look at a job, a
//! forced end. Each call is a command of its own; ours also through the API.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lastword_api::Cancel;
use lastword_client::jobs::{self, Until};
use lastword_proc::Identity;

use super::super::command::quiet;
use super::super::folders::Folders;
use super::super::latency::{Times, asleep, bare_cancel, bare_start, began, ms, now_ns};
use super::super::rivals::{Queueing, Rivals, Spooling};
use super::product::{Ours, submit};
use crate::product::client::Client;
use crate::statistics::goal;
use crate::{clock, leader};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many may run at once: more than do.
const SLOTS: usize = 4;

/// How long one call waits for a job.
const WAIT: Duration = Duration::from_secs(30);

/// A command and what it is called, for the table.
type Named<'a> = (&'static str, Box<dyn FnMut(usize) -> Result<f64, String> + 'a>);

/// Lets all take turns, and prints a row for each. Returns the medians.
fn in_turn(title: &str, count: usize, mut all: Vec<Named<'_>>) -> Result<Vec<(&'static str, f64)>, String> {
    let mut times: Vec<Times> = all.iter().map(|_| Times::default()).collect();
    for number in 0..count {
        for ((_, one), times) in all.iter_mut().zip(&mut times) {
            times.0.push(one(number)?);
        }
    }
    println!("\n{:<44} {:>9} {:>9}", title, "p50", "p99");
    let rows = all.iter().zip(&mut times).map(|((name, _), times)| {
        times.print(name);
        (*name, times.p50())
    });
    Ok(rows.collect())
}

/// Measures from the start of the command to the job's first instruction.
pub(super) fn start(ours: &Ours, folders: &Folders, rivals: &Rivals, count: usize) -> Result<bool, String> {
    const OURS: &str = "lastword run -d";
    const SPOOLER: &str = "tsp";
    let folder = folders.folder()?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let (spooling, queueing) = servers(folders, rivals)?;
    let mut client = ours.product.client();
    ours.slots(&mut client, SLOTS)?;
    let stamp = |name: &str, number: usize| folder.join(format!("{name}-{number}"));
    let mut all: Vec<Named<'_>> = vec![
        ("bare posix_spawn", Box::new(|_| bare_start(&own))),
        (
            OURS,
            Box::new(|number| {
                let file = stamp("ours", number);
                let words =
                    [vec!["run".to_owned(), "-d".to_owned(), "--".to_owned()], stamping(&file)?].concat();
                first_instruction(&mut ours.product.command(&words), &file)
            }),
        ),
        (
            "POST /v1/jobs",
            Box::new(|number| {
                let file = stamp("api", number);
                let call = submit(stamping(&file)?);
                let begin = now_ns();
                client.call(&call)?;
                stamped(&file, begin)
            }),
        ),
    ];
    if let Some(spooling) = &spooling {
        let run = |number| {
            let file = stamp("tsp", number);
            let words = stamping(&file)?;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            first_instruction(&mut spooling.client(&words), &file)
        };
        all.push((SPOOLER, Box::new(run)));
    }
    if let Some(queueing) = &queueing {
        let run = |number| {
            let file = stamp("pueue", number);
            let words = stamping(&file)?;
            let words: Vec<&str> =
                ["add", "--"].into_iter().chain(words.iter().map(String::as_str)).collect();
            first_instruction(&mut queueing.client(&words), &file)
        };
        all.push(("pueue add", Box::new(run)));
    }
    let medians = in_turn("add → the job's first instruction, ms", count, all)?;
    let of = |name: &str| medians.iter().find(|(known, _)| *known == name).map(|(_, p50)| *p50);
    let (Some(own), Some(theirs)) = (of(OURS), of(SPOOLER)) else { return Ok(true) };
    println!("goal: at most task-spooler's, is {:.2} of it{}", own / theirs, goal(own <= theirs));
    Ok(own <= theirs)
}

/// Returns the words of a job that writes down when it began.
fn stamping(file: &Path) -> Result<Vec<String>, String> {
    let words = leader::argv(&["stamp-in", &file.to_string_lossy()])?;
    Ok(words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect())
}

fn first_instruction(command: &mut Command, file: &Path) -> Result<f64, String> {
    let begin = now_ns();
    quiet(command)?;
    stamped(file, begin)
}

fn stamped(file: &Path, begin: u64) -> Result<f64, String> {
    let said = clock::until(PATIENCE, Duration::from_micros(200), || {
        fs::read(file).ok().filter(|said| said.ends_with(b"\n"))
    });
    began(&said.ok_or("the job never began")?, begin)
}

/// Returns the times of so many starts, looks and forced ends, each by a command, in milliseconds.
pub(super) fn by_commands(
    ours: &Ours,
    folders: &Folders,
    count: usize,
) -> Result<[(&'static str, Vec<f64>); 3], String> {
    let folder = folders.folder()?;
    let mut client = ours.product.client();
    ours.slots(&mut client, SLOTS)?;
    let [mut starts, mut looks, mut ends] = [const { Vec::new() }; 3];
    for number in 0..count {
        let file = folder.join(number.to_string());
        let run = ["run", "-d", "--"].map(str::to_owned);
        starts.push(first_instruction(
            &mut ours.product.command(&[&run, &stamping(&file)?[..]].concat()),
            &file,
        )?);
        let (id, _) = sleeper(&mut client)?;
        looks.push(timed(&mut ours.product.command(&["show", &id]))?);
        let begin = Instant::now();
        quiet_or(&mut ours.product.command(&["cancel", "--force", &id]))?;
        ends.push(ms(begin));
    }
    Ok([("lastword run -d", starts), ("lastword show", looks), ("lastword cancel --force", ends)])
}

/// Measures a look at one job among some that have ended.
pub(super) fn show(ours: &Ours, folders: &Folders, rivals: &Rivals, count: usize) -> Result<(), String> {
    let (spooling, queueing) = servers(folders, rivals)?;
    let mut client = ours.product.client();
    let id = client.call(&submit(vec!["/bin/true".to_owned()]))?.id;
    client.call(&jobs::wait(&id, Until::Ended, WAIT))?;
    let adds = [
        spooling.as_ref().map(|server| server.client(&["true"])),
        queueing.as_ref().map(|server| server.client(&["add", "--", "true"])),
    ];
    for mut add in adds.into_iter().flatten() {
        quiet(&mut add)?;
    }
    let shown = jobs::show(&id).untyped();
    let mut all: Vec<Named<'_>> = vec![
        (
            "lastword --version: a process, and no more",
            Box::new(|_| timed(&mut ours.product.command(&["--version"]))),
        ),
        ("lastword show", Box::new(|_| timed(&mut ours.product.command(&["show", id.as_str()])))),
        (
            "GET /v1/jobs/{id}",
            Box::new(|_| {
                let begin = Instant::now();
                client.call(&shown)?;
                Ok(ms(begin))
            }),
        ),
    ];
    if let Some(spooling) = &spooling {
        all.push(("tsp -i", Box::new(|_| timed(&mut spooling.client(&["-i", "0"])))));
    }
    if let Some(queueing) = &queueing {
        all.push(("pueue status", Box::new(|_| timed(&mut queueing.client(&["status"])))));
    }
    in_turn("a look at one job, ms", count, all).map(|_| ())
}

fn timed(command: &mut Command) -> Result<f64, String> {
    let begin = Instant::now();
    quiet(command)?;
    Ok(ms(begin))
}

/// Measures from the forced cancel until the process is gone; ours is asked when the command is back, and must be gone then.
pub(super) fn cancel(ours: &Ours, folders: &Folders, rivals: &Rivals, count: usize) -> Result<(), String> {
    let (spooling, queueing) = servers(folders, rivals)?;
    let (mut by_command, mut by_api) = (ours.product.client(), ours.product.client());
    ours.slots(&mut by_command, SLOTS)?;
    let folder = folders.folder()?;
    let pid_file = |name: &str, number: usize| folder.join(format!("{name}-{number}"));
    let mut all: Vec<Named<'_>> = vec![
        ("bare killpg and waitpid (nothing proven)", Box::new(|_| bare_cancel())),
        (
            "lastword cancel --force, proven",
            Box::new(|_| {
                let (id, sleeper) = sleeper(&mut by_command)?;
                let begin = Instant::now();
                quiet_or(&mut ours.product.command(&["cancel", "--force", id.as_str()]))?;
                let took = ms(begin);
                if sleeper.is_alive() {
                    return Err(format!("{id}: cancelled, and alive"));
                }
                Ok(took)
            }),
        ),
        (
            "POST :cancel {force}, then wait, proven",
            Box::new(|_| {
                let (id, sleeper) = sleeper(&mut by_api)?;
                let begin = Instant::now();
                by_api.call(&jobs::cancel(&id, &Cancel { force: true, ..Cancel::default() }))?;
                let job = by_api.call(&jobs::wait(&id, Until::Ended, WAIT))?;
                let took = ms(begin);
                match job.is_ended() && !sleeper.is_alive() {
                    true => Ok(took),
                    false => Err(format!("{id}: cancelled, and {}", job.phase)),
                }
            }),
        ),
    ];
    if let Some(spooling) = &spooling {
        let run = |number: usize| {
            let file = pid_file("tsp", number);
            quiet(&mut spooling.client(&["sh", "-c", &exec_sleep(&file)]))?;
            until_gone(&file, &mut spooling.client(&["-k"]))
        };
        all.push(("tsp -k: TERM to the group, until it is gone", Box::new(run)));
    }
    if let Some(queueing) = &queueing {
        let run = |number: usize| {
            let file = pid_file("pueue", number);
            quiet(&mut queueing.client(&["add", "--", &exec_sleep(&file)]))?;
            until_gone(&file, &mut queueing.client(&["kill", "--signal", "sigkill", "--all"]))
        };
        all.push(("pueue kill, until it is gone", Box::new(run)));
    }
    in_turn("a forced end → nothing left, ms", count, all).map(|_| ())
}

/// Starts a job that sleeps and returns it once it does.
fn sleeper(client: &mut Client) -> Result<(String, Identity), String> {
    let id = client.call(&submit(["/bin/sleep", "1000"].map(str::to_owned).to_vec()))?.id;
    let job = client.call(&jobs::wait(&id, Until::Started, WAIT))?;
    let pid = job.attempts.first().and_then(|attempt| attempt.pid);
    let pid = pid.ok_or_else(|| format!("{id} has no process: {}", job.phase))?;
    asleep(pid)?;
    let sleeper = Identity::of(pid).ok_or_else(|| format!("{id}: its process is gone"))?;
    Ok((id, sleeper))
}

/// Runs a command whose exit code says how the job ended, not whether the command did.
fn quiet_or(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    match output.status.code() {
        Some(0 | 3) => Ok(()),
        other => Err(format!("{command:?}: {other:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn exec_sleep(file: &Path) -> String {
    format!("echo $$ > {}; exec sleep 1000", file.display())
}

fn until_gone(file: &Path, end: &mut Command) -> Result<f64, String> {
    let pid = clock::until(PATIENCE, Duration::from_millis(1), || {
        fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse::<i32>().ok()
    });
    let pid = pid.ok_or("the job never began")?;
    asleep(pid)?;
    let victim = Identity::of(pid).ok_or("the job ended by itself")?;
    // A server may not have heard yet that its job runs, and refuses then: only the call that is taken counts.
    let taken = clock::until(PATIENCE, Duration::from_millis(1), || {
        let begin = Instant::now();
        quiet(end).ok().map(|()| begin)
    });
    let begin = taken.ok_or("the job cannot be ended")?;
    let gone = clock::until(PATIENCE, Duration::from_micros(100), || (!victim.is_alive()).then_some(()));
    gone.map(|()| ms(begin)).ok_or_else(|| "the job does not end".to_owned())
}

fn servers(folders: &Folders, rivals: &Rivals) -> Result<(Option<Spooling>, Option<Queueing>), String> {
    let spooling = rivals.spooler.as_ref().map(|spooler| spooler.serve(folders, SLOTS)).transpose()?;
    let queueing = rivals.pueue.as_ref().map(|pueue| pueue.serve(folders, SLOTS)).transpose()?;
    Ok((spooling, queueing))
}
