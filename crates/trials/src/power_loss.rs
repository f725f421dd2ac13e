//! `power-loss keeper`: short jobs on a disk that can lose power. All writers are stopped between two system calls, an image of the disk is
//! taken, and they continue. In each image, every acknowledged job must have its whole exit record and all of its output, and no other
//! record may be torn.
//!
//! `--bug no-file-sync` and `--bug no-folder-sync` leave out a sync, and must be caught.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use lastword_core::receipt::Exit;
use lastword_proc::{Launch, Nursery, exit_record, wait};

use crate::args::Args;
use crate::bombs::Bomb;
use crate::clock;
use crate::image::Image;
use crate::place::{Programs, temporary};
use crate::random::Random;
use crate::survive::script::same;
use crate::survive::whole;
use crate::verdict::{bug, verdict};
use crate::{leader, processes};

/// The longest time between two images: some jobs, sometimes less than one.
const RUN_MAX_US: u64 = 60_000;

/// The longest that a job may take: it writes some kilobytes, on a busy machine.
const JOB_MAX: Duration = Duration::from_secs(60);

/// Runs `power-loss keeper [--images N] [--seed N] [--bug NAME]`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let ["keeper", rest @ ..] = words else {
        return Err("power-loss keeper [--images N] [--seed N] [--bug NAME]".to_owned());
    };
    let args = Args::new(rest, &["--images", "--seed", "--bug"], &[])?;
    let images: u64 = args.value("--images", 60)?;
    let seed: u64 = args.value("--seed", 1)?;
    let bug = bug(&args, &["no-file-sync", "no-folder-sync"])?;
    println!("power-loss keeper: seed {seed}, {images} images");
    let disk = Image::make().map_err(|error| format!("no disk to lose power: {error}"))?;
    let temp = temporary("power-loss")?;
    let mut writing = Writing::start(&disk.path(), &temp.path().join("acknowledged"), bug)?;
    let mut random = Random::new(seed);
    let mut found = Ok(Seen::default());
    let mut total = Seen::default();
    for image in 0..images {
        found =
            writing.one_image(&disk, random.below(RUN_MAX_US)).map_err(|why| format!("image {image}: {why}"));
        match &found {
            Ok(seen) => total.add(seen),
            Err(_) => break,
        }
    }
    drop(writing);
    println!(
        "{} jobs acknowledged at the last image; records looked at: {} acknowledged, {} not; {} attempts had no record yet",
        total.newest, total.acknowledged, total.early, total.open
    );
    if bug.is_none() && images >= 20 && total.open == 0 {
        found = found.and(Err("no image fell into the middle of a job".to_owned()));
    }
    Ok(verdict(bug, found.map(|_| ())))
}

/// What was found in the images.
#[derive(Default)]
struct Seen {
    newest: u64,
    acknowledged: u64,
    early: u64,
    open: u64,
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.newest = self.newest.max(other.newest);
        self.acknowledged += other.acknowledged;
        self.early += other.early;
        self.open += other.open;
    }
}

/// The process that runs jobs on the disk. Killed with everything it started.
struct Writing {
    child: Child,
    acknowledged: PathBuf,
    seen: u64,
}

impl Writing {
    fn start(disk: &Path, acknowledged: &Path, bug: Option<&str>) -> Result<Writing, String> {
        let programs = Programs::beside()?;
        // A keeper inherits no environment, so the bug travels in the name by which it is called.
        let keeper = acknowledged.with_file_name("lastword").with_extension(bug.unwrap_or("sound"));
        std::os::unix::fs::symlink(&programs.lastword, &keeper).map_err(|error| error.to_string())?;
        fs::write(acknowledged, "").map_err(|error| error.to_string())?;
        let mut command = Command::new(&programs.trials);
        command.arg("power-writer").arg(keeper).arg(disk).arg(acknowledged);
        let child = command.spawn().map_err(|error| format!("the writer did not start: {error}"))?;
        Ok(Writing { child, acknowledged: acknowledged.to_owned(), seen: 0 })
    }

