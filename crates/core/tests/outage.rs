//! The owner while the journal is unavailable: limits are enforced anyway.

use lastword_core::decide::limit;
use lastword_core::effects::Effect;
use lastword_core::event::{LimitChanged, TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::owner::{Input, Output};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::Spec;
use lastword_core::{Awake, Fact, InputNo, Timestamp};

use crate::common::{TestJob, agent, allow, command, ends, exited, question, session, tree};
use crate::rig::{FIRST, Rig, append, effects, emptied, kinds, launched, limited, stops};

#[test]
fn an_unanswered_append_is_repeated_unchanged() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    let first = append(&outputs).clone();
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new());
        assert_eq!(rig.says(Signal::ItemCompleted { title: "more".to_owned() }), Vec::new());
        rig.later(10);
        let outputs = rig.step(Input::Tick);
        assert_eq!(append(&outputs), &first);
        assert_eq!(rig.step(Input::Tick), Vec::new(), "once per failure");
    }
    let answer = rig.store(&first);
    let outputs = rig.step(answer);
    assert_eq!(kinds(append(&outputs)), ["item_completed"; 3]);
}

#[test]
fn c42_an_unstored_last_word_releases_nothing() {
    let mut rig = Rig::new(TestJob::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let word = append(&outputs).clone();
    assert_eq!(kinds(&word), ["attempt_ended", "last_word"]);
    for _ in 0..5 {
        let outputs = rig.step(Input::Unavailable);
        assert_eq!((outputs, rig.owner.is_gone()), (Vec::new(), false));
        assert!(rig.owner.job().holder.is_some() && !rig.owner.job().is_ended());
        assert_eq!(append(&rig.step(Input::Tick)), &word);
    }
    let answer = rig.store(&word);
    assert_eq!(rig.step(answer), [Output::LetGo { late: Vec::new() }]);
    assert!(rig.owner.is_gone() && rig.owner.job().is_ended());
}

#[test]
fn c49_a_limit_fires_while_the_agent_hangs() {
    let limits = Limits { wall_ms: Some(1_000), stall_ms: Some(400), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    assert_eq!(rig.owner.next_check(), Some(rig.test.now.awake.plus_ms(400)));
    rig.later(399);
    assert_eq!(rig.tick(), Vec::new());
    rig.later(1);
    let outputs = rig.step(Input::Tick);
    assert_eq!(kinds(append(&outputs)), ["limit_fired", "stop_began"]);
    assert_eq!(stops(&outputs), [], "stored first");
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::Limit(Limit::Stall)]);
    assert_eq!((rig.test.count("limit_fired"), rig.owner.next_check()), (1, None));
    let Some(Fact::LimitFired(fired)) =
        rig.test.log.iter().map(|event| &event.fact).find(|fact| fact.kind() == "limit_fired")
    else {
        panic!("it fired")
    };
    assert_eq!((fired.attempt, fired.measured, fired.allowed), (FIRST, 400, 400));
}

#[test]
fn c68_a_deadline_stops_the_tree_before_any_end_is_stored() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    let rest = rig.tick();
    assert_eq!(stops(&rest), [Cause::Limit(Limit::Wall)]);
    assert_eq!((rig.test.count("turn_ended"), rig.test.count("last_word")), (0, 0));
    assert_eq!(rig.test.job.active_turn(), Some(lastword_core::TurnNo(1)));
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.test.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
}

#[test]
fn c40_c50_a_limit_stops_the_tree_while_the_journal_is_unavailable() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    let outputs = rig.step(Input::Tick);
    let fired = append(&outputs).clone();
    let outputs = rig.step(Input::Unavailable);
    assert_eq!(stops(&outputs), [Cause::Limit(Limit::Wall)]);
    // The tree ends before the journal is back: the decision stays the same.
    assert_eq!(rig.report(emptied(exited(143))), Vec::new());
    let again = rig.step(Input::Tick);
    assert_eq!(append(&again), &fired);
    rig.settle(again);
    assert_eq!(rig.test.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
    assert_eq!(rig.test.count("limit_fired"), 1);
}

