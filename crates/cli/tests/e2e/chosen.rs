//! What a user chooses for an agent: its model, its arguments, its environment, limits that hold, and what it may do for good.

use crate::agents::{define, define_agent, until_asks};
use crate::home::{Home, until};

/// Arguments of a job that is only recorded, because it waits.
const LATER: [&str; 4] = ["run", "-d", "--delay", "1h"];

fn later(home: &Home, words: &[&str]) -> crate::home::Output {
    home.run(&[&LATER, words].concat())
}

#[test]
fn a_model_an_effort_and_arguments_reach_the_agent() {
    let home = Home::new();
    let script = "printf '%s\\n' \"$@\" > given";
    let command = format!("['sh', '-c', {}, 'it', '--', '{{prompt}}']", serde_json::Value::from(script));
    define(
        &home,
        &format!(
            "[mine]\ndialect = 'plain'\ncommand = {command}\nmodel = ['--model={{}}']\n[mine.refused]\n'--free' = 'it is not'\n"
        ),
    );
    let words = ["run", "--agent", "mine", "--model", "m1", "fix", "it", "--", "--add-dir", "x y"];
    let output = home.run(&words);
    assert_eq!(output.code, 0, "{output:?}");
    let given = std::fs::read_to_string(home.work().join("given")).unwrap();
    assert_eq!(given, "--model=m1\n--add-dir\nx y\n--\nfix it\n");
    let job = home.json(&["show", "@last"]);
    assert_eq!(job["agent"]["model"], "m1");
    let output = home.run(&["run", "--agent", "mine", "--effort", "high", "fix"]);
    assert!(output.code == 2 && output.stderr.contains("its effort cannot be chosen"), "{output:?}");
    let output = home.run(&["run", "--agent", "mine", "fix", "--", "--free"]);
    assert!(output.code == 2 && output.stderr.contains("`--free` is refused: it is not"), "{output:?}");
    let output = later(&home, &["--agent", "claude", "fix", "--", "--dangerously-skip-permissions"]);
    assert!(output.code == 2 && output.stderr.contains("`--dangerously-skip-permissions`"), "{output:?}");
    assert_eq!(home.ok(&["ls", "-a", "-q"]).lines().count(), 1, "nothing else was started");
}

#[test]
fn a_rule_that_would_never_match_is_refused_with_what_to_write() {
    let home = Home::new();
    for (agent, rule, instead) in [
        ("claude", "Bash(git *)", "write `Bash: git *`"),
        ("claude", "execute: git *", "write `Bash: git *`"),
        ("codex", "Bash: git *", "write `commandExecution: git *`"),
        ("codex", "prefix_rule(pattern=[\"git\"])", "write `commandExecution: git *`"),
        ("gemini", "run_shell_command(git)", "write `execute: git *`"),
        ("opencode", "bash: git *", "write `execute: git *`"),
        ("goose", "developer__shell", "write `execute: *`"),
        ("goose", "wirte: *", "such as execute"),
    ] {
        for flag in ["--allow", "--deny"] {
            let output = later(&home, &["--agent", agent, flag, rule, "go"]);
            let is_named = output.stderr.contains(&format!("`{agent}`: the rule `{rule}`"));
            assert!(output.code == 2 && is_named && output.stderr.contains(instead), "{rule}: {output:?}");
        }
    }
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "", "nothing was started");
    for (agent, rule) in [
        ("claude", "Bash: git *"),
        ("claude", "mcp__air__book"),
        ("codex", "fileChange"),
        ("goose", "write: *"),
        ("opencode", "read: /etc/*"),
    ] {
        assert_eq!(later(&home, &["--agent", agent, "--allow", rule, "go"]).code, 0, "{rule}");
    }
}

#[test]
fn a_secret_of_an_agent_is_another_one_at_each_start_and_is_not_stored() {
    let home = Home::new();
    let command = "['sh', '-c', 'echo \"$DOOR\" >> given', 'it', '{prompt}']";
    define(&home, &format!("[mine]\ndialect = 'plain'\ncommand = {command}\nsecrets = ['DOOR']\n"));
    home.ok(&["run", "--agent", "mine", "go"]);
    home.ok(&["retry", "@last"]);
    home.ok(&["wait", "@last"]);
    let given = std::fs::read_to_string(home.work().join("given")).unwrap();
    let secrets: Vec<&str> = given.lines().collect();
    assert!(secrets.len() == 2 && secrets[0] != secrets[1] && secrets[0].len() == 64, "{given}");
    for secret in secrets {
        let mut grep = std::process::Command::new("grep");
        let found = grep.args(["-rl", secret]).args([home.state(), home.worker()]).output().unwrap();
        assert!(found.stdout.is_empty(), "{found:?}");
    }
}

