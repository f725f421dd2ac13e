//! Coding agents, as they are asked for, seen and spoken to. The agents are scripts of the test's own, known by the user's `agents.toml`.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use crate::home::{Home, Said};

/// Writes the user's own agents.
fn define(home: &Home, text: &str) {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home.state()).unwrap();
    std::fs::write(home.state().join("agents.toml"), text).unwrap();
}

/// Runs a command with this on its standard input.
fn with_input(home: &Home, words: &[&str], input: &str) -> Said {
    let mut command = home.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    crate::home::of_output(child.wait_with_output().unwrap())
}

/// Asks for a job that waits, so that it is only written down.
const LATER: [&str; 4] = ["run", "-d", "--delay", "1h"];

#[test]
fn an_agent_is_asked_for_by_name_with_what_it_may_do_and_cost() {
    let home = Home::new();
    let words = "--agent claude --permissions deny --allow Read* --allow Bash:* --deny *push* --ask-expires 5m \
                 --turns 3 --tokens 9000 --money 1.50 fix the flaky test";
    let words: Vec<&str> = LATER.into_iter().chain(words.split_whitespace()).collect();
    let id = home.ok(&words);
    let job = home.json(&["show", &id]);
    let rule = |pattern: &str, permission: &str| json!({ "pattern": pattern, "permission": permission });
    let expected = json!({
        "provider": "claude",
        "prompt": "fix the flaky test",
        "permissions": {
            "rules": [rule("*push*", "deny"), rule("Read*", "allow"), rule("Bash:*", "allow")],
            "otherwise": "deny",
            "expires_ms": 300_000,
        },
    });
    assert_eq!((&job["agent"], &job["argv"]), (&expected, &json!([])));
    assert_eq!(job["title"], "claude: fix the flaky test");
    let limits = &job["limits"];
    let asked = (&limits["turns"], &limits["tokens"], &limits["money_micros"]);
    assert_eq!(asked, (&json!(3), &json!(9000), &json!(1_500_000)));
}

#[test]
fn a_prompt_comes_from_standard_input_too() {
    let home = Home::new();
    for dash in [&[][..], &["-"]] {
        let words: Vec<&str> = LATER.iter().chain(&["--agent", "codex"]).chain(dash).copied().collect();
        let said = with_input(&home, &words, "fix it\nand test it\n");
        assert_eq!(said.code, 0, "{said:?}");
        let job = home.json(&["show", said.stdout.trim_end()]);
        assert_eq!(job["agent"]["prompt"], "fix it\nand test it\n");
        assert_eq!(with_input(&home, &words, " \n").code, 2);
    }
}

#[test]
fn an_agent_that_nobody_knows_is_met_with_those_that_are_known() {
    let home = Home::new();
    define(&home, "[mine]\ndialect = 'acp'\ncommand = ['mine']\n");
    let said = home.run(&["run", "--agent", "cluade", "do it"]);
    assert_eq!(said.code, 2, "{said:?}");
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert!(lines[0].contains("there is no agent `cluade`: there is claude, codex"), "{said:?}");
    assert!(lines[0].contains("mine") && lines[1].contains("did you mean `claude`?"), "{said:?}");
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "", "nothing was begun");
    define(&home, "[mine]\ndialect = 'klingon'\ncommand = ['mine']\n");
    let said = home.run(&["run", "--agent", "claude", "do it"]);
    assert!(said.code == 2 && said.stderr.contains("agents.toml"), "{said:?}");
    assert!(said.stderr.contains("klingon"), "{said:?}");
}