#[test]
fn c50_nothing_starts_while_the_journal_is_unavailable() {
    let mut rig = Rig::new(TestJob::held(agent()));
    let outputs = rig.step(Input::Tick);
    let intent = append(&outputs).clone();
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new());
        let outputs = rig.step(Input::Tick);
        assert_eq!((append(&outputs), effects(&outputs)), (&intent, Vec::new()));
    }
}

#[test]
fn c40_a_failed_load_does_not_prevent_a_local_stop() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    assert!(matches!(rig.step(Input::News)[..], [Output::Load { .. }]));
    rig.later(1_000);
    let outputs = rig.step(Input::Unavailable);
    assert_eq!(kinds(append(&outputs)), ["limit_fired", "stop_began"]);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Wall)]);
}

#[test]
fn c46_c47_a_fired_limit_stops_the_job_even_after_a_restart_or_a_raise() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    for raised in [None, Some(1_000_000), Some(0)] {
        let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
        rig.tick();
        rig.later(1_000);
        let outputs = rig.step(Input::Tick);
        let answer = rig.store(append(&outputs));
        assert_eq!(answer, Input::Stored);
        // The owner crashes before it does anything, and the limit is changed.
        let mut test = rig.test.clone();
        if let Some(value) = raised {
            // It is refused, but earlier versions stored it.
            assert!(limit::decide(&test.job, "ann", Limit::Wall, value).is_err());
            test.anyone(Ok(vec![LimitChanged { by: "ann".to_owned(), limit: Limit::Wall, value }.into()]));
        }
        let mut rig = Rig::new(test.later(60_000).claimed("a", 2));
        rig.tick();
        let found = Found::Alive { tree: tree(100), awake: TestJob::empty().now.awake };
        let outputs = rig.report(Report::Located { attempt: FIRST, found });
        assert_eq!(stops(&rig.settle(outputs)), [Cause::Limit(Limit::Wall)]);
        let outputs = rig.report(emptied(exited(0)));
        rig.settle(outputs);
        assert_eq!(rig.test.count("limit_fired"), 1);
        let fired = rig.test.log.iter().find_map(|event| match &event.fact {
            Fact::LimitFired(fired) => Some((event.at, fired.measured, fired.allowed)),
            _ => None,
        });
        assert_eq!(fired, Some((Timestamp(11_000), 1_000, 1_000)), "the decision is the one stored");
        assert_eq!(rig.test.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
    }
}

#[test]
fn c53_a_limit_can_be_changed_while_the_job_runs() {
    let mut rig = Rig::new(TestJob::running(agent()).says(session()));
    rig.tick();
    let start = TestJob::empty().now.awake;
    let check = |rig: &mut Rig, value: u64, at: Option<Awake>| {
        let facts = limit::decide(&rig.test.job, "ann", Limit::Wall, value);
        rig.test.anyone(facts);
        let outputs = rig.step(Input::News);
        assert_eq!(effects(&rig.settle(outputs)), [Effect::Deadline { attempt: FIRST, at }]);
        assert_eq!(rig.test.job.limits.get(Limit::Wall), Some(value).filter(|value| *value > 0));
    };
    check(&mut rig, 60_000, Some(start.plus_ms(60_000)));
    assert_eq!(rig.owner.next_check(), Some(start.plus_ms(60_000)));
    check(&mut rig, 0, None);
    check(&mut rig, 90_000, Some(start.plus_ms(90_000)));
    rig.later(70_000);
    assert_eq!(rig.tick(), Vec::new(), "the shorter limit is gone");
    rig.later(20_000);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Wall)]);
}

