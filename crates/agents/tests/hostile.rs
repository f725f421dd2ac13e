//! Hostile output: noise, half lines, protocol messages in the wrong places, and floods of them.
//!
//! Lines are derived from recorded ones by a seed, which is all that is needed to repeat a case.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use std::collections::BTreeMap;

use common::{answer, input};
use lastword_agents::{Change, Dialogue, Goals, Heard, PART_BYTES_MAX, Place, Show, Start, Transcript};
use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permission, Terms};
use proptest::prelude::*;
use serde_json::Value;

const STREAMS: [&str; 14] = [
    include_str!("streams/codex-app-server.jsonl"),
    include_str!("streams/codex-app-server-resume.jsonl"),
    include_str!("streams/codex-acp.jsonl"),
    include_str!("streams/goose-acp-permission.jsonl"),
    include_str!("streams/opencode-acp-load.jsonl"),
    include_str!("streams/copilot-acp.jsonl"),
    include_str!("streams/qwen-acp-load.jsonl"),
    include_str!("streams/claude-turns.txt"),
    include_str!("streams/claude-permission.txt"),
    include_str!("streams/once-codex.jsonl"),
    include_str!("streams/once-qwen.jsonl"),
    include_str!("streams/once-gemini.jsonl"),
    include_str!("streams/once-goose.jsonl"),
    include_str!("streams/once-opencode.jsonl"),
];

const DIALECTS: [Dialect; 5] = [Dialect::Acp, Dialect::Claude, Dialect::Codex, Dialect::Once, Dialect::Plain];

/// Bound on the state of a dialect, in bytes. Most of it is the prepared answers to 320 requests.
const STATE_BYTES_MAX: usize = 640 << 10;

/// A line and its writer.
#[derive(Clone, Debug)]
enum Line {
    ByAgent(Vec<u8>),
    ByUs(Vec<u8>, InputNo),
}

/// A random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end.max(1)
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn text(&mut self) -> String {
        let chars = ["a", "0", "-", "/", "é", "\u{1}", "\"", "\\", "😀", "\n", " "];
        let char = chars[self.below(chars.len())];
        let length = [0, 1, 7, 150, 400][self.below(5)];
        format!("{}{}", char.repeat(length), self.below(1_000))
    }
}

fn distort(value: &mut Value, random: &mut Random) {
    if random.one_in(12) {
        *value = match random.below(8) {
            0 => Value::Null,
            1 => random.next().into(),
            2 => (random.next() as f64 * -1e300).into(),
            3 => random.one_in(2).into(),
            4 => Value::Array(vec![value.clone(), value.clone()]),
            5 => serde_json::json!({ "id": value.clone() }),
            _ => random.text().into(),
        };
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| distort(item, random)),
        Value::Object(members) => {
            if random.one_in(10) {
                let gone = members.keys().nth(random.below(members.len())).cloned();
                gone.and_then(|key| members.remove(&key));
            }
            members.values_mut().for_each(|member| distort(member, random));
        }
        Value::String(text) if random.one_in(6) => text.push_str(&random.text()),
        Value::Number(_) if random.one_in(3) => *value = random.below(40).into(),
        _ => {}
    }
}

/// Returns the lines of this seed.
fn lines(number: u64, count: usize) -> Vec<Line> {
    let recorded: Vec<&str> = STREAMS.iter().flat_map(|stream| stream.lines()).collect();
    let mut random = Random(number | 1);
    let mut at = random.below(recorded.len());
    let mut one = || {
        // Mostly stay in the same stream: lines in order reach deeper states.
        at = if random.one_in(20) { random.below(recorded.len()) } else { (at + 1) % recorded.len() };
        let (mark, line) = recorded[at].split_at(recorded[at].find(['{']).unwrap_or(2).max(1));
        let line = match random.below(10) {
            0 => line.bytes().take(random.below(line.len())).collect(),
            1 => (0..random.below(300)).map(|_| random.next() as u8).filter(|byte| *byte != b'\n').collect(),
            2 | 3 => line.as_bytes().to_vec(),
            _ => match serde_json::from_str::<Value>(line) {
                Ok(mut value) => {
                    distort(&mut value, &mut random);
                    value.to_string().into_bytes()
                }
                Err(_) => line.as_bytes().to_vec(),
            },
        };
        match mark.contains('>') {
            true => Line::ByUs(line, InputNo(random.below(2_000) as u32)),
            false => Line::ByAgent(line),
        }
    };
    (0..count).map(|_| one()).collect()
}

fn start(number: u64) -> Start {
    let mut start = Start { prompt: "do it".to_owned(), ..Start::default() };
    start.permissions.otherwise =
        [Permission::Ask, Permission::Allow, Permission::Deny][(number % 3) as usize];
    start.resume = number.is_multiple_of(5).then(|| "earlier".to_owned());
    start
}

