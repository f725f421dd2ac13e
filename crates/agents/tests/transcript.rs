//! The transcript of recorded streams: the items say what `logs` shows, and reading them in parts changes nothing.

use std::collections::BTreeMap;

use lastword_agents::{Change, Kind, PART_BYTES_MAX, Place, Show, Shown, Status, Transcript};
use lastword_core::spec::Dialect;
use serde_json::{Value, json};

/// Returns every recorded stream: its name, its dialect, and what the agent wrote.
fn streams() -> Vec<(String, Dialect, Vec<u8>)> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams")).expect("a folder");
    let streams = folder.map(|entry| {
        let path = entry.expect("a file").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let dialect = match &name {
            name if name.starts_with("once-") => Dialect::Once,
            name if name.starts_with("codex-app-server") => Dialect::Codex,
            name if name.contains("-acp") => Dialect::Acp,
            _ => Dialect::Claude,
        };
        let written = std::fs::read_to_string(&path).expect("text");
        let lines = written.lines().filter_map(|line| line.strip_prefix("< "));
        (name, dialect, lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes())
    });
    let streams: Vec<_> = streams.collect();
    assert!(streams.len() > 40, "{}", streams.len());
    streams
}

/// Reads bytes to their end.
fn read(transcript: &mut Transcript, mut bytes: &[u8]) -> Vec<Change> {
    std::iter::from_fn(|| transcript.step(&mut bytes)).flatten().collect()
}

/// Reads a whole output.
fn all(dialect: Option<Dialect>, bytes: &[u8]) -> Vec<Change> {
    let mut transcript = Transcript::new(dialect);
    let mut changes = read(&mut transcript, bytes);
    changes.extend(transcript.finish());
    changes
}

/// Merges changes into items as a reader does, and checks that nothing is doubled or missing.
fn items(changes: impl IntoIterator<Item = Change>) -> Vec<Change> {
    let mut items: BTreeMap<u64, Change> = BTreeMap::new();
    for change in changes {
        assert!(change.text.len() <= PART_BYTES_MAX, "{change:?}");
        match items.get_mut(&change.n) {
            None => {
                assert!(items.last_key_value().is_none_or(|(last, _)| *last < change.n), "{change:?}");
                assert_eq!(change.from, 0, "{change:?}");
                items.insert(change.n, change);
            }
            Some(item) => {
                assert_eq!((item.kind, item.status), (change.kind, Status::Running), "{item:?}, {change:?}");
                assert_eq!(
                    (item.text_bytes, &change.id, &change.title),
                    (change.from, &None, &None),
                    "{item:?}"
                );
                item.text.push_str(&change.text);
                (item.status, item.text_bytes, item.end) = (change.status, change.text_bytes, change.end);
            }
        }
    }
    items.into_values().collect()
}

