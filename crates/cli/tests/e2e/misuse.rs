//! Invalid requests are refused with a hint, and start nothing.

use crate::home::Home;
use crate::plain::plain_text;

#[test]
fn an_invalid_command_line_exits_with_2_and_starts_nothing() {
    let home = Home::new();
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
        let said = home.run(words);
        assert_eq!(said.code, 2, "{words:?}: {said:?}");
        assert!(said.stdout.is_empty() && !said.stderr.is_empty(), "{words:?}: {said:?}");
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
        (&["config", "get", "slot"], "did you mean `slots`"),
    ] {
        let said = home.run(words);
        assert!(said.code != 0 && said.stderr.contains(guess), "{words:?}: {said:?}");
    }
}

#[test]
fn an_unknown_or_ambiguous_reference_is_reported() {
    let home = Home::new();
    let said = home.run(&["show"]);
    assert_eq!(said.code, 125, "{said:?}");
    insta::assert_snapshot!("unknown_job", plain_text(&home, &said.stderr));
    let ids: Vec<String> = (0..3).map(|_| home.ok(&["run", "-d", "true"])).collect();
    // Ids created within a minute share a prefix.
    let said = home.run(&["show", &ids[0][..12]]);
    assert_eq!(said.code, 125, "{said:?}");
    for id in &ids {
        assert!(said.stderr.contains(&id[24..]), "{id} is a candidate: {said:?}");
    }
    let said = home.run(&["show", &ids[0][..12], "--json"]);
    let problem: serde_json::Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!((&problem["code"], said.code), (&"ambiguous".into(), 125));
    assert_eq!(problem["candidates"].as_array().unwrap().len(), 3);
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
        let said = home.run(&[&["--json"], words].concat());
        let problem: serde_json::Value =
            serde_json::from_str(&said.stderr).unwrap_or_else(|error| panic!("{words:?}: {error}: {said:?}"));
        assert_eq!((&problem["code"], said.code), (&code.into(), exit), "{words:?}: {said:?}");
        assert_eq!(problem["type"], format!("urn:lastword:problem:{code}"));
        assert_eq!(said.stdout, "");
    }
}

#[test]
fn an_invalid_name_is_refused() {
    let home = Home::new();
    for name in ["", "-x", "a b", "a/b", "job_0001m7f762c9e008aqrbsrbs126w", "@last", &"x".repeat(65), "ä"] {
        let flag = format!("--name={name}");
        let said = home.run(&["run", "-d", &flag, "true"]);
        assert_eq!(said.code, 2, "{name:?}: {said:?}");
    }
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "");
}

#[test]
fn arguments_and_variables_that_are_not_utf8_are_reported() {
    use std::os::unix::ffi::OsStrExt as _;
    let home = Home::new();
    let mut command = home.command(&["run", "echo"]);
    command.arg(std::ffi::OsStr::from_bytes(b"a\xffb"));
    let said = crate::home::said(command);
    assert_eq!(said.code, 2, "{said:?}");
    let mut command = home.command(&["run", "true"]);
    command.env("ODD", std::ffi::OsStr::from_bytes(b"a\xffb"));
    let said = crate::home::said(command);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.stderr, "lastword: 1 environment variable is not UTF-8 and is not passed to the job\n");
}
