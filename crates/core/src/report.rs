//! Reports to an owner: from keepers about the tree, from the agent about its work.
//!
//! They are independent of the operating system and the agent's protocol. `decide::observe` and `decide::hear` decide what they mean.

use crate::budget::Standing;
use crate::effects::Effect;
use crate::event::{Commit, SessionState, TurnEnding, Usage};
use crate::ids::{AttemptNo, Awake, InputNo};
use crate::provider::{Refused, Reset};
use crate::question::{Ask, Edit};
use crate::receipt::{LaunchError, Receipt, Rung, Tree};

/// The result of an effect, or a signal of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// The tree was started.
    Launched {
        /// The attempt.
        attempt: AttemptNo,
        /// Its tree.
        tree: Tree,
        /// When, by the awake clock.
        awake: Awake,
    },
    /// Nothing was started, and nothing will be.
    LaunchFailed {
        /// The attempt.
        attempt: AttemptNo,
        /// The error.
        error: String,
        /// Where, if the keeper said so: one of 0.1.0 does not.
        launch_error: Option<LaunchError>,
    },
    /// The result of locating the tree.
    Located {
        /// The attempt.
        attempt: AttemptNo,
        /// What was found.
        found: Found,
    },
    /// The tree is empty.
    Emptied {
        /// The attempt.
        attempt: AttemptNo,
        /// The keeper's receipt.
        receipt: Box<Receipt>,
    },
    /// The stop reached a rung.
    Climbed {
        /// The attempt.
        attempt: AttemptNo,
        /// The rung.
        rung: Rung,
        /// Processes still alive.
        alive: u32,
    },
    /// An input was delivered.
    Told {
        /// The input.
        input: InputNo,
    },
    /// The agent sent a signal.
    Heard {
        /// The attempt.
        attempt: AttemptNo,
        /// Its offset in the recording. Reading the recording again yields the same offsets.
        offset: u64,
        /// The signal.
        signal: Signal,
    },
    /// An effect failed, or its result is unknown.
    Unclear(Effect),
}

/// What became of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// It is alive.
    Alive {
        /// The tree.
        tree: Tree,
        /// When it was launched, by the awake clock.
        awake: Awake,
    },
    /// It ended, and its keeper left a receipt.
    Ended(Box<Receipt>),
    /// It was never started, and cannot be any more.
    NeverStarted,
    /// It was started before the host rebooted.
    OtherBoot,
    /// Its keeper is gone without a receipt. Every process that could be found was killed.
    Vanished(Box<Receipt>),
}

/// A signal of an agent, in any dialect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// It is making progress. Not recorded as a fact.
    Progress,
    /// Its tree has written output. Not recorded as a fact: the recording has the bytes.
    Wrote {
        /// Bytes of both streams since the attempt began.
        total_bytes: u64,
    },
    /// It started a tool. The stall clock is suspended meanwhile.
    ToolStarted,
    /// A tool ended.
    ToolEnded,
    /// It opened a session.
    SessionStarted {
        /// Its name for the session.
        reference: Option<String>,
        /// The conversation it resumes.
        resumed_from: Option<String>,
    },
    /// It exited without having opened a session.
    Unopened {
        /// How it exited.
        error: String,
    },
    /// The session changed its state.
    SessionChanged {
        /// The new state.
        state: SessionState,
        /// Processes or tasks that run outside a turn.
        background: u32,
    },
    /// It works on its turn again.
    Active,
    /// It reports that it works on nothing. The message that ends its turn may follow a moment later.
    Inactive {
        /// Because of an error of its own.
        failed: bool,
    },
    /// A turn began.
    TurnStarted,
    /// It asked a person a question.
    QuestionAsked {
        /// Its id of the question.
        question: String,
        /// The text of the question, in one line.
        text: String,
        /// All that is asked.
        ask: Box<Ask>,
        /// The changes to files that are asked for. Not recorded: the host shows them in `ask`, as diffs.
        edits: Vec<Edit>,
    },
    /// It withdrew a question.
    QuestionClosed {
        /// Its id of the question.
        question: String,
    },
    /// It completed an item of work.
    ItemCompleted {
        /// A one-line title.
        title: String,
    },
    /// Tokens or money were spent since the last such signal.
    Spent(Usage),
    /// Money that earlier signals counted too much, by the agent's own total, in millionths of a dollar.
    Overcounted {
        /// The amount.
        money_micros: u64,
    },
    /// Tokens were spent whose price is not known.
    Unpriced {
        /// The model.
        model: String,
    },
    /// Its provider refuses to answer. The end of the turn follows.
    ProviderRefused {
        /// Why.
        why: Refused,
        /// Until when.
        reset: Reset,
    },
    /// The turn ended.
    TurnEnded {
        /// How it ended, as the agent reports it.
        ending: TurnEnding,
        /// The error, if any.
        error: Option<String>,
        /// The changes to the conversation.
        commit: Commit,
    },
}

impl Signal {
    /// Reports whether this only updates the pulse and never leads to a fact.
    pub fn is_pulse_only(&self) -> bool {
        matches!(
            self,
            Signal::Progress
                | Signal::Wrote { .. }
                | Signal::ToolStarted
                | Signal::ToolEnded
                | Signal::Active
                | Signal::Inactive { .. }
        )
    }
}

/// The agent's activity, as an owner tracks it. Not stored: it is rebuilt from the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pulse {
    /// When the agent last made progress.
    pub progress: Awake,
    /// The number of running tools.
    pub tools: u32,
    /// Bytes that the attempt has written.
    pub output: u64,
    /// Since when the agent says that it works on nothing, though its turn has not ended.
    pub inactive: Option<Inactive>,
    /// Where the budget of the job's group stands.
    pub budget: Standing,
}

/// An agent that says that it works on nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inactive {
    /// When it first said so.
    pub since: Awake,
    /// Whether it named an error of its own.
    pub failed: bool,
}

impl Pulse {
    /// Records a signal.
    pub fn record(&mut self, signal: &Signal, now: Awake) {
        if let Signal::Wrote { total_bytes } = signal {
            // A repeated count is no progress, and a smaller one is outdated.
            if *total_bytes > self.output {
                (self.output, self.progress) = (*total_bytes, now);
            }
            return;
        }
        self.progress = now;
        match signal {
            Signal::ToolStarted => self.tools += 1,
            Signal::ToolEnded => self.tools = self.tools.saturating_sub(1),
            Signal::TurnStarted | Signal::TurnEnded { .. } => self.tools = 0,
            _ => {}
        }
        match signal {
            Signal::Inactive { failed } => {
                let before = self.inactive.unwrap_or(Inactive { since: now, failed: false });
                self.inactive = Some(Inactive { failed: before.failed || *failed, ..before });
            }
            // Whatever it does shows that it works.
            Signal::Active
            | Signal::ToolStarted
            | Signal::ToolEnded
            | Signal::QuestionAsked { .. }
            | Signal::ItemCompleted { .. }
            | Signal::Spent(_)
            | Signal::TurnStarted
            | Signal::TurnEnded { .. } => self.inactive = None,
            _ => {}
        }
    }
}
