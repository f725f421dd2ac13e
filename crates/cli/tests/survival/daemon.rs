//! The daemon dies, is replaced, is started twice, and finds its socket changed.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::executable::lastword;
use crate::home::{Home, delete, is_alive, kill, parent, pids_in, signal, until};

/// Prints numbered lines until told to stop, then one more, and exits with 7.
fn counting(home: &Home) -> String {
    let (pids, go) = (home.path("pids"), home.path("go"));
    format!(
        "echo $$ > {pids}; i=0; while [ ! -e {go} ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo last $i; exit 7",
        pids = pids.display(),
        go = go.display()
    )
}

/// Checks that a job of [`counting`] was not disturbed: same process, every line once, its own exit status.
fn ends_undisturbed(home: &Home, job: &str, leader: i32) {
    assert_eq!(home.leader(job), leader, "the same process is running");
    std::fs::write(home.path("go"), "").unwrap();
    assert_eq!(home.run(&["wait", job]).code, 1, "it failed");
    assert!(!is_alive(leader));
    let shown = home.show(job);
    assert_eq!(shown["outcome"], "failed");
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "it was not started again: {shown}");
    assert_eq!(shown["attempts"][0]["exit"]["code"], 7, "{shown}");
    assert_eq!(shown["attempts"][0]["receipt"]["certain"], true, "{shown}");
    let lines: Vec<String> = home.ok(&["logs", job]).lines().map(str::to_owned).collect();
    let last = lines.len() - 1;
    let wanted: Vec<String> =
        (1..=last).map(|n| format!("line {n}")).chain([format!("last {last}")]).collect();
    assert_eq!(lines, wanted);
}

#[test]
fn c37_a_killed_daemon_does_not_affect_a_job() {
    let home = Home::new();
    let job = home.start(&counting(&home));
    let leader = pids_in(&home.path("pids"), 1)[0];
    for _ in 0..3 {
        let before = home.kill_daemon();
        assert!(is_alive(leader), "the job does not need the daemon");
        assert_eq!(home.show(&job)["phase"], "running");
        assert_ne!(home.daemon(), before);
    }
    ends_undisturbed(&home, &job, leader);
}

#[test]
fn c37_the_next_daemon_finds_a_job_whose_folder_was_deleted() {
    let home = Home::new();
    // Nothing but its pid is left to find it by.
    let job = home.start("echo kept; exec env -i /bin/sleep 100");
    let leader = home.leader(&job);
    until("its environment is empty", || {
        std::fs::read(format!("/proc/{leader}/environ")).is_ok_and(|environ| environ.is_empty())
    });
    delete(&home.state().join("jobs").join(&job));
    home.kill_daemon();
    assert_eq!(home.show(&job)["phase"], "running");
    assert_eq!(home.leader(&job), leader);
    home.ok(&["cancel", &job]);
    assert!(!is_alive(leader));
    let shown = home.show(&job);
    assert_eq!(shown["outcome"], "cancelled", "{shown}");
    let receipt = &shown["attempts"][0]["receipt"];
    assert_eq!((&receipt["certain"], &receipt["output"]["lost"]), (&true.into(), &true.into()), "{shown}");
}

#[test]
fn c37_an_upgraded_daemon_takes_over_running_jobs() {
    let mut home = Home::new();
    let job = home.start(&counting(&home));
    let leader = pids_in(&home.path("pids"), 1)[0];
    let before = home.daemon();
    let new = home.upgrade();
    home.ok(&["daemon", "restart"]);
    let daemon = home.daemon();
    assert_ne!(daemon, before);
    assert!(!is_alive(before));
    assert_eq!(std::fs::read_link(format!("/proc/{daemon}/exe")).unwrap(), new);
    ends_undisturbed(&home, &job, leader);
}

#[test]
fn a_stopped_daemon_leaves_its_jobs_running() {
    let home = Home::new();
    let job = home.start(&counting(&home));
    let leader = pids_in(&home.path("pids"), 1)[0];
    let daemon = home.daemon();
    home.ok(&["daemon", "stop"]);
    assert!(!is_alive(daemon) && is_alive(leader));
    ends_undisturbed(&home, &job, leader);
}

