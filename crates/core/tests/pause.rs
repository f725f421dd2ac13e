//! What comes before a limit stops an agent: a warning, and a pause in which a person may raise it.

use lastword_core::decide::limit as decide_limit;
use lastword_core::effects::Effect;
use lastword_core::event::{TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Budget, Outcome};
use lastword_core::owner::Output;
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnLimit, Spec};
use lastword_core::{AttemptNo, Fact};

use crate::common::{Desk, agent, ends, exited, tree};
use crate::rig::Rig;

const FIRST: AttemptNo = AttemptNo(1);
const STILL: Effect = Effect::Hold { attempt: FIRST, still: true };
const GOES_ON: Effect = Effect::Hold { attempt: FIRST, still: false };
const EXPIRES_MS: u64 = 60_000;

fn asking(limits: Limits) -> Spec {
    Spec { limits, on_limit: OnLimit::Ask { expires_ms: EXPIRES_MS }, ..agent() }
}

fn tokens(allowed: u64) -> Limits {
    Limits { tokens: Some(allowed), ..Limits::default() }
}

fn spends(rig: &mut Rig, tokens_in: u64) -> Vec<Effect> {
    let outputs = rig.says(Signal::Spent(Usage { tokens_in, ..Usage::default() }));
    effects(rig.settle(outputs))
}

fn effects(outputs: Vec<Output>) -> Vec<Effect> {
    let effects = outputs.into_iter().filter_map(|output| match output {
        Output::Do(effect) => Some(effect),
        _ => None,
    });
    effects.collect()
}

/// Somebody sets the limit behind the owner's back.
fn raised(rig: &mut Rig, limit: Limit, value: u64) -> Vec<Effect> {
    let facts = decide_limit::decide(&rig.desk.job, "ann", limit, value);
    rig.desk.anyone(facts);
    let outputs = rig.step(lastword_core::owner::Input::News);
    effects(rig.settle(outputs))
}

/// An agent in a turn that has used more than it may.
fn paused() -> Rig {
    let mut rig = Rig::new(Desk::in_turn(asking(tokens(100))));
    rig.tick();
    assert_eq!(spends(&mut rig, 101), [STILL]);
    rig
}

#[test]
fn an_agent_is_warned_once_and_then_holds_still_and_nothing_of_it_is_stopped() {
    let mut rig = Rig::new(Desk::in_turn(asking(tokens(100))));
    rig.tick();
    assert_eq!((spends(&mut rig, 79), rig.desk.count("limit_neared")), (Vec::new(), 0));
    assert_eq!((spends(&mut rig, 1), rig.desk.count("limit_neared")), (Vec::new(), 1));
    assert_eq!((spends(&mut rig, 20), rig.desk.count("limit_neared")), (Vec::new(), 1));
    assert_eq!(spends(&mut rig, 1), [STILL]);
    assert_eq!((rig.desk.count("paused"), rig.desk.count("limit_fired")), (1, 0));
    assert!(rig.desk.job.waits_for_person());
    // However long that takes, it is no stall; and it is asked once.
    rig.later(EXPIRES_MS - 1);
    assert_eq!(effects(rig.tick()), []);
    assert_eq!((rig.desk.count("paused"), rig.desk.count("limit_fired")), (1, 0));
}

#[test]
fn who_raises_the_limit_lets_it_go_on_and_is_asked_again_at_the_next() {
    let mut rig = paused();
    // Not enough is no raise.
    assert_eq!(raised(&mut rig, Limit::Tokens, 100), []);
    assert_eq!(raised(&mut rig, Limit::Tokens, 200), [GOES_ON]);
    assert!(rig.desk.job.pause.is_none() && !rig.desk.job.waits_for_person());
    assert_eq!(spends(&mut rig, 100), [STILL]);
    assert_eq!(rig.desk.count("paused"), 2);
    // Off is as good as raised.
    assert_eq!(raised(&mut rig, Limit::Tokens, 0), [GOES_ON]);
    let outputs = rig.says(ends(TurnEnding::Completed));
    rig.settle(outputs);
    assert_eq!(rig.desk.count("limit_fired"), 0);
}

#[test]
fn c52_a_pause_that_nobody_answers_ends_as_the_limit_does() {
    let mut rig = paused();
    assert_eq!(rig.owner.next_limit_check().map(|at| at.0 - rig.desk.now.awake.0), Some(EXPIRES_MS));
    rig.later(EXPIRES_MS);
    let due = effects(rig.tick());
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    let outputs = rig.report(Report::Emptied { attempt: FIRST, receipt: Box::new(exited(143)) });
    rig.settle(outputs);
    assert_eq!(rig.desk.outcome(), Some(Outcome::OverBudget(Budget::Tokens)));
}

