//! Stopping: one job, many, repeatedly, too late.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::read;
use super::{Home, each, leader};
use crate::common::until;

#[test]
fn c17_a_slow_stop_is_answered_as_stopping_with_the_live_processes() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("trap '' TERM; echo up; while :; do sleep 0.05; done");
    asked["ladder"] = json!({ "term_ms": 20_000 });
    let id = daemon.submit(&asked);
    let leader = leader(&daemon.start_of(&id));
    until_it_prints(&daemon, &id, "up");
    let path = format!("/v1/jobs/{id}:cancel");
    // Repeated until a rung was climbed: a repeated request changes nothing.
    let job = until("a rung was climbed", || {
        let job = daemon.client.post(&path, &json!({ "wait_ms": 100 })).expect(202);
        assert_eq!(job["phase"], "stopping");
        assert_eq!((&job["stop"]["cause"], &job["stop"]["by"]), (&json!("user"), &json!("ann")));
        job["stop"]["rung"].is_string().then_some(job)
    });
    assert_eq!(job["stop"]["rung"], "term");
    assert!(job["stop"]["alive"].as_u64().unwrap() >= 1, "{job}");
    assert!(leader.is_alive());
    // A forced cancel escalates the one in progress.
    let job = daemon.client.post(&path, &json!({ "force": true, "wait_ms": 30_000 })).expect(200);
    assert_eq!((&job["outcome"], &job["outcome_detail"]), (&json!("cancelled"), &json!("while_running")));
    assert!(!leader.is_alive());
    let receipt = &job["attempts"][0]["receipt"];
    assert_eq!(receipt["certain"], true);
    assert!(receipt["found"].as_u64().unwrap() >= 1, "{receipt}");
}

fn until_it_prints(daemon: &super::Daemon, id: &str, text: &str) {
    let answer = daemon.client.get(&format!("/v1/jobs/{id}/output?wait=30s"));
    assert!(answer.text().contains(text), "{}", answer.text());
}

#[test]
fn c10_c24_a_cancel_of_an_ended_job_changes_no_view() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("exit 3");
    let before = daemon.end_of(&id);
    let events = daemon.client.get(&format!("/v1/jobs/{id}/events")).expect(200);
    let row = daemon.client.get("/v1/jobs").expect(200);
    for force in [false, true, true] {
        let body = json!({ "force": force, "wait_ms": 1_000 });
        let job = daemon.client.post(&format!("/v1/jobs/{id}:cancel"), &body).expect(200);
        assert_eq!(job, before);
    }
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{id}")).expect(200), before);
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{id}/events")).expect(200), events);
    assert_eq!(daemon.client.get("/v1/jobs").expect(200), row);
}

#[test]
fn only_live_jobs_of_the_group_or_with_the_label_are_cancelled() {
    let home = Home::new();
    let daemon = home.start();
    let in_group = |group: &str, label: &str| {
        let mut asked = daemon.script("sleep 100");
        asked["group"] = json!(group);
        asked["labels"] = json!({ "team": label });
        daemon.submit(&asked)
    };
    let (a, b, c) = (in_group("one", "x"), in_group("two", "x"), in_group("two", "y"));
    let done =
        daemon.client.post("/v1/jobs:cancel", &json!({ "group": "two", "label": "team=x" })).expect(202);
    assert_eq!(each(&done, "id"), [b.as_str()]);
    assert_eq!(daemon.end_of(&b)["outcome"], "cancelled");
    for incomplete in [json!({}), json!({ "force": true }), json!({ "all": false }), json!([true]), json!([])]
    {
        let refused = daemon.client.post("/v1/jobs:cancel", &incomplete);
        assert_eq!(refused.problem(), (400, "invalid".to_owned()), "{incomplete}");
    }
    let done = daemon.client.post("/v1/jobs:cancel", &json!({ "all": true })).expect(202);
    assert_eq!(each(&done, "id"), [c.as_str(), a.as_str()], "newest first, and only live jobs");
    for id in [a, c] {
        assert_eq!(daemon.end_of(&id)["outcome"], "cancelled");
    }
}

#[test]
fn a_stop_request_keeps_or_cancels_the_jobs() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    let leader = leader(&daemon.start_of(&id));
    assert_eq!(daemon.client.post("/v1/daemon:stop", &json!({ "jobs": "keep" })).status, 202);
    gone(daemon);
    assert!(leader.is_alive() && !home.socket().exists());
    let daemon = home.start();
    let job = daemon.client.get(&format!("/v1/jobs/{id}")).expect(200);
    assert_eq!((&job["phase"], &job["attempts"][0]["pid"]), (&json!("running"), &json!(leader.pid)));
    assert_eq!(daemon.client.post("/v1/daemon:stop", &json!({ "jobs": "cancel" })).status, 202);
    gone(daemon);
    assert!(!leader.is_alive());
    let daemon = home.start();
    let job = daemon.client.get(&format!("/v1/jobs/{id}")).expect(200);
    assert_eq!((&job["outcome"], &job["cause"]), (&json!("cancelled"), &json!("shutdown")));
}

/// Waits until a daemon has stopped by itself.
fn gone(mut daemon: super::Daemon) {
    daemon.thread.take().unwrap().join().unwrap();
}

#[test]
fn a_stopping_daemon_answers_waits_and_ends_streams() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    daemon.start_of(&id);
    let begin = Instant::now();
    let paths = [format!("/v1/jobs/{id}?wait=60s"), format!("/v1/jobs/{id}/output?wait=60s")];
    let waiters = paths.map(|path| {
        let mut socket = daemon.client.connect();
        socket.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
        socket
    });
    // Sent after them, so once it is answered they were received: a single thread takes requests in order.
    let mut events = daemon.client.stream(&format!("/v1/jobs/{id}/events"), &[]);
    assert_eq!(events.next().unwrap().event, "submitted");
    let mut feed = daemon.client.stream("/v1/events", &[]);
    assert_eq!(feed.next().unwrap().event, "submitted");
    daemon.leave();
    let announced = json!({ "pid": std::process::id(), "jobs": "keep" });
    for waiter in waiters {
        let answer = read(waiter).0;
        let told: Value = serde_json::from_str(&answer.headers["lastword-stopping"]).unwrap();
        assert_eq!((answer.status, &told), (200, &announced));
    }
    for stream in [events, feed] {
        let frames: Vec<_> = stream.collect();
        assert!(frames.iter().all(|frame| frame.event != "end"), "the job has not ended, only the daemon");
        let last = frames.last().unwrap();
        assert_eq!((last.event.as_str(), &last.data), ("stopping", &announced));
    }
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(!home.socket().exists());
    drop(home.start());
}
