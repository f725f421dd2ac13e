//! A home for one test: a folder for one daemon and its files, and the executable. Everything started in it ends with it; a process that
//! survives fails the test. On a link a server and a worker are in the place of the daemon.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::executable::lastword;
use crate::link::{self, Link};

/// How long anything may take on a busy machine before it counts as stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder, an executable and an environment.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    executable: PathBuf,
    link: Mutex<Option<Link>>,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    /// Returns a home in which commands find a daemon: the first one starts it.
    pub(crate) fn new() -> Home {
        let home = Home::empty();
        home.serve();
        home
    }

    /// Returns a home in which nothing was started.
    pub(crate) fn empty() -> Home {
        let folder = tempfile::Builder::new().prefix("lw").tempdir().unwrap();
        let home = Home { folder, executable: lastword().into(), link: Mutex::new(None) };
        std::fs::create_dir(home.work()).unwrap();
        home
    }

    /// On a link, starts its server and its worker, with the settings that were written before.
    pub(crate) fn serve(&self) {
        if link::is_wanted() {
            let link = Link::start(&|words| self.command(words), &self.state(), &self.worker());
            *self.link.lock().unwrap() = Some(link);
        }
    }

    /// Starts the daemon or the server again, with more settings. Jobs keep running.
    pub(crate) fn restart(&self, settings: &[&str]) {
        match self.link.lock().unwrap().as_mut() {
            Some(link) => link.serve_again(&|words| self.command(words), settings),
            None => _ = self.ok(&[&["daemon", "restart"], settings].concat()),
        }
    }

    /// On a link, waits until the worker has renewed its lease. One that no server stores in time is over, and its jobs with it.
    pub(crate) fn until_renewed(&self) {
        if !link::is_wanted() {
            return;
        }
        let mut before = 0;
        until("the lease is renewed", || {
            let ago = self.json(&["fleet"])["workers"][0]["beat_ago_ms"].as_u64()?;
            (std::mem::replace(&mut before, ago) > ago).then_some(())
        });
    }

    /// Returns the command that starts the daemon or the server.
    pub(crate) fn starter(&self) -> &'static str {
        if link::is_wanted() { "lastword serve" } else { "lastword daemon start" }
    }

    /// Returns the state folder of the process that runs the jobs: the daemon's, or on a link the worker's.
    pub(crate) fn worker(&self) -> PathBuf {
        if link::is_wanted() { self.folder.path().join("worker") } else { self.state() }
    }

    /// Returns the folder with the folders of jobs that ran.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.worker().join("jobs")
    }

    /// Returns the folder that is `LASTWORD_HOME`.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("lw")
    }

    /// Returns the folder that commands run in.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns the folder of programs that come before all others, for commands and jobs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns a command with a clean environment, eighty columns and no terminal.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.command_in(&self.work(), words)
    }

    /// Returns such a command in another folder.
    pub(crate) fn command_in(&self, folder: &Path, words: &[&str]) -> Command {
        let is_on_link = link::is_wanted() && self.worker().exists();
        let named = folder.to_str().unwrap();
        let words = if is_on_link { link::in_folder(words, named) } else { words.to_vec() };
        let mut command = Command::new(&self.executable);
        command.args(words).current_dir(folder).env_clear();
        command
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs().display()))
            .env("HOME", self.folder.path())
            .env("USER", "ann")
            .env("LASTWORD_HOME", self.state())
            .env("COLUMNS", "80")
            .env("TZ", "UTC");
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        run_command(self.command(words))
    }

    /// Runs a command that must succeed, and returns its output without the last line feed.
    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert_eq!(output.code, 0, "{words:?}: {output:?}");
        output.stdout.trim_end_matches('\n').to_owned()
    }

    /// Runs a command that must succeed with `--json`, and returns what it printed.
    pub(crate) fn json(&self, words: &[&str]) -> serde_json::Value {
        let text = self.ok(&[&["--json"], words].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    /// Starts a shell script as a job and returns its id.
    pub(crate) fn start(&self, script: &str) -> String {
        self.ok(&["run", "-d", "sh", "-c", script])
    }

    /// Starts a shell script as a job, and returns its id and the first `count` pids it prints, one per line.
    pub(crate) fn start_with_pids(&self, script: &str, count: usize) -> (String, Vec<i32>) {
        let id = self.start(script);
        let pids = self.pids_of(&id, count);
        (id, pids)
    }

    /// Waits until a job has printed `count` pids.
    pub(crate) fn pids_of(&self, id: &str, count: usize) -> Vec<i32> {
        until("the job wrote its pids", || {
            let text = self.ok(&["logs", id]);
            let pids: Vec<i32> = text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
            (pids.len() >= count).then_some(pids)
        })
    }

    /// Waits until a job is in a phase, and returns it.
    pub(crate) fn until_phase(&self, id: &str, phase: &str) -> serde_json::Value {
        until(&format!("{id} is {phase}"), || {
            let job = self.json(&["show", id]);
            (job["phase"] == phase).then_some(job)
        })
    }

    /// Waits until there is a job with a name, and it is in a phase.
    pub(crate) fn until_phase_of_name(&self, name: &str, phase: &str) -> serde_json::Value {
        self.until_named(name);
        self.until_phase(name, phase)
    }

    /// Waits until there is a job with a name, and it has printed `count` pids.
    pub(crate) fn pids_of_name(&self, name: &str, count: usize) -> Vec<i32> {
        self.until_named(name);
        self.pids_of(name, count)
    }

    fn until_named(&self, name: &str) {
        until(&format!("there is a job {name}"), || {
            (!self.ok(&["ls", "-a", "-q", "--name", name]).is_empty()).then_some(())
        });
    }

    /// Starts a command in the background and collects its output.
    pub(crate) fn spawn(&self, words: &[&str]) -> Running {
        Running::new(self.command(words))
    }

    /// Returns the pid of the daemon.
    pub(crate) fn daemon_pid(&self) -> i32 {
        let pid = self.json(&["daemon", "status"])["pid"].as_i64().unwrap();
        i32::try_from(pid).unwrap()
    }

    /// Kills the daemon with KILL, and waits until it is gone.
    pub(crate) fn kill_daemon(&self) {
        let pid = self.daemon_pid();
        signal(pid, rustix::process::Signal::KILL);
        until("the daemon is gone", || (!is_alive(pid)).then_some(()));
        // A command starts a daemon; a server has a supervisor.
        if let Some(link) = self.link.lock().unwrap().as_mut() {
            link.serve_again(&|words| self.command(words), &[]);
        }
    }

    /// Returns all processes that were started in this home and are still alive.
    fn survivors(&self) -> Vec<String> {
        let marker = format!("LASTWORD_MARKER={}", self.folder.path().display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let marked =
                environ.split(|byte| *byte == 0).any(|variable| variable.starts_with(marker.as_bytes()));
            if marked {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(format!("{:?}: {}", entry.file_name(), String::from_utf8_lossy(&command)));
            }
        }
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // If the test left the state folder unusable, the check below reports what survived.
        let ended = run_command(self.command(&["cancel", "--all", "--force"]));
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stopped = link.is_none().then(|| run_command(self.command(&["daemon", "stop", "--cancel-jobs"])));
        drop(link);
        let survivors = self.survivors();
        if !std::thread::panicking() {
            assert!(survivors.is_empty(), "{survivors:?} are still alive after {ended:?}, {stopped:?}");
        }
    }
}

/// A background command and its output so far. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    stdout: Heard,
    stderr: Heard,
}

