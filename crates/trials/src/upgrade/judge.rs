//! The verdict on one job, by what the new daemon reports and by the files that the job itself has left.

use serde_json::Value;

use super::account::Told;
use super::home::holds;
use super::jobs::{Row, Wrote};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Files that a job has left.
pub(super) struct Left {
    /// The pids of its starts.
    pub(super) runs: Vec<String>,
    /// Messages that its agent received.
    pub(super) heard: Vec<String>,
}

/// Returns everything that is wrong with a job at its end. `before` is what 0.1.0 reported last.
pub(super) fn job(row: &Row, before: Option<&Told>, told: &Told, left: &Left) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for condition in row.ends.iter().filter(|condition| !holds(&told.shown, condition)) {
        found.push(format!("`{condition}` does not hold: {}", told.shown));
    }
    one_last_word(told, &mut found);
    receipts(told, &mut found);
    output(row, told, &mut found);
    if left.runs.len() != row.starts {
        found.push(format!("its program was started {} times instead of {}", left.runs.len(), row.starts));
    }
    if let Some(heard) = row.heard.as_ref().filter(|heard| **heard != left.heard) {
        found.push(format!("its agent received {:?} instead of {heard:?}", left.heard));
    }
    if let Some(before) = before.filter(|_| row.is_adopted()) {
        adopted(row, before, told, left, &mut found);
    }
    if let Some(limit) = row.stops_after {
        stopped_by_clock(told, limit.as_millis() as i64, &mut found);
    }
    let mut found: Vec<String> = found.iter().map(|what| format!("{}: {what}", row.name)).collect();
    if let Some(before) = before {
        before.compare_history(row, told, &mut found);
    }
    found
}

/// Checks that there is one last word, followed by nothing that changes it, and that no event is missing.
fn one_last_word(told: &Told, found: &mut Vec<String>) {
    let kinds: Vec<&str> = told.events.iter().filter_map(|event| event["type"].as_str()).collect();
    let words = kinds.iter().filter(|kind| **kind == "last_word").count();
    if words != 1 {
        found.push(format!("it has {words} last words"));
    }
    // A job that another one resumed gets its place in their conversation.
    let may_follow = |kind: &str| ["late_reported", "joined", "continued"].contains(&kind);
    if kinds.iter().rfind(|kind| !may_follow(kind)) != Some(&"last_word") {
        found.push(format!("events follow its last word: {kinds:?}"));
    }
    let numbers: Vec<u64> = told.events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    if !numbers.iter().copied().eq(1..=told.events.len() as u64) {
        found.push(format!("its events have the numbers {numbers:?}"));
    }
}

/// Checks that every attempt has a receipt without doubt, unless it is lost: with the bytes that can be read, the rungs that were climbed,
/// and the leader among the processes that were found.
fn receipts(told: &Told, found: &mut Vec<String>) {
    for attempt in told.shown["attempts"].as_array().into_iter().flatten() {
        let (receipt, is_lost) = (&attempt["receipt"], attempt["outcome"] == "lost");
        if receipt.is_null() || (!is_lost && receipt["certain"] != true) {
            found.push(format!("an attempt has no proof: {attempt}"));
        }
        let streams =
            ["stdout", "stderr"].map(|stream| told.streams.get(&format!("{}/{stream}", attempt["no"])));
        let bytes: usize = streams.into_iter().flatten().map(Vec::len).sum();
        if !is_lost && receipt["output"]["kept"] != bytes {
            found.push(format!("{bytes} bytes can be read, its receipt has {}", receipt["output"]));
        }
        let has = |list: &str, field: &str, value: &Value| {
            receipt[list].as_array().is_some_and(|items| items.iter().any(|item| item[field] == *value))
        };
        let rung = &told.shown["stop"]["rung"];
        let is_stopped = !rung.is_null() && !is_lost;
        if is_stopped && !(has("rungs", "rung", rung) && has("processes", "pid", &attempt["pid"])) {
            found.push(format!("it was stopped with {rung}, its receipt is {receipt}"));
        }
    }
}

