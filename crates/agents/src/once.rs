//! Agents that take one prompt as an argument, say lines of JSON about it, and are gone: one turn, and nothing is written to them.
//!
//! Whose lines they are, the lines say themselves; the first that is understood decides, and what is said in another shape means
//! nothing from then on. The turn is over with the event by which its agent ends it: what comes after changes nothing, and a stream that
//! stops without one leaves it open, so that it did not complete. The one stream that has no such event is opencode's: there the exit
//! status decides, and only once a last step was said.
//!
//! Claude waits for what runs in the background, and begins another round when that is done: its turn is over with the last result.
//!
//! What is not known: what a turn of goose cost that goes on with a conversation, and what one of qwen cost beside its messages. Their
//! accounts are of all that was ever said in it, and are left alone.

mod claude;
mod codex;
mod copilot;
mod gemini;
mod goose;
mod opencode;

use std::collections::BTreeMap;

use lastword_core::InputNo;
use lastword_core::event::TurnEnding;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Start;
use crate::dialogue::{Goals, Outgoing, Speak};
use crate::tokens::Tokens;
use crate::turn::Turn;
use crate::value::{brief, line, text};

/// Tools that run at once and are known by name. What is beyond that is not seen to begin or end.
const TOOLS_MAX: usize = 64;

/// Bytes of the longest name of a conversation, a tool or a message that is taken.
const NAME_BYTES_MAX: usize = 128;

/// Characters of a message that are kept until it is at its end.
const HEAD_CHARS_MAX: usize = 240;

/// Whose lines they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shape {
    /// `codex exec --json`.
    Codex,
    /// `claude -p --output-format stream-json`, and qwen's.
    Claude,
    /// `gemini -p … -o stream-json`.
    Gemini,
    /// `goose run --output-format stream-json`.
    Goose,
    /// `opencode run --format json`.
    Opencode,
    /// `copilot -p … --output-format json`.
    Copilot,
}

/// Something a line says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// What the conversation is called.
    Session(String),
    /// A whole message.
    Message(String),
    /// A part of one, with its name if it has one.
    Part(Option<String>, String),
    /// A tool begins.
    Tool { id: String, title: String },
    /// A tool is done. What it did is said here, if not when it began.
    ToolDone {
        id: Option<String>,
        title: Option<String>,
        /// If it did not go well, how.
        outcome: Option<String>,
        output: String,
    },
    /// So much was spent since it was last said, and that is what it cost, if that is said too.
    Spent(Tokens, Option<u64>),
    /// So much was spent in all, since it was last said so.
    SpentInAll(Tokens, Option<u64>),
    /// So much was spent in all the conversation.
    SpentEver(Tokens, Option<u64>),
    /// So much goes on in the background.
    Background(usize),
    /// Something was not allowed.
    Denied(String),
    /// Something beside the work.
    Note(String),
    /// Something went wrong. A turn that is then said to have completed has not.
    Wrong(String),
    /// A step begins after which the turn may be over.
    Step,
    /// That was the last step. Whether all is well, the exit status says.
    LastStep,
    /// The turn is over, and what went wrong.
    Ended(TurnEnding, Option<String>),
}

/// Returns what a line says, and in which shape; none, if it is in none that is known.
pub(crate) fn read(line: &[u8]) -> Option<(Shape, Vec<Word>)> {
    let Ok(said) = serde_json::from_slice::<Value>(line) else {
        return goose::banner(line).map(|name| (Shape::Goose, vec![Word::Session(name)]));
    };
    let kind = text(&said, &["type"])?;
    let codex = || codex::read(kind, &said).map(|words| (Shape::Codex, words));
    let claude = || claude::read(kind, &said).map(|words| (Shape::Claude, words));
    let gemini = || gemini::read(kind, &said).map(|words| (Shape::Gemini, words));
    let goose = || goose::read(kind, &said).map(|words| (Shape::Goose, words));
    let opencode = || opencode::read(kind, &said).map(|words| (Shape::Opencode, words));
    let copilot = || copilot::read(kind, &said).map(|words| (Shape::Copilot, words));
    opencode().or_else(gemini).or_else(goose).or_else(claude).or_else(codex).or_else(copilot)
}

