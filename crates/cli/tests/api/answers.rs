//! One job: submitted, shown, awaited; and what every answer contains.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Home, id_of, kill_keeper};
use crate::common::until;

#[test]
fn c27_a_job_is_shown_as_its_log_says() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("echo out; echo err >&2; exit 7");
    asked["name"] = json!("tidy");
    asked["labels"] = json!({ "team": "a" });
    asked["priority"] = json!(3);
    asked["limits"] = json!({ "wall_ms": 60_000 });
    let answer = daemon.client.post("/v1/jobs", &asked);
    let id = id_of(&answer.expect(202));
    assert_eq!(answer.headers["location"], format!("/v1/jobs/{id}"));
    let job = daemon.end_of(&id);
    for (field, value) in [
        ("name", json!("tidy")),
        ("argv", asked["argv"].clone()),
        ("cwd", asked["cwd"].clone()),
        ("group", json!("default")),
        ("priority", json!(3)),
        ("labels", json!({ "team": "a" })),
        ("by", json!("ann")),
        ("outcome", json!("failed")),
        ("cause", json!("agent")),
        ("short", json!(id[id.len() - 8..])),
    ] {
        assert_eq!(job[field], value, "{field}");
    }
    assert_eq!(job["limits"]["wall_ms"], 60_000);
    let attempt = &job["attempts"][0];
    assert_eq!(attempt["exit"], json!({ "code": 7, "signal": null }));
    assert_eq!(attempt["receipt"]["certain"], true);
    assert_eq!(attempt["receipt"]["output"], json!({ "seen": 8, "kept": 8, "lost": false }));
    let events = daemon.client.get(&format!("/v1/jobs/{id}/events")).expect(200);
    let last = events["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["type"], &last["seq"]), (&json!("last_word"), &job["version"]));
    assert_eq!(last["time"], job["ended_at"]);
    assert!(!job.to_string().contains("/usr/local/bin"), "no answer contains the environment");
    assert!(!events.to_string().contains("/usr/local/bin"), "no event contains the environment");
}

#[test]
fn a_terminal_is_resized_where_there_is_one() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done");
    asked["io"] = json!({ "kind": "terminal", "rows": 24, "columns": 80 });
    let id = id_of(&daemon.client.post("/v1/jobs", &asked).expect(202));
    let output = || daemon.client.get(&format!("/v1/jobs/{id}/output")).text();
    until("its trap is set", || output().contains("ready").then_some(()));
    let resize = |id: &str, rows: u16| {
        daemon.client.post(&format!("/v1/jobs/{id}:resize"), &json!({ "rows": rows, "columns": 132 }))
    };
    resize(&id, 0).expect(400);
    assert_eq!(resize(&id, 50).expect(200), json!({ "resized": true }));
    daemon.end_of(&id);
    assert_eq!(output(), "ready\r\n50 132\r\n");
    assert_eq!(resize(&id, 50).expect(200), json!({ "resized": false }), "it has ended");
    let plain = daemon.run("sleep 100");
    assert_eq!(resize(&plain, 50).expect(200), json!({ "resized": false }), "it has no terminal");
}

#[test]
fn the_version_is_an_etag_and_unchanged_jobs_are_not_sent_again() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("exit 0");
    daemon.end_of(&id);
    let path = format!("/v1/jobs/{id}");
    let answer = daemon.client.get(&path);
    let etag = answer.headers["etag"].clone();
    assert_eq!(etag, format!("\"{}\"", answer.json()["version"]));
    let again = daemon.client.request("GET", &path, &[("if-none-match", &etag)], b"");
    assert_eq!((again.status, again.body.len()), (304, 0));
    let other = daemon.client.request("GET", &path, &[("if-none-match", "\"1\"")], b"");
    assert_eq!(other.status, 200);
}

#[test]
fn c57_c63_a_wait_is_released_only_by_the_end() {
    let home = Home::new();
    let daemon = home.start();
    std::fs::write(home.path("gate"), "").unwrap();
    let id = daemon.run("while [ -e gate ]; do sleep 0.01; done");
    daemon.start_of(&id);
    let begin = Instant::now();
    let job = daemon.client.get(&format!("/v1/jobs/{id}?wait=300ms")).expect(200);
    assert_eq!(job["phase"], "running");
    assert!(begin.elapsed() >= Duration::from_millis(300), "it waited as long as requested");
    let (client, path) = (daemon.client.clone(), format!("/v1/jobs/{id}?wait=60s"));
    let waiter = std::thread::spawn(move || (client.get(&path).expect(200), Instant::now()));
    std::fs::remove_file(home.path("gate")).unwrap();
    let (job, answered) = waiter.join().unwrap();
    assert_eq!(job["outcome"], "completed");
    assert!(answered.duration_since(begin) < Duration::from_secs(20), "the end released it, not its timeout");
}

