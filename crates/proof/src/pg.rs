//! A PostgreSQL to throw away: in a temporary folder, on a unix socket only, and ours to kill.
//!
//! It is made by `initdb` once per machine and copied from there. It ends with its guard, and with this process even
//! if that is killed. As root it runs under the user `postgres`, because PostgreSQL refuses to run as root.
#![expect(clippy::disallowed_methods, reason = "a server that starts or dies can only be looked at again")]

mod shared;
mod standby;

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Error, Read as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lastword_store::postgres::{Clock, Options};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::NoTls;

pub use self::shared::Shared;
pub use self::standby::either;

/// How long a server may take to start. Recovery after a crash is part of it.
const START_MAX: Duration = Duration::from_secs(60);

/// How a server is run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Added to every flush, by a library that is loaded before libc.
    pub slow_flush: Option<SlowFlush>,
    /// Further settings, as `name=value`.
    pub set: Vec<String>,
    /// Where its files are; a temporary folder of its own if `None`. Must belong to the user it runs under.
    pub folder: Option<PathBuf>,
}

/// A library that makes flushes slow, and by how much.
#[derive(Clone, Debug)]
pub struct SlowFlush {
    /// The compiled library.
    pub library: PathBuf,
    /// Microseconds.
    pub micros: u64,
}

impl SlowFlush {
    /// Compiles the library into `folder`.
    pub fn compile(folder: &Path, micros: u64) -> io::Result<SlowFlush> {
        let library = folder.join("slow_flush.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/slow_flush.c");
        run(Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).args([source, "-ldl"]))?;
        fs::set_permissions(&library, fs::Permissions::from_mode(0o755))?;
        Ok(SlowFlush { library, micros })
    }
}

/// How journals of tests use a server. Their callers invent their times, their owners never lapse by accident, and the server that tests
/// share does not sync.
pub fn options() -> Options {
    Options { clock: Clock::Caller, lease_max_ms: Some(u64::MAX), may_lose: true, ..Options::default() }
}

/// A running server. Stops, and is gone, when dropped.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    data: PathBuf,
    sockets: PathBuf,
    process: Option<Child>,
    watch: Option<Child>,
    databases: AtomicU64,
    // Removed after the server has stopped.
    _temporary: Option<TempDir>,
}

impl Server {
    /// Starts a server.
    pub fn start(settings: Settings) -> io::Result<Server> {
        let sockets = tempfile::Builder::new().prefix("lastword-pg-").tempdir()?;
        own(sockets.path())?;
        let mut server = Server::start_in(settings, sockets.path())?;
        server._temporary = Some(sockets);
        Ok(server)
    }

    fn start_in(settings: Settings, sockets: &Path) -> io::Result<Server> {
        let sockets = sockets.to_owned();
        let data = settings.folder.clone().unwrap_or_else(|| sockets.clone()).join("data");
        if !data.exists() {
            run(command("cp").arg("-r").arg("--reflink=auto").arg(template()?).arg(&data))?;
        }
        let mut server = Server {
            settings,
            data,
            sockets,
            process: None,
            watch: None,
            databases: AtomicU64::new(0),
            _temporary: None,
        };
        server.restart()?;
        Ok(server)
    }

    /// Returns the address of a database on this server.
    pub fn url(&self, database: &str) -> String {
        format!("host={} user=postgres dbname={database}", self.sockets.display())
    }

    /// Returns the folder of its sockets, for programs that want it as a host.
    pub fn host(&self) -> &Path {
        &self.sockets
    }

