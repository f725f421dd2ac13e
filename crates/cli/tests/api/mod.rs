//! The API over its socket: a complete daemon without the command line, on a real journal, with real keepers.

#[path = "../../../server/tests/client.rs"]
mod client;

mod answers;
mod away;
mod ending;
mod hostile;
mod inside;
mod keys;
mod lists;
mod output;
mod processes;
mod rows;
mod streams;
mod transcript;
mod usage;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use lastword_api::JobsFate;
use lastword_core::receipt::Level;
use lastword_core::{HostId, OwnerId};
use lastword_engine::LocalHost;
use lastword_engine::{Engine, Options};
use lastword_proc::{Identity, Located, locate};
use lastword_server::{About, Closing, Endpoint, serve};
use lastword_store::Store;
use lastword_store::sqlite::Sqlite;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::common::{start_nursery, until};
use client::{Answer, Client};

/// The folder of a daemon; it outlives the daemon.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("run/lastword.sock")
    }

    /// Starts a daemon and waits until it answers.
    fn start(&self) -> Daemon {
        let daemon = self.start_with(Sqlite::open(&self.path("journal")).unwrap());
        daemon.until_ready();
        daemon
    }

    /// Starts a daemon on a journal that may be broken.
    fn start_with<J: Store>(&self, journal: J) -> Daemon {
        let socket = self.socket();
        self.start_on(journal, move || Endpoint::bind(&socket).unwrap())
    }

    /// Starts a daemon as the executable does, with a single thread.
    fn start_on<J: Store>(&self, journal: J, endpoint: impl FnOnce() -> Endpoint + Send + 'static) -> Daemon {
        let (told, stop) = oneshot::channel::<()>();
        let (bound, is_bound) = std::sync::mpsc::channel();
        let (jobs, state_dir) = (self.path("jobs"), self.0.path().to_owned());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let endpoint = endpoint();
                bound.send(()).unwrap();
                let host = LocalHost::new(jobs, || Ok(start_nursery())).unwrap();
                let options = Options::new(OwnerId(Arc::from("daemon")), HostId(Arc::from("here")));
                let engine = Engine::start(journal, host, options);
                let (user, host) = ("ann".to_owned(), "here".to_owned());
                let [agents, prices] = ["agents.toml", "prices.toml"].map(|name| state_dir.join(name));
                let about =
                    About { user, host, state_dir, level: Level::Subreaper, agents, prices, fleet: None };
                serve(endpoint, engine, about, async {
                    drop(stop.await);
                    Closing::Stop(JobsFate::Keep)
                })
                .await;
            });
        });
        is_bound.recv().unwrap();
        let (client, cwd) = (Client::new(&self.socket()), self.0.path().display().to_string());
        Daemon { client, cwd, told: Some(told), thread: Some(thread) }
    }
}

/// A running daemon. Dropping it ends its jobs and stops it.
struct Daemon {
    client: Client,
    cwd: String,
    told: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    fn until_ready(&self) {
        until("the daemon answers", || (self.client.get("/readyz").status == 204).then_some(()));
    }

    /// Returns the request body that submits a shell script.
    fn script(&self, script: &str) -> Value {
        json!({
            "argv": ["sh", "-c", script],
            "cwd": self.cwd,
            "env": { "PATH": "/usr/local/bin:/usr/bin:/bin" },
            "ladder": { "term_ms": 200 },
        })
    }

    /// Submits a shell script and returns the id.
    fn run(&self, script: &str) -> String {
        self.submit(&self.script(script))
    }

    fn submit(&self, asked: &Value) -> String {
        id_of(&self.client.post("/v1/jobs", asked).expect(202))
    }

    /// Waits until a job has ended, and returns it.
    fn end_of(&self, id: &str) -> Value {
        let job = self.client.get(&format!("/v1/jobs/{id}?wait=30s")).expect(200);
        assert_eq!(job["phase"], "ended", "{job}");
        job
    }

    /// Waits until a job has started, and returns it.
    fn start_of(&self, id: &str) -> Value {
        let job = self.client.get(&format!("/v1/jobs/{id}?wait=30s&until=started")).expect(200);
        assert!(job["started_at"].is_string(), "{job}");
        job
    }

    /// Stops the daemon and leaves its jobs running.
    fn leave(mut self) {
        self.stop();
    }

    /// Waits until it has stopped by itself.
    fn until_stopped(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn stop(&mut self) {
        self.told.take();
        self.until_stopped();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.thread.is_none() || std::thread::panicking() {
            return;
        }
        let live = self.client.post("/v1/jobs:cancel", &json!({ "all": true, "force": true }));
        for row in live.json()["items"].as_array().into_iter().flatten() {
            self.end_of(row["id"].as_str().unwrap());
        }
        self.stop();
    }
}

/// Returns the first process of a job's tree.
fn leader(job: &Value) -> Identity {
    Identity::of(job["attempts"][0]["pid"].as_i64().unwrap() as i32).expect("it runs")
}

/// Kills guard and shim of a job, and returns its leader, which is still alive.
fn kill_keeper(home: &Home, job: &Value) -> Identity {
    let leader = leader(job);
    let dir = home.path("jobs").join(id_of(job)).join("1");
    let Ok(Located::Alive(alive)) = locate(&dir, lastword_proc::boot_id()) else { panic!("it runs") };
    let shim = Identity::of(lastword_proc::ancestors(leader.pid).unwrap()[1].0).unwrap();
    let keeper = [alive.guard, shim];
    for signal in [Signal::STOP, Signal::KILL] {
        keeper.iter().for_each(|process| assert!(process.signal(signal).unwrap()));
    }
    until("the keeper is dead", || keeper.iter().all(|process| !process.is_alive()).then_some(()));
    leader
}

fn id_of(job: &Value) -> String {
    job["id"].as_str().unwrap().to_owned()
}

/// Returns a field of every item of a page.
fn each<'a>(page: &'a Value, field: &str) -> Vec<&'a str> {
    page["items"].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}
