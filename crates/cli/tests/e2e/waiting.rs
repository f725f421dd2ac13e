//! `wait` and `attach`.

use rustix::process::Signal;

use crate::home::{Home, is_alive, until};
use crate::plain::plain;

#[test]
fn the_exit_code_of_wait_reflects_the_outcome() {
    let home = Home::new();
    let completed = home.start("exit 0");
    let failed = home.start("exit 7");
    let timed_out = home.ok(&["run", "-d", "--wall", "100ms", "sleep", "100"]);
    let cancelled = home.start("sleep 100");
    home.until_phase(&cancelled, "running");
    home.ok(&["cancel", &cancelled]);
    for (id, code) in [(&completed, 0), (&failed, 1), (&timed_out, 1), (&cancelled, 3)] {
        assert_eq!(home.run(&["wait", id]).code, code);
    }
    let output = home.run(&["wait", &completed, &failed, &timed_out, &cancelled]);
    assert_eq!(output.code, 1, "the most severe counts");
    insta::assert_snapshot!("wait_many", plain(&home, &output.stdout));
    assert_eq!(home.run(&["wait", &completed, &cancelled]).code, 3);
    assert_eq!(home.run(&["wait", "-q", &failed]).stdout, "");
}

#[test]
fn wait_has_a_timeout_and_can_wait_for_the_first() {
    let home = Home::new();
    let (slow, quick) = (home.start("sleep 100"), home.start("sleep 0.2"));
    let output = home.run(&["wait", "--timeout", "100ms", &slow]);
    assert_eq!(output.code, 124, "{output:?}");
    assert!(output.stdout.contains("still "), "{output:?}");
    let output = home.run(&["wait", "--any", &slow, &quick]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stdout.lines().count(), 1, "only the one that ended: {output:?}");
    assert_eq!(home.run(&["wait", "--timeout", "100ms", &quick, &slow]).code, 124);
}

#[test]
fn c63_wait_returns_promptly_when_the_keepers_die() {
    let home = Home::new();
    let id = home.start("sleep 100");
    let job = home.until_phase(&id, "running");
    let waiting = home.spawn(&["wait", &id]);
    let leader = i32::try_from(job["attempts"][0]["pid"].as_i64().unwrap()).unwrap();
    let parent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse::<i32>().unwrap()
    };
    let (shim, guard) = (parent(leader), parent(parent(leader)));
    for pid in [guard, shim] {
        crate::home::signal(pid, Signal::KILL);
    }
    let begin = std::time::Instant::now();
    assert_eq!(waiting.end().code, 1);
    assert!(begin.elapsed() < std::time::Duration::from_secs(10), "not at the timeout of the wait");
}

#[test]
fn attach_shows_the_last_lines_and_follows() {
    let home = Home::new();
    let go = home.path().join("go");
    let script =
        format!("seq 1 50; while [ ! -e {} ]; do sleep 0.01; done; echo after; exit 6", go.display());
    let id = home.start(&script);
    crate::home::until("it wrote", || home.ok(&["logs", &id]).ends_with("50").then_some(()));
    let attached = home.spawn(&["attach", &id, "-n", "2"]);
    attached.until_printed("50");
    std::fs::write(&go, "").unwrap();
    let output = attached.end();
    assert_eq!((output.code, output.stdout.as_str()), (6, "49\n50\nafter\n"), "{output:?}");
    let output = home.run(&["attach", &id, "-n", "1"]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (6, "after\n"),
        "the last lines of an ended job are shown: {output:?}"
    );
}

#[test]
fn attach_forwards_input_and_detaches() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "-i", "sh", "-c", "echo $$; read line; echo got $line; exit 5"]);
    let pid = home.pids_of(&id, 1)[0];
    let attached = home.spawn(&["attach", &id]);
    attached.until_printed(&pid.to_string());
    attached.signal(Signal::INT);
    let output = attached.end();
    assert_eq!(output.code, 130, "{output:?}");
    assert!(is_alive(pid));
    let mut attached = home.spawn(&["attach", "-i", &id]);
    attached.write("hello there\n");
    let output = attached.end();
    assert_eq!(output.code, 5, "{output:?}");
    assert!(output.stdout.ends_with("got hello there\n"), "{output:?}");
}

#[test]
fn c63_wait_survives_many_daemon_crashes() {
    let home = Home::new();
    let go = home.path().join("go");
    let (job, pids) = home.start_with_pids(
        &format!("echo $$; while [ ! -e {} ]; do sleep 0.05; done; exit 7", go.display()),
        1,
    );
    let waiting = home.spawn(&["wait", &job]);
    for _ in 0..8 {
        // Each daemon has had the request for a while, so the request did not crash it.
        let pid = home.daemon_pid();
        let asked = std::time::Instant::now();
        until("it has had the request for a while", || (asked.elapsed().as_millis() > 400).then_some(()));
        home.kill_daemon();
        until("another daemon is running", || {
            let listed = home.run(&["ls"]);
            (listed.code == 0 && home.daemon_pid() != pid).then_some(())
        });
        home.until_renewed();
    }
    assert!(is_alive(pids[0]));
    std::fs::write(go, "").unwrap();
    let output = waiting.end();
    assert_eq!((output.code, output.stderr.contains("went away")), (1, false), "{output:?}");
    assert!(!is_alive(pids[0]));
}

