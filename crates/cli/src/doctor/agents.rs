//! Checks the known coding agents: which are installed, their versions, and whether they can be talked to.
//!
//! A missing agent is not an error; one that is installed but does not answer is.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_agents::{Chosen, Definition, Dialogue, Goals, Heard, Start, with_variables};
use lastword_core::InputNo;
use lastword_core::event::TurnEnding;
use lastword_core::report::Signal;
use lastword_proc::{Input, Keep, Keeper, Launch, Nursery, Recording, Stop, Tool, clock};
use lastword_server::known_agents;

use super::check::Check;
use crate::daemon::service::nursery;
use crate::environment;
use crate::paths::Paths;
use crate::random::random;
use crate::text::shell::quoted;

/// How long an agent may take to print its version.
const VERSION_MAX: Duration = Duration::from_secs(10);

/// How long an agent may take to start up, after which its keeper stops it.
const HANDSHAKE_MAX_MS: u64 = 20_000;

/// How long a keeper may take to prove that nothing of an agent is left running.
const GONE_MAX: Duration = Duration::from_secs(15);

/// The limit on an agent's output before its first prompt.
const OUTPUT_MAX: u64 = 32 << 20;

/// Bytes per read of an agent's output.
const CHUNK: usize = 64 << 10;

/// Checks all known agents; with `start`, starts the installed ones and talks to them until they are ready.
pub(super) fn check(paths: &Paths, start: bool) -> Vec<Check> {
    let file = paths.agents();
    let known = match known_agents(&file) {
        Ok(known) => known,
        Err(bad) => {
            let text = format!("no agent can be run: {bad}");
            return vec![Check::fail("agents", text).remedy(format!("edit {}", quoted(&file)))];
        }
    };
    let path = environment::get_os("PATH").unwrap_or_default();
    let mut found: Vec<(&str, &Definition, Option<PathBuf>)> =
        known.all().map(|(name, definition)| (name, definition, find(definition.program(), &path))).collect();
    // Several definitions may share a program; report a missing one once.
    let mut missing = BTreeSet::new();
    found.retain(|(_, definition, path)| path.is_some() || missing.insert(definition.program()));
    let nursery = if start { nursery().map_err(|error| error.to_string()) } else { Err(String::new()) };
    let nursery = start.then_some(&nursery);
    let mut checks = vec![summary(&found)];
    // Concurrently: each may take long to start.
    std::thread::scope(|scope| {
        let there =
            found.iter().filter_map(|(name, definition, path)| Some((*name, *definition, path.as_ref()?)));
        let running: Vec<_> = there
            .map(|(name, definition, path)| (name, scope.spawn(move || one(name, definition, path, nursery))))
            .collect();
        for (name, check) in running {
            checks.push(check.join().unwrap_or_else(|_| Check::fail(id(name), "the check failed")));
        }
    });
    if start {
        let missing = found.iter().filter(|(_, _, path)| path.is_none());
        checks.extend(missing.map(|(name, definition, _)| absent(name, definition)));
    }
    checks
}

/// Reports how to install a missing agent.
fn absent(name: &str, definition: &Definition) -> Check {
    let text = match definition.package.as_deref() {
        Some(package) => format!("not installed; install it with: {package}"),
        None => "not installed".to_owned(),
    };
    Check::ok(id(name), text)
}

/// Reports which agents are installed. None of them is required.
fn summary(found: &[(&str, &Definition, Option<PathBuf>)]) -> Check {
    let names = |there: bool| {
        let some = found.iter().filter(|(_, _, path)| path.is_some() == there).map(|(name, ..)| *name);
        some.collect::<Vec<_>>().join(", ")
    };
    Check::ok(
        "agents",
        match (names(true), names(false)) {
            (there, missing) if there.is_empty() => format!("none installed (known: {missing})"),
            (there, missing) if missing.is_empty() => format!("installed: {there}"),
            (there, missing) => format!("installed: {there}; not installed: {missing}"),
        },
    )
}

fn id(name: &str) -> String {
    format!("agent.{name}")
}

fn one(name: &str, definition: &Definition, path: &Path, nursery: Option<&Result<Nursery, String>>) -> Check {
    let version = version(path, definition);
    let there = match &version {
        Ok(version) => format!("{version} at {}", path.display()),
        Err(why) => format!("at {}: {why}", path.display()),
    };
    match nursery {
        None if version.is_err() => Check::warn(id(name), there),
        None => Check::ok(id(name), there),
        Some(Err(error)) => Check::fail(id(name), format!("{there}; cannot start a keeper: {error}")),
        Some(Ok(nursery)) => match handshake(nursery, definition) {
            Ok(answer) => Check::ok(id(name), format!("{there}; {answer}")),
            Err(why) => Check::warn(id(name), format!("{there}; {why}"))
                .remedy(format!("{}    # start it by hand to log in or see its error", definition.program())),
        },
    }
}

/// Finds a program in `PATH`.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    std::env::split_paths(path).map(|folder| folder.join(program)).find(runs)
}

