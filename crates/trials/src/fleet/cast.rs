//! The hosts of a history and what runs on them: two databases, two servers, three workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::database::{self, Database};
use super::host::{FOLDER, Host, Process, said};
use super::orders::Timing;
use crate::clock;
use crate::place::Programs;

/// How long a program may take to be ready. The machine runs other histories, too.
const START_MAX: Duration = Duration::from_secs(40);

/// How long a worker may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The port at which servers listen for workers.
const PORT: u16 = 7700;

/// Jobs that a worker runs at once.
const SLOTS: &str = "5";

pub(super) const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

/// All hosts of a history.
pub(super) struct Cast {
    programs: Programs,
    timing: Timing,
    pub(super) databases: [Database; 2],
    /// Which of them is written to.
    pub(super) first: usize,
    pub(super) servers: [Server; 2],
    pub(super) workers: Vec<Worker>,
    pub(super) clone: Option<Worker>,
    store: String,
}

/// A host with a server.
pub(super) struct Server {
    pub(super) host: Arc<Host>,
    pub(super) process: Option<Process>,
}

/// A host with a worker.
pub(super) struct Worker {
    pub(super) host: Host,
    pub(super) process: Option<Process>,
}

impl Cast {
    /// Brings every host up and starts everything.
    pub(super) fn assemble(
        programs: &Programs,
        place: &Path,
        template: &Path,
        timing: Timing,
        is_synchronous: bool,
    ) -> Result<Cast, String> {
        // In memory: what a disk loses is for other trials, and a server that crashed flushes every file when it starts.
        for database in ["d1", "d2"] {
            let folder = place.join(database);
            fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            said(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&folder))?;
        }
        let host = |name: &'static str, number: u8| {
            let machine = format!("{number:032x}");
            Host::boot(programs, name, number, place.join(name), &machine)
        };
        let mut first = Database::first(host("d1", 11)?, template, is_synchronous)?;
        first.start()?;
        let mut second = Database::standby(host("d2", 12)?, template, &first)?;
        second.start()?;
        let databases = [first, second];
        let store = database::url([&databases[0], &databases[1]]);
        let server = |name, number| {
            Ok::<Server, String>(Server { host: Arc::new(host(name, number)?), process: None })
        };
        let servers = [server("s1", 21)?, server("s2", 22)?];
        let workers: Result<Vec<Worker>, String> = WORKERS
            .iter()
            .zip(31..)
            .map(|(name, number)| Ok(Worker { host: host(name, number)?, process: None }))
            .collect();
        let mut cast = Cast {
            programs: programs.clone(),
            timing,
            databases,
            first: 0,
            servers,
            workers: workers?,
            clone: None,
            store,
        };
        cast.begin()?;
        Ok(cast)
    }

    fn begin(&mut self) -> Result<(), String> {
        self.start_server(0)?;
        self.start_server(1)?;
        self.enrol()?;
        // A new instance pauses for the longest lease: that of these workers.
        let lease = self.timing.lease_ms;
        self.databases[self.first].sql(&format!("update meta set lease_max_ms = {lease}"))?;
        for worker in 0..self.workers.len() {
            self.start_worker(worker)?;
        }
        let all = (self.workers.len() + self.servers.len()).to_string();
        let registered = || {
            let lives = self.databases[self.first].sql("select count(*) from lives").ok()?;
            (lives.trim() == all).then_some(())
        };
        let registered = clock::until(START_MAX, Duration::from_millis(50), registered);
        registered.ok_or_else(|| "servers and workers do not get ready: see their logs".to_owned())
    }

    /// Starts a server, and waits until it answers.
    pub(super) fn start_server(&mut self, which: usize) -> Result<(), String> {
        let server = &mut self.servers[which];
        if server.process.as_ref().is_some_and(|process| !process.is_over()) {
            return Ok(());
        }
        let host = &server.host;
        let listen = format!("{}:{PORT}", host.address());
        let mut command = product(host, &self.programs);
        command.args(["serve", "--store", &self.store, "--listen", &listen, "--advertise", &listen]);
        command.args(["--lease", &format!("{}ms", self.timing.lease_ms)]);
        server.process = Some(host.start(command, &format!("{}.log", host.name))?);
        Ok(())
    }

    /// Enrols every worker at both servers, as a person does.
    fn enrol(&self) -> Result<(), String> {
        let fingerprints = [fingerprint(&self.servers[0])?, fingerprint(&self.servers[1])?];
        let [first, second] = &self.servers;
        for worker in &self.workers {
            let added = clock::until(START_MAX, Duration::from_millis(100), || {
                said(product(&first.host, &self.programs).args(["fleet", "add", worker.host.name])).ok()
            });
            let added = added.ok_or_else(|| format!("{} is not added", worker.host.name))?;
            let token = added.split_whitespace().skip_while(|word| *word != "--token").nth(1);
            let token = token.ok_or_else(|| format!("no token in {added}"))?;
            let at = |server: &Server| format!("{}:{PORT}", server.host.address());
            let enrol = |server: &Server, fingerprint: &str| {
                let mut command = product(&worker.host, &self.programs);
                command.args(["worker", "enroll", "--server", &at(server), "--fingerprint", fingerprint]);
                command
            };
            said(enrol(first, &fingerprints[0]).args(["--token", token]))?;
            said(&mut enrol(second, &fingerprints[1]))?;
        }
        Ok(())
    }

    /// Starts a worker on its host, unless that is down: then it is started when the host is up again.
    pub(super) fn start_worker(&mut self, which: usize) -> Result<(), String> {
        if !self.workers[which].host.is_up() {
            return Ok(());
        }
        start(&mut self.workers[which], &self.programs, self.timing)
    }

    /// Copies a worker's folder to another host as it is, and starts the worker there, too.
    pub(super) fn clone_worker(&mut self, which: usize) -> Result<(), String> {
        let original = &self.workers[which].host;
        let folder = original.folder().with_file_name("c1");
        let _ = fs::remove_dir_all(&folder);
        said(Command::new("cp").arg("-a").arg(original.folder()).arg(&folder))?;
        let host = Host::boot(&self.programs, "c1", 41, folder, original.machine())?;
        let mut clone = Worker { host, process: None };
        start(&mut clone, &self.programs, self.timing)?;
        self.clone = Some(clone);
        Ok(())
    }

    /// Asks a worker to stop and leave its trees alive, as for an upgrade.
    pub(super) fn stop_worker(&mut self, which: usize) -> Result<(), String> {
        let worker = &mut self.workers[which];
        let Some(process) = &worker.process else { return Ok(()) };
        process.signal(libc::SIGTERM);
        if !process.ends_within(STOP_MAX) {
            process.kill();
        }
        worker.process = None;
        Ok(())
    }

    /// Returns the worker on whose host a job was launched last.
    pub(super) fn holder(&self, job: &str) -> Option<usize> {
        let newest = |worker: &Worker| {
            fs::metadata(worker.state().join("jobs").join(job)).and_then(|file| file.modified()).ok()
        };
        let found = self.workers.iter().enumerate();
        found.filter_map(|(place, worker)| Some((newest(worker)?, place))).max().map(|(_, place)| place)
    }
}

