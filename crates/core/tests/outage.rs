//! The owner's step when the journal is away, and the limits that bind all the same.

use lastword_core::decide::{answer, limit};
use lastword_core::effects::Effect;
use lastword_core::event::{TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::owner::{Input, Output};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::Spec;
use lastword_core::{Awake, Fact, InputNo, Timestamp};

use crate::common::{Desk, agent, command, ends, exited, question, session, tree};
use crate::rig::{FIRST, Rig, append, effects, emptied, kinds, launched, limited, stops};

#[test]
fn an_append_without_an_answer_is_sent_again_as_it_was() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    let first = append(&outputs).clone();
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new());
        assert_eq!(rig.says(Signal::ItemCompleted { title: "more".to_owned() }), Vec::new());
        rig.later(10);
        let outputs = rig.step(Input::Tick);
        assert_eq!(append(&outputs), &first);
        assert_eq!(rig.step(Input::Tick), Vec::new(), "once per answer");
    }
    let answer = rig.store(&first);
    let outputs = rig.step(answer);
    assert_eq!(kinds(append(&outputs)), ["item_completed"; 3]);
}

#[test]
fn c42_a_last_word_that_could_not_be_written_releases_nothing() {
    let mut rig = Rig::new(Desk::running(command()));
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
fn c49_a_limit_binds_while_the_agent_hangs() {
    let limits = Limits { wall_ms: Some(1_000), stall_ms: Some(400), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    assert_eq!(rig.owner.next_limit_check(), Some(rig.desk.now.awake.plus_ms(400)));
    rig.later(399);
    assert_eq!(rig.tick(), Vec::new());
    rig.later(1);
    let outputs = rig.step(Input::Tick);
    assert_eq!(kinds(append(&outputs)), ["limit_fired", "stop_began"]);
    assert_eq!(stops(&outputs), [], "remembered first");
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::Limit(Limit::Stall)]);
    assert_eq!((rig.desk.count("limit_fired"), rig.owner.next_limit_check()), (1, None));
    let Some(Fact::LimitFired(fired)) =
        rig.desk.log.iter().map(|event| &event.fact).find(|fact| fact.kind() == "limit_fired")
    else {
        panic!("it fired")
    };
    assert_eq!((fired.attempt, fired.measured, fired.allowed), (FIRST, 400, 400));
}

#[test]
fn c68_a_deadline_signals_the_work_before_any_ending_is_in_the_log() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    let rest = rig.tick();
    assert_eq!(stops(&rest), [Cause::Limit(Limit::Wall)]);
    assert_eq!((rig.desk.count("turn_ended"), rig.desk.count("last_word")), (0, 0));
    assert_eq!(rig.desk.job.active_turn(), Some(lastword_core::TurnNo(1)));
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
}

#[test]
fn c40_c50_a_limit_that_fires_with_the_journal_away_stops_the_tree() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    let outputs = rig.step(Input::Tick);
    let fired = append(&outputs).clone();
    let outputs = rig.step(Input::Unavailable);
    assert_eq!(stops(&outputs), [Cause::Limit(Limit::Wall)]);
    // The tree ends before the journal is back: the decision is still the one that was made.
    assert_eq!(rig.report(emptied(exited(143))), Vec::new());
    let again = rig.step(Input::Tick);
    assert_eq!(append(&again), &fired);
    rig.settle(again);
    assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
    assert_eq!(rig.desk.count("limit_fired"), 1);
}

#[test]
fn c50_nothing_new_starts_with_the_journal_away() {
    let mut rig = Rig::new(Desk::held(agent()));
    let outputs = rig.step(Input::Tick);
    let intent = append(&outputs).clone();
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new());
        let outputs = rig.step(Input::Tick);
        assert_eq!((append(&outputs), effects(&outputs)), (&intent, Vec::new()));
    }
}

#[test]
fn c40_a_failed_read_does_not_keep_a_local_stop_from_happening() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    assert!(matches!(rig.step(Input::News)[..], [Output::Load { .. }]));
    rig.later(1_000);
    let outputs = rig.step(Input::Unavailable);
    assert_eq!(kinds(append(&outputs)), ["limit_fired", "stop_began"]);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Wall)]);
}

