//! One-shot agents: they take one prompt as an argument, print JSON lines about their one turn, and exit. Nothing is written to them.
//!
//! The first line that is understood fixes the format; lines in any other format are ignored from then on. The turn ends with the event
//! that its format ends turns with, and later lines change nothing. A stream that stops without that event leaves the turn open, so it
//! did not complete. Only opencode has no such event: its exit status decides, and only after its last step ended.
//!
//! Claude waits for background tasks and then starts another round, so its turn ends with its last result.
//!
//! Not counted: the cost of a goose turn in a resumed conversation, and what qwen spends outside its messages. Both only report totals
//! of the whole conversation.

mod claude;
mod codex;
mod copilot;
mod gemini;
mod goose;
mod opencode;
mod update;

use std::collections::BTreeMap;

use lastword_core::InputNo;
use lastword_core::event::TurnEnding;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::{Goals, Outgoing, Protocol};
use crate::start::Start;
use crate::tokens::Tokens;
use crate::turn::Turn;
use crate::value::{brief, line, text};
pub(crate) use update::{Format, Update};

/// Running tools that are tracked by id. The start and end of any more are not seen.
const TOOLS_MAX: usize = 64;

/// Longest id of a conversation, tool or message that is accepted, in bytes.
const ID_BYTES_MAX: usize = 128;

/// Characters kept of a message until it is complete.
const HEAD_CHARS_MAX: usize = 240;

/// Parses a line; `None` if its format is unknown.
pub(crate) fn read(line: &[u8]) -> Option<(Format, Vec<Update>)> {
    let Ok(event) = serde_json::from_slice::<Value>(line) else {
        return goose::banner(line).map(|name| (Format::Goose, vec![Update::Session(name)]));
    };
    let kind = text(&event, &["type"])?;
    let codex = || codex::read(kind, &event).map(|updates| (Format::Codex, updates));
    let claude = || claude::read(kind, &event).map(|updates| (Format::Claude, updates));
    let gemini = || gemini::read(kind, &event).map(|updates| (Format::Gemini, updates));
    let goose = || goose::read(kind, &event).map(|updates| (Format::Goose, updates));
    let opencode = || opencode::read(kind, &event).map(|updates| (Format::Opencode, updates));
    let copilot = || copilot::read(kind, &event).map(|updates| (Format::Copilot, updates));
    opencode().or_else(gemini).or_else(goose).or_else(claude).or_else(codex).or_else(copilot)
}

/// The state of the one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Once {
    #[serde(rename = "shape")]
    format: Option<Format>,
    /// The agent's id of the conversation.
    session: Option<String>,
    turn: Turn,
    /// Titles of the running tools, by id.
    tools: BTreeMap<String, String>,
    /// The message whose parts are arriving: its id and its beginning.
    message: Option<(Option<String>, String)>,
    /// Tokens counted since the last total.
    counted: Tokens,
    /// Their cost.
    money_micros: u64,
    /// The first error.
    #[serde(rename = "wrong")]
    error: Option<String>,
    /// Background tasks are running.
    background: bool,
    /// The agent has ended its turn and waits for them.
    #[serde(rename = "waits")]
    waits_for_background: bool,
    is_last_step: bool,
    is_over: bool,
    /// Where in the agent's record the conversation ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
}

impl Protocol for Once {
    fn read_line(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        let Some((format, updates)) = read(line).filter(|_| !self.is_over) else { return Vec::new() };
        if *self.format.get_or_insert(format) != format {
            return Vec::new();
        }
        let mut signals = self.begin(start, &updates);
        for update in updates {
            if !self.is_over {
                signals.extend(self.apply(start, update));
            }
        }
        signals
    }

    fn line_written(&mut self, _: &Start, _: &[u8], _: InputNo) -> Option<Signal> {
        None
    }

    fn next_line(&self, _: &Start, _: &Goals<'_>) -> Option<Outgoing> {
        None
    }

    fn is_busy(&self) -> bool {
        // It had its prompt before it printed anything.
        !self.is_over
    }

    fn exited(&mut self, exit: Exit) -> Vec<Signal> {
        let Exit::Code(code) = exit else { return Vec::new() };
        match (self.error.take(), self.is_last_step) {
            (Some(error), _) => self.end(TurnEnding::Failed, Some(error)),
            (None, true) if code == 0 => self.end(TurnEnding::Completed, None),
            (None, true) => self.end(
                TurnEnding::Failed,
                Some(format!("the agent exited with status {code} after its last step")),
            ),
            (None, false) => Vec::new(),
        }
    }

    fn died(&mut self, error: &str) -> Vec<Signal> {
        if self.is_over {
            return Vec::new();
        }
        let mut signals = self.end_message();
        signals.extend(self.turn.died(self.format.is_some(), error));
        self.is_over = true;
        signals
    }
}

impl Once {
    /// Starts the session and its one turn with the first line.
    fn begin(&mut self, start: &Start, updates: &[Update]) -> Vec<Signal> {
        let named = updates.iter().find_map(|update| match update {
            Update::Session(name) => Some(name).filter(|name| is_id(name)),
            _ => None,
        });
        if self.session.is_none() {
            self.session = named.cloned();
        }
        let Some(begun) = self.turn.begin() else { return Vec::new() };
        let (reference, resumed_from) = (self.session.clone(), start.resume.clone());
        vec![Signal::SessionStarted { reference, resumed_from }, begun]
    }

