//! Transcripts: what agents and commands say, in pages and as a stream, continued at any place.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::Frame;
use super::{Daemon, Home};

/// Submits a one-shot agent that is a shell script.
fn agent(home: &Home, daemon: &Daemon, script: &str) -> String {
    daemon.submit(&asked(home, daemon, script))
}

fn asked(home: &Home, daemon: &Daemon, script: &str) -> Value {
    let file = home.path("agent.sh");
    std::fs::write(&file, script).unwrap();
    let known = format!("[told]\ndialect = 'once'\ncommand = ['sh', '{}', '{{prompt}}']\n", file.display());
    std::fs::write(home.path("agents.toml"), known).unwrap();
    let mut asked = daemon.script("");
    asked.as_object_mut().unwrap().remove("argv");
    asked["agent"] = json!({ "name": "told", "prompt": "go" });
    asked
}

/// Writes lines to a file, and returns the shell command that prints them.
fn printing(home: &Home, name: &str, lines: &[Value]) -> String {
    let file = home.path(name);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, text).unwrap();
    format!("cat {}\n", file.display())
}

/// Returns a shell command that waits until a file exists.
fn awaiting(home: &Home, name: &str) -> String {
    format!("until [ -e {} ]; do sleep 0.01; done\n", home.path(name).display())
}

fn started(id: &str) -> Value {
    json!({ "type": "item.started", "item": { "id": id, "type": "command_execution", "command": format!("make {id}") } })
}

fn completed(id: &str, code: i32, output: &str) -> Value {
    let status = if code == 0 { "completed" } else { "failed" };
    json!({ "type": "item.completed", "item": {
        "id": id, "type": "command_execution", "command": format!("make {id}"), "aggregated_output": output,
        "exit_code": code, "status": status,
    } })
}

fn message(text: &str) -> Value {
    json!({ "type": "item.completed", "item": { "id": "m", "type": "agent_message", "text": text } })
}

/// Returns what an agent prints that says and does everything: tools at once, and a message of many parts.
fn everything() -> Vec<Value> {
    let reasoning =
        json!({ "type": "item.completed", "item": { "id": "r", "type": "reasoning", "text": "hmm" } });
    vec![
        json!({ "type": "thread.started", "thread_id": "t" }),
        json!({ "type": "turn.started" }),
        reasoning,
        message("I build both."),
        started("a"),
        started("b"),
        json!({ "type": "item.completed", "item": { "id": "e", "type": "error", "message": "slow down\nplease" } }),
        completed("b", 2, "no rule\n"),
        completed("a", 0, &"long ".repeat(4_000)),
        started("c"),
        completed("c", 0, "quick\n"),
        message(&"w\u{f6}rd ".repeat(9_000)),
        message("done"),
        json!({ "type": "turn.completed", "usage": {} }),
    ]
}

/// Merges items as a reader does, and checks that no part is doubled or missing.
fn merged<'a>(items: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let mut known: BTreeMap<(u64, u64), Value> = BTreeMap::new();
    for item in items {
        let key = (item["attempt"].as_u64().unwrap(), item["n"].as_u64().unwrap());
        let Some(before) = known.get_mut(&key) else {
            assert!(known.last_key_value().is_none_or(|(last, _)| *last < key), "{item}");
            assert_eq!(item["from"], 0, "{item}");
            known.insert(key, item.clone());
            continue;
        };
        assert_eq!((&before["text_bytes"], &before["status"]), (&item["from"], &json!("running")), "{item}");
        assert_eq!((&item["title"], &item["id"]), (&json!(null), &json!(null)));
        before["text"] =
            json!(format!("{}{}", before["text"].as_str().unwrap(), item["text"].as_str().unwrap()));
        for field in ["status", "text_bytes", "end"] {
            before[field] = item[field].clone();
        }
    }
    known.into_values().collect()
}

/// Returns kind, status and the beginning of the text of items.
fn brief(items: &[Value]) -> Vec<(&str, &str, String)> {
    let text = |item: &Value| item["text"].as_str().unwrap().chars().take(8).collect();
    items
        .iter()
        .map(|item| (item["kind"].as_str().unwrap(), item["status"].as_str().unwrap(), text(item)))
        .collect()
}

