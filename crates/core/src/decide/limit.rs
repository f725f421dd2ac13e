//! `limit`: changing a limit, and what follows when one is reached.
//!
//! A limit that fired is a decision and stays one: it is stored with what was measured, and raising the limit afterwards
//! does not take it back.

use super::{Decision, Refusal};
use crate::event::{Fact, LimitChanged, LimitFired};
use crate::ids::{Awake, TurnNo};
use crate::job::{Attempt, Job, Phase};
use crate::limits::{self, Limit, Used};
use crate::report::Pulse;

/// Decides a change of one limit; zero switches it off. The present value again adds nothing.
pub fn decide(job: &Job, by: &str, limit: Limit, value: u64) -> Decision {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => Err(Refusal::Ended(job.id)),
        _ if job.limits.get(limit).unwrap_or(0) == value => Ok(Vec::new()),
        _ => Ok(vec![LimitChanged { by: by.to_owned(), limit, value }.into()]),
    }
}

/// Returns the decision that a limit was reached, if one was and the job is not being stopped already.
pub fn fire(job: &Job, pulse: &Pulse, now: Awake) -> Option<Fact> {
    fire_at_turn(job, pulse, now, job.turns)
}

/// The same, as it would be with `turns` begun.
pub(super) fn fire_at_turn(job: &Job, pulse: &Pulse, now: Awake, turns: TurnNo) -> Option<Fact> {
    if !matches!(job.phase, Phase::Running) {
        return None;
    }
    let attempt = watched(job)?;
    let launched = attempt.launched?;
    let used = Used {
        wall_ms: now.0.saturating_sub(launched.0),
        stall_ms: stalled_since(job, pulse).map_or(0, |since| now.0.saturating_sub(since.0)),
        output_bytes: pulse.output,
        turns: u64::from(turns.0),
        tokens: job.meter.tokens(),
        money_micros: job.meter.money_micros,
    };
    let reached = limits::reached(&job.limits, &used)?;
    let (limit, measured, allowed) = (reached.limit, reached.measured, reached.allowed);
    Some(LimitFired { attempt: attempt.no, limit, measured, allowed }.into())
}

/// Returns the open attempt if its present owner has seen its tree. What an earlier one left may have ended long ago, within its
/// limits: it is looked for before it is measured.
fn watched(job: &Job) -> Option<&Attempt> {
    job.open_attempt().filter(|attempt| attempt.epoch == job.epoch)
}

/// Returns since when the stall clock runs; `None` while it rests: a tool runs, a person is asked, or an agent has nothing
/// to do.
pub fn stalled_since(job: &Job, pulse: &Pulse) -> Option<Awake> {
    let launched = job.open_attempt()?.launched?;
    let idle = job.session.as_ref().is_some_and(|session| !session.state.may_hold_turn());
    let rests = pulse.tools > 0 || job.waits_for_person() || idle;
    (!rests).then(|| pulse.progress.max(launched))
}

/// Returns when the limits of a job next need a look.
pub fn next_look(job: &Job, pulse: &Pulse) -> Option<Awake> {
    if !matches!(job.phase, Phase::Running) {
        return None;
    }
    limits::next_look(&job.limits, watched(job)?.launched?, stalled_since(job, pulse))
}
