//! `power-loss postgres`: every process of the server is stopped between two system calls, the disk's image is taken
//! and a server started on it; then the first one goes on.
//!
//! `--bug fsync-off` runs the server without syncing, which must be found.
#![expect(clippy::print_stdout, reason = "the result of a verb")]
#![expect(clippy::disallowed_methods, reason = "the moment of a fault is a random one")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use lastword_store::postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process};

use super::image::Image;
use crate::args::Args;
use crate::backends::postgres_options;
use crate::crash::postgres::{Clients, Told, runtime, verify};
use crate::pg::{self, Server, Settings};
use crate::random::Random;

/// The longest the clients run between two images: many batches, and at times less than one.
const RUN_MAX_US: u64 = 40_000;

/// Acknowledgements between two images, at least.
const ACKS_MIN: usize = 20;

/// Keeps the log of the database small beside the image.
const SETTINGS: [&str; 3] = ["max_wal_size=64MB", "min_wal_size=32MB", "checkpoint_timeout=30s"];

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Takes and checks `--images` images.
pub fn power_loss(args: &Args<'_>) -> Outcome<()> {
    let images: u64 = args.value("--images", 25)?;
    let mut random = Random::new(args.value("--seed", 1)?);
    let mut set = SETTINGS.map(str::to_owned).to_vec();
    if args.text("--bug") == Some("fsync-off") {
        set.push("fsync=off".to_owned());
    }
    let runtime = runtime()?;
    let disk = Image::make()?;
    let settings = Settings { set, folder: Some(folder(&disk)?), ..Settings::default() };
    let server = Server::start(settings.clone())?;
    let database = runtime.block_on(server.database());
    let journal = runtime.block_on(Postgres::open(&server.url(&database), postgres_options()))?;
    // Everything up to here is in order: what a power cut takes later was written later.
    sync(&disk.path())?;
    let acks = Told::default();
    let clients = runtime.block_on(async { Clients::start(&journal, 0, &acks) });
    let mut stored = 0;
    for image in 0..images {
        runtime.block_on(acks.wait_beyond(acks.count() + ACKS_MIN, &clients))?;
        thread::sleep(Duration::from_micros(random.below(RUN_MAX_US)));
        stop(&server)?;
        // What was said before the stop; an answer still on its way is one less to hold the store to.
        let acked = acks.all();
        let after = disk.after_power_loss()?;
        let settings = Settings { folder: Some(folder(&after)?), ..settings.clone() };
        let found = boot(settings).and_then(|server| {
            let found = runtime.block_on(verify(&server.url(&database), &acked));
            drop(server);
            found
        });
        stored =
            found.inspect_err(|_| println!("image {image}, after {} acknowledged appends", acked.len()))?;
        drop(after);
        signal(&server, Signal::CONT);
    }
    let acked = acks.count();
    println!(
        "power-loss postgres: {images} images, {acked} acknowledged appends, {stored} in the last image"
    );
    println!("none lost, doubled or torn; no gap; every row agrees with its events");
    Ok(())
}

/// Starts a server on what a power cut has left.
fn boot(settings: Settings) -> Outcome<Server> {
    let data = settings.folder.as_ref().ok_or("no folder")?.join("data");
    // The process it names did not survive the power cut, but here it is still there.
    let _ = fs::remove_file(data.join("postmaster.pid"));
    Ok(Server::start(settings)?)
}

/// Returns the folder for the server in an image, which the server's user may enter.
fn folder(image: &Image) -> Outcome<PathBuf> {
    let folder = image.path().join("pg");
    if !folder.exists() {
        fs::create_dir(&folder)?;
        pg::own(&folder)?;
    }
    let outside = image.path().parent().map(Path::to_owned).ok_or("an image is in a folder")?;
    for way in [outside, image.path()] {
        fs::set_permissions(way, fs::Permissions::from_mode(0o755))?;
    }
    Ok(folder)
}

/// Writes everything to the disk of a folder.
fn sync(folder: &Path) -> Outcome<()> {
    let status = Command::new("sync").arg("-f").arg(folder).status()?;
    if status.success() { Ok(()) } else { Err(format!("sync: {status}").into()) }
}

/// Stops every process of the server and waits until each stands still.
fn stop(server: &Server) -> Outcome<()> {
    // The first one first: it starts no others then.
    if let Some(first) = server.processes().first() {
        kill_process(*first, Signal::STOP)?;
        wait_still(*first)?;
    }
    signal(server, Signal::STOP);
    server.processes().into_iter().try_for_each(wait_still)
}

fn signal(server: &Server, signal: Signal) {
    for process in server.processes() {
        // One that ended meanwhile needs no signal.
        let _ = kill_process(process, signal);
    }
}

fn wait_still(process: Pid) -> Outcome<()> {
    loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
        match stat.rsplit(") ").next().and_then(|rest| rest.chars().next()) {
            Some('T' | 'Z') | None => return Ok(()),
            Some(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}