/// Returns the version that a program prints, or why it does not.
fn version(path: &Path, definition: &Definition) -> Result<String, String> {
    if definition.version.is_empty() {
        return Ok("installed".to_owned());
    }
    let tool = Tool {
        program: path.as_os_str(),
        arguments: definition.version.iter().map(Into::into).collect(),
        folder: Path::new("/"),
        env: environment::all(),
        input: None,
        time_max: VERSION_MAX,
    };
    let output = tool.run().map_err(|error| format!("cannot get its version: {error}"))?;
    if !output.status.success() {
        return Err(format!("cannot get its version: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("installed");
    Ok(line.trim().chars().take(80).collect())
}

/// Starts an agent under a keeper, talks to it until it is ready, and stops it. Returns its answer, or why there is none.
fn handshake(nursery: &Nursery, definition: &Definition) -> Result<String, String> {
    let terms = definition.terms(Chosen::default())?;
    if terms.dialect.is_one_shot() {
        return Ok("one-shot, not started".to_owned());
    }
    let folder = Folder::new()?;
    let cwd = folder.0.display().to_string();
    let start = Start { prompt: "hello".to_owned(), cwd: cwd.clone(), ..Start::default() };
    let secret: [u8; 16] = random().map_err(|failure| failure.to_string())?;
    let secret = format!("{:032x}", u128::from_ne_bytes(secret));
    let launch = Launch {
        env: with_variables(environment::all(), &terms, &secret),
        cwd: folder.0.clone(),
        input: Input::Pipe,
        // Spooled, so that its keeper reports output as it is written.
        stdout: Keep::Spool { ahead_max: OUTPUT_MAX },
        deadline: Some(clock::awake_ms() + HANDSHAKE_MAX_MS),
        ..Launch::new(folder.0.join("attempt"), start.argv(&terms))
    };
    make(&launch.dir)?;
    nursery.launch(&launch).map_err(|error| error.to_string())?;
    let answered = talk(&launch.dir, Dialogue::new(start, &terms));
    if let Ok(mut keeper) = Keeper::connect(&launch.dir, 0) {
        // If this fails, it is stopped at its deadline.
        let _ = keeper.stop(Stop { cause: "user", force: true, ..Stop::default() });
    }
    let gone = lastword_proc::wait(&launch.dir, GONE_MAX).map_err(|error| error.to_string())?;
    if gone.is_none() {
        return Err("it could not be stopped; `lastword doctor --orphans` lists what is left".to_owned());
    }
    answered.map_err(|why| why.unwrap_or_else(|| last_error(&launch.dir)))
}

/// Talks to an agent until it is ready for its first prompt, or has answered it: Claude Code opens its session only with a first message.
/// Returns its answer, or the error it reports; `None` if it exits before.
fn talk(dir: &Path, mut dialogue: Dialogue) -> Result<String, Option<String>> {
    // If the keeper is gone, so is the agent.
    let gone = |_: lastword_proc::Error| None;
    let mut events = Keeper::connect(dir, 0).map_err(gone)?;
    let mut speaker = Keeper::connect(dir, 0).map_err(gone)?;
    events.watch().map_err(gone)?;
    let mut recording = Recording::open(dir, "stdout").map_err(gone)?;
    let (mut lines, mut session, mut chunk) = (0, None::<String>, vec![0; CHUNK]);
    let answers = |session: Option<String>| match session {
        Some(name) => format!("answers, session {name}"),
        None => "answers".to_owned(),
    };
    loop {
        while let Some(due) = dialogue.next(&Goals::default()) {
            if dialogue.wrote(due.line.as_bytes(), InputNo(0)).is_some() {
                // This would be the first prompt.
                return Ok(answers(session));
            }
            lines += 1;
            speaker.input(lines, format!("{}\n", due.line).as_bytes()).map_err(gone)?;
        }
        let read = recording.read(dialogue.next_byte(), &mut chunk).map_err(gone)?;
        for Heard { signal, .. } in dialogue.read(&chunk[..read.bytes]) {
            match signal {
                Signal::SessionStarted { reference, .. } => session = reference,
                Signal::TurnEnded { ending: TurnEnding::Completed, .. } => return Ok(answers(session)),
                Signal::TurnEnded { error, .. } => {
                    let why = error.unwrap_or_else(|| "its first turn did not complete".to_owned());
                    return Err(Some(why));
                }
                _ => {}
            }
        }
        if read.bytes > 0 {
            continue;
        }
        match events.next_event().map_err(gone)? {
            Some(event) if !lastword_proc::is_ended_event(&event.to_string()) => {}
            _ => return Err(None),
        }
    }
}

/// Returns why an agent exited: the last line of its stderr.
fn last_error(dir: &Path) -> String {
    let mut buffer = vec![0; 4 << 10];
    let last = Recording::open(dir, "stderr").ok().and_then(|mut recording| {
        let size = recording.size().ok()?;
        let read = recording.read(size.saturating_sub(buffer.len() as u64), &mut buffer).ok()?;
        let text = String::from_utf8_lossy(&buffer[..read.bytes]).into_owned();
        text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
    });
    match last {
        Some(last) => format!("does not answer; its last error: {last}"),
        None => "does not answer".to_owned(),
    }
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let random: [u8; 8] = random().map_err(|failure| failure.text())?;
        let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = std::env::temp_dir().join(format!("lastword-doctor-{name}"));
        make(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn make(folder: &Path) -> Result<(), String> {
    let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))
}
