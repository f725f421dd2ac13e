//! The processes of the product in a run, and where each has its files. Beside its journal it is one daemon. On a link it is a server, whose
//! journal is in PostgreSQL, and a worker: each in a folder of its own, all on this host.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use crate::clock;
use crate::place;
use crate::postgres::Postgres;
use crate::product::{MARKER, Product, enrol_line, figures};

/// How long a member may take to be there, or to stop.
const START_MAX: Duration = Duration::from_secs(60);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);

/// Jobs that the worker runs at once: more than are ever needed, so that the groups decide.
const SLOTS: &str = "300";

/// Ports that the kernel gives to no connection: a worker that looks for its server cannot take the server's own.
const PORTS: std::ops::Range<u16> = 20_000..30_000;

const DATABASE: &str = "chaos";

/// Where the journal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    /// In the state folder of a daemon.
    Beside,
    /// In PostgreSQL, behind a server; jobs run on a worker.
    Link,
}

impl Store {
    /// Reads the value of `--store`.
    pub(crate) fn of(text: Option<&str>) -> Result<Store, String> {
        match text {
            None | Some("sqlite") => Ok(Store::Beside),
            Some("link") => Ok(Store::Link),
            Some(other) => Err(format!("--store {other}: there are `sqlite` and `link`")),
        }
    }

    /// Returns the words that ask for it.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Store::Beside => "",
            Store::Link => " --store link",
        }
    }
}

/// A process of the product that is killed and started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Member {
    Daemon,
    Server,
    Worker,
}

impl Member {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Member::Daemon => "daemon",
            Member::Server => "server",
            Member::Worker => "worker",
        }
    }

    /// Names what is counted when it is killed.
    pub(crate) fn killed(self) -> &'static str {
        match self {
            Member::Daemon => "daemons killed",
            Member::Server => "servers killed",
            Member::Worker => "workers killed",
        }
    }
}

/// All members.
pub(crate) struct Members {
    /// The daemon or the server, which commands and requests go to.
    product: Product,
    link: Option<Link>,
}

/// What there is on a link.
struct Link {
    server: Process,
    worker: Process,
    postgres: Mutex<Postgres>,
    // Removed after PostgreSQL is gone. Outside the folder of the product: PostgreSQL is none of its processes.
    _folder: TempDir,
}

/// A process that this one starts, again and again.
struct Process {
    product: Product,
    words: Vec<String>,
    child: Mutex<Option<Child>>,
}

impl Members {
    /// Installs them. On a link the worker has its state in `worker`, and the database is started.
    pub(crate) fn install(store: Store, product: Product, worker: &Path) -> Result<Members, String> {
        let link = match store {
            Store::Beside => None,
            Store::Link => Some(Link::install(&product, worker)?),
        };
        Ok(Members { product, link })
    }

    /// Starts all of them, and waits until they are ready.
    pub(crate) fn start(&self) -> Result<(), String> {
        match &self.link {
            None => self.product.start(),
            Some(link) => link.start(),
        }
    }

    pub(crate) fn product(&self) -> &Product {
        &self.product
    }

    pub(crate) fn is_link(&self) -> bool {
        self.link.is_some()
    }

