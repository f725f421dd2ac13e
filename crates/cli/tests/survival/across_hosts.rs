//! Promises that two hosts keep together: a real server, two real workers, a real PostgreSQL. The hosts are state folders: each has an id of its own.
//!
//! A test in a module of this name shows a promise across hosts; `cargo xtask contract` asks for one of each promise that needs it.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use lastword_proof::pg::copy;
use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::{Fleet, LEASE, Member};
use crate::home::{Home, is_alive, kill, parent, pids_in, signal, until};

/// A worker in the fleet, as it is started.
const WORKER: [&str; 3] = ["worker", "--slots=4", LEASE];

/// A lease that outlasts a worker or a database that is started again.
const LONG_LEASE: &str = "--lease=15s";
const LONG_WORKER: [&str; 3] = ["worker", "--slots=4", LONG_LEASE];

/// Starts two servers and a worker at each: ann at the first, bob at the second.
fn two_of_each() -> (Fleet, [usize; 2], [usize; 2]) {
    two_of_each_with(LEASE)
}

fn two_of_each_with(lease: &str) -> (Fleet, [usize; 2], [usize; 2]) {
    let mut fleet = Fleet::new();
    let servers = [fleet.server(), fleet.server()];
    let ann = fleet.worker_with("ann", &servers[..1], &[lease]);
    let bob = fleet.worker_with("bob", &servers[1..], &[lease]);
    (fleet, servers, [ann, bob])
}

/// Starts a job on one worker that goes on until a file is there, and returns its id.
fn start_on(home: &Home, worker: &str, go: &Path, code: i32) -> String {
    let script =
        format!("echo on {worker}; while ! test -e {}; do sleep 0.01; done; exit {code}", go.display());
    home.start_with(&[&format!("--on={worker}")], &script)
}

/// Waits until a worker has renewed its lease.
fn until_renewed(home: &Home, worker: &str) {
    let mut before = 0;
    until("it has renewed its lease", || {
        let fleet: Value = serde_json::from_str(&home.ok(&["fleet", "--json"])).unwrap();
        let mut workers = fleet["workers"].as_array().unwrap().iter();
        let ago = workers.find(|known| known["name"] == worker).unwrap()["beat_ago_ms"].as_u64();
        ago.is_some_and(|ago| std::mem::replace(&mut before, ago) > ago)
    });
}

/// Waits for the end of a job, which must have `wait` exit with this code.
fn ends_with(home: &Home, job: &str, code: i32) {
    let waited = home.run(&["wait", job]);
    assert_eq!(waited.code, code, "{}{}{}", waited.out, waited.err, home.show(job));
}

/// Returns how often something is in the log of a job.
fn count(home: &Home, job: &str, kind: &str) -> usize {
    let events = home.ok(&["events", "--json", job]);
    let is_it = |line: &&str| serde_json::from_str::<Value>(line).unwrap()["type"] == kind;
    events.lines().filter(is_it).count()
}

#[test]
fn c2_c61_c63_a_request_at_one_server_reaches_the_worker_of_another_and_no_other_worker() {
    let (fleet, [one, other], _) = two_of_each();
    let (one, other) = (fleet.home(one), fleet.home(other));
    let go = one.path("go");
    let (of_ann, of_bob) = (start_on(one, "ann", &go, 0), start_on(one, "bob", &go, 0));
    let (ann, bob) = (one.leader(&of_ann), one.leader(&of_bob));
    // It waits at the server that the worker is not connected to.
    let waiting = other.command(&["wait", &of_ann]).spawn().unwrap();
    let cancelled = other.run(&["cancel", &of_ann]);
    assert_eq!(cancelled.code, 0, "{}{}", cancelled.out, cancelled.err);
    assert!(!is_alive(ann), "it was called dead");
    assert_eq!(waiting.wait_with_output().unwrap().status.code(), Some(3), "it was cancelled");
    // Each read by itself is enough, at either server.
    for home in [one, other] {
        assert_eq!(home.show(&of_ann)["outcome"], "cancelled");
        ends_with(home, &of_ann, 3);
    }
    assert!(is_alive(bob) && one.show(&of_bob)["phase"] == "running");
    std::fs::write(go, "").unwrap();
    ends_with(one, &of_bob, 0);
}