    /// Lets the jobs run for a while, stops them between two system calls, and checks what a power cut would leave.
    fn one_image(&mut self, disk: &Image, run_us: u64) -> Result<Seen, String> {
        self.wait_for_another()?;
        go_on(run_us);
        let stopped = processes::stop(self.child.id() as i32)?;
        self.seen = self.acknowledged();
        let after = disk.after_power_loss().map_err(|error| error.to_string());
        let found = after.and_then(|after| check(&after.path(), self.seen));
        processes::go_on(&stopped);
        found
    }

    fn wait_for_another(&mut self) -> Result<(), String> {
        let begin = Instant::now();
        while self.acknowledged() <= self.seen {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the writer ended by itself: {status}"));
            }
            if begin.elapsed() > JOB_MAX {
                return Err("no job was acknowledged for a minute".to_owned());
            }
            clock::rest(clock::MOMENT);
        }
        Ok(())
    }

    /// Jobs are acknowledged in order, one byte each.
    fn acknowledged(&self) -> u64 {
        fs::metadata(&self.acknowledged).map_or(0, |meta| meta.len())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let Ok(stopped) = processes::stop(self.child.id() as i32) {
            processes::kill(&stopped);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the moment of the power cut is drawn at random")]
fn go_on(us: u64) {
    std::thread::sleep(Duration::from_micros(us));
}

/// Checks every attempt in an image.
fn check(disk: &Path, acknowledged: u64) -> Result<Seen, String> {
    let mut found = Seen { newest: acknowledged, ..Seen::default() };
    for job in 0..acknowledged {
        check_job(disk, job).map_err(|why| format!("job {job} of {acknowledged} acknowledged: {why}"))?;
        found.acknowledged += 1;
    }
    for job in acknowledged.. {
        let folder = folder(disk, job);
        if !folder.exists() {
            return Ok(found);
        }
        match exit_record(&folder).map_err(|error| format!("job {job}, not acknowledged: {error}"))? {
            Some(_) => {
                check_job(disk, job).map_err(|why| format!("job {job}, not yet acknowledged: {why}"))?;
                found.early += 1;
            }
            None => found.open += 1,
        }
    }
    Ok(found)
}

/// Checks the record and output of an ended job.
fn check_job(disk: &Path, job: u64) -> Result<(), String> {
    let folder = folder(disk, job);
    let record = exit_record(&folder).map_err(|error| error.to_string())?.ok_or("its exit record is lost")?;
    let size = size(job);
    if record.receipt.exit != Some(Exit::Code(0))
        || record.receipt.output.seen != size
        || record.receipt.output_lost
    {
        return Err(format!("its exit record is torn: {record:?}"));
    }
    let mut expected = vec![0; size as usize];
    Bomb::Lines.fill(0, &mut expected);
    same("its output", &whole(&folder, "stdout")?, &expected)
}

fn folder(disk: &Path, job: u64) -> PathBuf {
    disk.join(format!("job-{job}"))
}

/// How much a job writes: nothing, less than a block, some blocks.
fn size(job: u64) -> u64 {
    job * 1_237 % 20_000
}

/// Runs `power-writer KEEPER DISK ACKNOWLEDGED`: one job after the other, until it is killed.
pub(crate) fn writer(words: &[&str]) -> Result<bool, String> {
    let [keeper, disk, acknowledged] = words else {
        return Err("power-writer KEEPER DISK ACKNOWLEDGED".to_owned());
    };
    let nursery = Nursery::start(Path::new(keeper)).map_err(|error| error.to_string())?;
    let acknowledged = OpenOptions::new().append(true).open(acknowledged);
    let mut acknowledged = acknowledged.map_err(|error| error.to_string())?;
    for job in 0.. {
        let folder = folder(Path::new(disk), job);
        let argv = leader::argv(&["bomb", "lines", &size(job).to_string()])?;
        let launch = Launch::new(&folder, argv);
        nursery.launch(&launch).map_err(|error| error.to_string())?;
        let record = wait(&folder, JOB_MAX).map_err(|error| error.to_string())?;
        record.ok_or_else(|| format!("job {job} did not end"))?;
        acknowledged.write_all(b".").map_err(|error| error.to_string())?;
    }
    Ok(true)
}