#[test]
fn c61_c63_every_read_reports_a_killed_keeper() {
    let home = Home::new();
    let daemon = home.start();
    for path in ["", "?wait=60s", "/events", "/result", "/output?wait=60s"] {
        let id = daemon.run("sleep 100");
        let job = daemon.start_of(&id);
        let leader = kill_keeper(&home, &job);
        let begin = Instant::now();
        let answer = daemon.client.get(&format!("/v1/jobs/{id}{path}"));
        let reported = match path {
            "/output?wait=60s" => answer.headers["lastword-end"] == "true",
            _ => answer.expect(200).to_string().contains("\"outcome\":\"lost\""),
        };
        assert!(reported, "{path}: {}", answer.text());
        assert!(begin.elapsed() < Duration::from_secs(20), "{path}: not at its timeout");
        assert!(!leader.is_alive(), "{path}: the sweep killed it before");
    }
}

#[test]
fn c57_c63_every_kind_of_wait_is_released_by_the_death_of_a_keeper() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    let job = daemon.start_of(&id);
    let ask = |path: String| {
        let client = daemon.client.clone();
        std::thread::spawn(move || client.get(&path))
    };
    let waits = ask(format!("/v1/jobs/{id}?wait=60s"));
    let output = ask(format!("/v1/jobs/{id}/output?wait=60s"));
    let mut stream = daemon.client.stream(&format!("/v1/jobs/{id}/events"), &[]);
    assert_eq!(stream.next().unwrap().event, "submitted");
    let begin = Instant::now();
    kill_keeper(&home, &job);
    assert_eq!(waits.join().unwrap().expect(200)["outcome"], "lost");
    assert_eq!(output.join().unwrap().headers["lastword-end"], "true");
    assert_eq!(stream.last().unwrap().event, "end");
    assert!(begin.elapsed() < Duration::from_secs(20), "not at their timeout");
}

#[test]
fn a_wait_for_a_change_ends_with_the_next_event() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    let version = daemon.start_of(&id)["version"].as_u64().unwrap();
    let (client, path) = (daemon.client.clone(), format!("/v1/jobs/{id}"));
    let etag = format!("\"{version}\"");
    let changed = format!("{path}?wait=60s&until=changed");
    let waiter =
        std::thread::spawn(move || client.request("GET", &changed, &[("if-none-match", &etag)], b""));
    let patch = json!({ "wall_ms": 90_000 }).to_string();
    let job = daemon.client.request("PATCH", &format!("{path}/limits"), &[], patch.as_bytes()).expect(200);
    assert_eq!(job["limits"]["wall_ms"], 90_000);
    let seen = waiter.join().unwrap().expect(200);
    assert!(seen["version"].as_u64().unwrap() > version);
    let unknown = daemon.client.get(&format!("{path}?wait=1s&until=changed"));
    assert_eq!(unknown.problem(), (400, "invalid".to_owned()));
}

