//! Recorded streams, and a dialogue that is led by hand.
//!
//! A line of a stream is a mark and what was said: `<` by the agent, `>` by us.

use lastword_agents::{Dialogue, Goals, Outgoing, Start};
use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Terms};

/// A dialogue, and everything that was said in it.
#[derive(Clone)]
pub(crate) struct Talk {
    pub(crate) dialogue: Dialogue,
    pub(crate) start: Start,
    pub(crate) terms: Terms,
    pub(crate) signals: Vec<Signal>,
}

impl Talk {
    pub(crate) fn new(dialect: Dialect, start: Start) -> Talk {
        let terms = Terms { dialect, ..Terms::default() };
        Talk { dialogue: Dialogue::new(start.clone(), &terms), start, terms, signals: Vec::new() }
    }

    /// The agent says a line.
    pub(crate) fn hear(&mut self, line: &str) -> Vec<Signal> {
        let heard = self.dialogue.read(format!("{line}\n").as_bytes());
        let heard: Vec<Signal> = heard
            .into_iter()
            .map(|heard| heard.signal)
            .filter(|signal| *signal != Signal::Progress)
            .collect();
        self.signals.extend(heard.clone());
        heard
    }

    /// A line is written, whoever chose it.
    pub(crate) fn write(&mut self, line: &str, input: InputNo) {
        let begun = self.dialogue.wrote(line.as_bytes(), input);
        self.signals.extend(begun.map(|heard| heard.signal));
    }

    /// Writes what is due, with these goals; returns it as JSON, without the names of requests.
    pub(crate) fn say(&mut self, goals: &Goals<'_>) -> Option<serde_json::Value> {
        let Outgoing { line, input } = self.dialogue.next(goals)?;
        self.write(&line, input);
        Some(serde_json::from_str(&line).expect("what is written is JSON"))
    }

    /// Writes what is due until nothing is, and returns the methods.
    pub(crate) fn say_all(&mut self, goals: &Goals<'_>) -> Vec<String> {
        let mut methods = Vec::new();
        while let Some(line) = self.say(goals) {
            methods.push(line["method"].as_str().unwrap_or("an answer").to_owned());
            assert!(methods.len() < 20, "it does not stop: {methods:?}");
        }
        methods
    }

    /// Goes through a recorded stream, both sides as they were.
    pub(crate) fn play(&mut self, stream: &str) {
        for line in stream.lines() {
            match line.split_at(2) {
                ("< ", said) => {
                    self.hear(said);
                }
                (_, said) => self.write(said, InputNo(0)),
            }
        }
    }

    /// Returns everything that was said so far, a line each, and forgets it.
    pub(crate) fn told(&mut self) -> String {
        let told: Vec<String> = self.signals.drain(..).map(|signal| told(&signal)).collect();
        told.join("\n")
    }
}

/// Returns a signal as a line.
pub(crate) fn told(signal: &Signal) -> String {
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
        Signal::QuestionAsked { question, text } => format!("question {question}: {text}"),
        Signal::TurnEnded { ending, error, commit } => {
            let error = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            let denied: String = commit.denials.iter().map(|line| format!(" denied {line}")).collect();
            let usage = commit.usage;
            format!(
                "{ending:?}{error} messages {} used {} {} {}{denied}",
                commit.messages, usage.tokens_in, usage.tokens_out, usage.money_micros
            )
        }
        other => format!("{other:?}"),
    }
}

fn name(reference: &Option<String>) -> &str {
    reference.as_deref().unwrap_or("without a name")
}

/// Returns an input.
pub(crate) fn input(no: u32, text: &str) -> PendingInput {
    PendingInput { no: InputNo(no), question: None, text: text.to_owned(), eof: false, steer: false }
}

/// Returns an answer.
pub(crate) fn answer(no: u32, question: &str, text: &str) -> PendingInput {
    PendingInput { question: Some(question.to_owned()), ..input(no, text) }
}
