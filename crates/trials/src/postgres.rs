//! A PostgreSQL to throw away: on a unix socket, killed and started again at will, gone with the trial.

use std::fs;
use std::io::Error;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock;
use crate::product::figures;

/// How long a server may take to start. Recovery after a crash is part of it.
const START_MAX: Duration = Duration::from_secs(60);

/// A server of databases.
pub(crate) struct Postgres {
    folder: PathBuf,
    user: (u32, u32),
    process: Option<Child>,
    /// Ends the server when this process is gone.
    watch: Option<Child>,
}

impl Postgres {
    /// Makes its files in a folder and starts it. Only processes of this group can reach it.
    pub(crate) fn start(folder: PathBuf, group: u32) -> Result<Postgres, String> {
        let user = user()?;
        let failed = |error: Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        chown(&folder, Some(user.0), Some(group)).map_err(failed)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).map_err(failed)?;
        let mut postgres = Postgres { folder, user, process: None, watch: None };
        let options = ["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"];
        postgres.done(postgres.command("initdb")?.args(options).arg(postgres.data()))?;
        postgres.start_again()?;
        Ok(postgres)
    }

    /// Starts it, if it does not run, and waits until it answers.
    pub(crate) fn start_again(&mut self) -> Result<(), String> {
        self.kill();
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let mut command = self.command("postgres")?;
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.folder);
        for setting in ["listen_addresses=", "max_connections=100", "shared_buffers=16MB"] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        let process = command.spawn().map_err(|error| format!("postgres: {error}"))?;
        self.watch = Some(watch(process.id()).map_err(|error| format!("sh: {error}"))?);
        self.process = Some(process);
        let answers = || self.sql("postgres", "select 1").is_ok().then_some(());
        let answers = clock::until(START_MAX, Duration::from_millis(20), answers);
        answers
            .ok_or_else(|| format!("PostgreSQL does not answer: see {}", self.folder.join("log").display()))
    }

    /// Kills all of its processes at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            let _ = watch.kill();
            let _ = watch.wait();
        }
        let Some(mut process) = self.process.take() else { return };
        let pid = process.id().cast_signed();
        // The first one is stopped while the others die, or it would begin to recover by itself.
        signal(pid, libc::SIGSTOP);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children: Vec<i32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        for child in &children {
            signal(*child, libc::SIGKILL);
        }
        let _ = process.kill();
        let _ = process.wait();
        // A server does not start beside processes of an earlier one.
        clock::until(START_MAX, clock::MOMENT, || {
            let is_gone = |pid: &i32| figures::Stat::of(*pid).is_none_or(|stat| !stat.is_alive());
            children.iter().all(is_gone).then_some(())
        });
    }

    /// Makes an empty database, and returns its address.
    pub(crate) fn database(&self, name: &str) -> Result<String, String> {
        self.sql("postgres", &format!("create database {name}"))?;
        Ok(self.url(name))
    }

    fn url(&self, name: &str) -> String {
        format!("host={} user=postgres dbname={name}", self.folder.display())
    }

    /// Asks a database something.
    pub(crate) fn sql(&self, name: &str, sql: &str) -> Result<String, String> {
        let mut psql = self.command("psql")?;
        psql.args(["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-d", &self.url(name)]);
        self.done(psql.args(["-c", sql]))
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns a program of PostgreSQL, by the user that it runs under.
    fn command(&self, program: &str) -> Result<Command, String> {
        let mut command = Command::new(binary(program)?);
        command.uid(self.user.0).gid(self.user.1).current_dir("/");
        Ok(command)
    }

    fn done(&self, command: &mut Command) -> Result<String, String> {
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts what ends a server when this process is gone: it waits for the end of a pipe that only we hold.
fn watch(server: u32) -> std::io::Result<Child> {
    let mut watch = Command::new("sh");
    watch.args(["-c", "read _; kill -QUIT \"$0\"", &server.to_string()]).process_group(0);
    watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn signal(pid: i32, number: i32) {
    // SAFETY: a signal to a process of a server that we started, whose first process is not reaped yet.
    unsafe { libc::kill(pid, number) };
}

/// Finds a program of PostgreSQL, the newest where Debian keeps several.
pub(crate) fn binary(name: &str) -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    folders.extend(["/usr/local/bin", "/usr/bin"].map(PathBuf::from));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|program| program.is_file());
    found.ok_or_else(|| format!("`{name}` is not installed: install PostgreSQL"))
}

/// Returns the user that PostgreSQL runs under: it refuses to run as root.
pub(crate) fn user() -> Result<(u32, u32), String> {
    if !rustix::process::geteuid().is_root() {
        return Ok((rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
    }
    let user = lastword_proc::User::find("postgres").map(|user| (user.uid, user.groups[0]));
    user.ok_or_else(|| "there is no user `postgres`: install PostgreSQL".to_owned())
}
