//! PostgreSQL on a host of a history: killed, stopped for a snapshot, put back, promoted, with a clock that can be set.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::host::{FOLDER, Host, Process, children, said};
use crate::clock;
use crate::postgres::{binary, user};

/// How long a server may take to start. Recovery after a crash is part of it.
const START_MAX: Duration = Duration::from_secs(30);

/// The database of the journal.
const NAME: &str = "fleet";

/// The library that makes the clock of a server wrong, beside the template, and its source.
const WRONG_CLOCK: &str = "wrong_clock.so";
const WRONG_CLOCK_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fleet/wrong_clock.c");

/// Every server has these.
const SETTINGS: [&str; 9] = [
    "listen_addresses=*",
    "port=5432",
    "shared_buffers=16MB",
    "wal_keep_size=1GB",
    "max_wal_size=1GB",
    "autovacuum_naptime=1h",
    "wal_retrieve_retry_interval=200ms",
    "log_checkpoints=off",
    "unix_socket_directories=",
];

/// A server with its host.
pub(super) struct Database {
    pub(super) host: Host,
    user: (u32, u32),
    wrong_clock: PathBuf,
    is_synchronous: bool,
    process: Option<Process>,
}

/// Makes the files of a server that was never started: those of every history are copies.
pub(super) fn template(folder: &Path) -> Result<PathBuf, String> {
    let data = folder.join("template");
    let options = ["-O2", "-shared", "-fPIC", "-o"];
    said(Command::new("cc").args(options).arg(folder.join(WRONG_CLOCK)).arg(WRONG_CLOCK_SOURCE))?;
    let user = user()?;
    let failed = |error: std::io::Error| format!("{}: {error}", data.display());
    fs::create_dir_all(&data).map_err(failed)?;
    chown(&data, Some(user.0), Some(user.1)).map_err(failed)?;
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    let run = |program: PathBuf| {
        let mut command = Command::new(program);
        command.uid(user.0).gid(user.1).current_dir("/");
        command
    };
    let options = ["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"];
    said(run(binary("initdb")?).args(options).arg(&data))?;
    let rules = data.join("pg_hba.conf");
    let mut text = fs::read_to_string(&rules).map_err(failed)?;
    text.push_str("host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n");
    fs::write(&rules, text).map_err(failed)?;
    let mut single = run(binary("postgres")?);
    single.args(["--single", "-D"]).arg(&data).arg("postgres").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut single = single.stderr(Stdio::null()).spawn().map_err(failed)?;
    if let Some(mut words) = single.stdin.take() {
        use std::io::Write as _;
        writeln!(words, "create database {NAME};").map_err(failed)?;
    }
    match single.wait().is_ok_and(|status| status.success()) {
        true => Ok(data),
        false => Err("PostgreSQL makes no database".to_owned()),
    }
}

impl Database {
    /// Puts the files of a first server on its host.
    pub(super) fn first(host: Host, template: &Path, is_synchronous: bool) -> Result<Database, String> {
        let wrong_clock = template.with_file_name(WRONG_CLOCK);
        let database = Database { host, user: user()?, wrong_clock, is_synchronous, process: None };
        // In memory: what a disk loses is for other trials, and a restart flushes all files.
        fs::write(database.host.folder().join("clock"), [0; 8]).map_err(|error| error.to_string())?;
        copy(template, &database.data())?;
        Ok(database)
    }

    /// Puts the files of a server that follows another on its host.
    pub(super) fn standby(host: Host, template: &Path, first: &Database) -> Result<Database, String> {
        let database = Database::first(host, template, false)?;
        let data = database.data();
        let follow = format!("primary_conninfo = 'host={} user=postgres'\n", first.host.address());
        let failed = |error: std::io::Error| format!("{}: {error}", data.display());
        let mut settings = fs::read_to_string(data.join("postgresql.auto.conf")).map_err(failed)?;
        settings.push_str(&follow);
        fs::write(data.join("postgresql.auto.conf"), settings).map_err(failed)?;
        fs::write(data.join("standby.signal"), "").map_err(failed)?;
        chown(data.join("standby.signal"), Some(database.user.0), Some(database.user.1)).map_err(failed)?;
        Ok(database)
    }

