//! A canary: prints numbered lines, notes outside the product what it did, and exits as it was told. Then: what such notes
//! and those of adversaries say about which processes lived, and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::plan::{Canary, Order, TRY_AGAIN, Work};
use crate::product::figures::{Stat, TICK_NS};
use crate::record::SIZE;
use crate::{clock, leader};

/// A line has this many bytes or a few more: some fill a page soon.
const LINE_BYTES: usize = 60;

/// Every so many lines one goes to stderr, too.
pub(crate) const ERROR_EVERY: u64 = 4;

/// Says beside the notes of a job that another one will repeat it, with the same words: the first line is the id of the first job, the
/// second the file for the notes of the other. A variable would not do: on a fleet a job has those of its worker.
pub(crate) fn repeat(order: &Order, id: &str, folder: &Path) -> io::Result<()> {
    let other = folder.join(order.repeated().life());
    fs::write(folder.join(order.life()).with_extension(FIRST), format!("{id}\n{}", other.display()))
}

/// Returns the file for the notes of this canary, if it repeats another one.
fn repeated(life: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(life).with_extension(FIRST)).ok()?;
    let (first, other) = text.split_once('\n')?;
    (std::env::var("LASTWORD_JOB_ID").ok()? != first).then(|| other.to_owned())
}

/// How the name of a file ends that says which job is the first.
const FIRST: &str = "first";

/// Returns the words that start the job of an order, whose notes go into `folder`.
pub(crate) fn argv(order: &Order, folder: &Path, adversary: &Path) -> Result<Vec<String>, String> {
    let life = folder.join(order.life()).to_string_lossy().into_owned();
    match &order.work {
        Work::Adversary(kind) => {
            // The trial creates the file: an adversary only appends to it.
            File::create(&life).map_err(|error| format!("{life}: {error}"))?;
            Ok(vec![adversary.to_string_lossy().into_owned(), (*kind).to_owned(), life])
        }
        Work::Canary(Canary { lines, pause_us, code, fails, inputs }) => {
            let numbers = [*lines, *pause_us, *code as u64, *fails, *inputs].map(|number| number.to_string());
            let words: Vec<&str> =
                ["canary", &life].into_iter().chain(numbers.iter().map(String::as_str)).collect();
            let words = leader::argv(&words)?;
            Ok(words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect())
        }
    }
}

/// Runs as a canary: `leader canary LIFE LINES PAUSE_US CODE FAILS INPUTS`.
pub(crate) fn sing(life: &str, numbers: &[u64]) -> Result<bool, String> {
    let [lines, pause_us, code, fails, inputs] = *numbers else {
        return Err("canary LIFE LINES PAUSE_US CODE FAILS INPUTS".to_owned());
    };
    let other = repeated(life);
    let life = other.as_deref().unwrap_or(life);
    let attempt: u64 = std::env::var("LASTWORD_ATTEMPT").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    // Counted here and not by the attempt's number: one that never started has a number, too.
    let earlier =
        fs::read_to_string(life).unwrap_or_default().lines().filter(|line| line.starts_with("born ")).count();
    let file = OpenOptions::new().append(true).create(true).open(life);
    let notes = Arc::new(Notes { file: file.map_err(|error| format!("{life}: {error}"))?, attempt });
    let failed = |error: io::Error| error.to_string();
    notes.note("born", 0).map_err(failed)?;
    let listener = (inputs > 0).then(|| {
        let notes = Arc::clone(&notes);
        std::thread::spawn(move || listen(&notes, inputs))
    });
    for number in 1..=lines {
        say(io::stdout().lock(), &line("out", attempt, number)).map_err(failed)?;
        if number % ERROR_EVERY == 0 {
            say(io::stderr().lock(), &line("err", attempt, number)).map_err(failed)?;
        }
        notes.note("said", number).map_err(failed)?;
        clock::rest(Duration::from_micros(pause_us));
    }
    if let Some(listener) = listener {
        listener.join().map_err(|_| "the listener failed")?.map_err(failed)?;
    }
    let code = if (earlier as u64) < fails { TRY_AGAIN } else { code as i32 };
    notes.note("ends", code as u64).map_err(failed)?;
    std::process::exit(code)
}

/// Returns a line of a canary.
pub(crate) fn line(stream: &str, attempt: u64, number: u64) -> String {
    let mut line = format!("{stream} {attempt} {number} ");
    while line.len() < LINE_BYTES {
        line.push(char::from(b'a' + ((number + line.len() as u64) % 26) as u8));
    }
    line.push('\n');
    line
}

fn say(mut to: impl io::Write, line: &str) -> io::Result<()> {
    to.write_all(line.as_bytes())?;
    to.flush()
}

