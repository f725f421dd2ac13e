//! A fleet when things go wrong: servers and workers as processes of their own, on a real PostgreSQL. The hosts are state folders: each has
//! an id of its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use lastword_proof::pg::{Server, Settings};

use crate::home::{Home, is_alive, pids_in, until};

/// The lease of workers here.
pub(crate) const LEASE: &str = "--lease=3s";

/// A fleet on this machine.
pub(crate) struct Fleet {
    /// Servers, workers and the database end in this order.
    pub(crate) members: Vec<Member>,
    pub(crate) url: String,
    pub(crate) database: Server,
}

/// A process of the fleet, in its folder.
pub(crate) struct Member {
    pub(crate) home: Home,
    pub(crate) process: Child,
}

impl Member {
    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Fleet {
    /// Starts a database.
    pub(crate) fn new() -> Fleet {
        let database = Server::start(Settings::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let url = database.url(&runtime.block_on(database.database()));
        Fleet { members: Vec::new(), url, database }
    }

    /// Starts a member of the fleet in a folder, and returns its place. Waits until it listens.
    pub(crate) fn start(&mut self, home: Home, arguments: &[&str]) -> usize {
        let process = home.command(arguments).stderr(Stdio::null()).spawn().unwrap();
        until("it listens", || home.state().join("lastword.sock").exists());
        self.members.push(Member { home, process });
        self.members.len() - 1
    }

    /// Starts a server.
    pub(crate) fn server(&mut self) -> usize {
        let store = format!("--store={}", self.url);
        // Its renewals gather for a fifteenth of its lease, so that is the one of the workers.
        self.start(Home::new(), &["serve", &store, "--listen=127.0.0.1:0", LEASE])
    }

    /// Starts a worker that is enrolled at these servers.
    pub(crate) fn worker(&mut self, name: &str, servers: &[usize]) -> usize {
        self.worker_with(name, servers, &[LEASE])
    }

    pub(crate) fn worker_with(&mut self, name: &str, servers: &[usize], flags: &[&str]) -> usize {
        self.worker_in(Home::new(), name, servers, flags)
    }

    fn worker_in(&mut self, home: Home, name: &str, servers: &[usize], flags: &[&str]) -> usize {
        // Other users may pass through it, as through a folder of a service.
        std::fs::set_permissions(home.path(""), std::fs::Permissions::from_mode(0o711)).unwrap();
        let line = self.home(servers[0]).ok(&["fleet", "add", name, "--label", name]);
        home.ok(&line.split_whitespace().skip(1).collect::<Vec<_>>());
        for server in &servers[1..] {
            let [address, fingerprint] = self.address(*server);
            home.ok(&["worker", "enroll", "--server", &address, "--fingerprint", &fingerprint]);
        }
        self.start(home, &[&["worker", "--slots=4"], flags].concat())
    }

    /// Returns the address of a server, and its fingerprint.
    pub(crate) fn address(&self, server: usize) -> [String; 2] {
        let fleet = self.home(server).json(&["fleet"]);
        ["address", "fingerprint"].map(|field| fleet[field].as_str().unwrap().to_owned())
    }

    /// Starts the process of a member again, in its folder.
    pub(crate) fn start_again(&mut self, member: usize, arguments: &[&str]) {
        let Member { home, process } = &mut self.members[member];
        let _ = std::fs::remove_file(home.state().join("lastword.sock"));
        *process = home.command(arguments).stderr(Stdio::null()).spawn().unwrap();
        until("it listens", || home.state().join("lastword.sock").exists());
    }

    pub(crate) fn home(&self, member: usize) -> &Home {
        &self.members[member].home
    }
}

#[test]
fn c42_c61_c63_a_job_of_one_server_is_waited_for_and_cancelled_through_another() {
    let mut fleet = Fleet::new();
    let (one, other) = (fleet.server(), fleet.server());
    fleet.worker("ann", &[one]);
    let (one, other) = (fleet.home(one), fleet.home(other));
    let pids = one.path("pids");
    let job = one.start(&format!("sleep 100 & echo $! >>{0}; echo $$ >>{0}; wait", pids.display()));
    let tree = pids_in(&pids, 2);
    let follower = other.start_with(&[&format!("--after={job}:any")], "exit 5");
    let cancelled = other.run(&["cancel", &job]);
    assert_eq!(cancelled.code, 0, "{}{}", cancelled.out, cancelled.err);
    assert!(tree.iter().all(|pid| !is_alive(*pid)), "it was called dead");
    let shown = one.show(&job);
    assert_eq!(shown["outcome"], "cancelled", "{shown}");
    assert_eq!(shown["attempts"][0]["receipt"]["certain"], true, "{shown}");
    assert_eq!(one.run(&["wait", &follower]).code, 1, "its dependency ended on another server");
}

#[test]
fn c37_c102_a_worker_that_is_killed_and_started_again_keeps_its_jobs() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    let worker = fleet.worker("ann", &[server]);
    let go = fleet.home(server).path("go");
    let job =
        fleet.home(server).start(&format!("while ! test -e {}; do sleep 0.01; done; exit 4", go.display()));
    let leader = fleet.home(server).leader(&job);
    fleet.members[worker].kill();
    fleet.start_again(worker, &["worker", "--slots=4", LEASE]);
    // It is alive under the lease of the next life.
    let beat = std::time::Instant::now();
    until("the lease before is over", || beat.elapsed() > std::time::Duration::from_secs(3));
    assert!(is_alive(leader));
    std::fs::write(go, "").unwrap();
    let home = fleet.home(server);
    assert_eq!(home.run(&["wait", &job]).code, 1);
    let shown = home.show(&job);
    assert_eq!(
        (&shown["attempts"][0]["exit"]["code"], &shown["attempts"][1]),
        (&4.into(), &serde_json::Value::Null)
    );
}

/// A job that waits, on a worker whose disk can be filled.
struct OnSmallDisk {
    fleet: Fleet,
    server: usize,
    worker: usize,
    go: PathBuf,
    job: String,
    leader: i32,
}

impl OnSmallDisk {
    /// Starts it. `None` without root.
    fn start(lease: &str) -> Option<OnSmallDisk> {
        let Some(disk) = Home::on_small_disk(8 << 20) else {
            println!("skipped: only root can mount a file system");
            return None;
        };
        let mut fleet = Fleet::new();
        let server = fleet.server();
        let worker = fleet.worker_in(disk, "ann", &[server], &[lease]);
        let home = fleet.home(server);
        let go = home.path("go");
        let job = home.start(&format!("while ! test -e {}; do sleep 0.01; done; exit 4", go.display()));
        let leader = home.leader(&job);
        Some(OnSmallDisk { fleet, server, worker, go, job, leader })
    }

