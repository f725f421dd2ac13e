//! `claim`, `take over`, `launch`, `abandon`: ownership of a job, and what it allows.

use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::decide::{Refusal, abandon, launch, reschedule, shut_down, take_over};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{Claimed, LaunchIntended, Released, Rescheduled, Stored};
use lastword_core::job::{Phase, Waits};
use lastword_core::limits::Limits;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::receipt::{LaunchError, LaunchStep, Proof};
use lastword_core::report::{Found, Report};
use lastword_core::spec::{Needs, OnPartition, RetryPolicy, Spec};
use lastword_core::{Append, AppendId, AttemptNo, Epoch, Fact, HostId, Illegal, OwnerId, Timestamp};

use crate::common::{TestJob, agent, boot, claimant, command, dependent, exited, id, kinds, retried, tree};

fn kept() -> Spec {
    Spec { on_partition: OnPartition::Keep, ..agent() }
}

#[test]
fn claim_in_each_phase() {
    let now = TestJob::empty().now.wall;
    let check = |test: TestJob, lease: Lease, expected: Result<u32, Refusal>| {
        let decided = claim::decide(&test.job, &claimant("b", 2), lease, now);
        let epochs = decided.map(|facts| match &facts[..] {
            [Fact::Claimed(Claimed { owner, incarnation, host, epoch })] => {
                assert_eq!((owner, host), (&claimant("b", 2).owner, &claimant("b", 2).host));
                assert_eq!(*incarnation, claimant("b", 2).incarnation);
                epoch.0
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(epochs, expected, "{:?} {lease:?}", test.job.phase);
    };
    let held = Err(Refusal::Held(id(1), OwnerId("a".into())));
    check(TestJob::empty(), Lease::Over, Err(Refusal::NotFound(id(1))));
    check(TestJob::queued(command()), Lease::Live, Ok(1));
    check(TestJob::queued(dependent(Needs::Success)), Lease::Over, Err(Refusal::NotDue(id(1))));
    for test in [TestJob::held(command()), TestJob::launching(command()), TestJob::running(command())] {
        check(test.clone(), Lease::Live, held.clone());
        check(test, Lease::Over, Ok(2));
    }
    check(TestJob::stopping(command()), Lease::Live, held);
    check(TestJob::stopping(command()), Lease::Over, Ok(2));
    check(TestJob::ended(0), Lease::Over, Err(Refusal::Ended(id(1))));
    check(TestJob::backoff(), Lease::Live, Err(Refusal::NotDue(id(1))));
}

#[test]
fn a_claim_of_a_waiting_job_intends_its_attempt() {
    let by = Claimant { boot: Some(boot()), ..claimant("b", 2) };
    let taken =
        |test: &TestJob, lease: Lease| claim::decide(&test.job, &by, lease, Timestamp(50_000)).unwrap();
    for (test, attempt) in [(TestJob::queued(command()), 1), (TestJob::backoff(), 2)] {
        let facts = taken(&test, Lease::Live);
        assert_eq!(kinds(&facts), ["claimed", "launch_intended"]);
        let epoch = test.job.epoch.next();
        let (limits, boot) = (test.job.limits, Some(boot()));
        let intent: Fact = LaunchIntended { attempt: AttemptNo(attempt), epoch, limits, boot }.into();
        assert_eq!(facts[1], intent);
        let (_, after) = Append::new(&test.job, None, AppendId(7), Timestamp(50_000), facts).unwrap();
        let fence = after.holder.as_ref().map(|holder| holder.fence.clone()).unwrap();
        assert_eq!(effects::due(&after, &fence), [Effect::Launch { attempt: AttemptNo(attempt) }]);
    }
    // An attempt of another owner is located first.
    for test in [TestJob::launching(command()), TestJob::running(command()), TestJob::stopping(command())] {
        assert_eq!(kinds(&taken(&test, Lease::Over)), ["claimed"]);
    }
}

/// Found by the simulation: an owner restarted at once, and another host took its new registration for the end of the old lease,
/// although the tree under it was alive.
#[test]
fn a_new_incarnation_of_the_owner_does_not_prove_its_tree_dead_elsewhere() {
    let decided = |test: &TestJob, here| {
        claim::decide(&test.job, &claimant("b", 2), Lease::Replaced { here }, test.now.wall).is_ok()
    };
    for test in [TestJob::launching(command()), TestJob::running(command()), TestJob::stopping(command())] {
        assert!(!decided(&test, false), "{:?}", test.job.phase);
        assert!(decided(&test, true), "where it is, it is looked for: {:?}", test.job.phase);
    }
    assert!(decided(&TestJob::held(command()), false), "nothing was started");
}

#[test]
fn a_job_is_not_claimed_before_it_is_due() {
    let moment = Timestamp(50_000);
    let test = TestJob::queued(Spec { not_before: Some(moment), ..command() });
    assert_eq!(test.job.phase, Phase::Queued { waits: Waits::Until(moment) });
    let at = |now| {
        claim::decide(&test.job, &claimant("b", 2), Lease::Live, Timestamp(now)).map(|facts| facts.len())
    };
    assert_eq!(at(49_999), Err(Refusal::NotDue(id(1))));
    assert_eq!(at(50_000), Ok(1));
    assert_eq!(TestJob::queued(command()).job.due(), Some(Timestamp(10_000)));
    assert_eq!(TestJob::backoff().job.due(), Some(Timestamp(11_000)));
    assert_eq!(TestJob::held(command()).job.due(), None);
    assert_eq!(TestJob::ended(0).job.due(), None);
}

#[test]
fn a_job_of_a_newer_build_is_not_claimed() {
    let mut test = TestJob::held(command());
    let unknown = Stored { kind: "dreamt".to_owned(), version: 1, body: "{}".to_owned() };
    test.owner(vec![Fact::Unknown(unknown)]);
    let refused = claim::decide(&test.job, &claimant("b", 2), Lease::Over, test.now.wall);
    assert_eq!(refused, Err(Refusal::NeedsNewerReader(id(1))));
}

#[test]
fn c33_of_two_claims_of_one_version_the_second_is_refused() {
    let test = TestJob::queued(agent());
    let first = claim::decide(&test.job, &claimant("a", 1), Lease::Live, test.now.wall).expect("it is due");
    let second = claim::decide(&test.job, &claimant("b", 2), Lease::Live, test.now.wall).expect("it is due");
    let mut taken = test.clone();
    taken.anyone(Ok(first));
    let refused = Append::new(&taken.job, None, AppendId(9), test.now.wall, second);
    assert!(matches!(refused, Err(Illegal::OutOfPlace { why: "the claim is not the next one", .. })));
    // Without the claim there is no intent, and nothing is due.
    let mut loser = TestJob::held(agent()).fence().clone();
    loser.owner = OwnerId("b".into());
    assert_eq!(
        launch::decide(&TestJob::held(agent()).job, &loser, &boot()),
        Err(Refusal::Held(id(1), OwnerId("a".into())))
    );
    assert_eq!(effects::due(&TestJob::launching(agent()).job, &loser), Vec::new());
}

#[test]
fn c33_a_second_intent_is_refused() {
    let test = TestJob::launching(agent());
    let again = |attempt, epoch| {
        let intent = LaunchIntended { attempt, epoch, limits: Limits::default(), boot: None };
        let append =
            Append::new(&test.job, test.fence.as_ref(), AppendId(9), test.now.wall, vec![intent.into()]);
        append.map(|_| ())
    };
    assert!(again(AttemptNo(2), Epoch(1)).is_err());
    assert_eq!(launch::decide(&test.job, test.fence(), &boot()), Ok(Vec::new()));
    assert_eq!(launch::decide(&TestJob::running(agent()).job, test.fence(), &boot()), Ok(Vec::new()));
}

#[test]
fn an_intent_must_be_the_next_attempt_of_the_current_claim() {
    let check = |test: &TestJob, attempt, epoch, why: Option<&str>| {
        let intent = LaunchIntended {
            attempt: AttemptNo(attempt),
            epoch: Epoch(epoch),
            limits: Limits::default(),
            boot: None,
        };
        let fence = TestJob::held(agent()).fence;
        let result = Append::new(&test.job, fence.as_ref(), AppendId(9), test.now.wall, vec![intent.into()]);
        let said = match &result {
            Err(Illegal::OutOfPlace { why, .. }) => Some(*why),
            _ => None,
        };
        assert_eq!(said, why, "{result:?}");
    };
    let wrong = Some("it is not the next attempt of this claim");
    check(&TestJob::held(agent()), 1, 1, None);
    check(&TestJob::held(agent()), 2, 1, wrong);
    check(&TestJob::held(agent()), 1, 2, wrong);
    check(&TestJob::queued(agent()), 1, 0, Some("the job has no holder"));
    let waits = TestJob::queued(dependent(Needs::Success));
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
    check(&TestJob::running(agent()), 2, 1, Some("an attempt is open"));
}

/// C36: submitted, claimed, intended and launched are four separate facts.
#[test]
fn c36_record_lease_and_process_are_separate_facts() {
    let facts = |test: &TestJob| {
        let job = &test.job;
        (job.spec.is_some(), job.holder.is_some(), job.open_attempt().is_some(), job.has_begun())
    };
    assert_eq!(facts(&TestJob::empty()), (false, false, false, false));
    assert_eq!(facts(&TestJob::queued(agent())), (true, false, false, false));
    assert_eq!(facts(&TestJob::held(agent())), (true, true, false, false));
    assert_eq!(facts(&TestJob::launching(agent())), (true, true, true, false));
    assert_eq!(facts(&TestJob::running(agent())), (true, true, true, true));
    assert_eq!(facts(&TestJob::backoff()), (true, false, false, true));
    assert_eq!(facts(&TestJob::ended(0)), (true, false, false, true));
    // A claim alone does not start anything: the job is still queued.
    assert_eq!(TestJob::held(agent()).job.phase, Phase::Queued { waits: Waits::Slot });
}

/// A clock was ahead and was set back: what it had set is set anew, and nothing else.
#[test]
fn a_due_time_that_is_too_far_ahead_is_set_anew() {
    let check = |mut test: TestJob, now: u64, due: Option<u64>| {
        let expected: Vec<Fact> =
            due.map(|due| Rescheduled { due: Timestamp(due) }.into()).into_iter().collect();
        assert_eq!(
            reschedule::decide(&test.job, Timestamp(now)),
            Ok(expected.clone()),
            "{:?}",
            test.job.phase
        );
        if let Some(due) = due {
            test.anyone(Ok(expected));
            assert_eq!(test.job.due(), Some(Timestamp(due)));
            assert_eq!(reschedule::decide(&test.job, Timestamp(now)), Ok(Vec::new()));
            let submitted_at = test.job.submitted_at;
            assert_eq!(submitted_at, Timestamp(10_000), "when it was submitted stays as it was stored");
        }
    };
    let queued = || TestJob::queued(command());
    check(queued(), 20_000, None);
    check(queued(), 9_000, None);
    check(queued(), 8_999, Some(8_999));
    // One second after it failed, and another one for clocks that differ.
    check(TestJob::backoff(), 9_000, None);
    check(TestJob::backoff(), 8_999, Some(9_999));
    // An attempt that was never started is repeated at once.
    let idle = TestJob::launching(command());
    let idle = idle.reports(Report::Located { attempt: AttemptNo(1), found: Found::NeverStarted });
    assert_eq!(idle.job.phase, Phase::Backoff { until: Timestamp(10_000) });
    check(idle, 8_999, Some(8_999));
    // A user asked for this time.
    check(TestJob::queued(Spec { not_before: Some(Timestamp(99_000)), ..command() }), 1, None);
    check(TestJob::queued(dependent(Needs::Success)), 1, None);
    for other in [TestJob::held(command()), TestJob::running(command()), TestJob::ended(0)] {
        check(other, 1, None);
    }
    let mut newer = queued();
    newer.job.foreign = true;
    check(newer, 1, None);
}

/// Only a job that waits for a slot or its next attempt has a due time that can be wrong.
#[test]
fn only_a_waiting_job_can_be_rescheduled() {
    let fact = || vec![Fact::from(Rescheduled { due: Timestamp(1) })];
    let is_legal = |test: &TestJob| Append::new(&test.job, None, AppendId(9), Timestamp(1), fact()).is_ok();
    assert!(is_legal(&TestJob::queued(command())) && is_legal(&TestJob::backoff()));
    let later = Spec { not_before: Some(Timestamp(99_000)), ..command() };
    for spec in [later, dependent(Needs::Success)] {
        assert!(!is_legal(&TestJob::queued(spec)));
    }
    for other in [TestJob::held(command()), TestJob::running(command()), TestJob::ended(0)] {
        assert!(!is_legal(&other));
    }
}

#[test]
fn c34_facts_of_the_owner_need_its_fence() {
    let mut refused = 0;
    for kind in lastword_core::event::KINDS {
        let fact = Fact::decode(crate::golden::example(kind)).expect("it reads");
        let owners = fact.is_owners();
        let result = Append::new(&TestJob::running(agent()).job, None, AppendId(9), Timestamp(1), vec![fact]);
        assert_eq!(
            matches!(result, Err(Illegal::NotTheOwner(_))),
            owners || ["last_word", "children_awaited"].contains(kind),
            "{kind}"
        );
        refused += u32::from(owners);
    }
    assert_eq!(refused, 25);
    let anyones = [
        "submitted",
        "dependency_settled",
        "dependency_removed",
        "rescheduled",
        "cancel_requested",
        "limit_changed",
        "labels_changed",
        "progress_reported",
        "input_requested",
        "answer_requested",
        "interrupt_requested",
        "abandoned",
        "claimed",
        "last_word",
        "late_reported",
        "continued",
        "joined",
        "child_submitted",
        "child_ended",
        "children_awaited",
    ];
    for kind in anyones {
        assert!(!Fact::decode(crate::golden::example(kind)).expect("it reads").is_owners(), "{kind}");
    }
}

#[test]
fn c34_only_the_holder_releases_a_job_and_only_without_an_open_attempt() {
    let held = TestJob::held(agent());
    let other = held.clone().claimed("b", 2);
    let leave = |test: &TestJob, fence| shut_down::leave(&test.job, fence);
    assert_eq!(leave(&other, held.fence()), Ok(Vec::new()));
    let mut given_back = held.clone();
    let facts = leave(&held, held.fence()).expect("it is never refused");
    given_back.owner(facts);
    assert_eq!((given_back.job.holder.clone(), given_back.job.due()), (None, Some(Timestamp(10_000))));
    assert_eq!(given_back.job.epoch, Epoch(1));
    let running = TestJob::running(agent());
    let release = vec![Released { epoch: Epoch(1) }.into()];
    let refused = Append::new(&running.job, running.fence.as_ref(), AppendId(9), Timestamp(1), release);
    assert!(matches!(refused, Err(Illegal::OutOfPlace { why: "an attempt is open", .. })));
}

#[test]
fn c35_nothing_is_due_for_an_old_claim() {
    for test in [TestJob::launching(agent()), TestJob::running(agent()), TestJob::stopping(agent())] {
        let old = test.fence().clone();
        let taken = test.claimed("a", 2);
        assert_eq!(effects::due(&taken.job, &old), Vec::new());
        assert_eq!(effects::due(&taken.job, taken.fence()), vec![Effect::Locate { attempt: AttemptNo(1) }]);
        assert!(launch::decide(&taken.job, &old, &boot()).is_err());
    }
}

#[test]
fn a_later_owner_locates_the_tree_first_and_adopts_it() {
    let test = TestJob::running(agent()).claimed("a", 2);
    let awake = TestJob::empty().now.awake;
    let found = Found::Alive { tree: tree(100), awake };
    let test = test.later(60).reports(Report::Located { attempt: AttemptNo(1), found });
    assert_eq!(test.kinds().last(), Some(&"adopted"));
    let attempt = test.job.open_attempt().expect("it is open");
    assert_eq!((attempt.epoch, attempt.launched), (Epoch(2), Some(awake)));
    assert_eq!(test.job.phase, Phase::Running);
    let due = effects::due(&test.job, test.fence());
    assert_eq!(due.first(), Some(&Effect::Watch { attempt: AttemptNo(1) }));
}

#[test]
fn a_job_that_stays_on_its_host_is_taken_over_only_when_abandoned() {
    let other = |test: &TestJob| take_over::check(&test.job, &claimant("b", 2).host);
    let mut running = TestJob::running(kept());
    assert_eq!(other(&running), Err(Refusal::Kept(id(1))));
    assert_eq!(take_over::check(&running.job, &claimant("a", 2).host), Ok(()));
    assert_eq!(other(&TestJob::held(kept())), Ok(()));
    assert_eq!(other(&TestJob::running(agent())), Ok(()));
    let given_up = abandon::decide(&running.job, "ann");
    running.anyone(given_up);
    assert_eq!(other(&running), Ok(()));
}

#[test]
fn c32_an_attempt_on_another_host_ends_by_its_lease() {
    let check = |spec: Spec, give_up: bool, expected: (Outcome, Cause, Proof)| {
        let mut test = TestJob::running(spec);
        if give_up {
            let facts = abandon::decide(&test.job, "ann");
            test.anyone(facts);
        }
        let mut test = test.claimed("b", 2);
        assert_eq!(take_over::account(&test.job, &HostId("host-a".into()), test.now.wall), Vec::new());
        assert_eq!(effects::due(&test.job, test.fence()), Vec::new());
        let facts = take_over::account(&test.job, &HostId("host-b".into()), test.now.wall);
        test.owner(facts);
        let word = test.job.last_word().expect("it ended").clone();
        let end = test.job.attempts[0].end.clone().expect("it ended");
        assert_eq!((word.outcome, word.cause, end.receipt.proof), expected);
    };
    check(agent(), false, (Outcome::Lost, Cause::Unaccounted, Proof::LeaseSelfFenced));
    check(agent(), true, (Outcome::Lost, Cause::Abandoned, Proof::LeaseSelfFenced));
    check(kept(), true, (Outcome::Lost, Cause::Abandoned, Proof::BestEffort));
    let nothing = TestJob::held(agent()).claimed("b", 2);
    assert_eq!(take_over::account(&nothing.job, &HostId("host-b".into()), nothing.now.wall), Vec::new());
}

#[test]
fn abandon_in_each_phase() {
    let check = |test: &TestJob, expected: Result<&[&str], Refusal>| {
        let decided = abandon::decide(&test.job, "ann");
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec), "{:?}", test.job.phase);
    };
    let nothing = Refusal::Nothing(id(1), "no attempt to abandon; cancel it instead");
    check(&TestJob::empty(), Err(Refusal::NotFound(id(1))));
    check(&TestJob::queued(agent()), Err(nothing.clone()));
    check(&TestJob::held(agent()), Err(nothing.clone()));
    check(&TestJob::backoff(), Err(nothing));
    check(&TestJob::ended(0), Ok(&[]));
    for mut test in [TestJob::launching(agent()), TestJob::running(agent()), TestJob::stopping(agent())] {
        check(&test, Ok(&["abandoned"]));
        let facts = abandon::decide(&test.job, "ann");
        test.anyone(facts);
        check(&test, Ok(&[]));
        assert!(test.job.is_abandoned() && test.job.stop.as_ref().is_some_and(|stop| stop.force));
    }
    assert!(!TestJob::running(agent()).job.is_abandoned());
}

/// C64: a report about one attempt does not affect another, nor an ended job.
#[test]
fn c64_a_report_about_another_attempt_or_an_ended_job_has_no_effect() {
    let second = TestJob::backoff().claimed("a", 1).intended().launched(200);
    let receipt = || Box::new(exited(0));
    let of = |attempt: u32| {
        let attempt = AttemptNo(attempt);
        let found = [
            Found::Ended(receipt()),
            Found::Vanished(receipt()),
            Found::NeverStarted,
            Found::OtherBoot,
            Found::Alive { tree: tree(1), awake: TestJob::empty().now.awake },
        ];
        let found = found.into_iter().map(move |found| Report::Located { attempt, found });
        let others = [
            Report::Emptied { attempt, receipt: receipt() },
            Report::Launched { attempt, tree: tree(1), awake: TestJob::empty().now.awake },
            Report::LaunchFailed { attempt, error: "no".to_owned(), launch_error: None },
            Report::Climbed { attempt, rung: lastword_core::receipt::Rung::Kill, alive: 0 },
        ];
        found.chain(others).collect::<Vec<_>>()
    };
    for report in of(1).iter().chain(&of(3)) {
        assert_eq!(second.observe(report), Vec::new(), "{report:?}");
    }
    let ended = TestJob::ended(0);
    for report in of(1) {
        assert_eq!(ended.observe(&report), Vec::new(), "{report:?}");
    }
}

#[test]
fn c83_the_intent_precedes_the_process_and_a_failed_launch_fails_the_attempt() {
    let test = TestJob::launching(agent());
    assert_eq!(test.kinds(), ["submitted", "claimed", "launch_intended"]);
    assert_eq!(effects::due(&test.job, test.fence()), vec![Effect::Launch { attempt: AttemptNo(1) }]);
    assert_eq!(effects::due(&TestJob::held(agent()).job, TestJob::held(agent()).fence()), Vec::new());
    let failed = |test: TestJob| {
        let attempt = test.attempt();
        test.reports(Report::LaunchFailed {
            attempt,
            error: "no such program".to_owned(),
            launch_error: Some(LaunchError::at(LaunchStep::Exec)),
        })
    };
    let once = failed(test);
    let word = once.job.last_word().expect("it ended");
    assert_eq!(
        (word.outcome, word.cause, word.attempt),
        (Outcome::Failed, Cause::Launch, Some(AttemptNo(1)))
    );
    let end = once.job.attempts[0].end.clone().expect("it ended");
    assert_eq!((end.error.as_deref(), end.receipt.proof), (Some("no such program"), Proof::NeverStarted));
    assert_eq!(end.receipt.launch_error, Some(LaunchError::at(LaunchStep::Exec)));
    let again = failed(TestJob::launching(retried(2)));
    assert!(matches!(again.job.phase, Phase::Backoff { .. }));
    let last = failed(again.later(1_000).claimed("a", 1).intended());
    assert_eq!(last.outcome(), Some(Outcome::Failed));
    // A tree that was seen cannot be reported as never started.
    let seen = TestJob::running(agent());
    let report = Report::LaunchFailed { attempt: AttemptNo(1), error: "no".to_owned(), launch_error: None };
    assert_eq!(seen.observe(&report), Vec::new());
}

/// A supervisor that crashes between the intent and the launch does not cost the job an attempt, up to a bound.
#[test]
fn c83_idle_relaunches_are_free_and_bounded() {
    let mut test = TestJob::queued(Spec {
        retry: RetryPolicy { relaunches_max: 2, ..RetryPolicy::default() },
        ..agent()
    });
    for n in 1..=3 {
        test = test.claimed("a", n).intended();
        let attempt = test.attempt();
        test = test.reports(Report::Located { attempt, found: Found::NeverStarted });
        match n {
            3 => assert_eq!(test.outcome(), Some(Outcome::Failed)),
            _ => assert_eq!(test.job.phase, Phase::Backoff { until: test.now.wall }),
        }
    }
    assert_eq!(test.job.last_word().map(|word| word.cause), Some(Cause::Launch));
    assert!(!test.job.has_begun());
    // Free relaunches do not count as attempts.
    let mut test = TestJob::queued(retried(2)).claimed("a", 1).intended();
    test = test.reports(Report::Located { attempt: AttemptNo(1), found: Found::NeverStarted });
    test = test.claimed("a", 1).intended().launched(5).emptied(exited(1));
    assert!(matches!(test.job.phase, Phase::Backoff { .. }));
    test = test.later(60_000).claimed("a", 1).intended().launched(5).emptied(exited(1));
    assert_eq!(test.outcome(), Some(Outcome::Failed));
}

/// C36: an attempt that was launched stays launched, even if its directory shows no trace of it.
#[test]
fn c83_a_launch_that_came_after_its_lease_is_no_failure_of_the_job() {
    let late = |test: TestJob| {
        let attempt = test.attempt();
        let launch_error = Some(LaunchError::at(LaunchStep::Lease));
        test.reports(Report::LaunchFailed { attempt, error: "too late".to_owned(), launch_error })
    };
    let once = late(TestJob::launching(agent()));
    assert!(matches!(once.job.phase, Phase::Backoff { .. }), "{:?}", once.job.phase);
    let end = once.job.attempts[0].end.clone().expect("it ended");
    assert_eq!((end.error.as_deref(), end.receipt.proof), (None, Proof::NeverStarted));
    assert_eq!(end.receipt.launch_error, Some(LaunchError::at(LaunchStep::Lease)));
}

#[test]
fn c36_a_launched_attempt_without_a_trace_is_lost_and_not_relaunched() {
    let test = TestJob::queued(agent()).claimed("a", 1).intended().launched(5);
    let attempt = test.attempt();
    let test = test.reports(Report::Located { attempt, found: Found::NeverStarted });
    assert_eq!(test.outcome(), Some(Outcome::Lost));
    assert!(test.job.has_begun());
}

#[test]
fn c39_open_intents_are_due_again_after_a_restart() {
    let restarted = TestJob::stopping(agent()).claimed("a", 2);
    let found = Found::Alive { tree: tree(100), awake: TestJob::empty().now.awake };
    let test = restarted.reports(Report::Located { attempt: AttemptNo(1), found });
    let stop = Effect::Stop { attempt: AttemptNo(1), cause: Cause::User, force: false };
    assert_eq!(effects::due(&test.job, test.fence()), vec![Effect::Watch { attempt: AttemptNo(1) }, stop]);
    let test = test.emptied(exited(0));
    assert_eq!(test.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!(test.count("cancel_requested"), 1);
}