#[test]
fn c61_c63_a_wait_at_another_server_ends_with_the_lease_of_a_dead_worker() {
    let (mut fleet, [one, other], [ann, _]) = two_of_each();
    let go = fleet.home(one).path("go");
    let of_ann = start_on(fleet.home(one), "ann", &go, 0);
    let leader = fleet.home(one).leader(&of_ann);
    let mut waiting = fleet.home(other).command(&["wait", "--timeout=1h", &of_ann]).spawn().unwrap();
    fleet.members[ann].kill();
    let began = Instant::now();
    assert_eq!(waiting.wait().unwrap().code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}: a lease is 3 s", began.elapsed());
    assert!(!is_alive(leader));
    for home in [one, other].map(|server| fleet.home(server)) {
        assert_eq!(home.show(&of_ann)["outcome"], "lost");
        let listed = home.json(&["ls", "-a"]);
        assert_eq!(listed["items"][0]["outcome"], "lost", "{listed}");
    }
}

#[test]
fn c3_c42_what_the_database_does_not_take_is_no_success_at_any_server() {
    let (mut fleet, servers, _) = two_of_each_with(LONG_LEASE);
    let [ends, stays] = servers.map(|server| fleet.home(server).path("go"));
    let home = fleet.home(servers[0]);
    let (of_ann, of_bob) = (start_on(home, "ann", &ends, 4), start_on(home, "bob", &stays, 0));
    let leaders = [home.leader(&of_ann), home.leader(&of_bob)];

    // The job on ann ends while its last word cannot be stored. It is stored when that is possible, and is true.
    fleet.database.crash().unwrap();
    std::fs::write(&ends, "").unwrap();
    until("its leader has exited", || !is_alive(leaders[0]));
    fleet.database.restart().unwrap();
    let home = fleet.home(servers[1]);
    until("a server answers", || home.run(&["ls"]).code == 0);
    ends_with(home, &of_ann, 1);
    let shown = home.show(&of_ann);
    assert_eq!(shown["attempts"][0]["exit"]["code"], 4, "{shown}");
    assert_eq!(count(home, &of_ann, "last_word"), 1);
    assert!(is_alive(leaders[1]));

    // Requests that cannot be stored are refused, and leave nothing.
    fleet.database.crash().unwrap();
    let requests: [&[&str]; 2] = [&["cancel", "--no-wait", &of_bob], &["run", "-d", "--", "true"]];
    std::thread::scope(|scope| {
        for (server, request) in servers.into_iter().zip(requests) {
            let home = fleet.home(server);
            scope.spawn(move || {
                let refused = home.run(request);
                assert_eq!((refused.code, refused.out.as_str()), (125, ""), "{}", refused.err);
            });
        }
    });
    fleet.database.restart().unwrap();
    let home = fleet.home(servers[1]);
    until("a server answers", || home.run(&["ls"]).code == 0);
    let listed = home.json(&["ls", "-a"]);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "nothing was taken: {listed}");
    assert_eq!(count(home, &of_bob, "cancel_requested"), 0, "it was refused");
}

#[test]
fn c33_of_two_workers_that_want_a_job_one_gets_it_and_the_other_does_nothing() {
    const JOBS: usize = 24;
    let (fleet, [one, _], [ann, bob]) = two_of_each();
    let home = fleet.home(one);
    let ran = home.path("ran");
    let jobs: Vec<String> = (0..JOBS)
        .map(|_| home.start(&format!("echo $LASTWORD_JOB_ID >>{}; sleep 0.2", ran.display())))
        .collect();
    for job in &jobs {
        ends_with(home, job, 0);
        let shown = home.show(job);
        assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "{shown}");
    }
    let text = std::fs::read_to_string(&ran).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<&str> = jobs.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected, "each ran once");
    // A loser has not so much as a folder of it.
    let folders = [ann, bob].map(|worker| fleet.home(worker).state().join("jobs"));
    for job in &jobs {
        let hosts = folders.iter().filter(|folder| folder.join(job).exists()).count();
        assert_eq!(hosts, 1, "{job}");
    }
    let of = |folder: &Path| jobs.iter().filter(|job| folder.join(job).exists()).count();
    assert!(folders.iter().all(|folder| of(folder) > 0), "both took some");
}

