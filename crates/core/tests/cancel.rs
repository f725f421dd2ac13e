//! `cancel`: a request to stop, in each phase and against each race.

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::{Refusal, claim, late, launch, shut_down};
use lastword_core::event::{CancelRequested, TurnEnding};
use lastword_core::job::Phase;
use lastword_core::outcome::{Asked, Begun, Cause, Outcome};
use lastword_core::receipt::{Proof, Receipt};
use lastword_core::report::{Found, Report};
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, Epoch, Fact, Fence, Illegal, Timestamp, effects};

use crate::common::{
    TestJob, agent, boot, claimant, command, dependent, ends, exited, id, kinds, request, retried,
};

fn cancel(test: &TestJob, request: &Cancel) -> Result<Vec<Fact>, Refusal> {
    cancel::decide(&test.job, request, test.now.wall)
}

#[test]
fn c30_cancel_in_each_phase() {
    let check = |test: TestJob, force: bool, expected: Result<&[&str], Refusal>| {
        let decided = cancel(&test, &request(force));
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec), "{:?} force {force}", test.job.phase);
    };
    let waits = dependent(lastword_core::spec::Needs::Success);
    let forced = || {
        let mut test = TestJob::running(agent());
        test.anyone(cancel::decide(&test.job, &request(true), test.now.wall));
        test
    };
    for force in [false, true] {
        check(TestJob::empty(), force, Err(Refusal::NotFound(id(1))));
        check(TestJob::queued(command()), force, Ok(&["last_word"]));
        check(TestJob::queued(waits.clone()), force, Ok(&["last_word"]));
        check(TestJob::held(command()), force, Ok(&["last_word"]));
        check(TestJob::backoff(), force, Ok(&["last_word"]));
        check(TestJob::launching(command()), force, Ok(&["cancel_requested"]));
        check(TestJob::running(command()), force, Ok(&["cancel_requested"]));
        check(forced(), force, Ok(&[]));
        check(TestJob::ended(0), force, Ok(&[]));
        check(TestJob::ended(1), force, Ok(&[]));
    }
    check(TestJob::stopping(command()), false, Ok(&[]));
    check(TestJob::stopping(command()), true, Ok(&["cancel_requested"]));
}

#[test]
fn c3_a_cancel_of_an_unknown_job_is_refused() {
    let refusal = cancel(&TestJob::empty(), &request(false)).expect_err("there is no such job");
    assert_eq!(refusal.to_string(), format!("there is no job {}", id(1)));
}

#[test]
fn c4_cancelled_before_start_is_never_launched() {
    for test in [TestJob::queued(agent()), TestJob::held(agent()), TestJob::backoff()] {
        let before = test.job.attempts.len();
        let test = test.cancelled();
        let job = &test.job;
        assert_eq!(
            claim::decide(job, &claimant("b", 2), claim::Lease::Over, Timestamp(u64::MAX)),
            Err(Refusal::Ended(job.id))
        );
        let fence = TestJob::held(agent()).fence().clone();
        assert!(launch::decide(job, &fence, &boot()).is_err());
        assert_eq!(effects::due(job, &fence), Vec::new());
        assert_eq!(job.attempts.len(), before);
        // An owner that read the job earlier cannot store its intent after the last word.
        let intent = launch::decide(&TestJob::held(agent()).job, &fence, &boot()).expect("it was queued");
        let refused = Append::new(job, Some(&fence), AppendId(99), test.now.wall, intent);
        assert!(matches!(refused, Err(Illegal::OutOfPlace { .. })));
    }
}

#[test]
fn c8_a_queued_job_ends_at_once() {
    for test in [TestJob::queued(agent()), TestJob::held(agent())] {
        let test = test.cancelled();
        let row = Row::of(&test.job);
        assert_eq!(test.outcome(), Some(Outcome::Cancelled(Begun::BeforeStart)));
        assert_eq!(
            (row.due, row.holder, row.summary.working, row.summary.waiting),
            (None, None, false, false)
        );
        assert_eq!((&test.job.stop, test.job.open_attempt()), (&None, None));
        assert_eq!(test.job.last_word().and_then(|word| word.requested_at), Some(test.now.wall));
    }
}

