//! Effects: what must happen next, derived from the state.
//!
//! Effects are due rather than fired: a lost one is due again. An effect belongs to the claim that intended it; a later owner locates
//! the tree before it touches anything.

use crate::ids::{AttemptNo, Awake, Fence, InputNo, TurnNo};
use crate::job::{Attempt, Job, Phase, Stop};
use crate::outcome::Cause;

/// Something to do outside the journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the tree.
    Launch {
        /// The attempt.
        attempt: AttemptNo,
    },
    /// Find out what became of the tree. If nothing was started, make sure that nothing can be; if the keeper is gone, sweep first.
    Locate {
        /// The attempt.
        attempt: AttemptNo,
    },
    /// Follow the tree until it ends, and its recording.
    Watch {
        /// The attempt.
        attempt: AttemptNo,
    },
    /// Stop the tree, rung by rung, and prove it empty.
    Stop {
        /// The attempt.
        attempt: AttemptNo,
        /// The cause. The keeper records it in case the journal is unavailable.
        cause: Cause,
        /// Skip to the last rung.
        force: bool,
    },
    /// Tell the keeper its hard deadline.
    Deadline {
        /// The attempt.
        attempt: AttemptNo,
        /// The deadline by the awake clock; `None` for never.
        at: Option<Awake>,
    },
    /// Freeze or thaw the whole tree. A repeat changes nothing.
    Hold {
        /// The attempt.
        attempt: AttemptNo,
        /// Whether it is to be frozen.
        still: bool,
    },
    /// Deliver an input.
    Tell {
        /// The attempt.
        attempt: AttemptNo,
        /// The input. The keeper ignores a repeat.
        input: InputNo,
    },
    /// Ask the agent to end its turn but not to exit.
    Interrupt {
        /// The attempt.
        attempt: AttemptNo,
        /// The turn.
        turn: TurnNo,
    },
    /// Close the input: the agent has nothing left to do, or the command got all its input. A repeat changes nothing.
    Close {
        /// The attempt.
        attempt: AttemptNo,
    },
}

impl Effect {
    /// Reports whether no other effect may start before this one has reported back.
    pub fn is_exclusive(&self) -> bool {
        matches!(self, Effect::Launch { .. } | Effect::Locate { .. })
    }
}

/// Returns what is due for the holder of `fence`, most urgent first.
pub fn due(job: &Job, fence: &Fence) -> Vec<Effect> {
    let Some(attempt) = job.open_attempt() else { return Vec::new() };
    let Some(holder) = job.holder.as_ref().filter(|holder| holder.fence == *fence) else {
        return Vec::new();
    };
    let no = attempt.no;
    // A tree on another host cannot be touched; `decide::take_over` ends the attempt.
    if attempt.host != holder.host {
        return Vec::new();
    }
    if attempt.epoch != fence.epoch {
        return vec![Effect::Locate { attempt: no }];
    }
    match (&job.phase, &attempt.tree) {
        (Phase::Launching, None) => vec![Effect::Launch { attempt: no }],
        (_, None) => vec![Effect::Locate { attempt: no }],
        (_, Some(_)) => of_tree(job, attempt),
    }
}

/// Returns what is due for a tree that this owner has seen.
fn of_tree(job: &Job, attempt: &Attempt) -> Vec<Effect> {
    let no = attempt.no;
    let mut due = vec![Effect::Watch { attempt: no }];
    if let Some(&Stop { cause, force, .. }) = job.stop.as_ref() {
        due.push(Effect::Stop { attempt: no, cause, force });
        return due;
    }
    due.push(Effect::Deadline { attempt: no, at: job.keeper_deadline(attempt) });
    if attempt.was_paused {
        due.push(Effect::Hold { attempt: no, still: job.pause.is_some() });
    }
    due.extend(job.inputs_due().map(|input| Effect::Tell { attempt: no, input: input.no }));
    // Due only once the last input was delivered, so that a crash between the two loses neither.
    if job.input_closed && job.inputs.is_empty() {
        due.push(Effect::Close { attempt: no });
    }
    let Some(session) = job.session.as_ref().filter(|session| session.attempt == no) else { return due };
    if let Some(turn) = session.interrupt {
        due.push(Effect::Interrupt { attempt: no, turn });
    }
    if job.is_finished_agent() {
        due.push(Effect::Close { attempt: no });
    }
    due
}