#[test]
fn c34_c35_c102_a_worker_that_was_frozen_harms_nothing_of_the_one_that_has_its_job() {
    let mut fleet = Fleet::new();
    let server = fleet.server();
    let ann = fleet.worker("ann", &[server]);
    let home = fleet.home(server);
    let (pids, go) = (home.path("pids"), home.path("go"));
    let script =
        format!("echo $$ >>{}; while ! test -e {}; do sleep 0.01; done", pids.display(), go.display());
    let job = home.start_with(&["--retry=1", "--retry-when-lost", "--backoff=1ms"], &script);
    let first = pids_in(&pids, 1)[0];
    let bob = fleet.worker("bob", &[server]);
    let frozen = fleet.members[ann].process.id() as i32;
    signal(frozen, Signal::STOP);
    // The job begins on bob only when nothing of it lives on the host of ann.
    let home = fleet.home(server);
    until("its attempt has an end", || home.show(&job)["attempts"][0]["outcome"] == "lost");
    let second = pids_in(&pids, 2)[1];
    assert!(!is_alive(first), "two trees of one job");
    signal(frozen, Signal::CONT);
    let log = fleet.home(ann).state().join("daemon.log");
    until("ann learns that its lease is over", || {
        std::fs::read_to_string(&log).unwrap().contains("its lease ran out")
    });
    let home = fleet.home(server);
    // It has another life, and what it had is bob's.
    let next = home.start_with(&["--on=ann"], "exit 0");
    ends_with(home, &next, 0);
    let shown = home.show(&job);
    assert!(is_alive(second) && shown["phase"] == "running", "{shown}");
    assert_eq!(shown["attempts"][0]["receipt"]["proof"], "lease_self_fenced", "{shown}");
    assert!(fleet.home(bob).state().join("jobs").join(&job).exists());
    std::fs::write(go, "").unwrap();
    ends_with(home, &job, 0);
    assert_eq!((count(home, &job, "last_word"), pids_in(&pids, 2).len()), (1, 2));
}

#[test]
fn c36_a_record_a_lease_and_a_process_are_three_things() {
    let (mut fleet, [server, _], [_, bob]) = two_of_each_with(LONG_LEASE);
    let go = fleet.home(server).path("go");
    let home = fleet.home(server);
    let (of_ann, of_bob) = (start_on(home, "ann", &go, 0), start_on(home, "bob", &go, 6));
    let (on_ann, on_bob) = (home.leader(&of_ann), home.leader(&of_bob));
    // A record and a process, and no worker: that is no end.
    fleet.members[bob].kill();
    // A record and a lease, and no process: that is one, and it is not waited for a lease.
    let keepers = [parent(on_ann), parent(parent(on_ann))];
    let began = Instant::now();
    keepers.into_iter().chain([on_ann]).for_each(kill);
    let home = fleet.home(server);
    ends_with(home, &of_ann, 1);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}: the lease of ann goes on", began.elapsed());
    let shown = home.show(&of_ann);
    assert_eq!((&shown["outcome"], &shown["attempts"][0]["exit"]), (&"lost".into(), &Value::Null), "{shown}");
    assert_ne!(shown["attempts"][0]["receipt"]["proof"], "lease_self_fenced", "{shown}");
    assert!(is_alive(on_bob) && home.show(&of_bob)["phase"] == "running");
    fleet.start_again(bob, &LONG_WORKER);
    std::fs::write(go, "").unwrap();
    let home = fleet.home(server);
    ends_with(home, &of_bob, 1);
    assert_eq!(home.show(&of_bob)["attempts"][0]["exit"]["code"], 6);
}

