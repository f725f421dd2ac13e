//! One-shot agents, whose prompt is an argument: the events they report count, and they take no input. They are scripts of these tests
//! that read their input to its end and then print their prompt.

use serde_json::json;

use crate::home::{Home, until};

/// One that exits with 0, one that fails, and some that keep running.
const KNOWN: &str = r#"
[well]
dialect = "once"
command = ["sh", "-c", "cat; printf '%s\n' \"$1\"", "sh", "{prompt}"]
resume = ["--resume", "{}"]
[ill]
dialect = "once"
command = ["sh", "-c", "cat; printf '%s\n' \"$1\"; exit 3", "sh", "{prompt}"]
[waits]
dialect = "once"
command = ["sh", "-c", "printf '%s\n' \"$1\"; while ! test -e go; do sleep 0.02; done; echo >> gone", "sh", "{prompt}"]
[stays]
dialect = "once"
command = ["sh", "-c", "cat; printf '%s\n' \"$1\"; exec sleep 1000", "sh", "{prompt}"]
[long]
dialect = "once"
command = ["python3", "-c", """
import json, sys
text = "x" * int(sys.argv[1]) + "\\nthe end"
print(json.dumps({"type": "thread.started", "thread_id": "t1"}))
print(json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": text}}))
print(json.dumps({"type": "turn.completed", "usage": {"input_tokens": 10, "output_tokens": 2}}))
""", "{prompt}"]
"#;

const BEGUN: &str = r#"{"type":"thread.started","thread_id":"t1"}"#;
const MESSAGE: &str = r#"{"type":"item.completed","item":{"type":"agent_message","text":"all green"}}"#;
const DONE: &str = r#"{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":2}}"#;
const LAST_STEP: &str = r#"{"type":"step_finish","sessionID":"s1","part":{"reason":"stop"}}"#;

fn with_agents() -> Home {
    let home = Home::new();
    crate::agents::define(&home, KNOWN);
    home
}

/// Runs an agent that prints these lines, and returns its job.
fn ended(home: &Home, agent: &str, lines: &[&str]) -> serde_json::Value {
    let id = home.ok(&["run", "-d", "--agent", agent, "--", &lines.join("\n")]);
    home.run(&["wait", &id]);
    home.json(&["show", &id])
}

#[test]
fn a_rule_that_cannot_be_enforced_is_refused() {
    let home = with_agents();
    for rule in [["--permissions", "deny"], ["--allow", "*"], ["--ask-expires", "5m"]] {
        let output = home.run(&[&["run", "-d", "--agent", "well"], &rule[..], &["--", "x"]].concat());
        assert!(
            output.code == 2 && output.stderr.contains("never asks for permission"),
            "{rule:?}: {output:?}"
        );
    }
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "", "nothing was started");
}

#[test]
fn the_reported_end_of_a_turn_counts_and_not_the_exit_code() {
    let home = with_agents();
    for agent in ["well", "ill"] {
        let job = ended(&home, agent, &["a banner", BEGUN, MESSAGE, DONE]);
        assert_eq!(
            (&job["outcome"], &job["session"]["resume_reference"]),
            (&json!("completed"), &json!("t1"))
        );
        assert_eq!(home.ok(&["result", "@last"]), "all green");
        assert_eq!(job["session"]["turns"].as_array().map(Vec::len), Some(1), "{job}");
    }
    let failed = r#"{"type":"turn.failed","error":{"message":"out of luck"}}"#;
    let job = ended(&home, "well", &[BEGUN, failed]);
    assert_eq!(job["outcome"], "failed", "{job}");
    assert!(home.ok(&["show", "@last"]).contains("out of luck"), "{}", home.ok(&["show", "@last"]));
    // It never reported the end of its turn.
    for lines in [&[BEGUN, MESSAGE][..], &["not a word of JSON"]] {
        assert_eq!(ended(&home, "well", lines)["outcome"], "failed");
    }
}

