//! What stands between the lines of an agent's transcript: the messages that the agent was sent, and where its turns begin and end. The log
//! knows both, with their place in the recording.

use std::collections::{BTreeMap, VecDeque};

use lastword_api::{Event, Job, Time, TurnEnding, Usage};
use serde_json::Value;

use super::{describe, session};
use crate::text::duration;
use crate::text::moment::between;

/// The kinds of events that matter here, and those of questions, which are shown after what came before them.
pub(crate) const KINDS: [&str; 8] = [
    "question_asked",
    "session_started",
    "turn_started",
    "turn_ended",
    "input_requested",
    "input_delivered",
    "spent",
    "attempt_ended",
];

/// Lines between two lines of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// They stand after the line of the recording that ends at this offset, or contains it.
    pub(crate) offset: u64,
    /// Not yet safe to print to a terminal.
    pub(crate) text: String,
}

/// The conversation in one attempt of an agent, as far as the log was read.
#[derive(Debug)]
pub(crate) struct Conversation {
    attempt: u32,
    prompt: String,
    /// The attempt that events are about.
    current: u32,
    /// The last known place in the recording.
    offset: u64,
    /// Messages that the agent has not been sent, by number.
    messages: BTreeMap<u64, String>,
    /// The turn that runs, and when it began.
    turn: Option<Time>,
    /// The message of the turn is not known yet.
    lacks_message: bool,
    /// The job's prompt was sent in this attempt.
    is_prompted: bool,
    /// The attempt has ended.
    is_over: bool,
    spent: Usage,
    marks: VecDeque<Mark>,
}

impl Conversation {
    /// Returns the conversation of an attempt; `None` if the job is no agent that reports its turns.
    pub(crate) fn of(job: &Job, attempt: u32) -> Option<Conversation> {
        let agent = job.agent.as_ref()?;
        let reports_turns = agent.dialect.to_core()? != lastword_core::spec::Dialect::Plain;
        reports_turns.then(|| Conversation::new(attempt, &agent.prompt))
    }

    fn new(attempt: u32, prompt: &str) -> Conversation {
        Conversation {
            attempt,
            prompt: prompt.to_owned(),
            current: 0,
            offset: 0,
            messages: BTreeMap::new(),
            turn: None,
            lacks_message: false,
            is_prompted: false,
            is_over: false,
            spent: Usage::default(),
            marks: VecDeque::new(),
        }
    }

    /// Takes the next event of the job.
    pub(crate) fn hear(&mut self, event: &Event) {
        let data = &event.data;
        self.current = event.attempt.unwrap_or(self.current);
        if self.current == self.attempt {
            self.offset = data["offset"].as_u64().unwrap_or(self.offset);
        }
        match event.kind.as_str() {
            "input_requested" => {
                let text = data["text"].as_str().unwrap_or_default();
                self.messages.extend(data["input"].as_u64().map(|number| (number, text.to_owned())));
            }
            "input_delivered" => {
                // The number of an answer to a question is not among them.
                let message = data["input"].as_u64().and_then(|number| self.messages.remove(&number));
                if let Some(message) = message.filter(|_| self.is_here()) {
                    self.lacks_message = false;
                    self.mark(quoted(&message));
                }
            }
            // A daemon of an earlier version does not tell the place.
            "turn_started" if self.is_here() && data["offset"].is_u64() => self.turn_started(event),
            "turn_ended" if self.turn.is_some() && self.is_here() => self.turn_ended(event),
            "spent" => {
                let number = |name: &str| data[name].as_u64().unwrap_or_default();
                // An agent may claim to have spent anything.
                let Usage { tokens_in, tokens_out, money_micros, .. } = &mut self.spent;
                *tokens_in = tokens_in.saturating_add(number("tokens_in"));
                *tokens_out = tokens_out.saturating_add(number("tokens_out"));
                let more = money_micros.saturating_add(number("money_micros"));
                *money_micros = more.saturating_sub(number("overcounted_micros"));
            }
            "attempt_ended" => self.is_over |= self.is_here(),
            _ => {}
        }
    }

    fn turn_started(&mut self, event: &Event) {
        (self.turn, self.spent) = (Some(event.time), Usage::default());
        self.mark(format!("--- turn {} ---\n", event.data["turn"]));
        match std::mem::replace(&mut self.is_prompted, true) {
            false => self.mark(quoted(&self.prompt)),
            true => self.lacks_message = !self.messages.is_empty(),
        }
    }