/// Reads a transcript page by page; returns its items, and the cursor after each page.
fn paged(daemon: &Daemon, id: &str, limit: usize) -> (Vec<Value>, Vec<String>) {
    let (mut items, mut cursors, mut after) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = daemon.client.get(&format!("/v1/jobs/{id}/transcript?limit={limit}{after}")).expect(200);
        let more = page["items"].as_array().unwrap();
        assert!(
            more.len() <= limit && more.iter().all(|item| item["text"].as_str().unwrap().len() <= 8 << 10)
        );
        items.extend(more.iter().cloned());
        let cursor = page["next_cursor"].as_str().unwrap().to_owned();
        assert!(page["end"] == true || !cursors.contains(&cursor), "{cursor} leads back to itself");
        cursors.push(cursor);
        if page["end"] == true {
            return (items, cursors);
        }
        assert!(!more.is_empty(), "an ended job has an end: {page}");
        after = format!("&after={}", cursors.last().unwrap());
    }
}

/// Returns the items of a stream, and checks that it ended.
fn streamed(mut frames: Vec<Frame>) -> Vec<Value> {
    assert_eq!(frames.pop().unwrap().event, "end");
    assert!(frames.iter().all(|frame| frame.event == "item" && frame.id.is_some()));
    frames.into_iter().map(|frame| frame.data).collect()
}

#[test]
fn a_transcript_is_the_same_in_pages_of_any_size_and_as_a_stream_from_any_place() {
    let home = Home::new();
    let daemon = home.start();
    let id = agent(&home, &daemon, &printing(&home, "said", &everything()));
    daemon.end_of(&id);
    let (items, cursors) = paged(&daemon, &id, 500);
    assert_eq!(cursors.len(), 1);
    let whole = merged(&items);
    let expected = [
        ("reasoning", "completed", "hmm"),
        ("message", "completed", "I build "),
        ("tool", "completed", "long lon"),
        ("tool", "failed", "no rule\n"),
        ("note", "completed", "slow dow"),
        ("tool", "completed", "quick\n"),
        ("message", "completed", "w\u{f6}rd w\u{f6}r"),
        ("message", "completed", "done"),
    ];
    assert_eq!(brief(&whole), expected.map(|(kind, status, text)| (kind, status, text.to_owned())));
    assert_eq!((&whole[2]["title"], &whole[2]["id"]), (&json!("make a"), &json!("a")));
    assert_eq!(
        (whole[2]["text"].as_str().unwrap().len(), &whole[2]["text_bytes"]),
        (8 << 10, &json!(20_000))
    );
    assert_eq!(whole[6]["text"], "w\u{f6}rd ".repeat(9_000), "a long message comes whole");
    let path = format!("/v1/jobs/{id}/transcript");
    for limit in [1, 2, 3, 7] {
        let (items, cursors) = paged(&daemon, &id, limit);
        assert_eq!(merged(&items), whole, "{limit} at once");
        // At each of these places a stream goes on with the rest.
        for (index, cursor) in cursors.iter().enumerate().filter(|_| limit == 1) {
            let frames = daemon.client.stream(&path, &[("last-event-id", cursor)]).collect();
            let rest = streamed(frames);
            assert_eq!(merged(items[..=index].iter().chain(&rest)), whole, "after item {index}");
        }
    }
    let frames: Vec<Frame> = daemon.client.stream(&path, &[]).collect();
    let places: Vec<String> = frames.iter().filter_map(|frame| frame.id.clone()).collect();
    let told = streamed(frames);
    assert_eq!(merged(&told), whole);
    for (index, place) in places.iter().enumerate() {
        let page = daemon.client.get(&format!("{path}?limit=500&after={place}")).expect(200);
        let rest = page["items"].as_array().unwrap();
        assert_eq!(merged(told[..=index].iter().chain(rest)), whole, "after frame {index}");
    }
}