#[test]
fn every_answer_has_a_version_and_every_problem_is_complete() {
    let home = Home::new();
    let daemon = home.start();
    let live = daemon.run("sleep 100");
    let ended = daemon.run("exit 0");
    daemon.end_of(&ended);
    let none = json!({});
    let asks: Vec<(&str, String, Value, u16, &str)> = vec![
        ("GET", "/".to_owned(), Value::Null, 404, "not_found"),
        ("GET", "/v2/jobs".to_owned(), Value::Null, 404, "not_found"),
        ("PUT", "/v1/jobs".to_owned(), none.clone(), 405, "invalid"),
        ("DELETE", "/v1/daemon".to_owned(), Value::Null, 405, "invalid"),
        ("GET", "/v1/jobs/missing".to_owned(), Value::Null, 404, "not_found"),
        ("GET", "/v1/jobs/%00%ff".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?phase=flying".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?outcome=nice".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?limit=0".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?limit=many".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?limit=501".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/events?limit=501".to_owned(), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}/events?limit=501"), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}/output?limit=0"), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}/output?limit=262145"), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?colour=red".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/jobs?cursor=xyz".to_owned(), Value::Null, 400, "invalid"),
        ("GET", "/v1/events?cursor=xyz".to_owned(), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}?wait=soon"), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}?wait=1s&until=tea"), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}?until=tea"), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}/result"), Value::Null, 409, "not_ended"),
        ("GET", format!("/v1/jobs/{live}/output?stream=tea"), Value::Null, 400, "invalid"),
        ("GET", format!("/v1/jobs/{live}/output?attempt=9"), Value::Null, 404, "not_found"),
        ("DELETE", format!("/v1/jobs/{live}"), Value::Null, 409, "not_ended"),
        ("POST", format!("/v1/jobs/{live}:retry"), none.clone(), 409, "not_ended"),
        ("POST", format!("/v1/jobs/{live}:dance"), none.clone(), 405, "invalid"),
        ("POST", format!("/v1/jobs/{live}"), none.clone(), 405, "invalid"),
        ("POST", format!("/v1/jobs/{live}/messages"), json!({ "text": "hi" }), 409, "conflict"),
        ("POST", format!("/v1/jobs/{ended}/messages"), json!({ "text": "hi" }), 409, "ended"),
        ("POST", format!("/v1/jobs/{live}/messages"), json!({ "text": "" }), 400, "invalid"),
        ("PATCH", format!("/v1/jobs/{ended}/limits"), json!({ "wall_ms": 5 }), 409, "ended"),
        ("PATCH", format!("/v1/jobs/{live}/limits"), json!({ "wal_ms": 5 }), 400, "invalid"),
        ("PATCH", format!("/v1/jobs/{live}/limits"), none.clone(), 400, "invalid"),
        ("POST", "/v1/jobs".to_owned(), none.clone(), 400, "invalid"),
        ("POST", "/v1/jobs".to_owned(), json!({ "argv": ["true"], "cwd": "here" }), 400, "invalid"),
        ("POST", "/v1/jobs".to_owned(), json!({ "argv": ["a\u{0}b"], "cwd": "/" }), 400, "invalid"),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "env": { "A=B": "" } }),
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "name": "-x" }),
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "id": "mine" }),
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "io": { "kind": "tea" } }),
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "after": [{ "job": "missing" }] }),
            404,
            "not_found",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "group": "a b" }),
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "limits": [1, 2, 3] }),
            400,
            "invalid",
        ),
        (
            "POST",
            "/v1/jobs".to_owned(),
            json!({ "argv": ["true"], "cwd": "/", "after": [[ended, "any"]] }),
            400,
            "invalid",
        ),
        ("PUT", "/v1/groups/a%20b".to_owned(), none.clone(), 400, "invalid"),
        ("POST", "/v1/daemon:stop".to_owned(), json!({ "jobs": "tea" }), 400, "invalid"),
        ("DELETE", "/v1/groups/default".to_owned(), Value::Null, 400, "invalid"),
        ("DELETE", "/v1/groups/missing".to_owned(), Value::Null, 404, "not_found"),
    ];
    for (method, path, body, status, code) in asks {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = daemon.client.request(method, &path, &[], body.as_bytes());
        assert_eq!(answer.status, status, "{method} {path} {body}: {}", answer.text());
        assert_eq!(answer.problem(), (status, code.to_owned()), "{method} {path} {body}: {}", answer.text());
        assert_eq!(answer.headers["lastword-version"], env!("CARGO_PKG_VERSION"), "{method} {path}");
    }
    assert_eq!(daemon.client.get("/livez").headers["lastword-version"], env!("CARGO_PKG_VERSION"));
    let document = daemon.client.get("/openapi.json").expect(200);
    assert_eq!(document["openapi"], "3.1.0");
}

#[test]
fn a_request_without_the_body_that_says_what_to_do_is_refused() {
    let home = Home::new();
    let daemon = home.start();
    let live = daemon.run("sleep 100");
    let ended = daemon.run("exit 0");
    daemon.end_of(&ended);
    for (method, path) in [
        ("POST", "/v1/jobs".to_owned()),
        ("POST", "/v1/jobs:prune".to_owned()),
        ("POST", "/v1/jobs:cancel".to_owned()),
        ("POST", "/v1/daemon:stop".to_owned()),
        ("PUT", "/v1/groups/default".to_owned()),
        ("PATCH", format!("/v1/jobs/{live}/limits")),
        ("POST", format!("/v1/jobs/{live}/messages")),
        ("POST", format!("/v1/jobs/{live}/answers")),
        ("POST", format!("/v1/jobs/{ended}:retry")),
        ("POST", format!("/v1/jobs/{ended}:resume")),
    ] {
        let answer = daemon.client.request(method, &path, &[], b"");
        assert_eq!(answer.problem(), (400, "invalid".to_owned()), "{method} {path}: {}", answer.text());
        assert!(answer.text().contains("body"), "{method} {path}: {}", answer.text());
    }
    assert_eq!(daemon.client.get("/v1/jobs").expect(200)["items"].as_array().map(Vec::len), Some(2));
    // The path says what to do.
    daemon.client.request("POST", &format!("/v1/jobs/{live}:cancel"), &[], b"").expect(202);
}

