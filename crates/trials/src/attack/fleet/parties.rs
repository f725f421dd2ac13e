//! The parties of an attack on a fleet: a server, two workers of other users, and what an attacker has of them.

use std::cell::RefCell;
use std::fs::{self, File};
use std::future::Future;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lastword_core::{Fence, Job, JobId, Seq, Timestamp};
use lastword_link::{Link, Remote, Timing, Trust};
use lastword_store::{Journal as _, Said, postgres};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::super::attacker;
use super::super::bug::Bug;
use super::super::parties::Parties;
use super::super::setup::{LOOK, OWNER, PATIENCE, at, text};
use crate::clock;
use crate::place::{self, Programs};
use crate::postgres::Postgres;
use crate::product::{Product, enrol_line};

/// The users of the workers.
const ANN: u32 = 54_331;
const BOB: u32 = 54_332;

/// The lease of workers here, and what others wait beyond it.
pub(super) const LEASE: &str = "3s";
pub(super) const LEASE_AND_MARGIN: Duration = Duration::from_secs(5);

/// What all parties share: the programs, and a PostgreSQL that only the server's user reaches.
pub(in super::super) struct Grounds {
    short: bool,
    programs: Programs,
    postgres: Postgres,
    made: AtomicUsize,
    // Removed after all that is in it was torn down.
    folder: TempDir,
}

impl Grounds {
    pub(in super::super) fn new(short: bool) -> Result<Grounds, String> {
        let folder = place::temporary("attack-fleet")?;
        let programs = Programs::beside()?.copy_to(&folder.path().join("programs"))?;
        let postgres = Postgres::start(folder.path().join("postgres"), OWNER)?;
        Ok(Grounds { short, programs, postgres, made: AtomicUsize::new(0), folder })
    }

    /// Returns a fleet of its own.
    pub(in super::super) fn parties(&self, bug: Option<Bug>) -> Result<Fleet, String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(format!("fleet-{number}"));
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let url = self.postgres.database(&format!("fleet_{number}"))?;
        Fleet::new(bug, self.short, self.programs.clone(), folder, url)
    }
}

/// A server and two workers that run all along.
pub(in super::super) struct Fleet {
    bug: Option<Bug>,
    pub(super) short: bool,
    pub(super) programs: Programs,
    pub(super) runtime: Runtime,
    /// Reads what is stored.
    pub(super) journal: postgres::Postgres,
    pub(super) server: Member,
    pub(super) ann: Member,
    /// The other worker: it only has to go on.
    _bob: Member,
    url: String,
    folder: PathBuf,
}

/// A server or a worker in its folder, torn down with everything it started.
pub(super) struct Member {
    pub(super) product: Product,
    words: Vec<String>,
    process: RefCell<Option<Child>>,
}

/// What a worker's enrolment has.
pub(super) struct Stolen {
    pub(super) token: String,
    pub(super) address: String,
    pub(super) fingerprint: String,
}

impl Parties for Fleet {
    fn place(&self) -> &Path {
        &self.folder
    }
}

impl Fleet {
    fn new(
        bug: Option<Bug>,
        short: bool,
        programs: Programs,
        folder: PathBuf,
        url: String,
    ) -> Result<Fleet, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let server = install(&programs, &folder, "server", Some(OWNER))?;
        let server = Member::start(server, &serve(&url, "127.0.0.1:0"))?;
        let worker = |name, user| {
            let product = enrolled(&programs, &folder, &server, name, user)?;
            Member::start(product, &WORKER)
        };
        let (ann, bob) = (worker("ann", Some(ANN))?, worker("bob", Some(BOB))?);
        let journal = runtime.block_on(postgres::Postgres::open(&url, postgres::Options::default()));
        let journal = journal.map_err(|error| format!("the database: {error}"))?;
        Ok(Fleet { bug, short, programs, runtime, journal, server, ann, _bob: bob, url, folder })
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns an installation that is not started. Without a user it is root's.
    pub(super) fn install(&self, name: &str, user: Option<u32>) -> Result<Product, String> {
        install(&self.programs, &self.folder, name, user)
    }

    /// Returns a worker that is enrolled, and not started.
    pub(super) fn enrolled(&self, name: &str, user: Option<u32>) -> Result<Product, String> {
        enrolled(&self.programs, &self.folder, &self.server, name, user)
    }

