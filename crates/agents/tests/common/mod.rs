//! A dialogue driven by hand or by a recorded stream.
//!
//! Each line of a stream has a prefix: `<` if the agent wrote it, `>` if we did.

use lastword_agents::{Dialogue, Goals, Outgoing, Start};
use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::question::Reply;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Terms};

/// A dialogue and its signals so far.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) dialogue: Dialogue,
    pub(crate) start: Start,
    pub(crate) terms: Terms,
    pub(crate) signals: Vec<Signal>,
}

impl Driver {
    pub(crate) fn new(dialect: Dialect, start: Start) -> Driver {
        let terms = Terms { dialect, ..Terms::default() };
        Driver { dialogue: Dialogue::new(start.clone(), &terms), start, terms, signals: Vec::new() }
    }

    /// Reads a line of the agent.
    pub(crate) fn read(&mut self, line: &str) -> Vec<Signal> {
        let heard = self.dialogue.read(format!("{line}\n").as_bytes());
        let heard: Vec<Signal> = heard
            .into_iter()
            .map(|heard| heard.signal)
            .filter(|signal| *signal != Signal::Progress)
            .collect();
        self.signals.extend(heard.clone());
        heard
    }

    /// Records a line written to the agent.
    pub(crate) fn write(&mut self, line: &str, input: InputNo) {
        let begun = self.dialogue.wrote(line.as_bytes(), input);
        self.signals.extend(begun.map(|heard| heard.signal));
    }

    /// Writes the line that is due under these goals, and returns it as JSON.
    pub(crate) fn write_next(&mut self, goals: &Goals<'_>) -> Option<serde_json::Value> {
        let Outgoing { line, input } = self.dialogue.next(goals)?;
        self.write(&line, input);
        Some(serde_json::from_str(&line).expect("what is written is JSON"))
    }

    /// Writes lines until none is due, and returns their methods.
    pub(crate) fn write_all(&mut self, goals: &Goals<'_>) -> Vec<String> {
        let mut methods = Vec::new();
        while let Some(line) = self.write_next(goals) {
            methods.push(line["method"].as_str().unwrap_or("an answer").to_owned());
            assert!(methods.len() < 20, "it does not stop: {methods:?}");
        }
        methods
    }

    /// Replays both sides of a recorded stream.
    pub(crate) fn play(&mut self, stream: &str) {
        for line in stream.lines() {
            match line.split_at(2) {
                ("< ", line) => {
                    self.read(line);
                }
                (_, line) => self.write(line, InputNo(0)),
            }
        }
    }

    /// Takes the signals so far, one per line, without those about idleness and prices.
    pub(crate) fn transcript(&mut self) -> String {
        let is_aside = |signal: &Signal| {
            matches!(signal, Signal::Active | Signal::Inactive { .. } | Signal::Unpriced { .. })
        };
        self.signals.retain(|signal| !is_aside(signal));
        self.whole_transcript()
    }

    /// Takes all signals so far, one per line.
    pub(crate) fn whole_transcript(&mut self) -> String {
        let lines: Vec<String> = self.signals.drain(..).map(|signal| line_of(&signal)).collect();
        lines.join("\n")
    }
}

/// Formats a signal as a line.
pub(crate) fn line_of(signal: &Signal) -> String {
    match signal {
        Signal::SessionStarted { reference, resumed_from: None } => format!("session {}", name(reference)),
        Signal::SessionStarted { reference, resumed_from } => {
            format!("session {} from {}", name(reference), name(resumed_from))
        }
        Signal::TurnStarted => "turn".to_owned(),
        Signal::ToolStarted => "tool".to_owned(),
        Signal::ToolEnded => "tool done".to_owned(),
        Signal::ItemCompleted { title } => format!("item: {title}"),
        Signal::Spent(usage) => {
            format!("spent {} {} {}", usage.tokens_in, usage.tokens_out, usage.money_micros)
        }
        // Without the number that makes its id unique.
        Signal::QuestionAsked { question, text, .. } => {
            format!("question {}: {text}", question.rsplit_once('#').map_or("", |(id, _)| id))
        }
        Signal::TurnEnded { ending, error, commit } => {
            let error = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            let denied: String = commit.denials.iter().map(|line| format!(" denied {line}")).collect();
            let usage = commit.usage;
            format!(
                "{ending:?}{error} messages {} used {} {} {}{denied}",
                commit.messages, usage.tokens_in, usage.tokens_out, usage.money_micros
            )
        }
        Signal::ProviderRefused { why, reset } => format!("refused: {why:?} {reset:?}"),
        other => format!("{other:?}"),
    }
}

fn name(reference: &Option<String>) -> &str {
    reference.as_deref().unwrap_or("without a name")
}

pub(crate) fn input(no: u32, text: &str) -> PendingInput {
    let text = text.to_owned();
    PendingInput { no: InputNo(no), question: None, text, reply: None, eof: false, steer: false }
}

pub(crate) fn answer(no: u32, question: &str, text: &str) -> PendingInput {
    let reply = Some(Reply::from_text(text));
    PendingInput { question: Some(question.to_owned()), reply, ..input(no, text) }
}