fn dialogue(dialect: Dialect, start: &Start) -> Dialogue {
    Dialogue::new(start.clone(), &Terms { dialect, ..Terms::default() })
}

fn feed(dialogue: &mut Dialogue, line: &Line) -> Vec<Heard> {
    match line {
        Line::ByAgent(line) => dialogue.read(&[line, &b"\n"[..]].concat()),
        Line::ByUs(line, input) => dialogue.wrote(line, *input).into_iter().collect(),
    }
}

/// Returns a line of the agent as bytes.
fn by_agent(line: Line) -> Option<Vec<u8>> {
    match line {
        Line::ByAgent(line) => Some([&line[..], b"\n"].concat()),
        Line::ByUs(..) => None,
    }
}

fn items(transcript: &mut Transcript, mut bytes: &[u8]) -> Vec<Change> {
    std::iter::from_fn(|| transcript.step(&mut bytes)).flatten().collect()
}

/// Checks that whatever is due under any goals is a single line.
fn check_due(dialogue: &Dialogue, inputs: &[PendingInput]) -> Result<(), TestCaseError> {
    for (interrupt, stop) in [(false, false), (true, false), (true, true)] {
        let due = dialogue.next(&Goals { inputs, interrupt, stop });
        prop_assert!(due.is_none_or(|due| !due.line.contains('\n')));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// No line breaks a dialogue, offsets are unique, and a dialogue restored in the middle continues alike.
    #[test]
    fn any_lines_are_survived_and_replayed_alike(number in any::<u64>(), cut in 0..120_usize) {
        let inputs = [input(1, "more"), answer(2, "0#1", "allow"), PendingInput { steer: true, ..input(3, "faster") }];
        let (start, all) = (start(number), lines(number, 120));
        for dialect in DIALECTS {
            let (mut live, mut offset) = (dialogue(dialect, &start), 0);
            let mut stored = None;
            let mut later = Vec::new();
            let mut show = Show::new(dialect);
            for (index, written) in all.iter().enumerate() {
                if index == cut {
                    stored = Some(live.store());
                }
                if let Line::ByAgent(line) = written {
                    show.line(line);
                }
                let heard = feed(&mut live, written);
                for Heard { offset: place, signal } in &heard {
                    if *signal != Signal::TurnStarted || matches!(written, Line::ByAgent(_)) {
                        prop_assert!(*place > offset, "{dialect:?}: {signal:?} at {place}, after {offset}");
                        offset = *place;
                    }
                }
                if index >= cut {
                    later.extend(heard);
                }
                check_due(&live, &inputs)?;
            }
            let mut restored = Dialogue::restored(start.clone(), &stored.unwrap()).unwrap();
            let again: Vec<Heard> = all[cut..].iter().flat_map(|written| feed(&mut restored, written)).collect();
            prop_assert_eq!(&again, &later, "{:?}", dialect);
            prop_assert_eq!(restored.store(), live.store(), "{:?}", dialect);
            prop_assert_eq!(restored.next_byte(), live.next_byte());
        }
    }

    /// A transcript survives any lines, its state and its items stay small, and it continues alike in the middle.
    #[test]
    fn any_lines_have_a_transcript_that_can_be_continued(number in any::<u64>(), cut in 0..120_usize) {
        let lines: Vec<Vec<u8>> = lines(number, 120).into_iter().filter_map(by_agent).collect();
        let bytes = lines.concat();
        let cut = lines.iter().take(cut).map(Vec::len).sum::<usize>();
        for dialect in DIALECTS {
            let mut whole = Transcript::new(Some(dialect));
            let before = items(&mut whole, &bytes[..cut]);
            let place = whole.place().to_string();
            let place: Place = place.parse().map_err(|_| TestCaseError::fail(place))?;
            let after = items(&mut whole, &bytes[cut..]);
            let mut rest = Transcript::at(Some(dialect), &place).map_err(|_| TestCaseError::fail(place.to_string()))?;
            let again = items(&mut rest, &bytes[usize::try_from(place.offset).unwrap()..]);
            prop_assert_eq!(&again, &after, "{:?}", dialect);
            prop_assert_eq!(rest.place(), whole.place());
            let mut texts = BTreeMap::new();
            for change in before.iter().chain(&after) {
                let known = texts.insert(change.n, change.text_bytes);
                prop_assert_eq!(known.unwrap_or(0), change.from, "{:?}", change);
                let lengths = [&change.title, &change.id].map(|text| text.as_ref().map_or(0, String::len));
                prop_assert!(change.text.len() <= PART_BYTES_MAX && lengths <= [800, 128], "{:?}", change);
            }
        }
    }

    /// The size of the reads makes no difference.
    #[test]
    fn lines_are_read_alike_in_pieces_of_any_size(number in any::<u64>(), piece in 1..700_usize) {
        let bytes: Vec<u8> = lines(number, 40).into_iter().filter_map(by_agent).flatten().collect();
        for dialect in DIALECTS {
            let (mut whole, mut pieces) = (dialogue(dialect, &start(number)), dialogue(dialect, &start(number)));
            let heard: Vec<Heard> = bytes.chunks(piece).flat_map(|piece| pieces.read(piece)).collect();
            prop_assert_eq!(heard, whole.read(&bytes));
        }
    }
}

#[test]
fn ten_thousand_hostile_lines_leave_a_small_state() {
    for dialect in DIALECTS {
        let number = 77_777_777_777;
        let mut dialogue = dialogue(dialect, &start(number));
        let mut largest = 0;
        for chunk in lines(number, 10_000).chunks(100) {
            chunk.iter().for_each(|line| drop(feed(&mut dialogue, line)));
            largest = largest.max(dialogue.store().len());
        }
        assert!(largest <= STATE_BYTES_MAX, "{dialect:?} keeps {largest} bytes");
    }
}

#[test]
fn a_flood_of_one_kind_leaves_a_small_state() {
    let wide = "😀".repeat(400);
    for dialect in DIALECTS {
        let mut dialogue = dialogue(dialect, &start(3));
        // Opens a session and a turn in every dialect at once; then nothing is ever answered.
        let opened = serde_json::json!({ "sessionId": "s", "thread": { "id": "t" } });
        for (id, method) in [
            (1, "initialize"),
            (2, "session/new"),
            (3, "session/prompt"),
            (4, "thread/start"),
            (5, "turn/start"),
        ] {
            dialogue
                .wrote(serde_json::json!({ "id": id, "method": method }).to_string().as_bytes(), InputNo(0));
            if !matches!(id, 3 | 5) {
                dialogue.read(format!("{}\n", serde_json::json!({ "id": id, "result": opened })).as_bytes());
            }
        }
        let mut kept = 0;
        for no in 6..400_u32 {
            let id = format!("{no}{}", "x".repeat(180));
            let tool =
                serde_json::json!({ "toolCallId": id, "title": wide, "rawInput": { "command": wide } });
            let option = |kind: &str| serde_json::json!({ "optionId": id, "kind": kind });
            let options = [option("allow_once"), option("reject_once")];
            let paths = serde_json::json!([{ "path": wide }]);
            let from_agent = [
                serde_json::json!({ "id": id, "method": "session/request_permission", "params": { "toolCall": tool, "options": options } }),
                serde_json::json!({ "method": "session/update", "params": { "update": { "sessionUpdate": "tool_call", "toolCallId": id, "title": wide } } }),
                serde_json::json!({ "method": "item/started", "params": { "item": { "type": "fileChange", "id": id, "changes": paths } } }),
                serde_json::json!({ "id": id, "method": "item/permissions/requestApproval", "params": { "permissions": { "network": id } } }),
                serde_json::json!({ "type": "control_request", "request_id": id, "request": { "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": id } } }),
            ];
            let once = serde_json::json!({ "type": "command_execution", "id": &id[..100], "command": wide });
            let once = serde_json::json!({ "type": "item.started", "item": once });
            dialogue.read(format!("{once}\n").as_bytes());
            let text = serde_json::json!({ "input": [{ "type": "text", "text": wide }] });
            let ours = serde_json::json!({ "id": no, "method": "turn/steer", "params": text });
            dialogue.wrote(ours.to_string().as_bytes(), InputNo(no));
            from_agent.iter().for_each(|line| drop(dialogue.read(format!("{line}\n").as_bytes())));
            if no % 20 == 0 {
                kept = kept.max(dialogue.store().len());
            }
        }
        assert!(kept <= STATE_BYTES_MAX, "{dialect:?} keeps {kept} bytes");
        assert!(
            dialect == Dialect::Plain || kept > 8 << 10,
            "{dialect:?} keeps {kept} bytes: this is no flood"
        );
    }
}

#[test]
fn a_plain_agent_is_written_nothing_and_its_output_is_progress() {
    let mut plain = dialogue(Dialect::Plain, &start(1));
    let heard = plain.read(b"working\n{\"id\":1}\n\xff\n");
    assert!(heard.iter().all(|heard| heard.signal == Signal::Progress) && heard.len() == 3);
    assert_eq!(plain.wrote(b"hello", InputNo(1)), None);
    assert_eq!(plain.next(&Goals { inputs: &[input(1, "hello")], interrupt: true, stop: false }), None);
    assert!(!plain.is_busy());
}