#[test]
fn c37_c102_workers_that_are_killed_at_once_each_take_over_what_is_theirs() {
    let (mut fleet, [one, other], workers) = two_of_each_with(LONG_LEASE);
    let go = fleet.home(one).path("go");
    let jobs = [("ann", 7), ("bob", 8)].map(|(name, code)| start_on(fleet.home(one), name, &go, code));
    let leaders = jobs.each_ref().map(|job| fleet.home(one).leader(job));
    for worker in workers {
        fleet.members[worker].kill();
    }
    for worker in workers {
        fleet.start_again(worker, &LONG_WORKER);
    }
    // They are alive under the leases of the next lives, and neither server says otherwise.
    let began = Instant::now();
    until("the leases before are over", || began.elapsed() > Duration::from_secs(16));
    assert!(leaders.iter().all(|leader| is_alive(*leader)));
    for job in &jobs {
        assert_eq!(fleet.home(other).show(job)["phase"], "running");
    }
    std::fs::write(go, "").unwrap();
    for (job, (name, code)) in jobs.iter().zip([("ann", 7), ("bob", 8)]) {
        let home = fleet.home(other);
        ends_with(home, job, 1);
        let shown = home.show(job);
        assert_eq!(shown["attempts"][0]["exit"]["code"], code, "{shown}");
        assert_eq!(home.ok(&["logs", job]), format!("on {name}"), "with its output from before");
    }
}

#[test]
fn c38_a_worker_that_is_cut_off_has_no_tree_when_another_begins() {
    let (mut fleet, [one, other], _) = two_of_each();
    let home = fleet.home(other);
    let (beats, pids) = (home.path("beats"), home.path("pids"));
    // Which attempt lives is written all the time, by both trees into one file.
    let script = format!(
        "echo $$ >>{}; while ! test $(wc -l <{1}) -gt 400; do echo $LASTWORD_ATTEMPT >>{1}; sleep 0.02; done",
        pids.display(),
        beats.display()
    );
    std::fs::write(&beats, "").unwrap();
    // The only worker that can take it: bob is stopped for as long.
    let bob = fleet.members.len() - 1;
    fleet.members[bob].kill();
    let home = fleet.home(other);
    let job = home.start_with(&["--retry=1", "--retry-when-lost", "--backoff=1ms"], &script);
    let first = pids_in(&pids, 1)[0];
    fleet.start_again(bob, &WORKER);
    // The server of ann says nothing more, and does not close its connections.
    let silent = fleet.members[one].process.id() as i32;
    signal(silent, Signal::STOP);
    pids_in(&pids, 2);
    assert!(!is_alive(first), "two trees of one job");
    ends_with(fleet.home(other), &job, 0);
    let text = std::fs::read_to_string(&beats).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.is_sorted() && lines.first() == Some(&"1") && lines.last() == Some(&"2"), "{text}");
    let shown = fleet.home(other).show(&job);
    assert_eq!(shown["attempts"][0]["receipt"]["proof"], "lease_self_fenced", "{shown}");
    signal(silent, Signal::CONT);
}

#[test]
fn c39_what_was_asked_while_the_workers_were_away_is_done_once() {
    let (mut fleet, [one, other], workers) = two_of_each_with(LONG_LEASE);
    let (go, ran) = (fleet.home(one).path("go"), fleet.home(one).path("ran"));
    let of_ann = start_on(fleet.home(one), "ann", &go, 0);
    let of_bob = start_on(fleet.home(one), "bob", &go, 0);
    let leaders = [&of_ann, &of_bob].map(|job| fleet.home(one).leader(job));
    for worker in workers {
        fleet.members[worker].kill();
    }
    // One is asked to stop, another is submitted: neither has a worker.
    let asked = fleet.home(other).run(&["cancel", "--no-wait", &of_ann]);
    assert!(asked.out.contains("stopping"), "{}{}", asked.out, asked.err);
    let next = fleet.home(other).start(&format!("echo again >>{}", ran.display()));
    for worker in workers {
        fleet.start_again(worker, &LONG_WORKER);
    }
    let home = fleet.home(one);
    ends_with(home, &of_ann, 3);
    assert!(!is_alive(leaders[0]) && is_alive(leaders[1]));
    ends_with(home, &next, 0);
    let shown = home.show(&of_ann);
    assert_eq!(shown["attempts"][0]["receipt"]["certain"], true, "{shown}");
    assert_eq!((count(home, &of_ann, "cancel_requested"), count(home, &of_ann, "last_word")), (1, 1));
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "again\n");
    std::fs::write(go, "").unwrap();
    ends_with(home, &of_bob, 0);
}

