//! How long things take one at a time: a flush of this disk, from the launch to the leader's first instruction, and from the
//! cancel to the proof of death, beside what the bare calls take.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lastword_core::receipt::Level;
use lastword_proc::{Keeper, Launch, Nursery, Stop, exit_record, wait};
use rustix::time::{ClockId, clock_gettime};

use super::folders::Folders;
use super::rates::{reap, spawn};
use crate::clock;
use crate::leader;
use crate::statistics::{goal, percentile};
use crate::survive::whole;

/// The longest a job may take to end.
const END_MAX: Duration = Duration::from_secs(60);

/// Times in milliseconds.
#[derive(Default)]
pub(super) struct Times(pub(super) Vec<f64>);

impl Times {
    pub(super) fn print(&mut self, name: &str) {
        println!("{name:<44} {:>9.2} {:>9.2}", self.p50(), self.p99());
    }

    pub(super) fn p99(&mut self) -> f64 {
        percentile(&mut self.0, 99)
    }

    pub(super) fn p50(&mut self) -> f64 {
        percentile(&mut self.0, 50)
    }
}

pub(super) fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// What this disk takes for a flush.
pub(super) struct Flush {
    file: Times,
    folder: Times,
    clean: Times,
    p50: f64,
}

impl Flush {
    pub(super) fn print(&mut self) {
        println!("\n{:<44} {:>9} {:>9}", "a flush of this disk, ms", "p50", "p99");
        self.file.print("a new file of 500 bytes");
        self.folder.print("a folder in which a file was linked");
        self.clean.print("a file that is clean");
    }
}

/// Measures flushes as an exit record makes them.
pub(super) fn flushes(folders: &Folders, count: usize) -> Result<Flush, String> {
    let temp = folders.folder()?;
    let folder = File::open(&temp).map_err(|error| error.to_string())?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..count {
        let draft = temp.join(format!("{number}.tmp"));
        let mut one = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
            file.write_all(&[b'x'; 500])?;
            let begin = Instant::now();
            file.sync_all()?;
            times[0].push(ms(begin));
            fs::hard_link(&draft, temp.join(number.to_string()))?;
            let begin = Instant::now();
            folder.sync_all()?;
            times[1].push(ms(begin));
            let begin = Instant::now();
            file.sync_all()?;
            times[2].push(ms(begin));
            Ok(())
        };
        one().map_err(|error| error.to_string())?;
    }
    let [file, folder, clean] = times.map(Times);
    let mut flush = Flush { file, folder, clean, p50: 0.0 };
    flush.p50 = flush.file.p50();
    Ok(flush)
}

/// Measures from the launch to the leader's first instruction.
pub(super) fn start(keeper: &Path, folders: &Folders, count: usize) -> Result<(), String> {
    let temp = folders.folder()?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
    let mut times: [Vec<f64>; 5] = Default::default();
    for number in 0..count {
        let folder = |kind: &str| temp.join(format!("{kind}-{number}"));
        times[0].push(bare_start(&own)?);
        let (began, acknowledged) = our_start(&nursery, Level::Cgroup, &folder("group"), now_ns())?;
        times[1].push(began);
        times[2].push(acknowledged);
        times[3].push(our_start(&nursery, Level::Landlock, &folder("none"), now_ns())?.0);
        let begin = now_ns();
        let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
        times[4].push(our_start(&nursery, Level::Cgroup, &folder("exec"), begin)?.0);
    }
    println!("\n{:<44} {:>9} {:>9}", "start → the leader's first instruction, ms", "p50", "p99");
    let names = [
        "bare posix_spawn",
        "ours, forked by the nursery",
        "ours, until the launch is acknowledged",
        "ours, ungrouped",
        "ours, with an exec for each job",
    ];
    for (name, times) in names.into_iter().zip(times) {
        Times(times).print(name);
    }
    Ok(())
}

pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Reads the moment that a leader said, as milliseconds after `begin`.
pub(super) fn began(said: &[u8], begin: u64) -> Result<f64, String> {
    let text = String::from_utf8_lossy(said);
    let stamp: u64 = text.trim().parse().map_err(|_| format!("not a moment: {text:?}"))?;
    Ok(stamp.saturating_sub(begin) as f64 / 1e6)
}

pub(super) fn bare_start(own: &Path) -> Result<f64, String> {
    let begin = now_ns();
    let child = Command::new(own).args(["leader", "stamp"]).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let mut said = Vec::new();
    child.stdout.take().ok_or("no pipe")?.read_to_end(&mut said).map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    began(&said, begin)
}