    /// Fills the disk, and returns the file that does.
    fn fill(&self) -> PathBuf {
        let ballast = self.fleet.home(self.worker).state().join("ballast");
        let filled = std::fs::write(&ballast, vec![1; 9 << 20]);
        assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        ballast
    }

    /// Lets the job end, which its first attempt does as it was told.
    fn ends(&self) {
        std::fs::write(&self.go, "").unwrap();
        let home = self.fleet.home(self.server);
        assert_eq!(home.run(&["wait", &self.job]).code, 1);
        let shown = home.show(&self.job);
        assert_eq!(shown["attempts"][0]["exit"]["code"], 4, "{shown}");
    }
}

#[test]
fn c37_a_worker_that_is_started_again_on_a_full_disk_keeps_its_jobs() {
    const LEASE: &str = "--lease=15s";
    let Some(mut on) = OnSmallDisk::start(LEASE) else { return };
    let (worker, leader) = (on.worker, on.leader);
    on.fleet.members[worker].kill();
    let ballast = on.fill();
    let log = on.fleet.home(worker).state().join("daemon.log");
    let log_before = std::fs::read_to_string(&log).unwrap().len();
    on.fleet.start_again(worker, &["worker", "--slots=4", LEASE]);
    // It cannot write a lease of its own. That of the life before goes on.
    let began = std::time::Instant::now();
    until("it had time to adopt the job", || began.elapsed() > std::time::Duration::from_secs(2));
    assert!(is_alive(leader), "{}", &std::fs::read_to_string(&log).unwrap()[log_before..]);
    std::fs::remove_file(ballast).unwrap();
    // It is alive under the lease of the next life.
    until("the lease before is over", || began.elapsed() > std::time::Duration::from_secs(16));
    assert!(is_alive(leader));
    on.ends();
}

#[test]
fn c37_a_worker_whose_disk_is_full_for_longer_than_its_lease_keeps_its_jobs() {
    let Some(on) = OnSmallDisk::start(LEASE) else { return };
    let ballast = on.fill();
    let began = std::time::Instant::now();
    until("its lease would be over", || began.elapsed() > std::time::Duration::from_secs(7));
    assert!(is_alive(on.leader));
    std::fs::remove_file(ballast).unwrap();
    on.ends();
}

#[test]
fn c38_the_job_of_a_worker_that_is_gone_is_ended_and_runs_on_another() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    let worker = fleet.worker("bob", &[server]);
    let job = fleet.home(server).start_with(
        &["--on=bob", "--retry=1", "--retry-when-lost", "--backoff=1ms"],
        "echo $$; test $LASTWORD_ATTEMPT = 2 || sleep 100",
    );
    let leader = fleet.home(server).leader(&job);
    fleet.members[worker].kill();
    until("its keeper has ended it", || !is_alive(leader));
    let home = fleet.home(server);
    until("the server knows", || home.show(&job)["phase"] == "backoff");
    let proof = home.show(&job)["attempts"][0]["receipt"]["proof"].clone();
    assert_eq!(proof, "lease_self_fenced");
    fleet.start_again(worker, &["worker", "--slots=4", LEASE]);
    assert_eq!(fleet.home(server).run(&["wait", &job]).code, 0);
}