/// Checks the standard output of the last attempt.
fn output(row: &Row, told: &Told, found: &mut Vec<String>) {
    let last = told.shown["attempts"].as_array().map_or(0, Vec::len);
    let stream = |name: &str| told.streams.get(&format!("{last}/{name}")).map_or(&[][..], Vec::as_slice);
    let bytes = stream("stdout");
    match &row.wrote {
        Wrote::Anything => {}
        Wrote::Text(text) if text.as_bytes() == bytes => {}
        Wrote::Text(text) => {
            found.push(format!("it wrote {:?} instead of {text:?}", String::from_utf8_lossy(bytes)));
        }
        Wrote::Bytes(count) => {
            let seen = told.shown.pointer(&format!("/attempts/{}/receipt/output/seen", last.max(1) - 1));
            if seen.and_then(Value::as_u64) != Some(*count) {
                found.push(format!("{seen:?} bytes were seen instead of {count}"));
            }
        }
        Wrote::Counted => counted(bytes, found),
    }
    // This one counts on both streams.
    if row.name == "both" {
        counted(stream("stderr"), found);
    }
}

/// Checks that the numbered lines are complete, whatever protocol wraps them.
pub(super) fn counted(bytes: &[u8], found: &mut Vec<String>) {
    let text = String::from_utf8_lossy(bytes);
    let numbers = |word: &str| -> Vec<u64> {
        let parts = text.split(word).skip(1);
        parts.filter_map(|part| part.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()).collect()
    };
    let (lines, last) = (numbers("line "), numbers("last "));
    if last.len() != 1 || !lines.iter().copied().eq(1..=last[0]) {
        found.push(format!("its lines are {lines:?}, the last one is {last:?}"));
    }
}

/// Checks that the process of 0.1.0 went on: adopted once, and not launched again.
fn adopted(row: &Row, before: &Told, told: &Told, left: &Left, found: &mut Vec<String>) {
    let pids = |told: &Told| -> Vec<Value> {
        let attempts = told.shown["attempts"].as_array().into_iter().flatten();
        attempts.map(|attempt| attempt["pid"].clone()).collect()
    };
    let (old, new) = (pids(before), pids(told));
    if old != new {
        found.push(format!("its processes were {old:?} and are {new:?}"));
    }
    let own = left.runs.last().and_then(|pid| pid.parse::<i64>().ok());
    if old.last().and_then(Value::as_i64) != own {
        found.push(format!("its process wrote that it is {own:?}, 0.1.0 reported {old:?}"));
    }
    let later = told.events.get(before.events.len()..).unwrap_or_default();
    let count = |kind: &str| later.iter().filter(|event| event["type"] == kind).count();
    let (launches, adoptions) = (count("launched"), count("adopted"));
    let expected = if row.changes_in_gap { 0..=1 } else { 1..=1 };
    if launches != 0 || !expected.contains(&adoptions) {
        found.push(format!(
            "after the takeover it was launched {launches} times and adopted {adoptions} times"
        ));
    }
}

/// Checks that the limit fired when its time was over, and that the time was counted from the start and not from the adoption. A stall
/// is counted from the adoption: a new owner does not know when a job wrote last.
fn stopped_by_clock(told: &Told, limit_ms: i64, found: &mut Vec<String>) {
    let at = |kind: &str| -> Option<i64> {
        let event = told.events.iter().rfind(|event| event["type"] == kind)?;
        millisecond_of_day(event["time"].as_str()?)
    };
    let (Some(begin), Some(adopted), Some(fired)) = (at("launch_intended"), at("adopted"), at("limit_fired"))
    else {
        return found.push("it was not launched, adopted and stopped by its limit".to_owned());
    };
    let since = |begin: i64| (fired - begin).rem_euclid(DAY_MS);
    if since(begin) < limit_ms {
        found.push(format!("its limit fired after {} ms instead of {limit_ms}", since(begin)));
    }
    if told.shown["outcome_detail"] != "stall" && since(adopted) >= limit_ms {
        found.push(format!("its clock was restarted: it fired {} ms after the adoption", since(adopted)));
    }
}