fn line_feed(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Returns items as `logs` prints them.
fn printed(items: &[Change]) -> String {
    let print = |item: &Change| match item.kind {
        Kind::Message if item.status == Status::Running => item.text.clone(),
        Kind::Message => format!("{}\n", item.text),
        Kind::Tool => {
            let title = item.title.as_ref().map(|title| format!("> {title}\n")).unwrap_or_default();
            title + &line_feed(&item.text)
        }
        Kind::Note => format!("! {}\n", item.text.trim().lines().next().unwrap_or_default()),
        Kind::Output => item.text.clone(),
        Kind::Reasoning | Kind::Gap => String::new(),
    };
    items.iter().map(print).collect()
}

/// Returns what `logs` prints.
fn shown(dialect: Dialect, bytes: &[u8]) -> String {
    let mut show = Show::new(dialect);
    let lines = bytes.strip_suffix(b"\n").into_iter().flat_map(|bytes| bytes.split(|byte| *byte == b'\n'));
    let shown = lines.flat_map(|line| show.line(line)).map(|shown| match shown {
        Shown::Text(text) => text,
        Shown::Break => "\n".to_owned(),
        Shown::Tool(title) => format!("> {title}\n"),
        Shown::Output(output) => line_feed(&output),
        Shown::Note(note) => format!("! {note}\n"),
    });
    shown.collect()
}

#[test]
fn items_say_what_is_shown() {
    for (name, dialect, bytes) in streams() {
        let items = items(all(Some(dialect), &bytes));
        assert_eq!(printed(&items), shown(dialect, &bytes), "{name}");
    }
}

#[test]
fn a_transcript_continued_at_any_line_is_the_same() {
    for (name, dialect, bytes) in streams() {
        let whole = all(Some(dialect), &bytes);
        let (mut transcript, mut before) = (Transcript::new(Some(dialect)), Vec::new());
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            before.extend(read(&mut transcript, line));
            let place: Place = transcript.place().to_string().parse().unwrap();
            let mut rest = Transcript::at(Some(dialect), &place).unwrap();
            let begin = usize::try_from(rest.next_byte()).unwrap();
            let after = read(&mut rest, &bytes[begin..]);
            assert_eq!([&before[..], &after].concat(), whole, "{name} at {begin}");
        }
        assert_eq!(transcript.next_byte(), bytes.len() as u64, "{name}");
    }
}

#[test]
fn pieces_of_any_size_read_alike() {
    for (name, dialect, bytes) in streams() {
        for dialect in [Some(dialect), None] {
            let mut at_once = Transcript::new(dialect);
            let whole = items(read(&mut at_once, &bytes));
            for size in [1, 7, 4_099] {
                let (mut transcript, mut changes, mut offset) = (Transcript::new(dialect), Vec::new(), 0);
                for piece in bytes.chunks(size) {
                    changes.extend(read(&mut transcript, piece));
                    offset += piece.len() as u64;
                    assert_eq!(transcript.next_byte(), offset, "every byte was taken");
                    // A place is that of the last whole line: what was read of the next one comes again.
                    let begin = usize::try_from(transcript.place().offset).unwrap();
                    let ends_a_line = begin == 0 || bytes[begin - 1] == b'\n';
                    assert!(dialect.is_none() || ends_a_line, "{name} at {begin}");
                }
                assert_eq!(items(changes), whole, "{name} in pieces of {size}");
                assert_eq!(transcript.place(), at_once.place(), "{name} in pieces of {size}");
            }
        }
    }
}

/// Returns output without a protocol: short and long lines, wide and broken characters at every bound.
fn plain() -> Vec<u8> {
    let mut bytes = b"one\n\xe2\x82two\xff\n\n".to_vec();
    bytes.extend("\u{20ac}".repeat(1_500).bytes());
    bytes.extend([0xf0, 0x9f]);
    bytes.extend("\u{1f600}".repeat(1_200).bytes());
    bytes.extend([0xff; 40]);
    bytes.extend(b"end\n\xe2\x82");
    bytes
}

#[test]
fn plain_output_continued_at_any_byte_is_the_same_and_complete() {
    let bytes = plain();
    let whole = items(all(None, &bytes));
    let text: String = whole.iter().map(|item| item.text.as_str()).collect();
    assert_eq!(text, String::from_utf8_lossy(&bytes));
    assert!(whole.len() > 1 && whole.iter().all(|item| item.status == Status::Completed), "{whole:?}");
    assert!(whole.windows(2).all(|pair| pair[0].end == pair[1].n), "{whole:?}");
    for cut in 0..=bytes.len() {
        let mut first = Transcript::new(None);
        let mut changes = read(&mut first, &bytes[..cut]);
        let place: Place = first.place().to_string().parse().unwrap();
        let mut rest = Transcript::at(None, &place).unwrap();
        changes.extend(read(&mut rest, &bytes[usize::try_from(place.offset).unwrap()..]));
        changes.extend(rest.finish());
        assert_eq!(items(changes), whole, "cut at {cut}");
        assert_eq!(rest.finish(), [], "it ends once");
    }
    for size in 1..9 {
        let mut transcript = Transcript::new(None);
        let mut changes: Vec<_> = bytes.chunks(size).flat_map(|piece| read(&mut transcript, piece)).collect();
        changes.extend(transcript.finish());
        assert_eq!(items(changes), whole, "in pieces of {size}");
    }
    let ended = items(all(None, b"no line"));
    assert_eq!(brief(&ended), [(Kind::Output, Status::Completed, None, "no line")]);
}