impl Worker {
    /// Returns the state folder, as seen from here.
    pub(super) fn state(&self) -> PathBuf {
        self.host.folder().join("state")
    }
}

fn start(worker: &mut Worker, programs: &Programs, timing: Timing) -> Result<(), String> {
    if worker.process.as_ref().is_some_and(|process| !process.is_over()) {
        return Ok(());
    }
    let mut command = product(&worker.host, programs);
    command.args(["worker", "--slots", SLOTS, "--lease", &format!("{}ms", timing.lease_ms)]);
    let log = format!("{}.log", worker.host.name);
    worker.process = Some(worker.host.start(command, &log)?);
    Ok(())
}

/// Reads the fingerprint of a server off its log, once it is there.
fn fingerprint(server: &Server) -> Result<String, String> {
    let log = server.host.folder().join("state/daemon.log");
    let found = clock::until(START_MAX, Duration::from_millis(20), || {
        let text = fs::read_to_string(&log).ok()?;
        let (_, rest) = text.split_once("fingerprint=")?;
        let rest = rest.trim_start_matches('"');
        Some(rest.chars().take_while(char::is_ascii_hexdigit).collect())
    });
    found.ok_or_else(|| format!("{} does not get ready", server.host.name))
}

/// Returns a command of the product on a host.
pub(super) fn product(host: &Host, programs: &Programs) -> Command {
    let mut command = host.command(&programs.lastword);
    command.env("LASTWORD_HOME", format!("{FOLDER}/state"));
    command
}