    /// Returns the folder of its files.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Makes an empty database and returns its name.
    pub async fn database(&self) -> String {
        let name = format!("proof_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.execute("postgres", &format!("create database {name}")).await;
        name
    }

    /// Runs statements in a database.
    ///
    /// # Panics
    /// If one fails.
    pub async fn execute(&self, database: &str, sql: &str) {
        let client = self.client(database).await;
        client.batch_execute(sql).await.expect("the statement runs");
    }

    /// Removes a database, even if it is in use.
    pub async fn drop_database(&self, database: &str) {
        self.execute("postgres", &format!("drop database {database} with (force)")).await;
    }

    /// Connects to a database.
    ///
    /// # Panics
    /// If that is not possible.
    pub async fn client(&self, database: &str) -> tokio_postgres::Client {
        client(&self.url(database)).await
    }

    /// Lets go of the server: it goes on without this guard. Returns its first process.
    fn leave_running(mut self) -> u32 {
        if let Some(mut watch) = self.watch.take() {
            let _ = watch.kill().and_then(|()| watch.wait());
        }
        self.process.take().map_or(0, |process| process.id())
    }

    /// Starts the server again.
    pub fn restart(&mut self) -> io::Result<()> {
        self.crash()?;
        let log = self.sockets.join("log");
        let out = fs::File::options().create(true).append(true).open(&log)?;
        let mut postgres = command(binary("postgres")?);
        postgres.arg("-D").arg(&self.data).arg("-k").arg(&self.sockets);
        let set = ["listen_addresses=", "dynamic_shared_memory_type=mmap", "max_connections=150"];
        for set in set.into_iter().chain(self.settings.set.iter().map(String::as_str)) {
            postgres.args(["-c", set]);
        }
        if let Some(slow) = &self.settings.slow_flush {
            postgres.env("LD_PRELOAD", &slow.library).env("SLOW_FLUSH_MICROS", slow.micros.to_string());
        }
        let process = postgres.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        let pid = process.id();
        self.process = Some(process);
        self.watch = Some(watch(pid, &self.sockets)?);
        let started = Instant::now();
        while !self.answers() {
            let gone = self.process.as_mut().is_some_and(|process| !matches!(process.try_wait(), Ok(None)));
            if gone || started.elapsed() > START_MAX {
                let told = fs::read_to_string(&log).unwrap_or_default();
                return Err(Error::other(format!("PostgreSQL does not start:\n{told}")));
            }
            // There is nothing to wait on: the server says that it is ready in this file.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Reports whether the server has written that it is ready.
    fn answers(&self) -> bool {
        let told = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let pid = self.process.as_ref().map_or(0, Child::id).to_string();
        told.lines().next() == Some(pid.as_str())
            && told.lines().last().is_some_and(|line| ["ready", "standby"].contains(&line.trim()))
    }

    /// Returns the processes of the server, the first one first.
    pub fn processes(&self) -> Vec<Pid> {
        let Some(first) = &self.process else { return Vec::new() };
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", first.id())).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        std::iter::once(first.id() as i32).chain(children).filter_map(Pid::from_raw).collect()
    }

    /// Kills every process of the server at once, without a word.
    pub fn crash(&mut self) -> io::Result<()> {
        if let Some(mut watch) = self.watch.take() {
            watch.kill()?;
            watch.wait()?;
        }
        let processes = self.processes();
        // The first one is stopped while the others die, or it would begin to recover by itself.
        for signal in [Signal::STOP, Signal::KILL] {
            for (place, pid) in processes.iter().enumerate() {
                // One that is gone already is as good as killed.
                let _ = kill_process(*pid, if place == 0 { signal } else { Signal::KILL });
            }
        }
        if let Some(mut process) = self.process.take() {
            process.wait()?;
        }
        let gone = |pid: &Pid| !is_alive(*pid);
        while !processes.iter().all(gone) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Stops the server at once but in order, as `pg_ctl stop -m immediate` does: its shared memory is given back.
    fn stop(&mut self) -> io::Result<()> {
        let Some(process) = &mut self.process else { return Ok(()) };
        if let Some(pid) = Pid::from_raw(process.id() as i32) {
            let _ = kill_process(pid, Signal::QUIT);
        }
        let asked = Instant::now();
        while process.try_wait()?.is_none() && asked.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.crash()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// Starts what ends the server when this process is gone: it waits for the end of a pipe that only we hold.
fn watch(server: u32, folder: &Path) -> io::Result<Child> {
    let script = r#"read _; kill -QUIT "$0"; sleep 2; kill -KILL "$0"; rm -rf "$1""#;
    let mut watch = Command::new("sh");
    watch.args(["-c", script, &server.to_string()]).arg(folder);
    watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

/// Returns a folder with a fresh cluster, made once per machine, user and version.
fn template() -> io::Result<PathBuf> {
    let initdb = binary("initdb")?;
    let version = output(Command::new(&initdb).arg("--version"))?;
    let version: String = version.chars().filter(|c| c.is_ascii_digit() || *c == '.').take(16).collect();
    let template = private_folder("template")?.join(version);
    if !template.exists() {
        let fresh = tempfile::Builder::new().prefix("lastword-initdb-").tempdir()?;
        own(fresh.path())?;
        let data = fresh.path().join("data");
        let options = ["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"];
        run(command(initdb).args(options).arg(&data))?;
        // The first process wins: a rename onto a folder with files in it fails.
        let renamed = fs::rename(&data, &template);
        if !template.exists() {
            renamed?;
        }
    }
    Ok(template)
}

/// Returns a folder of this user that outlives the process. No other user can have put files into it.
fn private_folder(name: &str) -> io::Result<PathBuf> {
    let uid = fs::metadata("/proc/self")?.uid();
    let expected = postgres_user()?.map_or(uid, |(uid, _)| uid);
    let folder = std::env::temp_dir().join(format!("lastword-pg-{name}-{uid}"));
    match fs::create_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => {
            made?;
            own(&folder)?;
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        }
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || (found.uid() != expected && found.uid() != uid) {
        return Err(Error::other(format!("{} belongs to somebody else: remove it", folder.display())));
    }
    Ok(folder)
}

/// Returns a database as statements that make it again.
pub fn dump(url: &str, options: &[&str]) -> io::Result<String> {
    let mut dump = Command::new(binary("pg_dump")?);
    let dump = output(dump.args(["--inserts", "--no-owner"]).args(options).args(["-d", url]))?;
    // Commands of psql, which a server does not know.
    Ok(dump.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n"))
}

/// Copies a folder of a server that has stopped, with its owners.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    run(Command::new("cp").arg("-a").arg(from).arg(to))
}

/// Gives a file or a folder to the user the server runs under.
pub fn own(folder: &Path) -> io::Result<()> {
    match postgres_user()? {
        Some((uid, gid)) => chown(folder, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

/// Returns the user to run under, if this is root.
fn postgres_user() -> io::Result<Option<(u32, u32)>> {
    if fs::metadata("/proc/self")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let user = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let ids = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        (name == "postgres").then_some(ids)
    });
    user.map(Some).ok_or_else(|| Error::other("root cannot run PostgreSQL, and there is no user `postgres`"))
}

/// Returns a command that runs as the server's user.
fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Ok(Some((uid, gid))) = postgres_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").process_group(0);
    command
}

/// Finds a program of PostgreSQL, the newest where Debian keeps several.
pub fn binary(name: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.filter_map(Result::ok).map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    folders.sort_by_key(|folder| std::cmp::Reverse(version(folder)));
    let found = folders.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(name));
    found
        .into_iter()
        .find(|program| program.is_file())
        .ok_or_else(|| Error::other(format!("`{name}` is not installed: install PostgreSQL")))
}

fn version(folder: &Path) -> u32 {
    let name = folder.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    name.and_then(|name| name.parse().ok()).unwrap_or(0)
}

fn run(command: &mut Command) -> io::Result<()> {
    output(command).map(drop)
}

fn output(command: &mut Command) -> io::Result<String> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut text = String::new();
    child.stdout.take().map(|mut out| out.read_to_string(&mut text)).transpose()?;
    let done = child.wait_with_output()?;
    if done.status.success() {
        return Ok(text);
    }
    Err(Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))))
}