fn our_start(nursery: &Nursery, at_most: Level, folder: &Path, begin: u64) -> Result<(f64, f64), String> {
    let launch = Launch { at_most, ..Launch::new(folder, leader::argv(&["stamp"])?) };
    nursery.launch(&launch).map_err(|error| error.to_string())?;
    let back = (now_ns() - begin) as f64 / 1e6;
    wait(folder, END_MAX).map_err(|error| error.to_string())?.ok_or("it did not end")?;
    Ok((began(&whole(folder, "stdout")?, begin)?, back))
}

/// Measures from the cancel to the proof that nothing is left, beside a kill of a group.
pub(super) fn cancel(
    keeper: &Path,
    folders: &Folders,
    count: usize,
    syncs: f64,
    flush: &Flush,
) -> Result<bool, String> {
    let (mut bare, mut ours, mut ungrouped) = (Vec::new(), Vec::new(), Vec::new());
    let temp = folders.folder()?;
    let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
    for number in 0..count {
        bare.push(bare_cancel()?);
        ours.push(one_cancel(&nursery, Level::Cgroup, &temp.join(format!("group-{number}")))?);
        ungrouped.push(one_cancel(&nursery, Level::Landlock, &temp.join(format!("none-{number}")))?);
    }
    let (mut bare, mut ours) = (Times(bare), Times(ours));
    println!("\n{:<44} {:>9} {:>9}", "`--force` → proven dead, ms", "p50", "p99");
    bare.print("bare killpg and waitpid (nothing proven)");
    ours.print("ours, exit record on the disk and read");
    Times(ungrouped).print("ours, ungrouped");
    let allowed = 3.0 * bare.p50() + syncs * flush.p50;
    let fine = ours.p50() <= allowed || allowed.is_nan();
    println!(
        "goal: p50 at most 3 × {:.2} + {:.1} flushes × {:.2} = {allowed:.2} ms{}",
        bare.p50(),
        syncs,
        flush.p50,
        goal(fine)
    );
    Ok(fine)
}

/// Returns the median of so many starts, one after the other, in milliseconds.
pub(super) fn start_p50(keeper: &Path, folders: &Folders, count: usize) -> Result<f64, String> {
    let temp = folders.folder()?;
    let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
    let one = |number: usize| {
        our_start(&nursery, Level::Cgroup, &temp.join(number.to_string()), now_ns()).map(|(began, _)| began)
    };
    (0..count).map(one).collect::<Result<_, _>>().map(|times| Times(times).p50())
}

/// Returns the median of so many cancels, one after the other, in milliseconds.
pub(super) fn cancel_p50(keeper: &Path, folders: &Folders, count: usize) -> Result<f64, String> {
    let temp = folders.folder()?;
    let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
    let one = |number: usize| one_cancel(&nursery, Level::Cgroup, &temp.join(number.to_string()));
    (0..count).map(one).collect::<Result<_, _>>().map(|times| Times(times).p50())
}

pub(super) fn bare_cancel() -> Result<f64, String> {
    let pid = spawn(&["/bin/sleep", "1000"])?;
    asleep(pid)?;
    let begin = Instant::now();
    // SAFETY: a signal to the group of a child that was not reaped.
    unsafe { libc::killpg(pid, libc::SIGKILL) };
    reap(pid);
    Ok(ms(begin))
}

fn one_cancel(nursery: &Nursery, at_most: Level, folder: &Path) -> Result<f64, String> {
    let launch = Launch { at_most, ..Launch::new(folder, ["/bin/sleep", "1000"]) };
    let launched = nursery.launch(&launch).map_err(|error| error.to_string())?;
    asleep(launched.leader.pid)?;
    let mut keeper = Keeper::connect(folder, 0).map_err(|error| error.to_string())?;
    // As a daemon does: it hears of the ending, and then reads it.
    keeper.watch().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    keeper
        .stop(Stop { cause: "cancel", force: true, ..Stop::default() })
        .map_err(|error| error.to_string())?;
    while let Some(event) = keeper.next_event().map_err(|error| error.to_string())? {
        if event.text("what") == Some("ended") {
            break;
        }
    }
    exit_record(folder).map_err(|error| error.to_string())?.ok_or("it ended without a record")?;
    Ok(ms(begin))
}

/// Waits until a program has started for good and sleeps, so that all are killed in the same state.
pub(super) fn asleep(pid: i32) -> Result<(), String> {
    let begin = Instant::now();
    while begin.elapsed() < END_MAX {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.contains("(sleep) S") {
            return Ok(());
        }
        clock::rest(clock::MOMENT);
    }
    Err(format!("process {pid} does not fall asleep"))
}
