//! Jobs that wait for another one: which one that is, and the moment at which they are submitted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::canary::Life;
use super::judge::Violation;
use super::plan::{ASTRAY_US, After, Moment, Order};
use super::stage::{Awaited, Entry, Stage};
use crate::clock;

/// How long a moment is waited for. Then the job is submitted at any.
const MOMENT_MAX: Duration = Duration::from_secs(5);

/// How often it is looked whether it has come.
const LOOK: Duration = Duration::from_millis(1);

/// How long the other one may take to be acknowledged.
const TAKEN_MAX: Duration = Duration::from_secs(3);

/// How much the aim changes at once, and how far it may be from the exit of a leader.
const AIM_STEP_US: i64 = 500;
const AIM_MAX_US: i64 = 60_000;

/// Chooses the job to wait for, if it was acknowledged, and waits for the moment.
pub(crate) fn choose(stage: &Stage, number: u64, after: After) -> Option<Awaited> {
    let other = number.checked_sub(after.back)?;
    let id = clock::until(TAKEN_MAX, Duration::from_millis(5), || {
        let (id, refused) = stage.entry(other, |entry| (entry.id.clone(), entry.unanswered))?;
        (id.is_some() || refused).then_some(id)
    })??;
    let is = |wish: fn(&Entry) -> bool| stage.entry(other, |entry| wish(entry)).unwrap_or(true);
    let order = stage.entry(other, |entry| entry.order.clone())?;
    let exits_ns = || exits_ns(stage, &order);
    let (name, has_come): (_, &dyn Fn() -> bool) = match after.moment {
        Moment::Whenever => ("dependents at any moment", &|| true),
        Moment::Ending => ("dependents while the other one ends", &|| {
            exits_ns().is_some() || is(|entry| entry.seen.is_some())
        }),
        Moment::Ended => ("dependents of an ended job", &|| is(|entry| entry.seen.is_some())),
        Moment::Going => ("dependents beside a removal", &|| is(|entry| entry.removing_ns.is_some())),
        Moment::Gone => ("dependents of a removed job", &|| is(|entry| entry.gone)),
    };
    let come = clock::until(MOMENT_MAX, LOOK, || has_come().then_some(()));
    match after.moment {
        Moment::Whenever => {}
        Moment::Ending => {
            let aim_us = stage.aim_us.load(Ordering::Relaxed) + after.delay_us as i64 - ASTRAY_US as i64;
            let at_ns = exits_ns().unwrap_or(0).saturating_add_signed(aim_us * 1_000);
            clock::rest(Duration::from_nanos(at_ns.saturating_sub(clock::boot_ns())));
            stage.ending_ns.store(clock::boot_ns(), Ordering::Relaxed);
        }
        _ => clock::rest(Duration::from_micros(after.delay_us)),
    }
    stage.count(if come.is_some() { name } else { "dependents whose moment did not come" });
    Some(Awaited { number: other, id, must: after.must })
}

/// Returns when the leader of a canary exits: it has said its last line, and rests as long as after every other.
fn exits_ns(stage: &Stage, order: &Order) -> Option<u64> {
    let canary = order.canary()?;
    let life = Life::read(order, &stage.ground.notes());
    let last = life.attempts.values().next_back().filter(|last| last.said == canary.lines)?;
    let rest_ns = if last.ends.is_some() { 0 } else { canary.pause_us * 1_000 };
    Some(last.last_ns + rest_ns)
}

/// Corrects the aim by where a submission landed, before or after the last word of the other job: half of them on each side hit
/// the moment between most often, on any machine.
pub(crate) fn aim(stage: &Stage, order: &Order, is_early: bool) {
    if !order.after.is_some_and(|after| after.moment == Moment::Ending) {
        return;
    }
    stage.count(if is_early { "aimed at an end, early" } else { "aimed at an end, late" });
    let correct = |aim_us: i64| {
        let aim_us = if is_early { aim_us + AIM_STEP_US } else { aim_us - AIM_STEP_US };
        aim_us.clamp(-AIM_MAX_US, AIM_MAX_US)
    };
    stage.aim_us.update(Ordering::Relaxed, Ordering::Relaxed, correct);
}

/// Reports whether something may have removed the job that another one waits for.
pub(crate) fn may_be_gone(stage: &Stage, other: &Awaited) -> bool {
    stage.entry(other.number, |entry| entry.may_be_gone()).unwrap_or(true)
}

/// Looks at the refusal of a submission: that the other job is not there is true only of one that was removed.
pub(crate) fn refused(stage: &Stage, order: &Order, after: Option<&Awaited>, code: &str) {
    if code != "not_found" {
        return;
    }
    match after {
        Some(other) if may_be_gone(stage, other) => stage.count("dependents refused, the other one is gone"),
        other => stage.violated(vec![Violation {
            judge: "dependency",
            what: format!("job {}: refused, as if {other:?} was not there", order.number),
        }]),
    }
}
