//! What an owner hears: from the keeper about the tree, from the agent about its work.
//!
//! Reports are claims about the world, in the words of neither the operating system nor a provider. What they mean is
//! decided in `decide::observe` and `decide::hear`.

use crate::effects::Effect;
use crate::event::{Commit, SessionState, TurnEnding, Usage};
use crate::ids::{AttemptNo, Awake, InputNo};
use crate::receipt::{Receipt, Rung, Tree};

/// Something an effect or the agent brought back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// The tree is there.
    Launched {
        /// Which attempt.
        attempt: AttemptNo,
        /// Its tree.
        tree: Tree,
        /// When, by the awake clock.
        awake: Awake,
    },
    /// Nothing was started, and nothing will be.
    LaunchFailed {
        /// Which attempt.
        attempt: AttemptNo,
        /// Why.
        error: String,
    },
    /// The answer to a look for the tree.
    Located {
        /// Which attempt.
        attempt: AttemptNo,
        /// What was found.
        found: Found,
    },
    /// The tree is empty.
    Emptied {
        /// Which attempt.
        attempt: AttemptNo,
        /// The keeper's proof and everything it saw.
        receipt: Box<Receipt>,
    },
    /// A stop climbed a rung.
    Climbed {
        /// Which attempt.
        attempt: AttemptNo,
        /// Which rung.
        rung: Rung,
        /// Processes still alive.
        alive: u32,
    },
    /// An input reached the agent.
    Told {
        /// Which.
        input: InputNo,
    },
    /// The agent said something.
    Heard {
        /// In which attempt.
        attempt: AttemptNo,
        /// The offset of the recording after it. A recording that is read again gives the same offsets.
        offset: u64,
        /// What.
        signal: Signal,
    },
    /// An effect could not be carried out, or what came of it is not known.
    Unclear(Effect),
}

/// What a look for a tree found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// It is alive.
    Alive {
        /// The tree.
        tree: Tree,
        /// When it was launched, by the awake clock.
        awake: Awake,
    },
    /// It is empty, and its keeper left a receipt.
    Ended(Box<Receipt>),
    /// Nothing was started, and the place was closed so that nothing can be.
    NeverStarted,
    /// It was started before this host booted.
    OtherBoot,
    /// Its keeper is gone without a receipt. What could be found was killed.
    Vanished(Box<Receipt>),
}

/// What an agent said, whatever its dialect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// It lives and works. Not worth a fact.
    Progress,
    /// Its tree has written so much by now. No fact either: the recording holds the bytes themselves.
    Wrote {
        /// Over both streams, since the attempt began.
        total_bytes: u64,
    },
    /// It runs a tool: the stall clock rests.
    ToolStarted,
    /// A tool is done.
    ToolEnded,
    /// It has a session.
    SessionStarted {
        /// Its own name for it.
        reference: Option<String>,
        /// What it goes on from.
        resumed_from: Option<String>,
    },
    /// Its session is in another state.
    SessionChanged {
        /// Which.
        state: SessionState,
        /// What it keeps going outside turns.
        background: u32,
    },
    /// It begins a turn.
    TurnStarted,
    /// It asks a person.
    QuestionAsked {
        /// Its own name for the question.
        question: String,
        /// What it asks.
        text: String,
    },
    /// It does not need the answer any more.
    QuestionClosed {
        /// Which question.
        question: String,
    },
    /// It finished an item of work.
    ItemCompleted {
        /// One line about it.
        title: String,
    },
    /// It spent something since it last said so.
    Spent(Usage),
    /// It ended its turn.
    TurnEnded {
        /// How, by its own account.
        ending: TurnEnding,
        /// What went wrong.
        error: Option<String>,
        /// What the turn changed in the conversation.
        commit: Commit,
    },
}

impl Signal {
    /// Reports whether this only moves the pulse, and no fact ever follows from it.
    pub fn is_pulse_only(&self) -> bool {
        matches!(self, Signal::Progress | Signal::Wrote { .. } | Signal::ToolStarted | Signal::ToolEnded)
    }
}

/// What an owner remembers of the agent's pulse. Not stored: it is rebuilt from the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pulse {
    /// When the agent last showed progress.
    pub progress: Awake,
    /// Tools that run.
    pub tools: u32,
    /// Bytes the attempt wrote.
    pub output: u64,
}

impl Pulse {
    /// Records a signal.
    pub fn record(&mut self, signal: &Signal, now: Awake) {
        if let Signal::Wrote { total_bytes } = signal {
            // The same count again is no sign of life, and a smaller one was counted before.
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
    }
}
