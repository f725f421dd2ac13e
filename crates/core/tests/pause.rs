//! What precedes the stop at a limit: a warning, and a pause in which a person may raise it.

use lastword_core::budget::Standing;
use lastword_core::decide::{Refusal, answer, limit as decide_limit};
use lastword_core::effects::Effect;
use lastword_core::event::{Paused, TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits, Reached};
use lastword_core::outcome::{Budget, Cause, Outcome};
use lastword_core::owner::Output;
use lastword_core::question::{self, Reply};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnLimit, Spec};
use lastword_core::view::asks::Asks;
use lastword_core::view::nearest::Used;
use lastword_core::view::row::Row;
use lastword_core::{AttemptNo, Fact};

use crate::common::{TestJob, agent, command, ends, exited, tree};
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
        // The clocks rest and run on.
        Output::Do(Effect::Deadline { .. }) => None,
        Output::Do(effect) => Some(effect),
        _ => None,
    });
    effects.collect()
}

/// Sets the limit as another writer.
fn raised(rig: &mut Rig, limit: Limit, value: u64) -> Vec<Effect> {
    let facts = decide_limit::decide(&rig.test.job, "ann", limit, value);
    rig.test.anyone(facts);
    let outputs = rig.step(lastword_core::owner::Input::News);
    effects(rig.settle(outputs))
}

/// Returns an agent that is paused in a turn.
fn paused() -> Rig {
    let mut rig = Rig::new(TestJob::in_turn(asking(tokens(100))));
    rig.tick();
    assert_eq!(spends(&mut rig, 101), [STILL]);
    rig
}

/// A job that stops, or that is no agent, is not warned.
#[test]
fn only_a_running_agent_is_warned() {
    let spent = Signal::Spent(Usage { tokens_in: 80, ..Usage::default() });
    let near = |test: TestJob| decide_limit::near(&test.job, &test.pulse, test.now.awake).len();
    let working = || TestJob::in_turn(asking(tokens(100))).says(spent.clone());
    assert_eq!((near(working()), near(working().cancelled())), (1, 0));
    let mut command = TestJob::running(command());
    let facts = decide_limit::decide(&command.job, "ann", Limit::Turns, 0);
    command.anyone(facts);
    assert_eq!(near(command), 0);
}

#[test]
fn an_agent_is_warned_once_and_then_paused_but_not_stopped() {
    let mut rig = Rig::new(TestJob::in_turn(asking(tokens(100))));
    rig.tick();
    assert_eq!((spends(&mut rig, 79), rig.test.count("limit_neared")), (Vec::new(), 0));
    assert_eq!((spends(&mut rig, 1), rig.test.count("limit_neared")), (Vec::new(), 1));
    assert_eq!((spends(&mut rig, 20), rig.test.count("limit_neared")), (Vec::new(), 1));
    assert_eq!(spends(&mut rig, 1), [STILL]);
    assert_eq!((rig.test.count("paused"), rig.test.count("limit_fired")), (1, 0));
    assert!(rig.test.job.waits_for_person());
    // A pause is no stall, however long it takes, and it begins once.
    rig.later(EXPIRES_MS - 1);
    assert_eq!(effects(rig.tick()), []);
    assert_eq!((rig.test.count("paused"), rig.test.count("limit_fired")), (1, 0));
}

#[test]
fn raising_the_limit_ends_the_pause_until_the_next() {
    let mut rig = paused();
    // A raise that is not enough does not end the pause.
    assert_eq!(raised(&mut rig, Limit::Tokens, 100), []);
    assert_eq!(raised(&mut rig, Limit::Tokens, 200), [GOES_ON]);
    assert!(rig.test.job.pause.is_none() && !rig.test.job.waits_for_person());
    assert_eq!(spends(&mut rig, 100), [STILL]);
    assert_eq!(rig.test.count("paused"), 2);
    // Switching the limit off ends it.
    assert_eq!(raised(&mut rig, Limit::Tokens, 0), [GOES_ON]);
    let outputs = rig.says(ends(TurnEnding::Completed));
    rig.settle(outputs);
    assert_eq!(rig.test.count("limit_fired"), 0);
}

