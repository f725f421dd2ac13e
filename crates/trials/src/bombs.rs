//! `bombs`: output in amounts and patterns that would overwhelm a careless recorder. The keeper's memory and disk usage are watched
//! throughout; in the end every byte must be counted, and head and tail must be what was written.
//!
//! `--bug uncapped` records without a cap and must be caught on the disk; `--bug miscounted` has the leader write less than is expected.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lastword_core::receipt::Exit;
use lastword_proc::{
    ExitRecord, Input, Keep, Keeper, Launch, Launched, Nursery, Recording, Stop, exit_record,
};

use crate::args::Args;
use crate::leader;
use crate::place::{Programs, temporary};
use crate::survive::script::same;
use crate::verdict::{bug, verdict};

/// Bugs that must be caught.
const BUGS: [&str; 2] = ["uncapped", "miscounted"];

/// How much of a stream is kept at its beginning, and at its end.
const HEAD: u64 = 4 << 20;
const TAIL: u64 = 4 << 20;

/// Disk usage beyond the caps: the tail moves in steps, and times and records come on top.
const SLACK: u64 = 4 << 20;

/// How far the writer of a spool may be ahead of its reader.
const AHEAD: u64 = 8 << 20;

/// The most resident memory that shim or guard may ever have.
const RSS_MAX: u64 = 4 << 20;

/// The longest that one bomb may take: 5 GB through one pipe on a busy machine.
const LONGEST: Duration = Duration::from_secs(300);

/// What a leader does with the bomb that its arguments are: it says by the file `$0` that the bomb is over, and goes on until its input
/// ends. A keeper that left with its tree could no longer be measured.
const UNTIL_MEASURED: &str = r#""$@"; code=$?; : >"$0"; read -r line; exit $code"#;

/// Patterns of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bomb {
    /// Long lines, at full speed.
    Flood,
    /// One endless line.
    Line,
    /// Short lines, at full speed.
    Lines,
    /// One write per few bytes, at a steady rate.
    Tiny,
}

impl Bomb {
    const ALL: [(Bomb, &'static str); 4] =
        [(Bomb::Flood, "flood"), (Bomb::Line, "line"), (Bomb::Lines, "lines"), (Bomb::Tiny, "tiny")];

    /// Returns the bomb of a name.
    pub(crate) fn named(name: &str) -> Result<Bomb, String> {
        let found = Bomb::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(bomb, _)| *bomb).ok_or_else(|| format!("there is no bomb `{name}`"))
    }

    fn name(self) -> &'static str {
        Bomb::ALL.iter().find(|(bomb, _)| *bomb == self).map_or("", |(_, name)| name)
    }

    /// Returns the length after which the pattern repeats with the next number.
    pub(crate) fn unit(self) -> usize {
        match self {
            Bomb::Flood | Bomb::Line => 4096,
            Bomb::Lines => 16,
            Bomb::Tiny => 10,
        }
    }

    /// Returns the rate of writes, unless it is full speed.
    pub(crate) fn writes_per_second(self) -> Option<u64> {
        (self == Bomb::Tiny).then_some(100_000)
    }

    /// Writes the pattern at an offset: units that begin with their number, so that no two places are alike.
    pub(crate) fn fill(self, offset: u64, bytes: &mut [u8]) {
        let unit = self.unit() as u64;
        let end = if self == Bomb::Line { b'.' } else { b'\n' };
        let mut number = [b'.'; 4096];
        let mut at = 0;
        while at < bytes.len() {
            let place = offset + at as u64;
            let mut rest = place / unit;
            let unit_bytes = &mut number[..unit as usize];
            for digit in unit_bytes[..9].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            unit_bytes[unit as usize - 1] = end;
            let from = (place % unit) as usize;
            let length = (unit as usize - from).min(bytes.len() - at);
            bytes[at..at + length].copy_from_slice(&unit_bytes[from..from + length]);
            at += length;
        }
    }