    fn turn_ended(&mut self, event: &Event) {
        let data = &event.data;
        let ending = serde_json::from_value::<TurnEnding>(data["ending"].clone()).ok();
        let how = ending.as_ref().map_or("ended", session::ending);
        let time = self.turn.take().map_or(0, |began| between(began, event.time));
        let mut text = format!("--- turn {}: {how} after {}", data["turn"], duration::show_ms(time));
        if let Value::String(error) = &data["error"] {
            text.push_str(&format!(": {}", error.trim().replace('\n', " ")));
        }
        if self.spent != Usage::default() {
            text.push_str(&format!("; {}", describe::spent(&self.spent)));
        }
        text.push_str(" ---\n");
        self.lacks_message = false;
        self.mark(text);
    }

    fn is_here(&self) -> bool {
        self.current == self.attempt
    }

    fn mark(&mut self, text: String) {
        self.marks.push_back(Mark { offset: self.offset, text });
    }

    /// Reports whether an event must still come before what the agent writes now: the start of its turn, or the message that began it.
    pub(crate) fn is_behind(&self) -> bool {
        !self.is_over && (self.turn.is_none() || self.lacks_message)
    }

    /// Reports whether no more marks can come.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the place of the next mark.
    pub(crate) fn next_offset(&self) -> Option<u64> {
        self.marks.front().map(|mark| mark.offset)
    }

    /// Takes the text of all marks up to a place.
    pub(crate) fn take(&mut self, upto: u64) -> String {
        let due = self.marks.iter().take_while(|mark| mark.offset <= upto).count();
        self.marks.drain(..due).map(|mark| mark.text).collect()
    }
}

/// Returns a message with a sign before each line.
fn quoted(message: &str) -> String {
    message.trim_end().split('\n').map(|line| format!("< {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conversation(attempt: u32) -> Conversation {
        Conversation::new(attempt, "fix it\nand test it\n")
    }

    fn hear(to: &mut Conversation, seconds: u64, kind: &str, attempt: Option<u32>, data: Value) {
        let event = Event {
            v: 1,
            seq: 1,
            time: Time(seconds * 1_000),
            kind: kind.to_owned(),
            job: String::new(),
            attempt,
            text: String::new(),
            data,
        };
        to.hear(&event);
    }

    #[test]
    fn messages_and_borders_have_their_place_in_the_recording_of_their_attempt() {
        let mut first = conversation(1);
        let log = |to: &mut Conversation| {
            hear(to, 0, "session_started", Some(1), json!({ "offset": 10 }));
            hear(to, 0, "turn_started", None, json!({ "turn": 1, "offset": 10 }));
            hear(to, 1, "input_requested", None, json!({ "input": 1, "text": "steer" }));
            hear(to, 1, "input_requested", None, json!({ "input": 2, "text": "next" }));
            hear(
                to,
                2,
                "spent",
                None,
                json!({ "tokens_in": 7, "tokens_out": 3, "money_micros": 20_000, "offset": 50 }),
            );
            hear(to, 2, "spent", None, json!({ "overcounted_micros": 10_000, "offset": 50 }));
            hear(to, 2, "input_delivered", None, json!({ "input": 1 }));
            hear(
                to,
                3,
                "turn_ended",
                None,
                json!({ "turn": 1, "ending": "completed", "error": null, "offset": 90 }),
            );
            hear(to, 3, "turn_started", None, json!({ "turn": 2, "offset": 90 }));
        };
        log(&mut first);
        assert!(first.is_behind(), "its message is not known yet");
        hear(&mut first, 3, "input_delivered", None, json!({ "input": 2 }));
        assert!(!first.is_behind());
        hear(
            &mut first,
            5,
            "turn_ended",
            None,
            json!({ "turn": 2, "ending": "failed", "error": "no\nluck", "offset": 99 }),
        );
        hear(&mut first, 5, "attempt_ended", Some(1), json!({}));
        hear(&mut first, 6, "session_started", Some(2), json!({ "offset": 5 }));
        hear(&mut first, 6, "turn_started", None, json!({ "turn": 3, "offset": 5 }));
        assert_eq!(first.next_offset(), Some(10));
        assert_eq!(first.take(10), "--- turn 1 ---\n< fix it\n< and test it\n");
        assert_eq!(first.take(89), "< steer\n");
        assert_eq!(
            first.take(90),
            "--- turn 1: completed after 3.0s; 7 tokens read, 3 written, $0.01 ---\n--- turn 2 ---\n< next\n"
        );
        assert_eq!(first.take(u64::MAX), "--- turn 2: failed after 2.0s: no luck ---\n");
        assert!(first.is_over() && !first.is_behind());
        let mut second = conversation(2);
        log(&mut second);
        hear(&mut second, 6, "session_started", Some(2), json!({ "offset": 5 }));
        hear(&mut second, 6, "turn_started", None, json!({ "turn": 3, "offset": 5 }));
        assert_eq!(second.take(u64::MAX), "--- turn 3 ---\n< fix it\n< and test it\n");
    }
}
