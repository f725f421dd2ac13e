//! `cancel`: a wish to stop, in each phase and against each race.

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
    Desk, agent, boot, claimant, command, dependent, ends, exited, id, kinds, retried, wish,
};

fn cancel(desk: &Desk, wish: &Cancel) -> Result<Vec<Fact>, Refusal> {
    cancel::decide(&desk.job, wish, desk.now.wall)
}

#[test]
fn c30_cancel_in_each_phase() {
    let check = |desk: Desk, force: bool, expected: Result<&[&str], Refusal>| {
        let decided = cancel(&desk, &wish(force));
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec), "{:?} force {force}", desk.job.phase);
    };
    let waits = dependent(lastword_core::spec::Needs::Success);
    let forced = || {
        let mut desk = Desk::running(agent());
        desk.anyone(cancel::decide(&desk.job, &wish(true), desk.now.wall));
        desk
    };
    for force in [false, true] {
        check(Desk::empty(), force, Err(Refusal::NotFound(id(1))));
        check(Desk::queued(command()), force, Ok(&["last_word"]));
        check(Desk::queued(waits.clone()), force, Ok(&["last_word"]));
        check(Desk::held(command()), force, Ok(&["last_word"]));
        check(Desk::backoff(), force, Ok(&["last_word"]));
        check(Desk::launching(command()), force, Ok(&["cancel_requested"]));
        check(Desk::running(command()), force, Ok(&["cancel_requested"]));
        check(forced(), force, Ok(&[]));
        check(Desk::ended(0), force, Ok(&[]));
        check(Desk::ended(1), force, Ok(&[]));
    }
    check(Desk::stopping(command()), false, Ok(&[]));
    check(Desk::stopping(command()), true, Ok(&["cancel_requested"]));
}

#[test]
fn c3_a_cancel_of_what_is_not_there_is_refused_not_answered() {
    let refusal = cancel(&Desk::empty(), &wish(false)).expect_err("there is no such job");
    assert_eq!(refusal.to_string(), format!("there is no job {}", id(1)));
}

#[test]
fn c4_cancelled_before_start_is_never_launched() {
    for desk in [Desk::queued(agent()), Desk::held(agent()), Desk::backoff()] {
        let before = desk.job.attempts.len();
        let desk = desk.cancelled();
        let job = &desk.job;
        assert_eq!(
            claim::decide(job, &claimant("b", 2), claim::Lease::Over, Timestamp(u64::MAX)),
            Err(Refusal::Ended(job.id))
        );
        let fence = Desk::held(agent()).fence().clone();
        assert!(launch::decide(job, &fence, &boot()).is_err());
        assert_eq!(effects::due(job, &fence), Vec::new());
        assert_eq!(job.attempts.len(), before);
        // An owner that had read the job before cannot slip its intent in behind the last word.
        let intent = launch::decide(&Desk::held(agent()).job, &fence, &boot()).expect("it was queued");
        let refused = Append::new(job, Some(&fence), AppendId(99), desk.now.wall, intent);
        assert!(matches!(refused, Err(Illegal::OutOfPlace { .. })));
    }
}

#[test]
fn c8_a_queued_job_ends_at_once_and_nothing_is_left_behind() {
    for desk in [Desk::queued(agent()), Desk::held(agent())] {
        let desk = desk.cancelled();
        let row = Row::of(&desk.job);
        assert_eq!(desk.outcome(), Some(Outcome::Cancelled(Begun::BeforeStart)));
        assert_eq!(
            (row.due, row.holder, row.summary.working, row.summary.waiting),
            (None, None, false, false)
        );
        assert_eq!((&desk.job.stop, desk.job.open_attempt()), (&None, None));
        assert_eq!(desk.job.last_word().and_then(|word| word.requested_at), Some(desk.now.wall));
    }
}