#[test]
fn c61_a_job_that_ended_without_a_daemon_is_shown_by_the_first_read() {
    let home = Home::new();
    home.ok(&["daemon", "start", "--set", "slots=3"]);
    let jobs: Vec<String> = (0..3).map(|_| home.start("sleep 100")).collect();
    let leaders: Vec<i32> = jobs.iter().map(|job| home.leader(job)).collect();
    let shims: Vec<i32> = leaders.iter().map(|leader| parent(*leader)).collect();
    home.kill_daemon();
    leaders.iter().for_each(|leader| kill(*leader));
    until("the trees are gone", || !leaders.iter().chain(&shims).any(|pid| is_alive(*pid)));
    // A list, a show and a wait, each as the first request.
    let listed = home.json(&["ls"]);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(0), "no job is live: {listed}");
    assert_eq!(home.show(&jobs[0])["phase"], "ended");
    assert_eq!(home.run(&["wait", &jobs[1]]).code, 1);
}

#[test]
fn c61_each_kind_of_read_shows_a_death_at_once() {
    let home = Home::new();
    // The tree dies and its keeper records it, or the keeper dies, too.
    for keeper_too in [false, true] {
        for read in ["show", "ls", "wait"] {
            let job = home.start("sleep 100");
            let leader = home.leader(&job);
            let shim = parent(leader);
            let guard = parent(shim);
            let dies = if keeper_too { vec![guard, shim, leader] } else { vec![leader] };
            dies.iter().for_each(|pid| kill(*pid));
            until("tree and keeper are gone", || ![leader, shim, guard].into_iter().any(is_alive));
            let outcome = if keeper_too { "lost" } else { "failed" };
            match read {
                "show" => assert_eq!(home.show(&job)["outcome"], outcome),
                "ls" => assert_eq!(home.json(&["ls"])["items"].as_array().map(Vec::len), Some(0)),
                _ => assert_eq!(home.run(&["wait", "--timeout=60s", &job]).code, 1),
            }
        }
    }
}

