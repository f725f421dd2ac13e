//! A home on a link: its state folder is that of a server with a journal in PostgreSQL, and beside it is a worker that runs the jobs.
//! `cargo xtask e2e --store link` runs the suite so.

use std::path::PathBuf;
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

/// Jobs that the worker runs at once.
const SLOTS: &str = "--slots=32";

pub(crate) fn is_wanted() -> bool {
    *IS_WANTED
}

/// A server and its worker.
pub(crate) struct Link {
    server: Child,
    worker: Child,
    url: String,
    address: String,
}

impl Link {
    /// Starts a server in the state folder of `command`, and a worker in `folder`.
    pub(crate) fn start(command: &dyn Fn(&[&str]) -> Command, folder: PathBuf) -> Link {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = DATABASE.url(&runtime.block_on(DATABASE.database()));
        let server = serve(command, &url, "127.0.0.1:0");
        let fleet = until("the server answers", || {
            let output = run_command(command(&["--json", "fleet"]));
            (output.code == 0).then(|| serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap())
        });
        let address = fleet["address"].as_str().unwrap().to_owned();
        let line = run_command(command(&["fleet", "add", "ann"])).stdout;
        let on_worker = |words: &[&str]| {
            let mut command = command(words);
            command.env("LASTWORD_HOME", &folder);
            command
        };
        let enrolled = run_command(on_worker(&line.split_whitespace().skip(1).collect::<Vec<_>>()));
        assert_eq!(enrolled.code, 0, "{enrolled:?}");
        let worker = background(on_worker(&["worker", SLOTS]));
        let link = Link { server, worker, url, address };
        until("the worker is connected", || {
            run_command(command(&["fleet"])).stdout.contains(" connected ").then_some(())
        });
        link
    }

    /// Starts the server again, at the same address.
    pub(crate) fn serve_again(&mut self, command: &dyn Fn(&[&str]) -> Command) {
        self.server.wait().unwrap();
        self.server = serve(command, &self.url, &self.address);
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

fn serve(command: &dyn Fn(&[&str]) -> Command, url: &str, listen: &str) -> Child {
    background(command(&["serve", "--store", url, "--listen", listen]))
}

fn background(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
