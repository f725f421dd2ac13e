//! An agent whose provider refuses to answer: its job waits without a process, and goes on once.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::agents::define;
use crate::home::{Home, until};

/// Defines an agent whose provider answers from then on, in so many seconds.
fn limited(home: &Home, in_s: f64) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_quota.py");
    let agent = "dialect = 'acp'\ntells_refusals = true";
    let deaf = "dialect = 'acp'";
    let text = |name: &str, how: &str| format!("[{name}]\n{how}\ncommand = ['python3', '{script}']\n");
    define(home, &(text("limited", agent) + &text("deaf", deaf)));
    // One slot: jobs that wait hold none, and those that go on come one after the other.
    home.ok(&["group", "set", "many", "--slots", "1"]);
    resets(home, in_s);
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn resets(home: &Home, in_s: f64) -> f64 {
    let at = now_s() + in_s;
    std::fs::write(home.work().join("reset"), at.to_string()).unwrap();
    at
}

fn prompts(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.work().join("prompts")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn start(home: &Home, name: &str, more: &[&str]) -> String {
    let words = ["run", "-d", "-g", "many", "--agent", "limited", "--name", name];
    home.ok(&[&words[..], more, &["do it"]].concat())
}

fn until_waits(home: &Home, id: &str) -> Value {
    until("it waits for its provider", || {
        let job = home.json(&["show", id]);
        assert_ne!(job["phase"], "ended", "{job}");
        (job["waits"]["for"] == "quota").then_some(job)
    })
}

/// The first one tries after the time that the provider named, the others follow in their order, and each prompt is answered once.
#[test]
fn c95_jobs_wait_for_the_quota_of_their_account_and_go_on_once_in_their_order() {
    let home = Home::new();
    limited(&home, 1_000.0);
    let names = ["one", "two", "three", "four"];
    let ids = names.map(|name| {
        let id = start(&home, name, &["--wait-for-quota"]);
        let job = until_waits(&home, &id);
        assert_eq!((&job["phase"], &job["stop"]), (&json!("backoff"), &Value::Null));
        id
    });
    assert!(home.ok(&["show", "one"]).contains("quota used up; it goes on in"));
    assert!(home.ok(&["ls"]).contains("quota"));
    // What they wait for is in the journal: another daemon knows it.
    home.kill_daemon();
    for id in &ids {
        until_waits(&home, id);
    }
    home.ok(&["cancel", "four"]);
    assert_eq!(home.json(&["show", "four"])["outcome"], "cancelled");
    assert_eq!(prompts(&home).len(), 4, "each was sent once");

    // A provider that answers earlier than it said is not asked before.
    resets(&home, 0.0);
    let early = start(&home, "early", &["--wait-for-quota"]);
    home.ok(&["wait", &early]);
    assert_eq!(prompts(&home).len(), 5);
    assert_eq!(home.json(&["show", "one"])["phase"], "backoff");
}

#[test]
fn c95_after_the_reset_one_tries_first_and_the_others_follow() {
    let home = Home::new();
    limited(&home, 0.0);
    let reset = resets(&home, 3.0);
    let ids = ["one", "two", "three"].map(|name| {
        let id = start(&home, name, &["--wait-for-quota"]);
        until_waits(&home, &id);
        id
    });
    for id in &ids {
        home.ok(&["wait", id]);
        assert_eq!(home.json(&["show", id])["outcome"], "completed");
    }
    let sent = prompts(&home);
    let (refused, answered): (Vec<_>, Vec<_>) = sent.iter().partition(|sent| sent["answered"] == false);
    assert_eq!(refused.len(), 3, "nothing is sent while they wait: {sent:?}");
    assert!(answered.iter().all(|sent| sent["at"].as_f64().unwrap() >= reset));
    let order: Vec<&str> = answered.iter().map(|sent| sent["job"].as_str().unwrap()).collect();
    assert_eq!(order, ids, "in the order in which they began to wait, each once");
    assert!(
        answered.iter().all(|sent| sent["text"] == "do it"),
        "what was not answered is sent again: {sent:?}"
    );
    // A wait is no try: the job had one attempt to itself.
    assert_eq!(home.json(&["show", "one"])["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn c95_a_wait_is_bounded_and_asked_for() {
    let home = Home::new();
    limited(&home, 3_600.0);
    for (name, more, said) in [
        ("bounded", &["--wait-for-quota=10m"][..], "which is longer than it may wait"),
        ("unasked", &[], "Suggested retry after"),
    ] {
        let id = start(&home, name, more);
        let failed = home.run(&["wait", &id]);
        assert_eq!(failed.code, 1, "{failed:?}");
        let job = home.json(&["show", &id]);
        let error = job["attempts"][0]["error"].as_str().unwrap();
        assert!(job["outcome"] == "failed" && error.contains(said), "{error}");
    }
    let deaf = home.run(&["run", "-d", "--agent", "deaf", "--wait-for-quota", "do it"]);
    assert_eq!(deaf.code, 2, "{deaf:?}");
    assert!(deaf.stderr.contains("does not say when its quota is used up"), "{deaf:?}");
}
