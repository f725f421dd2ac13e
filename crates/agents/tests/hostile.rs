//! What no agent should say: noise, half lines, words of its protocol in the wrong places, and far too many of them.
//!
//! Lines are made from recorded ones by a number: it is all that is needed to make them again.

#[expect(dead_code, reason = "each dialect uses its part of it")]
mod common;

use common::{answer, input};
use lastword_agents::{Dialogue, Goals, Heard, Show, Start};
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

/// Bytes of the largest state of a dialect, whatever is said: most of it the answers to 320 requests.
const STATE_BYTES_MAX: usize = 640 << 10;

/// What is said, and by whom.
#[derive(Clone, Debug)]
enum Said {
    ByAgent(Vec<u8>),
    ByUs(Vec<u8>, InputNo),
}

/// Numbers, one after the other (xorshift64*).
struct Numbers(u64);

impl Numbers {
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

fn bent(value: &mut Value, numbers: &mut Numbers) {
    if numbers.one_in(12) {
        *value = match numbers.below(8) {
            0 => Value::Null,
            1 => numbers.next().into(),
            2 => (numbers.next() as f64 * -1e300).into(),
            3 => numbers.one_in(2).into(),
            4 => Value::Array(vec![value.clone(), value.clone()]),
            5 => serde_json::json!({ "id": value.clone() }),
            _ => numbers.text().into(),
        };
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| bent(item, numbers)),
        Value::Object(members) => {
            if numbers.one_in(10) {
                let gone = members.keys().nth(numbers.below(members.len())).cloned();
                gone.and_then(|key| members.remove(&key));
            }
            members.values_mut().for_each(|member| bent(member, numbers));
        }
        Value::String(text) if numbers.one_in(6) => text.push_str(&numbers.text()),
        Value::Number(_) if numbers.one_in(3) => *value = numbers.below(40).into(),
        _ => {}
    }
}