#[test]
fn c39_a_pause_is_due_again_after_a_restart_and_so_is_its_end() {
    let again = |rig: Rig| {
        let mut rig = Rig::new(rig.desk.claimed("a", 2));
        rig.tick();
        let found = Found::Alive { tree: tree(100), awake: rig.desk.now.awake };
        let outputs = rig.report(Report::Located { attempt: FIRST, found });
        let due = effects(rig.settle(outputs));
        (rig, due)
    };
    let (mut rig, due) = again(paused());
    assert!(due.contains(&STILL), "{due:?}");
    raised(&mut rig, Limit::Tokens, 500);
    let (_, due) = again(rig);
    assert!(due.contains(&GOES_ON) && !due.contains(&STILL), "{due:?}");
}

#[test]
fn a_turn_too_many_begins_and_holds_still() {
    let turns = Limits { turns: Some(1), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(asking(turns)));
    rig.tick();
    for signal in [ends(TurnEnding::Completed), Signal::TurnStarted] {
        let outputs = rig.says(signal);
        rig.settle(outputs);
    }
    assert_eq!((rig.desk.count("turn_started"), rig.desk.count("paused")), (2, 1));
    assert_eq!(raised(&mut rig, Limit::Turns, 2), [GOES_ON]);
    // Between turns nothing is used, and nothing has to hold still.
    let over = Limits { tokens: Some(10), ..turns };
    let mut rig = Rig::new(Desk::in_turn(asking(over)));
    rig.tick();
    let outputs = rig.says(ends(TurnEnding::Completed));
    rig.settle(outputs);
    spends(&mut rig, 11);
    assert_eq!((rig.desk.count("paused"), rig.desk.count("limit_fired")), (0, 0));
}

#[test]
fn a_turn_that_waits_to_begin_and_may_not_is_not_told_to_the_agent() {
    let turns = Limits { turns: Some(1), ..Limits::default() };
    let told = |due: &[Effect]| due.iter().any(|effect| matches!(effect, Effect::Tell { .. }));
    let with_next = |spec: Spec| {
        let mut rig = Rig::new(Desk::in_turn(spec));
        rig.tick();
        let facts = lastword_core::decide::send::decide(&rig.desk.job, "ann", "and then", false);
        rig.desk.anyone(facts);
        let outputs = rig.step(lastword_core::owner::Input::News);
        let due = effects(rig.settle(outputs));
        assert!(!told(&due), "{due:?}");
        assert_eq!((rig.desk.count("paused"), rig.desk.count("limit_fired")), (0, 0));
        let outputs = rig.says(ends(TurnEnding::Completed));
        let due = effects(rig.settle(outputs));
        assert!(!told(&due), "{due:?}");
        rig
    };
    let rig = with_next(Spec { limits: turns, ..agent() });
    assert_eq!(rig.desk.count("limit_fired"), 1);
    // Who may ask a person does, and goes on with it once the limit is raised.
    let mut rig = with_next(asking(turns));
    assert_eq!((rig.desk.count("paused"), rig.desk.count("limit_fired")), (1, 0));
    let due = raised(&mut rig, Limit::Turns, 2);
    assert!(due.contains(&GOES_ON) && told(&due), "{due:?}");
}

#[test]
fn c75_without_a_person_to_ask_a_limit_stops_at_once_and_a_time_always_does() {
    let mut rig = Rig::new(Desk::in_turn(Spec { limits: tokens(100), ..agent() }));
    rig.tick();
    let due = spends(&mut rig, 101);
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    let wall = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(asking(wall)));
    rig.tick();
    rig.later(10_000);
    rig.tick();
    let fired = |fact: &Fact| matches!(fact, Fact::LimitFired(fired) if fired.limit == Limit::Wall);
    assert_eq!(rig.desk.log.iter().filter(|event| fired(&event.fact)).count(), 1);
    assert_eq!(rig.desk.count("paused"), 0);
}

#[test]
fn a_stop_while_it_holds_still_is_due_at_once() {
    let mut rig = paused();
    rig.cancelled();
    let outputs = rig.step(lastword_core::owner::Input::News);
    let due = effects(rig.settle(outputs));
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    assert!(!rig.desk.job.waits_for_person());
}