/// What is known of the turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Once {
    shape: Option<Shape>,
    /// Its name for the conversation.
    session: Option<String>,
    turn: Turn,
    /// Tools that run, each with what it does.
    tools: BTreeMap<String, String>,
    /// The message that comes in parts: its name, and how it begins.
    message: Option<(Option<String>, String)>,
    /// What was counted so far.
    counted: Tokens,
    money_micros: u64,
    /// What went wrong first.
    wrong: Option<String>,
    /// Something goes on in the background, and that is waited for.
    background: bool,
    waits: bool,
    /// The last step was said.
    is_last_step: bool,
    /// The turn is over.
    is_over: bool,
}

impl Speak for Once {
    fn heard(&mut self, start: &Start, line: &[u8]) -> Vec<Signal> {
        let Some((shape, words)) = read(line).filter(|_| !self.is_over) else { return Vec::new() };
        if *self.shape.get_or_insert(shape) != shape {
            return Vec::new();
        }
        let mut signals = self.begin(start, &words);
        for word in words {
            if !self.is_over {
                signals.extend(self.take(start, word));
            }
        }
        signals
    }

    fn wrote(&mut self, _: &Start, _: &[u8], _: InputNo) -> Option<Signal> {
        None
    }

    fn next(&self, _: &Start, _: &Goals<'_>) -> Option<Outgoing> {
        None
    }

    fn is_busy(&self) -> bool {
        // Its prompt was there before its first line.
        !self.is_over
    }

    fn exited(&mut self, exit: Exit) -> Vec<Signal> {
        let Exit::Code(code) = exit else { return Vec::new() };
        match (self.wrong.take(), self.is_last_step) {
            (Some(wrong), _) => self.end(TurnEnding::Failed, Some(wrong)),
            (None, true) if code == 0 => self.end(TurnEnding::Completed, None),
            (None, true) => {
                self.end(TurnEnding::Failed, Some(format!("it exited with {code} after its last step")))
            }
            (None, false) => Vec::new(),
        }
    }
}

impl Once {
    /// Takes note of the session and of its one turn, which are there with the first line.
    fn begin(&mut self, start: &Start, words: &[Word]) -> Vec<Signal> {
        let named = words.iter().find_map(|word| match word {
            Word::Session(name) => Some(name).filter(|name| is_name(name)),
            _ => None,
        });
        if self.session.is_none() {
            self.session = named.cloned();
        }
        let Some(begun) = self.turn.begin() else { return Vec::new() };
        let (reference, resumed_from) = (self.session.clone(), start.resume.clone());
        vec![Signal::SessionStarted { reference, resumed_from }, begun]
    }

    fn take(&mut self, start: &Start, word: Word) -> Vec<Signal> {
        match word {
            Word::Part(name, said) => return self.part(name, &said),
            Word::Session(_) | Word::Spent(..) | Word::SpentInAll(..) | Word::SpentEver(..) => {}
            // Anything else comes after the message.
            _ => {
                let mut signals = self.said();
                signals.extend(self.take_whole(word));
                return signals;
            }
        }
        let spent = match word {
            Word::Spent(tokens, money) => self.spent(start, tokens, money),
            Word::SpentEver(..) if start.resume.is_some() => None,
            Word::SpentInAll(tokens, money) | Word::SpentEver(tokens, money) => {
                let money = money.map(|money| money.saturating_sub(self.money_micros));
                let spent = self.spent(start, tokens.since(self.counted), money);
                (self.counted, self.money_micros) = (Tokens::default(), 0);
                spent
            }
            _ => None,
        };
        spent.into_iter().collect()
    }

