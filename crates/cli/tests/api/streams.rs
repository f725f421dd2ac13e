//! Streams of events: complete, ordered, resumable.

use lastword_store::memory::Memory;
use serde_json::{Value, json};

use super::{Daemon, Home};

#[test]
fn c29_a_stream_is_the_complete_log_and_closes_at_the_end() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 0.2");
    let stream = daemon.client.stream(&format!("/v1/jobs/{id}/events"), &[]);
    assert_eq!((stream.status, stream.headers["content-type"].as_str()), (200, "text/event-stream"));
    assert_eq!(stream.headers["cache-control"], "no-cache");
    let mut frames: Vec<_> = stream.collect();
    let end = frames.pop().unwrap();
    assert_eq!((end.event.as_str(), &end.data["job"]), ("end", &json!(id)));
    let page = daemon.client.get(&format!("/v1/jobs/{id}/events")).expect(200);
    let items = page["items"].as_array().unwrap();
    assert_eq!(frames.iter().map(|frame| &frame.data).collect::<Vec<_>>(), items.iter().collect::<Vec<_>>());
    for (index, frame) in frames.iter().enumerate() {
        assert_eq!(frame.id, Some((index + 1).to_string()));
        assert_eq!((&frame.data["v"], &frame.data["job"]), (&json!(1), &json!(id)));
        assert_eq!(frame.event, frame.data["type"]);
    }
    assert_eq!(frames.last().unwrap().event, "last_word");
}

#[test]
fn an_interrupted_stream_resumes_after_the_last_event() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 0.2");
    let path = format!("/v1/jobs/{id}/events");
    let mut stream = daemon.client.stream(&path, &[]);
    let first: Vec<_> = stream.by_ref().take(2).collect();
    drop(stream);
    let last = first[1].id.clone().unwrap();
    let rest: Vec<_> =
        daemon.client.stream(&format!("{path}?after=1"), &[("last-event-id", &last)]).collect();
    assert_eq!(rest[0].data["seq"], 3, "the header wins over the query");
    assert_eq!(rest.last().unwrap().event, "end");
    let all: Vec<_> = daemon.client.stream(&path, &[]).collect();
    assert_eq!(all, [first, rest].concat());
    // All events of an ended job were seen: only the end is sent.
    let last = all[all.len() - 2].id.clone().unwrap();
    let nothing: Vec<_> = daemon.client.stream(&path, &[("last-event-id", &last)]).collect();
    assert_eq!(nothing, all[all.len() - 1..]);
}

#[test]
fn events_can_be_paged() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("exit 0");
    let version = daemon.end_of(&id)["version"].as_u64().unwrap();
    let (mut seen, mut after) = (Vec::new(), "0".to_owned());
    loop {
        let page = daemon.client.get(&format!("/v1/jobs/{id}/events?limit=2&cursor={after}")).expect(200);
        seen.extend(page["items"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        after = next.to_owned();
    }
    assert_eq!(seen, (1..=version).collect::<Vec<_>>());
}

/// Reads events up to the last word of a job; returns them as job and number, and the last event id.
fn take(stream: &mut super::client::Events, until: &str) -> (Vec<(String, u64)>, Option<String>) {
    let (mut seen, mut last) = (Vec::new(), None);
    for frame in stream {
        seen.push((frame.data["job"].as_str().unwrap().to_owned(), frame.data["seq"].as_u64().unwrap()));
        last = frame.id.or(last);
        if frame.event == "last_word" && frame.data["job"] == until {
            break;
        }
    }
    (seen, last)
}

#[test]
fn the_feed_of_all_jobs_loses_nothing_when_resumed() {
    let home = Home::new();
    let daemon = home.start();
    let first = daemon.run("exit 0");
    daemon.end_of(&first);
    let mut stream = daemon.client.stream("/v1/events", &[]);
    let (mut seen, _) = take(&mut stream, &first);
    let second = daemon.run("exit 0");
    let (more, last) = take(&mut stream, &second);
    seen.extend(more);
    drop(stream);
    let third = daemon.run("exit 0");
    daemon.end_of(&third);
    let mut stream = daemon.client.stream("/v1/events", &[("last-event-id", &last.unwrap())]);
    let (more, _) = take(&mut stream, &third);
    assert!(more.iter().all(|(job, _)| *job != first), "events from long before are not repeated");
    seen.extend(more.into_iter().filter(|event| !seen.contains(event)).collect::<Vec<_>>());
    for id in [&first, &second, &third] {
        let version = daemon.end_of(id)["version"].as_u64().unwrap();
        let seqs: Vec<u64> = seen.iter().filter(|(job, _)| job == id).map(|(_, seq)| *seq).collect();
        assert_eq!(seqs, (1..=version).collect::<Vec<_>>(), "every event in order");
    }
    let page = daemon.client.get("/v1/events?limit=500").expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), seen.len());
    let cursor = page["next_cursor"].as_str().unwrap();
    let now = daemon.client.get("/v1/events?cursor=now").expect(200);
    assert_eq!((&now["items"], &now["next_cursor"]), (&json!([]), &json!(cursor)));
    let after = daemon.client.get(&format!("/v1/events?cursor={cursor}")).expect(200);
    assert_eq!((after["items"].clone(), &after["next_cursor"]), (json!([]), &json!(cursor)));
}

