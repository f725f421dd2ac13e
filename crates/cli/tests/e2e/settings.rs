//! Settings: shown, changed, and rejected by name.

use crate::home::{Home, Output, run_command};
use crate::plain::plain_text;

#[test]
fn settings_are_shown_with_their_origins() {
    let home = Home::new();
    home.ok(&["config", "set", "slots", "3"]);
    home.ok(&["config", "set", "limits.wall", "1h30m"]);
    let mut command = home.command(&["config", "show"]);
    command.env("LASTWORD_GRACE", "7s");
    insta::assert_snapshot!("config_show", plain_text(&home, &run_command(command).stdout));
    assert_eq!(home.ok(&["config", "get", "limits.wall"]), "1h30m");
    assert_eq!(home.json(&["config", "get", "limits.wall"]), 5_400_000);
    assert_eq!(home.ok(&["config", "path"]), home.state().join("config.toml").display().to_string());
    let items = home.json(&["config", "show"])["items"].clone();
    assert_eq!(items[0]["key"], "slots");
    assert_eq!(items[0]["value"], 3);
}

#[test]
fn c55_an_invalid_setting_makes_the_first_command_fail_and_is_named() {
    let home = Home::empty();
    std::fs::create_dir(home.state()).unwrap();
    for (text, name) in [
        ("slots = -1", "`slots`"),
        ("slotz = 1", "did you mean `slots`"),
        ("[limits]\nwall = \"soon\"", "`limits.wall`"),
    ] {
        std::fs::write(home.state().join("config.toml"), text).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
        for words in [&["ls"][..], &["run", "true"], &["daemon", "run"], &["config", "show"]] {
            let output = home.run(words);
            assert_eq!(output.code, 125, "{words:?}: {output:?}");
            assert!(
                output.stderr.contains(name) && output.stderr.contains("config.toml"),
                "{words:?}: {output:?}"
            );
            assert_eq!(output.stdout, "");
        }
        assert!(!home.state().join("journal.db").exists(), "nothing was started");
    }
    std::fs::remove_file(home.state().join("config.toml")).unwrap();
    let mut command = home.command(&["ls"]);
    command.env("LASTWORD_SLOTS", "lots");
    let refused = run_command(command);
    assert!(refused.code == 125 && refused.stderr.contains("LASTWORD_SLOTS"), "{refused:?}");
}

#[test]
fn a_restart_with_an_invalid_setting_leaves_the_daemon_running() {
    let home = Home::new();
    home.ok(&["daemon", "start"]);
    let before = home.daemon_pid();
    let refused = |words: &[&str], named: &str| {
        let output = home.run(words);
        assert!(output.code == 125 && output.stderr.contains(named), "{output:?}");
        assert!(!output.stderr.contains("stopped"), "{output:?}");
        assert_eq!(home.daemon_pid(), before);
    };
    refused(&["daemon", "restart", "--set", "slots=lots"], "--set: setting `slots`");
    std::fs::write(home.state().join("config.toml"), "slots = -1").unwrap();
    refused(&["daemon", "restart"], "config.toml:1: setting `slots`");
    std::fs::remove_file(home.state().join("config.toml")).unwrap();
}

#[test]
fn an_invalid_value_is_not_written() {
    let home = Home::new();
    for (key, value) in [("slots", "-1"), ("grace", "soon"), ("limits.output", "1.5M"), ("log_level", "loud")]
    {
        let output = home.run(&["config", "set", key, value]);
        assert!(output.code == 2 && output.stderr.contains(key), "{output:?}");
    }
    let output = home.run(&["config", "set", "limit.wall", "1h"]);
    assert!(output.stderr.contains("did you mean `limits.wall`"), "{output:?}");
    assert!(!home.state().join("config.toml").exists());
}

/// Runs a command with one more variable.
fn run_with(home: &Home, variable: (&str, &str), words: &[&str]) -> Output {
    let mut command = home.command(words);
    command.env(variable.0, variable.1);
    run_command(command)
}

#[test]
fn c55_an_invalid_setting_is_refused_while_a_daemon_runs() {
    let home = Home::new();
    home.ok(&["daemon", "start"]);
    let pid = home.daemon_pid();
    let commands =
        [&["run", "-d", "true"][..], &["ls"], &["wait", "@last"], &["group", "ls"], &["daemon", "restart"]];
    for (variable, value) in [
        ("LASTWORD_LIMITS__WALL", "abc"),
        ("LASTWORD_LIMITS__WALL", "-5"),
        ("LASTWORD_SLOTS", "-1"),
        ("LASTWORD_SLOTZ", "1"),
    ] {
        for words in commands {
            let output = run_with(&home, (variable, value), words);
            assert!(
                output.code == 125 && output.stderr.contains(variable),
                "{variable}={value} {words:?}: {output:?}"
            );
        }
    }
    for (text, name) in [
        ("slots = -1", "`slots`"),
        ("slotz = 1", "did you mean `slots`"),
        ("limits.wall = 5", "`limits.wall`"),
    ] {
        std::fs::write(home.state().join("config.toml"), text).unwrap();
        for words in commands {
            let output = home.run(words);
            assert!(output.code == 125 && output.stderr.contains(name), "{text} {words:?}: {output:?}");
        }
    }
    std::fs::remove_file(home.state().join("config.toml")).unwrap();
    let output = home.run(&["daemon", "restart", "--set", "slots=few"]);
    assert!(output.code == 125 && output.stderr.contains("`slots`"), "{output:?}");
    assert_eq!(home.daemon_pid(), pid, "a restart checks the settings before it stops the daemon");
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "", "no job was submitted");
}