    fn data(&self) -> PathBuf {
        self.host.folder().join("data")
    }

    /// Starts it, and waits until it answers.
    pub(super) fn start(&mut self) -> Result<(), String> {
        if self.process.is_some() {
            return Ok(());
        }
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
        self.set_clock(0)?;
        let mut command = self.host.command_as(Some(self.user), "env");
        command.arg(format!("LD_PRELOAD={}", self.wrong_clock.display()));
        command.arg(format!("CLOCK_OFFSET={FOLDER}/clock"));
        command.arg(binary("postgres")?).arg("-D").arg(format!("{FOLDER}/data"));
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        if self.is_synchronous {
            command.args(["-c", "synchronous_standby_names=*"]);
        }
        self.process = Some(self.host.start(command, &format!("{}.log", self.host.name))?);
        let answers = || self.sql("select 1").is_ok().then_some(());
        let answers = clock::until(START_MAX, Duration::from_millis(30), answers);
        answers.ok_or_else(|| format!("the database on {} does not answer", self.host.name))
    }

    /// Kills all of its processes at once.
    pub(super) fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        // The first one is stopped while the others die, or it would begin to recover by itself.
        process.signal(libc::SIGSTOP);
        signal(&children(process.pid), libc::SIGKILL);
        process.kill();
    }

    /// Copies its files as they are at this moment, as a snapshot of a volume does.
    pub(super) fn snapshot(&self) -> Result<(), String> {
        let copy = || copy(&self.data(), &self.host.folder().join("snapshot"));
        // Another fault may have killed it: its files are at rest then.
        let Some(process) = &self.process else { return copy() };
        process.signal(libc::SIGSTOP);
        let processes = children(process.pid);
        signal(&processes, libc::SIGSTOP);
        let copied = copy();
        signal(&processes, libc::SIGCONT);
        process.signal(libc::SIGCONT);
        copied
    }

    /// Puts its files back to the snapshot, and starts it again.
    pub(super) fn restore(&mut self) -> Result<(), String> {
        self.kill();
        let failed = |error: std::io::Error| format!("{}: {error}", self.data().display());
        fs::remove_dir_all(self.data()).map_err(failed)?;
        fs::rename(self.host.folder().join("snapshot"), self.data()).map_err(failed)?;
        self.start()
    }

    /// Makes a standby the first server.
    pub(super) fn promote(&self) -> Result<(), String> {
        self.sql("select pg_promote(true, 20)").map(drop)
    }

    /// Sets its clock to so many seconds from the right time.
    pub(super) fn set_clock(&self, offset_s: i64) -> Result<(), String> {
        let file = self.host.folder().join("clock");
        // In place: the server has the file mapped.
        let opened = fs::File::options().write(true).open(&file);
        let written = opened.and_then(|opened| opened.write_all_at(&offset_s.to_ne_bytes(), 0));
        written.map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Asks it something, from outside of all hosts.
    pub(super) fn sql(&self, sql: &str) -> Result<String, String> {
        let at = format!("host={} user=postgres dbname={NAME} connect_timeout=5", self.host.address());
        let mut psql = Command::new("psql");
        // A question of ours must not wait for a standby that is gone.
        psql.env("PGOPTIONS", "-c synchronous_commit=local -c statement_timeout=20000");
        said(psql.args(["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", &at, "-c", sql]))
    }
}

/// Returns the address of the journal: whichever of these servers can be written.
pub(super) fn url(servers: [&Database; 2]) -> String {
    let [first, second] = servers.map(|server| format!("{}:5432", server.host.address()));
    format!("postgres://postgres@{first},{second}/{NAME}?target_session_attrs=read-write&connect_timeout=3")
}

fn signal(pids: &[i32], number: i32) {
    for pid in pids {
        // SAFETY: a signal to a child of a process that we started, which is stopped.
        unsafe { libc::kill(*pid, number) };
    }
}

/// Copies a folder with its owners.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    said(Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to)).map(drop)
}
