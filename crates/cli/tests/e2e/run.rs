//! `run`: forwarding, exit codes, detaching.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::Signal;

use crate::home::{Home, is_alive, run_command, signal, until};

#[test]
fn run_exits_with_the_exit_code_of_the_job() {
    let home = Home::new();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
    ] {
        assert_eq!(home.run(&["run", "sh", "-c", script]).code, code, "{script}");
    }
}

#[test]
fn a_missing_command_is_distinguished_from_one_that_cannot_be_executed() {
    let home = Home::new();
    let plain = home.work().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let output = home.run(&["run", "./no-such-command"]);
    assert_eq!(output.code, 127, "{output:?}");
    assert!(output.stderr.contains("no-such-command"), "{output:?}");
    let output = home.run(&["run", "no-such-command"]);
    assert_eq!(output.code, 127);
    assert!(!output.stderr.contains("sh -c"), "{output:?}");
    let output = home.run(&["run", "sleep 1 && echo done"]);
    assert_eq!(output.code, 127);
    assert!(output.stderr.contains("lastword run -- sh -c 'COMMAND'"), "{output:?}");
    assert_eq!(home.run(&["run", "./plain"]).code, 126);
    assert_eq!(home.run(&["run", "/"]).code, 126);
}

#[test]
fn limits_stop_a_job_and_are_reported() {
    let home = Home::new();
    for (flag, value, script, code, word) in [
        ("--wall", "300ms", "sleep 100", 124, "wall-clock limit"),
        ("--stall", "300ms", "sleep 100", 124, "timed out without output"),
        ("--output-max", "1K", "while :; do echo xxxxxxxxxxxxxxxxxxxx; done", 1, "over budget output"),
    ] {
        let output = home.run(&["run", flag, value, "--grace", "100ms", "sh", "-c", script]);
        assert_eq!(output.code, code, "{flag}: {output:?}");
        assert!(output.stderr.contains(word), "{flag}: {output:?}");
        let job = home.json(&["show", "@last"]);
        let pid = i32::try_from(job["attempts"][0]["pid"].as_i64().unwrap()).unwrap();
        assert!(!is_alive(pid), "{flag}");
    }
}

#[test]
fn a_cancelled_job_exits_with_3() {
    let home = Home::new();
    let running = home.spawn(&["run", "--name", "long", "sleep", "100"]);
    home.until_phase_of_name("long", "running");
    home.ok(&["cancel", "long"]);
    let output = running.end();
    assert_eq!(output.code, 3, "{output:?}");
    assert!(
        output.stderr.contains("long (") && output.stderr.contains("cancelled while running"),
        "{output:?}"
    );
}

#[test]
fn a_job_whose_keepers_were_killed_is_lost_and_exits_with_1() {
    let home = Home::new();
    let running = home.spawn(&["run", "--name", "doomed", "sleep", "100"]);
    let job = home.until_phase_of_name("doomed", "running");
    let leader = i32::try_from(job["attempts"][0]["pid"].as_i64().unwrap()).unwrap();
    let (shim, guard) = (parent(leader), parent(parent(leader)));
    for pid in [guard, shim] {
        signal(pid, Signal::KILL);
    }
    let output = running.end();
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("lost"), "{output:?}");
    assert!(!is_alive(leader), "the sweep killed it");
    assert_eq!(home.json(&["show", "doomed"])["attempts"][0]["receipt"]["proof"], "best_effort");
}

pub(crate) fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn output_is_forwarded_unchanged_per_stream() {
    let home = Home::new();
    let script = r"printf 'a\377\000b\n'; printf 'e\033[31m\n' >&2; printf 'no line break'";
    let output = home.command(&["run", "sh", "-c", script]).output().unwrap();
    assert_eq!(output.stdout, b"a\xff\0b\nno line break");
    assert_eq!(output.stderr, b"e\x1b[31m\n");
}