#[test]
fn an_invalid_setting_does_not_keep_a_job_from_being_stopped() {
    let home = Home::new();
    let id = home.start("exec sleep 1000");
    home.until_phase(&id, "running");
    let output = run_with(&home, ("LASTWORD_SLOTZ", "1"), &["cancel", "--force", &id]);
    assert!(output.code == 0 && output.stderr.contains("LASTWORD_SLOTZ"), "{output:?}");
    home.until_phase(&id, "ended");
    assert_eq!(run_with(&home, ("LASTWORD_SLOTZ", "1"), &["daemon", "stop"]).code, 0);
}

#[test]
fn c55_a_limit_from_the_environment_applies_to_the_submitted_job_while_a_daemon_runs() {
    let home = Home::new();
    home.ok(&["daemon", "start"]);
    let wall = |id: &str| home.json(&["show", id])["limits"]["wall_ms"].clone();
    let run = |variable: (&str, &str), words: &[&str]| {
        let output = run_with(&home, variable, &[&["run", "-d"], words, &["true"]].concat());
        assert!(output.code == 0 && output.stderr.is_empty(), "{output:?}");
        output.stdout.trim().to_owned()
    };
    assert_eq!(wall(&run(("LASTWORD_LIMITS__WALL", "90s"), &[])), 90_000);
    assert_eq!(wall(&run(("LASTWORD_LIMITS__WALL", "90s"), &["--wall", "5s"])), 5_000, "a flag wins");
    assert_eq!(wall(&run(("LASTWORD_LIMITS__STALL", "90s"), &[])), serde_json::Value::Null);
    let output = run_with(&home, ("LASTWORD_LIMITS__WALL", "300ms"), &["run", "sleep", "1000"]);
    assert_eq!(output.code, 124, "{output:?}");
    // Zero switches off what the daemon was started with.
    home.restart(&["--set", "limits.wall=1h"]);
    assert_eq!(wall(&home.ok(&["run", "-d", "true"])), 3_600_000);
    assert_eq!(wall(&run(("LASTWORD_LIMITS__WALL", "0"), &[])), serde_json::Value::Null);
}

#[test]
fn a_repeated_job_keeps_its_limits_and_says_so() {
    let home = Home::new();
    home.ok(&["run", "--name", "once", "true"]);
    let output = run_with(&home, ("LASTWORD_LIMITS__WALL", "90s"), &["retry", "-d", "once"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    assert!(
        output.stderr.contains("LASTWORD_LIMITS__WALL") && output.stderr.contains("lastword limit"),
        "{output:?}"
    );
}

#[test]
fn c55_a_setting_that_the_running_daemon_does_not_have_is_reported() {
    let home = Home::new();
    home.ok(&["config", "set", "slots", "2"]);
    home.ok(&["daemon", "start"]);
    assert_eq!(home.run(&["group", "ls"]).stderr, "");
    let said = |output: Output| {
        assert_eq!(output.code, 0, "{output:?}");
        output.stderr
    };
    // From the environment.
    let line = "lastword: environment (LASTWORD_SLOTS): the daemon runs with slots = 2, not 4; `LASTWORD_SLOTS=4 lastword daemon restart` applies it, and jobs keep running\n";
    assert_eq!(said(run_with(&home, ("LASTWORD_SLOTS", "4"), &["group", "ls"])), line);
    assert_eq!(said(run_with(&home, ("LASTWORD_SLOTS", "2"), &["group", "ls"])), "", "the daemon has it");
    // From the file, changed after the start.
    home.ok(&["config", "set", "limits.wall", "1h"]);
    let file = home.state().join("config.toml").display().to_string();
    let line = format!(
        "lastword: {file}:4: the daemon runs with limits.wall = 0, not 1h; `lastword daemon restart` applies it, and jobs keep running\n"
    );
    assert_eq!(said(home.run(&["group", "ls"])), line);
    home.ok(&["daemon", "restart"]);
    assert_eq!(said(home.run(&["group", "ls"])), "");
    // What a flag set for this daemon is stronger than the file.
    home.ok(&["daemon", "restart", "--set", "slots=3"]);
    assert_eq!(said(home.run(&["group", "ls"])), "");
    let line = "lastword: --set: the daemon runs with slots = 3, not 5; `lastword daemon restart --set slots=5` applies it, and jobs keep running\n";
    let start = said(home.run(&["daemon", "start", "--set", "slots=5"]));
    assert!(start.starts_with(line) && start.contains("already running"), "{start}");
}