#[test]
fn c9_before_start_and_while_running_are_told_apart() {
    let (before, running) = (Begun::BeforeStart, Begun::WhileRunning);
    let check = |desk: Desk, begun: Begun| {
        assert_eq!(desk.outcome(), Some(Outcome::Cancelled(begun)), "{:?}", desk.kinds());
        let word = desk.job.last_word().expect("it ended");
        assert_eq!((word.cause, word.requested_at.is_some()), (Cause::User, true));
    };
    let never = || Receipt::bare(Proof::NeverStarted);
    let located = |desk: Desk, found: Found| {
        let attempt = desk.attempt();
        desk.reports(Report::Located { attempt, found })
    };
    check(Desk::queued(agent()).cancelled(), before);
    check(Desk::held(agent()).cancelled(), before);
    check(located(Desk::launching(agent()).cancelled(), Found::NeverStarted), before);
    check(Desk::launching(agent()).cancelled().emptied(never()), before);
    check(Desk::stopping(agent()).emptied(exited(0)), running);
    check(Desk::launching(agent()).cancelled().launched(5).emptied(exited(0)), running);
    check(Desk::backoff().cancelled(), running);
    check(Desk::backoff().claimed("a", 1).cancelled(), running);
    check(Desk::backoff().claimed("a", 1).intended().cancelled().emptied(never()), running);
    // Nothing was ever started by two launches that found no place.
    let idle = located(Desk::launching(agent()), Found::NeverStarted);
    check(idle.cancelled(), before);
}

#[test]
fn c6_a_lease_taken_between_request_and_acknowledgement_keeps_the_request() {
    for (desk, found) in [
        (
            Desk::running(agent()),
            Found::Alive { tree: crate::common::tree(100), awake: Desk::empty().now.awake },
        ),
        (Desk::launching(agent()), Found::NeverStarted),
        (Desk::running(agent()), Found::OtherBoot),
    ] {
        let desk = desk.cancelled();
        let (stop, since) = (desk.job.stop.clone(), desk.now.wall);
        let desk = desk.later(5).claimed("a", 2);
        assert_eq!(desk.job.stop, stop);
        assert_eq!(stop.map(|stop| (stop.cause, stop.requested_at)), Some((Cause::User, since)));
        let attempt = desk.attempt();
        let alive = matches!(found, Found::Alive { .. });
        let desk = desk.reports(Report::Located { attempt, found });
        if alive {
            let due = effects::due(&desk.job, desk.fence());
            assert!(due.iter().any(|effect| matches!(effect, effects::Effect::Stop { .. })), "{due:?}");
        } else {
            assert!(matches!(desk.outcome(), Some(Outcome::Cancelled(_))));
        }
    }
}