#[test]
fn c52_an_expired_pause_stops_the_job() {
    let mut rig = paused();
    assert_eq!(rig.owner.next_check().map(|at| at.0 - rig.test.now.awake.0), Some(EXPIRES_MS));
    rig.later(EXPIRES_MS);
    let due = effects(rig.tick());
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    let outputs = rig.report(Report::Emptied { attempt: FIRST, receipt: Box::new(exited(143)) });
    rig.settle(outputs);
    assert_eq!(rig.test.outcome(), Some(Outcome::OverBudget(Budget::Tokens)));
}

/// Answers the question at the limit, as another writer.
fn answered(rig: &mut Rig, name: &str, reply: &Reply) -> Result<Vec<Effect>, Refusal> {
    let facts = answer::decide(&rig.test.job, "ann", name, reply)?;
    rig.test.anyone(Ok(facts));
    let outputs = rig.step(lastword_core::owner::Input::News);
    Ok(effects(rig.settle(outputs)))
}

fn name(rig: &Rig) -> String {
    rig.test.job.pause.expect("it is paused").name()
}

fn words(text: &str) -> Reply {
    Reply::Words(vec![text.to_owned()])
}

#[test]
fn the_question_at_a_limit_is_answered_with_a_higher_one() {
    let mut rig = paused();
    let asked = name(&rig);
    assert!(question::is_at_limit(&asked) && asked.starts_with("tokens-"), "{asked}");
    for (reply, refusal) in [
        (words("100"), "more than that is used up already"),
        (words("many"), "setting `tokens`: `many` is not a whole number"),
        (Reply::Words(vec!["200".to_owned(), "300".to_owned()]), "answered with its new value"),
        (Reply::Allow, "answered with its new value"),
    ] {
        let refused = answered(&mut rig, &asked, &reply).expect_err("it is no answer").to_string();
        assert!(refused.contains(refusal), "{reply:?}: {refused}");
    }
    let refused = answered(&mut rig, "tokens-0000", &words("200"));
    assert!(matches!(refused, Err(Refusal::Nothing(_, "no open question of that name"))), "{refused:?}");
    assert_eq!(answered(&mut rig, &asked, &words(" 200 ")), Ok(vec![GOES_ON]));
    assert_eq!(rig.test.job.limits.get(Limit::Tokens), Some(200));
    assert!(rig.test.job.inputs.is_empty(), "the agent is told nothing");
    // Another pause is another question.
    assert_eq!(spends(&mut rig, 100), [STILL]);
    assert_ne!(name(&rig), asked);
    assert!(answered(&mut rig, &asked, &words("900")).is_err());
    let asked = name(&rig);
    assert_eq!(answered(&mut rig, &asked, &words("0")), Ok(vec![GOES_ON]));
    assert_eq!(rig.test.count("answer_requested"), 2);
}

#[test]
fn a_denied_limit_stops_the_job_at_once() {
    let mut rig = paused();
    let asked = name(&rig);
    let facts = answer::decide(&rig.test.job, "ann", &asked, &Reply::Deny(String::new()));
    rig.test.anyone(facts);
    assert!(answered(&mut rig, &asked, &words("900")).is_err(), "it was denied");
    let outputs = rig.step(lastword_core::owner::Input::News);
    let due = effects(rig.settle(outputs));
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    assert_eq!((rig.test.count("limit_fired"), rig.test.job.inputs.len()), (1, 0));
    let outputs = rig.report(Report::Emptied { attempt: FIRST, receipt: Box::new(exited(143)) });
    rig.settle(outputs);
    assert_eq!(rig.test.outcome(), Some(Outcome::OverBudget(Budget::Tokens)));
}

