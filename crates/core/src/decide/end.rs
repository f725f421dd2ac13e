//! How an attempt ends, and with it the job: the only place where a keeper's receipt becomes an outcome.
//!
//! Precedence, first match wins:
//! 1. No certain proof: `lost`.
//! 2. The work was over before anything asked for a stop, and nothing was left to do: what the work achieved. For a command that is its
//!    leader's exit, if the keeper saw it before any stop and no retry is left or needed; for an agent its last turn, if it was completed in
//!    the log before the stop. The stop only cut short what was left of the tree. It is the cause if the agent stays open between turns, which
//!    only a stop ends.
//! 3. The first reason to stop in the log: `cancelled`, `timed_out`, `over_budget`, or `failed` for a turn that did not complete unless
//!    another reason came before the end. A request stored before the end counts, even if the tree ended by itself.
//! 4. The keeper's own reason: its deadline, or a stop it was given while the journal was unavailable.
//! 5. Never started: `failed`.
//! 6. Proven dead by a reboot or an expired lease: `lost`, because how far it got is unknown.
//! 7. An agent that reports turns: completed if its last turn did and no input is left; its exit status does not count. Anything else:
//!    the exit status of the leader.

use super::{family, provider};
use crate::event::{AttemptEnded, Fact, LastWord, ProviderAwaited, RetryScheduled, TurnEnded, TurnEnding};
use crate::ids::{AttemptNo, Awake, Timestamp};
use crate::job::{Attempt, Job};
use crate::limits::Limit;
use crate::outcome::{Begun, Cause, Outcome};
use crate::receipt::{Exit, KeeperStop, Proof, Receipt};

/// Returns the facts that end the open attempt: the end of its turn, of the attempt itself, and of the job or its next attempt.
///
/// `awake` is the present by the awake clock of the attempt's host, if that is known; a keeper that saw the end knows better.
pub(super) fn attempt(
    job: &Job,
    receipt: Receipt,
    error: Option<String>,
    now: Timestamp,
    awake: Option<Awake>,
) -> Vec<Fact> {
    let Some(attempt) = job.open_attempt() else { return Vec::new() };
    let (outcome, cause) = verdict(job, &receipt);
    let cut_short = finished(job, &receipt).and_then(|_| reason_to_stop(job, &receipt));
    // An agent that stays open has no other end.
    let cut_short = cut_short.filter(|_| !job.stays_open());
    let over_at = receipt.empty_at.or(awake);
    let mut facts: Vec<Fact> = Vec::new();
    if let Some(turn) = job.active_turn() {
        let error = error.clone().or_else(|| Some(ENDED_IN_TURN.to_owned()));
        let ending = match cause {
            cause if cause.is_request() => TurnEnding::Cancelled,
            Cause::Limit(limit) => TurnEnding::OverLimit(limit),
            _ => TurnEnding::AgentExit,
        };
        let ended = TurnEnded::without_commit(attempt.heard, turn, ending, error);
        facts.push(TurnEnded { active_ms: over_at.and_then(|at| job.turn_ms(at)), ..ended }.into());
    }
    let ran_ms = over_at.and_then(|at| attempt.ran_ms(at)).or_else(|| logged_ms(job, attempt));
    let has_time = job.wall_left().is_none_or(|left| ran_ms.unwrap_or(0) < left);
    let failed = (outcome, cause) == (Outcome::Failed, Cause::Agent);
    let wait = if failed && has_time { provider::wait(job, attempt, now) } else { provider::Waits::No };
    let retry = retry_due(job, outcome, cause, &receipt, error.is_some(), now).filter(|_| has_time);
    let error = error.or_else(|| agent_error(job, attempt).filter(|_| failed));
    let error = match &wait {
        provider::Waits::Not(why) => {
            Some(error.map_or_else(|| why.clone(), |error| format!("{error}; {why}")))
        }
        _ => error,
    };
    facts
        .push(AttemptEnded { attempt: attempt.no, outcome, cause, error, receipt, cut_short, ran_ms }.into());
    facts.push(match (wait, retry) {
        (provider::Waits::Yes(wait), _) => ProviderAwaited { attempt: attempt.no.next(), wait }.into(),
        (provider::Waits::No, Some(due)) => RetryScheduled { attempt: attempt.no.next(), due }.into(),
        _ => family::word(job, last_word(job, outcome, cause, Some(attempt.no))),
    });
    facts
}

