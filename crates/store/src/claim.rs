//! The rule of a claim, shared by every journal.
//!
//! A journal finds candidates in its own way (a scan, an index, locked rows) and stores what was taken. Which owner may claim, how
//! many jobs, from which holders, and what a claim writes is said here; whether a job may change hands is decided by `core`. PostgreSQL
//! compares lives and conversations in SQL, because other transactions do so at the same time; the conformance suite and the
//! differential run hold it to the same rule.

use lastword_core::budget::Spent;
use lastword_core::decide::claim::{Lease, decide};
use lastword_core::job::Attempt;
use lastword_core::life::Place;
use lastword_core::{Append, AppendId, Event, Fact, Fence, Incarnation, Job, JobId};

use crate::{Claim, Claimed, Error, Group, Result, Source};

/// The number of a claim's append under its own fence; an owner counts its own appends from zero, and those that claim a slot for an idle
/// agent are counted from below this one.
const CLAIM_APPEND: u32 = u32::MAX;

/// Refuses an owner that is not registered under its incarnation: `present` is its newest life that is not over.
pub(crate) fn check_owner(claim: &Claim, present: Option<Incarnation>, instance: u64) -> Result<()> {
    let incarnation = claim.by.incarnation;
    match present == Some(incarnation) && incarnation.instance == instance {
        true => Ok(()),
        false => Err(Error::Lapsed { owner: claim.by.owner.clone() }),
    }
}

/// Returns how many jobs of a group may be held at once; `None` is no bound. A stored group binds; `unset` is for one that is not stored.
pub(crate) fn slots(stored: Option<&Group>, unset: Option<u32>, spent: &Spent) -> Option<u32> {
    match stored {
        Some(group) if group.paused => Some(0),
        Some(group) if group.budget.is_used_up(spent) => Some(0),
        Some(group) => group.slots,
        None => unset,
    }
}

/// Reports whether an instance that pauses answers the claim. What an earlier one gave may still be acted on elsewhere.
pub(crate) fn may_be_given_in_pause(claim: &Claim) -> bool {
    matches!(claim.from, Source::Alive { .. })
}

/// Returns how many jobs a claim may take while `held` of its group are held.
pub(crate) fn room(claim: &Claim, slots: Option<u32>, held: u32) -> usize {
    slots.map_or(claim.at_most, |slots| slots.saturating_sub(held).min(claim.at_most)) as usize
}

/// Returns what is known of a holder's life: where it is, if it is stored, and which life of its owner is the newest.
pub(crate) fn lease(
    claim: &Claim,
    holder: Incarnation,
    place: Option<Place>,
    present: Option<Incarnation>,
) -> Lease {
    match place {
        None => Lease::Over,
        Some(place) if present != Some(holder) => Lease::Replaced { here: is_here(claim, &place) },
        Some(_) => Lease::Live,
    }
}

/// Reports whether a place is that of the claimant.
pub(crate) fn is_here(claim: &Claim, place: &Place) -> bool {
    claim.by.host == place.host && claim.by.boot.as_ref().is_none_or(|boot| *boot == place.boot)
}

/// Reports whether a job may drive its conversation, which `driver` drives. A job that is taken over drives it already: agents may have
/// given one name to two conversations.
pub(crate) fn may_drive(job: JobId, lease: Lease, driver: Option<JobId>) -> bool {
    lease != Lease::Live || driver.is_none_or(|driver| driver == job)
}

/// A job that is taken, and the append that says so.
pub(crate) struct Taken {
    pub(crate) append: Append,
    pub(crate) claimed: Claimed,
}

/// Decides about one candidate with this log; `None` if it is not for this owner, or not now.
pub(crate) fn take(claim: &Claim, id: JobId, lease: Lease, mut events: Vec<Event>) -> Result<Option<Taken>> {
    let corrupt = |error: lastword_core::Illegal| Error::Corrupt(error.to_string());
    let job = Job::fold(id, &events).map_err(corrupt)?;
    if let Source::Alive { trees } = &claim.from {
        let is_alive = |attempt: &Attempt| {
            let boot = attempt.boot.clone().unwrap_or_default();
            let place = Place { host: attempt.host.clone(), boot };
            trees.contains(&(id, attempt.no)) && is_here(claim, &place)
        };
        if !job.open_attempt().is_some_and(is_alive) {
            return Ok(None);
        }
    }
    // A job that was running somewhere must be looked after, by whichever owner.
    let fits = lease != Lease::Live || job.spec.as_ref().is_none_or(|spec| spec.on.are_among(&claim.labels));
    if !fits {
        return Ok(None);
    }
    let Ok(facts) = decide(&job, &claim.by, lease, claim.now) else { return Ok(None) };
    let wakes = facts.iter().any(|fact| matches!(fact, Fact::Woken(_)));
    let held = job.holder.as_ref().filter(|_| wakes).map(|holder| &holder.fence);
    let fence = held.cloned().unwrap_or_else(|| Fence {
        owner: claim.by.owner.clone(),
        incarnation: claim.by.incarnation,
        epoch: job.epoch.next(),
    });
    // A holder may claim many slots for one job, each at another version.
    let number = if wakes { CLAIM_APPEND - 1 - job.version.0 as u32 } else { CLAIM_APPEND };
    let append_id = AppendId::of_owner(&fence, number);
    let (append, _) = Append::new(&job, held, append_id, claim.now, facts).map_err(corrupt)?;
    events.extend(append.events.iter().cloned());
    Ok(Some(Taken { append, claimed: Claimed { job: id, events, fence } }))
}

/// What a claim has taken so far.
pub(crate) struct Haul<T> {
    pub(crate) taken: Vec<T>,
    damage: Option<Error>,
}

impl<T> Haul<T> {
    pub(crate) fn new() -> Haul<T> {
        Haul { taken: Vec::new(), damage: None }
    }

    /// Passes a decision on. A job whose log is damaged stays where it is and does not keep others from being taken.
    pub(crate) fn unless_damaged<D>(&mut self, decided: Result<Option<D>>) -> Result<Option<D>> {
        match decided {
            Err(error @ Error::Corrupt(_)) => {
                self.damage = Some(error);
                Ok(None)
            }
            other => other,
        }
    }

    /// Returns what was taken. Damage is reported if nothing was.
    pub(crate) fn end(self) -> Result<Vec<T>> {
        match self.damage {
            Some(error) if self.taken.is_empty() => Err(error),
            _ => Ok(self.taken),
        }
    }
}

/// Reports whether an append leaves news for the holder: a request of another writer, and not the claim that made it the holder.
pub(crate) fn leaves_news(append: &Append) -> bool {
    let claims = || append.events.iter().any(|event| matches!(event.fact, Fact::Claimed(_)));
    append.fence.is_none() && append.row.holder.is_some() && !claims()
}
