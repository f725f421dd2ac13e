//! Agents that stay open between turns: one process over many turns, without a slot between them.

use serde_json::{Value, json};

use crate::agents::{endings, start, with_agent};
use crate::home::{Home, until};

/// Starts an agent that stays open, in a group of one slot.
fn open(home: &Home, name: &str, idle: &str, prompt: &str) -> String {
    home.ok(&["group", "set", "talks", "--slots", "1"]);
    start(home, &["--name", name, "-g", "talks", "--idle", idle, prompt])
}

fn until_idle(home: &Home, job: &str, turns: usize) -> Value {
    until("it is idle", || {
        let shown = home.json(&["show", job]);
        assert_ne!(shown["phase"], "ended", "{shown}");
        (shown["phase"] == "idle" && endings(&shown).len() == turns).then_some(shown)
    })
}

fn leader(job: &Value) -> &Value {
    &job["attempts"][0]["tree"]["pid"]
}

#[test]
fn c93_an_open_agent_takes_its_next_message_in_the_same_process_and_holds_no_slot_between() {
    let home = with_agent();
    let id = open(&home, "docs", "1h", "hello");
    let first = until_idle(&home, "docs", 1);
    assert_eq!((&first["session"]["active_turn"], &first["waits"]), (&Value::Null, &Value::Null));
    assert!(home.ok(&["ls"]).contains("idle"), "{}", home.ok(&["ls"]));
    assert!(home.ok(&["ls", "--phase", "idle"]).contains("docs"));
    // The slot is free for others.
    let other = home.ok(&["run", "-d", "-g", "talks", "sleep", "1000"]);
    home.until_phase(&other, "running");
    // And what is said now waits for it.
    home.ok(&["send", "docs", "second"]);
    let waits = home.json(&["show", "docs"]);
    assert_eq!((&waits["phase"], &waits["waits"]["for"]), (&json!("idle"), &json!("slot")));
    assert_eq!(waits["waits"]["by"][0]["id"], other);
    assert!(home.ok(&["show", "docs"]).contains("waiting for the slot of its group"));
    assert!(home.ok(&["ls"]).contains("idle, slot of talks"), "{}", home.ok(&["ls"]));
    home.ok(&["cancel", &other]);
    let second = until_idle(&home, "docs", 2);
    assert_eq!((&second["id"], leader(&second)), (&json!(id), leader(&first)), "the same job and process");
    home.ok(&["send", "docs", "third"]);
    let third = until_idle(&home, "docs", 3);
    assert_eq!(endings(&third), ["completed"; 3]);
    let said = home.ok(&["logs", "docs"]);
    for text in ["hello", "second", "third"] {
        assert_eq!(said.matches(&format!("did: {text}\n")).count(), 1, "{said}");
    }
    // A person ends it, and its work stands.
    home.ok(&["cancel", "docs"]);
    let ended = home.json(&["show", "docs"]);
    assert_eq!((&ended["outcome"], &ended["cause"]), (&json!("completed"), &json!("user")), "{ended}");
    assert!(home.ok(&["show", "docs"]).contains("completed: ended while idle"));
}

#[test]
fn c93_an_open_agent_is_ended_by_its_idle_time_and_says_so() {
    let home = with_agent();
    open(&home, "docs", "300ms", "hello");
    home.ok(&["wait", "docs"]);
    let ended = home.json(&["show", "docs"]);
    assert_eq!((&ended["outcome"], &ended["cause"]), (&json!("completed"), &json!("limit_idle")), "{ended}");
    let shown = home.ok(&["show", "docs"]);
    assert!(shown.contains("completed: idle too long"), "{shown}");
    // It goes on as another job, which stays open as well.
    let sent = home.json(&["send", "docs", "more"]);
    let next = sent["job"].as_str().unwrap();
    home.ok(&["wait", next]);
    assert_eq!(home.json(&["show", next])["cause"], "limit_idle");
}

/// Between turns and in them, the daemon may die: every turn happens once.
#[test]
fn c93_turns_survive_the_daemon() {
    let home = with_agent();
    open(&home, "docs", "1h", "turn 0");
    let first = until_idle(&home, "docs", 1);
    for turn in 1..=4 {
        home.kill_daemon();
        home.ok(&["send", "docs", &format!("turn {turn}")]);
        if turn % 2 == 0 {
            // Before it is idle again, most often.
            home.kill_daemon();
        }
        until_idle(&home, "docs", turn + 1);
    }
    let last = home.json(&["show", "docs"]);
    assert_eq!((endings(&last).len(), leader(&last)), (5, leader(&first)));
    let said = home.ok(&["logs", "docs"]);
    for turn in 0..=4 {
        assert_eq!(said.matches(&format!("did: turn {turn}\n")).count(), 1, "{said}");
    }
}

#[test]
fn c93_an_agent_that_cannot_stay_open_is_refused() {
    let home = with_agent();
    crate::agents::define(&home, "[plain]\ndialect = 'plain'\ncommand = ['cat', '{prompt}']\n");
    let refused = home.run(&["run", "-d", "--agent", "plain", "--idle", "1h", "hello"]);
    assert!(refused.code == 2 && refused.stderr.contains("cannot stay open between turns"), "{refused:?}");
}
