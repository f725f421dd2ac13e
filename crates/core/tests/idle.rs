//! Agents that stay open between turns: without a turn, a slot or a running clock, until a message comes or their idle time is over.

use lastword_core::decide::claim::{self, Lease};
use lastword_core::decide::{limit, reschedule, send, submit};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{Fact, SessionState, TurnEnding};
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Begun, Cause, Clock, Outcome};
use lastword_core::owner::{Input, Output};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{Dialect, Spec, Terms, Work};
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{AttemptNo, Job, Timestamp};

use crate::common::{TestJob, agent, becomes, claimant, ends, exited, tree};
use crate::rig::{FIRST, Rig};

const IDLE_MS: u64 = 60_000;

fn open() -> Spec {
    let limits = Limits { wall_ms: Some(10_000), idle_ms: Some(IDLE_MS), ..Limits::default() };
    Spec { stays_open: true, limits, ..agent() }
}

/// Returns an agent that stays open, after its first turn.
fn idle() -> TestJob {
    TestJob::in_turn(open()).later(1_000).says(ends(TurnEnding::Completed))
}

fn sent(mut test: TestJob, text: &str) -> TestJob {
    test.anyone(send::decide(&test.job, "ann", text, false));
    test
}

/// Claims a slot for the message that waits, as the journal does for the holder.
fn woken(mut test: TestJob) -> TestJob {
    let facts = claim::decide(&test.job, &claimant("a", 1), Lease::Live, test.now.wall);
    test.owner(facts.expect("it is due"));
    test
}

fn tells(job: &Job, test: &TestJob) -> bool {
    effects::due(job, test.fence()).iter().any(|effect| matches!(effect, Effect::Tell { .. }))
}

#[test]
fn c93_an_idle_agent_has_no_turn_and_no_slot_and_is_shown_as_idle() {
    let test = idle();
    let row = Row::of(&test.job);
    assert_eq!((row.phase, row.due, row.has_slot()), (PhaseName::Idle, None, false));
    assert!(row.holder.is_some() && !row.summary.working && !row.summary.waiting);
    assert_eq!(row.summary.rests, Some(SessionState::Ready));
    let due = effects::due(&test.job, test.fence());
    assert!(
        !due.iter().any(|effect| matches!(effect, Effect::Close { .. } | Effect::Stop { .. })),
        "{due:?}"
    );
    // One that does not stay open ends, and keeps its slot until then.
    let closes = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    assert!(!closes.job.idle && Row::of(&closes.job).has_slot());
}

#[test]
fn c93_a_message_waits_for_a_slot_that_only_the_holder_can_claim() {
    let test = sent(idle().later(5_000), "now the tests");
    let (sent_at, row) = (test.now.wall, Row::of(&test.job));
    assert_eq!((row.phase, row.due), (PhaseName::Idle, Some(sent_at)));
    assert!(!tells(&test.job, &test), "it is not given to the agent before there is a slot");
    // A second message does not lose the place of the first.
    let test = sent(test.later(1_000), "and the docs");
    assert_eq!(test.job.due(), Some(sent_at));
    for (who, life) in [("a", 2), ("b", 1)] {
        let claimed = claim::decide(&test.job, &claimant(who, life), Lease::Live, test.now.wall);
        assert!(claimed.is_err(), "{claimed:?}");
    }
    let early = claim::decide(&test.job, &claimant("a", 1), Lease::Live, Timestamp(sent_at.0 - 1));
    assert!(early.is_err(), "{early:?}");
    let test = woken(test);
    assert_eq!(Row::of(&test.job).phase, PhaseName::Running);
    assert!(Row::of(&test.job).has_slot() && test.job.due().is_none() && tells(&test.job, &test));
    let again = claim::decide(&test.job, &claimant("a", 1), Lease::Live, test.now.wall);
    assert!(again.is_err(), "it has one: {again:?}");
    assert!(
        claim::decide(&idle().job, &claimant("a", 1), Lease::Live, test.now.wall).is_err(),
        "nothing waits"
    );
}

#[test]
fn c93_its_clocks_rest_until_the_next_turn() {
    let mut rig = Rig::new(idle());
    let begun = rig.test.now.awake;
    rig.later(50_000);
    rig.tick();
    assert_eq!(
        (rig.test.count("limit_fired"), rig.test.count("rested")),
        (0, 0),
        "five times its wall clock"
    );
    assert!(
        effects::due(rig.owner.job(), rig.test.fence())
            .contains(&Effect::Deadline { attempt: FIRST, at: None })
    );
    rig.test = sent(rig.test, "go on");
    // However long it waits for its slot.
    rig.later(50_000);
    let outputs = rig.step(Input::News);
    rig.settle(outputs);
    rig.tick();
    assert_eq!(rig.test.count("limit_fired"), 0);
    rig.test = woken(rig.test);
    let outputs = rig.step(Input::News);
    let effects = rig.settle(outputs);
    assert_eq!(rig.test.count("rested"), 1);
    assert!(effects.iter().any(|output| matches!(output, Output::Do(Effect::Tell { .. }))), "{effects:?}");
    // It ran for a second before.
    let deadline = Effect::Deadline { attempt: FIRST, at: Some(begun.plus_ms(100_000 + 9_000)) };
    assert!(effects::due(rig.owner.job(), rig.test.fence()).contains(&deadline));
}