    fn apply(&mut self, start: &Start, update: Update) -> Vec<Signal> {
        match update {
            Update::MessagePart(id, text) => return self.message_part(id, &text),
            Update::Mark(mark) => {
                self.mark = Some(mark);
                return Vec::new();
            }
            Update::Session(_)
            | Update::Reasoning(_)
            | Update::Spent(..)
            | Update::Total(..)
            | Update::ConversationTotal(..) => {}
            // Any other update ends the message.
            _ => {
                let mut signals = self.end_message();
                signals.extend(self.apply_item(update));
                return signals;
            }
        }
        let spent = match update {
            Update::Spent(tokens, money) => self.spent(start, tokens, money),
            Update::ConversationTotal(..) if start.resume.is_some() => None,
            Update::Total(tokens, money) | Update::ConversationTotal(tokens, money) => {
                let money = money.map(|money| money.saturating_sub(self.money_micros));
                let spent = self.spent(start, tokens.since(self.counted), money);
                (self.counted, self.money_micros) = (Tokens::default(), 0);
                spent
            }
            _ => None,
        };
        spent.into_iter().collect()
    }

    fn apply_item(&mut self, update: Update) -> Vec<Signal> {
        match update {
            Update::Message(text) => {
                self.message_part(None, &text);
                self.end_message()
            }
            Update::ToolStarted { id, title } => {
                let known = self.tools.len() < TOOLS_MAX && is_id(&id) && !self.tools.contains_key(&id);
                if known {
                    self.tools.insert(id, brief(&title));
                }
                known.then_some(Signal::ToolStarted).into_iter().collect()
            }
            Update::ToolEnded { id, title, outcome, .. } => self.tool_ended(id, title, outcome),
            Update::Denied(what) => {
                self.turn.denied(line(&what));
                Vec::new()
            }
            Update::Error(what) => {
                self.error.get_or_insert(line(&what));
                Vec::new()
            }
            Update::Background(count) => self.background(count > 0),
            Update::StepStarted | Update::LastStepEnded => {
                self.is_last_step = update == Update::LastStepEnded;
                Vec::new()
            }
            Update::TurnEnded(ending, error) => self.turn_ended(ending, error),
            _ => Vec::new(),
        }
    }

    /// Adds a part to the current message. A part with another id starts the next message.
    fn message_part(&mut self, id: Option<String>, text: &str) -> Vec<Signal> {
        let id = id.filter(|id| is_id(id));
        let other = self.message.as_ref().is_some_and(|(known, _)| *known != id);
        let signals = if other { self.end_message() } else { Vec::new() };
        let (_, head) = self.message.get_or_insert_with(|| (id, String::new()));
        if !head.contains('\n') {
            let whole = format!("{head}{text}");
            *head = whole.trim_start().chars().take(HEAD_CHARS_MAX).collect();
        }
        signals
    }

    /// Ends the current message, if there is one.
    fn end_message(&mut self) -> Vec<Signal> {
        let Some((_, head)) = self.message.take() else { return Vec::new() };
        self.turn.message();
        let title = line(&head);
        if title.is_empty() { Vec::new() } else { vec![Signal::ItemCompleted { title }] }
    }

    fn tool_ended(
        &mut self,
        id: Option<String>,
        title: Option<String>,
        outcome: Option<String>,
    ) -> Vec<Signal> {
        let known = id.and_then(|id| self.tools.remove(&id));
        let ended = known.is_some().then_some(Signal::ToolEnded);
        let title = title.map(|title| line(&title)).or(known).map(|title| match outcome {
            Some(outcome) => line(&format!("{title}: {outcome}")),
            None => title,
        });
        ended.into_iter().chain(title.map(|title| Signal::ItemCompleted { title })).collect()
    }

    fn spent(&mut self, start: &Start, tokens: Tokens, money: Option<u64>) -> Option<Signal> {
        let mut usage = tokens.usage(start.price_of(None));
        usage.money_micros = money.unwrap_or(usage.money_micros);
        self.counted.add(tokens);
        self.money_micros = self.money_micros.saturating_add(usage.money_micros);
        self.turn.spent(usage)
    }

    /// Records whether background tasks are running. While the agent waits for them, that counts as a running tool.
    fn background(&mut self, background: bool) -> Vec<Signal> {
        self.background = background;
        let over = !background && std::mem::take(&mut self.waits_for_background);
        over.then_some(Signal::ToolEnded).into_iter().collect()
    }

    /// Ends the turn, unless background tasks keep it open. A turn with an error did not complete, whatever the agent says.
    fn turn_ended(&mut self, ending: TurnEnding, error: Option<String>) -> Vec<Signal> {
        match (ending, self.error.take()) {
            (TurnEnding::Completed, Some(error)) => self.end(TurnEnding::Failed, Some(error)),
            (TurnEnding::Completed, None) if self.background => {
                self.is_last_step = true;
                let begun = !std::mem::replace(&mut self.waits_for_background, true);
                begun.then_some(Signal::ToolStarted).into_iter().collect()
            }
            (TurnEnding::Completed, None) => self.end(ending, None),
            (_, first) => self.end(ending, first.or(error)),
        }
    }

    fn end(&mut self, ending: TurnEnding, error: Option<String>) -> Vec<Signal> {
        let mut signals = self.end_message();
        signals.extend(self.turn.end(ending, error, (self.session.as_deref(), self.mark.as_deref())));
        *self = Once { format: self.format, is_over: true, ..Once::default() };
        signals
    }
}

/// Reports whether an id is short enough to keep.
fn is_id(id: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&id.len()) && !id.chars().any(char::is_control)
}