    fn take_whole(&mut self, word: Word) -> Vec<Signal> {
        match word {
            Word::Message(said) => {
                self.part(None, &said);
                self.said()
            }
            Word::Tool { id, title } => {
                let known = self.tools.len() < TOOLS_MAX && is_name(&id) && !self.tools.contains_key(&id);
                if known {
                    self.tools.insert(id, brief(&title));
                }
                known.then_some(Signal::ToolStarted).into_iter().collect()
            }
            Word::ToolDone { id, title, outcome, .. } => self.done(id, title, outcome),
            Word::Denied(what) => {
                self.turn.denied(line(&what));
                Vec::new()
            }
            Word::Wrong(what) => {
                self.wrong.get_or_insert(line(&what));
                Vec::new()
            }
            Word::Background(count) => self.background(count > 0),
            Word::Step | Word::LastStep => {
                self.is_last_step = word == Word::LastStep;
                Vec::new()
            }
            Word::Ended(ending, error) => self.ended(ending, error),
            _ => Vec::new(),
        }
    }

    /// Takes a part of a message. One of another name is another message.
    fn part(&mut self, name: Option<String>, said: &str) -> Vec<Signal> {
        let name = name.filter(|name| is_name(name));
        let other = self.message.as_ref().is_some_and(|(known, _)| *known != name);
        let signals = if other { self.said() } else { Vec::new() };
        let (_, head) = self.message.get_or_insert_with(|| (name, String::new()));
        if !head.contains('\n') {
            let whole = format!("{head}{said}");
            *head = whole.trim_start().chars().take(HEAD_CHARS_MAX).collect();
        }
        signals
    }

    /// Takes note that the message is at its end, if there is one.
    fn said(&mut self) -> Vec<Signal> {
        let Some((_, head)) = self.message.take() else { return Vec::new() };
        self.turn.message();
        let title = line(&head);
        if title.is_empty() { Vec::new() } else { vec![Signal::ItemCompleted { title }] }
    }

    fn done(&mut self, id: Option<String>, title: Option<String>, outcome: Option<String>) -> Vec<Signal> {
        let known = id.and_then(|id| self.tools.remove(&id));
        let ended = known.is_some().then_some(Signal::ToolEnded);
        let title = title.map(|title| line(&title)).or(known).map(|title| match outcome {
            Some(outcome) => line(&format!("{title}: {outcome}")),
            None => title,
        });
        ended.into_iter().chain(title.map(|title| Signal::ItemCompleted { title })).collect()
    }

    fn spent(&mut self, start: &Start, tokens: Tokens, money: Option<u64>) -> Option<Signal> {
        let mut usage = tokens.usage(start.prices);
        usage.money_micros = money.unwrap_or(usage.money_micros);
        self.counted.add(tokens);
        self.money_micros = self.money_micros.saturating_add(usage.money_micros);
        self.turn.spent(usage)
    }

    /// Takes note of what goes on in the background. A tool is at work while it is waited for.
    fn background(&mut self, background: bool) -> Vec<Signal> {
        self.background = background;
        let over = !background && std::mem::take(&mut self.waits);
        over.then_some(Signal::ToolEnded).into_iter().collect()
    }

    /// Takes note that the turn is over, by an account that is looked at closely.
    fn ended(&mut self, ending: TurnEnding, error: Option<String>) -> Vec<Signal> {
        match (ending, self.wrong.take()) {
            (TurnEnding::Completed, Some(wrong)) => self.end(TurnEnding::Failed, Some(wrong)),
            (TurnEnding::Completed, None) if self.background => {
                self.is_last_step = true;
                let begun = !std::mem::replace(&mut self.waits, true);
                begun.then_some(Signal::ToolStarted).into_iter().collect()
            }
            (TurnEnding::Completed, None) => self.end(ending, None),
            (_, wrong) => self.end(ending, wrong.or(error)),
        }
    }

    fn end(&mut self, ending: TurnEnding, error: Option<String>) -> Vec<Signal> {
        let mut signals = self.said();
        signals.extend(self.turn.end(ending, error, self.session.as_deref()));
        *self = Once { shape: self.shape, is_over: true, ..Once::default() };
        signals
    }
}

/// Reports whether a name can be kept.
fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}