/// Repeats what it hears, until it has heard enough.
fn listen(notes: &Notes, inputs: u64) -> io::Result<()> {
    // The number first: after the last there is nothing to wait for.
    for (number, line) in (1..=inputs).zip(io::stdin().lock().lines()) {
        say(io::stdout().lock(), &format!("heard {}\n", line?))?;
        notes.note("heard", number)?;
    }
    Ok(())
}

/// Where a canary says what it did.
struct Notes {
    file: File,
    attempt: u64,
}

impl Notes {
    /// Notes it in one write, so that notes of several processes never mix.
    fn note(&self, what: &str, number: u64) -> io::Result<()> {
        let (attempt, pid, at) = (self.attempt, std::process::id(), clock::boot_ns());
        (&self.file).write_all(format!("{what} {attempt} {number} {pid} {at}\n").as_bytes())
    }
}

/// What the notes of one job say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// Every process that noted something, and when it last did so.
    pub(crate) pids: BTreeMap<i32, u64>,
    /// By attempt; adversaries do not tell.
    pub(crate) attempts: BTreeMap<u64, Attempt>,
}

/// What the notes of one attempt say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) births: BTreeSet<i32>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) said: u64,
    pub(crate) heard: u64,
    pub(crate) ends: Option<i32>,
}

impl Life {
    /// Reads the notes of a job. No file is no life.
    pub(crate) fn read(order: &Order, folder: &Path) -> Life {
        let bytes = fs::read(folder.join(order.life())).unwrap_or_default();
        match order.work {
            Work::Canary(_) => Life::of_canary(&String::from_utf8_lossy(&bytes)),
            Work::Adversary(_) => Life::of_adversary(&bytes),
        }
    }

    fn of_canary(text: &str) -> Life {
        let mut life = Life::default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            let (pid, at) = (number(3) as i32, number(4));
            life.lived(pid, at);
            let attempt = life.attempts.entry(number(1)).or_default();
            attempt.first_ns = if attempt.first_ns == 0 { at } else { attempt.first_ns.min(at) };
            attempt.last_ns = attempt.last_ns.max(at);
            match words[0] {
                "born" => {
                    attempt.births.insert(pid);
                }
                "said" => attempt.said = attempt.said.max(number(2)),
                "heard" => attempt.heard = attempt.heard.max(number(2)),
                "ends" => attempt.ends = Some(number(2) as i32),
                _ => {}
            }
        }
        life
    }

    fn of_adversary(bytes: &[u8]) -> Life {
        let mut life = Life::default();
        for record in bytes.chunks_exact(SIZE) {
            let (pid, at) = (record[..4].try_into(), record[8..].try_into());
            if let (Ok(pid), Ok(at)) = (pid.map(u32::from_le_bytes), at.map(u64::from_le_bytes)) {
                life.lived(pid as i32, at);
            }
        }
        life
    }

    fn lived(&mut self, pid: i32, at: u64) {
        let last = self.pids.entry(pid).or_default();
        *last = at.max(*last);
    }

    /// Returns the last sign of life.
    pub(crate) fn last_ns(&self) -> u64 {
        self.pids.values().copied().max().unwrap_or(0)
    }

    /// Returns the processes that are alive now. A process that started after the last note of its pid is another one.
    pub(crate) fn alive(&self) -> Vec<i32> {
        let is_same = |pid: i32, last_ns: u64| {
            Stat::of(pid).is_some_and(|stat| stat.is_alive() && stat.start_ticks * TICK_NS <= last_ns)
        };
        self.pids.iter().filter(|(pid, last)| is_same(**pid, **last)).map(|(pid, _)| *pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_far_as_they_are_whole() {
        let life = Life::of_canary(
            "born 1 0 10 100\nsaid 1 1 10 110\nsaid 1 2 10 120\nends 1 75 10 130\nborn 2 0 11 140\nsai",
        );
        assert_eq!(life.pids, BTreeMap::from([(10, 130), (11, 140)]));
        assert_eq!(life.last_ns(), 140);
        assert_eq!((life.attempts[&1].said, life.attempts[&1].ends), (2, Some(75)));
        assert_eq!((life.attempts[&2].first_ns, life.attempts[&2].ends), (140, None));
    }

    #[test]
    fn the_living_are_told_from_those_who_got_their_number() {
        let own = std::process::id();
        let record = |at: u64| [own.to_le_bytes().as_slice(), &[0; 4], &at.to_le_bytes()].concat();
        assert_eq!(Life::of_adversary(&record(clock::boot_ns())).alive(), [own as i32]);
        assert_eq!(Life::of_adversary(&record(1)).alive(), [0; 0], "this process is younger than that");
    }
}
