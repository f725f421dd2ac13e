//! Sessions: their states, their questions, and what is due for them.

use lastword_core::decide::{limit, send};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{AttemptEnded, SessionChanged, SessionState, TurnEnding, TurnStarted};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::question::Ask;
use lastword_core::report::{Report, Signal};
use lastword_core::session::Session;
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, AttemptNo, InputNo, TurnNo};

use crate::common::{TestJob, agent, allow, becomes, commit, ends, exited, question, retried, session};

const STATES: [SessionState; 6] = [
    SessionState::Starting,
    SessionState::Running,
    SessionState::Ready,
    SessionState::Interrupted,
    SessionState::Stopped,
    SessionState::Errored,
];

fn of(test: &TestJob) -> &Session {
    test.job.session.as_ref().expect("it has a session")
}

#[test]
fn c76_only_starting_and_running_allow_a_turn() {
    for state in STATES {
        let holds = matches!(state, SessionState::Starting | SessionState::Running);
        assert_eq!(state.may_hold_turn(), holds);
        let heard = TestJob::in_turn(agent()).says(question("q1")).says(becomes(state));
        assert_eq!((of(&heard).active.is_some(), of(&heard).state), (holds, state));
        // The same if a log has only this fact, without the end of the turn.
        let mut bare = TestJob::in_turn(agent()).says(question("q1"));
        bare.owner(vec![SessionChanged { offset: 99, state, background: 0, awake: None }.into()]);
        assert_eq!((of(&bare).active.is_some(), of(&bare).questions.is_empty()), (holds, !holds));
    }
    let ended = TestJob::in_turn(agent()).emptied(exited(1));
    assert_eq!((of(&ended).active, of(&ended).state), (None, SessionState::Errored));
}

#[test]
fn c77_a_session_start_during_a_turn_changes_nothing() {
    let test = TestJob::in_turn(agent()).says(question("q1"));
    let notice = Report::Heard { attempt: AttemptNo(1), offset: 999, signal: session() };
    assert_eq!(test.observe(&notice), Vec::new());
    // Between turns it counts, and the conversation continues.
    let between = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed)).says(session());
    assert_eq!((of(&between).state, &of(&between).conversation), (SessionState::Starting, &commit()));
    // Before a launch there is no session.
    assert_eq!(TestJob::held(agent()).observe(&notice), Vec::new());
}

/// Returns an agent that exited in its second turn.
fn died_in_its_second_turn(attempts_max: u32) -> TestJob {
    let test = TestJob::in_turn(retried(attempts_max)).says(ends(TurnEnding::Completed));
    test.says(Signal::TurnStarted).emptied(exited(1))
}

#[test]
fn a_conversation_continues_only_within_its_attempt_or_by_a_resume() {
    let next = |resumed_from: Option<&str>| {
        let test = died_in_its_second_turn(2);
        let test = test.later(1_000).claimed("a", 1).intended().launched(2);
        let resumed_from = resumed_from.map(str::to_owned);
        TestJob { offset: 0, ..test }.says(Signal::SessionStarted { reference: None, resumed_from })
    };
    assert_eq!(of(&next(Some("ref-1"))).conversation, commit());
    assert_eq!(of(&next(None)).conversation, Default::default());
    assert_eq!(
        (of(&next(None)).attempt, of(&next(Some("x"))).resumed_from.as_deref()),
        (AttemptNo(2), Some("x"))
    );
}

#[test]
fn c79_a_settled_session_is_not_shown_as_working_and_may_be_closed() {
    let close = Effect::Close { attempt: AttemptNo(1) };
    let check = |test: &TestJob, settled: bool, working: bool, closes: bool| {
        let shown = format!("{:?}", test.job.session);
        assert_eq!(of(test).is_settled(), settled, "{shown}");
        assert_eq!(Row::of(&test.job).summary.working, working, "{shown}");
        assert_eq!(effects::due(&test.job, test.fence()).contains(&close), closes, "{shown}");
    };
    let done = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    check(&TestJob::running(agent()).says(session()), false, false, false);
    check(&TestJob::in_turn(agent()), false, true, false);
    check(&done, true, false, true);
    // Background work, a turn or a pending input keeps it open.
    let background = Signal::SessionChanged { state: SessionState::Ready, background: 1 };
    check(&done.clone().says(background.clone()), false, false, false);
    check(&done.clone().says(background).says(becomes(SessionState::Ready)), true, false, true);
    check(&done.clone().says(Signal::TurnStarted), false, true, false);
    let mut told = TestJob::in_turn(agent());
    let facts = send::decide(&told.job, "ann", "and the docs", false);
    told.anyone(facts);
    check(&told.says(ends(TurnEnding::Completed)), true, false, false);
    // Ready before any turn completed is not the end of the work, nor is an interrupt.
    check(&TestJob::running(agent()).says(session()).says(becomes(SessionState::Ready)), true, false, false);
    let mut interrupted = TestJob::in_turn(agent());
    let facts = lastword_core::decide::interrupt::decide(&interrupted.job, "ann", None);
    interrupted.anyone(facts);
    check(&interrupted.says(ends(TurnEnding::Aborted)), true, false, false);
    check(&done.clone().says(becomes(SessionState::Interrupted)), true, false, false);
    check(&done.says(becomes(SessionState::Running)), false, false, false);
}

