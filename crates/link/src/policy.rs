//! What a principal may do. Pure: by the request, and by the kind of each fact.
//!
//! A server may do everything. A worker runs agents, which may read its token, so a token lets it do what its own jobs need and no more:
//! renew and claim under its own name, read jobs that it holds or held, and write what an owner observes. Every verb and every kind of
//! fact is decided here by name; a new one does not compile before it is.

use lastword_core::decide::{answer, late};
use lastword_core::{Append, Fact, Fence, Job, OwnerId};
use lastword_store::{Error, Result};

use crate::wire::{Request, StoreAndTake, StoreAppend};

/// The author of a connection's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Another server of the fleet.
    Server,
    /// A worker.
    Worker {
        /// The only owner that it may be.
        owner: OwnerId,
    },
}

/// Returns the principal that a token proves.
pub trait Gate: Send + Sync + 'static {
    /// Returns the principal; `None` if the token is not known.
    fn principal(&self, token: &str) -> Option<Principal>;
}

impl<F: Fn(&str) -> Option<Principal> + Send + Sync + 'static> Gate for F {
    fn principal(&self, token: &str) -> Option<Principal> {
        self(token)
    }
}

/// Refuses a request that a worker may not make, whatever it is about.
pub(crate) fn check_request(owner: &OwnerId, request: &Request) -> Result<()> {
    match request {
        Request::RenewLease(verb) => is_self(owner, &verb.renew.owner),
        Request::TakeJobs(verb) => is_self(owner, &verb.claim.by.owner),
        Request::StoreAppend(StoreAppend { append }) => check_fence(owner, append),
        Request::StoreAndTake(StoreAndTake { append, claim }) => {
            is_self(owner, &claim.by.owner)?;
            check_fence(owner, append)
        }
        // Whose jobs they are is in their logs.
        Request::LoadLog(_) | Request::Held(_) => Ok(()),
        Request::ReadFeed(_)
        | Request::FeedEnd(_)
        | Request::Dependents(_)
        | Request::WaitsOver(_)
        | Request::ReadRow(_)
        | Request::ReadRows(_)
        | Request::ReadList(_)
        | Request::Find(_)
        | Request::Count(_)
        | Request::MarkSeen(_)
        | Request::FindPrunable(_)
        | Request::Remove(_)
        | Request::ReadGroups(_)
        | Request::AddGroup(_)
        | Request::SetGroup(_)
        | Request::SpentOn(_)
        | Request::RemoveGroup(_)
        | Request::StoreKey(_) => Err(Error::Refused(format!(
            "{owner} is a worker: it may claim jobs and drive them, nothing else"
        ))),
    }
}

fn is_self(owner: &OwnerId, named: &OwnerId) -> Result<()> {
    match owner == named {
        true => Ok(()),
        false => Err(Error::Refused(format!("the token is that of {owner}, which cannot be {named}"))),
    }
}

/// A worker writes under its own fence. A late report has none: the claim it was made under is over.
fn check_fence(owner: &OwnerId, append: &Append) -> Result<()> {
    let is_late = |fact: &Fact| right(fact) == Right::Late;
    match &append.fence {
        Some(Fence { owner: named, .. }) => is_self(owner, named),
        None if append.events.iter().all(|event| is_late(&event.fact)) => Ok(()),
        None => Err(Error::Refused(format!("{owner} is a worker: it writes under its fence only"))),
    }
}

/// By which right a worker writes a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// It observed it, as the owner of the job.
    Owner,
    /// It follows from what is stored: the answer of a rule that a person made, or a denial because time is up.
    Derived,
    /// It comes too late to count.
    Late,
    /// By none: people, servers and claims write it.
    None,
}

fn right(fact: &Fact) -> Right {
    match fact {
        Fact::Released(_)
        | Fact::LaunchIntended(_)
        | Fact::Launched(_)
        | Fact::Adopted(_)
        | Fact::StopBegan(_)
        | Fact::RungClimbed(_)
        | Fact::LimitFired(_)
        | Fact::LimitNeared(_)
        | Fact::Paused(_)
        | Fact::Unpaused(_)
        | Fact::Rested(_)
        | Fact::InputDelivered(_)
        | Fact::SessionStarted(_)
        | Fact::SessionChanged(_)
        | Fact::TurnStarted(_)
        | Fact::QuestionAsked(_)
        | Fact::QuestionClosed(_)
        | Fact::ItemCompleted(_)
        | Fact::Spent(_)
        | Fact::TurnEnded(_)
        | Fact::AttemptEnded(_)
        | Fact::RetryScheduled(_)
        | Fact::LastWord(_) => Right::Owner,
        Fact::AnswerRequested(_) => Right::Derived,
        Fact::LateReported(_) => Right::Late,
        Fact::Submitted(_)
        | Fact::DependencySettled(_)
        | Fact::DependencyRemoved(_)
        | Fact::Rescheduled(_)
        | Fact::CancelRequested(_)
        | Fact::LimitChanged(_)
        | Fact::LabelsChanged(_)
        | Fact::InputRequested(_)
        | Fact::RuleAdded(_)
        | Fact::RuleRemoved(_)
        | Fact::InterruptRequested(_)
        | Fact::Abandoned(_)
        | Fact::Claimed(_)
        // What this build does not know it cannot check.
        | Fact::Unknown(_) => Right::None,
    }
}

/// Refuses an append whose facts a worker may not write to this job.
pub(crate) fn check_facts(owner: &OwnerId, job: &Job, append: &Append) -> Result<()> {
    let illegal = |error: lastword_core::Illegal| Error::Refused(error.to_string());
    // Each fact is looked at in the job as the facts before it leave it.
    let mut job = job.clone();
    for event in &append.events {
        let may = match (right(&event.fact), &event.fact) {
            (Right::Owner, _) => append.fence.is_some(),
            (Right::Derived, fact) => {
                answer::by_rule(&job).contains(fact) || answer::expire(&job, event.at).contains(fact)
            }
            (Right::Late, Fact::LateReported(report)) => {
                let decided = late::decide(&job, report.epoch, &report.what);
                decided.is_ok_and(|facts| facts.contains(&event.fact))
            }
            (Right::Late | Right::None, _) => false,
        };
        if !may {
            let kind = event.fact.kind();
            let words = format!("{owner} is a worker and may not write `{kind}` to {}", job.id);
            return Err(Error::Refused(words));
        }
        job.apply(event).map_err(illegal)?;
    }
    Ok(())
}
