//! What is known of a history when it is over: the notes of canaries, the answers that clients got, and the log. The checker reads nothing else.

use super::canary::Run;
use super::fault::Fault;

/// All of it. Times are nanoseconds of the boot clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) runs: Vec<Run>,
    pub(super) answers: Vec<Answer>,
    pub(super) log: Vec<Logged>,
    pub(super) faults: Vec<Struck>,
    /// The journal lost writes that it had acknowledged: a standby that was behind was promoted, or its files were put back.
    pub(super) lost_writes: bool,
    /// How long after the last fault every job must have ended, beside its own run time: what the rule allows, and for how long the machine ran nothing of this history.
    pub(super) patience_ns: u64,
}

/// An answer that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) job: String,
    pub(super) what: Answered,
    pub(super) at_ns: u64,
}

/// What it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Submitted,
    Cancelled,
    /// The job was shown as ended, so.
    Ended(String),
}

/// A job in the log at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) job: String,
    pub(super) facts: Vec<Fact>,
    /// When a client last asked and was told that it had not ended.
    pub(super) unended_ns: u64,
    /// How long all its attempts may run, with the pauses between them and what it waits for.
    pub(super) runs_ns: u64,
}

/// A fact of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) kind: String,
    pub(super) at_ns: u64,
    /// The outcome of a last word, or the owner of a claim.
    pub(super) detail: String,
}

/// A fault that was struck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Struck {
    pub(super) fault: Fault,
    /// The worker that it struck, if it was one.
    pub(super) worker: Option<&'static str>,
    pub(super) from_ns: u64,
    /// When it was over: what was killed was started again, what was cut was joined.
    pub(super) to_ns: u64,
}

impl Logged {
    /// Returns the outcomes of its last words.
    pub(super) fn endings(&self) -> impl Iterator<Item = &str> {
        self.facts.iter().filter(|fact| fact.kind == "last_word").map(|fact| fact.detail.as_str())
    }

    pub(super) fn has(&self, kind: &str) -> bool {
        self.facts.iter().any(|fact| fact.kind == kind)
    }
}