#[test]
fn large_output_arrives_complete() {
    let home = Home::new();
    let output = home.command(&["run", "seq", "1", "300000"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 300_000);
    assert!(text.lines().zip(1..).all(|(line, number)| line == number.to_string()));
}

#[test]
fn a_detached_run_prints_only_the_id() {
    let home = Home::new();
    let output = home.run(&["run", "-d", "--name", "quiet", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    let id = output.stdout.trim_end();
    assert!(id.starts_with("job_") && id.len() == 32, "{id}");
    let job = home.json(&["run", "-d", "true"]);
    assert!(job["id"].as_str().unwrap().starts_with("job_"));
    home.ok(&["wait", id]);
    for reference in [id, &id[..20], &id[4..30], &id[24..], &id[24..29], "quiet"] {
        assert_eq!(home.json(&["show", reference])["id"], id, "{reference}");
    }
    assert_eq!(home.json(&["show", "@last"])["id"], job["id"]);
}

#[test]
fn a_job_runs_in_the_folder_and_environment_of_its_submitter() {
    let home = Home::new();
    std::fs::create_dir(home.work().join("below")).unwrap();
    assert_eq!(home.ok(&["run", "pwd"]), home.work().display().to_string());
    assert_eq!(home.ok(&["run", "-C", "below", "pwd"]), home.work().join("below").display().to_string());
    let output = home.run(&["run", "-C", "nowhere", "pwd"]);
    assert!(output.code == 2 && output.stderr.contains("nowhere"), "{output:?}");
    let mut command = home.command(&["run", "env"]);
    command.env("MINE", "a b=c").env("LD_PRELOAD", "/no/such.so").env("LASTWORD_JOB_ID", "");
    let env = run_command(command).stdout;
    assert!(env.lines().any(|line| line == "MINE=a b=c"), "{env}");
    assert!(!env.contains("LD_PRELOAD"), "{env}");
    let id = home.json(&["show", "@last"])["id"].as_str().unwrap().to_owned();
    assert!(env.lines().any(|line| line == format!("LASTWORD_JOB_ID={id}")), "{env}");
    assert!(env.lines().any(|line| line == "LASTWORD_ATTEMPT=1"), "{env}");
    assert!(!home.ok(&["show", &id, "--json"]).contains("a b=c"), "the environment is in no answer");
}

#[test]
fn ctrl_c_detaches_and_leaves_the_job_running() {
    let home = Home::new();
    let running = home.spawn(&["run", "--name", "long", "sh", "-c", "echo $$; sleep 100"]);
    let job = home.until_phase_of_name("long", "running");
    let pid = home.pids_of("long", 1)[0];
    running.until_printed(&pid.to_string());
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(output.code, 130, "{output:?}");
    let short = job["short"].as_str().unwrap();
    let words = format!("long ({short}) keeps running; `lastword attach long` reconnects to it\n");
    assert_eq!(output.stderr, words);
    assert!(is_alive(pid));
    let running = home.spawn(&["run", "--name", "other", "sh", "-c", "echo $$; sleep 100"]);
    let other = home.pids_of_name("other", 1)[0];
    running.until_printed(&other.to_string());
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, 143);
    assert!(is_alive(other));
}

#[test]
fn ctrl_c_cancels_on_request_and_kills_the_second_time() {
    let home = Home::new();
    let script = "trap '' TERM; echo $$; while :; do sleep 1; done";
    let running = home.spawn(&[
        "run",
        "--cancel-on-interrupt",
        "--name",
        "stubborn",
        "--grace",
        "1h",
        "sh",
        "-c",
        script,
    ]);
    let pid = home.pids_of_name("stubborn", 1)[0];
    running.until_printed(&pid.to_string());
    running.signal(Signal::INT);
    home.until_phase_of_name("stubborn", "stopping");
    assert!(is_alive(pid));
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.stderr.contains("press Ctrl-C again to kill it"), "{output:?}");
    assert!(!is_alive(pid));
}

#[test]
fn standard_input_and_its_end_are_forwarded() {
    let home = Home::new();
    let mut command = home.command(&["run", "-i", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let text: String = (0..20_000).map(|number| format!("zeile {number} ä\n")).collect();
    let mut stdin = child.stdin.take().unwrap();
    let sent = text.clone();
    let writer = std::thread::spawn(move || stdin.write_all(sent.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
}

#[test]
fn a_job_without_input_takes_none() {
    let home = Home::new();
    assert_eq!(home.ok(&["run", "cat"]), "");
    let id = home.ok(&["run", "-d", "sleep", "100"]);
    let output = home.run(&["send", &id, "hello"]);
    assert_eq!(output.code, 125, "{output:?}");
    let output = home.run(&["attach", "-i", &id]);
    assert!(output.code == 125 && output.stderr.contains("reads no input"), "{output:?}");
}

#[test]
fn a_job_can_have_a_terminal() {
    let home = Home::new();
    let output = home.run(&["run", "-t", "sh", "-c", "test -t 0 && test -t 1 && stty size; exit 4"]);
    assert_eq!(output.code, 4, "{output:?}");
    assert_eq!(output.stdout.trim(), "24 80");
}

#[test]
fn jobs_wait_for_dependencies_and_do_not_start_if_those_fail() {
    let home = Home::new();
    let first = home.start("while [ ! -e go ]; do sleep 0.01; done; exit 1");
    let any = home.ok(&["run", "-d", "--after", &format!("{first}:any"), "true"]);
    let good = home.ok(&["run", "-d", "--after", &first, "touch", "ran"]);
    let short = &first[first.len() - 8..];
    assert!(home.ok(&["show", &any]).contains(&format!("waiting for {short}:any\n")));
    assert!(home.ok(&["show", &good]).contains(&format!("  after     {short}\n")));
    std::fs::write(home.work().join("go"), "").unwrap();
    assert_eq!(home.run(&["wait", &any]).code, 0);
    let output = home.run(&["wait", &good]);
    assert_ne!(output.code, 0, "{output:?}");
    assert!(output.stdout.contains("a job it depends on did not succeed"), "{output:?}");
    assert!(!home.work().join("ran").exists());
    let output = home.run(&["run", "--after", "nobody", "true"]);
    assert!(output.code == 125 && output.stderr.contains("nobody"), "{output:?}");
    assert_eq!(home.run(&["run", "--after", "x:maybe", "true"]).code, 2);
}

#[test]
fn a_job_is_retried_up_to_its_limit() {
    let home = Home::new();
    let script = "echo try $LASTWORD_ATTEMPT; test $LASTWORD_ATTEMPT = 3";
    let output = home.run(&["run", "--retry", "5", "--backoff", "10ms", "sh", "-c", script]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stdout, "try 1\ntry 2\ntry 3\n", "the output of every attempt is printed");
    assert_eq!(home.json(&["show", "@last"])["attempts"].as_array().unwrap().len(), 3);
    let output = home.run(&["run", "--retry", "1", "--backoff", "10ms", "sh", "-c", "exit 9"]);
    assert_eq!(output.code, 9, "the last attempt's own code");
}

#[test]
fn slots_and_priorities_decide_the_order() {
    let home = Home::new();
    home.ok(&["group", "set", "line", "--slots", "1"]);
    home.ok(&["group", "pause", "line"]);
    let log = home.path().join("order");
    let line = |name: &str, priority: &str| {
        let script = format!("echo {name} >> {}", log.display());
        home.ok(&["run", "-d", "--group", "line", "--priority", priority, "sh", "-c", &script])
    };
    let jobs = [line("low", "-5"), line("plain", "0"), line("high", "7")];
    home.ok(&["group", "resume", "line"]);
    for job in &jobs {
        home.ok(&["wait", job]);
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "high\nplain\nlow\n");
}

#[test]
fn a_delayed_job_waits_until_it_is_due() {
    let home = Home::new();
    let later = home.ok(&["run", "-d", "--delay", "1h", "true"]);
    assert_eq!(home.run(&["run", "--delay", "0", "true"]).code, 0);
    let job = home.json(&["show", &later]);
    assert_eq!((&job["phase"], &job["waits"]["for"]), (&"queued".into(), &"time".into()), "{job}");
    assert_eq!(home.run(&["wait", "--timeout", "200ms", &later]).code, 124);
    home.ok(&["cancel", &later]);
    assert_eq!(home.json(&["show", &later])["outcome_detail"], "before_start");
}

#[test]
fn an_attached_run_survives_the_death_of_the_daemon() {
    let home = Home::new();
    let go = home.path().join("go");
    let script =
        format!("echo before; while [ ! -e {} ]; do sleep 0.01; done; echo after; exit 7", go.display());
    let running = home.spawn(&["run", "--name", "watched", "sh", "-c", &script]);
    home.until_phase_of_name("watched", "running");
    until("it wrote", || home.ok(&["logs", "watched"]).contains("before").then_some(()));
    home.kill_daemon();
    std::fs::write(&go, "").unwrap();
    let output = running.end();
    assert_eq!((output.code, output.stdout.as_str()), (7, "before\nafter\n"), "{output:?}");
}