#[test]
fn c9_cancelled_before_start_differs_from_cancelled_while_running() {
    let (before, running) = (Begun::BeforeStart, Begun::WhileRunning);
    let check = |test: TestJob, begun: Begun| {
        assert_eq!(test.outcome(), Some(Outcome::Cancelled(begun)), "{:?}", test.kinds());
        let word = test.job.last_word().expect("it ended");
        assert_eq!((word.cause, word.requested_at.is_some()), (Cause::User, true));
    };
    let never = || Receipt::bare(Proof::NeverStarted);
    let located = |test: TestJob, found: Found| {
        let attempt = test.attempt();
        test.reports(Report::Located { attempt, found })
    };
    check(TestJob::queued(agent()).cancelled(), before);
    check(TestJob::held(agent()).cancelled(), before);
    check(located(TestJob::launching(agent()).cancelled(), Found::NeverStarted), before);
    check(TestJob::launching(agent()).cancelled().emptied(never()), before);
    check(TestJob::stopping(agent()).emptied(exited(0)), running);
    check(TestJob::launching(agent()).cancelled().launched(5).emptied(exited(0)), running);
    check(TestJob::backoff().cancelled(), running);
    check(TestJob::backoff().claimed("a", 1).cancelled(), running);
    check(TestJob::backoff().claimed("a", 1).intended().cancelled().emptied(never()), running);
    // Two launches that never started anything.
    let idle = located(TestJob::launching(agent()), Found::NeverStarted);
    check(idle.cancelled(), before);
}

#[test]
fn c6_a_takeover_after_the_request_keeps_it() {
    for (test, found) in [
        (
            TestJob::running(agent()),
            Found::Alive { tree: crate::common::tree(100), awake: TestJob::empty().now.awake },
        ),
        (TestJob::launching(agent()), Found::NeverStarted),
        (TestJob::running(agent()), Found::OtherBoot),
    ] {
        let test = test.cancelled();
        let (stop, since) = (test.job.stop.clone(), test.now.wall);
        let test = test.later(5).claimed("a", 2);
        assert_eq!(test.job.stop, stop);
        assert_eq!(stop.map(|stop| (stop.cause, stop.requested_at)), Some((Cause::User, since)));
        let attempt = test.attempt();
        let alive = matches!(found, Found::Alive { .. });
        let test = test.reports(Report::Located { attempt, found });
        if alive {
            let due = effects::due(&test.job, test.fence());
            assert!(due.iter().any(|effect| matches!(effect, effects::Effect::Stop { .. })), "{due:?}");
        } else {
            assert!(matches!(test.outcome(), Some(Outcome::Cancelled(_))));
        }
    }
}