#[test]
fn c44_concurrent_starts_yield_one_daemon_and_lose_nothing() {
    let home = Home::new();
    let callers: Vec<_> = (0..12)
        .map(|n| {
            let mut command = home.command(&["run", "-d", "--", "sh", "-c", "exit 0"]);
            command.env("N", n.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let ids: Vec<String> = callers
        .into_iter()
        .map(|caller| {
            let output = caller.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        })
        .collect();
    for id in &ids {
        assert_eq!(home.run(&["wait", id]).code, 0);
    }
    let listed = home.json(&["ls", "-a"]);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(12));
    // One that lost the lock may still be exiting.
    until("one daemon is left", || {
        home.alive().into_values().filter(|command| command.contains("daemon run")).count() == 1
    });
}

#[test]
fn a_second_daemon_names_the_first_and_touches_nothing() {
    let home = Home::new();
    let job = home.start("sleep 100");
    let (daemon, leader) = (home.daemon(), home.leader(&job));
    let second = home.run(&["daemon", "run"]);
    assert_eq!(second.code, 125, "{}", second.err);
    assert!(second.err.contains(&daemon.to_string()), "it names the daemon: {}", second.err);
    assert_eq!((home.daemon(), home.leader(&job)), (daemon, leader));
}

#[test]
fn c60_a_stale_endpoint_is_replaced_by_the_next_command() {
    let home = Home::new();
    let job = home.start("sleep 100");
    let leader = home.leader(&job);
    let socket = home.state().join("lastword.sock");
    type Spoil = fn(&std::path::Path);
    let spoils: [(&str, Spoil); 4] = [
        ("left behind", |_| ()),
        ("removed", |socket| std::fs::remove_file(socket).unwrap()),
        ("a plain file", |socket| {
            std::fs::remove_file(socket).unwrap();
            std::fs::write(socket, "not a socket").unwrap();
        }),
        ("another process's", |socket| {
            std::fs::remove_file(socket).unwrap();
            drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
        }),
    ];
    for (what, spoil) in spoils {
        home.kill_daemon();
        spoil(&socket);
        assert_eq!(home.leader(&job), leader, "a socket that was {what}");
    }
}

#[test]
fn c60_a_removed_socket_is_recreated_by_its_daemon() {
    let home = Home::new();
    let job = home.start("sleep 100");
    let (daemon, leader) = (home.daemon(), home.leader(&job));
    std::fs::remove_file(home.state().join("lastword.sock")).unwrap();
    assert_eq!(home.leader(&job), leader);
    let now = home.daemon();
    let daemons = home.alive().into_iter().filter(|(_, command)| command.contains("daemon run")).count();
    assert_eq!(daemons, 1, "there is one daemon, the old {daemon} or a new one: {now}");
}

#[test]
fn a_daemon_outlives_the_terminal_it_was_started_from() {
    let home = Home::new();
    // `script` gives the command a terminal, and hangs up when the command exits.
    let lastword = lastword();
    let mut script = Command::new("script");
    script.args([
        "--quiet",
        "--return",
        "--command",
        &format!("{lastword} run -d -- sleep 100"),
        "/dev/null",
    ]);
    script.env("LASTWORD_HOME", home.state()).stdin(Stdio::null());
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let daemon = home.daemon();
    let job = home.leader("@last");
    assert!(is_alive(daemon) && is_alive(job));
    let session = rustix::process::getsid(rustix::process::Pid::from_raw(daemon)).unwrap();
    assert_eq!(session.as_raw_pid(), daemon, "it leads its own session");
    let log = std::fs::read_link(format!("/proc/{daemon}/fd/1")).unwrap();
    assert!(!log.starts_with("/dev/pts"), "it holds no terminal: {}", log.display());
}

/// Sets limits of another process, as any process of its user may outside of a job.
fn set_limit(pid: i32, limit: &str) {
    #[expect(clippy::disallowed_methods, reason = "the test plays another process of the user")]
    let status = Command::new("prlimit").args(["--pid", &pid.to_string(), limit]).status().unwrap();
    assert!(status.success(), "{limit}");
}

#[test]
fn c51_lowered_limits_of_daemon_and_nursery_are_raised_or_shown() {
    let home = Home::new();
    home.ok(&["daemon", "start"]);
    let daemon = home.daemon();
    for number in [Signal::XFSZ, Signal::XCPU] {
        signal(daemon, number);
    }
    set_limit(daemon, "--fsize=0:");
    until("its soft limit is raised again", || {
        let limits = std::fs::read_to_string(format!("/proc/{daemon}/limits")).unwrap();
        limits.lines().any(|line| line.starts_with("Max file size") && !line.contains(" 0 "))
    });
    let children = std::fs::read_to_string(format!("/proc/{daemon}/task/{daemon}/children")).unwrap();
    let nursery = children.split_ascii_whitespace().next().unwrap().parse().unwrap();
    set_limit(nursery, "--nofile=3:3");
    assert_eq!(home.ok(&["run", "--", "sh", "-c", "ulimit -n; echo hello"]).lines().last(), Some("hello"));
    assert!(!is_alive(nursery), "it was replaced");
    assert_eq!(home.json(&["daemon", "status"])["troubles"].as_array().map(Vec::len), Some(0));
    set_limit(daemon, "--msgqueue=0:0");
    until("it is shown", || {
        let troubles = home.json(&["daemon", "status"])["troubles"].to_string();
        troubles.contains("lowered the daemon's limits: msgqueue to 0")
            && troubles.contains("lastword daemon restart")
    });
    assert_eq!(home.daemon(), daemon);
    home.ok(&["daemon", "restart"]);
    assert_eq!(home.json(&["daemon", "status"])["troubles"].as_array().map(Vec::len), Some(0));
}