    /// Starts another server on the same database.
    pub(super) fn another_server(&self, name: &str, listen: &str) -> Result<Member, String> {
        Member::start(self.install(name, Some(OWNER))?, &serve(&self.url, listen))
    }

    /// Starts a job, and returns its id once a process of it runs.
    pub(super) fn running(&self, on: &str, words: &[&str]) -> Result<JobId, String> {
        let id = self.submitted(on, words)?;
        self.until(id, |job| job["attempts"][0]["pid"].as_i64().map(drop))?;
        Ok(id)
    }

    /// Submits a job for the workers with a label.
    pub(super) fn submitted(&self, on: &str, words: &[&str]) -> Result<JobId, String> {
        let id = self.server.product.said(&[&["run", "-d", "--on", on, "--"], words].concat())?;
        id.parse().map_err(|_| format!("{id} is not the id of a job"))
    }

    /// Has an attacker do something as a job of a worker, and returns what it said.
    pub(super) fn inside(&self, on: &str, words: &[&str]) -> Result<String, String> {
        let program = self.programs.trials.display().to_string();
        let all = [&["run", "--on", on, "--", &program, attacker::VERB], words].concat();
        let said = self.server.product.run(&all)?;
        match said.status.success() {
            true => Ok(text(&said.stdout)),
            false => Err(format!("a job failed: {} {}", text(&said.stdout), text(&said.stderr))),
        }
    }

    /// Waits for something of a job that `show` shows.
    pub(super) fn until<T>(&self, job: JobId, what: impl Fn(&Value) -> Option<T>) -> Result<T, String> {
        let mut last = Value::Null;
        clock::until(PATIENCE, LOOK, || {
            last = self.show(job).unwrap_or_default();
            what(&last)
        })
        .ok_or_else(|| format!("{job} does not come to it: {last}"))
    }

    pub(super) fn show(&self, job: JobId) -> Result<Value, String> {
        let said = self.server.product.said(&["show", &job.to_string(), "--json"])?;
        serde_json::from_str(&said).map_err(|error| format!("show: {error}: {said}"))
    }

    /// Makes sure that a worker still runs jobs.
    pub(super) fn still_works(&self, on: &str) -> Result<(), String> {
        let said = self.server.product.said(&["run", "--on", on, "--", "echo", "works"])?;
        if said == "works" { Ok(()) } else { Err(format!("a job on {on} said {said:?}")) }
    }

    pub(super) fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(since.as_millis() as u64)
    }

    /// Waits for a future.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Returns a job as it is stored, and what its holder writes under.
    pub(super) fn stored(&self, id: JobId) -> Result<(Job, Option<Fence>), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{id}: {error}");
        let events = self.wait(self.journal.load(id, Seq(0))).map_err(|error| failed(&error))?;
        let job = Job::fold(id, &events).map_err(|error| failed(&error))?;
        let fence = job.holder.as_ref().map(|holder| holder.fence.clone());
        Ok((job, fence))
    }

    /// Connects with a token that was stolen.
    pub(super) fn link(&self, stolen: &Stolen) -> Result<Link, String> {
        let fingerprint = stolen.fingerprint.parse().map_err(|_| "the fingerprint does not read")?;
        let remote = Remote {
            servers: vec![stolen.address.clone()],
            trust: Trust::Fingerprints(vec![fingerprint]),
            token: stolen.token.clone(),
            said: Said::default(),
            timing: Timing::default(),
        };
        self.wait(Link::connect(remote)).map_err(|error| error.to_string())
    }
}

/// How a worker is started.
pub(super) const WORKER: [&str; 5] = ["worker", "--slots", "8", "--lease", LEASE];

fn serve<'a>(url: &'a str, listen: &'a str) -> [&'a str; 7] {
    ["serve", "--store", url, "--listen", listen, "--lease", LEASE]
}

fn install(programs: &Programs, folder: &Path, name: &str, user: Option<u32>) -> Result<Product, String> {
    let place = folder.join(name);
    fs::create_dir_all(&place).map_err(at(&place))?;
    let product = Product::install(&programs.lastword, &place, &place.join("home"))?;
    user.map_or(Ok(product.clone()), |user| product.given_to(user))
}