const ENDED_IN_TURN: &str = "the agent exited before its turn ended";

/// Returns how long an attempt ran, as far as its log says: the clock of its boot cannot be asked any more.
fn logged_ms(job: &Job, attempt: &Attempt) -> Option<u64> {
    let ran = job.updated_at.0.saturating_sub(attempt.started_at?.0);
    Some(ran.saturating_sub(attempt.rested_ms))
}

/// Returns why the attempt of an agent failed: the error it reported, or what it did not wait for.
fn agent_error(job: &Job, attempt: &Attempt) -> Option<String> {
    let session = job.session.as_ref().filter(|session| session.attempt == attempt.no);
    let reported = session.and_then(|session| session.last_error.as_deref());
    let implied = match job.reports_turns() {
        false => None,
        true if job.active_turn().is_some() => Some(ENDED_IN_TURN),
        true if attempt.turns_before == job.turns => Some("the agent exited before its first turn"),
        true if !job.inputs.is_empty() => Some("the agent exited with inputs left to deliver"),
        true => None,
    };
    reported.or(implied).map(str::to_owned)
}

/// Returns the last word of a job that has nothing running, with its author and the time of the request if there was one.
pub(super) fn unstarted(
    outcome: Outcome,
    cause: Cause,
    by: &str,
    requested_at: Option<Timestamp>,
) -> LastWord {
    LastWord { outcome, cause, attempt: None, requested_at, by: Some(by.to_owned()) }
}

fn last_word(job: &Job, outcome: Outcome, cause: Cause, attempt: Option<AttemptNo>) -> LastWord {
    // A stop that came after the work is over is not why it ended.
    let stop = job.stop.as_ref().filter(|_| !matches!(cause, Cause::Finished | Cause::Agent));
    let requested_at = stop.map(|stop| stop.requested_at);
    let by = stop.and_then(|stop| stop.by.clone());
    LastWord { outcome, cause, attempt, requested_at, by }
}

fn verdict(job: &Job, receipt: &Receipt) -> (Outcome, Cause) {
    if !receipt.proof.is_certain() {
        let cause = if job.abandoned { Cause::Abandoned } else { Cause::Unaccounted };
        return (Outcome::Lost, cause);
    }
    if let Some(achieved) = finished(job, receipt) {
        return achieved;
    }
    let cancelled = Outcome::Cancelled(match receipt.proof {
        Proof::NeverStarted if !job.has_begun() => Begun::BeforeStart,
        _ => Begun::WhileRunning,
    });
    match reason_to_stop(job, receipt) {
        Some(cause) if cause.is_request() => return (cancelled, cause),
        Some(cause @ Cause::Limit(limit)) => return (limit.into(), cause),
        // The last one is the end of a lease.
        Some(cause @ (Cause::Abandoned | Cause::Unaccounted)) => return (Outcome::Lost, cause),
        Some(cause) => return (Outcome::Failed, cause),
        None => {}
    }
    match (receipt.proof, receipt.exit) {
        (Proof::NeverStarted, _) => (Outcome::Failed, Cause::Launch),
        (Proof::BootChanged | Proof::LeaseSelfFenced, _) | (_, None) => (Outcome::Lost, Cause::Unaccounted),
        (_, Some(exit)) => achieved(job, exit),
    }
}

/// Returns what an attempt achieved: an agent by its last turn, a command by its exit.
fn achieved(job: &Job, exit: Exit) -> (Outcome, Cause) {
    let completed = if job.reports_turns() { job.has_completed_turns() } else { exit == Exit::Code(0) };
    if completed { (Outcome::Completed, Cause::Finished) } else { (Outcome::Failed, Cause::Agent) }
}

