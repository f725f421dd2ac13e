//! The active turn: what it adds to the conversation if it completes.

use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::report::Signal;
use serde::{Deserialize, Serialize};

/// Denials kept per turn.
const DENIALS_MAX: usize = 16;

/// Longest mark that is kept, in bytes.
pub(crate) const MARK_BYTES_MAX: usize = 200;

/// What an agent says about its work, apart from the end of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It works.
    Busy,
    /// It works on nothing.
    Idle,
    /// It works on nothing, because of an error.
    Failed,
}

/// The active turn, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Turn {
    active: bool,
    /// The agent says that it works on nothing. Its turn has ended, or its end is on the way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    inactive: bool,
    interrupted: bool,
    messages: u32,
    denials: Vec<String>,
    usage: Usage,
}

impl Turn {
    /// Reports whether the end of a turn is still to come.
    pub(crate) fn is_open(&self) -> bool {
        self.active
    }

    /// Reports whether the agent works on a turn.
    pub(crate) fn is_active(&self) -> bool {
        self.active && !self.inactive
    }

    /// Reports whether the agent says that it works on nothing, and the end of its turn has not come.
    pub(crate) fn is_inactive(&self) -> bool {
        self.active && self.inactive
    }

    /// Records what the agent says about its work, apart from the end of its turn.
    pub(crate) fn works(&mut self, work: Work) -> Option<Signal> {
        if !self.active || (work == Work::Busy && !self.inactive) {
            return None;
        }
        self.inactive = work != Work::Busy;
        Some(match work {
            Work::Busy => Signal::Active,
            Work::Idle | Work::Failed => Signal::Inactive { failed: work == Work::Failed },
        })
    }

    /// Reports whether an interrupt was sent.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Starts a turn, unless one is active.
    pub(crate) fn begin(&mut self) -> Option<Signal> {
        if self.is_active() {
            return None;
        }
        *self = Turn { active: true, ..Turn::default() };
        Some(Signal::TurnStarted)
    }

    /// Records that an interrupt was sent.
    pub(crate) fn interrupt(&mut self) {
        self.interrupted = self.is_active();
    }

    /// Counts a message.
    pub(crate) fn message(&mut self) {
        self.messages = self.messages.saturating_add(1);
    }

    /// Records a denied tool use.
    pub(crate) fn denied(&mut self, line: String) {
        if self.active && self.denials.len() < DENIALS_MAX {
            self.denials.push(line);
        }
    }

    /// Adds usage to the turn.
    pub(crate) fn spent(&mut self, usage: Usage) -> Option<Signal> {
        self.usage.add(usage);
        (usage != Usage::default()).then_some(Signal::Spent(usage))
    }

    /// Reports that the agent died: the end of its turn, or of the session that it never opened.
    pub(crate) fn died(&mut self, has_session: bool, error: &str) -> Vec<Signal> {
        died(std::mem::take(self).active, has_session, error)
    }

    /// Reports that no session could be opened, as a failed turn: that is what the job waits for.
    pub(crate) fn without_session(&mut self, error: String) -> Vec<Signal> {
        let started = Signal::SessionStarted { reference: None, resumed_from: None };
        let begun = self.begin();
        let ended = self.end(TurnEnding::Failed, Some(error), (None, None));
        let errored = Signal::SessionChanged { state: SessionState::Errored, background: 0 };
        [started].into_iter().chain(begun).chain(ended).chain([errored]).collect()
    }

    /// Ends the turn, if one is active. The agent's session is to be resumed by that reference, and the turn ends at that mark of its record.
    pub(crate) fn end(
        &mut self,
        ending: TurnEnding,
        error: Option<String>,
        (resume, mark): (Option<&str>, Option<&str>),
    ) -> Option<Signal> {
        let turn = std::mem::take(self);
        let resume = resume.map(str::to_owned);
        let mark = mark.filter(|mark| mark.len() <= MARK_BYTES_MAX).map(str::to_owned);
        let commit = Commit {
            messages: turn.messages,
            transcript: 0,
            denials: turn.denials,
            usage: turn.usage,
            resume,
            mark,
        };
        turn.active.then_some(Signal::TurnEnded { ending, error, commit })
    }
}

/// Reports that an agent died: the end of its turn, or of the session that it never opened. A turn that did not complete adds nothing to the
/// conversation.
pub(crate) fn died(in_turn: bool, has_session: bool, error: &str) -> Vec<Signal> {
    match (in_turn, has_session) {
        (true, _) => {
            let error = Some(format!("{error} before its turn ended"));
            vec![Signal::TurnEnded { ending: TurnEnding::AgentExit, error, commit: Commit::default() }]
        }
        (false, true) => Vec::new(),
        (false, false) => vec![Signal::Unopened { error: format!("{error} before it opened a session") }],
    }
}