    pub(crate) fn all(&self) -> &'static [Member] {
        if self.is_link() { &[Member::Server, Member::Worker] } else { &[Member::Daemon] }
    }

    /// Returns the folder with a folder for each job that runs.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.link.as_ref().map_or(&self.product, |link| &link.worker.product).home().join("jobs")
    }

    /// Returns the environment that a request asks for: the variables themselves, or the names of those that the worker has.
    pub(crate) fn environment(&self) -> (Vec<(String, String)>, Vec<String>) {
        let place = self.product.place().to_string_lossy();
        let variables = [("PATH", "/usr/bin:/bin"), (MARKER, place.as_ref())];
        match self.is_link() {
            true => (Vec::new(), vec![MARKER.to_owned()]),
            false => (variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), Vec::new()),
        }
    }

    /// Returns the process of a member, if it runs.
    pub(crate) fn pid(&self, member: Member) -> Option<i32> {
        let pid = match self.process(member) {
            None => self.product.daemon(),
            Some(process) => locked(&process.child).as_ref().map(|child| child.id().cast_signed()),
        };
        pid.filter(|pid| figures::runs(*pid, self.product.program()))
    }

    /// Returns the process of a member that answers: it has begun.
    pub(crate) fn ready_pid(&self, member: Member) -> Option<i32> {
        self.process(member).map_or(&self.product, |process| &process.product).daemon()
    }

    /// Kills a member. Reports whether it ran.
    pub(crate) fn kill(&self, member: Member) -> bool {
        let Some(pid) = self.pid(member) else { return false };
        match self.process(member) {
            // SAFETY: a signal to the daemon of this run, which was alive and its own program a moment ago.
            None => unsafe { libc::kill(pid, libc::SIGKILL) == 0 },
            Some(process) => locked(&process.child).as_mut().is_some_and(|child| child.kill().is_ok()),
        }
    }

    /// Starts every member that is gone, as a supervisor does.
    pub(crate) fn revive(&self) {
        match &self.link {
            None if self.product.daemon().is_none() => drop(self.product.run(&["daemon", "start"])),
            None => {}
            Some(link) => {
                for process in [&link.server, &link.worker] {
                    if let Err(why) = process.start() {
                        eprintln!("{why}");
                    }
                }
            }
        }
    }

    /// Kills the database. `None` if there is none.
    pub(crate) fn kill_database(&self) -> Option<()> {
        self.link.as_ref().map(|link| locked(&link.postgres).kill())
    }

    /// Starts the database again.
    pub(crate) fn start_database(&self) -> Result<(), String> {
        self.link.as_ref().map_or(Ok(()), |link| locked(&link.postgres).start_again())
    }

    /// Queries the journal past the product, or changes it: a statement for each kind of journal. Fields are separated by `|`.
    pub(crate) fn query(&self, sqlite: &str, postgres: &str) -> Result<String, String> {
        match &self.link {
            Some(link) => Ok(locked(&link.postgres).sql(DATABASE, postgres)?.replace('\t', "|")),
            None => query_sqlite(self.product.home(), sqlite),
        }
    }

    /// Stops them. Jobs that run go on.
    pub(crate) fn stop(&self) -> Result<(), String> {
        match &self.link {
            None => self.product.said(&["daemon", "stop"]).map(drop),
            Some(link) => link.worker.stop().and_then(|()| link.server.stop()),
        }
    }

    /// Ends all jobs, and kills what is left.
    pub(crate) fn tear_down(&self) {
        let Some(link) = &self.link else {
            self.product.tear_down();
            return;
        };
        if self.pid(Member::Server).is_some() {
            let _ = self.product.run(&["cancel", "--all", "--force", "--no-wait"]);
        }
        let _ = self.stop();
        self.product.kill_all();
        for process in [&link.server, &link.worker] {
            let _ = locked(&process.child).take().map(|mut child| child.wait());
        }
    }

    fn process(&self, member: Member) -> Option<&Process> {
        let link = self.link.as_ref()?;
        Some(if member == Member::Worker { &link.worker } else { &link.server })
    }
}

impl Link {
    fn install(product: &Product, worker: &Path) -> Result<Link, String> {
        let folder = place::temporary("chaos-database")?;
        let group = rustix::process::getegid().as_raw();
        let postgres = Postgres::start(folder.path().join("postgres"), group)?;
        let url = postgres.database(DATABASE)?;
        let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
        let first = PORTS.start + (std::process::id() % u32::from(PORTS.end - PORTS.start)) as u16;
        let port = (first..PORTS.end).chain(PORTS).find(is_free).ok_or("there is no free port")?;
        let listen = format!("127.0.0.1:{port}");
        let worker = Product::at(product.program().to_owned(), product.place(), worker)?;
        Ok(Link {
            server: Process::new(product.clone(), &["serve", "--store", &url, "--listen", &listen]),
            worker: Process::new(worker, &["worker", "--slots", SLOTS]),
            postgres: Mutex::new(postgres),
            _folder: folder,
        })
    }

    /// Starts the server, enrols the worker as a person does, and starts it.
    fn start(&self) -> Result<(), String> {
        self.server.start()?;
        let server = &self.server.product;
        server.until_ready()?;
        let added = server.said(&["fleet", "add", "ann"])?;
        self.worker.product.said(&enrol_line(&added)?)?;
        self.worker.start()?;
        let is_connected = || server.said(&["fleet"]).is_ok_and(|said| said.contains("connected"));
        let connected = clock::until(START_MAX, LOOK, || is_connected().then_some(()));
        connected.ok_or_else(|| "the worker does not connect".to_owned())
    }
}

impl Process {
    fn new(product: Product, words: &[&str]) -> Process {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Process { product, words, child: Mutex::default() }
    }

    /// Starts it, if it does not run.
    fn start(&self) -> Result<(), String> {
        let mut child = locked(&self.child);
        if child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))) {
            return Ok(());
        }
        let mut command = self.product.command(&self.words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        *child = Some(command.spawn().map_err(|error| format!("{}: {error}", self.words[0]))?);
        Ok(())
    }

    /// Asks it to stop, and waits for that.
    fn stop(&self) -> Result<(), String> {
        let mut child = locked(&self.child);
        let Some(running) = child.as_mut() else { return Ok(()) };
        if let Ok(None) = running.try_wait() {
            // SAFETY: a signal to a child that is not reaped yet.
            unsafe { libc::kill(running.id().cast_signed(), libc::SIGTERM) };
        }
        let gone = clock::until(START_MAX, LOOK, || running.try_wait().ok().flatten());
        gone.map(drop).ok_or_else(|| format!("the {} does not stop", self.words[0]))
    }
}

fn query_sqlite(home: &Path, question: &str) -> Result<String, String> {
    // It waits for its turn beside the writes of the daemon.
    let patient = ["-cmd", ".timeout 30000"];
    let output = Command::new("sqlite3").args(patient).arg(home.join("journal.db")).arg(question).output();
    let output = output.map_err(|error| format!("sqlite3, which reads the journal: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("sqlite3: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Locks what a thread that failed may have left behind: its failure is told elsewhere.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
