//! The stand-in for a daemon that `survive` kills: launches its jobs and sends them their inputs, and notes in a file what it
//! was told. It never ends by itself.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use lastword_proc::{Input, Keep, Keeper, Launch, Nursery};

use super::files::{Files, JOBS};
use super::script::Script;
use crate::leader;
use crate::place::Programs;

/// More than any script says, so that nothing of it is dropped.
const KEPT: u64 = 1 << 20;

/// Runs `stand-in ROOT SEED [plain-child]`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [root, seed, bug @ ..] = words else { return Err("stand-in ROOT SEED".to_owned()) };
    let seed: u64 = seed.parse().map_err(|_| "not a seed")?;
    let files = Files::at(Path::new(root));
    let promises = OpenOptions::new().append(true).create(true).open(files.promises());
    let mut promises = promises.map_err(|error| error.to_string())?;
    match bug {
        ["plain-child"] => plain_children(&files, seed, &mut promises),
        _ => keep(&files, seed, &mut promises),
    }?;
    loop {
        std::thread::park();
    }
}

fn keep(files: &Files, seed: u64, promises: &mut File) -> Result<(), String> {
    let nursery = Nursery::start(&Programs::beside()?.lastword).map_err(|error| error.to_string())?;
    promise(promises, &format!("nursery {}", nursery.pid()))?;
    std::thread::scope(|scope| {
        let mut speaking = Vec::new();
        for job in 0..JOBS {
            let script = Script::of(seed.wrapping_add(job));
            let launch = launch(files, job, seed, &script)?;
            nursery.launch(&launch).map_err(|error| error.to_string())?;
            promise(promises, &format!("launched {job}"))?;
            if !script.inputs.is_empty() {
                let mut promises = promises.try_clone().map_err(|error| error.to_string())?;
                let folder = files.folder(job);
                speaking.push(scope.spawn(move || {
                    send(&folder, &script.inputs, |no| {
                        // Told late or not at all is only one promise less.
                        let _ = promise(&mut promises, &format!("input {job} {no}"));
                    })
                }));
            }
        }
        speaking
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread of inputs failed".to_owned())?)
    })?;
    // Held for good: a daemon that lives keeps its nursery.
    loop {
        std::thread::park();
        let _ = nursery.pid();
    }
}

fn launch(files: &Files, job: u64, seed: u64, script: &Script) -> Result<Launch, String> {
    let (seed, started) = (seed.wrapping_add(job).to_string(), files.started(job));
    let argv = leader::argv(&["lines", &seed, &started.to_string_lossy()])?;
    let mut launch = Launch::new(files.folder(job), argv);
    launch.input = if script.inputs.is_empty() { Input::Null } else { Input::Pipe };
    // Both ways of recording keep all of it; which one is drawn with the job.
    if job.is_multiple_of(2) {
        launch.stdout = Keep::Spool { ahead_max: KEPT };
    } else {
        launch.stdout = Keep::Caps { head: KEPT, tail: KEPT };
    }
    launch.stderr = Keep::Caps { head: KEPT, tail: KEPT };
    Ok(launch)
}

/// Sends numbered inputs and ends the input. An input that arrived before is not delivered again.
pub(crate) fn send(folder: &Path, inputs: &[String], mut sent: impl FnMut(u64)) -> Result<(), String> {
    let mut keeper = Keeper::connect(folder, 0).map_err(|error| error.to_string())?;
    for (no, input) in (1..).zip(inputs) {
        keeper.input(no, input.as_bytes()).map_err(|error| error.to_string())?;
        sent(no);
        breathe();
    }
    keeper.close_input().map_err(|error| error.to_string())
}

#[expect(clippy::disallowed_methods, reason = "inputs are spread over the life of the stand-in")]
fn breathe() {
    std::thread::sleep(std::time::Duration::from_millis(10));
}

fn promise(promises: &mut File, line: &str) -> Result<(), String> {
    // One write, so that a kill leaves a whole line or an unfinished one, and never two mixed.
    promises.write_all(format!("{line}\n").as_bytes()).map_err(|error| error.to_string())
}

/// The seeded bug: the jobs are children like any other's, and speak to this process.
fn plain_children(files: &Files, seed: u64, promises: &mut File) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    for job in 0..JOBS {
        let folder = files.folder(job);
        DirBuilder::new().mode(0o700).create(&folder).map_err(|error| error.to_string())?;
        let mut child = Command::new(&own)
            .args(["leader", "lines", &seed.wrapping_add(job).to_string()])
            .arg(files.started(job))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        promise(promises, &format!("launched {job}"))?;
        let (mut out, mut err) =
            (child.stdout.take().ok_or("no pipe")?, child.stderr.take().ok_or("no pipe")?);
        let (to_out, to_err) = (File::create(folder.join("stdout")), File::create(folder.join("stderr")));
        let (mut to_out, mut to_err) =
            (to_out.map_err(|error| error.to_string())?, to_err.map_err(|error| error.to_string())?);
        std::thread::spawn(move || io::copy(&mut out, &mut to_out));
        std::thread::spawn(move || io::copy(&mut err, &mut to_err));
    }
    Ok(())
}