    fn size(self, short: bool) -> u64 {
        let seconds = if short { 2 } else { 10 };
        match (self, short) {
            (Bomb::Flood, false) => 5_000_000_000,
            (Bomb::Flood, true) => 500_000_000,
            (Bomb::Line, false) => 1_000_000_000,
            (Bomb::Line, true) => 200_000_000,
            (Bomb::Lines, false) => 10_000_000 * 16,
            (Bomb::Lines, true) => 1_000_000 * 16,
            (Bomb::Tiny, _) => 100_000 * seconds * 10,
        }
    }
}

/// Runs `bombs [--short] [--bug NAME]`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--bug"], &["--short"])?;
    let (short, bug) = (args.has("--short"), bug(&args, &BUGS)?);
    let nursery = Nursery::start(&Programs::beside()?.lastword).map_err(|error| error.to_string())?;
    println!(
        "{:<12} {:>13} {:>8} {:>8} {:>10} {:>10} {:>10} {:>9}",
        "", "bytes", "s", "MB/s", "shim kB", "guard kB", "disk kB", "samples"
    );
    let mut found = Ok(());
    for (bomb, _) in Bomb::ALL {
        found = found.and_then(|()| throw(&nursery, bomb, bomb.size(short), bug));
    }
    if bug.is_none() {
        let size = if short { 100_000_000 } else { 1_000_000_000 };
        found = found.and_then(|()| spool(&nursery, size));
    }
    println!(
        "memory: the most ever resident (VmHWM), at most {} kB; disk: blocks of the folder",
        RSS_MAX >> 10
    );
    Ok(verdict(bug, found))
}

/// Runs one bomb under a keeper with caps.
fn throw(nursery: &Nursery, bomb: Bomb, size: u64, bug: Option<&str>) -> Result<(), String> {
    let temp = temporary("bombs")?;
    let written = if bug == Some("miscounted") { size - 1 } else { size };
    let mut launch = launch(temp.path(), bomb, written)?;
    launch.stdout = match bug {
        Some("uncapped") => Keep::Spool { ahead_max: u64::MAX >> 1 },
        _ => Keep::Caps { head: HEAD, tail: TAIL },
    };
    let launched = nursery.launch(&launch).map_err(|error| error.to_string())?;
    let mut watch = Watch::new(&launch.dir, &launched, HEAD + TAIL + SLACK);
    let record = watch.follow_to_end(|| Ok(()));
    watch.report(bomb.name(), size);
    ended_well(&record?, size).map_err(|why| format!("{}: {why}", bomb.name()))?;
    head_and_tail(&launch.dir, bomb, size).map_err(|why| format!("{}: {why}", bomb.name()))
}

/// Reads a spool while it is written and trims it: nothing may be missing, and the disk holds only what was not read.
fn spool(nursery: &Nursery, size: u64) -> Result<(), String> {
    let temp = temporary("bombs")?;
    let mut launch = launch(temp.path(), Bomb::Flood, size)?;
    launch.stdout = Keep::Spool { ahead_max: AHEAD };
    let launched = nursery.launch(&launch).map_err(|error| error.to_string())?;
    let mut watch = Watch::new(&launch.dir, &launched, AHEAD + SLACK);
    let mut reader = Reader::open(&launch.dir)?;
    let record = watch.follow_to_end(|| reader.follow());
    watch.report("spool", size);
    ended_well(&record?, size).map_err(|why| format!("spool: {why}"))?;
    while reader.step()? > 0 {}
    match reader.at == size {
        true => Ok(()),
        false => Err(format!("spool: {} of {size} bytes could be read", reader.at)),
    }
}

fn launch(temp: &Path, bomb: Bomb, size: u64) -> Result<Launch, String> {
    let folder = temp.join("attempt");
    let shell = ["/bin/sh", "-c", UNTIL_MEASURED].map(OsString::from);
    let argv = leader::argv(&["bomb", bomb.name(), &size.to_string()])?;
    let words = shell.into_iter().chain([over(&folder).into_os_string()]).chain(argv);
    Ok(Launch { input: Input::Pipe, ..Launch::new(&folder, words) })
}

