//! The coding agents that are known: which are there, of which version, and whether they can be spoken to.
//!
//! Who has none of them misses nothing: an agent that is not there is not wrong. One that is there and does not answer is.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_agents::{Definition, Dialogue, Goals, Heard, Start};
use lastword_core::InputNo;
use lastword_core::report::Signal;
use lastword_core::spec::Permissions;
use lastword_proc::{Input, Keep, Keeper, Launch, Nursery, Recording, Stop, Tool, clock};
use lastword_server::known_agents;

use super::Check;
use crate::client::random;
use crate::daemon::run::nursery;
use crate::environment;
use crate::paths::Paths;

/// How long an agent may take to say its version.
const VERSION_MAX: Duration = Duration::from_secs(10);

/// How long an agent may take to come up. Its keeper ends it then.
const HANDSHAKE_MAX_MS: u64 = 20_000;

/// How long a keeper may take to prove that nothing of an agent is left.
const GONE_MAX: Duration = Duration::from_secs(15);

/// Bytes that an agent may say before its first prompt.
const SAID_MAX: u64 = 32 << 20;

/// Bytes read at once of what an agent says.
const CHUNK: usize = 64 << 10;

/// Looks at every agent that is known; with `greet`, those that are there are started and spoken to, up to their first prompt.
pub(super) fn examine(paths: &Paths, greet: bool) -> Vec<Check> {
    let file = paths.agents();
    let known = match known_agents(&file) {
        Ok(known) => known,
        Err(bad) => {
            let text = format!("no agent can be run: {bad}");
            return vec![Check::fail("agents", text).remedy(format!("edit {}", super::shown(&file)))];
        }
    };
    let path = environment::get_os("PATH").unwrap_or_default();
    let mut found: Vec<(&str, &Definition, Option<PathBuf>)> =
        known.all().map(|(name, definition)| (name, definition, find(definition.program(), &path))).collect();
    // What is not there is not there in any of its forms, and said once.
    let mut missing = BTreeSet::new();
    found.retain(|(_, definition, path)| path.is_some() || missing.insert(definition.program()));
    let nursery = if greet { nursery().map_err(|error| error.to_string()) } else { Err(String::new()) };
    let nursery = greet.then_some(&nursery);
    let mut checks = vec![summary(&found)];
    // Side by side: each takes as long as it likes to come up.
    std::thread::scope(|scope| {
        let there =
            found.iter().filter_map(|(name, definition, path)| Some((*name, *definition, path.as_ref()?)));
        let looks: Vec<_> = there
            .map(|(name, definition, path)| (name, scope.spawn(move || one(name, definition, path, nursery))))
            .collect();
        for (name, look) in looks {
            checks.push(look.join().unwrap_or_else(|_| Check::fail(id(name), "the look at it failed")));
        }
    });
    if greet {
        let missing = found.iter().filter(|(_, _, path)| path.is_none());
        checks.extend(missing.map(|(name, definition, _)| absent(name, definition)));
    }
    checks
}

/// Says how an agent can be had.
fn absent(name: &str, definition: &Definition) -> Check {
    let text = match definition.package.as_deref() {
        Some(package) => format!("not installed; to get it: {package}"),
        None => "not installed".to_owned(),
    };
    Check::ok(id(name), text)
}

/// Says which of the known agents are there. None of them is needed.
fn summary(found: &[(&str, &Definition, Option<PathBuf>)]) -> Check {
    let names = |there: bool| {
        let some = found.iter().filter(|(_, _, path)| path.is_some() == there).map(|(name, ..)| *name);
        some.collect::<Vec<_>>().join(", ")
    };
    Check::ok(
        "agents",
        match (names(true), names(false)) {
            (there, missing) if there.is_empty() => format!("none is installed of {missing}"),
            (there, missing) if missing.is_empty() => format!("{there} are installed"),
            (there, missing) => format!("installed: {there}; not installed: {missing}"),
        },
    )
}

fn id(name: &str) -> String {
    format!("agent.{name}")
}

fn one(name: &str, definition: &Definition, path: &Path, greet: Option<&Result<Nursery, String>>) -> Check {
    let version = version(path, definition);
    let there = match &version {
        Ok(version) => format!("{version} at {}", path.display()),
        Err(why) => format!("at {}, {why}", path.display()),
    };
    match greet {
        None if version.is_err() => Check::warn(id(name), there),
        None => Check::ok(id(name), there),
        Some(Err(error)) => Check::fail(id(name), format!("{there}; no keeper can be started: {error}")),
        Some(Ok(nursery)) => match handshake(nursery, definition) {
            Ok(answer) => Check::ok(id(name), format!("{there}; {answer}")),
            Err(why) => Check::warn(id(name), format!("{there}; {why}"))
                .remedy(format!("{}    # log in, and see what it says", definition.program())),
        },
    }
}

