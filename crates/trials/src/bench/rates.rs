//! `true` per second, two and eight at once: a bare posix_spawn, xargs, task-spooler, pueue and ours, one after the other in
//! every round, so that what else this machine does falls on all of them.

use std::ffi::CString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lastword_core::receipt::{Exit, Level};
use lastword_proc::{Launch, Nursery, wait};

use super::cost::Cpu;
use super::folders::Folders;
use super::rivals::{Pueue, TaskSpooler};
use super::timed::timed;
use crate::statistics::{goal, median};

/// How many run at once.
pub(super) const AT_ONCE: [usize; 2] = [2, 8];

/// The longest a `true` may take.
const TRUE_MAX: Duration = Duration::from_secs(60);

/// The least that starting a program can cost.
pub(super) const BARE: &str = "bare posix_spawn";

/// The well-known job queue for the shell.
pub(super) const SPOOLER: &str = "task-spooler";

/// Ours, at the best level this machine has.
const OURS: &str = "ours";

/// What all of them run.
pub(super) const TRUE: &str = "/bin/true";

/// One way to run many `true`.
pub(super) struct Contender<'a> {
    pub(super) name: &'static str,
    /// So many that a round takes about a second.
    pub(super) jobs: usize,
    pub(super) run: Box<dyn Fn(usize, usize) -> Result<f64, String> + 'a>,
}

/// The figures of one contender with so many at once.
#[derive(Default)]
pub(super) struct Figures {
    pub(super) per_second: Vec<f64>,
    pub(super) cpu_ms: Vec<f64>,
}

/// Compares all, prints the table and reports whether the goals were reached.
pub(super) fn compare(keeper: &Path, folders: &Folders, rounds: usize, short: bool) -> Result<bool, String> {
    let spooler = TaskSpooler::find();
    let pueue = Pueue::find(!short);
    let mut contenders = vec![
        Contender { name: BARE, jobs: 800, run: Box::new(bare) },
        Contender { name: "xargs -P", jobs: 800, run: Box::new(xargs) },
        Contender {
            name: OURS,
            jobs: 300,
            run: Box::new(|at_once, jobs| ours(keeper, folders, Level::Cgroup, at_once, jobs)),
        },
        Contender {
            name: "ours, ungrouped",
            jobs: 300,
            run: Box::new(|at_once, jobs| ours(keeper, folders, Level::Landlock, at_once, jobs)),
        },
        Contender {
            name: "ours, exec per job",
            jobs: 80,
            run: Box::new(|at_once, jobs| exec_each(keeper, folders, at_once, jobs)),
        },
    ];
    match &spooler {
        Ok(spooler) => contenders.push(Contender {
            name: SPOOLER,
            jobs: 200,
            run: Box::new(|at_once, jobs| spooler.run(folders, at_once, jobs)),
        }),
        Err(why) => println!("task-spooler cannot be had: {why}"),
    }
    match &pueue {
        Ok(pueue) => contenders.push(Contender {
            name: "pueue",
            jobs: 40,
            run: Box::new(|at_once, jobs| pueue.run(folders, at_once, jobs)),
        }),
        Err(why) => println!("pueue cannot be had: {why}"),
    }
    let mut figures = in_turn(&contenders, &Cpu::here(), rounds, short)?;
    Ok(print(&contenders, &mut figures))
}