#[test]
fn unknown_parameters_of_any_request_are_refused() {
    let home = Home::new();
    let daemon = home.start();
    let live = daemon.run("sleep 100");
    let body = daemon.script("exit 0");
    for (method, path, body) in [
        ("POST", "/v1/jobs".to_owned(), body),
        ("POST", "/v1/jobs:prune".to_owned(), json!({})),
        ("POST", "/v1/jobs:cancel".to_owned(), json!({ "all": true })),
        ("POST", "/v1/daemon:stop".to_owned(), json!({})),
        ("PUT", "/v1/groups/default".to_owned(), json!({ "slots": 1 })),
        ("PATCH", format!("/v1/jobs/{live}/limits"), json!({ "wall_ms": 5 })),
        ("POST", format!("/v1/jobs/{live}/messages"), json!({ "text": "hi" })),
        ("POST", format!("/v1/jobs/{live}:cancel"), json!({})),
        ("DELETE", "/v1/groups/default".to_owned(), Value::Null),
        ("GET", "/v1/groups".to_owned(), Value::Null),
        ("GET", "/v1/daemon".to_owned(), Value::Null),
        ("GET", format!("/v1/jobs/{live}/result"), Value::Null),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = daemon.client.request(method, &format!("{path}?dry_run=true"), &[], body.as_bytes());
        assert_eq!(answer.problem(), (400, "invalid".to_owned()), "{method} {path}: {}", answer.text());
        assert!(answer.text().contains("dry_run"), "{method} {path}: {}", answer.text());
    }
    let jobs = daemon.client.get("/v1/jobs?phase=queued,launching,running").expect(200);
    assert_eq!(super::each(&jobs, "id"), [live.as_str()], "nothing was done");
}

#[test]
fn a_refused_method_comes_with_those_of_the_path() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    for (method, path, allow) in [
        ("PUT", "/v1/jobs".to_owned(), "GET,HEAD,POST"),
        ("POST", format!("/v1/jobs/{id}"), "GET,HEAD,DELETE"),
        ("POST", format!("/v1/jobs/{id}:dance"), "GET,HEAD,DELETE"),
        ("PUT", format!("/v1/jobs/{id}"), "GET,HEAD,DELETE"),
        ("GET", format!("/v1/jobs/{id}:cancel"), "POST"),
        ("DELETE", format!("/v1/jobs/{id}:retry"), "POST"),
        ("OPTIONS", format!("/v1/jobs/{id}%3Aabandon"), "POST"),
        ("GET", "/v1/jobs:prune".to_owned(), "POST"),
    ] {
        let answer = daemon.client.request(method, &path, &[], b"");
        assert_eq!(answer.problem(), (405, "invalid".to_owned()), "{method} {path}: {}", answer.text());
        let mut allowed: Vec<&str> = answer.headers["allow"].split(',').map(str::trim).collect();
        let mut expected: Vec<&str> = allow.split(',').collect();
        allowed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(allowed, expected, "{method} {path}");
    }
}

#[test]
fn the_daemon_describes_itself() {
    let home = Home::new();
    let daemon = home.start();
    daemon.start_of(&daemon.run("sleep 100"));
    let ended = daemon.run("exit 0");
    daemon.end_of(&ended);
    let group = json!({ "slots": 3 }).to_string();
    let group = daemon.client.request("PUT", "/v1/groups/big", &[], group.as_bytes()).expect(200);
    let unspent = json!({ "tokens": 0, "money_micros": 0 });
    let shown = |paused: bool| {
        json!({
            "name": "big", "slots": 3, "paused": paused, "spent_today": unspent, "running": 0, "queued": 0,
        })
    };
    assert_eq!(group, shown(false));
    let about = daemon.client.get("/v1/daemon").expect(200);
    assert_eq!(about["ready"], true);
    assert_eq!(about["counts"], json!({ "running": 1, "ended": 1 }));
    assert_eq!(about["pid"], std::process::id());
    assert_eq!(super::each(&json!({ "items": about["groups"] }), "name"), ["big", "default"]);
    let paused = json!({ "paused": true }).to_string();
    let group = daemon.client.request("PUT", "/v1/groups/big", &[], paused.as_bytes()).expect(200);
    assert_eq!(group, shown(true), "omitted fields do not change");
    let counted = |name: &str| {
        let groups = daemon.client.get("/v1/groups").expect(200);
        let group = groups["items"].as_array().unwrap().iter().find(|group| group["name"] == name).cloned();
        group.map(|group| (group["running"].clone(), group["queued"].clone()))
    };
    let mut parked = daemon.script("exit 0");
    parked["group"] = json!("big");
    let parked = daemon.submit(&parked);
    assert_eq!(counted("big"), Some((json!(0), json!(1))), "it waits");
    assert_eq!(counted("default"), Some((json!(1), json!(0))), "one runs, and one has ended");
    daemon.client.post(&format!("/v1/jobs/{parked}:cancel"), &json!({})).expect(200);
    assert_eq!(daemon.client.request("DELETE", "/v1/groups/big", &[], b"").status, 204);
}
