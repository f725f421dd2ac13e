//! A home on a link: its state folder is that of a server with a journal in PostgreSQL, and beside it is a worker that runs the jobs.
//! `cargo xtask e2e --store link` runs the suite so.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use lastword_proof::pg::{Server, Settings};

use crate::home::{run_command, until};

/// Whether each home has a link.
static IS_WANTED: LazyLock<bool> = LazyLock::new(|| match std::env::var("TESTED_STORE").as_deref() {
    Ok("link") => true,
    Ok(other) => panic!("TESTED_STORE={other}: only `link` is known"),
    Err(_) => false,
});

/// The database server of this process. It ends with it.
static DATABASE: LazyLock<Server> = LazyLock::new(|| Server::start(Settings::default()).unwrap());

/// The name of the worker: that which the daemon of a laptop has in events.
const WORKER: &str = "daemon";

/// Jobs that the worker runs at once.
const SLOTS: &str = "--slots=32";

pub(crate) fn is_wanted() -> bool {
    *IS_WANTED
}

/// Returns the words of a command, which names the folder if it starts a job: on a fleet it would be a new one.
pub(crate) fn in_folder<'a>(words: &[&'a str], folder: &'a str) -> Vec<&'a str> {
    let mut all = words.to_vec();
    let verb = words.iter().position(|word| !word.starts_with('-'));
    if let Some(verb) = verb.filter(|verb| words[*verb] == "run" && !words.contains(&"-C")) {
        all.splice(verb + 1..=verb, ["-C", folder]);
    }
    all
}

/// A server and its worker.
pub(crate) struct Link {
    server: Child,
    worker: Child,
    url: String,
    address: String,
}

impl Link {
    /// Starts a server in the state folder of `command`, and a worker with the same settings in another.
    pub(crate) fn start(command: &dyn Fn(&[&str]) -> Command, state: &Path, folder: &Path) -> Link {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = DATABASE.url(&runtime.block_on(DATABASE.database()));
        let server = serve(command, &url, "127.0.0.1:0", &[]);
        // Before the folder is known to be a server's, a command would start a daemon in it.
        let socket = state.join("lastword.sock");
        let is_socket = || Some(std::fs::metadata(&socket).ok()?.file_type().is_socket());
        until("the server listens", || is_socket().filter(|is| *is));
        let fleet = run_command(command(&["--json", "fleet"]));
        let fleet: serde_json::Value = serde_json::from_str(&fleet.stdout).unwrap();
        let address = fleet["address"].as_str().unwrap().to_owned();
        let line = run_command(command(&["fleet", "add", WORKER])).stdout;
        let on_worker = |words: &[&str]| {
            let mut command = command(words);
            command.env("LASTWORD_HOME", folder);
            command
        };
        let enrolled = run_command(on_worker(&line.split_whitespace().skip(1).collect::<Vec<_>>()));
        assert_eq!(enrolled.code, 0, "{enrolled:?}");
        let settings = state.join("config.toml");
        if settings.exists() {
            std::fs::copy(settings, folder.join("config.toml")).unwrap();
        }
        let worker = background(on_worker(&["worker", SLOTS]));
        let link = Link { server, worker, url, address };
        until("the worker is connected", || {
            run_command(command(&["fleet"])).stdout.contains(" connected ").then_some(())
        });
        link
    }

    /// Stops the server if it still runs, and starts it again at the same address, with more settings.
    pub(crate) fn serve_again(&mut self, command: &dyn Fn(&[&str]) -> Command, settings: &[&str]) {
        if self.server.try_wait().unwrap().is_none() {
            let stopped = run_command(command(&["daemon", "stop"]));
            assert_eq!(stopped.code, 0, "{stopped:?}");
            self.server.wait().unwrap();
        }
        self.server = serve(command, &self.url, &self.address, settings);
        until("the server answers", || (run_command(command(&["ls"])).code == 0).then_some(()));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for process in [&mut self.worker, &mut self.server] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn serve(command: &dyn Fn(&[&str]) -> Command, url: &str, listen: &str, settings: &[&str]) -> Child {
    background(command(&[&["serve", "--store", url, "--listen", listen], settings].concat()))
}

fn background(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