#[test]
fn the_result_of_an_agent_without_a_message_is_not_its_protocol() {
    let home = with_agents();
    ended(&home, "ill", &["please log in", BEGUN, r#"{"type":"torn"#]);
    let output = home.run(&["result", "@last"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "please log in\n"), "{output:?}");
    assert!(output.stderr.starts_with("lastword: failed, exit 3"), "{output:?}");
    ended(&home, "ill", &[BEGUN]);
    let output = home.run(&["result", "@last"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output:?}");
    assert!(output.stderr.contains("lastword logs @last"), "{output:?}");
}

#[test]
fn a_long_message_is_the_whole_result_or_its_size_is_reported() {
    let home = with_agents();
    for size in [100 << 10, 200 << 10, 2 << 20] {
        let job = ended(&home, "long", &[&size.to_string()]);
        assert_eq!(job["outcome"], "completed", "{job}");
        let result = home.json(&["result", "@last"]);
        assert_eq!(result["text"].as_str().map(str::len), Some(size + "\nthe end".len()));
        assert_eq!(result["text_skipped"], 0);
        let shown = home.ok(&["show", "@last"]);
        let (_, last) = shown.split_once("Last lines of output").expect("it has output");
        assert!(last.contains("the end"), "{size}");
    }
    ended(&home, "long", &["5000000"]);
    let output = home.run(&["result", "@last"]);
    assert!(output.stderr.starts_with("lastword: the first "), "{:?}", output.stderr);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "its protocol is no result");
}

#[test]
fn without_an_end_event_the_exit_ends_the_turn() {
    let home = with_agents();
    assert_eq!(ended(&home, "well", &[LAST_STEP])["outcome"], "completed");
    let job = ended(&home, "ill", &[LAST_STEP]);
    assert_eq!(
        (&job["outcome"], &job["session"]["turns"][0]["ending"]),
        (&json!("failed"), &json!("failed"))
    );
    let shown = home.ok(&["show", "@last"]);
    assert!(shown.contains("the agent exited with status 3 after its last step"), "{shown}");
}

#[test]
fn an_exit_while_no_daemon_runs_counts() {
    let home = with_agents();
    let id = home.ok(&["run", "-d", "--agent", "waits", LAST_STEP]);
    until("it works", || (home.json(&["show", &id])["session"]["active_turn"] == 1).then_some(()));
    home.kill_daemon();
    std::fs::write(home.work().join("go"), "").unwrap();
    until("it is gone", || home.work().join("gone").exists().then_some(()));
    home.ok(&["wait", &id]);
    let job = home.json(&["show", &id]);
    assert_eq!(
        (&job["outcome"], &job["session"]["turns"][0]["ending"]),
        (&json!("completed"), &json!("completed"))
    );
    assert_eq!(job["session"]["turns"].as_array().map(Vec::len), Some(1), "{job}");
}

#[test]
fn a_one_shot_agent_takes_no_input_and_can_be_cancelled() {
    let home = with_agents();
    let id = home.ok(&["run", "-d", "--agent", "stays", BEGUN]);
    until("it works", || (home.json(&["show", &id])["session"]["active_turn"] == 1).then_some(()));
    for words in [&["send", &id, "more"][..], &["send", &id, "--steer", "more"]] {
        let output = home.run(words);
        assert!(output.code == 125 && output.stderr.contains("takes a single prompt"), "{output:?}");
    }
    let output = home.run(&["interrupt", &id]);
    assert!(output.code == 125 && output.stderr.contains("`lastword cancel`"), "{output:?}");
    let output = home.run(&["answer", &id, "q1", "yes"]);
    assert!(output.code == 125 && output.stderr.contains("no open question"), "{output:?}");
    home.ok(&["cancel", &id]);
    let job = home.json(&["show", &id]);
    assert_eq!(
        (&job["outcome"], &job["session"]["turns"][0]["ending"]),
        (&json!("cancelled"), &json!("cancelled"))
    );
    let refused = home.run(&["resume", "-d", &id, "go on"]);
    assert!(
        refused.code == 125 && refused.stderr.contains("cannot be resumed: its definition has no `resume`"),
        "{refused:?}"
    );
}
