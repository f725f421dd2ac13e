//! Invalid requests are refused with a hint, and start nothing.

use crate::agents::with_input;
use crate::home::Home;
use crate::plain::plain_text;

#[test]
fn an_invalid_command_line_exits_with_2_and_starts_nothing() {
    let home = Home::empty();
    for words in [
        &[][..],
        &["frobnicate"],
        &["run"],
        &["run", "--wall", "soon", "true"],
        &["run", "--wall", "90", "true"],
        &["run", "--wall=-1s", "true"],
        &["run", "--output-max", "1.5M", "true"],
        &["run", "--priority", "high", "true"],
        &["run", "-l", "novalue", "true"],
        &["run", "-i", "-t", "true"],
        &["run", "-i", "--agent", "claude", "do it"],
        &["run", "--agent", "claude", "-t", "do it"],
        &["run", "--agent", "claude"],
        &["run", "--agent", "claude", "--permissions", "perhaps", "do it"],
        &["run", "--agent", "claude", "--money", "cheap", "do it"],
        &["run", "--agent", "claude", "--allow", "", "do it"],
        &["run", "--turns", "3", "true"],
        &["run", "--allow", "*", "true"],
        &["ls", "--phase", "asleep"],
        &["ls", "--outcome", "fine"],
        &["ls", "-n", "0"],
        &["limit", "x", "wall"],
        &["limit", "x", "speed=1"],
        &["limit", "turns=3"],
        &["help", "frobnicate"],
        &["help", "daemon", "dance"],
        &["cancel"],
        &["cancel", "x", "--all"],
        &["send"],
        &["send", "x", "--steer", "--eof", "y"],
        &["answer", "x"],
        &["approve"],
        &["deny"],
        &["interrupt"],
        &["interrupt", "x", "--turn", "last"],
        &["resume"],
        &["group", "set", "x"],
        &["daemon", "dance"],
        &["logs", "x", "--stdout", "--stderr"],
        &["completion"],
        &["wait", "--timeout", "-5s"],
    ] {
        let output = home.run(words);
        assert_eq!(output.code, 2, "{words:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}: {output:?}");
    }
    assert!(!home.state().exists(), "none of them started a daemon");
}

#[test]
fn an_empty_reference_is_refused_by_every_command_that_takes_a_job() {
    let home = Home::empty();
    for words in [
        &["show", ""][..],
        &["logs", ""],
        &["events", ""],
        &["wait", ""],
        &["attach", ""],
        &["send", "", "hello"],
        &["question", ""],
        &["answer", "", "q1-0000", "text"],
        &["approve", "", "q1-0000"],
        &["deny", "", "q1-0000"],
        &["rule", "ls", ""],
        &["rule", "rm", "", "r1"],
        &["interrupt", ""],
        &["cancel", ""],
        &["kill", " "],
        &["retry", ""],
        &["resume", "", "go on"],
        &["diff", ""],
        &["apply", ""],
        &["limit", "", "wall=1h"],
        &["label", ""],
        &["rm", ""],
        &["result", ""],
        &["seen", ""],
        &["abandon", ""],
        &["ls", "--parent", ""],
        &["run", "--after", "", "true"],
        &["run", "--after", ":any", "true"],
    ] {
        let output = home.run(words);
        assert_eq!(output.code, 2, "{words:?}: {output:?}");
        assert!(output.stderr.contains("it is empty: give an id"), "{words:?}: {output:?}");
    }
    assert!(!home.state().exists(), "none of them started a daemon");
}

#[test]
fn a_typo_is_answered_with_a_suggestion() {
    let home = Home::new();
    home.ok(&["run", "--name", "builder", "true"]);
    for (words, guess) in [
        (&["shwo", "x"][..], "show"),
        (&["run", "--detatch", "true"], "--detach"),
        (&["ls", "--phase", "runing"], "did you mean `running`"),
        (&["limit", "x", "wal=1h"], "did you mean `wall`"),
        (&["show", "bulder"], "did you mean `builder`"),
        (&["cancel", "builde"], "did you mean `builder`"),
        (&["logs", "biulder"], "did you mean `builder`"),
        (&["help", "shwo"], "did you mean `show`"),
        (&["help", "daemon", "restrat"], "did you mean `restart`"),
        (&["config", "get", "slot"], "did you mean `slots`"),
    ] {
        let output = home.run(words);
        assert!(output.code != 0 && output.stderr.contains(guess), "{words:?}: {output:?}");
    }
}

#[test]
fn an_unknown_or_ambiguous_reference_is_reported() {
    let home = Home::new();
    let output = home.run(&["show"]);
    assert_eq!(output.code, 125, "{output:?}");
    insta::assert_snapshot!("unknown_job", plain_text(&home, &output.stderr));
    let ids: Vec<String> = (0..3).map(|_| home.ok(&["run", "-d", "true"])).collect();
    // Ids created within a year share this prefix.
    let output = home.run(&["show", &ids[0][..6]]);
    assert_eq!(output.code, 125, "{output:?}");
    for id in &ids {
        assert!(output.stderr.contains(&id[24..]), "{id} is a candidate: {output:?}");
    }
    let output = home.run(&["show", &ids[0][..6], "--json"]);
    let problem: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!((&problem["code"], output.code), (&"ambiguous".into(), 125));
    assert_eq!(problem["candidates"].as_array().unwrap().len(), 3);
    assert!(problem["detail"].as_str().unwrap().contains("matches 3 jobs"), "{problem}");
    for _ in 0..8 {
        home.ok(&["run", "-d", "true"]);
    }
    let output = home.run(&["show", &ids[0][..6]]);
    assert!(output.stderr.contains("matches 10 or more jobs"), "{output:?}");
}