/// A list and `show` say by name what a queued job waits for.
#[test]
fn a_queued_job_says_what_it_waits_for_by_name() {
    let home = Home::new();
    home.ok(&["run", "-d", "--name", "train", "--group", "gpu", "sleep", "100"]);
    home.until_phase_of_name("train", "running");
    home.ok(&["run", "-d", "--name", "next", "--group", "gpu", "true"]);
    home.ok(&["run", "-d", "--name", "report", "--after", "train", "true"]);
    home.ok(&["run", "-d", "--name", "both", "--after", "train", "--after", "next:any", "true"]);
    let listed = home.ok(&["ls"]);
    let state = |name: &str| {
        let line = listed.lines().find(|line| line.contains(&format!("  {name}  "))).expect(name);
        line.split("  ").find(|cell| cell.starts_with("queued")).expect("it is queued").to_owned()
    };
    assert_eq!(state("next"), "queued, slot of gpu", "{listed}");
    assert_eq!(state("report"), "queued, after train", "{listed}");
    assert_eq!(state("both"), "queued, after train…", "{listed}");
    let short = home.json(&["show", "train"])["short"].as_str().unwrap().to_owned();
    let shown = home.ok(&["show", "next"]);
    let said = format!("waiting for the slot of its group: train ({short}) has it");
    assert!(shown.contains(&said), "{shown}");
    assert!(home.ok(&["show", "report"]).contains(&format!("waiting for train ({short})")));
    home.ok(&["group", "pause", "gpu"]);
    home.ok(&["kill", "train"]);
    let paused = home.ok(&["ls"]);
    assert!(paused.contains("queued, gpu is paused"), "{paused}");
}

#[test]
fn a_group_that_lost_slots_names_every_job_that_must_end() {
    let home = Home::new();
    home.ok(&["group", "set", "gpu", "--slots", "2"]);
    for name in ["one", "two"] {
        home.ok(&["run", "-d", "--name", name, "--group", "gpu", "sleep", "100"]);
        home.until_phase_of_name(name, "running");
    }
    home.ok(&["group", "set", "gpu", "--slots", "1"]);
    home.ok(&["run", "-d", "--name", "next", "--group", "gpu", "true"]);
    let shown = home.ok(&["show", "next"]);
    assert!(
        shown.contains("one (") && shown.contains("two (") && shown.contains("must end first"),
        "{shown}"
    );
}

#[test]
fn a_running_job_says_since_when_it_is_silent() {
    let home = Home::new();
    let (id, _) = home.start_with_pids("echo $$; exec sleep 100", 1);
    let job = home.json(&["show", &id]);
    let recording = home.jobs().join(job["id"].as_str().unwrap()).join("1/stdout");
    let written = std::fs::metadata(recording).unwrap().modified().unwrap();
    let written: jiff::Timestamp = written.try_into().unwrap();
    let since: jiff::Timestamp = job["silent_since"].as_str().unwrap().parse().unwrap();
    let started: jiff::Timestamp = job["started_at"].as_str().unwrap().parse().unwrap();
    assert!(since >= started && since.as_millisecond() >= written.as_millisecond(), "{job}");
    assert_eq!(home.json(&["ls"])["items"][0]["silent_since"], job["silent_since"]);
    home.ok(&["kill", &id]);
    assert!(home.json(&["show", &id])["silent_since"].is_null());
}

#[test]
fn a_job_waits_for_a_worker_with_its_labels() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--name", "train", "--on", "x64", "--on", "gpu", "true"]);
    let job = home.json(&["show", &id]);
    assert_eq!(job["on"], serde_json::json!(["gpu", "x64"]));
    assert_eq!(job["waits"]["for"], "worker");
    let shown = home.ok(&["show", "train"]);
    assert!(shown.contains("needs a worker with gpu, x64"), "{shown}");
    assert!(shown.contains("on        gpu x64"), "{shown}");
    let listed = home.ok(&["ls"]);
    assert!(listed.contains("worker with gpu, x64"), "{listed}");
    // Jobs behind it that any worker can run are not held up.
    assert_eq!(home.run(&["run", "true"]).code, 0);
    let refused = home.run(&["run", "-d", "--on", "a b", "true"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("a label of its worker must be"), "{refused:?}");
    home.ok(&["cancel", "train"]);
}
