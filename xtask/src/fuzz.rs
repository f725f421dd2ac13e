//! `fuzz`: every parser of what comes from outside, under libFuzzer, which keeps what reaches new code and bends it further.
//!
//! The targets are in `fuzz/`, one program for all. It is built with the compiler that everything is built with; what it needs on
//! top is a C++ compiler, for libFuzzer itself. Seeds are what was really said: recorded streams, stored facts, files of ours.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::program::{Failure, Outcome, output, runs, spent_by, target};
use crate::seeded::Build;

/// CPU seconds for each target, by default.
const SECONDS: u32 = 20;

/// How many times longer a target may take by the clock.
const PATIENCE: u32 = 20;

/// A folder in memory.
const MEMORY: &str = "/dev/shm";

/// How often a target's CPU time is checked.
const LOOK: Duration = Duration::from_millis(50);

/// Lines of a recorded stream that make a seed, and lines from its beginning that go before: without a session, nothing is heard.
const SEED_LINES: usize = 6;
const FIRST_LINES: usize = 8;

/// How the compiler counts what is reached.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// The targets, and what they begin with.
const TARGETS: &[(&str, Seeds)] = &[
    ("acp", Seeds::Streams("-acp")),
    ("claude", Seeds::Streams("claude-")),
    ("codex", Seeds::Streams("codex-app")),
    ("once", Seeds::Streams("once-")),
    ("plain", Seeds::Streams("qwen")),
    ("agents-file", Seeds::File("crates/agents/src/agents.toml")),
    ("prices-file", Seeds::File("crates/agents/src/prices.toml")),
    (
        "settings-file",
        Seeds::Text(&["[limits]\nwall = '1h30m'\noutput = '10M'\n", "log = 'debug'\n[keep]\njobs = 3\n"]),
    ),
    (
        "profile-file",
        Seeds::Text(&[
            "agent = 'claude'\nmodel = 'opus'\nargs = ['--add-dir', 'x']\nenv = ['TOKEN']\nworktree = 'keep'\n",
            "[limits]\nwall = '1h30m'\nturns = 12\nmoney = 1.5\n[labels]\nteam = 'core'\n",
        ]),
    ),
    ("text", Seeds::Text(&["1h30m", "90s", "64K", "2GiB", "\u{1b}[31mred\u{202e}", "{\"a\":\"\u{9b}\"}"])),
    (
        "job-output",
        Seeds::Text(&[
            "\u{1b}[1;31mred\nplain\r\n\u{1b}[8mhidden\u{1b}[0m",
            "\u{1b}[38;5;8mgrey\u{1b}[48;2;8;9;10m\tx\u{1b}[4:3;58:2::1:2:3m",
            "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}31m\u{202e}",
        ]),
    ),
    (
        "requests",
        Seeds::Text(&[
            "{\"argv\":[\"true\"],\"cwd\":\"/\",\"env\":{}}",
            "{\"wall_ms\":null}",
            "{\"force\":true}",
        ]),
    ),
    ("facts", Seeds::Facts),
    (
        "keeper-lines",
        Seeds::Text(&[
            "ok pid=1 words=a%20b",
            "event what=climbed rung=term alive=3",
            "declined code=full words=x",
        ]),
    ),
    (
        "sent-inputs",
        Seeds::Text(&["input no=1 output_at=0 at=5 bytes=3\na\nb\ninput no=7 output_at=9 at=6 bytes=0\n\n"]),
    ),
    (
        "git-changes",
        Seeds::Text(&[":100644 100644 1 2 M\0a\0:100644 100644 1 2 R090\0b\0c\x003\t1\ta\x003\t1\t\0b\0c\0"]),
    ),
];

/// What a target begins with.
enum Seeds {
    /// Recorded streams with this in their name, piece by piece.
    Streams(&'static str),
    /// Stored facts, each behind the name of its kind.
    Facts,
    /// A file.
    File(&'static str),
    /// These.
    Text(&'static [&'static str]),
}

/// What was asked for.
struct Asked<'a> {
    seconds: u32,
    bug: Option<&'a str>,
    target: Option<&'a str>,
}

/// Builds the targets and runs them, as many at once as there are processors.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let mut asked = Asked::read(arguments)?;
    // A bug has to be found somewhere, not everywhere.
    asked.target = asked.target.or(asked.bug.map(|_| "acp"));
    let chosen: Vec<_> =
        TARGETS.iter().filter(|(name, _)| asked.target.is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::new(format!("there is no such target; there are {}", names.join(", "))));
    }
    let folder = target().join("fuzz");
    let program = build(&folder, asked.bug)?;
    write_words(&folder)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let (waiting, failures) = (Mutex::new(chosen.into_iter()), Mutex::new(Vec::new()));
    println!("{:<16} {:>12} {:>9} {:>9}", "target", "runs", "seconds", "peak MB");
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
                    let Some((name, seeds)) = next else { break };
                    if let Err(failure) = fuzz(&program, &folder, name, seeds, &asked)
                        && let Ok(mut failures) = failures.lock()
                    {
                        failures.push(failure.why);
                    }
                }
            });
        }
    });
    match failures.into_inner().unwrap_or_default() {
        none if none.is_empty() => Ok(()),
        failures => Err(Failure::new(failures.join("\n"))),
    }
}