/// Returns the file beside the folder of an attempt that says that its bomb is over.
fn over(folder: &Path) -> PathBuf {
    folder.with_file_name("over")
}

/// A reader that keeps up.
struct Reader {
    recording: Recording,
    keeper: Keeper,
    at: u64,
    trimmed: u64,
    buffer: Vec<u8>,
    expected: Vec<u8>,
}

impl Reader {
    fn open(folder: &Path) -> Result<Reader, String> {
        Ok(Reader {
            recording: Recording::open(folder, "stdout").map_err(|error| error.to_string())?,
            keeper: Keeper::connect(folder, 0).map_err(|error| error.to_string())?,
            at: 0,
            trimmed: 0,
            buffer: vec![0; 256 << 10],
            expected: vec![0; 256 << 10],
        })
    }

    /// Reads and compares more, and returns how much.
    fn step(&mut self) -> Result<usize, String> {
        let read = self.recording.read(self.at, &mut self.buffer).map_err(|error| error.to_string())?;
        if read.skipped > 0 {
            return Err(format!("spool: {} bytes are missing at {}", read.skipped, self.at));
        }
        Bomb::Flood.fill(self.at, &mut self.expected[..read.bytes]);
        same("spool", &self.buffer[..read.bytes], &self.expected[..read.bytes])?;
        self.at += read.bytes as u64;
        Ok(read.bytes)
    }

    /// Reads and trims what is there, unless the keeper is about to exit.
    fn follow(&mut self) -> Result<(), String> {
        while self.step()? > 0 {
            if self.at - self.trimmed >= AHEAD / 4 {
                break;
            }
        }
        if self.at > self.trimmed && self.keeper.trim("stdout", self.at).is_ok() {
            self.trimmed = self.at;
        }
        Ok(())
    }
}

fn ended_well(record: &ExitRecord, size: u64) -> Result<(), String> {
    if record.receipt.exit != Some(Exit::Code(0)) || record.receipt.output_lost {
        return Err(format!("it did not end well: {record:?}"));
    }
    match record.receipt.output.seen == size {
        true => Ok(()),
        false => Err(format!("{} bytes were counted, {size} written", record.receipt.output.seen)),
    }
}

/// Compares what was kept of both ends, and checks that the part in between is reported missing.
fn head_and_tail(folder: &Path, bomb: Bomb, size: u64) -> Result<(), String> {
    let mut recording = Recording::open(folder, "stdout").map_err(|error| error.to_string())?;
    let mut buffer = vec![0; 64 << 10];
    let mut expected = buffer.clone();
    let (mut at, mut kept, mut skipped) = (0, 0, 0);
    loop {
        let read = recording.read(at, &mut buffer).map_err(|error| error.to_string())?;
        if read.skipped > 0 && (read.offset < HEAD || read.offset + TAIL > size) {
            return Err(format!("{} bytes are missing before {}", read.skipped, read.offset));
        }
        if read.bytes == 0 {
            break;
        }
        bomb.fill(read.offset, &mut expected[..read.bytes]);
        same(&format!("at {}", read.offset), &buffer[..read.bytes], &expected[..read.bytes])?;
        at = read.offset + read.bytes as u64;
        kept += read.bytes as u64;
        skipped += read.skipped;
    }
    match (at, kept + skipped) == (size, size) {
        true => Ok(()),
        false => Err(format!("{kept} bytes kept and {skipped} skipped of {size}, the last before {at}")),
    }
}

/// Watches a keeper's memory and its folder until the end.
struct Watch<'a> {
    folder: &'a Path,
    status: [PathBuf; 2],
    rss: [u64; 2],
    disk: u64,
    disk_max: u64,
    samples: u64,
    /// The leader was let go.
    may_end: bool,
    begin: Instant,
}