#[test]
fn c7_a_request_does_not_reach_a_later_retry() {
    let ended = Desk::stopping(retried(5)).emptied(exited(1));
    assert_eq!(ended.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    let again = lastword_core::decide::retry::decide(&ended.job).expect("it has ended");
    let next = Desk::running(again);
    assert_eq!((next.job.stop, matches!(next.job.phase, Phase::Running)), (None, true));
    assert_eq!(cancel(&ended, &wish(true)), Ok(Vec::new()));
    // Within a job, a stop for a turn that failed belongs to that attempt and not to the next.
    let failed = Desk::in_turn(retried(2)).says(ends(TurnEnding::Failed)).emptied(exited(1));
    let next = failed.later(1_000).claimed("a", 1).intended();
    assert_eq!((next.job.stop, &next.job.phase), (None, &Phase::Launching));
}

#[test]
fn c10_asking_again_adds_nothing_and_asking_for_force_adds_once() {
    let mut desk = Desk::stopping(agent());
    let version = desk.job.version;
    for _ in 0..3 {
        desk = desk.cancelled();
        assert_eq!(desk.job.version, version);
    }
    let force = cancel(&desk, &wish(true));
    desk.anyone(force);
    assert_eq!(desk.job.stop.as_ref().map(|stop| stop.force), Some(true));
    assert_eq!(cancel(&desk, &wish(true)), Ok(Vec::new()));
    // Force is never taken back, and the first wish keeps its moment.
    let calm = CancelRequested { by: "bob".to_owned(), asked: Asked::User, force: false };
    let since = desk.job.stop.as_ref().map(|stop| stop.requested_at);
    let mut desk = desk.later(50);
    desk.owner(vec![calm.into()]);
    assert_eq!(
        desk.job.stop.as_ref().map(|stop| (stop.force, stop.requested_at)),
        since.map(|since| (true, since))
    );
    let Phase::Stopping { since: shown, .. } = desk.job.phase else { panic!("it stops") };
    assert_eq!(Some(shown), since);
}

#[test]
fn c10_c24_a_cancel_of_an_ended_job_appends_nothing_and_changes_no_view() {
    for code in [0, 1] {
        let desk = Desk::ended(code);
        let (row, version) = (Row::of(&desk.job), desk.job.version);
        let desk = desk.later(5).cancelled();
        assert_eq!((Row::of(&desk.job), desk.job.version), (row, version));
    }
}

#[test]
fn c24_c31_a_late_request_is_refused_by_the_fold_itself() {
    for desk in [Desk::ended(0), Desk::ended(1), Desk::queued(agent()).cancelled()] {
        let request = CancelRequested { by: "ann".to_owned(), asked: Asked::User, force: true };
        let refused = Append::new(&desk.job, None, AppendId(9), desk.now.wall, vec![request.into()]);
        assert!(matches!(refused, Err(Illegal::OutOfPlace { why: "the last word was spoken", .. })));
    }
}

#[test]
fn c31_a_late_report_is_kept_as_late_and_changes_no_view() {
    let mut desk = Desk::ended(0);
    let before = Row::of(&desk.job);
    for n in 0..late::LATE_MAX + 3 {
        let facts = late::decide(&desk.job, Epoch(1), &"x".repeat(500));
        desk = desk.later(1);
        desk.anyone(facts);
        assert_eq!(desk.job.late, late::LATE_MAX.min(n + 1));
    }
    assert_eq!(desk.count("late_reported"), late::LATE_MAX as usize);
    let Some(Fact::LateReported(kept)) = desk.log.last().map(|event| &event.fact) else { panic!("kept") };
    assert_eq!((kept.what.len(), kept.epoch), (200, Epoch(1)));
    let after = Row::of(&desk.job);
    assert_eq!(lastword_core::view::row::Row { version: before.version, ..after }, before);
    assert_eq!(late::decide(&Desk::empty().job, Epoch(1), "x"), Err(Refusal::NotFound(id(1))));
}

#[test]
fn c11_the_wish_and_the_owners_note_are_two_facts_with_two_times() {
    let desk = Desk::stopping(agent());
    let asked = desk.now.wall;
    assert_eq!(desk.job.stop.as_ref().and_then(|stop| stop.began_at), None);
    let mut desk = desk.later(30);
    let note = lastword_core::decide::observe::stop_began(&desk.job).expect("it is not noted yet");
    // Only the owner may say so.
    let refused = Append::new(&desk.job, None, AppendId(9), desk.now.wall, vec![note.clone()]);
    assert!(matches!(refused, Err(Illegal::NotTheOwner(_))));
    desk.owner(vec![note]);
    let stop = desk.job.stop.as_ref().expect("it stops");
    assert_eq!((stop.requested_at, stop.began_at), (asked, Some(desk.now.wall)));
    assert_eq!(lastword_core::decide::observe::stop_began(&desk.job), None);
    assert_eq!(lastword_core::decide::observe::stop_began(&Desk::running(agent()).job), None);
}

#[test]
fn c28_every_name_in_which_a_stop_is_asked_is_kept_apart() {
    for (asked, cause) in [
        (Asked::User, Cause::User),
        (Asked::Shutdown, Cause::Shutdown),
        (Asked::ParentGone, Cause::ParentGone),
    ] {
        for desk in [Desk::queued(agent()), Desk::running(agent())] {
            let facts = cancel(&desk, &Cancel { asked, ..wish(false) });
            let (mut desk, begun) = (desk.clone(), desk.job.has_begun());
            desk.anyone(facts);
            let desk = if begun { desk.emptied(exited(0)) } else { desk };
            assert_eq!(desk.job.last_word().map(|word| word.cause), Some(cause));
        }
    }
}

#[test]
fn c28_the_first_reason_stands() {
    let mut desk = Desk::stopping(agent());
    let shutdown = cancel(&desk, &Cancel { asked: Asked::Shutdown, ..wish(true) });
    desk.anyone(shutdown);
    let desk = desk.emptied(exited(0));
    assert_eq!(desk.job.last_word().map(|word| word.cause), Some(Cause::User));
}

#[test]
fn c28_a_shutdown_is_recorded_as_one() {
    let mut desk = Desk::running(agent());
    let facts = shut_down::cancel(&desk.job, &desk.fence().owner, desk.now.wall);
    desk.anyone(facts);
    let Some(Fact::CancelRequested(request)) = desk.log.last().map(|event| event.fact.clone()) else {
        panic!("it was asked for")
    };
    assert_eq!((request.by.as_str(), request.asked, request.force), ("a", Asked::Shutdown, false));
}

/// A tree that nobody recorded as launched was still a tree, once its keeper's receipt says so.
#[test]
fn c9_a_tree_seen_only_in_its_receipt_counts_as_begun() {
    let attempt = lastword_core::AttemptNo(1);
    let found = Found::Ended(Box::new(exited(1)));
    let desk = Desk::launching(retried(3)).claimed("a", 2).reports(Report::Located { attempt, found });
    assert!(matches!(desk.job.phase, Phase::Backoff { .. }));
    assert_eq!(desk.cancelled().outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
}

/// A job whose turn failed is being stopped already, yet it would be tried again: the wish must get into the log.
#[test]
fn c7_a_cancel_while_a_failed_turn_is_wound_up_prevents_the_retry() {
    let failing = Desk::in_turn(retried(3)).says(ends(TurnEnding::Failed));
    assert_eq!(failing.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Agent));
    let desk = failing.later(7).cancelled();
    assert_eq!(desk.count("cancel_requested"), 1);
    assert_eq!(
        desk.job.stop.as_ref().map(|stop| (stop.cause, stop.requested_at)),
        Some((Cause::User, desk.now.wall))
    );
    assert_eq!(cancel(&desk, &wish(false)), Ok(Vec::new()));
    let desk = desk.emptied(exited(1));
    assert_eq!(desk.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
}

#[test]
fn c35_an_old_owner_that_shuts_down_leaves_the_new_ones_job_alone() {
    let desk = Desk::running(agent());
    let old = desk.fence().clone();
    let leaves = |desk: &Desk, fence, expected: &[&str]| {
        let facts = shut_down::leave(&desk.job, fence).expect("it is never refused");
        assert_eq!(kinds(&facts), expected, "{:?}", desk.job.phase);
    };
    let cancels = |desk: &Desk, fence: &Fence, expected: &[&str]| {
        let facts = shut_down::cancel(&desk.job, &fence.owner, desk.now.wall).expect("it is never refused");
        assert_eq!(kinds(&facts), expected, "{:?}", desk.job.phase);
    };
    cancels(&desk, &old, &["cancel_requested"]);
    leaves(&desk, &old, &[]);
    let taken = desk.claimed("b", 2);
    cancels(&taken, &old, &[]);
    leaves(&taken, &old, &[]);
    let held = Desk::held(agent());
    leaves(&held, held.fence(), &["released"]);
    cancels(&held, held.fence(), &["last_word"]);
    let other = held.clone().claimed("b", 2);
    leaves(&other, held.fence(), &[]);
    cancels(&other, held.fence(), &[]);
    cancels(&Desk::ended(0), held.fence(), &[]);
    leaves(&Desk::ended(0), held.fence(), &[]);
}

/// A fact of a newer build may mean that something runs: an older one records the wish where it can and ends nothing.
#[test]
fn c41_an_older_build_ends_nothing_it_cannot_fully_read() {
    let foreign = |mut desk: Desk| {
        let stored = lastword_core::event::Stored {
            kind: "launch_intended".to_owned(),
            version: 2,
            body: "{}".to_owned(),
        };
        desk.fence = Desk::held(agent()).fence;
        desk.owner(vec![Fact::Unknown(stored)]);
        desk
    };
    let refused = Err(Refusal::NeedsNewerReader(id(1)));
    for desk in [Desk::held(agent()), Desk::backoff()] {
        assert_eq!(cancel(&foreign(desk), &wish(false)), refused);
    }
    let waits = foreign(Desk::queued(dependent(lastword_core::spec::Needs::Success)));
    assert_eq!(lastword_core::decide::depend::decide(&waits.job, id(9), Outcome::Failed), refused);
    let running = cancel(&foreign(Desk::running(agent())), &wish(false)).expect("a wish is no guess");
    assert_eq!(kinds(&running), ["cancel_requested"]);
}
