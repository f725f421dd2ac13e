//! Jobs that wait for another one: which one that is, and the moment at which they are submitted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::canary::Life;
use super::judge::Violation;
use super::plan::{After, Moment, Order};
use super::stage::{Awaited, Entry, Stage};
use crate::clock;

/// How long a moment is waited for. Then the job is submitted at any.
const MOMENT_MAX: Duration = Duration::from_secs(5);

/// How often it is looked whether it has come.
const LOOK: Duration = Duration::from_millis(1);

/// How long before the exit of a leader its job is about to end.
const LEAD: Duration = Duration::from_millis(15);

/// How long the other one may take to be acknowledged.
const TAKEN_MAX: Duration = Duration::from_secs(3);

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
            exits_ns().is_some_and(is_near) || is(|entry| entry.seen.is_some())
        }),
        Moment::Ended => ("dependents of an ended job", &|| is(|entry| entry.seen.is_some())),
        Moment::Going => ("dependents beside a removal", &|| is(|entry| entry.removing_ns.is_some())),
        Moment::Gone => ("dependents of a removed job", &|| is(|entry| entry.gone)),
    };
    let come = clock::until(MOMENT_MAX, LOOK, || has_come().then_some(()));
    if after.moment == Moment::Ending {
        stage.ending_ns.store(clock::boot_ns(), Ordering::Relaxed);
    }
    if after.moment != Moment::Whenever {
        clock::rest(Duration::from_micros(after.delay_us));
    }
    stage.count(if come.is_some() { name } else { "dependents whose moment did not come" });
    Some(Awaited { number: other, id, must: after.must })
}

/// Returns when the leader of a canary exits, which rests after every line.
fn exits_ns(stage: &Stage, order: &Order) -> Option<u64> {
    let canary = order.canary()?;
    let life = Life::read(order, &stage.ground.notes());
    let last = life.attempts.values().next_back()?;
    let rests = if last.ends.is_some() { 0 } else { canary.lines.saturating_sub(last.said) + 1 };
    Some(last.last_ns + rests * canary.pause_us * 1_000)
}

/// Reports whether a leader that exits at this time is about to.
fn is_near(exits_ns: u64) -> bool {
    exits_ns < clock::boot_ns() + LEAD.as_nanos() as u64
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