#[test]
fn a_server_that_is_killed_loses_nothing_and_a_worker_goes_to_another() {
    let mut fleet = Fleet::new();
    let (one, other) = (fleet.server(), fleet.server());
    fleet.worker("ann", &[one, other]);
    let job = fleet.home(one).start("sleep 100");
    let leader = fleet.home(one).leader(&job);
    let [address, _] = fleet.address(one);
    fleet.members[one].kill();
    let home = fleet.home(other);
    let next = home.start("exit 0");
    assert_eq!(home.run(&["wait", &next]).code, 0);
    assert!(is_alive(leader));
    assert_eq!(home.run(&["cancel", &job]).code, 0);
    assert!(!is_alive(leader));
    // Both servers at once, and the worker finds the first one again.
    fleet.members[other].kill();
    let store = format!("--store={}", fleet.url);
    fleet.start_again(one, &["serve", &store, &format!("--listen={address}"), LEASE]);
    let last = fleet.home(one).start("exit 0");
    assert_eq!(fleet.home(one).run(&["wait", &last]).code, 0);
}

#[test]
fn a_worker_that_is_drained_ends_with_its_last_job() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    let worker = fleet.worker("ann", &[server]);
    let (home, ann) = (fleet.home(server), fleet.home(worker));
    let go = home.path("go");
    let job = home.start(&format!("while ! test -e {}; do sleep 0.01; done", go.display()));
    home.leader(&job);
    let mut drain = ann.command(&["worker", "drain"]).spawn().unwrap();
    let log = ann.state().join("daemon.log");
    until("it is being drained", || std::fs::read_to_string(&log).unwrap().contains("asked to stop"));
    let next = home.start("exit 0");
    std::fs::write(go, "").unwrap();
    assert_eq!(home.run(&["wait", &job]).code, 0);
    assert!(drain.wait().unwrap().success());
    assert_eq!(home.show(&next)["phase"], "queued", "it took no more");
    until("its life is over", || home.json(&["fleet"])["workers"][0]["state"] != "connected");
    fleet.start_again(worker, &["worker", "--slots=4", LEASE]);
    assert_eq!(fleet.home(server).run(&["wait", &next]).code, 0);
}

#[test]
fn a_job_gets_the_variables_it_names_and_a_folder_of_its_own() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    fleet.worker("ann", &[server]);
    let home = fleet.home(server);
    let seen = home.path("seen");
    let job = home.start(&format!("env >{}; pwd >>{0}; ls -A >>{0}", seen.display()));
    assert_eq!(home.run(&["wait", &job]).code, 0);
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.contains("PATH=") && !seen.contains("LASTWORD_HOME="), "{seen}");
    assert!(seen.lines().last().unwrap().ends_with(&format!("{job}/work")), "{seen}");
    let refused = home.start_with(&["--env=NOT_SET_THERE"], "true");
    assert_eq!(home.run(&["wait", &refused]).code, 1);
    assert!(home.ok(&["show", &refused]).contains("NOT_SET_THERE"));
    let named = home.start_with(&["-C", "/"], "test $PWD = /");
    assert_eq!(home.run(&["wait", &named]).code, 0);
}