impl<'a> Asked<'a> {
    fn read(mut words: &[&'a str]) -> Result<Asked<'a>, Failure> {
        let usage = || Failure::new("usage: cargo xtask fuzz [--seconds N] [--bug NAME] [TARGET]");
        let mut asked = Asked { seconds: SECONDS, bug: None, target: None };
        loop {
            words = match words {
                [] => return Ok(asked),
                ["--seconds", seconds, rest @ ..] => {
                    asked.seconds = seconds.parse().map_err(|_| usage())?;
                    rest
                }
                ["--bug", bug, rest @ ..] => {
                    asked.bug = Some(bug);
                    rest
                }
                [target, rest @ ..] if !target.starts_with('-') && asked.target.is_none() => {
                    asked.target = Some(target);
                    rest
                }
                _ => return Err(usage()),
            }
        }
    }
}

/// Builds the program; for a bug, from the copy that has it.
fn build(folder: &Path, bug: Option<&str>) -> Result<PathBuf, Failure> {
    let about = output("rustc", &["-vV"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Failure::new("`rustc -vV` names no host"))?;
    let build = Build::of(&bug.map_or(Vec::new(), |name| vec!["--bug", name]))?;
    // With a target, what runs while compiling is built without the flags.
    let words = ["build", "--release", "--locked", "--target", host];
    build.cargo_in("fuzz", folder, &words, &[("RUSTFLAGS", FLAGS)])?;
    Ok(build.programs(folder).join(host).join("release/lastword-fuzz"))
}

fn fuzz(program: &Path, folder: &Path, name: &str, seeds: &Seeds, asked: &Asked<'_>) -> Outcome {
    // With a bug it starts without the inputs of earlier runs, which would find the bug at once.
    let corpus = folder.join(asked.bug.unwrap_or("corpus")).join(name);
    let found = folder.join("found");
    if asked.bug.is_some() && corpus.exists() {
        fs::remove_dir_all(&corpus)
            .map_err(|error| Failure::new(format!("{}: {error}", corpus.display())))?;
    }
    make(&corpus)?;
    make(&found)?;
    for (number, seed) in seeds.all()?.iter().enumerate() {
        write(&corpus.join(format!("seed-{number}")), seed)?;
        if asked.bug.is_some() {
            write(&corpus.join(format!("long-{number}")), in_other_letters(seed).as_bytes())?;
        }
    }
    let option = |name: &str, value: &dyn std::fmt::Display| format!("-{name}={value}");
    let options = [
        option("max_total_time", &(asked.seconds * PATIENCE)),
        option("dict", &folder.join("words").display()),
        option("artifact_prefix", &found.join(format!("{name}-")).display()),
        // What one reading may take, and all of them: more is a finding.
        option("timeout", &10),
        option("malloc_limit_mb", &256),
        option("rss_limit_mb", &1024),
        option("max_len", &65_536),
        // Long from the first on: a conversation is.
        option("len_control", &0),
        option("print_final_stats", &1),
    ];
    let mut command = Command::new(program);
    command.envs(asked.bug.map(|bug| ("LASTWORD_BUG", bug)));
    command.env("LASTWORD_FUZZ", name);
    // Some targets write and sync files; a disk would make them wait.
    if is_writable(MEMORY, name) {
        command.env("TMPDIR", MEMORY);
    }
    let done = run_for(command.args(options).arg(&corpus), asked.seconds);
    let (done, used_its_time) =
        done.map_err(|error| Failure::new(format!("{}: {error}", program.display())))?;
    judge(name, &done, used_its_time, asked)
}

fn is_writable(folder: &str, name: &str) -> bool {
    let probe = Path::new(folder).join(format!("lastword-fuzz-{name}.{}", std::process::id()));
    fs::write(&probe, "").and_then(|()| fs::remove_file(&probe)).is_ok()
}

/// Runs a fuzzer until it has used so many CPU seconds: beside other work it takes longer, and executes as many inputs. Also returns whether
/// it used them.
fn run_for(command: &mut Command, seconds: u32) -> std::io::Result<(Output, bool)> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (pid, ended) = (child.id(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                if spent_by(pid) >= Duration::from_secs(seconds.into()) {
                    // libFuzzer prints its statistics and exits with 0.
                    let _ = runs("kill", &["-USR1", &pid.to_string()]);
                    return true;
                }
                std::thread::sleep(LOOK);
            }
            false
        });
        let output = child.wait_with_output();
        ended.store(true, Ordering::Relaxed);
        Ok((output?, watch.join().unwrap_or(false)))
    })
}

