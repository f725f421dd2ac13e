//! What is counted while a turn is under way, and goes into the conversation if it completes.

use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};

/// Denials that are kept of one turn.
const DENIALS_MAX: usize = 16;

/// The turn that is under way, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Turn {
    active: bool,
    interrupted: bool,
    messages: u32,
    denials: Vec<String>,
    usage: Usage,
}

impl Turn {
    /// Reports whether one is under way.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// Reports whether it was asked to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Takes note that one begins, and says so if none was under way.
    pub(crate) fn begin(&mut self) -> Option<Signal> {
        if self.active {
            return None;
        }
        *self = Turn { active: true, ..Turn::default() };
        Some(Signal::TurnStarted)
    }

    /// Takes note that it is asked to end.
    pub(crate) fn interrupt(&mut self) {
        self.interrupted = self.active;
    }

    /// Takes note of a message.
    pub(crate) fn message(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// Takes note of something that was denied.
    pub(crate) fn denied(&mut self, line: String) {
        if self.active && self.denials.len() < DENIALS_MAX {
            self.denials.push(line);
        }
    }

    /// Takes note of what was spent, and says so.
    pub(crate) fn spent(&mut self, usage: Usage) -> Option<Signal> {
        self.usage.add(usage);
        (usage != Usage::default()).then_some(Signal::Spent(usage))
    }

    /// Says that there will be no session, as a turn that failed, since that is what people wait for.
    pub(crate) fn without_session(&mut self, error: String) -> Vec<Signal> {
        let started = Signal::SessionStarted { reference: None, resumed_from: None };
        let begun = self.begin();
        let ended = self.end(TurnEnding::Failed, Some(error), None);
        let errored = Signal::SessionChanged { state: SessionState::Errored, background: 0 };
        [started].into_iter().chain(begun).chain(ended).chain([errored]).collect()
    }

    /// Takes note that it ended, and says so if one was under way.
    pub(crate) fn end(
        &mut self,
        ending: TurnEnding,
        error: Option<String>,
        resume: Option<&str>,
    ) -> Option<Signal> {
        let turn = std::mem::take(self);
        let resume = resume.map(str::to_owned);
        let commit = Commit {
            messages: turn.messages,
            transcript: 0,
            denials: turn.denials,
            usage: turn.usage,
            resume,
        };
        turn.active.then_some(Signal::TurnEnded { ending, error, commit })
    }
}