#[test]
fn output_is_read_through_a_server_to_which_its_worker_is_not_connected() {
    let mut fleet = Fleet::new();
    let (one, other) = (fleet.server(), fleet.server());
    let worker = fleet.worker("ann", &[one]);
    let go = fleet.home(one).path("go");
    let job = fleet
        .home(other)
        .start(&format!("echo one; while ! test -e {}; do sleep 0.01; done; echo two", go.display()));
    let mut follower =
        fleet.home(other).command(&["logs", "-f", &job]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    std::fs::write(go, "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "two");
    assert!(follower.wait().unwrap().success());
    // Its server is away: no output is called empty.
    fleet.members[one].kill();
    let refused = fleet.home(other).run(&["logs", &job]);
    assert!(refused.code != 0 && refused.err.contains("ann"), "{}{}", refused.out, refused.err);
    // It comes back at another address.
    let store = format!("--store={}", fleet.url);
    fleet.start_again(one, &["serve", &store, "--listen=127.0.0.1:0", LEASE]);
    let [address, fingerprint] = fleet.address(one);
    fleet.members[worker].kill();
    fleet.home(worker).ok(&["worker", "enroll", "--server", &address, "--fingerprint", &fingerprint]);
    fleet.start_again(worker, &["worker", "--slots=4", LEASE]);
    until("it is read again", || fleet.home(other).run(&["logs", &job]).out == "one\ntwo\n");
}

#[test]
fn files_of_a_removed_job_are_removed_where_it_ran_also_by_a_worker_that_was_away() {
    let mut fleet = Fleet::new();
    let (one, other) = (fleet.server(), fleet.server());
    let worker = fleet.worker("ann", &[one]);
    let jobs = [(), ()].map(|()| fleet.home(one).start("echo secret"));
    for job in &jobs {
        assert_eq!(fleet.home(one).run(&["wait", job]).code, 0);
    }
    let folders = jobs.each_ref().map(|job| fleet.home(worker).state().join("jobs").join(job));
    assert!(folders.iter().all(|folder| folder.exists()));
    fleet.home(one).ok(&["rm", &jobs[0]]);
    until("its worker removed it", || !folders[0].exists());
    assert!(folders[1].exists());
    fleet.members[worker].kill();
    fleet.home(other).ok(&["rm", &jobs[1]]);
    assert!(folders[1].exists(), "its host is away");
    fleet.start_again(worker, &["worker", "--slots=4", LEASE]);
    until("its worker removed it when it was back", || !folders[1].exists());
}

#[test]
fn jobs_of_another_user_cannot_read_the_token_of_their_worker() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can start a job as another user");
    }
    let mut fleet = Fleet::new();
    let server = fleet.server();
    let worker = fleet.worker_with("ann", &[server], &[LEASE, "--job-user=nobody"]);
    let enrolment = fleet.home(worker).state().join("enrolment.json");
    let home = fleet.home(server);
    let job = home.start(&format!(
        "id -un; echo $USER; touch mine && pwd; cat {0} && exit 9; kill -0 {1} && exit 8; sleep 100 & exit 0",
        enrolment.display(),
        fleet.members[worker].process.id()
    ));
    assert_eq!(home.run(&["wait", &job]).code, 0, "{}", home.ok(&["logs", &job]));
    let seen = home.ok(&["logs", &job]);
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[..2], ["nobody", "nobody"], "{seen}");
    assert!(lines[2].ends_with(&job), "{seen}");
    let shown = home.show(&job);
    assert_eq!(shown["attempts"][0]["receipt"]["certain"], true, "{shown}");
    let unknown = fleet.home(worker).run(&["worker", "--job-user=no-such-user"]);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
}

#[test]
fn the_folder_of_a_server_or_a_worker_is_not_that_of_a_daemon() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    fleet.members[server].kill();
    let refused = fleet.home(server).run(&["ls"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("lastword serve"), "{}", refused.err);
    let laptop = Home::new();
    laptop.ok(&["run", "--", "true"]);
    laptop.ok(&["daemon", "stop"]);
    let refused = laptop.run(&["serve", &format!("--store={}", fleet.url)]);
    assert!(refused.code != 0 && refused.err.contains("LASTWORD_HOME"), "{}", refused.err);
}

/// An agent keeps its session in files, so its conversation goes on where these are, and waits for that worker if it is away.
#[test]
fn c92_a_conversation_continues_on_the_worker_that_holds_it() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_agent.py");
    let known = format!("[echo]\ndialect = 'acp'\ncommand = ['python3', '{script}']\n");
    std::fs::write(fleet.home(server).state().join("agents.toml"), known).unwrap();
    let first = fleet.worker("ann", &[server]);
    fleet.home(server).ok(&["run", "--agent", "echo", "--name", "docs", "hello"]);
    let second = fleet.worker("bob", &[server]);
    let newest = |fleet: &Fleet| fleet.home(server).json(&["show", "docs"]);
    let host = |job: &serde_json::Value| job["attempts"][0]["host"].as_str().map(str::to_owned);
    let of_ann = host(&newest(&fleet));
    assert!(of_ann.is_some());
    for turn in 2..6 {
        fleet.home(server).ok(&["send", "docs", "more"]);
        fleet.home(server).ok(&["wait", "docs"]);
        let job = newest(&fleet);
        assert_eq!((host(&job), &job["conversation"]["number"]), (of_ann.clone(), &turn.into()));
    }
    fleet.members[first].kill();
    fleet.home(server).ok(&["send", "docs", "and again"]);
    let shown = fleet.home(server).ok(&["show", "docs"]);
    assert!(shown.contains("waiting for worker ann"), "{shown}");
    until("the server notices", || {
        fleet.home(server).ok(&["fleet"]).contains("1 job waiting for worker ann, which is not connected")
    });
    assert_eq!(newest(&fleet)["phase"], "queued", "the other worker is there and has room");
    fleet.start_again(first, &["worker", "--slots=4", LEASE]);
    fleet.home(server).ok(&["wait", "docs"]);
    assert_eq!(host(&newest(&fleet)), of_ann);
    assert!(is_alive(fleet.members[second].process.id() as i32));
}
