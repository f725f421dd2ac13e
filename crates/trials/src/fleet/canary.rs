//! The command of every job: notes in one file outside of all hosts that it lives, every 20 ms. All hosts are one kernel, so the times of these notes can be compared.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::clock;

/// The verb by which this program becomes a canary.
pub(crate) const VERB: &str = "fleet-canary";

/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(20);

/// How a canary exits that was told to stop; and one that fails as it was told to.
const STOPPED: i32 = 143;
const FAILED: i32 = 75;

/// A canary's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Song {
    pub(super) runs_ms: u64,
    /// So many attempts fail, each after this time.
    pub(super) fails: u64,
    pub(super) fails_after_ms: u64,
    /// How long it goes on after it was told to stop.
    pub(super) lingers_ms: u64,
}

/// One process that ran as a canary, as its notes show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) job: String,
    pub(super) attempt: u64,
    pub(super) host: String,
    /// Its boot and its number there: together with the host they name a process.
    pub(super) process: String,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// How it ended by itself.
    pub(super) code: Option<i32>,
}

static TERM: AtomicBool = AtomicBool::new(false);

extern "C" fn note_term(_: libc::c_int) {
    TERM.store(true, Ordering::Relaxed);
}

/// Returns the words of a job that sings.
pub(super) fn argv(trials: &Path, notes: &Path, song: &Song) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let numbers = [song.runs_ms, song.fails, song.fails_after_ms, song.lingers_ms];
    let numbers = numbers.map(|number| number.to_string());
    [text(trials), VERB.to_owned(), text(notes)].into_iter().chain(numbers).collect()
}

/// Runs `fleet-canary NOTES RUNS_MS FAILS FAILS_AFTER_MS LINGERS_MS`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [notes, numbers @ ..] = words else { return Err("NOTES NUMBERS".to_owned()) };
    let numbers: Result<Vec<u64>, _> = numbers.iter().map(|word| word.parse()).collect();
    let [runs_ms, fails, fails_after_ms, lingers_ms] = numbers.map_err(|_| "not a number")?[..] else {
        return Err("four numbers are missing".to_owned());
    };
    // SAFETY: the handler only stores a flag.
    unsafe { libc::signal(libc::SIGTERM, note_term as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    sing(notes, &Song { runs_ms, fails, fails_after_ms, lingers_ms })
        .map_err(|error| format!("{notes}: {error}"))
}

fn sing(notes: &str, song: &Song) -> io::Result<bool> {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| "?".to_owned());
    let attempt: u64 = variable("LASTWORD_ATTEMPT").parse().unwrap_or(0);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let who = format!(
        "{} {attempt} {} {}.{}",
        variable("LASTWORD_JOB_ID"),
        host.trim(),
        boot.trim(),
        std::process::id()
    );
    let file = OpenOptions::new().append(true).open(notes)?;
    note(&file, "born", &who, 0)?;
    let (begin, mut told) = (clock::boot_ns(), None);
    let (code, runs_ms) =
        if attempt <= song.fails { (FAILED, song.fails_after_ms) } else { (0, song.runs_ms) };
    let since = |ns: u64| (clock::boot_ns() - ns) / 1_000_000;
    let code = loop {
        if TERM.load(Ordering::Relaxed) && since(*told.get_or_insert_with(clock::boot_ns)) >= song.lingers_ms
        {
            break STOPPED;
        }
        if told.is_none() && since(begin) >= runs_ms {
            break code;
        }
        clock::rest(BEAT);
        note(&file, "beat", &who, 0)?;
    };
    note(&file, "ends", &who, code)?;
    std::process::exit(code)
}

/// Notes it in one write, so that notes of several processes never mix.
fn note(mut file: &File, what: &str, who: &str, code: i32) -> io::Result<()> {
    let raw = clock_gettime(ClockId::MonotonicRaw);
    let raw = raw.tv_sec as u64 * 1_000_000_000 + raw.tv_nsec as u64;
    file.write_all(format!("{what} {who} {} {raw} {code}\n", clock::boot_ns()).as_bytes())
}

/// Reads notes, as far as they are whole.
pub(super) fn read(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, job, attempt, host, process, at, _, code] = words[..] else { continue };
        let (Ok(at), Ok(attempt)) = (at.parse(), attempt.parse()) else { continue };
        let is_it = |run: &&mut Run| run.process == process && run.host == host && run.job == job;
        let code = (what == "ends").then(|| code.parse().unwrap_or(-1));
        match runs.iter_mut().find(is_it) {
            Some(run) => {
                run.last_ns = run.last_ns.max(at);
                run.code = run.code.or(code);
            }
            None => runs.push(Run {
                job: job.to_owned(),
                attempt,
                host: host.to_owned(),
                process: process.to_owned(),
                first_ns: at,
                last_ns: at,
                code,
            }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_far_as_they_are_whole() {
        let runs = read(
            "born job_a 1 w1 boot.7 100 0 0\nbeat job_a 1 w1 boot.7 120 0 0\nborn job_a 2 w2 other.7 150 0 0\n\
             ends job_a 1 w1 boot.7 140 0 75\nbeat job_a 2 w2 oth",
        );
        let [first, second] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!((first.first_ns, first.last_ns, first.code), (100, 140, Some(75)));
        assert_eq!((second.first_ns, second.last_ns, second.code), (150, 150, None));
        assert_eq!((second.host.as_str(), second.attempt), ("w2", 2));
    }
}
