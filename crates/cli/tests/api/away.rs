//! An unavailable journal: nothing is acknowledged that could not be made durable. And a daemon that is not ready yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lastword_store::sqlite::Sqlite;
use serde_json::{Value, json};

use super::{Answer, Home, each, id_of, leader};
use crate::common::until;
use crate::engine::faulty::{Faulty, RENEWALS};

fn faulty(home: &Home) -> Faulty {
    Faulty::new(Sqlite::open(&home.path("journal")).unwrap())
}

fn unavailable(answer: &Answer) {
    assert_eq!(answer.problem(), (503, "unavailable".to_owned()));
    assert_eq!((&answer.json()["retryable"], answer.headers["retry-after"].as_str()), (&json!(true), "1"));
}

#[test]
fn c3_a_request_that_cannot_be_made_durable_fails_and_leaves_nothing() {
    let home = Home::new();
    let journal = faulty(&home);
    let daemon = home.start_with(journal.clone());
    daemon.until_ready();
    let mut asked = daemon.script("sleep 100");
    asked["io"] = json!({ "kind": "pipe" });
    let id = daemon.submit(&asked);
    let before = daemon.start_of(&id);
    let path = format!("/v1/jobs/{id}");
    journal.unwritable.store(true, Ordering::Relaxed);
    let text = json!({ "text": "hi\n" });
    for (method, path, body) in [
        ("POST", "/v1/jobs".to_owned(), asked.clone()),
        ("POST", format!("{path}/messages"), text),
        ("PATCH", format!("{path}/limits"), json!({ "wall_ms": 90_000 })),
    ] {
        unavailable(&daemon.client.request(method, &path, &[], body.to_string().as_bytes()));
    }
    journal.unwritable.store(false, Ordering::Relaxed);
    assert_eq!(daemon.client.get(&path).expect(200), before, "nothing was recorded");
    assert_eq!(each(&daemon.client.get("/v1/jobs").expect(200), "id"), [id.as_str()]);
}

#[test]
fn c85_a_cancel_that_cannot_be_stored_is_held_by_the_keeper() {
    let home = Home::new();
    let journal = faulty(&home);
    let daemon = home.start_with(journal.clone());
    daemon.until_ready();
    let id = daemon.run("sleep 100");
    let leader = leader(&daemon.start_of(&id));
    journal.unwritable.store(true, Ordering::Relaxed);
    let path = format!("/v1/jobs/{id}:cancel");
    let held: Value = daemon.client.request("POST", &path, &[], br#"{"force":true}"#).expect(202);
    assert_eq!(held["stop"]["held_in"], "disk", "{held}");
    until("the leader is gone", || (!leader.is_alive()).then_some(()));
    unavailable(&daemon.client.request("POST", "/v1/jobs:cancel", &[], br#"{"all":true}"#));
    journal.unwritable.store(false, Ordering::Relaxed);
    let ended = daemon.end_of(&id);
    assert_eq!((&ended["outcome"], &ended["cause"]), (&json!("cancelled"), &json!("user")), "{ended}");
}

#[test]
fn c39_a_key_recorded_before_its_job_still_yields_that_job() {
    let home = Home::new();
    let journal = faulty(&home);
    let daemon = home.start_with(journal.clone());
    daemon.until_ready();
    let body = daemon.script("exit 0").to_string();
    let submit = || daemon.client.request("POST", "/v1/jobs", &[("idempotency-key", "k")], body.as_bytes());
    journal.unwritable.store(true, Ordering::Relaxed);
    unavailable(&submit());
    journal.unwritable.store(false, Ordering::Relaxed);
    let job: Value = submit().expect(202);
    let again = submit();
    assert_eq!(
        (id_of(&again.expect(202)), &again.headers["idempotency-replayed"]),
        (id_of(&job), &"true".to_owned())
    );
    assert_eq!(each(&daemon.client.get("/v1/jobs").expect(200), "id"), [id_of(&job)]);
}

#[test]
fn a_daemon_that_is_not_ready_answers_only_for_itself() {
    let home = Home::new();
    let journal = faulty(&home);
    let renewals = Arc::clone(&journal.renewals);
    let all = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let held = all.block_on(renewals.acquire_many(RENEWALS)).ok();
    let daemon = home.start_with(journal.clone());
    assert_eq!(daemon.client.get("/livez").status, 204);
    assert_eq!(daemon.client.get("/v1/daemon").expect(200)["ready"], false);
    for (method, path) in
        [("GET", "/readyz"), ("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/v1/events")]
    {
        let answer = daemon.client.request(method, path, &[], b"");
        assert_eq!(answer.problem(), (503, "starting".to_owned()), "{method} {path}");
    }
    drop(held);
    daemon.until_ready();
    assert_eq!(daemon.client.get("/v1/jobs").status, 200);
}

#[test]
fn a_daemon_whose_journal_does_not_answer_can_be_stopped() {
    for is_ready in [false, true] {
        let home = Home::new();
        let journal = faulty(&home);
        let all = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let renewals = Arc::clone(&journal.renewals);
        let hold = || all.block_on(renewals.acquire_many(RENEWALS)).ok();
        let held = (!is_ready).then(hold);
        let mut daemon = home.start_with(journal.clone());
        if is_ready {
            daemon.until_ready();
        }
        let held = held.unwrap_or_else(hold);
        let answer = daemon.client.post("/v1/daemon:stop", &json!({ "jobs": "keep" }));
        assert_eq!(answer.status, 202, "{answer:?}");
        daemon.until_stopped();
        drop(held);
    }
}
