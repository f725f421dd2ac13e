//! `limit`: changing a limit, and what happens when one is reached.
//!
//! A limit that fired is stored with what was measured. Raising the limit later does not revoke it.

use super::{Decision, Refusal};
use crate::event::{Fact, LimitChanged, LimitFired, LimitNeared, Paused, Unpaused};
use crate::ids::{Awake, TurnNo};
use crate::job::{Attempt, Job, Phase};
use crate::limits::{self, Limit, Limits, Reached, Used};
use crate::report::Pulse;
use crate::spec::OnLimit;

/// Decides a change of one limit; zero switches it off. Adds nothing if the limit has that value already.
pub fn decide(job: &Job, by: &str, limit: Limit, value: u64) -> Decision {
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        Phase::Ended(_) => Err(Refusal::Ended(job.id)),
        _ if job.limits.get(limit).unwrap_or(0) == value => Ok(Vec::new()),
        _ => Ok(vec![LimitChanged { by: by.to_owned(), limit, value }.into()]),
    }
}

/// Returns what follows from the first limit that is reached: the job is stopped, or paused if a person is to be asked first. `None` if
/// no limit is reached or the job is stopping already.
pub fn fire(job: &Job, pulse: &Pulse, now: Awake) -> Option<Fact> {
    let can_pause = spends(job) || job.wants_turn();
    fire_with(job, pulse, now, turns_wanted(job), can_pause)
}

/// Returns the number of turns begun, counting a pending one.
fn turns_wanted(job: &Job) -> TurnNo {
    if job.wants_turn() { job.turns.next() } else { job.turns }
}

/// Like [`fire`], as if `turns` had begun.
pub(super) fn fire_at_turn(job: &Job, pulse: &Pulse, now: Awake, turns: TurnNo) -> Option<Fact> {
    fire_with(job, pulse, now, turns, spends(job))
}

fn fire_with(job: &Job, pulse: &Pulse, now: Awake, turns: TurnNo, can_pause: bool) -> Option<Fact> {
    if !matches!(job.phase, Phase::Running) {
        return None;
    }
    let attempt = watched(job)?;
    let used = used(job, attempt.launched?, pulse, now, turns);
    let Reached { limit, measured, allowed } = limits::reached(&job.limits, &used)?;
    let attempt = attempt.no;
    let fired = LimitFired { attempt, limit, measured, allowed }.into();
    let asks = expires_ms(job).filter(|_| limit.is_budget());
    match (asks, &job.pause) {
        (None, _) => Some(fired),
        (Some(ms), Some(pause)) => (now >= pause.awake.plus_ms(ms)).then_some(fired),
        (Some(_), None) if can_pause => Some(Paused { attempt, limit, measured, allowed, awake: now }.into()),
        (Some(_), None) => None,
    }
}

fn used(job: &Job, launched: Awake, pulse: &Pulse, now: Awake, turns: TurnNo) -> Used {
    Used {
        wall_ms: now.0.saturating_sub(launched.0),
        stall_ms: stalled_since(job, pulse).map_or(0, |since| now.0.saturating_sub(since.0)),
        output_bytes: pulse.output,
        turns: u64::from(turns.0),
        tokens: job.usage.tokens(),
        money_micros: job.usage.money_micros,
    }
}

/// Returns the end of the pause, if the limit that caused it was raised far enough.
pub fn lifted(job: &Job, pulse: &Pulse, now: Awake) -> Option<Fact> {
    let pause = job.pause.filter(|_| matches!(job.phase, Phase::Running))?;
    let attempt = watched(job)?;
    let mut only = Limits::default();
    only.set(pause.limit, job.limits.get(pause.limit).unwrap_or(0));
    let used = used(job, attempt.launched?, pulse, now, turns_wanted(job));
    limits::reached(&only, &used).is_none().then(|| Unpaused { attempt: attempt.no }.into())
}

/// Returns a warning for each budget of an agent that is four fifths used, once per value of the limit.
pub fn near(job: &Job) -> Vec<Fact> {
    let agent = job.spec.as_ref().is_some_and(|spec| spec.work.is_agent());
    let Some(attempt) = watched(job).filter(|_| agent && matches!(job.phase, Phase::Running)) else {
        return Vec::new();
    };
    let budgets = [
        (Limit::Turns, u64::from(job.turns.0)),
        (Limit::Tokens, job.usage.tokens()),
        (Limit::Money, job.usage.money_micros),
    ];
    let near = budgets.into_iter().filter_map(|(limit, measured)| {
        let allowed = job.limits.get(limit)?;
        // A budget that is exceeded needs no warning.
        let is_near = u128::from(measured) * 5 >= u128::from(allowed) * 4 && measured <= allowed;
        let is_new = !job.neared.contains(&(limit, allowed));
        (is_near && is_new).then(|| LimitNeared { attempt: attempt.no, limit, measured, allowed }.into())
    });
    near.collect()
}

/// Returns how long a person may take to decide, if the job asks one.
fn expires_ms(job: &Job) -> Option<u64> {
    match job.spec.as_ref()?.on_limit {
        OnLimit::Ask { expires_ms } => Some(expires_ms),
        OnLimit::Stop => None,
    }
}

/// Reports whether the job can use up budget at the moment. An agent between turns cannot.
fn spends(job: &Job) -> bool {
    !job.reports_turns() || job.active_turn().is_some()
}

/// Returns the open attempt if its present owner has seen its tree. A tree left by an earlier owner may have ended long ago, within its
/// limits, so it is located before it is measured.
fn watched(job: &Job) -> Option<&Attempt> {
    job.open_attempt().filter(|attempt| attempt.epoch == job.epoch)
}

/// Returns since when the stall clock runs. `None` while it is suspended: a tool runs, a person is asked, or the agent is idle.
pub fn stalled_since(job: &Job, pulse: &Pulse) -> Option<Awake> {
    let launched = job.open_attempt()?.launched?;
    let idle = job.session.as_ref().is_some_and(|session| !session.state.may_hold_turn());
    let rests = pulse.tools > 0 || job.waits_for_person() || idle;
    (!rests).then(|| pulse.progress.max(launched))
}

/// Returns when the limits of a job must next be checked.
pub fn next_check(job: &Job, pulse: &Pulse) -> Option<Awake> {
    if !matches!(job.phase, Phase::Running) {
        return None;
    }
    let clocks = limits::next_deadline(&job.limits, watched(job)?.launched?, stalled_since(job, pulse));
    let answer = job.pause.zip(expires_ms(job)).map(|(pause, ms)| pause.awake.plus_ms(ms));
    [clocks, answer].into_iter().flatten().min()
}
