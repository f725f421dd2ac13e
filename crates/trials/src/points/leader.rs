//! The job of a trial: children that leave the leader's session, output that can be told from any other, and a file
//! for each thing it has done, so that a record which says that it never ran can be refuted.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use super::case::Variant;

/// The verb by which the trials' own program becomes the job.
pub(crate) const VERB: &str = "points-leader";

/// The code with which it exits: no shell and no signal gives it by chance.
pub(super) const CODE: i32 = 7;

/// Files it leaves, in the order in which it does.
pub(super) const RAN: &str = "ran";
pub(super) const PRINTED: &str = "printed";
pub(super) const DONE: &str = "done";

/// Bursts of lines. The keeper sleeps between two, so it is met in every state.
const BURSTS: usize = 4;
const LINES_PER_BURST: usize = 8;

/// Returns what it writes to its standard output.
pub(super) fn stdout() -> Vec<u8> {
    (0..BURSTS).flat_map(burst).collect()
}

/// Returns what it writes to its standard error.
pub(super) fn stderr() -> Vec<u8> {
    (0..BURSTS).flat_map(complaint).collect()
}

fn burst(burst: usize) -> Vec<u8> {
    let lines =
        (0..LINES_PER_BURST).map(|line| format!("line {} of the job\n", burst * LINES_PER_BURST + line));
    lines.collect::<String>().into_bytes()
}

fn complaint(burst: usize) -> Vec<u8> {
    format!("complaint {burst}\n").into_bytes()
}

/// Is the job.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [effects, variant] = words else { return Err("it is started by a trial".to_owned()) };
    let variant = Variant::parse(variant).ok_or("there is no such variant")?;
    let effects = Path::new(effects);
    let leave = |name: &str| File::create(effects.join(name)).map_err(|error| format!("{name}: {error}"));
    leave(RAN)?;
    beget(false)?;
    beget(true)?;
    for number in 0..BURSTS {
        let written = std::io::stdout().write_all(&burst(number));
        let written = written.and_then(|()| std::io::stdout().flush());
        written
            .and_then(|()| std::io::stderr().write_all(&complaint(number)))
            .map_err(|error| error.to_string())?;
        crate::clock::rest(std::time::Duration::from_millis(1));
    }
    leave(PRINTED)?;
    if variant == Variant::Run {
        leave(DONE)?;
        std::process::exit(CODE);
    }
    linger()
}

/// Forks a child into a session of its own; with `twice`, one whose parent is gone as well. Returns when it is there.
fn beget(twice: bool) -> Result<(), String> {
    let (mut born, mut cry) = std::io::pipe().map_err(|error| error.to_string())?;
    // SAFETY: this process has one thread, and its children do nothing but fork, exit, write and sleep.
    unsafe {
        if libc::fork() != 0 {
            drop(cry);
            return born.read_exact(&mut [0]).map_err(|error| format!("a child was not born: {error}"));
        }
        libc::setsid();
        if twice && libc::fork() != 0 {
            libc::_exit(0);
        }
    }
    cry.write_all(&[1]).map_err(|error| error.to_string())?;
    linger()
}

fn linger() -> ! {
    loop {
        // SAFETY: takes nothing, and returns when a signal was handled.
        unsafe {
            libc::pause();
        }
    }
}