#[test]
fn c7_a_request_does_not_reach_a_later_retry() {
    let ended = TestJob::stopping(retried(5)).emptied(exited(1));
    assert_eq!(ended.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    let again = lastword_core::decide::retry::decide(&ended.job, &ended.job).expect("it has ended");
    let next = TestJob::running(again);
    assert_eq!((next.job.stop, matches!(next.job.phase, Phase::Running)), (None, true));
    assert_eq!(cancel(&ended, &request(true)), Ok(Vec::new()));
    // A stop because of a failed turn does not carry over to the next attempt.
    let failed = TestJob::in_turn(retried(2)).says(ends(TurnEnding::Failed)).emptied(exited(1));
    let next = failed.later(1_000).claimed("a", 1).intended();
    assert_eq!((next.job.stop, &next.job.phase), (None, &Phase::Launching));
}

#[test]
fn c10_a_repeated_cancel_adds_nothing_and_force_adds_once() {
    let mut test = TestJob::stopping(agent());
    let version = test.job.version;
    for _ in 0..3 {
        test = test.cancelled();
        assert_eq!(test.job.version, version);
    }
    let force = cancel(&test, &request(true));
    test.anyone(force);
    assert_eq!(test.job.stop.as_ref().map(|stop| stop.force), Some(true));
    assert_eq!(cancel(&test, &request(true)), Ok(Vec::new()));
    // Force stays, and so does the time of the first request.
    let calm = CancelRequested { by: "bob".to_owned(), asked: Asked::User, force: false };
    let since = test.job.stop.as_ref().map(|stop| stop.requested_at);
    let mut test = test.later(50);
    test.owner(vec![calm.into()]);
    assert_eq!(
        test.job.stop.as_ref().map(|stop| (stop.force, stop.requested_at)),
        since.map(|since| (true, since))
    );
    let Phase::Stopping { since: shown, .. } = test.job.phase else { panic!("it stops") };
    assert_eq!(Some(shown), since);
}

#[test]
fn c10_c24_a_cancel_of_an_ended_job_appends_nothing_and_changes_no_view() {
    for code in [0, 1] {
        let test = TestJob::ended(code);
        let (row, version) = (Row::of(&test.job), test.job.version);
        let test = test.later(5).cancelled();
        assert_eq!((Row::of(&test.job), test.job.version), (row, version));
    }
}

#[test]
fn c24_c31_a_late_request_is_refused_by_the_fold_itself() {
    for test in [TestJob::ended(0), TestJob::ended(1), TestJob::queued(agent()).cancelled()] {
        let request = CancelRequested { by: "ann".to_owned(), asked: Asked::User, force: true };
        let refused = Append::new(&test.job, None, AppendId(9), test.now.wall, vec![request.into()]);
        assert!(matches!(refused, Err(Illegal::OutOfPlace { why: "the job has ended", .. })));
    }
}

#[test]
fn c31_a_late_report_is_recorded_and_changes_no_view() {
    let mut test = TestJob::ended(0);
    let before = Row::of(&test.job);
    for n in 0..late::LATE_MAX + 3 {
        let facts = late::decide(&test.job, Epoch(1), &"x".repeat(500));
        test = test.later(1);
        test.anyone(facts);
        assert_eq!(test.job.late, late::LATE_MAX.min(n + 1));
    }
    assert_eq!(test.count("late_reported"), late::LATE_MAX as usize);
    let Some(Fact::LateReported(kept)) = test.log.last().map(|event| &event.fact) else { panic!("kept") };
    assert_eq!((kept.what.len(), kept.epoch), (200, Epoch(1)));
    let after = Row::of(&test.job);
    assert_eq!(lastword_core::view::row::Row { version: before.version, ..after }, before);
    assert_eq!(late::decide(&TestJob::empty().job, Epoch(1), "x"), Err(Refusal::NotFound(id(1))));
}

#[test]
fn c11_request_and_start_of_a_stop_are_separate_facts() {
    let test = TestJob::stopping(agent());
    let asked = test.now.wall;
    assert_eq!(test.job.stop.as_ref().and_then(|stop| stop.began_at), None);
    let mut test = test.later(30);
    let note = lastword_core::decide::observe::stop_began(&test.job).expect("it is not recorded yet");
    // Only the owner may write this fact.
    let refused = Append::new(&test.job, None, AppendId(9), test.now.wall, vec![note.clone()]);
    assert!(matches!(refused, Err(Illegal::NotTheOwner(_))));
    test.owner(vec![note]);
    let stop = test.job.stop.as_ref().expect("it stops");
    assert_eq!((stop.requested_at, stop.began_at), (asked, Some(test.now.wall)));
    assert_eq!(lastword_core::decide::observe::stop_began(&test.job), None);
    assert_eq!(lastword_core::decide::observe::stop_began(&TestJob::running(agent()).job), None);
}

#[test]
fn c28_each_kind_of_requester_has_its_own_cause() {
    for (asked, cause) in [
        (Asked::User, Cause::User),
        (Asked::Shutdown, Cause::Shutdown),
        (Asked::ParentGone, Cause::ParentGone),
        (Asked::ReaderGone, Cause::ReaderGone),
    ] {
        for test in [TestJob::queued(agent()), TestJob::running(agent())] {
            let facts = cancel(&test, &Cancel { asked, ..request(false) });
            let (mut test, begun) = (test.clone(), test.job.has_begun());
            test.anyone(facts);
            let test = if begun { test.emptied(exited(0)) } else { test };
            assert_eq!(test.job.last_word().map(|word| word.cause), Some(cause));
        }
    }
}

#[test]
fn c28_the_first_reason_to_stop_counts() {
    let mut test = TestJob::stopping(agent());
    let shutdown = cancel(&test, &Cancel { asked: Asked::Shutdown, ..request(true) });
    test.anyone(shutdown);
    let test = test.emptied(exited(0));
    assert_eq!(test.job.last_word().map(|word| word.cause), Some(Cause::User));
}

#[test]
fn c28_a_shutdown_is_recorded_as_the_cause() {
    let mut test = TestJob::running(agent());
    let facts = shut_down::cancel(&test.job, &test.fence().owner, test.now.wall);
    test.anyone(facts);
    let Some(Fact::CancelRequested(request)) = test.log.last().map(|event| event.fact.clone()) else {
        panic!("it was asked for")
    };
    assert_eq!((request.by.as_str(), request.asked, request.force), ("a", Asked::Shutdown, false));
}

/// A tree whose launch was never recorded is known from its keeper's receipt.
#[test]
fn c9_a_tree_known_only_from_its_receipt_counts_as_started() {
    let attempt = lastword_core::AttemptNo(1);
    let found = Found::Ended(Box::new(exited(1)));
    let test = TestJob::launching(retried(3)).claimed("a", 2).reports(Report::Located { attempt, found });
    assert!(matches!(test.job.phase, Phase::Backoff { .. }));
    assert_eq!(test.cancelled().outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
}

/// A job that stops because of a failed turn could be retried, so the request must be stored.
#[test]
fn c7_a_cancel_after_a_failed_turn_prevents_the_retry() {
    let failing = TestJob::in_turn(retried(3)).says(ends(TurnEnding::Failed));
    assert_eq!(failing.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Agent));
    let test = failing.later(7).cancelled();
    assert_eq!(test.count("cancel_requested"), 1);
    assert_eq!(
        test.job.stop.as_ref().map(|stop| (stop.cause, stop.requested_at)),
        Some((Cause::User, test.now.wall))
    );
    assert_eq!(cancel(&test, &request(false)), Ok(Vec::new()));
    let test = test.emptied(exited(1));
    assert_eq!(test.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
}

#[test]
fn c35_a_replaced_owner_that_shuts_down_leaves_the_job_alone() {
    let test = TestJob::running(agent());
    let old = test.fence().clone();
    let leaves = |test: &TestJob, fence, expected: &[&str]| {
        let facts = shut_down::leave(&test.job, fence).expect("it is never refused");
        assert_eq!(kinds(&facts), expected, "{:?}", test.job.phase);
    };
    let cancels = |test: &TestJob, fence: &Fence, expected: &[&str]| {
        let facts = shut_down::cancel(&test.job, &fence.owner, test.now.wall).expect("it is never refused");
        assert_eq!(kinds(&facts), expected, "{:?}", test.job.phase);
    };
    cancels(&test, &old, &["cancel_requested"]);
    leaves(&test, &old, &[]);
    let taken = test.claimed("b", 2);
    cancels(&taken, &old, &[]);
    leaves(&taken, &old, &[]);
    let held = TestJob::held(agent());
    leaves(&held, held.fence(), &["released"]);
    cancels(&held, held.fence(), &["last_word"]);
    let other = held.clone().claimed("b", 2);
    leaves(&other, held.fence(), &[]);
    cancels(&other, held.fence(), &[]);
    cancels(&TestJob::ended(0), held.fence(), &[]);
    leaves(&TestJob::ended(0), held.fence(), &[]);
}

/// A fact of a newer build may mean that something runs: an older build stores the request if it can, but ends nothing.
#[test]
fn c41_an_older_build_does_not_end_a_job_it_cannot_read() {
    let foreign = |mut test: TestJob| {
        let stored = lastword_core::event::Stored {
            kind: "launch_intended".to_owned(),
            version: 2,
            body: "{}".to_owned(),
        };
        test.fence = TestJob::held(agent()).fence;
        test.owner(vec![Fact::Unknown(stored)]);
        test
    };
    let refused = Err(Refusal::NeedsNewerReader(id(1)));
    for test in [TestJob::held(agent()), TestJob::backoff()] {
        assert_eq!(cancel(&foreign(test), &request(false)), refused);
    }
    let waits = foreign(TestJob::queued(dependent(lastword_core::spec::Needs::Success)));
    assert_eq!(lastword_core::decide::depend::decide(&waits.job, id(9), Some(Outcome::Failed)), refused);
    let running =
        cancel(&foreign(TestJob::running(agent())), &request(false)).expect("a request can be stored");
    assert_eq!(kinds(&running), ["cancel_requested"]);
}