/// Returns the items of lines of JSON.
fn of(dialect: Dialect, lines: &[Value]) -> Vec<Change> {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    items(all(Some(dialect), lines.as_bytes()))
}

/// Returns kind, status, title and text of items.
fn brief(items: &[Change]) -> Vec<(Kind, Status, Option<&str>, &str)> {
    items.iter().map(|item| (item.kind, item.status, item.title.as_deref(), item.text.as_str())).collect()
}

#[test]
fn what_the_agent_thinks_is_an_item_in_every_dialect_that_says_it() {
    use Kind::{Message, Reasoning};
    use Status::Completed;
    let expected = [(Reasoning, Completed, None, "hmm"), (Message, Completed, None, "thought.")];
    for (stream, dialect) in [("claude-turns", Dialect::Claude), ("codex-app-server", Dialect::Codex)] {
        let (_, _, bytes) = streams().into_iter().find(|(name, ..)| name == stream).unwrap();
        let items = items(all(Some(dialect), &bytes));
        assert_eq!(brief(&items)[..2], expected, "{stream}");
        let whole: Vec<u8> = bytes
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| {
                !String::from_utf8_lossy(line).contains("stream_event")
                    && !String::from_utf8_lossy(line).contains("elta")
            })
            .flatten()
            .copied()
            .collect();
        let items = self::items(all(Some(dialect), &whole));
        assert_eq!(brief(&items)[..2], expected, "{stream}, not streamed");
    }
    let chunk = |kind: &str, text: &str| json!({ "method": "session/update", "params": { "update": { "sessionUpdate": kind, "content": { "text": text } } } });
    let acp = [
        json!({ "id": 2, "result": {} }),
        chunk("agent_thought_chunk", "h"),
        chunk("agent_thought_chunk", "mm"),
        chunk("agent_message_chunk", "thought."),
        json!({ "id": 3, "result": {} }),
    ];
    assert_eq!(brief(&of(Dialect::Acp, &acp)), expected);
    let message = |block: Value| json!({ "type": "assistant", "message": { "content": [block] } });
    let once = [
        message(json!({ "type": "thinking", "thinking": "hmm" })),
        message(json!({ "type": "text", "text": "thought." })),
    ];
    assert_eq!(brief(&of(Dialect::Once, &once)), expected);
    let codex = |item: Value| json!({ "type": "item.completed", "item": item });
    let once = [
        codex(json!({ "type": "reasoning", "text": "hmm" })),
        codex(json!({ "type": "agent_message", "text": "thought." })),
    ];
    assert_eq!(brief(&of(Dialect::Once, &once)), expected);
}