/// Returns what an attempt achieved if its work was over before anything asked for a stop, and nothing was left to do.
fn finished(job: &Job, receipt: &Receipt) -> Option<(Outcome, Cause)> {
    // Without a lease another host may have started the job.
    let is_ours = receipt.keeper_stop != Some(KeeperStop::Lease) && !job.abandoned;
    let exit = receipt.exit.filter(|_| receipt.proof.is_certain() && is_ours)?;
    let achieved = achieved(job, exit);
    let is_over = match &job.stop {
        // Whatever it said after that.
        Some(stop) if job.reports_turns() => {
            let cause = if job.stays_open() { stop.cause } else { Cause::Finished };
            return stop.after_work.then_some((Outcome::Completed, cause));
        }
        None if job.reports_turns() => receipt.exited_first && job.is_idle_agent(),
        _ => receipt.exited_first && (achieved.0 == Outcome::Completed || !has_tries_left(job)),
    };
    is_over.then_some(achieved)
}

/// Returns the first reason to stop, of the log or of the keeper.
fn reason_to_stop(job: &Job, receipt: &Receipt) -> Option<Cause> {
    let own = receipt.keeper_stop.map(|stop| match stop {
        KeeperStop::Deadline => Cause::Limit(Limit::Wall),
        KeeperStop::LocalStall => Cause::Limit(Limit::Stall),
        KeeperStop::LocalBudget(budget) => Cause::Limit(budget.into()),
        KeeperStop::LocalCancel => Cause::User,
        KeeperStop::Lease => Cause::Unaccounted,
    });
    job.stop.as_ref().map(|stop| stop.cause).or(own)
}

/// Returns when the next attempt is due, if there is to be one. A job that was asked to stop is never retried.
fn retry_due(
    job: &Job,
    outcome: Outcome,
    cause: Cause,
    receipt: &Receipt,
    error: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let policy = job.spec.as_ref()?.retry;
    // The verdict may be `lost` although a stop was requested, so the log counts too, and a request that only the keeper has.
    let requested = job.stop.as_ref().is_some_and(|stop| stop.cause != Cause::Agent)
        || receipt.keeper_stop == Some(KeeperStop::LocalCancel);
    let stopped = requested || !matches!(cause, Cause::Agent | Cause::Launch | Cause::Unaccounted);
    if stopped {
        return None;
    }
    let (idles, tries) = ended_attempts(job);
    if is_idle(receipt.proof, error) {
        return (idles < policy.relaunches_max).then_some(now);
    }
    let wanted = match outcome {
        Outcome::Failed => true,
        Outcome::Lost => policy.when_lost,
        Outcome::Cancelled(_) | Outcome::Completed | Outcome::TimedOut(_) | Outcome::OverBudget(_) => false,
    };
    let made = tries + 1;
    (wanted && made < policy.attempts_max).then(|| now.plus_ms(backoff_ms(policy, made)))
}

/// Reports whether an attempt ended before anything was started, for another reason than a failed launch.
fn is_idle(proof: Proof, error: bool) -> bool {
    proof == Proof::NeverStarted && !error
}

/// Counts the ended attempts: those before anything was started, and the tries.
fn ended_attempts(job: &Job) -> (u32, u32) {
    let tried = job.attempts.iter().filter(|attempt| !attempt.was_refused);
    let ended = tried.filter_map(|attempt| attempt.end.as_ref());
    let (idles, tries): (Vec<_>, Vec<_>) =
        ended.partition(|end| is_idle(end.receipt.proof, end.error.is_some()));
    (idles.len() as u32, tries.len() as u32)
}

/// Reports whether the open attempt would be tried again if it failed.
fn has_tries_left(job: &Job) -> bool {
    let attempts_max = job.spec.as_ref().map_or(1, |spec| spec.retry.attempts_max);
    ended_attempts(job).1 + 1 < attempts_max
}

/// Returns the pause before the next attempt of a job that waits for it.
pub(super) fn pause_ms(job: &Job) -> u64 {
    let newest = job.attempts.last().and_then(|attempt| attempt.end.as_ref());
    match (&job.spec, newest) {
        (Some(spec), Some(end)) if !is_idle(end.receipt.proof, end.error.is_some()) => {
            backoff_ms(spec.retry, ended_attempts(job).1)
        }
        _ => 0,
    }
}

/// Returns the pause after the `made`th try. It doubles each time, up to a maximum.
fn backoff_ms(policy: crate::spec::RetryPolicy, made: u32) -> u64 {
    let doubled = 1u64.checked_shl(made - 1).and_then(|factor| policy.backoff_ms.checked_mul(factor));
    doubled.unwrap_or(u64::MAX).min(policy.backoff_max_ms)
}