#[test]
fn c90_a_limit_that_could_not_stop_an_agent_is_refused() {
    let home = Home::new();
    for words in [
        &["--agent", "gemini", "--tokens", "5", "go"][..],
        &["--agent", "opencode", "--money", "5", "go"],
        &["--agent", "claude", "--model", "claude-of-tomorrow", "--money", "5", "go"],
    ] {
        let output = later(&home, words);
        assert!(output.code == 2 && output.stderr.contains("could not stop it"), "{words:?} {output:?}");
    }
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "", "nothing was started");
    // With a price of the user's own, the model can be limited.
    std::fs::write(home.state().join("prices.toml"), "[models]\nclaude-of-tomorrow = { in = 1, out = 2 }\n")
        .unwrap();
    let words = ["--agent", "claude", "--model", "claude-of-tomorrow", "--money", "5", "go"];
    assert_eq!(later(&home, &words).code, 0);
    let id = home.ok(&[&LATER, &["--agent", "gemini", "go"][..]].concat());
    let output = home.run(&["limit", &id, "tokens=5"]);
    assert!(output.code == 2 && output.stderr.contains("could not stop it"), "{output:?}");
}

#[test]
fn prices_are_shown_with_their_source_and_the_users_own_take_precedence() {
    let home = Home::new();
    let all = home.ok(&["prices"]);
    assert!(
        all.contains("claude-opus-5-5") && all.contains("litellm") && all.contains("prices.toml"),
        "{all}"
    );
    let one = home.json(&["prices", "anthropic/claude-opus-5-5-20261001"]);
    assert_eq!((&one["models"][0]["in"], &one["models"][0]["own"]), (&4.0.into(), &false.into()));
    let output = home.run(&["prices", "no-such-model"]);
    assert!(output.code == 2 && output.stderr.contains("prices.toml"), "{output:?}");
    define(&home, "");
    std::fs::write(home.state().join("prices.toml"), "[models]\n'claude-opus-5-5' = { in = 7, out = 8 }\n")
        .unwrap();
    let one = home.json(&["prices", "claude-opus-5-5"]);
    assert_eq!((&one["models"][0]["in"], &one["models"][0]["own"]), (&7.0.into(), &true.into()));
    std::fs::write(home.state().join("prices.toml"), "[models]\nx = { in = -7, out = 8 }\n").unwrap();
    let output = home.run(&["prices"]);
    assert!(
        output.code == 2 && output.stderr.contains("prices.toml") && output.stderr.contains("`x`"),
        "{output:?}"
    );
}

#[test]
fn variables_come_from_a_file_and_never_from_an_argument() {
    let home = Home::new();
    let file = home.work().join("secrets");
    std::fs::write(&file, "# mine\nTOKEN=hunter2 = x\n").unwrap();
    let file = file.to_str().unwrap();
    let said = home.ok(&["run", "--env-file", file, "--env", "TOKEN", "--", "sh", "-c", "echo $TOKEN"]);
    assert_eq!(said, "hunter2 = x");
    let output = home.run(&["run", "--env", "TOKEN=hunter2", "--", "true"]);
    assert!(output.code == 2 && output.stderr.contains("--env-file"), "{output:?}");
    let output = home.run(&["run", "--env", "NO_SUCH_VARIABLE", "--", "true"]);
    assert!(output.code == 2 && output.stderr.contains("NO_SUCH_VARIABLE"), "{output:?}");
    std::fs::write(file, "hunter2\n").unwrap();
    let output = home.run(&["run", "--env-file", file, "--", "true"]);
    assert!(
        output.code == 2 && output.stderr.contains("line 1") && !output.stderr.contains("hunter2"),
        "{output:?}"
    );
}

#[test]
fn what_is_allowed_for_good_is_not_asked_again_until_the_rule_is_removed() {
    let home = Home::new();
    define_agent(&home);
    let id = home.ok(&[
        "run",
        "-d",
        "--agent",
        "echo",
        "--name",
        "maker",
        "ask make test\nask make test\nask make clean",
    ]);
    let asked = until_asks(&home, &id, 3);
    home.ok(&["approve", "maker", asked[0]["id"].as_str().unwrap(), "--always"]);
    // The second one is the same, and the third is not.
    let left = until_asks(&home, &id, 1);
    assert_eq!(left[0]["request"], "make clean");
    let rules = home.ok(&["rule", "ls", "maker"]);
    assert!(rules.contains("r1  execute") && rules.contains("│ make test"), "{rules}");
    let by = |event: &serde_json::Value| {
        (event["type"] == "answer_requested").then(|| event["data"]["by"].clone())
    };
    let answers = until("both are answered", || {
        let events = home.ok(&["events", "maker", "--json"]);
        let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let answers: Vec<_> = events.filter_map(|event| by(&event)).collect();
        (answers.len() == 2).then_some(answers)
    });
    assert_eq!(answers[1], "rule r1");
    let output = home.run(&["rule", "rm", "maker", "r2"]);
    assert!(output.code == 125 && output.stderr.contains("no rule of that name"), "{output:?}");
    home.ok(&["rule", "rm", "maker", "r1"]);
    assert_eq!(home.json(&["rule", "ls", "maker"])["items"], serde_json::json!([]));
    home.ok(&["deny", "maker", left[0]["id"].as_str().unwrap()]);
    home.ok(&["wait", "maker"]);
}