#[test]
fn tools_that_run_at_once_have_their_own_output() {
    let started = |id: &str| json!({ "method": "item/started", "params": { "item": { "type": "commandExecution", "id": id, "command": id } } });
    let delta = |id: &str, text: &str| json!({ "method": "item/commandExecution/outputDelta", "params": { "itemId": id, "delta": text } });
    let completed = |id: &str, status: &str, output: &str| {
        let item =
            json!({ "type": "commandExecution", "id": id, "status": status, "aggregatedOutput": output });
        json!({ "method": "item/completed", "params": { "item": item } })
    };
    let items = of(
        Dialect::Codex,
        &[
            started("a"),
            started("b"),
            started("c"),
            delta("a", "1"),
            delta("b", "2"),
            delta("a", "3\n"),
            completed("a", "completed", "13\n"),
            completed("b", "failed", "2"),
            completed("c", "completed", "whole"),
            completed("unknown", "completed", "late"),
        ],
    );
    let tool = |status, title, text| (Kind::Tool, status, title, text);
    let expected = [
        tool(Status::Completed, Some("a"), "13\n"),
        tool(Status::Failed, Some("b"), "2"),
        tool(Status::Completed, Some("c"), "whole"),
        tool(Status::Completed, None, "late"),
    ];
    assert_eq!(brief(&items), expected);
    let ids: Vec<_> = items.iter().map(|item| item.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c", "unknown"]);
}

#[test]
fn a_line_can_begin_several_items() {
    let tool = |id: &str| json!({ "type": "tool_use", "id": id, "name": id });
    let content =
        json!([{ "type": "text", "text": "both" }, tool("a"), tool("b"), { "type": "text", "text": "." }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "a", "content": "1" }, { "type": "tool_result", "tool_use_id": "b", "is_error": true, "content": [{ "text": "2" }] }]);
    let message = |kind: &str, content: Value| json!({ "type": kind, "message": { "content": content } });
    let items = of(Dialect::Claude, &[message("assistant", content), message("user", result)]);
    let expected = [
        (Kind::Message, Status::Completed, None, "both"),
        (Kind::Tool, Status::Completed, Some("a"), "1"),
        (Kind::Tool, Status::Failed, Some("b"), "2"),
        (Kind::Message, Status::Completed, None, "."),
    ];
    assert_eq!(brief(&items), expected);
    assert_eq!(items.iter().map(|item| item.n).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn a_long_message_comes_whole_in_parts_and_a_long_output_is_cut() {
    let long = "\u{20ac}uro ".repeat(5_000);
    let items_of = |block: Value| {
        let line = json!({ "type": "assistant", "message": { "content": [block] } });
        all(Some(Dialect::Claude), format!("{line}\n").as_bytes())
    };
    let parts = items_of(json!({ "type": "text", "text": long }));
    assert!(parts.len() > 4 && parts[..parts.len() - 1].iter().all(|part| part.status == Status::Running));
    let whole = items(parts);
    assert_eq!((whole.len(), &whole[0].text, whole[0].status), (1, &long, Status::Completed));
    assert_eq!(whole[0].text_bytes, long.len() as u64);
    let lines = [
        json!({ "type": "assistant", "message": { "content": [{ "type": "tool_use", "id": "t", "name": "Read" }] } }),
        json!({ "type": "user", "message": { "content": [{ "type": "tool_result", "tool_use_id": "t", "content": long }] } }),
    ];
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let tool = items(all(Some(Dialect::Claude), lines.as_bytes())).remove(0);
    assert_eq!((tool.status, tool.text_bytes), (Status::Completed, long.len() as u64));
    let room = PART_BYTES_MAX - 3..=PART_BYTES_MAX;
    assert!(long.starts_with(&tool.text) && room.contains(&tool.text.len()), "{}", tool.text.len());
}

#[test]
fn what_was_not_kept_is_a_gap_and_the_line_around_it_is_dropped() {
    let delta = |text: &str| {
        format!(
            "{}\n",
            json!({ "type": "stream_event", "event": { "type": "content_block_delta", "delta": { "text": text } } })
        )
    };
    let start =
        format!("{}\n", json!({ "type": "stream_event", "event": { "type": "content_block_start" } }));
    let before = [start, delta("one ")].concat();
    let after = [&delta("lost")[20..], &delta("three")].concat();
    let mut transcript = Transcript::new(Some(Dialect::Claude));
    let mut changes = read(&mut transcript, before.as_bytes());
    assert_eq!(transcript.place().offset, before.len() as u64);
    changes.extend(read(&mut transcript, b"{\"type"));
    transcript.skip(1_000);
    assert_eq!(transcript.place().offset, before.len() as u64, "the gap comes again with the line");
    changes.extend(read(&mut transcript, after.as_bytes()));
    assert_eq!(transcript.next_byte(), (before.len() + 6 + 1_000 + after.len()) as u64);
    let items = items(changes);
    let expected = [
        (Kind::Message, Status::Completed, None, "one "),
        (Kind::Gap, Status::Completed, None, ""),
        (Kind::Message, Status::Running, None, "three"),
    ];
    assert_eq!(brief(&items), expected);
    assert_eq!((items[1].n, items[1].end), (before.len() as u64, items[2].n));

    let mut output = Transcript::new(None);
    let mut changes = read(&mut output, b"one\xe2\x82");
    output.skip(10);
    let place = output.place();
    changes.extend(read(&mut output, b"two\n"));
    changes.extend(output.finish());
    let items = self::items(changes);
    let text: Vec<_> = items.iter().map(|item| (item.kind, item.n, item.end, item.text.as_str())).collect();
    assert_eq!(text, [(Kind::Output, 0, 3, "one"), (Kind::Gap, 3, 15, ""), (Kind::Output, 15, 19, "two\n")]);
    assert_eq!(place.offset, 3);
}

#[test]
fn what_was_not_written_here_is_refused() {
    let fresh = Transcript::new(None).place().to_string();
    assert_eq!(fresh, "0-0-0-0-0-0-0-0-0");
    for bad in [
        "",
        "-",
        "0",
        "x",
        "+0-0-0-0-0-0-0-0-0",
        "00-0-0-0-0-0-0-0-0",
        "0-0-2-0-0-0-0-0-0",
        "9-0-1-0-0-0-2001-0-0",
        "0-0-0-0-0-7-0-0-0",
        "0-0-0-0-0-0-0-0-0-0",
    ] {
        let place = bad.parse::<Place>().and_then(|place| Transcript::at(None, &place));
        assert!(place.is_err(), "{bad}");
    }
    for bad in [
        "0-0-0-0-0-0-0-0-0",
        "0-1-80-0-0-0-0-0-0",
        "0-1-0-7-0-0-0-0-0",
        "0-1-0-0-0-7-0-0-0",
        "0-1-0-0-0-0-0-0-0-1",
        "0-2-0-0-0-0-0-0-0",
    ] {
        let place = bad.parse::<Place>().and_then(|place| Transcript::at(Some(Dialect::Claude), &place));
        assert!(place.is_err(), "{bad}");
    }
}

#[test]
fn a_line_without_end_is_passed_over_in_bounded_steps() {
    let piece = vec![b'x'; 1 << 20];
    let (mut transcript, mut changes, mut places) =
        (Transcript::new(Some(Dialect::Claude)), Vec::new(), Vec::new());
    for _ in 0..140 {
        let more = read(&mut transcript, &piece);
        places.extend((!more.is_empty()).then(|| transcript.place()));
        changes.extend(more);
    }
    changes.extend(read(&mut transcript, b"x\n{}\n"));
    let gaps: Vec<_> = changes.iter().map(|change| (change.kind, change.n, change.end)).collect();
    let [first, second] = [65, 130].map(|pieces: u64| pieces << 20);
    let end = (140 << 20) + 2;
    assert_eq!(gaps, [(Kind::Gap, 0, first), (Kind::Gap, first, second), (Kind::Gap, second, end)]);
    assert_eq!(transcript.place().offset, end + 3);
    let mut rest = Transcript::at(Some(Dialect::Claude), &places[1]).unwrap();
    let line = json!({ "type": "assistant", "message": { "content": [{ "type": "text", "text": "read" }] } });
    let changes = read(&mut rest, format!("{line}\n{line}\n").as_bytes());
    let kinds: Vec<_> = changes.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [Kind::Gap, Kind::Message], "it begins within the line that is passed over");
}