/// A stream that is read in the background.
pub(crate) struct Heard {
    text: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Heard {
    pub(crate) fn new(mut stream: impl Read + Send + 'static) -> Heard {
        let text = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                all.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Heard { text, reader: Some(reader) }
    }

    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap()).into_owned()
    }

    /// Waits for the end of the stream and returns all of it.
    pub(crate) fn all_of_it(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.so_far()
    }
}

impl Running {
    fn new(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Running { child, stdout: Heard::new(stdout), stderr: Heard::new(stderr) }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits until it has printed a text.
    pub(crate) fn until_printed(&self, text: &str) {
        until(&format!("it printed {text:?}"), || self.stdout.so_far().contains(text).then_some(()));
    }

    /// Waits until it has printed a text to standard error.
    pub(crate) fn until_said(&self, text: &str) {
        until(&format!("it said {text:?}"), || self.stderr.so_far().contains(text).then_some(()));
    }

    /// Returns its output so far.
    pub(crate) fn printed(&self) -> String {
        self.stdout.so_far()
    }

    /// Returns what it has said on standard error so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.so_far()
    }

    /// Writes to its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Signals it.
    pub(crate) fn signal(&self, signal_: rustix::process::Signal) {
        signal(self.pid(), signal_);
    }

    /// Closes its standard input, waits until it exits and returns its result.
    pub(crate) fn end(mut self) -> Output {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        Output { code: code_of(status), stdout: self.stdout.all_of_it(), stderr: self.stderr.all_of_it() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
pub(crate) fn run_command(mut command: Command) -> Output {
    of_output(command.output().unwrap())
}

pub(crate) fn of_output(output: std::process::Output) -> Output {
    Output {
        code: code_of(output.status),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns the exit code as a shell reports it.
fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Reports whether a process is running, not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    lastword_proc::Identity::of(pid).is_some_and(|process| process.is_alive())
}

pub(crate) fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Polls a condition that must become true.
pub(crate) fn until<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = is_so() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
