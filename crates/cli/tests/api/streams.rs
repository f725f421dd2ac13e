//! Streams of events: complete, ordered, resumable.

use serde_json::json;

use super::Home;

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
