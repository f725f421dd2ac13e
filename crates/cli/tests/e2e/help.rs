//! `--help` of every command, shell completions, and manual pages.

use crate::home::Home;

const VERBS: &[&str] = &[
    "run",
    "ls",
    "show",
    "logs",
    "events",
    "wait",
    "attach",
    "send",
    "question",
    "answer",
    "approve",
    "deny",
    "interrupt",
    "cancel",
    "kill",
    "retry",
    "resume",
    "diff",
    "apply",
    "limit",
    "group",
    "rm",
    "prune",
    "rule",
    "label",
    "prices",
    "seen",
    "progress",
    "usage",
    "help",
    "result",
    "abandon",
    "daemon",
    "serve",
    "worker",
    "fleet",
    "doctor",
    "config",
    "trust",
    "completion",
    "man",
    "version",
];

#[test]
fn every_command_has_help() {
    let home = Home::new();
    insta::assert_snapshot!("help", home.ok(&["--help"]));
    for verb in VERBS {
        insta::assert_snapshot!(format!("help_{verb}"), home.ok(&[verb, "--help"]));
    }
    for (verb, below) in [
        ("group", &["ls", "set", "pause", "resume", "rm"][..]),
        ("daemon", &["start", "stop", "status", "restart", "run", "install", "uninstall"]),
        ("config", &["show", "get", "set", "path"]),
        ("worker", &["enroll", "stop", "drain"]),
        ("fleet", &["ls", "add", "rm"]),
    ] {
        for word in below {
            insta::assert_snapshot!(format!("help_{verb}_{word}"), home.ok(&[verb, word, "--help"]));
        }
    }
    let listed = home.ok(&["--help"]);
    let listed: Vec<&str> =
        listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()).collect();
    for verb in VERBS {
        assert!(listed.contains(verb), "{verb} is not listed");
    }
}

#[test]
fn help_of_a_command_is_printed_in_two_ways() {
    let home = Home::new();
    for words in [&[][..], &["run"], &["daemon"], &["daemon", "restart"], &["ps"]] {
        let (asked, flag) = ([&["help"], words].concat(), [words, &["--help"]].concat());
        assert_eq!(home.ok(&asked), home.ok(&flag), "{words:?}");
    }
}

#[test]
fn completions_and_manual_pages_are_printed() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.ok(&["completion", shell]);
        assert!(script.contains("lastword") && script.contains("COMPLETE"), "{shell}: {script}");
    }
    assert_eq!(home.run(&["completion", "tcsh"]).code, 2);
    assert!(home.ok(&["man"]).contains(".TH lastword 1"));
    assert!(home.ok(&["man", "run"]).contains("lastword\\-run"));
    let output = home.run(&["man", "cancle"]);
    assert!(output.code == 2 && output.stderr.contains("did you mean `cancel`"), "{output:?}");
}

#[test]
fn jobs_are_completed_by_name_if_a_daemon_is_running() {
    let home = Home::empty();
    let complete = |words: &[&str]| {
        let mut command = home.command(&["--"]);
        command.args(words).env("COMPLETE", "fish");
        crate::home::run_command(command).stdout
    };
    assert!(!complete(&["lastword", "show", ""]).contains("builder"));
    assert!(!home.state().join("daemon.lock").exists(), "completion starts no daemon");
    home.serve();
    home.ok(&["run", "-d", "--name", "builder", "true"]);
    assert!(complete(&["lastword", "show", ""]).contains("builder"));
    assert!(complete(&["lastword", "li"]).contains("limit"));
}

#[test]
fn the_version_is_printed_in_three_ways() {
    let home = Home::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(home.ok(&["version"]), format!("lastword {version}"));
    assert_eq!(home.ok(&["--version"]), format!("lastword {version}"));
    assert_eq!(home.json(&["version"])["version"], version);
}