#[test]
fn c93_it_is_ended_by_its_idle_time_with_a_cause_of_its_own() {
    let mut rig = Rig::new(idle());
    rig.later(IDLE_MS - 1);
    rig.tick();
    assert_eq!(rig.test.count("limit_fired"), 0);
    rig.later(1);
    rig.tick();
    assert_eq!(rig.test.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Idle)));
    let ended = rig.test.emptied(exited(143));
    let word = ended.job.last_word().expect("it has ended");
    assert_eq!((word.outcome, word.cause), (Outcome::Completed, Cause::Limit(Limit::Idle)));
    let end = ended.job.attempts[0].end.as_ref().expect("it has ended");
    assert_eq!(end.cut_short, None, "nothing was cut short");
}

#[test]
fn c93_a_stop_of_an_idle_agent_leaves_what_its_turns_achieved() {
    let stopped = |test: TestJob| test.cancelled().emptied(exited(143));
    let completed = stopped(idle());
    let word = completed.job.last_word().expect("it has ended");
    assert_eq!((word.outcome, word.cause), (Outcome::Completed, Cause::User));
    assert_eq!(word.by.as_deref(), Some("ann"));
    let interrupted = |test: TestJob| {
        let mut test = sent(test, "now the tests");
        test = woken(test).says(Signal::TurnStarted);
        let input = test.job.inputs[0].no;
        test = test.reports(Report::Told { input });
        test.anyone(lastword_core::decide::interrupt::decide(&test.job, "ann", None));
        test.says(ends(TurnEnding::Aborted))
    };
    let test = interrupted(idle());
    assert_eq!(Row::of(&test.job).phase, PhaseName::Idle, "it waits for a message as well");
    let word = stopped(test).job.last_word().cloned().expect("it has ended");
    assert_eq!((word.outcome, word.cause), (Outcome::Cancelled(Begun::WhileRunning), Cause::User));
    let over = interrupted(idle()).later(IDLE_MS);
    let fired = limit::fire(&over.job, &over.pulse, over.now.awake).expect("its idle time is over");
    let mut over = over;
    over.owner(vec![fired]);
    let word = over.emptied(exited(143)).job.last_word().cloned().expect("it has ended");
    assert_eq!((word.outcome, word.cause), (Outcome::TimedOut(Clock::Stall), Cause::Limit(Limit::Idle)));
}

#[test]
fn c93_work_in_the_background_keeps_the_slot_until_it_is_done() {
    let tool = Signal::SessionChanged { state: SessionState::Running, background: 1 };
    let test = TestJob::in_turn(open()).says(tool).says(ends(TurnEnding::Completed));
    assert!(!test.job.idle && Row::of(&test.job).has_slot());
    let test = test.later(70_000).says(becomes(SessionState::Ready));
    assert!(test.job.idle);
    // Its idle time begins then.
    assert_eq!(limit::fire(&test.job, &test.pulse, test.now.awake.plus_ms(IDLE_MS - 1)), None);
    // It may say so again.
    let again = test.clone().later(1_000).says(becomes(SessionState::Ready));
    assert!(limit::fire(&again.job, &again.pulse, test.now.awake.plus_ms(IDLE_MS)).is_some());
    // An agent that begins a turn by itself is not idle.
    assert!(!test.says(Signal::TurnStarted).job.idle);
}

#[test]
fn c93_a_later_owner_adopts_it_idle_and_gives_it_the_message() {
    let test = sent(idle().later(2_000), "now the tests").claimed("a", 2);
    assert_eq!(Row::of(&test.job).phase, PhaseName::Idle);
    let alive = Found::Alive { tree: tree(100), awake: lastword_core::Awake(500) };
    let mut test = test.reports(Report::Located { attempt: AttemptNo(1), found: alive });
    assert!(test.job.idle && !tells(&test.job, &test));
    let facts = claim::decide(&test.job, &claimant("a", 2), Lease::Live, test.now.wall).expect("it is due");
    test.owner(facts);
    assert!(tells(&test.job, &test));
    // One whose tree died meanwhile ends as it would have.
    let gone = idle().claimed("a", 2);
    let gone =
        gone.reports(Report::Located { attempt: AttemptNo(1), found: Found::Ended(Box::new(exited(0))) });
    assert_eq!(gone.outcome(), Some(Outcome::Completed));
}

/// A clock that was ahead must not keep the message for as long.
#[test]
fn c93_a_message_that_came_by_a_wrong_clock_is_due_when_the_clock_is_set_right() {
    let mut test = sent(idle().later(3_600_000), "go on");
    let right = Timestamp(test.now.wall.0 - 3_600_000);
    let facts = reschedule::decide(&test.job, right).expect("it may");
    assert!(matches!(&facts[..], [Fact::Rescheduled(it)] if it.due == right), "{facts:?}");
    test.anyone(Ok(facts));
    assert_eq!(test.job.due(), Some(right));
    assert_eq!(reschedule::decide(&idle().job, Timestamp(0)), Ok(Vec::new()));
}

#[test]
fn c93_an_agent_that_cannot_stay_open_is_refused() {
    let refused =
        |spec: Spec| submit::decide(&TestJob::empty().job, &spec.into(), "ann", Limits::default()).is_err();
    assert!(!refused(open()));
    for dialect in [Dialect::Plain, Dialect::Once] {
        let Work::Agent { provider, prompt, terms } = agent().work else { panic!("it is an agent") };
        let work = Work::Agent { provider, prompt, terms: Box::new(Terms { dialect, ..*terms }) };
        assert!(refused(Spec { work, ..open() }), "{dialect:?}");
    }
    let endless = Limits { idle_ms: Some(0), ..Limits::default() };
    assert!(refused(Spec { limits: endless, ..open() }), "it would stay for ever");
}
