//! Idempotency keys: one key, one job, even for concurrent requests and after a crash.

use serde_json::{Value, json};

use super::{Answer, Daemon, Home, each, id_of};
use crate::common::until;

fn submit(daemon: &Daemon, key: &str, asked: &Value) -> Answer {
    daemon.client.request("POST", "/v1/jobs", &[("idempotency-key", key)], asked.to_string().as_bytes())
}

fn jobs(daemon: &Daemon) -> usize {
    each(&daemon.client.get("/v1/jobs").expect(200), "id").len()
}

#[test]
fn a_repeated_request_returns_the_same_job_and_says_so() {
    let home = Home::new();
    let daemon = home.start();
    let asked = daemon.script("exit 0");
    let first = submit(&daemon, "k1", &asked);
    assert!(!first.headers.contains_key("idempotency-replayed"));
    let id = id_of(&first.expect(202));
    let again = submit(&daemon, "k1", &asked);
    assert_eq!(
        (id_of(&again.expect(202)), again.headers["idempotency-replayed"].as_str()),
        (id.clone(), "true")
    );
    daemon.end_of(&id);
    let late = submit(&daemon, "k1", &asked).expect(202);
    assert_eq!(
        (id_of(&late), &late["phase"]),
        (id, &json!("ended")),
        "it is not run again even after its end"
    );
    assert_ne!(id_of(&submit(&daemon, "k2", &asked).expect(202)), id_of(&late));
    assert_eq!(jobs(&daemon), 2);
}

#[test]
fn another_request_with_the_same_key_is_refused() {
    let home = Home::new();
    let daemon = home.start();
    let id = id_of(&submit(&daemon, "k", &daemon.script("exit 0")).expect(202));
    let other = submit(&daemon, "k", &daemon.script("exit 1"));
    assert_eq!(other.problem(), (422, "key_reused".to_owned()));
    assert_eq!(other.json()["job"], json!(id));
    assert_eq!(jobs(&daemon), 1);
    let long = "x".repeat(300);
    for key in ["", &long] {
        assert_eq!(submit(&daemon, key, &daemon.script("exit 0")).problem(), (400, "invalid".to_owned()));
    }
}

/// The work of a key is not started a second time because its job was removed or pruned.
#[test]
fn c10_a_key_outlives_its_job() {
    let home = Home::new();
    let daemon = home.start();
    let asked = daemon.script("exit 0");
    let own = || {
        let id = lastword_core::JobId::new(0, lastword_core::Timestamp(1_794_700_800_000), [4; 10]);
        let mut asked = daemon.script("exit 0");
        asked["id"] = json!(id.to_string());
        asked
    };
    let removed = id_of(&submit(&daemon, "deploy-7", &asked).expect(202));
    let pruned = id_of(&submit(&daemon, "deploy-8", &asked).expect(202));
    let owned = daemon.submit(&own());
    let retry = || {
        let path = format!("/v1/jobs/{removed}:retry");
        daemon.client.request("POST", &path, &[("idempotency-key", "again")], b"{\"env\":{}}")
    };
    for id in [&removed, &pruned, &owned] {
        daemon.end_of(id);
    }
    let retried = id_of(&retry().expect(202));
    daemon.end_of(&retried);
    let remove = |id: &str| daemon.client.request("DELETE", &format!("/v1/jobs/{id}"), &[], b"").status;
    assert_eq!(remove(&retried), 204);
    assert_eq!(retry().problem(), (410, "removed".to_owned()));
    assert_eq!(remove(&removed), 204);
    let all = json!({ "older_than_ms": 0, "unread": true });
    daemon.client.post("/v1/jobs:prune", &all).expect(200);
    assert_eq!(jobs(&daemon), 0);

    for (key, id) in [("deploy-7", &removed), ("deploy-8", &pruned)] {
        let refused = submit(&daemon, key, &asked);
        assert_eq!(refused.problem(), (410, "removed".to_owned()));
        let problem = refused.json();
        let (detail, short) = (problem["detail"].as_str().unwrap(), &id[id.len() - 8..]);
        assert!(detail.starts_with(&format!("the key `{key}` belongs to {short}, which was removed at 2")));
        assert_eq!((&problem["job"], &problem["retryable"]), (&json!(id), &json!(false)), "{detail}");
    }
    assert_eq!(daemon.client.post("/v1/jobs", &own()).problem(), (410, "removed".to_owned()));
    assert_eq!(submit(&daemon, "x2", &own()).problem(), (410, "removed".to_owned()));
    daemon.leave();
    let daemon = home.start();
    assert_eq!(submit(&daemon, "deploy-7", &asked).problem(), (410, "removed".to_owned()));
    assert_eq!(jobs(&daemon), 0);
    submit(&daemon, "deploy-9", &asked).expect(202);
}

