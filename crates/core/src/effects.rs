//! Effects: what must happen next, read off the state.
//!
//! They are due, not fired: a lost one is simply due again. An effect belongs to the claim that intended it; a later
//! owner looks before it touches anything.

use crate::event::SessionState;
use crate::ids::{AttemptNo, Awake, Fence, InputNo, TurnNo};
use crate::job::{Attempt, Job, Phase, Stop};
use crate::limits::Limit;
use crate::outcome::Cause;

/// Something to be done in the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Start the tree.
    Launch {
        /// Of which attempt.
        attempt: AttemptNo,
    },
    /// Find out what became of the tree. If nothing was started, close the place so that nothing can be; if the keeper is
    /// gone, sweep before saying so.
    Locate {
        /// Of which attempt.
        attempt: AttemptNo,
    },
    /// Follow the tree to its end and the recording as it grows.
    Watch {
        /// Of which attempt.
        attempt: AttemptNo,
    },
    /// Stop the tree, rung by rung, and prove it empty.
    Stop {
        /// Of which attempt.
        attempt: AttemptNo,
        /// Why: the keeper notes it when the journal cannot.
        cause: Cause,
        /// Straight to the last rung.
        force: bool,
    },
    /// Tell the keeper its hard deadline.
    Deadline {
        /// Of which attempt.
        attempt: AttemptNo,
        /// When, by the awake clock; `None` is never.
        at: Option<Awake>,
    },
    /// Make the whole tree hold still, or go on. A repeat changes nothing.
    Hold {
        /// Of which attempt.
        attempt: AttemptNo,
        /// Whether it holds still.
        still: bool,
    },
    /// Say something to the agent.
    Tell {
        /// In which attempt.
        attempt: AttemptNo,
        /// Which input; the keeper ignores a repeat.
        input: InputNo,
    },
    /// Ask the agent to end its turn and stay.
    Interrupt {
        /// In which attempt.
        attempt: AttemptNo,
        /// Which turn.
        turn: TurnNo,
    },
    /// Close the input: an agent has nothing left to do, or a command was told everything. A repeat closes nothing more.
    Close {
        /// Of which attempt.
        attempt: AttemptNo,
    },
}

impl Effect {
    /// Reports whether nothing else may be asked for until this has reported back.
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
    // A tree on another host cannot be touched; `decide::take_over` accounts for it.
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

/// Returns what is due for a tree of ours.
fn of_tree(job: &Job, attempt: &Attempt) -> Vec<Effect> {
    let no = attempt.no;
    let mut due = vec![Effect::Watch { attempt: no }];
    if let Some(&Stop { cause, force, .. }) = job.stop.as_ref() {
        due.push(Effect::Stop { attempt: no, cause, force });
        return due;
    }
    let at = job.limits.get(Limit::Wall).zip(attempt.launched).map(|(ms, from)| from.plus_ms(ms));
    due.push(Effect::Deadline { attempt: no, at });
    if attempt.was_paused {
        due.push(Effect::Hold { attempt: no, still: job.pause.is_some() });
    }
    due.extend(job.inputs_due().map(|input| Effect::Tell { attempt: no, input: input.no }));
    // Said after the last input was delivered, so that it is not lost with whoever was to say both.
    if job.input_closed && job.inputs.is_empty() {
        due.push(Effect::Close { attempt: no });
    }
    let Some(session) = job.session.as_ref().filter(|session| session.attempt == no) else { return due };
    if let Some(turn) = session.interrupt {
        due.push(Effect::Interrupt { attempt: no, turn });
    }
    let finished = session.state == SessionState::Ready && attempt.turns_completed > 0;
    if finished && session.is_settled() && job.inputs.is_empty() {
        due.push(Effect::Close { attempt: no });
    }
    due
}
