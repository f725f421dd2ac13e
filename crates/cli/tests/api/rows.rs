//! The list as a stream: every row, what changes, and what is gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lastword_store::memory::Memory;
use serde_json::{Value, json};

use super::client::Events;
use super::{Daemon, Home};

/// The rows that a stream has told, by id.
type Rows = BTreeMap<String, Value>;

/// Takes one frame in, and returns its kind.
fn take(stream: &mut Events, rows: &mut Rows) -> String {
    let frame = stream.next().expect("the stream goes on");
    let id = frame.data["id"].as_str().map(str::to_owned);
    match (frame.event.as_str(), id) {
        ("row", Some(id)) => _ = rows.insert(id, frame.data),
        ("gone", Some(id)) => assert!(rows.remove(&id).is_some(), "{id} was told before it was gone"),
        ("here", None) => assert_eq!(frame.data["rows"], rows.len()),
        other => panic!("{other:?}"),
    }
    frame.event
}

/// Takes frames in until `is` holds.
fn take_until(stream: &mut Events, rows: &mut Rows, is: impl Fn(&Rows) -> bool) {
    while !is(rows) {
        take(stream, rows);
    }
}

/// Opens a stream and takes its beginning in.
fn open(daemon: &Daemon, query: &str) -> (Events, Rows) {
    let (mut stream, mut rows) = (daemon.client.stream(&format!("/v1/jobs{query}"), &[]), Rows::new());
    assert_eq!((stream.status, stream.headers["content-type"].as_str()), (200, "text/event-stream"));
    while take(&mut stream, &mut rows) != "here" {}
    (stream, rows)
}

/// Returns the rows of the list, without what depends on the moment.
fn listed(daemon: &Daemon, query: &str) -> Rows {
    let page = daemon.client.get(&format!("/v1/jobs{query}")).expect(200);
    assert_eq!(page["next_cursor"], json!(null));
    let rows = page["items"].as_array().unwrap().iter();
    rows.map(|row| (row["id"].as_str().unwrap().to_owned(), row.clone())).collect()
}

fn seen(daemon: &Daemon, id: &str) {
    assert_eq!(daemon.client.post(&format!("/v1/jobs/{id}:seen"), &json!({})).status, 204);
}

#[test]
fn a_stream_of_rows_is_the_list_and_stays_it_in_sqlite() {
    let home = Home::new();
    follows(&home.start());
}

#[test]
fn a_stream_of_rows_is_the_list_and_stays_it_in_memory() {
    let home = Home::new();
    let daemon = home.start_with(Memory::default());
    daemon.until_ready();
    follows(&daemon);
}

fn follows(daemon: &Daemon) {
    let ended = daemon.run("exit 3");
    daemon.end_of(&ended);
    let (mut stream, mut rows) = open(daemon, "");
    assert_eq!(rows, listed(daemon, ""));
    // Submitted, started, cancelled, and what was decided in between.
    let job = daemon.run("sleep 100");
    take_until(&mut stream, &mut rows, |rows| rows.get(&job).is_some_and(|row| row["phase"] == "running"));
    assert_eq!((&rows[&job]["outcome"], &rows[&job]["unread"]), (&json!(null), &json!(false)));
    daemon.client.post(&format!("/v1/jobs/{job}:cancel"), &json!({})).expect(202);
    take_until(&mut stream, &mut rows, |rows| rows[&job]["phase"] == "ended");
    assert_eq!((&rows[&job]["outcome"], &rows[&job]["unread"]), (&json!("cancelled"), &json!(true)));
    assert_eq!(rows, listed(daemon, ""));
    // That a person has read an ending is in no log, and neither is a removal.
    seen(daemon, &job);
    take_until(&mut stream, &mut rows, |rows| rows[&job]["unread"] == false);
    assert_eq!(rows, listed(daemon, ""));
    assert_eq!(daemon.client.request("DELETE", &format!("/v1/jobs/{ended}"), &[], b"").status, 204);
    take_until(&mut stream, &mut rows, |rows| !rows.contains_key(&ended));
    assert_eq!(rows, listed(daemon, ""));
}