#[test]
fn a_key_does_not_stand_for_a_job_that_was_there_before() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    let mut asked = daemon.script("exit 1");
    asked["id"] = json!(id);
    for _ in 0..2 {
        assert_eq!(submit(&daemon, "k", &asked).problem(), (409, "conflict".to_owned()));
    }
    asked["id"] = json!(format!("{}{}", &id[..id.len() - 4], "zzzz"));
    let first = submit(&daemon, "k2", &asked).expect(202);
    assert_eq!(
        (id_of(&submit(&daemon, "k2", &asked).expect(202)), &first["id"]),
        (id_of(&first), &asked["id"])
    );
}

#[test]
fn c10_concurrent_requests_with_one_key_yield_one_job() {
    let home = Home::new();
    let daemon = home.start();
    let asked = daemon.script("exit 0");
    let ids = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..16).map(|_| scope.spawn(|| id_of(&submit(&daemon, "k", &asked).expect(202)))).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!((ids.len(), jobs(&daemon)), (1, 1));
}

#[test]
fn c39_a_key_recorded_before_a_crash_yields_one_job() {
    let home = Home::new();
    let daemon = home.start();
    let asked = daemon.script("exit 0");
    let id = id_of(&submit(&daemon, "k", &asked).expect(202));
    daemon.end_of(&id);
    daemon.leave();
    let daemon = home.start();
    assert_eq!(id_of(&submit(&daemon, "k", &asked).expect(202)), id);
    assert_eq!(submit(&daemon, "k", &daemon.script("exit 1")).problem(), (422, "key_reused".to_owned()));
    assert_eq!(jobs(&daemon), 1);
}

#[test]
fn a_client_chosen_id_yields_one_job() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("exit 0");
    asked["id"] =
        json!(lastword_core::JobId::new(0, lastword_core::Timestamp(1_794_700_800_000), [3; 10]).to_string());
    let id = daemon.submit(&asked);
    assert_eq!(asked["id"], json!(id));
    assert_eq!(daemon.submit(&asked), id);
    asked["argv"] = json!(["true"]);
    let taken = daemon.client.post("/v1/jobs", &asked);
    assert_eq!(taken.problem(), (409, "conflict".to_owned()));
    assert_eq!(taken.json()["retryable"], false);
}

#[test]
fn a_message_with_a_key_is_delivered_once() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("while read -r line; do echo got $line; done; echo over");
    asked["io"] = json!({ "kind": "pipe" });
    let id = daemon.submit(&asked);
    daemon.start_of(&id);
    let path = format!("/v1/jobs/{id}/messages");
    let say = |key: &str, text: &str, eof: bool| {
        let body = json!({ "text": text, "eof": eof }).to_string();
        daemon.client.request("POST", &path, &[("idempotency-key", key)], body.as_bytes())
    };
    let inputs = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8).map(|_| scope.spawn(|| say("a", "one\n", false).expect(202))).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()["input"].as_u64().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(inputs, [1; 8]);
    assert_eq!(say("a", "two\n", false).problem(), (422, "key_reused".to_owned()));
    assert_eq!(say("b", "one\n", false).expect(202)["input"], 2, "another key is another message");
    say("c", "", true).expect(202);
    daemon.end_of(&id);
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{id}/output")).text(), "got one\ngot one\nover\n");
}

