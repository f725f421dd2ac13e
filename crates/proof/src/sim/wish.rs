//! Wishes of people and programs, and how far each is answered.

use std::sync::Arc;

use lastword_core::limits::Limit;
use lastword_core::outcome::{Asked, Outcome};
use lastword_core::spec::Spec;
use lastword_core::{Append, Epoch, Fence, Seq};

/// What an asker wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Submit,
    SubmitAgain(Arc<Spec>),
    Cancel { asked: Asked, force: bool },
    Send,
    Answer,
    Interrupt,
    Limit(Limit, u64),
    Retry,
    Abandon,
    ShutDown,
    Depend,
    Release(Fence),
    Late(Epoch, String),
}

/// A person or program with a wish.
pub(super) struct Asker {
    pub(super) job: usize,
    pub(super) wish: Wish,
    pub(super) state: State,
    pub(super) call: u64,
    /// The instance of the journal when it began to read.
    pub(super) read_in: u64,
    /// What a dependent was told about the job it waits for.
    pub(super) other: Option<Outcome>,
}

pub(super) enum State {
    /// Not yet.
    Later,
    /// Reads the log.
    Reads,
    /// The append that is not answered.
    Writes {
        append: Box<Append>,
        seq: Seq,
    },
    Done,
}

impl Asker {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }
}