#[test]
fn a_row_that_leaves_the_filter_is_gone_and_one_that_enters_it_is_told() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("sleep 100");
    asked["group"] = json!("gpu");
    let (mut unread, mut unread_rows) = open(&daemon, "?unread=true");
    let (mut live, mut live_rows) = open(&daemon, "?phase=queued,launching,running,stopping&group=gpu");
    let (mut labelled, mut labelled_rows) = open(&daemon, "?label=keep%3Dyes");
    let elsewhere = daemon.run("exit 0");
    let job = daemon.submit(&asked);
    let label = |value: &str| {
        let body = format!("{{\"keep\":{value}}}");
        let path = format!("/v1/jobs/{job}/labels");
        assert_eq!(daemon.client.request("PATCH", &path, &[], body.as_bytes()).status, 200);
    };
    take_until(&mut live, &mut live_rows, |rows| rows.contains_key(&job));
    take_until(&mut unread, &mut unread_rows, |rows| rows.contains_key(&elsewhere));
    label("\"yes\"");
    take_until(&mut labelled, &mut labelled_rows, |rows| rows.contains_key(&job));
    label("null");
    take_until(&mut labelled, &mut labelled_rows, |rows| rows.is_empty());
    daemon.client.post(&format!("/v1/jobs/{job}:cancel"), &json!({})).expect(202);
    take_until(&mut live, &mut live_rows, |rows| rows.is_empty());
    take_until(&mut unread, &mut unread_rows, |rows| rows.contains_key(&job));
    seen(&daemon, &elsewhere);
    take_until(&mut unread, &mut unread_rows, |rows| !rows.contains_key(&elsewhere));
    assert_eq!(unread_rows, listed(&daemon, "?unread=true"));
    assert_eq!(daemon.client.get("/v1/jobs?phase=tea").problem(), (400, "invalid".to_owned()));
    assert_eq!(daemon.client.stream("/v1/jobs?phase=tea", &[]).status, 400);
}

#[test]
fn changes_without_a_new_state_are_told_four_times_a_second_and_a_new_state_at_once() {
    let home = Home::new();
    let daemon = home.start();
    let job = daemon.run("sleep 100");
    daemon.start_of(&job);
    let (mut stream, mut rows) = open(&daemon, "");
    let begun = Instant::now();
    for n in 0..60 {
        let body = format!("{{\"n\":\"{n}\"}}");
        let path = format!("/v1/jobs/{job}/labels");
        assert_eq!(daemon.client.request("PATCH", &path, &[], body.as_bytes()).status, 200);
    }
    daemon.client.post(&format!("/v1/jobs/{job}:cancel"), &json!({})).expect(202);
    let mut labelled = Vec::new();
    while rows[&job]["phase"] == "running" {
        take(&mut stream, &mut rows);
        labelled.extend(rows[&job]["labels"]["n"].as_str().map(str::to_owned));
    }
    let quarters = begun.elapsed().as_millis() / 250;
    assert!(labelled.len() as u128 <= quarters + 2, "{labelled:?} in {quarters} quarters of a second");
    assert_eq!(labelled.last().map(String::as_str), Some("59"), "the newest is told, with its new phase");
    let mut sorted: Vec<u32> = labelled.iter().map(|n| n.parse().unwrap()).collect();
    sorted.dedup();
    assert!(sorted.is_sorted(), "none is older than one before: {labelled:?}");
}

#[test]
fn why_a_row_waits_is_told_although_no_event_of_its_job_says_so() {
    let home = Home::new();
    let daemon = home.start();
    daemon.client.request("PUT", "/v1/groups/one", &[], br#"{"slots":1}"#).expect(200);
    let submit = |name: &str| {
        let mut asked = daemon.script("sleep 100");
        (asked["group"], asked["name"]) = (json!("one"), json!(name));
        daemon.submit(&asked)
    };
    let first = submit("first");
    daemon.start_of(&first);
    let second = submit("second");
    let (mut stream, mut rows) = open(&daemon, "");
    assert_eq!(rows[&second]["waits"]["by"][0]["name"], "first", "{}", rows[&second]);
    let begun = Instant::now();
    daemon.client.request("PUT", "/v1/groups/one", &[], br#"{"paused":true}"#).expect(200);
    // A change of any job has the stream look again at those that wait.
    daemon.run("exit 0");
    take_until(&mut stream, &mut rows, |rows| rows[&second]["waits"]["for"] == "paused");
    assert!(begun.elapsed() < Duration::from_secs(12), "before the look that needs no change");
    assert_eq!(rows[&second]["waits"], listed(&daemon, "")[&second]["waits"]);
}

#[test]
fn a_daemon_that_stops_ends_its_streams_and_says_why() {
    let home = Home::new();
    let daemon = home.start();
    let (mut stream, _) = open(&daemon, "");
    daemon.leave();
    let last = stream.next().expect("it says why");
    assert_eq!((last.event.as_str(), &last.data["jobs"]), ("stopping", &json!("keep")));
    assert_eq!(stream.next(), None);
}