/// Lets them all run, one after the other in every round. The figures of a contender stand side by side.
pub(super) fn in_turn(
    contenders: &[Contender<'_>],
    cpu: &Cpu,
    rounds: usize,
    short: bool,
) -> Result<Vec<Figures>, String> {
    let mut figures: Vec<Figures> =
        (0..contenders.len() * AT_ONCE.len()).map(|_| Figures::default()).collect();
    for _ in 0..rounds {
        let mut slots = figures.iter_mut();
        for contender in contenders {
            for at_once in AT_ONCE {
                let jobs = if short { contender.jobs / 4 } else { contender.jobs };
                let slot = slots.next().expect("there is a slot for each");
                let before = cpu.used_ms();
                slot.per_second.push((contender.run)(at_once, jobs)?);
                slot.cpu_ms.extend(cpu.used_ms().zip(before).map(|(now, then)| (now - then) / jobs as f64));
            }
        }
    }
    Ok(figures)
}

fn print(contenders: &[Contender<'_>], figures: &mut [Figures]) -> bool {
    println!(
        "\n{:<20} {:>8} {:>11} {:>8} {:>16} {:>12} {:>15}",
        "`true`", "at once", "per second", "of bare", "of task-spooler", "CPU ms each", "of bare, by CPU"
    );
    let medians: Vec<(f64, f64)> = figures
        .iter_mut()
        .map(|figures| (median(&mut figures.per_second), median(&mut figures.cpu_ms)))
        .collect();
    let of = |name: &str, at: usize| {
        let place = contenders.iter().position(|contender| contender.name == name)?;
        medians.get(place * AT_ONCE.len() + at).copied()
    };
    let mut reached = true;
    for (place, contender) in contenders.iter().enumerate() {
        for (at, at_once) in AT_ONCE.iter().enumerate() {
            let (rate, cpu) = medians[place * AT_ONCE.len() + at];
            let (bare_rate, bare_cpu) = of(BARE, at).unwrap_or((f64::NAN, f64::NAN));
            let (bare, by_cpu) = (rate / bare_rate, bare_cpu / cpu);
            let spooler = of(SPOOLER, at).map_or(f64::NAN, |(spooler, _)| rate / spooler);
            let fine = contender.name != OURS || (bare >= 0.25 && (spooler >= 1.0 || spooler.is_nan()));
            reached &= fine;
            println!(
                "{:<20} {at_once:>8} {rate:>11.0} {bare:>8.3} {spooler:>16.2} {cpu:>12.2} {by_cpu:>15.3}{}",
                contender.name,
                goal(fine)
            );
        }
    }
    println!(
        "goals for ours: at least 0.25 of bare and 1.00 of task-spooler; by CPU is what a busy machine leaves of the rate"
    );
    println!("durable: ours alone; output captured: ours, task-spooler, pueue");
    reached
}

/// The least that starting a program can cost.
pub(super) fn bare(at_once: usize, jobs: usize) -> Result<f64, String> {
    timed(at_once, jobs, |_| match reap(spawn(&[TRUE])?) {
        0 => Ok(()),
        status => Err(format!("{TRUE} ended with status {status}")),
    })
}

/// Starts a program in a group of its own, with nothing around it.
pub(super) fn spawn(argv: &[&str]) -> Result<i32, String> {
    let words: Vec<CString> = argv.iter().filter_map(|word| CString::new(*word).ok()).collect();
    let mut pointers: Vec<*mut libc::c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let mut pid = 0;
    // SAFETY: the attributes are initialised before they are used and destroyed after; the words and the list that ends with
    // a null pointer outlive the call.
    let error = unsafe {
        let mut attributes: libc::posix_spawnattr_t = std::mem::zeroed();
        libc::posix_spawnattr_init(&raw mut attributes);
        libc::posix_spawnattr_setflags(&raw mut attributes, libc::POSIX_SPAWN_SETPGROUP as libc::c_short);
        let empty = [std::ptr::null_mut()];
        let error = libc::posix_spawn(
            &raw mut pid,
            words[0].as_ptr(),
            std::ptr::null(),
            &raw const attributes,
            pointers.as_ptr(),
            empty.as_ptr(),
        );
        libc::posix_spawnattr_destroy(&raw mut attributes);
        error
    };
    match error {
        0 => Ok(pid),
        error => Err(format!("{}: {}", argv[0], std::io::Error::from_raw_os_error(error))),
    }
}

/// Waits for a child and returns its status.
pub(super) fn reap(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    status
}

pub(super) fn xargs(at_once: usize, jobs: usize) -> Result<f64, String> {
    let lines = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    std::fs::write(lines.path(), "x\n".repeat(jobs)).map_err(|error| error.to_string())?;
    let input = lines.reopen().map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let status = Command::new("xargs")
        .args(["-P", &at_once.to_string(), "-n", "1", TRUE])
        .stdin(Stdio::from(input))
        .status()
        .map_err(|error| format!("xargs: {error}"))?;
    match status.success() {
        true => Ok(jobs as f64 / begin.elapsed().as_secs_f64()),
        false => Err(format!("xargs: {status}")),
    }
}

/// Ours: launched, held, recorded, and its exit record on the disk.
pub(super) fn ours(
    keeper: &Path,
    folders: &Folders,
    at_most: Level,
    at_once: usize,
    jobs: usize,
) -> Result<f64, String> {
    let folder = folders.folder()?;
    let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
    timed(at_once, jobs, |job| one_of_ours(&nursery, at_most, &folder, job))
}

/// What was not chosen: an executable loaded for each job.
fn exec_each(keeper: &Path, folders: &Folders, at_once: usize, jobs: usize) -> Result<f64, String> {
    let folder = folders.folder()?;
    timed(at_once, jobs, |job| {
        let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
        one_of_ours(&nursery, Level::Cgroup, &folder, job)
    })
}

fn one_of_ours(nursery: &Nursery, at_most: Level, folder: &Path, job: usize) -> Result<(), String> {
    let folder = folder.join(format!("job-{job}"));
    let launch = Launch { at_most, ..Launch::new(&folder, [TRUE]) };
    nursery.launch(&launch).map_err(|error| error.to_string())?;
    let record = wait(&folder, TRUE_MAX).map_err(|error| error.to_string())?;
    match record.and_then(|record| record.receipt.exit) {
        Some(Exit::Code(0)) => Ok(()),
        other => Err(format!("{TRUE} ended with {other:?}")),
    }
}