#[test]
fn effects_of_an_older_session_are_not_due_for_a_new_attempt() {
    let test = died_in_its_second_turn(2);
    let test = test.later(1_000).claimed("a", 1).intended().launched(2);
    let due = effects::due(&test.job, test.fence());
    let wall = test.now.awake.plus_ms(4 * 3_600_000);
    let (attempt, at) = (AttemptNo(2), Some(wall));
    assert_eq!(due, vec![Effect::Watch { attempt }, Effect::Deadline { attempt, at }]);
    // Signals of the new attempt do not count before it has a session.
    let early = Report::Heard { attempt, offset: 999, signal: Signal::TurnStarted };
    assert_eq!(test.observe(&early), Vec::new());
}

#[test]
fn c81_open_questions_end_with_their_session() {
    let asked = || TestJob::in_turn(agent()).says(question("q1"));
    assert!(asked().job.waits_for_person() && Row::of(&asked().job).summary.waiting);
    let ways: [fn(TestJob) -> TestJob; 6] = [
        |test| test.says(ends(TurnEnding::Completed)),
        |test| test.says(ends(TurnEnding::Failed)),
        |test| test.says(becomes(SessionState::Stopped)),
        |test| test.says(Signal::TurnStarted),
        |test| test.cancelled().emptied(exited(0)),
        |test| test.emptied(exited(1)),
    ];
    for way in ways {
        let test = way(asked());
        assert!(of(&test).questions.is_empty(), "{:?}", test.kinds());
        assert!(!test.job.waits_for_person() && !Row::of(&test.job).summary.waiting);
        assert!(allow(&test.job, "q1").is_err());
    }
    // A stopping job waits for no person.
    assert!(!asked().cancelled().job.waits_for_person());
}

#[test]
fn c52_the_stall_clock_is_suspended_for_tools_questions_and_idle_agents() {
    let check = |test: TestJob, runs: bool| {
        let since = limit::stalled_since(&test.job, &test.pulse);
        assert_eq!(since, runs.then_some(test.pulse.progress), "{:?}", test.job.session);
        let later = test.now.awake.plus_ms(20 * 60_000);
        let fired = limit::fire(&test.job, &test.pulse, later);
        assert_eq!(fired.is_some(), runs);
    };
    check(TestJob::running(agent()).says(Signal::Progress), true);
    check(TestJob::in_turn(agent()), true);
    check(TestJob::in_turn(agent()).says(Signal::ToolStarted), false);
    check(TestJob::in_turn(agent()).says(Signal::ToolStarted).says(Signal::ToolEnded), true);
    check(
        TestJob::in_turn(agent()).says(Signal::ToolStarted).says(Signal::ToolStarted).says(Signal::ToolEnded),
        false,
    );
    check(TestJob::in_turn(agent()).says(Signal::ToolEnded).says(Signal::ToolStarted), false);
    check(TestJob::in_turn(agent()).says(Signal::ToolStarted).says(Signal::TurnStarted), true);
    check(TestJob::in_turn(agent()).says(question("q1")), false);
    check(
        TestJob::in_turn(agent()).says(question("q1")).says(Signal::QuestionClosed { question: "q1".into() }),
        true,
    );
    check(TestJob::in_turn(agent()).says(ends(TurnEnding::Completed)), false);
    check(TestJob::in_turn(agent()).says(becomes(SessionState::Ready)), false);
    assert_eq!(limit::stalled_since(&TestJob::held(agent()).job, &TestJob::held(agent()).pulse), None);
    assert_eq!(limit::stalled_since(&TestJob::launching(agent()).job, &TestJob::held(agent()).pulse), None);
}

