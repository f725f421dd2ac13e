//! Shared state folders, socket paths and names are kept apart, and an unresponsive daemon is reported.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::home::{CommandOutput, Home, is_alive, signal, until};

/// Returns a command with only `HOME` set.
fn with_home(home: &Home, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command.env_remove("LASTWORD_HOME").env("HOME", folder);
    command
}

fn ok(mut command: Command) -> String {
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, 0, "{command:?} printed: {}{}", output.out, output.err);
    output.out.trim_end().to_owned()
}

fn folder(home: &Home, name: &str) -> std::path::PathBuf {
    use std::os::unix::fs::DirBuilderExt as _;
    // Below the state folder, so that processes of a failed test are found.
    let folder = home.state().join(name);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    folder
}

#[test]
fn c60_a_daemon_is_found_wherever_it_listens() {
    let home = Home::new();
    let (mine, session, elsewhere) = (folder(&home, "mine"), folder(&home, "run"), folder(&home, "tmp"));
    let with = |name: &str, value: &Path, arguments: &[&str]| {
        let mut command = with_home(&home, &mine, arguments);
        command.env(name, value);
        ok(command)
    };
    let job = with("XDG_RUNTIME_DIR", &session, &["run", "-d", "--", "sleep", "100"]);
    // As from cron or `su`: the same user, without the variables of a session.
    assert_eq!(with("TMPDIR", &elsewhere, &["ls", "-q"]), job);
    with("TMPDIR", &elsewhere, &["cancel", "--force", "--all"]);
    assert_eq!(with("XDG_RUNTIME_DIR", &session, &["ls", "-q"]), "");
    with("TMPDIR", &elsewhere, &["daemon", "stop"]);
}

#[test]
fn two_state_folders_with_one_socket_path_are_kept_apart() {
    let home = Home::new();
    let (one, other, session) = (folder(&home, "one"), folder(&home, "other"), folder(&home, "run"));
    let of = |folder: &Path, arguments: &[&str]| {
        let mut command = with_home(&home, folder, arguments);
        command.env("XDG_RUNTIME_DIR", &session);
        ok(command)
    };
    let first = of(&one, &["run", "-d", "--", "sleep", "100"]);
    let second = of(&other, &["run", "-d", "--", "sleep", "100"]);
    for _ in 0..3 {
        assert_eq!((of(&one, &["ls", "-q"]), of(&other, &["ls", "-q"])), (first.clone(), second.clone()));
    }
    of(&other, &["cancel", "--force", "--all"]);
    assert_eq!(of(&one, &["ls", "-q"]), first, "the other's jobs are left alone");
    of(&one, &["cancel", "--force", "--all"]);
    of(&one, &["daemon", "stop"]);
    assert_eq!(of(&other, &["ls", "-aq"]), second);
    of(&other, &["daemon", "stop"]);
}

#[test]
fn a_state_folder_may_be_given_as_a_relative_path() {
    let home = Home::new();
    let here = folder(&home, "here");
    let output = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.current_dir(&here).env("LASTWORD_HOME", "jobs of mine");
        ok(command)
    };
    assert_eq!(output(&["run", "--", "echo", "hello"]), "hello");
    assert!(here.join("jobs of mine/journal.db").exists());
    output(&["daemon", "stop"]);
}

#[test]
fn c60_a_frozen_daemon_is_replaced_and_every_request_is_carried_out() {
    let home = Home::new();
    let (job, other) = (home.start("sleep 100"), home.start("sleep 100"));
    let (leader, left) = (home.leader(&job), home.leader(&other));
    let frozen = home.daemon();
    signal(frozen, Signal::STOP);
    // From inside a job no daemon can be started, so none is ended.
    let mut inside = home.command(&["ls"]);
    let mut inside = inside.env("LASTWORD_JOB_ID", &job).stderr(Stdio::piped()).spawn().unwrap();
    let mut waiting = home.command(&["show", &other, "--json"]);
    let waiting = waiting.stdout(Stdio::piped()).spawn().unwrap();
    let output = home.run(&["cancel", &job]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(output.err.contains(&format!("the daemon (pid {frozen}) does not answer")), "{}", output.err);
    assert!(!is_alive(leader) && !is_alive(frozen));
    assert_eq!(home.show(&job)["outcome"], "cancelled");
    assert_ne!(home.daemon(), frozen);
    let answered = waiting.wait_with_output().unwrap();
    assert!(answered.status.success(), "the next daemon answers whatever waits");
    assert_eq!(home.leader(&other), left);
    inside.wait().unwrap();
    let mut err = String::new();
    inside.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(!err.contains("was killed"), "{err}");
}

#[test]
fn c60_an_unresponsive_daemon_is_replaced_by_a_restart() {
    let home = Home::new();
    let job = home.start("sleep 100");
    let leader = home.leader(&job);
    let hung = home.daemon();
    signal(hung, Signal::STOP);
    let output = home.run(&["daemon", "restart"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(output.err.contains(&format!("(pid {hung}) does not answer")), "{}", output.err);
    until("the unresponsive daemon is gone", || !is_alive(hung));
    assert!(is_alive(leader), "the job is still running");
}