#[test]
fn c46_c47_a_limit_that_fired_still_stops_after_a_restart_and_after_it_was_raised() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    for raised in [None, Some(1_000_000), Some(0)] {
        let mut rig = Rig::new(Desk::in_turn(limited(limits)));
        rig.tick();
        rig.later(1_000);
        let outputs = rig.step(Input::Tick);
        let answer = rig.store(append(&outputs));
        assert_eq!(answer, Input::Stored);
        // The owner dies before it has done anything, and the limit is changed.
        let mut desk = rig.desk.clone();
        if let Some(value) = raised {
            let facts = limit::decide(&desk.job, "ann", Limit::Wall, value);
            desk.anyone(facts);
        }
        let mut rig = Rig::new(desk.later(60_000).claimed("a", 2));
        rig.tick();
        let found = Found::Alive { tree: tree(100), awake: Desk::empty().now.awake };
        let outputs = rig.report(Report::Located { attempt: FIRST, found });
        assert_eq!(stops(&rig.settle(outputs)), [Cause::Limit(Limit::Wall)]);
        let outputs = rig.report(emptied(exited(0)));
        rig.settle(outputs);
        assert_eq!(rig.desk.count("limit_fired"), 1);
        let fired = rig.desk.log.iter().find_map(|event| match &event.fact {
            Fact::LimitFired(fired) => Some((event.at, fired.measured, fired.allowed)),
            _ => None,
        });
        assert_eq!(fired, Some((Timestamp(11_000), 1_000, 1_000)), "the decision is the one stored");
        assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
    }
}

#[test]
fn c53_a_limit_can_be_changed_while_the_job_runs() {
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    let start = Desk::empty().now.awake;
    let check = |rig: &mut Rig, value: u64, at: Option<Awake>| {
        let facts = limit::decide(&rig.desk.job, "ann", Limit::Wall, value);
        rig.desk.anyone(facts);
        let outputs = rig.step(Input::News);
        assert_eq!(effects(&rig.settle(outputs)), [Effect::Deadline { attempt: FIRST, at }]);
        assert_eq!(rig.desk.job.limits.get(Limit::Wall), Some(value).filter(|value| *value > 0));
    };
    check(&mut rig, 60_000, Some(start.plus_ms(60_000)));
    assert_eq!(rig.owner.next_limit_check(), Some(start.plus_ms(60_000)));
    check(&mut rig, 0, None);
    check(&mut rig, 90_000, Some(start.plus_ms(90_000)));
    rig.later(70_000);
    assert_eq!(rig.tick(), Vec::new(), "the shorter one is gone");
    rig.later(20_000);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Wall)]);
}

#[test]
fn c54_a_fast_job_is_not_disturbed_and_no_look_is_due_after_its_end() {
    let mut rig = Rig::new(Desk::held(agent()));
    rig.tick();
    let outputs = rig.report(launched());
    rig.settle(outputs);
    for signal in [session(), Signal::TurnStarted, ends(TurnEnding::Completed)] {
        let outputs = rig.says(signal);
        rig.settle(outputs);
    }
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!((rig.desk.outcome(), rig.desk.count("limit_fired")), (Some(Outcome::Completed), 0));
    assert_eq!(rig.owner.next_limit_check(), None);
    // A limit that is reached in the very moment of the end does not undo it.
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::running(Spec { limits, ..command() }));
    rig.tick();
    rig.later(1_000);
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.desk.outcome(), Some(Outcome::Completed));
}

/// Reports that add nothing must not keep the one behind them waiting for an input that never comes.
#[test]
fn reports_that_add_nothing_do_not_hold_up_the_last_word() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    // The recording is read again from its start while the append is in flight, and then the tree ends.
    for _ in 0..200 {
        let signal = Signal::ItemCompleted { title: "heard before".to_owned() };
        rig.report(Report::Heard { attempt: FIRST, offset: 1, signal });
    }
    rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert!(rig.desk.job.is_ended(), "{:?}", rig.desk.kinds());
}