#[test]
fn the_feed_is_filtered_in_sqlite() {
    let home = Home::new();
    filters(&home.start());
}

#[test]
fn the_feed_is_filtered_in_memory() {
    let home = Home::new();
    let daemon = home.start_with(Memory::default());
    daemon.until_ready();
    filters(&daemon);
}

/// Reads the whole feed with a filter in pages of `limit`; returns job and type of each event.
fn filtered(daemon: &Daemon, filter: &str, limit: u32) -> Vec<(String, String)> {
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = daemon.client.get(&format!("/v1/events?limit={limit}&{filter}{cursor}")).expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit as usize, "{page}");
        let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
        found.extend(items.iter().map(|event| (text(event, "job"), text(event, "type"))));
        let next = format!("&cursor={}", page["next_cursor"].as_str().unwrap());
        if next == cursor {
            return found;
        }
        cursor = next;
    }
}

/// Checks every filter of the feed, in pages of every size and as a stream.
fn filters(daemon: &Daemon) {
    let run = |group: &str, colour: &str| {
        let mut asked = daemon.script("exit 0");
        asked["group"] = json!(group);
        asked["labels"] = json!({ "colour": colour });
        let id = daemon.submit(&asked);
        daemon.end_of(&id);
        id
    };
    let (a, b, c) = (run("left", "red"), run("right", "red"), run("left", "blue"));
    let all = filtered(daemon, "", 500);
    let of = |jobs: &[&String], kinds: &[&str]| -> Vec<(String, String)> {
        let fits = |(job, kind): &&(String, String)| {
            jobs.contains(&job) && (kinds.is_empty() || kinds.contains(&kind.as_str()))
        };
        all.iter().filter(fits).cloned().collect()
    };
    for (filter, expected) in [
        ("type=last_word".to_owned(), of(&[&a, &b, &c], &["last_word"])),
        ("type=submitted,last_word".to_owned(), of(&[&a, &b, &c], &["submitted", "last_word"])),
        (format!("job={b}"), of(&[&b], &[])),
        (format!("job={b}&type=launched"), of(&[&b], &["launched"])),
        ("group=left".to_owned(), of(&[&a, &c], &[])),
        ("label=colour%3Dred".to_owned(), of(&[&a, &b], &[])),
        ("group=left&label=colour%3Dred&type=last_word".to_owned(), of(&[&a], &["last_word"])),
        ("group=elsewhere".to_owned(), Vec::new()),
    ] {
        for limit in [1, 2, 3, 500] {
            assert_eq!(filtered(daemon, &filter, limit), expected, "{filter}, {limit} at once");
        }
    }
    let words =
        daemon.client.get(&format!("/v1/jobs/{a}/events?type=launched,last_word&limit=1")).expect(200);
    assert_eq!((&words["items"][0]["type"], words["next_cursor"].is_string()), (&json!("launched"), true));
    for path in ["/v1/events?type=tea", "/v1/events?label=tea", &format!("/v1/jobs/{a}/events?type=tea")] {
        assert_eq!(daemon.client.get(path).problem(), (400, "invalid".to_owned()), "{path}");
    }
    assert_eq!(daemon.client.get("/v1/events?job=missing").status, 404);
    // A stream goes on, past events that the filter does not select.
    let mut stream = daemon.client.stream("/v1/events?group=left&type=last_word", &[]);
    run("right", "red");
    let d = run("left", "green");
    let told: Vec<String> =
        stream.by_ref().take(3).map(|frame| frame.data["job"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told, [a.clone(), c, d]);
    let of_job = daemon.client.stream(&format!("/v1/jobs/{a}/events?type=launched"), &[]);
    let told: Vec<String> = of_job.map(|frame| frame.event).collect();
    assert_eq!(told, ["launched", "end"]);
}