#[test]
fn the_question_of_a_paused_command_is_answered_without_a_session() {
    let limits = Limits { output_bytes: Some(10), ..Limits::default() };
    let spec = Spec { limits, on_limit: OnLimit::Ask { expires_ms: EXPIRES_MS }, ..command() };
    let mut test = TestJob::running(spec);
    let attempt = test.attempt();
    let (limit, awake) = (Limit::Output, test.now.awake);
    test.owner(vec![Paused { attempt, limit, measured: 11, allowed: 10, awake }.into()]);
    let asked = test.job.pause.expect("it is paused").name();
    let facts = answer::decide(&test.job, "ann", &asked, &words("1k"));
    test.anyone(facts);
    assert_eq!(test.job.limits.get(Limit::Output), Some(1_024));
}

#[test]
fn c39_a_pause_and_its_end_are_due_again_after_a_restart() {
    let again = |rig: Rig| {
        let mut rig = Rig::new(rig.test.claimed("a", 2));
        rig.tick();
        let found = Found::Alive { tree: tree(100), awake: rig.test.now.awake };
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
fn a_turn_over_the_limit_begins_and_is_paused() {
    let turns = Limits { turns: Some(1), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(asking(turns)));
    rig.tick();
    for signal in [ends(TurnEnding::Completed), Signal::TurnStarted] {
        let outputs = rig.says(signal);
        rig.settle(outputs);
    }
    assert_eq!((rig.test.count("turn_started"), rig.test.count("paused")), (2, 1));
    assert_eq!(raised(&mut rig, Limit::Turns, 2), [GOES_ON]);
    // Between turns nothing is used, so nothing is paused.
    let over = Limits { tokens: Some(10), ..turns };
    let mut rig = Rig::new(TestJob::in_turn(asking(over)));
    rig.tick();
    let outputs = rig.says(ends(TurnEnding::Completed));
    rig.settle(outputs);
    spends(&mut rig, 11);
    assert_eq!((rig.test.count("paused"), rig.test.count("limit_fired")), (0, 0));
}

#[test]
fn a_prompt_over_the_turn_limit_is_not_delivered() {
    let turns = Limits { turns: Some(1), ..Limits::default() };
    let told = |due: &[Effect]| due.iter().any(|effect| matches!(effect, Effect::Tell { .. }));
    let with_next = |spec: Spec| {
        let mut rig = Rig::new(TestJob::in_turn(spec));
        rig.tick();
        let facts = lastword_core::decide::send::decide(&rig.test.job, "ann", "and then", false);
        rig.test.anyone(facts);
        let outputs = rig.step(lastword_core::owner::Input::News);
        let due = effects(rig.settle(outputs));
        assert!(!told(&due), "{due:?}");
        assert_eq!((rig.test.count("paused"), rig.test.count("limit_fired")), (0, 0));
        let outputs = rig.says(ends(TurnEnding::Completed));
        let due = effects(rig.settle(outputs));
        assert!(!told(&due), "{due:?}");
        rig
    };
    let rig = with_next(Spec { limits: turns, ..agent() });
    assert_eq!(rig.test.count("limit_fired"), 1);
    // If the job asks a person, the prompt is delivered once the limit is raised.
    let mut rig = with_next(asking(turns));
    assert_eq!((rig.test.count("paused"), rig.test.count("limit_fired")), (1, 0));
    let due = raised(&mut rig, Limit::Turns, 2);
    assert!(due.contains(&GOES_ON) && told(&due), "{due:?}");
}

#[test]
fn c75_without_asking_a_limit_stops_at_once_and_time_limits_always_do() {
    let mut rig = Rig::new(TestJob::in_turn(Spec { limits: tokens(100), ..agent() }));
    rig.tick();
    let due = spends(&mut rig, 101);
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    let wall = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(asking(wall)));
    rig.tick();
    rig.later(10_000);
    rig.tick();
    let fired = |fact: &Fact| matches!(fact, Fact::LimitFired(fired) if fired.limit == Limit::Wall);
    assert_eq!(rig.test.log.iter().filter(|event| fired(&event.fact)).count(), 1);
    assert_eq!(rig.test.count("paused"), 0);
}

#[test]
fn a_stop_during_a_pause_is_due_at_once() {
    let mut rig = paused();
    rig.cancelled();
    let outputs = rig.step(lastword_core::owner::Input::News);
    let due = effects(rig.settle(outputs));
    assert!(matches!(due.as_slice(), [Effect::Stop { .. }]), "{due:?}");
    assert!(!rig.test.job.waits_for_person());
}

/// Sets where the budget of the job's group stands, and wakes the owner.
fn budget(rig: &mut Rig, exceeded: Option<Reached>) -> Vec<Effect> {
    rig.owner.record_budget(Standing { bounds_money: true, exceeded });
    let outputs = rig.step(lastword_core::owner::Input::News);
    effects(rig.settle(outputs))
}

const OF_GROUP: Reached = Reached { limit: Limit::GroupMoney, measured: 6, allowed: 5 };

#[test]
fn c90_a_group_over_its_budget_stops_an_agent_in_a_turn() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    assert_eq!(budget(&mut rig, None), []);
    budget(&mut rig, Some(OF_GROUP));
    let stop = rig.test.job.stop.as_ref().map(|stop| stop.cause);
    assert_eq!(stop, Some(Cause::Limit(Limit::GroupMoney)));
    // Neither one between turns, nor a command: they spend nothing.
    let idle = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    for test in [idle, TestJob::running(command())] {
        let mut rig = Rig::new(test);
        rig.tick();
        budget(&mut rig, Some(OF_GROUP));
        assert_eq!(rig.test.count("limit_fired"), 0);
    }
}

