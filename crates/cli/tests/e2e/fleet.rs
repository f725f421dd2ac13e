//! A fleet from nothing: a database, a server, a worker, and the first job; then a worker that is removed.

use std::process::{Child, Stdio};

use lastword_proof::pg::{Server, Settings};

use crate::home::{Home, Output, run_command, until};

/// A database, and the address of one journal in it.
pub(crate) struct Database {
    url: String,
    _server: Server,
}

impl Database {
    pub(crate) fn start() -> Database {
        let server = Server::start(Settings::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Database { url: server.url(&runtime.block_on(server.database())), _server: server }
    }

    pub(crate) fn serve(&self) -> Member {
        Member::start(Home::empty(), &["serve", "--store", &self.url, "--listen", "127.0.0.1:0"])
    }
}

/// A server or a worker, in a folder of its own.
pub(crate) struct Member {
    pub(crate) home: Home,
    process: Child,
}

impl Member {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(home: Home, words: &[&str]) -> Member {
        let process = spawn(&home, words);
        until("it listens", || home.state().join("lastword.sock").exists().then_some(()));
        Member { home, process }
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again after it was killed.
    pub(crate) fn start_again(&mut self, words: &[&str]) {
        self.process = spawn(&self.home, words);
    }

    /// Returns what `fleet` says of a worker.
    fn worker(&self, name: &str) -> Option<serde_json::Value> {
        let fleet = self.home.json(&["fleet"]);
        let workers = fleet["workers"].as_array().unwrap();
        workers.iter().find(|worker| worker["name"] == name).cloned()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(home: &Home, words: &[&str]) -> Child {
    home.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Runs a line that the program printed.
pub(crate) fn run_line(home: &Home, line: &str) -> Output {
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[0], "lastword", "{line}");
    home.run(&words[1..])
}

#[test]
fn from_nothing_to_the_first_job() {
    let database = Database::start();
    let server = database.serve();
    assert!(server.home.ok(&["fleet"]).contains("no workers: `lastword fleet add NAME` adds one"));
    let job = server.home.start("exit 0");
    let waits = server.home.ok(&["fleet"]);
    assert!(waits.contains("1 job waiting, and no worker is connected"), "{waits}");

    let line = server.home.ok(&["fleet", "add", "ann", "--label", "gpu"]);
    let home = Home::empty();
    let enrolled = run_line(&home, &line);
    assert_eq!((enrolled.code, enrolled.stdout.lines().count()), (0, 2), "{enrolled:?}");
    let file = std::fs::metadata(home.state().join("enrolment.json")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&file) & 0o777, 0o600);
    // The token was good for this once.
    let again = run_line(&Home::empty(), &line);
    assert_eq!(again.code, 125);
    assert!(again.stderr.contains("this one-time token was used already"), "{again:?}");

    let worker = Member::start(home, &["worker", "--slots", "3", "--lease", "3s"]);
    assert_eq!(server.home.run(&["wait", &job]).code, 0);
    let ann = server.worker("ann").unwrap();
    assert_eq!((&ann["state"], &ann["slots"]), (&"connected".into(), &3.into()), "{ann}");
    assert_eq!(ann["labels"], serde_json::json!(["gpu"]));
    assert_eq!(ann["version"], lastword_api::VERSION);

    // Another server of the fleet knows the worker's own token.
    let other = database.serve();
    let fleet = other.home.json(&["fleet"]);
    let [address, fingerprint] =
        ["address", "fingerprint"].map(|field| fleet[field].as_str().unwrap().to_owned());
    let words = ["worker", "enroll", "--server", &address, "--fingerprint", &fingerprint];
    assert_eq!(worker.home.run(&words).code, 0);
    assert_eq!(worker.home.json(&words)["servers"].as_array().unwrap().len(), 2);
    // A worker that is not enrolled has none.
    let stranger = Home::empty().run(&words);
    assert_eq!(stranger.code, 2);
    assert!(stranger.stderr.contains("lastword fleet add NAME"), "{stranger:?}");
}

#[test]
fn each_trouble_of_an_enrolment_has_its_words() {
    let database = Database::start();
    let server = database.serve();
    let home = Home::empty();
    let fleet = server.home.json(&["fleet"]);
    let [address, fingerprint] =
        ["address", "fingerprint"].map(|field| fleet[field].as_str().unwrap().to_owned());
    let enroll = |address: &str, fingerprint: &str| {
        home.run(&["worker", "enroll", "--server", address, "--fingerprint", fingerprint, "--token", "wrong"])
    };
    for (output, words) in [
        (enroll(&address, &fingerprint), "this one-time token is not known to the server"),
        (enroll(&address, &"a".repeat(64)), "no token was sent"),
        (enroll("127.0.0.1:1", &fingerprint), "cannot reach 127.0.0.1:1"),
        (enroll("nowhere", &fingerprint), "cannot reach nowhere: it is not `host:port`"),
    ] {
        assert_eq!(output.code, 125, "{output:?}");
        assert!(output.stderr.contains(words), "{output:?}");
    }
    let output = enroll(&address, "abc");
    assert_eq!(output.code, 2, "{output:?}");
    assert!(!home.state().join("enrolment.json").exists());
    for name in ["", "a b", "server-1", "../x"] {
        assert_eq!(server.home.run(&["fleet", "add", "--", name]).code, 2, "{name}");
    }
    assert_eq!(server.home.run(&["fleet", "add", "ann", "--label", "UPPER"]).code, 2);
    let missing = server.home.run(&["fleet", "rm", "bob"]);
    assert!(missing.stderr.contains("no worker `bob`"), "{missing:?}");
    // The folder of a server is no worker's.
    let refused = run_line(&server.home, &server.home.ok(&["fleet", "add", "ann"]));
    assert!(refused.stderr.contains("is that of a server"), "{refused:?}");
}

#[test]
fn a_removed_worker_is_cut_off_and_its_jobs_end_with_its_lease() {
    let database = Database::start();
    let server = database.serve();
    let home = Home::empty();
    run_line(&home, &server.home.ok(&["fleet", "add", "ann"]));
    let worker = Member::start(home, &["worker", "--lease", "3s"]);
    let job = server.home.start("sleep 1000");
    server.home.until_phase(&job, "running");
    assert_eq!(server.worker("ann").unwrap()["jobs"], 1);
    server.home.ok(&["fleet", "rm", "ann"]);
    let ended = server.home.until_phase(&job, "ended");
    assert_eq!(ended["outcome"], "lost", "{ended}");
    assert_eq!(ended["attempts"][0]["receipt"]["proof"], "lease_self_fenced", "{ended}");
    until("it is not shown", || server.worker("ann").is_none().then_some(()));
    // The name is free for another worker, and the first one stays outside.
    let next = Home::empty();
    run_line(&next, &server.home.ok(&["fleet", "add", "ann"]));
    let next = Member::start(next, &["worker", "--lease", "3s"]);
    let job = server.home.start("exit 0");
    assert_eq!(server.home.run(&["wait", &job]).code, 0);
    drop((worker, next));
}

#[test]
fn what_a_fleet_does_not_do_is_refused_in_words() {
    let database = Database::start();
    let server = database.serve();
    let file = server.home.path().join("variables");
    std::fs::write(&file, "TOKEN=secret\n").unwrap();
    for (words, said) in [
        (
            &["run", "--worktree", "true"][..],
            "a server of a fleet does not make worktrees on its workers yet",
        ),
        (&["run", "--env-file", file.to_str().unwrap(), "true"], "a server of a fleet passes on no values"),
        (&["run", "-C", "below", "true"], "cannot run in below: it names no folder of a worker"),
        (&["serve", "--advertise", "https://here:1"], "write it as HOST:PORT, without a scheme"),
        (&["serve", "--advertise", "here:http"], "`http` is no port"),
        (&["daemon", "stop", "--cancel-jobs"], "the jobs of a fleet do not end with one of its servers"),
    ] {
        let output = server.home.run(words);
        assert!(output.code == 2 && output.stderr.contains(said), "{words:?}: {output:?}");
    }
    assert_eq!(server.home.ok(&["ls", "-a", "-q"]), "", "nothing was submitted");
}

/// The folder that the caller is in says nothing about a job on a worker.
#[test]
fn a_profile_of_the_callers_folder_is_not_read_on_a_fleet() {
    let database = Database::start();
    let server = database.serve();
    let folder = server.home.path().join("repository");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(".lastword.toml"), "group = 'slow'\n").unwrap();
    let mut run = server.home.command(&["run", "-d", "true"]);
    run.current_dir(&folder);
    let started = run_command(run);
    assert_eq!((started.code, started.stderr.as_str()), (0, ""));
}

#[test]
fn the_environment_of_a_caller_does_not_reach_a_fleet() {
    let database = Database::start();
    let server = database.serve();
    let id = server.home.start("true");
    server.home.ok(&["cancel", &id]);
    let mut retry = server.home.command(&["retry", "-d", &id]);
    retry.env("TOKEN", "hunter2");
    assert_eq!(run_command(retry).code, 0);
    let mut grep = std::process::Command::new("grep");
    let found = grep.args(["-rl", "hunter2"]).arg(server.home.state()).output().unwrap();
    assert!(found.stdout.is_empty(), "{found:?}");
}

#[test]
fn a_job_that_no_worker_takes_says_so_also_to_a_script() {
    let database = Database::start();
    let server = database.serve();
    for (name, words, brief, said) in [
        (
            "any",
            &["run", "--name", "any", "true"][..],
            "queued, worker",
            "waiting for a worker with a free slot",
        ),
        (
            "tpu",
            &["run", "--name", "tpu", "--on", "tpu", "true"],
            "queued, worker with tpu",
            "needs a worker with tpu",
        ),
    ] {
        let running = server.home.spawn(words);
        running.until_said(said);
        let listed = server.home.ok(&["ls"]);
        assert!(listed.lines().any(|line| line.contains(name) && line.contains(brief)), "{listed}");
        server.home.ok(&["cancel", name]);
        assert_eq!(running.end().code, 3);
    }
}

#[test]
fn a_server_without_a_database_names_what_is_wrong() {
    let home = Home::empty();
    let empty = home.run(&["serve", "--store", ""]);
    assert!(empty.code == 2 && empty.stderr.contains("which database?"), "{empty:?}");
    let refused = home.run(&["serve", "--store", "postgres://postgres@127.0.0.1:1/lastword"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    for part in
        ["the database that --store or LASTWORD_STORE names", "Connection refused", "look at the address"]
    {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    assert!(!refused.stderr.contains("repeat the same call"), "{refused:?}");
}

#[test]
fn no_command_starts_a_server_and_none_stops_one_that_it_cannot_start() {
    let database = Database::start();
    let mut server = database.serve();
    let pid = server.home.daemon_pid();
    let refused = server.home.run(&["daemon", "restart"]);
    assert!(refused.code == 125 && refused.stderr.contains("is that of a server"), "{refused:?}");
    assert_eq!(server.home.daemon_pid(), pid);
    server.kill();
    let refused = server.home.run(&["ls"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    let (state, start) = (server.home.state(), "lastword serve    # starts it");
    let said = format!("lastword: the server of {} is not running\n  {start}\n", state.display());
    assert_eq!(refused.stderr, said);
}

#[test]
fn a_command_that_waits_outlives_a_restart_of_the_server() {
    let database = Database::start();
    let mut server = database.serve();
    let address = server.home.json(&["fleet"])["address"].as_str().unwrap().to_owned();
    let id = server.home.start("true");
    let waiting = server.home.spawn(&["wait", &id]);
    let events = server.home.spawn(&["events", "-f", &id]);
    events.until_printed("submitted");
    server.kill();
    server.start_again(&["serve", "--store", &database.url, "--listen", &address]);
    until("it answers", || (server.home.run(&["ls"]).code == 0).then_some(()));
    server.home.ok(&["cancel", &id]);
    assert_eq!((waiting.end().code, events.end().code), (3, 0));
}

#[test]
fn the_daemon_of_a_laptop_has_no_fleet() {
    let home = Home::empty();
    for words in [&["fleet"][..], &["fleet", "add", "ann"], &["fleet", "rm", "ann"]] {
        let output = home.run(words);
        assert_eq!(output.code, 125, "{output:?}");
        assert!(output.stderr.contains("what runs here is no server of a fleet"), "{output:?}");
        assert!(output.stderr.contains("lastword serve"), "{output:?}");
    }
}