#[test]
fn c54_a_fast_job_reaches_no_limit_and_needs_no_check_after_its_end() {
    let mut rig = Rig::new(TestJob::held(agent()));
    rig.tick();
    let outputs = rig.report(launched());
    rig.settle(outputs);
    for signal in [session(), Signal::TurnStarted, ends(TurnEnding::Completed)] {
        let outputs = rig.says(signal);
        rig.settle(outputs);
    }
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!((rig.test.outcome(), rig.test.count("limit_fired")), (Some(Outcome::Completed), 0));
    assert_eq!(rig.owner.next_check(), None);
    // A limit that is reached at the same time as the end does not change it.
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::running(Spec { limits, ..command() }));
    rig.tick();
    rig.later(1_000);
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.test.outcome(), Some(Outcome::Completed));
}

/// A report behind others without facts must not wait for another input.
#[test]
fn reports_without_facts_do_not_delay_the_last_word() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    // The recording is replayed while the append is in flight, and then the tree ends.
    for _ in 0..200 {
        let signal = Signal::ItemCompleted { title: "heard before".to_owned() };
        rig.report(Report::Heard { attempt: FIRST, offset: 1, signal });
    }
    rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert!(rig.test.job.is_ended(), "{:?}", rig.test.kinds());
}

/// A person may take an hour to answer: the stall clock is suspended meanwhile and restarts with the answer.
#[test]
fn c52_an_answer_after_a_long_wait_is_not_a_stall() {
    let limits = Limits { stall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    let outputs = rig.says(question("q1"));
    rig.settle(outputs);
    rig.later(50_000);
    assert_eq!((rig.tick(), rig.test.count("limit_fired")), (Vec::new(), 0));
    rig.later(50_000);
    let facts = allow(&rig.test.job, "q1");
    rig.test.anyone(facts);
    let outputs = rig.step(Input::News);
    let rest = rig.settle(outputs);
    // Its wall clock rested too.
    let wall = Some(TestJob::empty().now.awake.plus_ms(4 * 3_600_000 + 100_000));
    assert_eq!(
        (effects(&rest), rig.test.count("limit_fired")),
        (
            vec![
                Effect::Tell { attempt: FIRST, input: InputNo(1) },
                Effect::Deadline { attempt: FIRST, at: wall }
            ],
            0
        )
    );
    assert_eq!(rig.owner.next_check(), Some(rig.test.now.awake.plus_ms(1_000)));
    rig.later(999);
    assert_eq!((rig.tick(), rig.test.count("limit_fired")), (Vec::new(), 0));
    rig.later(1);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Stall)]);
}

/// What is measured between two steps counts when the next one decides.
#[test]
fn c52_output_that_was_measured_restarts_the_stall_clock() {
    let limits = Limits { stall_ms: Some(400), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    rig.later(399);
    rig.owner.record_activity(&Signal::Wrote { total_bytes: 1 }, rig.test.now.awake);
    assert_eq!(rig.owner.next_check(), Some(rig.test.now.awake.plus_ms(400)));
    rig.later(399);
    assert_eq!((rig.tick(), rig.test.count("limit_fired")), (Vec::new(), 0));
    rig.later(1);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Stall)]);
}