/// Returns lines that this number makes.
fn said(number: u64, count: usize) -> Vec<Said> {
    let recorded: Vec<&str> = STREAMS.iter().flat_map(|stream| stream.lines()).collect();
    let mut numbers = Numbers(number | 1);
    let mut at = numbers.below(recorded.len());
    let mut one = || {
        // On in the same stream, most of the time: what comes in order goes deeper.
        at = if numbers.one_in(20) { numbers.below(recorded.len()) } else { (at + 1) % recorded.len() };
        let (mark, line) = recorded[at].split_at(recorded[at].find(['{']).unwrap_or(2).max(1));
        let line = match numbers.below(10) {
            0 => line.bytes().take(numbers.below(line.len())).collect(),
            1 => {
                (0..numbers.below(300)).map(|_| numbers.next() as u8).filter(|byte| *byte != b'\n').collect()
            }
            2 | 3 => line.as_bytes().to_vec(),
            _ => match serde_json::from_str::<Value>(line) {
                Ok(mut value) => {
                    bent(&mut value, &mut numbers);
                    value.to_string().into_bytes()
                }
                Err(_) => line.as_bytes().to_vec(),
            },
        };
        match mark.contains('>') {
            true => Said::ByUs(line, InputNo(numbers.below(2_000) as u32)),
            false => Said::ByAgent(line),
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

fn take(dialogue: &mut Dialogue, said: &Said) -> Vec<Heard> {
    match said {
        Said::ByAgent(line) => dialogue.read(&[line, &b"\n"[..]].concat()),
        Said::ByUs(line, input) => dialogue.wrote(line, *input).into_iter().collect(),
    }
}

/// Asks for what is due in every mood; a line is a line.
fn ask(dialogue: &Dialogue, inputs: &[PendingInput]) -> Result<(), TestCaseError> {
    for (interrupt, stop) in [(false, false), (true, false), (true, true)] {
        let due = dialogue.next(&Goals { inputs, interrupt, stop });
        prop_assert!(due.is_none_or(|due| !due.line.contains('\n')));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Whatever is said, nothing breaks, each thing heard has a place of its own, and who comes in the middle goes on as one who was there.
    #[test]
    fn anything_can_be_said(number in any::<u64>(), cut in 0..120_usize) {
        let inputs = [input(1, "more"), answer(2, "0", "allow"), PendingInput { steer: true, ..input(3, "faster") }];
        let (start, all) = (start(number), said(number, 120));
        for dialect in DIALECTS {
            let (mut live, mut offset) = (dialogue(dialect, &start), 0);
            let mut stored = None;
            let mut later = Vec::new();
            let mut show = Show::new(dialect);
            for (index, said) in all.iter().enumerate() {
                if index == cut {
                    stored = Some(live.store());
                }
                if let Said::ByAgent(line) = said {
                    show.line(line);
                }
                let heard = take(&mut live, said);
                for Heard { offset: place, signal } in &heard {
                    if *signal != Signal::TurnStarted || matches!(said, Said::ByAgent(_)) {
                        prop_assert!(*place > offset, "{dialect:?}: {signal:?} at {place}, after {offset}");
                        offset = *place;
                    }
                }
                if index >= cut {
                    later.extend(heard);
                }
                ask(&live, &inputs)?;
            }
            let mut restored = Dialogue::restored(start.clone(), &stored.unwrap()).unwrap();
            let again: Vec<Heard> = all[cut..].iter().flat_map(|said| take(&mut restored, said)).collect();
            prop_assert_eq!(&again, &later, "{:?}", dialect);
            prop_assert_eq!(restored.store(), live.store(), "{:?}", dialect);
            prop_assert_eq!(restored.next_byte(), live.next_byte());
        }
    }

    /// How the bytes arrive makes no difference.
    #[test]
    fn a_line_is_a_line_in_whatever_pieces_it_comes(number in any::<u64>(), piece in 1..700_usize) {
        let lines = said(number, 40).into_iter().filter_map(|said| match said {
            Said::ByAgent(line) => Some([&line[..], b"\n"].concat()),
            Said::ByUs(..) => None,
        });
        let bytes: Vec<u8> = lines.flatten().collect();
        for dialect in DIALECTS {
            let (mut whole, mut pieces) = (dialogue(dialect, &start(number)), dialogue(dialect, &start(number)));
            let heard: Vec<Heard> = bytes.chunks(piece).flat_map(|piece| pieces.read(piece)).collect();
            prop_assert_eq!(heard, whole.read(&bytes));
        }
    }
}

#[test]
fn what_is_kept_of_ten_thousand_hostile_lines_is_small() {
    for dialect in DIALECTS {
        let number = 77_777_777_777;
        let mut dialogue = dialogue(dialect, &start(number));
        let mut largest = 0;
        for said in said(number, 10_000).chunks(100) {
            said.iter().for_each(|said| drop(take(&mut dialogue, said)));
            largest = largest.max(dialogue.store().len());
        }
        assert!(largest <= STATE_BYTES_MAX, "{dialect:?} keeps {largest} bytes");
    }
}

#[test]
fn a_flood_of_one_kind_is_kept_no_better() {
    let wide = "😀".repeat(400);
    for dialect in DIALECTS {
        let mut dialogue = dialogue(dialect, &start(3));
        // A session and a turn, in every dialect at once; then nothing is ever answered.
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
fn a_plain_agent_is_not_spoken_to_and_lives_as_long_as_it_writes() {
    let mut plain = dialogue(Dialect::Plain, &start(1));
    let heard = plain.read(b"working\n{\"id\":1}\n\xff\n");
    assert!(heard.iter().all(|heard| heard.signal == Signal::Progress) && heard.len() == 3);
    assert_eq!(plain.wrote(b"hello", InputNo(1)), None);
    assert_eq!(plain.next(&Goals { inputs: &[input(1, "hello")], interrupt: true, stop: false }), None);
    assert!(!plain.is_busy());
}