#[test]
fn c10_a_retry_with_a_key_yields_one_job_even_if_its_reference_moves() {
    let home = Home::new();
    let daemon = home.start();
    let first = daemon.run("exit 3");
    daemon.end_of(&first);
    let retry = |key: &str| {
        let path = "/v1/jobs/@last:retry";
        daemon.client.request("POST", path, &[("idempotency-key", key)], b"{\"env\":{}}")
    };
    let new = id_of(&retry("k1").expect(202));
    assert_ne!(new, first);
    daemon.end_of(&new);
    let again = retry("k1");
    assert_eq!(
        (id_of(&again.expect(202)), again.headers["idempotency-replayed"].as_str()),
        (new.clone(), "true")
    );
    assert_eq!(jobs(&daemon), 2);
    let other = daemon.client.request(
        "POST",
        &format!("/v1/jobs/{first}:retry"),
        &[("idempotency-key", "k1")],
        b"{\"env\":{}}",
    );
    assert_eq!(other.problem(), (422, "key_reused".to_owned()));
    let ids = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8).map(|_| scope.spawn(|| id_of(&retry("k2").expect(202)))).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!((ids.len(), jobs(&daemon)), (1, 3));
}

/// Defines an agent `echo` and submits a job for it.
fn echo(home: &Home, daemon: &Daemon, prompt: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_agent.py");
    let known = format!("[echo]\ndialect = 'acp'\ncommand = ['python3', '{script}']\n");
    std::fs::write(home.path("agents.toml"), known).unwrap();
    let mut asked = daemon.script("");
    asked.as_object_mut().unwrap().remove("argv");
    asked["agent"] = json!({ "name": "echo", "prompt": prompt });
    daemon.submit(&asked)
}

#[test]
fn an_answer_with_a_key_is_given_once() {
    let home = Home::new();
    let daemon = home.start();
    let id = echo(&home, &daemon, "ask make test\nask make clean");
    let asked = until("the agent asks", || {
        let job = daemon.client.get(&format!("/v1/jobs/{id}")).expect(200);
        let asked = job["session"]["questions"].as_array().filter(|asked| asked.len() == 2)?;
        Some([0, 1].map(|at| asked[at]["id"].as_str().unwrap().to_owned()))
    });
    let path = format!("/v1/jobs/{id}/answers");
    let say = |key: &str, question: &str, verdict: &str| {
        let body = json!({ "question": question, "verdict": verdict }).to_string();
        daemon.client.request("POST", &path, &[("idempotency-key", key)], body.as_bytes())
    };
    let inputs = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| say("a", &asked[0], "allow").expect(202))).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()["input"].as_u64().unwrap()).collect::<Vec<_>>()
    });
    assert!(inputs.iter().all(|input| *input == inputs[0]), "{inputs:?}");
    assert_eq!(say("a", &asked[0], "deny").problem(), (422, "key_reused".to_owned()));
    assert_eq!(say("b", &asked[0], "allow").status, 409, "it has been answered already");
    say("c", &asked[1], "deny").expect(202);
    daemon.end_of(&id);
    let again = say("c", &asked[1], "deny").expect(202);
    assert!(again["input"].as_u64() > Some(inputs[0]), "the same input even after the end");
    let output = daemon.client.get(&format!("/v1/jobs/{id}/output")).text();
    assert!(output.contains("ask-0 allow_once") && output.contains("ask-1 reject_once"), "{output}");
}

#[test]
fn c10_a_resume_with_a_key_yields_one_job() {
    let home = Home::new();
    let daemon = home.start();
    let first = echo(&home, &daemon, "hello");
    daemon.end_of(&first);
    let resume = |key: &str, prompt: &str| {
        let body = json!({ "prompt": prompt, "env": { "PATH": "/usr/local/bin:/usr/bin:/bin" } }).to_string();
        let path = format!("/v1/jobs/{first}:resume");
        daemon.client.request("POST", &path, &[("idempotency-key", key)], body.as_bytes())
    };
    let ids = std::thread::scope(|scope| {
        let askers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| id_of(&resume("k", "more").expect(202)))).collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!((ids.len(), jobs(&daemon)), (1, 2));
    assert_eq!(resume("k", "other").problem(), (422, "key_reused".to_owned()));
    daemon.end_of(ids.first().unwrap());
    let again = resume("k", "more");
    assert_eq!(
        (Some(&id_of(&again.expect(202))), again.headers["idempotency-replayed"].as_str()),
        (ids.first(), "true")
    );
    assert_eq!(jobs(&daemon), 2);
}
