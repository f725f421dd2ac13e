//! What a principal may do. Pure: by the request, and by the kind of each fact.
//!
//! A server may do everything. A worker runs agents, which may read its token, so a token lets it do what its own jobs need and no more:
//! renew, claim and end its life under its own name, read jobs that it holds or held, and write what an owner observes. Every verb and every kind of
//! fact is decided here by name; a new one does not compile before it is.

use lastword_core::decide::{answer, late};
use lastword_core::{Append, Fact, Fence, Job, OwnerId};
use lastword_store::{Error, Result};

use crate::wire::{Request, StoreAndTake, StoreAppend};

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
        // Whose life it is says the journal.
        Request::EndLife(_) => Ok(()),
        // A worker waits while it pauses.
        Request::ReadInstance(_) => Ok(()),
        // It claims by group, and stops jobs whose group has spent too much.
        Request::ReadGroups(_) | Request::SpentOn(_) => Ok(()),
        // Servers watch beats, and end pauses and lives.
        Request::ReadLives(_)
        | Request::Settle(_)
        | Request::ReadFeed(_)
        | Request::FeedEnd(_)
        | Request::Dependents(_)
        | Request::WaitsOver(_)
        | Request::ReadReady(_)
        | Request::ReadRow(_)
        | Request::ReadRows(_)
        | Request::ReadList(_)
        | Request::ReadListed(_)
        | Request::Find(_)
        | Request::Count(_)
        | Request::CountByGroup(_)
        | Request::MarkSeen(_)
        | Request::FindPrunable(_)
        | Request::Remove(_)
        | Request::AddGroup(_)
        | Request::SetGroup(_)
        | Request::RemoveGroup(_)
        | Request::StoreKey(_)
        | Request::AskWorker(_) => Err(Error::Refused(format!(
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

/// Core says which facts are an owner's, for every kind there is. A last word is not, because a job that never started needs no owner to end.
fn right(fact: &Fact) -> Right {
    match fact {
        Fact::LastWord(_) | Fact::ChildrenAwaited(_) => Right::Owner,
        Fact::AnswerRequested(_) => Right::Derived,
        Fact::LateReported(_) => Right::Late,
        // A claim, which counts slots.
        Fact::Woken(_) => Right::None,
        // What this build does not know it cannot check.
        Fact::Unknown(_) => Right::None,
        fact if fact.is_owners() => Right::Owner,
        _ => Right::None,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::Arc;

    use lastword_core::event::{
        AnswerRequested, Claimed, KINDS, LateReported, LaunchIntended, Launched, QuestionAsked,
        SessionStarted, Spent, Stored, Submitted, TurnStarted, Usage,
    };
    use lastword_core::question::{Ask, AskKind, Reply};
    use lastword_core::receipt::{Level, Tree};
    use lastword_core::spec::{Spec, Work};
    use lastword_core::{
        AppendId, AttemptNo, Awake, Epoch, HostId, Incarnation, InputNo, JobId, Timestamp, TurnNo,
    };

    use super::*;

    const NOW: Timestamp = Timestamp(1_794_700_800_000);

    /// Returns the stored example of a kind.
    fn example(kind: &str) -> Fact {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../core/golden/{kind}.v1.json"));
        let body = std::fs::read_to_string(&file).unwrap();
        Fact::decode(Stored { kind: kind.to_owned(), version: 1, body }).unwrap()
    }

    /// The table of all kinds: a new one is missing here until it was thought about.
    #[test]
    fn every_kind_of_fact_has_a_right() {
        let owner = "released launch_intended launched adopted stop_began rung_climbed limit_fired limit_neared paused \
            unpaused rested input_delivered session_started session_changed turn_started question_asked \
            question_closed item_completed spent turn_ended attempt_ended retry_scheduled last_word children_awaited \
            provider_refused provider_awaited";
        let none = "submitted dependency_settled dependency_removed rescheduled cancel_requested limit_changed \
            labels_changed input_requested rule_added rule_removed interrupt_requested abandoned claimed continued joined \
            child_submitted child_ended provider_opened woken progress_reported";
        let mut rights: BTreeMap<&str, Right> =
            [("answer_requested", Right::Derived), ("late_reported", Right::Late)].into();
        rights.extend(owner.split_whitespace().map(|kind| (kind, Right::Owner)));
        rights.extend(none.split_whitespace().map(|kind| (kind, Right::None)));
        assert_eq!(rights.len(), KINDS.len());
        for kind in KINDS {
            let fact = example(kind);
            assert_eq!(Some(&right(&fact)), rights.get(kind), "{kind}");
            // What core reserves to the owner a worker may write, but for a slot, and nothing else but these.
            let beside =
                ["last_word", "children_awaited", "answer_requested", "late_reported"].contains(kind);
            let is_owners = fact.is_owners() && *kind != "woken";
            assert_eq!(right(&fact) != Right::None, is_owners || beside, "{kind}");
        }
        let unknown = Stored { kind: "teleported".to_owned(), version: 3, body: "{}".to_owned() };
        assert_eq!(right(&Fact::Unknown(unknown)), Right::None);
    }

    fn ann() -> OwnerId {
        OwnerId("ann".into())
    }

    fn fence() -> Fence {
        Fence { owner: ann(), incarnation: Incarnation { instance: 1, number: 1 }, epoch: Epoch(1) }
    }

    /// Adds facts to a job.
    fn apply(job: &Job, facts: Vec<Fact>) -> Job {
        Append::new(job, Some(&fence()), AppendId(1), NOW, facts).expect("they follow").1
    }

    /// Asks whether ann may add facts to a job. The append is as hostile as it may be: nothing checked it before.
    fn check(job: &Job, fence: Option<Fence>, facts: Vec<Fact>) -> Result<()> {
        let mut version = job.version;
        let events = facts.into_iter().map(|fact| {
            version = version.next();
            lastword_core::Event { seq: version, at: NOW, fact }
        });
        let (submission, _) =
            Append::new(&Job::unborn(job.id), None, AppendId(1), NOW, vec![submitted()]).unwrap();
        let append =
            Append { job: job.id, expected: job.version, fence, events: events.collect(), ..submission };
        check_fence(&ann(), &append)?;
        check_facts(&ann(), job, &append)
    }

    fn submitted() -> Fact {
        let terms = Box::default();
        let work = Work::Agent { provider: "claude".to_owned(), prompt: "tidy up".to_owned(), terms };
        let spec = Spec { work, ..Spec::command(["true"], "/") };
        Submitted { limits: spec.limits, spec: Arc::new(spec), by: "tester".to_owned(), carried: None }.into()
    }

    /// Returns an agent's job that asks for a permission.
    fn asking() -> Job {
        let Fence { owner, incarnation, epoch } = fence();
        let (attempt, boot) = (AttemptNo(1), "boot-1".to_owned());
        let tree = Tree { boot, pid: 4_711, start_ticks: 99, level: Level::Subreaper, withheld: None };
        let job = Job::unborn(JobId::new(0, NOW, [1; 10]));
        let job = apply(&job, vec![submitted()]);
        let host = HostId("here".into());
        let job = apply(&job, vec![Claimed { owner, incarnation, host, epoch }.into()]);
        let limits = job.limits;
        apply(
            &job,
            vec![
                LaunchIntended { attempt, epoch, limits, boot: None }.into(),
                Launched { attempt, tree, awake: Awake(1) }.into(),
                SessionStarted { attempt, offset: 1, reference: None, resumed_from: None }.into(),
                TurnStarted { offset: 2, turn: TurnNo(1), awake: None }.into(),
                question("1"),
            ],
        )
    }

    fn question(id: &str) -> Fact {
        let words = |text: &str| text.to_owned();
        let (kind, tool, request, exact) = (AskKind::Permission, words("Bash"), words("make"), words("make"));
        let ask = Ask { kind, tool, request, lacks: String::new(), parts: Vec::new(), exact };
        let (question, name, text) = (words(id), format!("q{id}"), words("Bash: make"));
        QuestionAsked { offset: 3, question, name, text, ask: Some(Box::new(ask)), awake: None }.into()
    }

    fn refused(answer: Result<()>) -> bool {
        matches!(answer, Err(Error::Refused(_)))
    }

    /// An agent that has read the token of its worker must not be able to allow what it asks for.
    #[test]
    fn a_worker_answers_no_question_of_its_own_agent() {
        let job = asking();
        let allowed = answer::decide(&job, "tester", "q1", &Reply::Allow).unwrap();
        assert!(refused(check(&job, Some(fence()), allowed.clone())));
        assert!(refused(check(&job, None, allowed)));
        assert!(refused(check(&job, Some(fence()), answer::allow_always(&job, "tester", "q1").unwrap())));
        let Some(Fact::AnswerRequested(allowed)) =
            answer::decide(&job, "rule 1", "q1", &Reply::Allow).unwrap().pop()
        else {
            panic!("it is an answer")
        };
        assert!(refused(check(&job, Some(fence()), vec![allowed.into()])), "there is no such rule");
    }

    #[test]
    fn a_worker_passes_on_the_answer_of_a_persons_rule() {
        let job = asking();
        let always = answer::allow_always(&job, "tester", "q1").unwrap();
        let job = apply(&job, always);
        let asked_again = apply(&job, vec![question("2")]);
        let ruled = answer::by_rule(&asked_again);
        assert_eq!(ruled.len(), 1);
        assert_eq!(check(&asked_again, Some(fence()), ruled.clone()), Ok(()));
        // The question and its answer in one append.
        assert_eq!(check(&job, Some(fence()), [vec![question("2")], ruled.clone()].concat()), Ok(()));
        let Some(Fact::AnswerRequested(answer)) = ruled.into_iter().next() else { panic!("it is an answer") };
        let other = AnswerRequested { input: InputNo(answer.input.0 + 1), ..answer };
        assert!(refused(check(&asked_again, Some(fence()), vec![other.into()])));
    }

    #[test]
    fn late_reports_are_bounded() {
        let late = |what: &str| -> Fact { LateReported { epoch: Epoch(1), what: what.to_owned() }.into() };
        let mut job = asking();
        assert!(refused(check(&job, None, vec![late(&"x".repeat(500))])));
        for _ in 0..late::LATE_MAX {
            assert_eq!(check(&job, None, vec![late("exited")]), Ok(()));
            job = apply(&job, vec![late("exited")]);
        }
        assert!(refused(check(&job, None, vec![late("exited")])));
    }

    #[test]
    fn what_cannot_follow_is_refused() {
        let spent: Fact = Spent { offset: 4, usage: Usage::default(), overcounted_micros: 0 }.into();
        let job = asking();
        assert_eq!(check(&job, Some(fence()), vec![spent.clone()]), Ok(()));
        assert!(refused(check(&job, None, vec![spent])), "an owner has a fence");
        assert!(refused(check(
            &job,
            Some(fence()),
            vec![TurnStarted { offset: 5, turn: TurnNo(7), awake: None }.into()]
        )));
        let bob = Fence { owner: OwnerId("bob".into()), ..fence() };
        assert!(refused(check(&job, Some(bob), vec![question("2")])));
    }
}
