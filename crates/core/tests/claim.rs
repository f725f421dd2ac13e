//! `claim`, `take over`, `launch`, `abandon`: who owns a job, and what that lets them do.

use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::decide::{Refusal, abandon, launch, shut_down, take_over};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{Claimed, LaunchIntended, Released, Stored};
use lastword_core::job::{Phase, Waits};
use lastword_core::limits::Limits;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::receipt::Proof;
use lastword_core::report::{Found, Report};
use lastword_core::spec::{Needs, OnPartition, RetryPolicy, Spec};
use lastword_core::{Append, AppendId, AttemptNo, Epoch, Fact, HostId, Illegal, OwnerId, Timestamp};

use crate::common::{Desk, agent, boot, claimant, command, dependent, exited, id, kinds, retried, tree};

fn kept() -> Spec {
    Spec { on_partition: OnPartition::Keep, ..agent() }
}

#[test]
fn claim_in_each_phase() {
    let now = Desk::empty().now.wall;
    let check = |desk: Desk, lease: Lease, expected: Result<u32, Refusal>| {
        let decided = claim::decide(&desk.job, &claimant("b", 2), lease, now);
        let epochs = decided.map(|facts| match &facts[..] {
            [Fact::Claimed(Claimed { owner, incarnation, host, epoch })] => {
                assert_eq!((owner, host), (&claimant("b", 2).owner, &claimant("b", 2).host));
                assert_eq!(*incarnation, claimant("b", 2).incarnation);
                epoch.0
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(epochs, expected, "{:?} {lease:?}", desk.job.phase);
    };
    let held = Err(Refusal::Held(id(1), OwnerId("a".into())));
    check(Desk::empty(), Lease::Over, Err(Refusal::NotFound(id(1))));
    check(Desk::queued(command()), Lease::Live, Ok(1));
    check(Desk::queued(dependent(Needs::Success)), Lease::Over, Err(Refusal::NotDue(id(1))));
    for desk in [Desk::held(command()), Desk::launching(command()), Desk::running(command())] {
        check(desk.clone(), Lease::Live, held.clone());
        check(desk, Lease::Over, Ok(2));
    }
    check(Desk::stopping(command()), Lease::Live, held);
    check(Desk::stopping(command()), Lease::Over, Ok(2));
    check(Desk::ended(0), Lease::Over, Err(Refusal::Ended(id(1))));
    check(Desk::backoff(), Lease::Live, Err(Refusal::NotDue(id(1))));
}

#[test]
fn a_claim_of_what_waits_intends_its_attempt_in_the_same_write() {
    let by = Claimant { boot: Some(boot()), ..claimant("b", 2) };
    let taken = |desk: &Desk, lease: Lease| claim::decide(&desk.job, &by, lease, Timestamp(50_000)).unwrap();
    for (desk, attempt) in [(Desk::queued(command()), 1), (Desk::backoff(), 2)] {
        let facts = taken(&desk, Lease::Live);
        assert_eq!(kinds(&facts), ["claimed", "launch_intended"]);
        let epoch = desk.job.epoch.next();
        let (limits, boot) = (desk.job.limits, Some(boot()));
        let intent: Fact = LaunchIntended { attempt: AttemptNo(attempt), epoch, limits, boot }.into();
        assert_eq!(facts[1], intent);
        let (_, after) = Append::new(&desk.job, None, AppendId(7), Timestamp(50_000), facts).unwrap();
        let fence = after.holder.as_ref().map(|holder| holder.fence.clone()).unwrap();
        assert_eq!(effects::due(&after, &fence), [Effect::Launch { attempt: AttemptNo(attempt) }]);
    }
    // What another has begun is looked for first.
    for desk in [Desk::launching(command()), Desk::running(command()), Desk::stopping(command())] {
        assert_eq!(kinds(&taken(&desk, Lease::Over)), ["claimed"]);
    }
}

/// Found by the simulation: an owner died and came back at once, and another host took the registration for the end of
/// the old lease and of the tree under it, which lived on.
#[test]
fn a_new_life_of_the_owner_does_not_prove_its_tree_dead_elsewhere() {
    let decided =
        |desk: Desk, by: Claimant| claim::decide(&desk.job, &by, Lease::Replaced, desk.now.wall).is_ok();
    let here = || Claimant { host: claimant("a", 1).host, ..claimant("b", 2) };
    for desk in [Desk::launching(command()), Desk::running(command()), Desk::stopping(command())] {
        assert!(!decided(desk.clone(), claimant("b", 2)), "{:?}", desk.job.phase);
        assert!(decided(desk.clone(), here()), "on its own host it is looked for: {:?}", desk.job.phase);
        assert!(decided(desk, claimant("a", 2)), "its own next life");
    }
    assert!(decided(Desk::held(command()), claimant("b", 2)), "nothing was started");
}

#[test]
fn a_job_is_due_at_its_moment_and_not_before() {
    let moment = Timestamp(50_000);
    let desk = Desk::queued(Spec { not_before: Some(moment), ..command() });
    assert_eq!(desk.job.phase, Phase::Queued { waits: Waits::Until(moment) });
    let at = |now| {
        claim::decide(&desk.job, &claimant("b", 2), Lease::Live, Timestamp(now)).map(|facts| facts.len())
    };
    assert_eq!(at(49_999), Err(Refusal::NotDue(id(1))));
    assert_eq!(at(50_000), Ok(1));
    assert_eq!(Desk::queued(command()).job.due(), Some(Timestamp(10_000)));
    assert_eq!(Desk::backoff().job.due(), Some(Timestamp(11_000)));
    assert_eq!(Desk::held(command()).job.due(), None);
    assert_eq!(Desk::ended(0).job.due(), None);
}

#[test]
fn a_job_of_a_newer_build_is_not_claimed() {
    let mut desk = Desk::held(command());
    let unknown = Stored { kind: "dreamt".to_owned(), version: 1, body: "{}".to_owned() };
    desk.owner(vec![Fact::Unknown(unknown)]);
    let refused = claim::decide(&desk.job, &claimant("b", 2), Lease::Over, desk.now.wall);
    assert_eq!(refused, Err(Refusal::NeedsNewerReader(id(1))));
}

#[test]
fn c33_of_two_intents_on_one_version_the_second_does_not_follow() {
    let desk = Desk::queued(agent());
    let first = claim::decide(&desk.job, &claimant("a", 1), Lease::Live, desk.now.wall).expect("it is due");
    let second = claim::decide(&desk.job, &claimant("b", 2), Lease::Live, desk.now.wall).expect("it is due");
    let mut taken = desk.clone();
    taken.anyone(Ok(first));
    let refused = Append::new(&taken.job, None, AppendId(9), desk.now.wall, second);
    assert!(matches!(refused, Err(Illegal::OutOfPlace { why: "the claim is not the next one", .. })));
    // The loser starts nothing: without the claim there is no intent, and nothing is due.
    let mut loser = Desk::held(agent()).fence().clone();
    loser.owner = OwnerId("b".into());
    assert_eq!(
        launch::decide(&Desk::held(agent()).job, &loser, &boot()),
        Err(Refusal::Held(id(1), OwnerId("a".into())))
    );
    assert_eq!(effects::due(&Desk::launching(agent()).job, &loser), Vec::new());
}

#[test]
fn c33_a_second_intent_for_one_job_does_not_follow() {
    let desk = Desk::launching(agent());
    let again = |attempt, epoch| {
        let intent = LaunchIntended { attempt, epoch, limits: Limits::default(), boot: None };
        let append =
            Append::new(&desk.job, desk.fence.as_ref(), AppendId(9), desk.now.wall, vec![intent.into()]);
        append.map(|_| ())
    };
    assert!(again(AttemptNo(2), Epoch(1)).is_err());
    assert_eq!(launch::decide(&desk.job, desk.fence(), &boot()), Ok(Vec::new()));
    assert_eq!(launch::decide(&Desk::running(agent()).job, desk.fence(), &boot()), Ok(Vec::new()));
}

#[test]
fn an_intent_must_be_the_next_attempt_of_the_present_claim() {
    let check = |desk: &Desk, attempt, epoch, why: Option<&str>| {
        let intent = LaunchIntended {
            attempt: AttemptNo(attempt),
            epoch: Epoch(epoch),
            limits: Limits::default(),
            boot: None,
        };
        let fence = Desk::held(agent()).fence;
        let result = Append::new(&desk.job, fence.as_ref(), AppendId(9), desk.now.wall, vec![intent.into()]);
        let said = match &result {
            Err(Illegal::OutOfPlace { why, .. }) => Some(*why),
            _ => None,
        };
        assert_eq!(said, why, "{result:?}");
    };
    let wrong = Some("it is not the next attempt of this claim");
    check(&Desk::held(agent()), 1, 1, None);
    check(&Desk::held(agent()), 2, 1, wrong);
    check(&Desk::held(agent()), 1, 2, wrong);
    check(&Desk::queued(agent()), 1, 0, Some("nobody holds the job"));
    let waits = Desk::queued(dependent(Needs::Success));
    let mut forced = waits.clone();
    forced.anyone(Ok(vec![
        Claimed {
            owner: OwnerId("a".into()),
            incarnation: claimant("a", 1).incarnation,
            host: HostId("h".into()),
            epoch: Epoch(1),
        }
        .into(),
    ]));
    check(&forced, 1, 1, Some("it waits for other jobs"));
    check(&Desk::running(agent()), 2, 1, Some("an attempt is open"));
}

/// C36: asked for, held, intended and started are four facts, and each is seen by itself.
#[test]
fn c36_record_lease_and_process_are_separate_facts() {
    let facts = |desk: &Desk| {
        let job = &desk.job;
        (job.spec.is_some(), job.holder.is_some(), job.open_attempt().is_some(), job.has_begun())
    };
    assert_eq!(facts(&Desk::empty()), (false, false, false, false));
    assert_eq!(facts(&Desk::queued(agent())), (true, false, false, false));
    assert_eq!(facts(&Desk::held(agent())), (true, true, false, false));
    assert_eq!(facts(&Desk::launching(agent())), (true, true, true, false));
    assert_eq!(facts(&Desk::running(agent())), (true, true, true, true));
    assert_eq!(facts(&Desk::backoff()), (true, false, false, true));
    assert_eq!(facts(&Desk::ended(0)), (true, false, false, true));
    // A lease alone is not a start: the phase is still queued.
    assert_eq!(Desk::held(agent()).job.phase, Phase::Queued { waits: Waits::Slot });
}

#[test]
fn c34_what_only_the_owner_may_write_needs_its_fence() {
    let mut refused = 0;
    for kind in lastword_core::event::KINDS {
        let fact = Fact::decode(crate::golden::example(kind)).expect("it reads");
        let owners = fact.is_owners();
        let result = Append::new(&Desk::running(agent()).job, None, AppendId(9), Timestamp(1), vec![fact]);
        assert_eq!(matches!(result, Err(Illegal::NotTheOwner(_))), owners || *kind == "last_word", "{kind}");
        refused += u32::from(owners);
    }
    assert_eq!(refused, 21);
    let anyones = [
        "submitted",
        "dependency_settled",
        "cancel_requested",
        "limit_changed",
        "input_requested",
        "answer_requested",
        "interrupt_requested",
        "abandoned",
        "claimed",
        "last_word",
        "late_reported",
    ];
    for kind in anyones {
        assert!(!Fact::decode(crate::golden::example(kind)).expect("it reads").is_owners(), "{kind}");
    }
}

#[test]
fn c34_only_the_holder_gives_a_job_back_and_only_while_nothing_is_open() {
    let held = Desk::held(agent());
    let other = held.clone().claimed("b", 2);
    let leave = |desk: &Desk, fence| shut_down::leave(&desk.job, fence);
    assert_eq!(leave(&other, held.fence()), Ok(Vec::new()));
    let mut given_back = held.clone();
    let facts = leave(&held, held.fence()).expect("it is never refused");
    given_back.owner(facts);
    assert_eq!((given_back.job.holder.clone(), given_back.job.due()), (None, Some(Timestamp(10_000))));
    assert_eq!(given_back.job.epoch, Epoch(1));
    let running = Desk::running(agent());
    let release = vec![Released { epoch: Epoch(1) }.into()];
    let refused = Append::new(&running.job, running.fence.as_ref(), AppendId(9), Timestamp(1), release);
    assert!(matches!(refused, Err(Illegal::OutOfPlace { why: "an attempt is open", .. })));
}

#[test]
fn c35_nothing_is_due_for_a_claim_that_is_over() {
    for desk in [Desk::launching(agent()), Desk::running(agent()), Desk::stopping(agent())] {
        let old = desk.fence().clone();
        let taken = desk.claimed("a", 2);
        assert_eq!(effects::due(&taken.job, &old), Vec::new());
        assert_eq!(effects::due(&taken.job, taken.fence()), vec![Effect::Locate { attempt: AttemptNo(1) }]);
        assert!(launch::decide(&taken.job, &old, &boot()).is_err());
    }
}

#[test]
fn a_later_owner_looks_before_it_touches_and_adopts_what_it_finds() {
    let desk = Desk::running(agent()).claimed("a", 2);
    let awake = Desk::empty().now.awake;
    let found = Found::Alive { tree: tree(100), awake };
    let desk = desk.later(60).reports(Report::Located { attempt: AttemptNo(1), found });
    assert_eq!(desk.kinds().last(), Some(&"adopted"));
    let attempt = desk.job.open_attempt().expect("it is open");
    assert_eq!((attempt.epoch, attempt.launched), (Epoch(2), Some(awake)));
    assert_eq!(desk.job.phase, Phase::Running);
    let due = effects::due(&desk.job, desk.fence());
    assert_eq!(due.first(), Some(&Effect::Watch { attempt: AttemptNo(1) }));
}

#[test]
fn a_job_kept_for_its_host_is_taken_elsewhere_only_when_abandoned() {
    let other = |desk: &Desk| take_over::check(&desk.job, &claimant("b", 2).host);
    let mut running = Desk::running(kept());
    assert_eq!(other(&running), Err(Refusal::Kept(id(1))));
    assert_eq!(take_over::check(&running.job, &claimant("a", 2).host), Ok(()));
    assert_eq!(other(&Desk::held(kept())), Ok(()));
    assert_eq!(other(&Desk::running(agent())), Ok(()));
    let given_up = abandon::decide(&running.job, "ann");
    running.anyone(given_up);
    assert_eq!(other(&running), Ok(()));
}

#[test]
fn c32_an_attempt_on_another_host_is_accounted_by_its_lease() {
    let check = |spec: Spec, give_up: bool, expected: (Outcome, Cause, Proof)| {
        let mut desk = Desk::running(spec);
        if give_up {
            let facts = abandon::decide(&desk.job, "ann");
            desk.anyone(facts);
        }
        let mut desk = desk.claimed("b", 2);
        assert_eq!(take_over::account(&desk.job, &HostId("host-a".into()), desk.now.wall), Vec::new());
        assert_eq!(effects::due(&desk.job, desk.fence()), Vec::new());
        let facts = take_over::account(&desk.job, &HostId("host-b".into()), desk.now.wall);
        desk.owner(facts);
        let word = desk.job.last_word().expect("it ended").clone();
        let end = desk.job.attempts[0].end.clone().expect("it ended");
        assert_eq!((word.outcome, word.cause, end.receipt.proof), expected);
    };
    check(agent(), false, (Outcome::Lost, Cause::Unaccounted, Proof::LeaseSelfFenced));
    check(agent(), true, (Outcome::Lost, Cause::Abandoned, Proof::LeaseSelfFenced));
    check(kept(), true, (Outcome::Lost, Cause::Abandoned, Proof::BestEffort));
    let nothing = Desk::held(agent()).claimed("b", 2);
    assert_eq!(take_over::account(&nothing.job, &HostId("host-b".into()), nothing.now.wall), Vec::new());
}

#[test]
fn abandon_in_each_phase() {
    let check = |desk: &Desk, expected: Result<&[&str], Refusal>| {
        let decided = abandon::decide(&desk.job, "ann");
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec), "{:?}", desk.job.phase);
    };
    let nothing = Refusal::Nothing(id(1), "no attempt to give up: cancel it");
    check(&Desk::empty(), Err(Refusal::NotFound(id(1))));
    check(&Desk::queued(agent()), Err(nothing.clone()));
    check(&Desk::held(agent()), Err(nothing.clone()));
    check(&Desk::backoff(), Err(nothing));
    check(&Desk::ended(0), Ok(&[]));
    for mut desk in [Desk::launching(agent()), Desk::running(agent()), Desk::stopping(agent())] {
        check(&desk, Ok(&["abandoned"]));
        let facts = abandon::decide(&desk.job, "ann");
        desk.anyone(facts);
        check(&desk, Ok(&[]));
        assert!(desk.job.is_abandoned() && desk.job.stop.as_ref().is_some_and(|stop| stop.force));
    }
    assert!(!Desk::running(agent()).job.is_abandoned());
}

/// C64: what was found out about one attempt says nothing about another, and an ended job is not touched.
#[test]
fn c64_a_report_about_another_attempt_or_an_ended_job_is_of_no_effect() {
    let second = Desk::backoff().claimed("a", 1).intended().launched(200);
    let receipt = || Box::new(exited(0));
    let of = |attempt: u32| {
        let attempt = AttemptNo(attempt);
        let found = [
            Found::Ended(receipt()),
            Found::Vanished(receipt()),
            Found::NeverStarted,
            Found::OtherBoot,
            Found::Alive { tree: tree(1), awake: Desk::empty().now.awake },
        ];
        let found = found.into_iter().map(move |found| Report::Located { attempt, found });
        let others = [
            Report::Emptied { attempt, receipt: receipt() },
            Report::Launched { attempt, tree: tree(1), awake: Desk::empty().now.awake },
            Report::LaunchFailed { attempt, error: "no".to_owned() },
            Report::Climbed { attempt, rung: lastword_core::receipt::Rung::Kill, alive: 0 },
        ];
        found.chain(others).collect::<Vec<_>>()
    };
    for report in of(1).iter().chain(&of(3)) {
        assert_eq!(second.observe(report), Vec::new(), "{report:?}");
    }
    let ended = Desk::ended(0);
    for report in of(1) {
        assert_eq!(ended.observe(&report), Vec::new(), "{report:?}");
    }
}

#[test]
fn c83_the_record_exists_before_the_process_and_a_launch_that_dies_is_failed() {
    let desk = Desk::launching(agent());
    assert_eq!(desk.kinds(), ["submitted", "claimed", "launch_intended"]);
    assert_eq!(effects::due(&desk.job, desk.fence()), vec![Effect::Launch { attempt: AttemptNo(1) }]);
    assert_eq!(effects::due(&Desk::held(agent()).job, Desk::held(agent()).fence()), Vec::new());
    let failed = |desk: Desk| {
        let attempt = desk.attempt();
        desk.reports(Report::LaunchFailed { attempt, error: "no such program".to_owned() })
    };
    let once = failed(desk);
    let word = once.job.last_word().expect("it ended");
    assert_eq!(
        (word.outcome, word.cause, word.attempt),
        (Outcome::Failed, Cause::Launch, Some(AttemptNo(1)))
    );
    let end = once.job.attempts[0].end.clone().expect("it ended");
    assert_eq!((end.error.as_deref(), end.receipt.proof), (Some("no such program"), Proof::NeverStarted));
    let again = failed(Desk::launching(retried(2)));
    assert!(matches!(again.job.phase, Phase::Backoff { .. }));
    let last = failed(again.later(1_000).claimed("a", 1).intended());
    assert_eq!(last.outcome(), Some(Outcome::Failed));
    // Of a tree that was seen, nobody can say that it never started.
    let seen = Desk::running(agent());
    let report = Report::LaunchFailed { attempt: AttemptNo(1), error: "no".to_owned() };
    assert_eq!(seen.observe(&report), Vec::new());
}

/// A supervisor that dies between its intent and the launch does not cost the job its only try, nor for ever.
#[test]
fn c83_idle_relaunches_are_free_and_bounded() {
    let mut desk =
        Desk::queued(Spec { retry: RetryPolicy { relaunches_max: 2, ..RetryPolicy::default() }, ..agent() });
    for n in 1..=3 {
        desk = desk.claimed("a", n).intended();
        let attempt = desk.attempt();
        desk = desk.reports(Report::Located { attempt, found: Found::NeverStarted });
        match n {
            3 => assert_eq!(desk.outcome(), Some(Outcome::Failed)),
            _ => assert_eq!(desk.job.phase, Phase::Backoff { until: desk.now.wall }),
        }
    }
    assert_eq!(desk.job.last_word().map(|word| word.cause), Some(Cause::Launch));
    assert!(!desk.job.has_begun());
    // The free ones do not count as tries.
    let mut desk = Desk::queued(retried(2)).claimed("a", 1).intended();
    desk = desk.reports(Report::Located { attempt: AttemptNo(1), found: Found::NeverStarted });
    desk = desk.claimed("a", 1).intended().launched(5).emptied(exited(1));
    assert!(matches!(desk.job.phase, Phase::Backoff { .. }));
    desk = desk.later(60_000).claimed("a", 1).intended().launched(5).emptied(exited(1));
    assert_eq!(desk.outcome(), Some(Outcome::Failed));
}

/// C36: a place that looks as if nobody had ever been there does not unmake what was launched in it.
#[test]
fn c36_what_was_launched_and_left_no_trace_is_lost_and_not_tried_again_for_free() {
    let desk = Desk::queued(agent()).claimed("a", 1).intended().launched(5);
    let attempt = desk.attempt();
    let desk = desk.reports(Report::Located { attempt, found: Found::NeverStarted });
    assert_eq!(desk.outcome(), Some(Outcome::Lost));
    assert!(desk.job.has_begun());
}

#[test]
fn c39_a_restart_finds_every_open_intent_due_again() {
    let restarted = Desk::stopping(agent()).claimed("a", 2);
    let found = Found::Alive { tree: tree(100), awake: Desk::empty().now.awake };
    let desk = restarted.reports(Report::Located { attempt: AttemptNo(1), found });
    let stop = Effect::Stop { attempt: AttemptNo(1), cause: Cause::User, force: false };
    assert_eq!(effects::due(&desk.job, desk.fence()), vec![Effect::Watch { attempt: AttemptNo(1) }, stop]);
    let desk = desk.emptied(exited(0));
    assert_eq!(desk.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!(desk.count("cancel_requested"), 1);
}
