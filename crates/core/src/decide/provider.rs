//! `provider`: an agent whose provider refuses to answer waits for it, if it was told to, without a slot and without a process.
//!
//! Nothing is sent before the time that the provider names. Then the first of the jobs that wait for the same account tries, and the others
//! follow in their order when it was answered.

use super::{Decision, Refusal, family};
use crate::event::{LastWord, ProviderOpened, TurnEnding};
use crate::ids::Timestamp;
use crate::job::{Attempt, Job, Phase};
use crate::outcome::{Cause, Outcome};
use crate::provider::{Refused, Wait};
use crate::spec::{Spec, Work};

/// How long after the time that a provider names nothing is sent: providers name seconds.
const AFTER_MS: u64 = 1_000;

/// The first pause of a job whose provider is overloaded. Its agent has tried for a minute by then.
const OVERLOAD_MS: u64 = 60_000;

/// The first pause of a job whose provider does not say when its quota is restored.
const UNKNOWN_MS: u64 = 5 * 60_000;

/// The longest pause between two tries.
const PAUSE_MAX_MS: u64 = 60 * 60_000;

/// Whether a job waits for its provider.
pub(super) enum Waits {
    /// The provider did not refuse, or the job does not wait.
    No,
    /// It would have to, and does not: why.
    Not(String),
    /// It waits.
    Yes(Wait),
}

/// Decides whether a job waits for its provider after an attempt.
pub(super) fn wait(job: &Job, attempt: &Attempt, now: Timestamp) -> Waits {
    let Some((spec, bound)) = job.spec.as_ref().and_then(|spec| Some((spec, spec.wait_for_quota?))) else {
        return Waits::No;
    };
    let session = job.session.as_ref().filter(|session| session.attempt == attempt.no);
    let refused = session.filter(|session| matches!(session.last_turn, Some((_, TurnEnding::Limited))));
    let Some((why, until)) = refused.and_then(|session| session.refused) else { return Waits::No };
    let before = job.provider_wait.as_ref();
    let times = before.map_or(0, |wait| wait.times) + 1;
    let since = before.map_or(now, |wait| wait.since);
    let pause = |first: u64| first.saturating_mul(1 << (times - 1).min(16)).min(PAUSE_MAX_MS);
    if has_no_way_back(spec) && job.goes_on_in_session() {
        return Waits::Not(
            "its agent would lose its conversation, so it does not wait for its provider".to_owned(),
        );
    }
    let until = match (why, until.map(|until| until.plus_ms(AFTER_MS))) {
        (_, Some(until)) if times == 1 && until > now => until,
        // A clock that is wrong, or a time that is: nothing is asked in a loop.
        (_, Some(until)) => until.max(now.plus_ms(pause(OVERLOAD_MS))),
        (Refused::Overload, None) => now.plus_ms(pause(OVERLOAD_MS)),
        (Refused::Quota, None) => now.plus_ms(pause(UNKNOWN_MS)),
    };
    let ends_at = since.plus_ms(bound);
    if until > ends_at {
        let minutes = until.0.saturating_sub(now.0).div_ceil(60_000);
        return Waits::Not(format!(
            "its provider answers again in {minutes} min, which is longer than it may wait"
        ));
    }
    Waits::Yes(Wait { account: account(spec), why, since, until, ends_at, times, is_opened: false })
}

fn has_no_way_back(spec: &Spec) -> bool {
    matches!(&spec.work, Work::Agent { terms, .. } if terms.no_resume.is_some())
}

/// Returns the account of a job's provider.
fn account(spec: &Spec) -> String {
    match &spec.work {
        Work::Agent { provider, terms, .. } => terms.account.clone().unwrap_or_else(|| provider.clone()),
        Work::Command { .. } => String::new(),
    }
}

/// Decides that a job which waits for its provider may try.
pub fn open(job: &Job, due: Timestamp) -> Decision {
    let waits = job.provider_wait.as_ref().is_some_and(|wait| !wait.is_opened) && !job.foreign;
    match job.phase {
        Phase::Backoff { .. } if waits && job.holder.is_none() => Ok(vec![ProviderOpened { due }.into()]),
        _ => Ok(Vec::new()),
    }
}

/// Decides that a job has waited for its provider for as long as it may.
pub fn give_up(job: &Job, now: Timestamp) -> Decision {
    let is_over = job.provider_wait.as_ref().is_some_and(|wait| wait.ends_at <= now);
    match job.phase {
        Phase::Backoff { .. } if is_over && job.foreign => Err(Refusal::NeedsNewerReader(job.id)),
        Phase::Backoff { .. } if is_over && job.holder.is_none() => {
            let attempt = job.attempts.last().map(|attempt| attempt.no);
            let (outcome, cause) = (Outcome::Failed, Cause::Agent);
            let word = LastWord { outcome, cause, attempt, requested_at: None, by: None };
            Ok(vec![family::word(job, word)])
        }
        _ => Ok(Vec::new()),
    }
}