#[test]
fn c90_a_pause_at_the_budget_of_a_group_ends_with_it() {
    let mut rig = Rig::new(TestJob::in_turn(asking(Limits::default())));
    rig.tick();
    assert_eq!(budget(&mut rig, Some(OF_GROUP)), [STILL]);
    assert_eq!(budget(&mut rig, Some(Reached { measured: 9, ..OF_GROUP })), []);
    // The question is not answered with a limit of this job.
    let name = rig.test.job.pause.as_ref().expect("it is paused").name();
    assert!(matches!(answered(&mut rig, &name, &words("20")), Err(Refusal::Nothing(..))));
    assert_eq!(budget(&mut rig, None), [GOES_ON]);
    // It expires like any other.
    assert_eq!(budget(&mut rig, Some(OF_GROUP)), [STILL]);
    rig.later(EXPIRES_MS);
    rig.tick();
    assert_eq!(rig.test.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::GroupMoney)));
}

#[test]
fn c90_money_without_a_price_ends_the_turn_if_its_group_bounds_it() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let unpriced = || Signal::Unpriced { model: "new-model".to_owned() };
    let outputs = rig.says(unpriced());
    rig.settle(outputs);
    assert_eq!(rig.test.count("turn_ended"), 0);
    budget(&mut rig, None);
    let outputs = rig.says(unpriced());
    rig.settle(outputs);
    assert_eq!(rig.test.count("turn_ended"), 1);
}

#[test]
fn a_row_says_that_its_job_is_paused_at_a_limit_and_until_when() {
    let asks = |rig: &Rig| Row::of(&rig.test.job).summary.asks.map(|asks| *asks);
    let mut rig = paused();
    let since = rig.test.now.wall;
    let used = Used { limit: Limit::Tokens, used: 101, allowed: 100 };
    let expected = Asks {
        kind: None,
        limit: Some(used),
        text: String::new(),
        since,
        expires_at: Some(since.plus_ms(EXPIRES_MS)),
        others: 0,
    };
    assert_eq!(asks(&rig), Some(expected));
    // A higher limit that does not suffice is the one that is shown.
    raised(&mut rig, Limit::Tokens, 90);
    assert_eq!(asks(&rig).and_then(|asks| asks.limit), Some(Used { allowed: 90, ..used }));
    raised(&mut rig, Limit::Tokens, 200);
    assert_eq!(asks(&rig), None);
}