#[test]
fn with_json_every_error_is_a_problem_document_on_standard_error() {
    let home = Home::new();
    for (words, code, exit) in [
        (&["show", "nobody"][..], "not_found", 125),
        (&["ls", "--phase", "asleep"], "invalid", 2),
        (&["run", "--name", "no spaces", "true"], "invalid", 2),
        (&["prune", "--older-than", "0", "-y", "--unread", "--frob"], "invalid", 2),
        (&["daemon", "start", "--set", "slots=x"], "invalid", 125),
    ] {
        if words[0] == "daemon" {
            home.ok(&["daemon", "stop"]);
        }
        let output = home.run(&[&["--json"], words].concat());
        let problem: serde_json::Value = serde_json::from_str(&output.stderr)
            .unwrap_or_else(|error| panic!("{words:?}: {error}: {output:?}"));
        assert_eq!((&problem["code"], output.code), (&code.into(), exit), "{words:?}: {output:?}");
        assert_eq!(problem["type"], format!("urn:lastword:problem:{code}"));
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn an_invalid_name_is_refused() {
    let home = Home::new();
    for name in ["", "-x", "a b", "a/b", "job_0001m7f762c9e008aqrbsrbs126w", "@last", &"x".repeat(65), "ä"] {
        let flag = format!("--name={name}");
        let output = home.run(&["run", "-d", &flag, "true"]);
        assert_eq!(output.code, 2, "{name:?}: {output:?}");
    }
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "");
}

#[test]
fn arguments_that_are_not_utf8_are_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = Home::new();
    let mut command = home.command(&["run", "echo"]);
    command.arg(std::ffi::OsStr::from_bytes(b"a\xffb"));
    let output = crate::home::run_command(command);
    assert_eq!(output.code, 2, "{output:?}");
}

#[test]
fn variables_that_are_not_utf8_are_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = Home::new();
    let mut command = home.command(&["run", "true"]);
    command.env("ODD", std::ffi::OsStr::from_bytes(b"a\xffb"));
    let output = crate::home::run_command(command);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(output.stderr, "lastword: 1 environment variable is not UTF-8 and is not passed to the job\n");
}

#[test]
fn an_error_is_in_the_words_of_the_command_that_was_typed() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--delay", "1h", "true"]);
    for (words, why) in [
        (&["rule", "rm", &id, ""][..], "for '<RULE>': it is empty: `lastword rule ls JOB` shows the names"),
        (
            &["group", "set", "", "--slots", "1"],
            "for '<NAME>': it is empty: `lastword group ls` shows the names",
        ),
        (&["group", "rm", ""], "for '<NAME>': it is empty"),
        (&["events", &id, "--after", "abc"], "--after: `abc` is not the number of an event"),
        (&["events", &id, "-f", "--after", "abc"], "--after: `abc` is not the number of an event"),
        (&["config", "set", "bogus", "1"], "config: there is no setting `bogus`"),
        (&["config", "get", "bogus"], "config: there is no setting `bogus`"),
        (&["config", "set", "slots", "many"], "config: setting `slots`: "),
    ] {
        let output = home.run(words);
        assert!(output.code == 2 && output.stderr.contains(why), "{words:?}: {output:?}");
    }
    for (option, value, why) in [
        ("--tokens", "1k", "`1k` is not a whole number such as 200000"),
        ("--tokens", "-1", "`-1` is not a whole number"),
        ("--turns", "abc", "`abc` is not a whole number"),
        ("--turns", "-1", "`-1` is not a whole number"),
        ("--money", "-1", "`-1` is not an amount in dollars such as 1.50"),
        ("--money", "-0.5", "`-0.5` is not an amount in dollars"),
        (
            "--ask-expires",
            "0",
            "write `--permissions deny` for that, and leave the option out to wait without end",
        ),
        ("--ask-expires", "0s", "every request would be denied at once"),
    ] {
        let output = home.run(&["run", "-d", "--agent", "claude", option, value, "x"]);
        assert!(output.code == 2 && output.stderr.contains(why), "{option} {value}: {output:?}");
    }
    for bytes in [(256 << 10) + 1, 20 << 20] {
        for words in [&["run", "-d", "--agent", "claude"][..], &["resume", &id], &["send", &id]] {
            let output = with_input(&home, words, &"x".repeat(bytes));
            let why = "but at most 256 KiB are allowed";
            assert!(output.code == 2 && output.stderr.contains(why), "{words:?}: {output:?}");
        }
    }
    let long = "x".repeat(100 << 10);
    let output = home.run(&["run", "-d", "echo", &long, &long, &long]);
    let why = "its command or prompt, with its labels and paths, is larger than 256 KiB";
    assert!(output.code == 2 && output.stderr.contains(why), "{output:?}");
}

#[test]
fn an_option_after_the_prompt_is_reported_as_part_of_it() {
    let home = Home::new();
    let said = |words: &[&str]| {
        let output = home.run(&[&["run", "-d", "--delay", "1h"], words].concat());
        assert_eq!(output.code, 0, "{words:?}: {output:?}");
        output.stderr
    };
    let note = |option: &str| format!("lastword: `{option}` is part of the prompt: options come before it\n");
    let both = said(&["--agent", "claude", "x", "--money", "0.001", "--name", "zork"]);
    assert_eq!(both, note("--money") + &note("--name"));
    assert_eq!(home.json(&["show", "@last"])["agent"]["prompt"], "x --money 0.001 --name zork");
    assert_eq!(said(&["--agent", "claude", "--", "x", "--money", "1"]), "", "it was told apart");
    assert_eq!(said(&["--agent", "claude", "x", "--", "--name", "y"]), "", "it is an argument of the agent");
    assert_eq!(said(&["sh", "--name", "y"]), "", "it is an argument of the command");
}
