//! Who shares a state folder, a place for sockets or a name is told what is theirs, and a daemon that says nothing is no riddle.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::home::{Home, Said, is_alive, signal, until};

/// Returns a command of a user whose home folder this is, and who was told nothing else.
fn at_home(home: &Home, folder: &Path, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command.env_remove("LASTWORD_HOME").env("HOME", folder);
    command
}

fn good(mut command: Command) -> String {
    let said = Said::of(command.output().unwrap());
    assert_eq!(said.code, 0, "{command:?} said: {}{}", said.out, said.err);
    said.out.trim_end().to_owned()
}

fn folder(home: &Home, name: &str) -> std::path::PathBuf {
    use std::os::unix::fs::DirBuilderExt as _;
    // Below the state folder, so that whoever is left of a failed test is found by it.
    let folder = home.state().join(name);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    folder
}

#[test]
fn c60_a_daemon_is_found_where_it_listens_whatever_place_one_was_told() {
    let home = Home::new();
    let (mine, session, elsewhere) = (folder(&home, "mine"), folder(&home, "run"), folder(&home, "tmp"));
    let with = |name: &str, value: &Path, arguments: &[&str]| {
        let mut command = at_home(&home, &mine, arguments);
        command.env(name, value);
        good(command)
    };
    let job = with("XDG_RUNTIME_DIR", &session, &["run", "-d", "--", "sleep", "100"]);
    // As from cron, or behind `su`: the same user, without what a session sets.
    assert_eq!(with("TMPDIR", &elsewhere, &["ls", "-q"]), job);
    with("TMPDIR", &elsewhere, &["cancel", "--force", "--all"]);
    assert_eq!(with("XDG_RUNTIME_DIR", &session, &["ls", "-q"]), "");
    with("TMPDIR", &elsewhere, &["daemon", "stop"]);
}

#[test]
fn two_state_folders_with_one_place_for_sockets_are_not_taken_for_one() {
    let home = Home::new();
    let (one, other, session) = (folder(&home, "one"), folder(&home, "other"), folder(&home, "run"));
    let of = |whose: &Path, arguments: &[&str]| {
        let mut command = at_home(&home, whose, arguments);
        command.env("XDG_RUNTIME_DIR", &session);
        good(command)
    };
    let first = of(&one, &["run", "-d", "--", "sleep", "100"]);
    let second = of(&other, &["run", "-d", "--", "sleep", "100"]);
    for _ in 0..3 {
        assert_eq!((of(&one, &["ls", "-q"]), of(&other, &["ls", "-q"])), (first.clone(), second.clone()));
    }
    of(&other, &["cancel", "--force", "--all"]);
    assert_eq!(of(&one, &["ls", "-q"]), first, "what is another's is left alone");
    of(&one, &["cancel", "--force", "--all"]);
    of(&one, &["daemon", "stop"]);
    assert_eq!(of(&other, &["ls", "-aq"]), second);
    of(&other, &["daemon", "stop"]);
}

#[test]
fn a_state_folder_may_be_named_from_where_one_is() {
    let home = Home::new();
    let here = folder(&home, "here");
    let said = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.current_dir(&here).env("LASTWORD_HOME", "jobs of mine");
        good(command)
    };
    assert_eq!(said(&["run", "--", "echo", "hello"]), "hello");
    assert!(here.join("jobs of mine/journal.db").exists());
    said(&["daemon", "stop"]);
}

#[test]
fn c60_a_daemon_that_does_not_answer_is_said_not_to_and_a_restart_replaces_it() {
    let home = Home::new();
    let job = home.start("sleep 100");
    let leader = home.leader(&job);
    let hung = home.daemon();
    signal(hung, Signal::STOP);
    let mut waiting = home.command(&["ls", "-q"]);
    let mut waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let said = home.say(&["daemon", "restart"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.err.contains(&format!("(pid {hung}) did not answer")), "{}", said.err);
    until("the one that hung is gone", || !is_alive(hung));
    assert!(waiting.wait().unwrap().success(), "whoever waited is answered by the next one");
    let (mut out, mut err) = (String::new(), String::new());
    waiting.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    waiting.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(out.trim_end(), job);
    assert!(err.contains(&format!("the daemon (pid {hung}) does not answer; waiting for it")), "{err}");
    assert!(is_alive(leader), "and the job went on");
}