/// Returns a seed whose messages are long, and in letters of three bytes. What is shown with a bug is that a panic is noticed and told;
/// a bug that has to be searched for would be found by most runs only, and a step must not pass by chance.
fn in_other_letters(seed: &[u8]) -> String {
    let long = format!("\"text\":\"a{}", "€".repeat(70));
    String::from_utf8_lossy(seed).replace("\"text\":\"", &long)
}

fn judge(name: &str, done: &Output, used_its_time: bool, asked: &Asked<'_>) -> Outcome {
    let said = String::from_utf8_lossy(&done.stderr);
    let count = |what: &str| {
        said.lines().find_map(|line| Some(line.strip_prefix(what)?.trim().to_owned())).unwrap_or_default()
    };
    let (runs, peak) = (count("stat::number_of_executed_units:"), count("stat::peak_rss_mb:"));
    let finding = said.lines().find(|line| line.contains("panicked at") || line.contains("ERROR: libFuzzer"));
    match (done.status.success(), asked.bug) {
        (true, None) if !used_its_time => {
            let why = "ended before it had used its CPU seconds: the machine is too busy";
            Err(Failure::new(format!("{name}: {why}")))
        }
        (true, None) => {
            println!("{name:<16} {runs:>12} {:>9} {peak:>9}", asked.seconds);
            Ok(())
        }
        (true, Some(bug)) => Err(Failure::new(format!("{name}: {bug} was not found in {runs} runs"))),
        (false, Some(bug)) if finding.is_some() => {
            println!("{name:<16} {runs:>12} {bug} was found: {}", finding.unwrap_or_default().trim());
            Ok(())
        }
        (false, _) => {
            let from = said
                .find("panicked at")
                .map_or(said.len().saturating_sub(2_000), |at| at.saturating_sub(200));
            let from = (from..said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(said.len());
            let words: String = said[from..].chars().take(3_000).collect();
            Err(Failure::new(format!("{name}: something was found, and kept in target/fuzz/found\n{words}")))
        }
    }
}

impl Seeds {
    fn all(&self) -> Result<Vec<Vec<u8>>, Failure> {
        match self {
            Seeds::Text(texts) => Ok(texts.iter().map(|text| text.as_bytes().to_vec()).collect()),
            Seeds::File(path) => Ok(vec![read(Path::new(path))?.into_bytes()]),
            Seeds::Facts => files("crates/core/golden", "")?
                .iter()
                .map(|path| {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let kind = name.split('.').next().unwrap_or_default();
                    Ok(format!("{kind}\n{}", read(path)?).into_bytes())
                })
                .collect(),
            Seeds::Streams(part) => {
                let mut seeds = Vec::new();
                for path in files("crates/agents/tests/streams", part)? {
                    let text = read(&path)?;
                    let lines: Vec<&str> = text.lines().collect();
                    let (first, rest) = lines.split_at(FIRST_LINES.min(lines.len()));
                    let seed = |lines: &[&str]| [first, lines].concat().join("\n").into_bytes();
                    seeds.extend(rest.is_empty().then(|| seed(&[])));
                    seeds.extend(rest.chunks(SEED_LINES).map(seed));
                }
                Ok(seeds)
            }
        }
    }
}

/// Writes the words that are known in streams, facts and requests, for the fuzzer to put where it likes.
fn write_words(folder: &Path) -> Outcome {
    let mut words = BTreeSet::new();
    let known = [
        files("crates/agents/tests/streams", "")?,
        files("crates/core/golden", "")?,
        files("docs/reference", "openapi")?,
    ];
    for path in known.iter().flatten() {
        let text = read(path)?;
        let quoted = text.split('"').filter(|word| (2..40).contains(&word.len()));
        let plain =
            |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_/-".contains(&byte));
        words.extend(quoted.filter(plain).map(str::to_owned));
    }
    let lines: String = words.iter().map(|word| format!("\"\\\"{word}\\\"\"\n")).collect();
    make(folder)?;
    write(&folder.join("words"), lines.as_bytes())
}

/// Returns the files of a folder with this in their names, in order.
fn files(folder: &str, part: &str) -> Result<Vec<PathBuf>, Failure> {
    let listed = fs::read_dir(folder).map_err(|error| Failure::new(format!("{folder}: {error}")))?;
    let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| {
        path.is_file() && path.file_name().is_some_and(|name| name.to_string_lossy().contains(part))
    });
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn write(path: &Path, bytes: &[u8]) -> Outcome {
    fs::write(path, bytes).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn make(folder: &Path) -> Outcome {
    fs::create_dir_all(folder).map_err(|error| Failure::new(format!("{}: {error}", folder.display())))
}