/// A limit reached while the journal does not answer an older append is enforced.
#[test]
fn c50_a_limit_reached_with_an_unanswered_append_stops_the_tree() {
    let wall = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let tokens = Limits { tokens: Some(10), wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    let turns = Limits { turns: Some(1), wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    let spent = Signal::Spent(Usage { tokens_in: 11, ..Usage::default() });
    for (limits, signal, limit) in [
        (wall, Signal::Progress, Limit::Wall),
        (tokens, spent, Limit::Tokens),
        (turns, Signal::TurnStarted, Limit::Turns),
    ] {
        let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
        rig.tick();
        let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
        let older = append(&outputs).clone();
        assert_eq!(stops(&rig.step(Input::Unavailable)), []);
        rig.later(1_000);
        rig.says(signal);
        let again = rig.step(Input::Tick);
        assert_eq!(append(&again), &older);
        let outputs = rig.step(Input::Unavailable);
        assert_eq!(stops(&outputs), [Cause::Limit(limit)]);
        // The tree ends, the journal comes back, and the log has the decision with its time.
        rig.later(5_000);
        rig.report(emptied(exited(143)));
        let again = rig.step(Input::Tick);
        rig.settle(again);
        assert_eq!(rig.test.count("limit_fired"), 1, "{:?}", rig.test.kinds());
        assert_eq!(rig.test.job.last_word().map(|word| word.cause), Some(Cause::Limit(limit)));
    }
}

/// A limit that was enforced without the journal is not decided again after a conflict.
#[test]
fn c46_a_limit_enforced_without_the_journal_survives_a_conflict() {
    let limits = Limits { stall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    rig.step(Input::Tick);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Stall)]);
    // The agent is active while it is being stopped, and another writer raises the limit.
    rig.says(Signal::Progress);
    let facts = limit::decide(&rig.test.job, "ann", Limit::Stall, 9_000);
    rig.test.anyone(facts);
    rig.report(emptied(exited(143)));
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!(rig.test.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Stall)));
    // A request that was stored first takes precedence.
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    rig.step(Input::Tick);
    rig.step(Input::Unavailable);
    rig.cancelled();
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!(rig.test.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::User));
    assert_eq!(rig.test.count("limit_fired"), 0);
}

/// A log that cannot be read after a conflict is read again with the ticks, and not at once with each failure. Limits count meanwhile.
#[test]
fn c50_an_owner_that_cannot_read_what_is_newer_waits_and_still_stops() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(limited(limits)));
    rig.tick();
    rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    assert!(matches!(rig.step(Input::Conflict)[..], [Output::Load { .. }]));
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new(), "no append could be stored");
        assert!(rig.owner.waits_for_journal(), "a report waits to be stored");
        assert_eq!(rig.says(Signal::ItemCompleted { title: "more".to_owned() }), Vec::new());
        assert!(matches!(rig.step(Input::Tick)[..], [Output::Load { .. }]), "one read per tick");
    }
    rig.later(1_000);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Wall)]);
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!((rig.test.count("item_completed"), rig.test.count("limit_fired")), (4, 1));
}

#[test]
fn c50_only_a_stop_precedes_its_storage() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(ends(TurnEnding::Completed));
    assert_eq!(kinds(append(&outputs)), ["turn_ended"]);
    // The input may be closed only once this is stored.
    assert_eq!(rig.step(Input::Unavailable), Vec::new());
    let again = rig.step(Input::Tick);
    assert_eq!(effects(&rig.settle(again)), [Effect::Close { attempt: FIRST }]);
    // A failed turn stops the tree without waiting.
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    rig.says(ends(TurnEnding::Failed));
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Agent]);
}

#[test]
fn c27_a_lost_reply_is_resolved_by_repeating_the_append() {
    let mut rig = Rig::new(TestJob::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let word = append(&outputs).clone();
    assert_eq!(rig.store(&word), Input::Stored);
    assert_eq!(rig.step(Input::Unavailable), Vec::new(), "the reply was lost");
    let again = rig.step(Input::Tick);
    assert_eq!(append(&again), &word);
    assert_eq!(rig.settle(again), [Output::LetGo { late: Vec::new() }]);
    assert_eq!((rig.test.count("last_word"), rig.test.outcome()), (1, Some(Outcome::Completed)));
}

#[test]
fn a_failed_load_is_repeated_with_the_next_tick() {
    let mut rig = Rig::new(TestJob::running(command()));
    rig.tick();
    rig.cancelled();
    let ask = [Output::Load { after: rig.owner.job().version }];
    assert_eq!(rig.step(Input::News), ask);
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new(), "not at once");
        assert_eq!(rig.step(Input::Tick), ask);
        assert_eq!(rig.step(Input::Tick), Vec::new(), "once per failure");
    }
    let outputs = rig.settle(ask.to_vec());
    assert_eq!(stops(&outputs), [Cause::User]);
}
