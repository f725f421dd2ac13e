//! Codex: turns that did not complete are forgotten before a thread goes on.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::Driver;
use lastword_agents::{Goals, Start};
use lastword_core::spec::{Dialect, Permission};
use serde_json::json;

/// Returns a thread that is open and is to forget what follows turn `m`.
fn forgetful(fork: bool) -> (Driver, serde_json::Value) {
    let (resume, forget_after) = (Some("t".to_owned()), Some("m".to_owned()));
    let mut start = Start { prompt: "go on".to_owned(), resume, forget_after, fork, ..Start::default() };
    start.permissions.otherwise = Permission::Allow;
    let mut driver = Driver::new(Dialect::Codex, start);
    driver.write_all(&Goals::default());
    driver.read(r#"{"id":1,"result":{}}"#);
    driver.write_next(&Goals::default());
    let opening = driver.write_next(&Goals::default()).expect("it opens a thread");
    driver.read(r#"{"id":2,"result":{"thread":{"id":"t"}}}"#);
    (driver, opening)
}

const TURNS: &str = r#"{"id":3,"result":{"data":[{"id":"z"},{"id":"g"},{"id":"m"},{"id":"l"}]}}"#;

#[test]
fn c91_turns_that_did_not_complete_are_reverted_before_the_prompt() {
    let (mut driver, opening) = forgetful(false);
    assert_eq!(
        (&opening["method"], &opening["params"]["lastTurnId"]),
        (&json!("thread/resume"), &json!(null))
    );
    assert_eq!(driver.transcript(), "", "the session begins when they are forgotten");
    let list = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(list["method"], "thread/turns/list");
    assert_eq!(list["params"], json!({ "threadId": "t", "sortDirection": "desc" }));
    assert_eq!(driver.write_next(&Goals::default()), None);
    driver.read(TURNS);
    let revert = driver.write_next(&Goals::default()).unwrap();
    assert_eq!(revert["method"], "thread/revert");
    assert_eq!(revert["params"], json!({ "threadId": "t", "beforeTurnId": "g" }));
    assert_eq!(driver.write_next(&Goals::default()), None);
    driver.read(r#"{"id":4,"result":{}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["turn/start"]);
    assert_eq!(driver.transcript(), "session t from t\nturn");
}

#[test]
fn c91_nothing_is_reverted_if_the_last_turn_completed() {
    let (mut driver, _) = forgetful(false);
    driver.write_next(&Goals::default());
    driver.read(r#"{"id":3,"result":{"data":[{"id":"m"},{"id":"l"}]}}"#);
    assert_eq!(driver.write_all(&Goals::default()), ["turn/start"]);
}

/// A thread of an earlier version cannot be reverted, and a list may be without the turn.
#[test]
fn c91_what_cannot_be_reverted_is_left_out_of_a_copy() {
    for (list, revert) in [
        (TURNS, Some(r#"{"id":4,"error":{"code":-32600,"message":"only supports paginated threads"}}"#)),
        (r#"{"id":3,"result":{"data":[{"id":"z"}]}}"#, None),
        (r#"{"id":3,"error":{"code":-32600,"message":"unknown"}}"#, None),
    ] {
        let (mut driver, _) = forgetful(false);
        driver.write_next(&Goals::default());
        driver.read(list);
        if let Some(refused) = revert {
            driver.write_next(&Goals::default());
            driver.read(refused);
        }
        let copy = driver.write_next(&Goals::default()).unwrap();
        assert_eq!((&copy["method"], &copy["params"]["lastTurnId"]), (&json!("thread/fork"), &json!("m")));
        let mut failing = driver.clone();
        driver.read(&format!(r#"{{"id":{},"result":{{"thread":{{"id":"u"}}}}}}"#, copy["id"]));
        assert_eq!(driver.write_all(&Goals::default()), ["turn/start"]);
        assert_eq!(driver.transcript(), "session u from t\nturn");
        failing.read(&format!(r#"{{"id":{},"error":{{"message":"no such turn"}}}}"#, copy["id"]));
        assert!(failing.transcript().contains("could not forget what did not complete: no such turn"));
        assert_eq!(failing.write_next(&Goals::default()), None, "the model is asked nothing");
    }
}

#[test]
fn c91_a_fork_is_made_without_turns_that_did_not_complete() {
    let (mut driver, opening) = forgetful(true);
    assert_eq!((&opening["method"], &opening["params"]["lastTurnId"]), (&json!("thread/fork"), &json!("m")));
    assert_eq!(driver.write_all(&Goals::default()), ["turn/start"]);
}