#[test]
fn questions_and_titles_are_bounded() {
    let long = "é".repeat(5_000);
    let test = TestJob::running(agent())
        .says(Signal::SessionStarted { reference: Some(long.clone()), resumed_from: Some(long.clone()) });
    assert_eq!(of(&test).reference.as_ref().map(|text| text.chars().count()), Some(2_000));
    assert_eq!(of(&test).resumed_from.as_ref().map(|text| text.chars().count()), Some(2_000));
    let mut test = test.says(Signal::TurnStarted);
    for n in 0..70 {
        test = test.says(Signal::QuestionAsked {
            question: n.to_string(),
            text: long.clone(),
            ask: Box::new(Ask::permission("Bash", "make")),
            edits: Vec::new(),
        });
    }
    assert_eq!(of(&test).questions.len(), 64);
    assert!(of(&test).questions.iter().all(|question| question.text.chars().count() == 2_000));
    // A repeated question is one question.
    let again = TestJob::in_turn(agent()).says(question("q1")).says(question("q1"));
    assert_eq!(of(&again).questions.len(), 1);
    // A question outside a turn is ignored.
    let idle = TestJob::running(agent()).says(session());
    assert_eq!(
        idle.observe(&Report::Heard { attempt: AttemptNo(1), offset: 99, signal: question("q") }),
        Vec::new()
    );
}

#[test]
fn a_replayed_recording_adds_nothing() {
    let test = TestJob::in_turn(agent()).says(Signal::Spent(commit().usage));
    let usage = test.job.usage;
    for signal in [session(), Signal::TurnStarted, Signal::Spent(commit().usage), ends(TurnEnding::Failed)] {
        for offset in [0, 10, test.offset] {
            let report = Report::Heard { attempt: AttemptNo(1), offset, signal: signal.clone() };
            assert_eq!(test.observe(&report), Vec::new());
        }
    }
    assert_eq!((test.job.usage, test.job.attempts[0].heard), (usage, test.offset));
    // The heard offset never decreases.
    let mut back = test.clone();
    back.owner(vec![
        SessionChanged { offset: 1, state: SessionState::Running, background: 0, awake: None }.into(),
    ]);
    assert_eq!(back.job.attempts[0].heard, test.offset);
}

#[test]
fn turns_are_numbered_without_gaps_and_one_at_a_time() {
    let check = |test: &TestJob, turn: u32, why: Option<&str>| {
        let fact = TurnStarted { offset: 99, turn: TurnNo(turn), awake: None };
        let result =
            Append::new(&test.job, test.fence.as_ref(), AppendId(9), test.now.wall, vec![fact.into()]);
        let said = match &result {
            Err(lastword_core::Illegal::OutOfPlace { why, .. }) => Some(*why),
            _ => None,
        };
        assert_eq!(said, why);
    };
    let ready = TestJob::running(agent()).says(session());
    check(&ready, 1, None);
    check(&ready, 2, Some("the turn is not the next one"));
    check(&TestJob::in_turn(agent()), 2, Some("another turn is active"));
    check(&TestJob::running(agent()), 1, Some("there is no session"));
}

/// An answer that was not delivered in time is not delivered in the next turn.
#[test]
fn c81_an_undelivered_answer_ends_with_its_question() {
    let answered = || {
        let mut test = TestJob::in_turn(agent()).says(question("q1"));
        let facts = allow(&test.job, "q1");
        test.anyone(facts);
        test
    };
    let tell = Effect::Tell { attempt: AttemptNo(1), input: InputNo(1) };
    let open = answered();
    assert!(effects::due(&open.job, open.fence()).contains(&tell));
    for test in [
        answered().says(ends(TurnEnding::Completed)),
        answered().says(Signal::QuestionClosed { question: "q1".to_owned() }),
        answered().says(Signal::TurnStarted),
        answered().says(question("q1")),
    ] {
        assert!(!effects::due(&test.job, test.fence()).contains(&tell), "{:?}", test.kinds());
        assert!(test.job.inputs.is_empty());
    }
}

/// C69, C78: the end of an attempt ends its own session, not that of an earlier attempt.
#[test]
fn c78_an_attempt_ends_only_its_own_session() {
    let end = |error: Option<&str>| {
        let attempt = AttemptNo(1);
        let error = error.map(str::to_owned);
        let (outcome, cause) = (Outcome::Failed, Cause::Agent);
        let mut test = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
        test.owner(vec![
            AttemptEnded {
                attempt,
                outcome,
                cause,
                error,
                receipt: exited(1),
                cut_short: None,
                ran_ms: None,
            }
            .into(),
        ]);
        of(&test).state
    };
    assert_eq!((end(None), end(Some("broken pipe"))), (SessionState::Stopped, SessionState::Errored));
    let first = died_in_its_second_turn(3);
    let left = of(&first).clone();
    assert_eq!(left.state, SessionState::Errored);
    let test = first.later(1_000).claimed("a", 1).intended();
    let second = test.reports(Report::LaunchFailed {
        attempt: AttemptNo(2),
        error: "no".to_owned(),
        launch_error: None,
    });
    assert_eq!(of(&second), &left);
}
