//! Colours by meaning.

use lastword_api::{Outcome, Phase};

/// Whether to use colour on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) on: bool,
}

impl Style {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Emphasis.
    pub(crate) fn strong(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Secondary information.
    pub(crate) fn faint(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Success.
    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Needs attention.
    pub(crate) fn warn(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// An error.
    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// In progress.
    pub(crate) fn live(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// Colours a text by the state of its job.
    pub(crate) fn by_state(self, phase: &Phase, outcome: Option<&Outcome>, text: &str) -> String {
        match (phase, outcome) {
            (_, Some(Outcome::Completed)) => self.good(text),
            (_, Some(Outcome::Cancelled)) => self.warn(text),
            (_, Some(_)) => self.bad(text),
            (Phase::Running | Phase::Idle | Phase::Launching, _) => self.live(text),
            (Phase::Stopping, _) => self.warn(text),
            _ => self.faint(text),
        }
    }
}