/// Parses the time of day out of a moment such as `2026-11-16T02:52:50.423Z`.
fn millisecond_of_day(moment: &str) -> Option<i64> {
    let time = moment.split_once('T')?.1.strip_suffix('Z')?;
    let mut parts = time.split([':', '.']).map(|part| part.parse::<i64>().ok());
    let mut next = || parts.next().flatten();
    Some(((next()? * 60 + next()?) * 60 + next()?) * 1000 + next()?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::upgrade::jobs;

    /// Returns the row of a job that counts until a limit stops it, and what a daemon that is right reports of it.
    fn stopped() -> (Row, Told, Told, Left) {
        let mut row = jobs::all(10).into_iter().find(|row| row.name == "wall").unwrap();
        row.stops_after = Some(Duration::from_secs(10));
        row.wrote = Wrote::Counted;
        let event = |seq: u64, kind: &str, second: u64| json!({ "seq": seq, "type": kind, "time": format!("2026-11-16T23:59:{second:02}.000Z") });
        let began = vec![event(1, "launch_intended", 1), event(2, "launched", 2)];
        let ended = [event(3, "adopted", 5), event(4, "limit_fired", 11), event(5, "last_word", 12)];
        let output = b"line 1\nline 2\nlast 2\n".to_vec();
        let shown = json!({
            "outcome": "timed_out",
            "outcome_detail": "deadline",
            "stop": { "rung": "term" },
            "attempts": [{ "no": 1, "pid": 7, "outcome": "timed_out", "receipt": {
                "certain": true, "output": { "kept": output.len() }, "rungs": [{ "rung": "term" }], "processes": [{ "pid": 7 }],
            } }],
        });
        let before = Told {
            shown: json!({ "attempts": [{ "no": 1, "pid": 7 }] }),
            events: began.clone(),
            streams: [].into(),
        };
        let events = began.into_iter().chain(ended).collect();
        let told = Told { shown, events, streams: [("1/stdout".to_owned(), output)].into() };
        (row, before, told, Left { runs: vec!["7".to_owned()], heard: Vec::new() })
    }

    #[test]
    fn what_is_right_passes() {
        let (row, before, told, left) = stopped();
        assert_eq!(job(&row, Some(&before), &told, &left), [""; 0]);
    }

    #[test]
    fn every_falsehood_is_noticed() {
        type Falsify = fn(&mut Told, &mut Left);
        let falsehoods: [(&str, Falsify); 14] = [
            ("`/outcome=timed_out`", |told, _| told.shown["outcome"] = "completed".into()),
            ("0 last words", |told, _| drop(told.events.pop())),
            ("2 last words", |told, _| told.events.push(json!({ "seq": 6, "type": "last_word" }))),
            ("follow its last word", |told, _| told.events.push(json!({ "seq": 6, "type": "launched" }))),
            ("event 1/seq was", |told, _| told.events[0]["seq"] = 9.into()),
            ("have the numbers", |told, _| told.events[3]["seq"] = 9.into()),
            ("no proof", |told, _| told.shown["attempts"][0]["receipt"]["certain"] = false.into()),
            ("its receipt is", |told, _| told.shown["attempts"][0]["receipt"]["rungs"] = json!([])),
            ("its receipt has", |told, _| told.shown["attempts"][0]["receipt"]["output"]["kept"] = 3.into()),
            ("its lines are [1, 1, 2]", |told, _| {
                drop(told.streams.insert("1/stdout".to_owned(), b"line 1\nline 1\nline 2\nlast 2\n".to_vec()))
            }),
            ("started 2 times", |_, left| left.runs.insert(0, "6".to_owned())),
            ("its processes were", |told, _| told.shown["attempts"][0]["pid"] = 8.into()),
            ("launched 1 times and adopted 0", |told, _| told.events[2]["type"] = "launched".into()),
            ("its clock was restarted", |told, _| told.events[2]["time"] = "2026-11-16T23:59:01.000Z".into()),
        ];
        for (noticed, falsify) in falsehoods {
            let (row, before, mut told, mut left) = stopped();
            falsify(&mut told, &mut left);
            let found = job(&row, Some(&before), &told, &left);
            assert!(found.iter().any(|what| what.contains(noticed)), "{noticed}: {found:?}");
        }
    }
}