#[test]
fn a_live_transcript_is_followed_to_the_end_of_the_job() {
    let home = Home::new();
    let daemon = home.start();
    let said = everything();
    let script = [
        printing(&home, "first", &said[..5]),
        "printf '{\"type\":'\n".to_owned(),
        awaiting(&home, "go"),
        "printf '\"turn.started\"}\\n'\n".to_owned(),
        printing(&home, "rest", &said[5..]),
    ];
    let id = agent(&home, &daemon, &script.concat());
    let path = format!("/v1/jobs/{id}/transcript");
    let mut stream = daemon.client.stream(&path, &[]);
    assert_eq!((stream.status, stream.headers["content-type"].as_str()), (200, "text/event-stream"));
    let first: Vec<Frame> = stream.by_ref().take(3).collect();
    let items: Vec<Value> = first.iter().map(|frame| frame.data.clone()).collect();
    assert_eq!(brief(&items)[2], ("tool", "running", String::new()), "it is told before it ends");
    let page = daemon.client.get(&path).expect(200);
    assert_eq!((&page["items"], &page["end"], &page["attempt"]), (&json!(items), &json!(false), &json!(1)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let nothing = daemon.client.get(&format!("{path}?after={cursor}")).expect(200);
    assert_eq!((&nothing["items"], &nothing["next_cursor"]), (&json!([]), &json!(cursor)));
    std::fs::write(home.path("go"), "").unwrap();
    let rest = streamed(stream.collect());
    let whole = merged(items.iter().chain(&rest));
    assert_eq!(whole, merged(&paged(&daemon, &id, 500).0));
    let page = daemon.client.get(&format!("{path}?limit=500&after={cursor}")).expect(200);
    assert_eq!(merged(items.iter().chain(page["items"].as_array().unwrap())), whole);
    assert_eq!(page["end"], true);
}

#[test]
fn a_stream_is_resumed_at_another_daemon() {
    let home = Home::new();
    let daemon = home.start();
    let said = everything();
    let script =
        [printing(&home, "first", &said[..5]), awaiting(&home, "go"), printing(&home, "rest", &said[5..])];
    let id = agent(&home, &daemon, &script.concat());
    let path = format!("/v1/jobs/{id}/transcript");
    let mut stream = daemon.client.stream(&path, &[]);
    let first: Vec<Frame> = stream.by_ref().take(3).collect();
    daemon.leave();
    let frames: Vec<Frame> = stream.collect();
    assert_eq!(frames.iter().map(|frame| frame.event.as_str()).collect::<Vec<_>>(), ["stopping"]);
    let daemon = home.start();
    let place = first[2].id.clone().unwrap();
    let stream = daemon.client.stream(&path, &[("last-event-id", &place)]);
    std::fs::write(home.path("go"), "").unwrap();
    let rest = streamed(stream.collect());
    daemon.end_of(&id);
    let first: Vec<Value> = first.into_iter().map(|frame| frame.data).collect();
    assert_eq!(merged(first.iter().chain(&rest)), merged(&paged(&daemon, &id, 500).0));
}

#[test]
fn a_stream_goes_on_with_the_next_attempt() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("echo one two; sleep 0.05; exit 1");
    asked["retry"] = json!({ "attempts": 3, "backoff_ms": 1, "backoff_max_ms": 1 });
    let id = daemon.submit(&asked);
    let path = format!("/v1/jobs/{id}/transcript");
    let live = streamed(daemon.client.stream(&path, &[]).collect());
    daemon.end_of(&id);
    let said = |items: &[Value]| -> Vec<(u64, String)> {
        let text = |item: &Value| item["text"].as_str().unwrap().to_owned();
        merged(items).iter().map(|item| (item["attempt"].as_u64().unwrap(), text(item))).collect()
    };
    let all = [1, 2, 3].map(|attempt| (attempt, "one two\n".to_owned()));
    assert_eq!(said(&live), all);
    let newest = streamed(daemon.client.stream(&path, &[]).collect());
    assert_eq!(said(&newest), all[2..], "it begins with the newest");
    let first = daemon.client.get(&format!("{path}?attempt=1")).expect(200);
    let first_end = first["next_cursor"].as_str().unwrap();
    assert_eq!((said(first["items"].as_array().unwrap()), &first["end"]), (all[..1].to_vec(), &json!(true)));
    let after_first = streamed(daemon.client.stream(&path, &[("last-event-id", first_end)]).collect());
    assert_eq!(said(&after_first), all[1..]);
    let single = streamed(daemon.client.stream(&format!("{path}?attempt=2"), &[]).collect());
    assert_eq!(said(&single), all[1..2], "only the attempt that is asked for");
}

#[test]
fn a_command_has_its_output_as_items() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("seq 1 5000; printf '\\377\\342\\202\\254 end'; echo err >&2");
    daemon.end_of(&id);
    let output = daemon.client.get(&format!("/v1/jobs/{id}/output")).text();
    for limit in [1, 500] {
        let items = merged(&paged(&daemon, &id, limit).0);
        let text: String = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
        assert_eq!(text, output);
        assert!(
            items.len() > 3
                && items.iter().all(|item| item["kind"] == "output" && item["status"] == "completed")
        );
        let borders: Vec<_> = items.iter().map(|item| (item["n"].clone(), item["end"].clone())).collect();
        assert!(
            borders.windows(2).all(|pair| pair[0].1 == pair[1].0),
            "nothing is between them: {borders:?}"
        );
    }
}

