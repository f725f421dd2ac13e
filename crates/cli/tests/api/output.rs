//! Output by offset, while the job runs and after; and its result.

use serde_json::json;

use super::{Daemon, Home};

/// Reads a stream piece by piece, as a client that follows it does.
fn follow(daemon: &Daemon, id: &str, stream: &str, limit: usize) -> String {
    let (mut text, mut next) = (String::new(), "0".to_owned());
    loop {
        let path = format!("/v1/jobs/{id}/output?stream={stream}&offset={next}&limit={limit}&wait=30s");
        let piece = daemon.client.get(&path);
        assert_eq!(piece.status, 200, "{}", piece.text());
        assert_eq!(piece.headers["lastword-offset"], next);
        assert_eq!(piece.headers["lastword-skipped"], "0");
        assert!(piece.body.len() <= limit);
        text.push_str(&piece.text());
        next = piece.headers["lastword-next"].clone();
        if piece.headers["lastword-end"] == "true" {
            assert_eq!(piece.headers["lastword-size"], next);
            return text;
        }
    }
}

#[test]
fn a_stream_is_followed_without_losing_or_repeating_a_byte() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("for i in 1 2 3 4 5; do echo line $i; echo err $i >&2; sleep 0.02; done");
    let out: String = (1..=5).map(|i| format!("line {i}\n")).collect();
    assert_eq!(follow(&daemon, &id, "stdout", 5), out);
    daemon.end_of(&id);
    assert_eq!(follow(&daemon, &id, "stdout", 5), out, "an ended job's stream reads the same");
    assert_eq!(follow(&daemon, &id, "stderr", 1 << 18), out.replace("line", "err"));
    let tail = daemon.client.get(&format!("/v1/jobs/{id}/output?tail=7"));
    assert_eq!((tail.text().as_str(), tail.headers["lastword-offset"].as_str()), ("line 5\n", "28"));
    assert_eq!(tail.headers["lastword-attempt"], "1");
}

#[test]
fn a_wait_for_output_returns_when_it_is_written_or_on_timeout() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("echo ready; read -r line; echo $line; sleep 100");
    asked["io"] = json!({ "kind": "pipe" });
    let id = daemon.submit(&asked);
    let path = format!("/v1/jobs/{id}/output");
    assert_eq!(daemon.client.get(&format!("{path}?wait=30s")).text(), "ready\n");
    let nothing = daemon.client.get(&format!("{path}?offset=6&wait=50ms"));
    assert_eq!((nothing.body.len(), nothing.headers["lastword-end"].as_str()), (0, "false"));
    let (client, waits) = (daemon.client.clone(), format!("{path}?offset=6&wait=30s"));
    let waiter = std::thread::spawn(move || client.get(&waits).text());
    daemon.client.post(&format!("/v1/jobs/{id}/messages"), &json!({ "text": "hello\n" })).expect(202);
    assert_eq!(waiter.join().unwrap(), "hello\n");
}

#[test]
fn a_job_that_never_ran_has_no_output() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("exit 0");
    asked["not_before"] = json!("2099-01-01T00:00:00Z");
    let id = daemon.submit(&asked);
    let path = format!("/v1/jobs/{id}/output");
    assert_eq!(daemon.client.get(&path).headers["lastword-end"], "false");
    let job = daemon.client.post(&format!("/v1/jobs/{id}:cancel"), &json!({})).expect(200);
    assert_eq!((&job["outcome_detail"], &job["stop"]["by"]), (&json!("before_start"), &json!("ann")));
    let nothing = daemon.client.get(&format!("{path}?wait=30s"));
    assert_eq!((nothing.body.len(), nothing.headers["lastword-end"].as_str()), (0, "true"));
}

#[test]
fn a_result_has_the_outcome_the_proof_and_the_last_output() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("head -c 100000 /dev/zero | tr '\\0' x; echo last; exit 5");
    daemon.end_of(&id);
    let result = daemon.client.get(&format!("/v1/jobs/{id}/result")).expect(200);
    assert_eq!((&result["outcome"], &result["exit"]["code"]), (&json!("failed"), &json!(5)));
    assert_eq!(result["receipt"]["certain"], true);
    let text = result["text"].as_str().unwrap();
    assert!(text.ends_with("xlast\n") && text.len() == 64 << 10);
    assert_eq!(result["text_skipped"], 100_005 - (64 << 10));
}

#[test]
fn a_retry_is_a_new_job() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("echo $WHO; exit 1");
    daemon.end_of(&id);
    let body = json!({ "env": { "PATH": "/usr/bin:/bin", "WHO": "again" } });
    let job = daemon.client.post(&format!("/v1/jobs/{id}:retry"), &body).expect(202);
    assert_eq!(job["retry_of"], json!(id));
    let new = super::id_of(&job);
    daemon.end_of(&new);
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{new}/output")).text(), "again\n");
    assert_eq!(daemon.client.request("DELETE", &format!("/v1/jobs/{id}"), &[], b"").status, 204);
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{id}")).status, 404);
}
