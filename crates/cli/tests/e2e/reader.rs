//! What becomes of a job when the reader of its output goes away, as `head` does.

use std::io::Read as _;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::agents::{answers, define_agent, until_asks};
use crate::home::{Home, Output, is_alive, of_output, run_command, signal, until};
use crate::terminal::{at_terminal, until_shown};

/// Prints its pid, then lines for ever, but no faster than `logs` reads them.
const FLOOD: &str = "echo $$; while :; do echo y; sleep 0.01; done";

/// Starts a command whose output is read here.
fn spawn(home: &Home, words: &[&str]) -> Child {
    let mut command = home.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads a byte of the command's output, then closes it, and waits for the end of the command.
fn leave_after_a_byte(mut child: Child) -> Output {
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    drop(stdout);
    of_output(child.wait_with_output().unwrap())
}

/// Checks how a job ended whose reader went away.
fn check_stopped(home: &Home, name: &str) {
    let job = home.json(&["show", name]);
    assert_eq!((&job["phase"], &job["outcome"]), (&"ended".into(), &"cancelled".into()), "{job}");
    assert_eq!((&job["cause"], &job["stop"]["cause"]), (&"reader_gone".into(), &"reader_gone".into()));
    assert_eq!(job["attempts"][0]["receipt"]["certain"], true, "{job}");
}

#[test]
fn a_closed_pipe_stops_the_job_that_an_attached_run_started() {
    let home = Home::new();
    for (name, words) in [("plain", &["run", "--name"][..]), ("json", &["--json", "run", "--name"])] {
        let output = leave_after_a_byte(spawn(&home, &[words, &[name, "sh", "-c", FLOOD]].concat()));
        assert_eq!(output.code, 141, "{output:?}");
        assert!(output.stderr.contains("cancelled while running: its reader went away"), "{output:?}");
        check_stopped(&home, name);
        assert!(!is_alive(home.pids_of(name, 1)[0]));
    }
    for (words, shown) in [
        (["show", "plain"], "cancelled while running: its reader went away"),
        (["events", "plain"], "stop requested by `ann` (its reader went away)"),
    ] {
        let mut command = home.command(&words);
        command.env("COLUMNS", "200");
        let output = run_command(command);
        assert!(output.stdout.contains(shown), "{output:?}");
    }
    let again = leave_after_a_byte(spawn(&home, &["retry", "plain"]));
    assert_eq!(again.code, 141, "{again:?}");
    check_stopped(&home, "@last");
}

#[test]
fn a_closed_standard_error_stops_the_job_as_well() {
    let home = Home::new();
    let mut child = spawn(&home, &["run", "--name", "loud", "sh", "-c", "yes >&2"]);
    child.stderr.take().unwrap().read_exact(&mut [0]).unwrap();
    let output = of_output(child.wait_with_output().unwrap());
    assert_eq!((output.code, output.stdout.as_str()), (141, ""));
    check_stopped(&home, "loud");
}

#[test]
fn a_job_that_ended_before_its_reader_went_away_keeps_its_outcome() {
    let home = Home::new();
    let child = spawn(&home, &["run", "--name", "quick", "seq", "1", "200000"]);
    home.until_phase_of_name("quick", "ended");
    let output = leave_after_a_byte(child);
    assert_eq!((output.code, output.stderr.as_str()), (141, ""));
    assert_eq!(home.json(&["show", "quick"])["outcome"], "completed");
}

#[test]
fn a_reader_of_a_job_that_another_command_started_may_leave() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids(FLOOD, 1);
    for words in [&["logs", "-f", &id][..], &["attach", &id]] {
        let output = leave_after_a_byte(spawn(&home, words));
        assert_eq!((output.code, output.stderr.as_str()), (141, ""), "{words:?}");
    }
    assert_eq!(home.json(&["show", &id])["phase"], "running");
    assert!(is_alive(pids[0]));
}

#[test]
fn a_job_that_was_started_is_named_although_its_id_cannot_be_printed() {
    let home = Home::new();
    let mut command = home.command(&["run", "-d", "--name", "unprinted", "sleep", "100"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        of_output(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap());
    let id = home.json(&["show", "unprinted"])["id"].as_str().unwrap().to_owned();
    assert!(output.code == 125 && output.stderr.contains(&format!("{id} was started")), "{output:?}");
}

#[test]
fn a_closed_pipe_stops_an_agent() {
    let home = Home::new();
    define_agent(&home);
    let mut child = spawn(&home, &["run", "--name", "asker", "--agent", "echo", "ask make\nwait"]);
    until("there is a job", || (!home.ok(&["ls", "-q"]).is_empty()).then_some(()));
    until_asks(&home, "asker", 1);
    drop(child.stdout.take());
    // The agent prints the answer, and works on.
    answers(&home, "approve", "asker", &[]);
    let output = of_output(child.wait_with_output().unwrap());
    assert_eq!(output.code, 141, "{output:?}");
    check_stopped(&home, "asker");
    assert_eq!(home.json(&["show", "asker"])["session"]["turns"][0]["ending"], "cancelled");
}

/// Ctrl-C goes to every process of a pipeline, and means that the job keeps running.
#[test]
fn a_signal_to_the_whole_pipeline_counts_and_not_the_reader_that_it_ended() {
    let home = Home::new();
    for (name, sent, code) in [("interrupted", Signal::INT, 130), ("hung_up", Signal::HUP, 129)] {
        let mut child = spawn(&home, &["run", "--name", name, "yes"]);
        let stdout = child.stdout.take().unwrap();
        until("it writes to a full pipe", || {
            (rustix::io::ioctl_fionread(&stdout).unwrap() == PIPE_BYTES).then_some(())
        });
        // When it continues, it learns of the missing reader first and then of the signal.
        let run = i32::try_from(child.id()).unwrap();
        signal(run, Signal::STOP);
        drop(stdout);
        signal(run, sent);
        signal(run, Signal::CONT);
        let output = of_output(child.wait_with_output().unwrap());
        assert_eq!(output.code, code, "{output:?}");
        assert!(output.stderr.contains("keeps running"), "{output:?}");
        let job = home.json(&["show", name]);
        assert_eq!((&job["phase"], &job["stop"]), (&"running".into(), &serde_json::Value::Null), "{job}");
    }
}

/// What a pipe holds.
const PIPE_BYTES: u64 = 64 << 10;

#[test]
fn a_terminal_that_hangs_up_leaves_the_job_running() {
    let home = Home::new();
    // A daemon that the command starts would be its child for a moment.
    home.ok(&["daemon", "start"]);
    let mut terminal = at_terminal(&home, &["run", "--name", "long", "yes"]);
    until_shown(&mut terminal, "y\r\ny\r\n");
    let run = last_descendant(i32::try_from(terminal.id()).unwrap());
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    until("the command has ended", || (!is_alive(run)).then_some(()));
    assert_eq!(home.json(&["show", "long"])["phase"], "running");
}

/// Returns the process at the end of a chain of children.
fn last_descendant(pid: i32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let first = children.split_ascii_whitespace().next();
    first.map_or(pid, |child| last_descendant(child.parse().unwrap()))
}