/// A person may take an hour to answer: the stall clock rested meanwhile and starts anew with the answer.
#[test]
fn c52_an_answer_after_a_long_wait_is_not_a_stall() {
    let limits = Limits { stall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    let outputs = rig.says(question("q1"));
    rig.settle(outputs);
    rig.later(50_000);
    assert_eq!((rig.tick(), rig.desk.count("limit_fired")), (Vec::new(), 0));
    rig.later(50_000);
    let facts = answer::decide(&rig.desk.job, "ann", "q1", "yes");
    rig.desk.anyone(facts);
    let outputs = rig.step(Input::News);
    let rest = rig.settle(outputs);
    assert_eq!(
        (effects(&rest), rig.desk.count("limit_fired")),
        (vec![Effect::Tell { attempt: FIRST, input: InputNo(1) }], 0)
    );
    assert_eq!(rig.owner.next_limit_check(), Some(rig.desk.now.awake.plus_ms(1_000)));
    rig.later(999);
    assert_eq!((rig.tick(), rig.desk.count("limit_fired")), (Vec::new(), 0));
    rig.later(1);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Stall)]);
}

/// The journal went away with something else in flight; limits reached afterwards bind all the same.
#[test]
fn c50_a_limit_reached_while_an_older_append_has_no_answer_stops_the_tree() {
    let wall = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let tokens = Limits { tokens: Some(10), wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    let turns = Limits { turns: Some(1), wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    let spent = Signal::Spent(Usage { tokens_in: 11, ..Usage::default() });
    for (limits, signal, limit) in [
        (wall, Signal::Progress, Limit::Wall),
        (tokens, spent, Limit::Tokens),
        (turns, Signal::TurnStarted, Limit::Turns),
    ] {
        let mut rig = Rig::new(Desk::in_turn(limited(limits)));
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
        // The tree ends; the journal comes back; the record says what was decided, and when.
        rig.later(5_000);
        rig.report(emptied(exited(143)));
        let again = rig.step(Input::Tick);
        rig.settle(again);
        assert_eq!(rig.desk.count("limit_fired"), 1, "{:?}", rig.desk.kinds());
        assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(limit)));
    }
}

/// What was decided and acted on is not decided anew when somebody else wrote in between.
#[test]
fn c46_a_limit_acted_on_without_the_journal_stands_after_a_conflict() {
    let limits = Limits { stall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    rig.step(Input::Tick);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Stall)]);
    // The agent stirs as it is being stopped, and a limit is raised behind the owner's back.
    rig.says(Signal::Progress);
    let facts = limit::decide(&rig.desk.job, "ann", Limit::Stall, 9_000);
    rig.desk.anyone(facts);
    rig.report(emptied(exited(143)));
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Stall)));
    // But a wish that was in the log first is the reason.
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    rig.step(Input::Tick);
    rig.step(Input::Unavailable);
    rig.cancelled();
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!(rig.desk.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::User));
    assert_eq!(rig.desk.count("limit_fired"), 0);
}

#[test]
fn c50_only_a_stop_is_done_ahead_of_the_journal() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(ends(TurnEnding::Completed));
    assert_eq!(kinds(append(&outputs)), ["turn_ended"]);
    // The agent could be closed once this is stored, and not before.
    assert_eq!(rig.step(Input::Unavailable), Vec::new());
    let again = rig.step(Input::Tick);
    assert_eq!(effects(&rig.settle(again)), [Effect::Close { attempt: FIRST }]);
    // A turn that failed stops the tree, and that does not wait.
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    rig.says(ends(TurnEnding::Failed));
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Agent]);
}

#[test]
fn c27_an_append_that_was_stored_unheard_is_resolved_by_its_repeat() {
    let mut rig = Rig::new(Desk::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let word = append(&outputs).clone();
    assert_eq!(rig.store(&word), Input::Stored);
    assert_eq!(rig.step(Input::Unavailable), Vec::new(), "the answer got lost");
    let again = rig.step(Input::Tick);
    assert_eq!(append(&again), &word);
    assert_eq!(rig.settle(again), [Output::LetGo { late: Vec::new() }]);
    assert_eq!((rig.desk.count("last_word"), rig.desk.outcome()), (1, Some(Outcome::Completed)));
}

#[test]
fn news_that_could_not_be_read_are_asked_for_again_at_a_pace() {
    let mut rig = Rig::new(Desk::running(command()));
    rig.tick();
    rig.cancelled();
    let ask = [Output::Load { after: rig.owner.job().version }];
    assert_eq!(rig.step(Input::News), ask);
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new(), "not at once");
        assert_eq!(rig.step(Input::Tick), ask);
        assert_eq!(rig.step(Input::Tick), Vec::new(), "once per answer");
    }
    let outputs = rig.settle(ask.to_vec());
    assert_eq!(stops(&outputs), [Cause::User]);
}
