//! A server with its database and the workers that are connected to it: the product as it ships, each in a folder of its own.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use lastword_api::{Job, Submit};
use lastword_client::{Call, jobs};
use rustix::process::getegid;
use tempfile::TempDir;

use crate::clock;
use crate::place::{self, Programs};
use crate::postgres::Postgres;
use crate::product::{Product, enrol_line};

/// How long anything here may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The database of the journal.
const DATABASE: &str = "bench";

/// A server and its workers. Each has its default lease.
pub(super) struct Fleet {
    // Before the server, and that before its database.
    pub(super) workers: Vec<Member>,
    pub(super) server: Member,
    postgres: Postgres,
    programs: Programs,
    folder: TempDir,
}

/// A server or a worker, killed with everything it started.
pub(super) struct Member {
    pub(super) product: Product,
    process: Option<Child>,
}

impl Fleet {
    /// Starts a server and so many workers with this many slots, and returns once all are connected.
    pub(super) fn start(workers: usize, slots: u32) -> Result<Fleet, String> {
        let folder = place::temporary("bench-link")?;
        let programs = Programs::beside()?;
        let postgres = Postgres::start(folder.path().join("postgres"), getegid().as_raw())?;
        let url = postgres.database(DATABASE)?;
        let server = Member::install(&programs, folder.path().join("server"))?;
        let server = server.start(&["serve", "--store", &url, "--listen", "127.0.0.1:0"])?;
        let mut fleet = Fleet { workers: Vec::new(), server, postgres, programs, folder };
        for number in 0..workers {
            fleet.add_worker(&format!("worker-{number}"), slots)?;
        }
        fleet.until_connected(workers)?;
        Ok(fleet)
    }

    /// Enrols a worker whose label is its name, and starts it.
    pub(super) fn add_worker(&mut self, name: &str, slots: u32) -> Result<(), String> {
        let worker = Member::install(&self.programs, self.folder.path().join(name))?;
        let said = self.server.product.said(&["fleet", "add", name, "--label", name])?;
        worker.product.said(&enrol_line(&said)?)?;
        self.workers.push(worker.start(&["worker", "--slots", &slots.to_string()])?);
        Ok(())
    }

    fn until_connected(&self, workers: usize) -> Result<(), String> {
        let connected = || {
            let said = self.server.product.said(&["fleet", "ls", "--json"]).ok()?;
            (said.matches("\"connected\"").count() >= workers).then_some(())
        };
        clock::until(PATIENCE, LOOK, connected).ok_or_else(|| format!("{workers} workers do not connect"))
    }

    /// Asks the database something.
    pub(super) fn sql(&self, sql: &str) -> Result<String, String> {
        self.postgres.sql(DATABASE, sql).map(|said| said.trim().to_owned())
    }

    /// Asks the database for a number.
    pub(super) fn number(&self, sql: &str) -> Result<f64, String> {
        let said = self.sql(sql)?;
        said.parse().map_err(|_| format!("{said:?} is not a number: {sql}"))
    }
}

impl Member {
    fn install(programs: &Programs, place: PathBuf) -> Result<Member, String> {
        fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        let product = Product::install(&programs.lastword, &place, &place.join("home"))?;
        Ok(Member { product, process: None })
    }

    /// Starts it, and waits until it listens.
    fn start(mut self, words: &[&str]) -> Result<Member, String> {
        let log = self.product.place().join("log");
        let log = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = self.product.command(words);
        command.stdout(Stdio::null()).stderr(log).process_group(0);
        self.process = Some(command.spawn().map_err(|error| format!("{}: {error}", words[0]))?);
        let socket = self.product.home().join("lastword.sock");
        let listens = || socket.exists().then_some(());
        clock::until(PATIENCE, LOOK, listens).ok_or_else(|| {
            let log = fs::read_to_string(self.product.home().join("daemon.log")).unwrap_or_default();
            format!("{} does not listen: {log}", words[0])
        })?;
        Ok(self)
    }

    /// Kills the process, and leaves the keepers of its jobs.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        self.product.kill_all();
    }
}

/// Returns the call that asks for a job on the workers with a label.
pub(super) fn submit_on(label: &str, argv: &[&str]) -> Call<Job> {
    jobs::submit(&Submit {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        cwd: "/".to_owned(),
        on: vec![label.to_owned()],
        ..Submit::default()
    })
}