impl Watch<'_> {
    fn new<'a>(folder: &'a Path, launched: &Launched, disk_max: u64) -> Watch<'a> {
        let status = |pid: i32| PathBuf::from(format!("/proc/{pid}/status"));
        Watch {
            folder,
            status: [status(launched.shim.pid), status(launched.guard.pid)],
            rss: [0; 2],
            disk: 0,
            disk_max,
            samples: 0,
            may_end: false,
            begin: Instant::now(),
        }
    }

    /// Samples until there is an exit record, calling `meanwhile` between samples. Lets the leader end after a sample that was taken after
    /// the bomb. Stops the tree if a bound is exceeded.
    fn follow_to_end(
        &mut self,
        mut meanwhile: impl FnMut() -> Result<(), String>,
    ) -> Result<ExitRecord, String> {
        loop {
            // Checked first, so that the last sample is taken after the end, and one between the bomb and the end.
            let ended = exit_record(self.folder).map_err(|error| error.to_string())?;
            let is_over = over(self.folder).exists();
            let fine = self.sample().and_then(|()| meanwhile());
            let fine = fine.and_then(|()| if is_over { self.let_end() } else { Ok(()) });
            let late = self.begin.elapsed() > LONGEST;
            match (ended, fine) {
                (Some(_), Ok(())) if self.rss.contains(&0) => {
                    return Err("its memory could not be read even once".to_owned());
                }
                (Some(record), Ok(())) => return Ok(record),
                (None, Ok(())) if !late => a_moment(),
                (ended, fine) => {
                    if ended.is_none()
                        && let Ok(mut keeper) = Keeper::connect(self.folder, 0)
                    {
                        let _ = keeper.stop(Stop { cause: "cancel", force: true, ..Stop::default() });
                    }
                    return fine.and(Err("it did not end in time".to_owned()));
                }
            }
        }
    }

    /// Closes the leader's input, once.
    fn let_end(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.may_end, true) {
            return Ok(());
        }
        let closed =
            Keeper::connect(self.folder, 0).and_then(|keeper| keeper.with_timeout(LONGEST).close_input());
        closed.map_err(|error| error.to_string())
    }

    fn sample(&mut self) -> Result<(), String> {
        for (most, status) in self.rss.iter_mut().zip(&self.status) {
            *most = (*most).max(most_resident(status));
        }
        self.disk = self.disk.max(blocks(self.folder)?);
        self.samples += 1;
        if self.rss.iter().any(|rss| *rss >= RSS_MAX) {
            return Err(format!("{} bytes resident in shim, {} in guard", self.rss[0], self.rss[1]));
        }
        match self.disk <= self.disk_max {
            true => Ok(()),
            false => Err(format!("{} bytes on the disk, {} allowed", self.disk, self.disk_max)),
        }
    }

    fn report(&self, name: &str, size: u64) {
        let took = self.begin.elapsed().as_secs_f64();
        println!(
            "{name:<12} {size:>13} {took:>8.1} {:>8.0} {:>10} {:>10} {:>10} {:>9}",
            size as f64 / 1e6 / took,
            self.rss[0] >> 10,
            self.rss[1] >> 10,
            self.disk >> 10,
            self.samples
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "samples are taken once in a while, not as often as possible")]
fn a_moment() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Returns the peak resident memory of a process. The kernel keeps it, so no sample can miss it.
fn most_resident(status: &Path) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Counts the bytes that the files of a directory take on the disk.
fn blocks(folder: &Path) -> Result<u64, String> {
    let mut blocks = 0;
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
        // A draft that was linked meanwhile is counted under its new name next time.
        let meta = entry.and_then(|entry| entry.metadata());
        blocks += meta.map_or(0, |meta| meta.blocks());
    }
    Ok(blocks * 512)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_same_however_it_is_cut() {
        for (bomb, _) in Bomb::ALL {
            let mut whole = vec![0; 20_000];
            bomb.fill(12_345, &mut whole);
            let mut pieces = vec![0; 20_000];
            for (piece, at) in pieces.chunks_mut(777).zip((12_345..).step_by(777)) {
                bomb.fill(at, piece);
            }
            assert_eq!(whole, pieces);
            let mut later = vec![0; 20_000];
            bomb.fill(12_346, &mut later);
            assert_ne!(whole, later, "{bomb:?}: a shift by one byte must be seen");
        }
    }
}