/// Adds a worker whose label is its name, and enrols it.
fn enrolled(
    programs: &Programs,
    folder: &Path,
    server: &Member,
    name: &str,
    user: Option<u32>,
) -> Result<Product, String> {
    let product = install(programs, folder, name, user)?;
    let line = server.product.said(&["fleet", "add", name, "--label", name])?;
    product.said(&enrol_line(&line)?)?;
    Ok(product)
}

impl Member {
    /// Starts it, and waits until it listens.
    pub(super) fn start(product: Product, words: &[&str]) -> Result<Member, String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let member = Member { product, words, process: RefCell::default() };
        member.start_again()?;
        Ok(member)
    }

    /// Starts it as before.
    pub(super) fn start_again(&self) -> Result<(), String> {
        let _ = fs::remove_file(self.socket());
        let child = self.product.command(&self.words);
        self.spawn(child)
    }

    /// Starts a server again, at this address.
    pub(super) fn start_on(&self, address: &str) -> Result<(), String> {
        let _ = fs::remove_file(self.socket());
        let at = self.words.iter().position(|word| word == "--listen").map_or(0, |place| place + 1);
        let word =
            |(place, word): (usize, &String)| if place == at { address.to_owned() } else { word.clone() };
        let words: Vec<String> = self.words.iter().enumerate().map(word).collect();
        self.spawn(self.product.command(&words))
    }

    /// Starts it, on a host with another boot: what knows the boot by its id is told another one.
    pub(super) fn elsewhere(product: Product, words: &[&str], user: u32) -> Result<Member, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let script = r#"uuid=$1/boot; cat /proc/sys/kernel/random/uuid >$uuid; mount --bind $uuid /proc/sys/kernel/random/boot_id
            user=$2; shift 2; exec setpriv --reuid=$user --regid=$user --clear-groups "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script, "sh"]).arg(product.place()).arg(user.to_string());
        command.arg(product.program()).args(&words);
        let own = product.command(&[""; 0]);
        command.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let _ = fs::remove_file(product.home().join("lastword.sock"));
        let member = Member { product, words, process: RefCell::default() };
        member.spawn(command)?;
        Ok(member)
    }

    fn spawn(&self, mut command: Command) -> Result<(), String> {
        let log = self.product.place().join("log");
        let log = File::options().create(true).append(true).open(&log).map_err(at(&log))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.words[0]))?;
        *self.process.borrow_mut() = Some(child);
        let listens = || self.socket().exists().then_some(());
        clock::until(PATIENCE, LOOK, listens)
            .ok_or_else(|| format!("{:?} does not listen: {}", self.words, self.log()))
    }

    fn socket(&self) -> PathBuf {
        self.product.home().join("lastword.sock")
    }

    /// Returns what it wrote to its log.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.product.home().join("daemon.log")).unwrap_or_default()
    }

    /// Waits until its log says something, and returns that line.
    pub(super) fn logs(&self, words: &str) -> Result<String, String> {
        let line = || Some(self.log().lines().rfind(|line| line.contains(words))?.to_owned());
        clock::until(PATIENCE, LOOK, line).ok_or_else(|| {
            let log = self.log();
            let end: Vec<&str> = log.lines().rev().take(3).collect();
            format!("its log does not say `{words}`: {end:?}")
        })
    }

    /// Returns its process.
    pub(super) fn pid(&self) -> Result<i32, String> {
        self.process
            .borrow()
            .as_ref()
            .map(|child| child.id().cast_signed())
            .ok_or("it is not running".to_owned())
    }

    /// Kills its process, and no other.
    pub(super) fn kill(&self) {
        if let Some(mut child) = self.process.borrow_mut().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Reads its enrolment, as an attacker does that got hold of the file.
    pub(super) fn stolen(&self) -> Result<Stolen, String> {
        stolen(&self.product)
    }
}

/// Reads the enrolment of a worker.
pub(super) fn stolen(product: &Product) -> Result<Stolen, String> {
    let file = product.home().join("enrolment.json");
    let read = fs::read_to_string(&file).map_err(at(&file))?;
    let enrolment: Value =
        serde_json::from_str(&read).map_err(|error| format!("{}: {error}", file.display()))?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let server = &enrolment["servers"][0];
    Ok(Stolen {
        token: word(&enrolment["token"]),
        address: word(&server["address"]),
        fingerprint: word(&server["fingerprint"]),
    })
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        self.product.kill_all();
    }
}