/// Returns where a program is found.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    std::env::split_paths(path).map(|folder| folder.join(program)).find(runs)
}

/// Returns what the program says is its version, or why it does not.
fn version(path: &Path, definition: &Definition) -> Result<String, String> {
    if definition.version.is_empty() {
        return Ok("there".to_owned());
    }
    let asked = Tool {
        program: path.as_os_str(),
        arguments: definition.version.iter().map(Into::into).collect(),
        folder: Path::new("/"),
        env: environment::all(),
        input: None,
        time_max: VERSION_MAX,
    };
    let said = asked.run().map_err(|error| format!("which does not say its version: {error}"))?;
    if !said.status.success() {
        return Err(format!("which does not say its version: {}", said.status));
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("there");
    Ok(line.trim().chars().take(80).collect())
}

/// Starts an agent under a keeper, speaks to it up to its first prompt, and ends it. Returns what it answered, or why it did not.
fn handshake(nursery: &Nursery, definition: &Definition) -> Result<String, String> {
    let terms = definition.terms(Permissions::default());
    if terms.dialect.is_one_shot() {
        return Ok("is not spoken to".to_owned());
    }
    let folder = Folder::new()?;
    let cwd = folder.0.display().to_string();
    let start = Start { prompt: "hello".to_owned(), cwd: cwd.clone(), ..Start::default() };
    let launch = Launch {
        env: environment::all(),
        cwd: folder.0.clone(),
        input: Input::Pipe,
        // Of what is recorded so its keeper tells as it comes.
        stdout: Keep::Spool { ahead_max: SAID_MAX },
        deadline: Some(clock::awake_ms() + HANDSHAKE_MAX_MS),
        ..Launch::new(folder.0.join("attempt"), start.argv(&terms))
    };
    make(&launch.dir)?;
    nursery.launch(&launch).map_err(|error| error.to_string())?;
    let answered = greet(&launch.dir, Dialogue::new(start, &terms));
    if let Ok(mut keeper) = Keeper::connect(&launch.dir, 0) {
        // What cannot be said is not needed: it ends at its deadline.
        let _ = keeper.stop(Stop { cause: "user", force: true, ..Stop::default() });
    }
    let gone = lastword_proc::wait(&launch.dir, GONE_MAX).map_err(|error| error.to_string())?;
    if gone.is_none() {
        return Err("it could not be ended; `lastword doctor --orphans` shows what is left".to_owned());
    }
    answered.map_err(|why| why.unwrap_or_else(|| complaint(&launch.dir)))
}

/// Speaks to an agent until it would be given its first prompt. Returns what it answers, or what it says is wrong; nothing, if it is
/// gone before that.
fn greet(dir: &Path, mut dialogue: Dialogue) -> Result<String, Option<String>> {
    // Whoever speaks for it goes with it.
    let gone = |_: lastword_proc::Error| None;
    let mut events = Keeper::connect(dir, 0).map_err(gone)?;
    let mut speaker = Keeper::connect(dir, 0).map_err(gone)?;
    events.watch().map_err(gone)?;
    let mut recording = Recording::open(dir, "stdout").map_err(gone)?;
    let (mut lines, mut session, mut chunk) = (0, None, vec![0; CHUNK]);
    loop {
        while let Some(due) = dialogue.next(&Goals::default()) {
            if dialogue.wrote(due.line.as_bytes(), InputNo(0)).is_some() {
                // That would be the first prompt.
                let session = session.map_or_else(String::new, |name: String| format!(", session {name}"));
                return Ok(format!("answers{session}"));
            }
            lines += 1;
            speaker.input(lines, format!("{}\n", due.line).as_bytes()).map_err(gone)?;
        }
        let read = recording.read(dialogue.next_byte(), &mut chunk).map_err(gone)?;
        for Heard { signal, .. } in dialogue.read(&chunk[..read.bytes]) {
            match signal {
                Signal::SessionStarted { reference, .. } => session = reference,
                Signal::TurnEnded { error, .. } => {
                    let why = error.unwrap_or_else(|| "no session can be had from it".to_owned());
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

/// Returns why an agent is gone: the last it complained about, or that its time was over.
fn complaint(dir: &Path) -> String {
    let mut said = vec![0; 4 << 10];
    let last = Recording::open(dir, "stderr").ok().and_then(|mut recording| {
        let size = recording.size().ok()?;
        let read = recording.read(size.saturating_sub(said.len() as u64), &mut said).ok()?;
        let text = String::from_utf8_lossy(&said[..read.bytes]).into_owned();
        text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
    });
    match last {
        Some(last) => format!("does not answer; its last words: {last}"),
        None => "does not answer".to_owned(),
    }
}

/// A folder for one look; it goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let random: [u8; 8] = random().map_err(|failure| failure.words())?;
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
