//! `power-loss sqlite`: the writer is stopped between two system calls, the disk's image is taken, the writer goes on.
#![expect(clippy::print_stdout, reason = "the result of a verb")]

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lastword_store::sqlite::Sqlite;

use super::image::Image;
use crate::args::Args;
use crate::crash::sqlite::{start, verify};
use crate::random::Random;

/// The longest the writer runs between two images: many batches, and at times less than one.
const RUN_MAX_US: u64 = 20_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Takes and checks `--images` images.
#[expect(clippy::disallowed_methods, reason = "the moment of the power cut is drawn at random")]
pub fn power_loss(args: &Args<'_>) -> Outcome<()> {
    let images: u64 = args.value("--images", 60)?;
    let mut random = Random::new(args.value("--seed", 1)?);
    let disk = Image::make()?;
    let journal = disk.path().join("journal");
    // Made here, where no bug is switched on: what is tested is writing.
    drop(Sqlite::open(&journal)?);
    let writing = start(&journal, 0)?;
    let (mut acked, mut stored) = (0, 0);
    for image in 0..images {
        writing.wait_beyond(acked)?;
        thread::sleep(Duration::from_micros(random.below(RUN_MAX_US)));
        stop(writing.pid())?;
        // What was said before the stop; a line still on its way is one less to hold the store to.
        let acks = writing.acks();
        acked = acks.len();
        let after = disk.after_power_loss()?;
        stored = verify(&after.path().join("journal"), &acks)
            .inspect_err(|_| println!("image {image}, after {acked} acknowledged appends"))?;
        drop(after);
        signal(writing.pid(), "CONT")?;
    }
    drop(writing);
    println!(
        "power-loss sqlite: {images} images, {acked} acknowledged appends, {stored} events in the last image"
    );
    println!("none lost, doubled or torn; no gap; every row agrees with its events; integrity ok");
    Ok(())
}

/// Stops a process and waits until each of its threads stands still.
fn stop(pid: u32) -> Outcome<()> {
    signal(pid, "STOP")?;
    let running = || -> Outcome<bool> {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let stat = fs::read_to_string(thread?.path().join("stat"))?;
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            match state {
                Some('T') => {}
                Some('Z' | 'X') => return Err("the writer ended by itself".into()),
                _ => return Ok(true),
            }
        }
        Ok(false)
    };
    while running()? {
        #[expect(clippy::disallowed_methods, reason = "between two looks")]
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn signal(pid: u32, name: &str) -> Outcome<()> {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("kill -s {name} {pid}: {status}").into()) }
}