#[test]
fn output_that_was_not_kept_is_a_gap() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("seq 1 3000000");
    daemon.end_of(&id);
    let written: String = (1..=3_000_000).map(|number| format!("{number}\n")).collect();
    let items = merged(&paged(&daemon, &id, 500).0);
    let (mut next, mut gaps) = (0, Vec::new());
    for item in &items {
        let [begin, end] = ["n", "end"].map(|name| item[name].as_u64().unwrap() as usize);
        assert_eq!(begin, next, "nothing is between two items");
        match item["kind"].as_str().unwrap() {
            "gap" => gaps.push(end - begin),
            _ => assert_eq!(item["text"], written[begin..end], "at {begin}"),
        }
        next = end;
    }
    assert_eq!(next, written.len());
    assert!(matches!(gaps[..], [skipped] if skipped > 1 << 20), "{gaps:?}");
}

#[test]
fn a_job_that_never_ran_has_an_empty_transcript() {
    let home = Home::new();
    let daemon = home.start();
    let mut asked = daemon.script("exit 0");
    asked["not_before"] = json!("2099-01-01T00:00:00Z");
    let id = daemon.submit(&asked);
    let path = format!("/v1/jobs/{id}/transcript");
    let empty = |end: bool| json!({ "attempt": null, "items": [], "next_cursor": null, "end": end });
    assert_eq!(daemon.client.get(&path).expect(200), empty(false));
    let stream = daemon.client.stream(&path, &[]);
    daemon.client.post(&format!("/v1/jobs/{id}:cancel"), &json!({})).expect(200);
    assert_eq!(streamed(stream.collect()), [json!(null); 0]);
    assert_eq!(daemon.client.get(&path).expect(200), empty(true));
}

#[test]
fn a_cursor_from_elsewhere_is_refused() {
    let home = Home::new();
    let daemon = home.start();
    let (id, other) = (daemon.run("echo one"), daemon.run("echo one"));
    let told = agent(&home, &daemon, &printing(&home, "said", &everything()));
    let cursor_of = |id: &String| {
        daemon.end_of(id);
        let page = daemon.client.get(&format!("/v1/jobs/{id}/transcript")).expect(200);
        page["next_cursor"].as_str().unwrap().to_owned()
    };
    let (cursor, others, agents) = (cursor_of(&id), cursor_of(&other), cursor_of(&told));
    let path = format!("/v1/jobs/{id}/transcript");
    assert_eq!(daemon.client.get(&format!("{path}?after={cursor}")).status, 200);
    let named = |cursor: &str| cursor.replacen(&cursor[..8], &id[id.len() - 8..], 1);
    assert_eq!(named(&others), cursor, "they differ by the job alone");
    let parts: Vec<&str> = cursor.split('-').collect();
    let with = |index: usize, part: &str| {
        let mut parts = parts.clone();
        parts[index] = part;
        parts.join("-")
    };
    let bad = [
        "1".to_owned(),
        "now".to_owned(),
        others,
        named(&agents),
        with(1, "2"),
        with(1, "0"),
        with(1, "01"),
        with(2, "ffffffffffffffffff"),
        with(3, "-1"),
        with(3, "+8"),
        with(5, "2"),
        format!("{cursor}-0-0-0"),
        format!("{cursor}{}", "-0".repeat(2_000)),
        cursor[..cursor.len() - 2].to_owned(),
        format!("{cursor}%FF%00"),
    ];
    for bad in bad {
        let answer = daemon.client.get(&format!("{path}?after={bad}"));
        assert_eq!(answer.problem(), (400, "invalid".to_owned()), "{bad}");
        if !bad.contains('%') {
            let socket = daemon.client.request(
                "GET",
                &path,
                &[("accept", "text/event-stream"), ("last-event-id", &bad)],
                b"",
            );
            assert_eq!(socket.problem(), (400, "invalid".to_owned()), "{bad}");
        }
    }
    // A place past the end is no place of ours, but harmless.
    let past = with(3, "ffffffffffffffff");
    let page = daemon.client.get(&format!("{path}?after={past}")).expect(200);
    assert_eq!((&page["items"], &page["end"]), (&json!([]), &json!(true)));
    for (query, status) in
        [("limit=0", 400), ("limit=501", 400), ("before=1", 400), ("attempt=2", 404), ("attempt=x", 400)]
    {
        assert_eq!(daemon.client.get(&format!("{path}?{query}")).problem().0, status, "{query}");
    }
    let conflict = daemon.client.get(&format!("{path}?attempt=2&after={cursor}"));
    assert_eq!(conflict.problem(), (400, "invalid".to_owned()));
    assert_eq!(daemon.client.get("/v1/jobs/nobody/transcript").status, 404);
}