#[test]
fn c101_no_success_is_answered_for_what_a_restored_database_lost() {
    let (mut fleet, servers, _) = two_of_each_with(LONG_LEASE);
    let go = fleet.home(servers[0]).path("go");
    let kept = start_on(fleet.home(servers[0]), "ann", &go, 5);
    let kept_leader = fleet.home(servers[0]).leader(&kept);
    let snapshot = fleet.database.data().with_extension("snapshot");
    fleet.database.crash().unwrap();
    copy(fleet.database.data(), &snapshot).unwrap();
    fleet.database.restart().unwrap();
    // Acknowledged, and claimed on the other host; then the files are put back.
    let lost = start_on(fleet.home(servers[0]), "bob", &go, 0);
    let lost_leader = fleet.home(servers[0]).leader(&lost);
    // The lease before the second crash is a whole one: on a busy disk each of them takes seconds.
    until_renewed(fleet.home(servers[0]), "ann");
    fleet.database.crash().unwrap();
    std::fs::remove_dir_all(fleet.database.data()).unwrap();
    std::fs::rename(&snapshot, fleet.database.data()).unwrap();
    fleet.database.restart().unwrap();

    for server in servers {
        let refused = fleet.home(server).run(&["cancel", "--no-wait", &lost]);
        assert_eq!((refused.code, refused.out.as_str()), (125, ""), "{}", refused.err);
    }
    until("its worker ends what the journal does not know", || !is_alive(lost_leader));
    // What is in the journal still counts: it was not called dead, and its end is true.
    assert!(is_alive(kept_leader));
    std::fs::write(go, "").unwrap();
    let home = fleet.home(servers[1]);
    ends_with(home, &kept, 1);
    let shown = home.show(&kept);
    assert_eq!(shown["attempts"][0]["exit"]["code"], 5, "{shown}");
    let next = home.start_with(&["--on=bob"], "exit 0");
    ends_with(home, &next, 0);
}

#[test]
fn c101_c102_a_clone_of_a_worker_on_another_host_gets_nothing_and_ends_nothing() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can give a process another boot id");
    }
    let (mut fleet, [one, other], [ann, _]) = two_of_each();
    let go = fleet.home(one).path("go");
    let job = start_on(fleet.home(one), "ann", &go, 3);
    let leader = fleet.home(one).leader(&job);
    let clone = Home::new();
    std::fs::remove_dir(clone.state()).unwrap();
    copy(&fleet.home(ann).state(), &clone.state()).unwrap();
    std::fs::remove_file(clone.state().join("lastword.sock")).unwrap();
    // Another host: it was booted at another time.
    let script = "cat /proc/sys/kernel/random/uuid >boot; mount --bind boot /proc/sys/kernel/random/boot_id
        exec $LASTWORD worker --slots=4 --lease=3s";
    let process = clone.shell_apart(script).stderr(Stdio::null()).spawn().unwrap();
    fleet.members.push(Member { home: clone, process });
    let log = fleet.members.last().unwrap().home.state().join("daemon.log");
    until("it was told that its name is in use", || {
        std::fs::read_to_string(&log).unwrap().contains("another host")
    });
    let began = Instant::now();
    until("a lease has passed", || began.elapsed() > Duration::from_secs(4));
    let home = fleet.home(other);
    let shown = home.show(&job);
    assert!(is_alive(leader) && shown["phase"] == "running", "{shown}");
    let jobs = fleet.members.last().unwrap().home.state().join("jobs");
    let next = home.start_with(&["--on=ann"], "exit 0");
    ends_with(home, &next, 0);
    assert!(!jobs.join(&next).exists(), "the clone ran it");
    std::fs::write(go, "").unwrap();
    ends_with(home, &job, 1);
    assert_eq!(home.show(&job)["attempts"][0]["exit"]["code"], 3);
}
