//! Sessions: their states, their questions, and what is due for them.

use lastword_core::decide::{answer, limit, send};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{AttemptEnded, SessionChanged, SessionState, TurnEnding, TurnStarted};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::report::{Report, Signal};
use lastword_core::session::Session;
use lastword_core::view::row::Row;
use lastword_core::{Append, AppendId, AttemptNo, InputNo, TurnNo};

use crate::common::{Desk, agent, becomes, commit, ends, exited, question, retried, session};

const STATES: [SessionState; 6] = [
    SessionState::Starting,
    SessionState::Running,
    SessionState::Ready,
    SessionState::Interrupted,
    SessionState::Stopped,
    SessionState::Errored,
];

fn of(desk: &Desk) -> &Session {
    desk.job.session.as_ref().expect("it has a session")
}

#[test]
fn c76_only_starting_and_running_hold_a_turn_whatever_fact_says_so() {
    for state in STATES {
        let holds = matches!(state, SessionState::Starting | SessionState::Running);
        assert_eq!(state.may_hold_turn(), holds);
        let heard = Desk::in_turn(agent()).says(question("q1")).says(becomes(state));
        assert_eq!((of(&heard).active.is_some(), of(&heard).state), (holds, state));
        // The same if the fact comes bare, from a log that somebody else wrote.
        let mut bare = Desk::in_turn(agent()).says(question("q1"));
        bare.owner(vec![SessionChanged { offset: 99, state, background: 0 }.into()]);
        assert_eq!((of(&bare).active.is_some(), of(&bare).questions.is_empty()), (holds, !holds));
    }
    let ended = Desk::in_turn(agent()).emptied(exited(1));
    assert_eq!((of(&ended).active, of(&ended).state), (None, SessionState::Errored));
}

#[test]
fn c77_a_start_notice_in_mid_turn_changes_nothing() {
    let desk = Desk::in_turn(agent()).says(question("q1"));
    let notice = Report::Heard { attempt: AttemptNo(1), offset: 999, signal: session() };
    assert_eq!(desk.observe(&notice), Vec::new());
    // Between turns it is news, and the conversation goes on.
    let between = Desk::in_turn(agent()).says(ends(TurnEnding::Completed)).says(session());
    assert_eq!((of(&between).state, &of(&between).conversation), (SessionState::Starting, &commit()));
    // Before the tree there is nothing to start in.
    assert_eq!(Desk::held(agent()).observe(&notice), Vec::new());
}

/// An agent that may be tried again, and that died after a turn that counts.
fn died_in_its_second_turn(attempts_max: u32) -> Desk {
    let desk = Desk::in_turn(retried(attempts_max)).says(ends(TurnEnding::Completed));
    desk.says(Signal::TurnStarted).emptied(exited(1))
}

#[test]
fn a_conversation_goes_on_in_its_attempt_or_by_a_resume_and_not_otherwise() {
    let next = |resumed_from: Option<&str>| {
        let desk = died_in_its_second_turn(2);
        let desk = desk.later(1_000).claimed("a", 1).intended().launched(2);
        let resumed_from = resumed_from.map(str::to_owned);
        Desk { offset: 0, ..desk }.says(Signal::SessionStarted { reference: None, resumed_from })
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
    let check = |desk: &Desk, settled: bool, working: bool, closes: bool| {
        let shown = format!("{:?}", desk.job.session);
        assert_eq!(of(desk).is_settled(), settled, "{shown}");
        assert_eq!(Row::of(&desk.job).summary.working, working, "{shown}");
        assert_eq!(effects::due(&desk.job, desk.fence()).contains(&close), closes, "{shown}");
    };
    let done = Desk::in_turn(agent()).says(ends(TurnEnding::Completed));
    check(&Desk::running(agent()).says(session()), false, false, false);
    check(&Desk::in_turn(agent()), false, true, false);
    check(&done, true, false, true);
    // Live background work, another turn, or something still to be said: it is left alone.
    let background = Signal::SessionChanged { state: SessionState::Ready, background: 1 };
    check(&done.clone().says(background.clone()), false, false, false);
    check(&done.clone().says(background).says(becomes(SessionState::Ready)), true, false, true);
    check(&done.clone().says(Signal::TurnStarted), false, true, false);
    let mut told = done.clone();
    let facts = send::decide(&told.job, "ann", "and the docs", false);
    told.anyone(facts);
    check(&told, true, false, false);
    // Ready before any turn completed is not the end of the work, and neither is an interrupt.
    check(&Desk::running(agent()).says(session()).says(becomes(SessionState::Ready)), true, false, false);
    let mut interrupted = Desk::in_turn(agent());
    let facts = lastword_core::decide::interrupt::decide(&interrupted.job, "ann", None);
    interrupted.anyone(facts);
    check(&interrupted.says(ends(TurnEnding::Aborted)), true, false, false);
    check(&done.clone().says(becomes(SessionState::Interrupted)), true, false, false);
    check(&done.says(becomes(SessionState::Running)), false, false, false);
}

#[test]
fn effects_of_an_older_session_are_not_due_for_a_new_attempt() {
    let desk = died_in_its_second_turn(2);
    let desk = desk.later(1_000).claimed("a", 1).intended().launched(2);
    let due = effects::due(&desk.job, desk.fence());
    let wall = desk.now.awake.plus_ms(4 * 3_600_000);
    let (attempt, at) = (AttemptNo(2), Some(wall));
    assert_eq!(due, vec![Effect::Watch { attempt }, Effect::Deadline { attempt, at }]);
    // Nor does the agent say anything in it before it has a session of its own.
    let early = Report::Heard { attempt, offset: 999, signal: Signal::TurnStarted };
    assert_eq!(desk.observe(&early), Vec::new());
}

#[test]
fn c81_open_questions_end_with_their_session() {
    let asked = || Desk::in_turn(agent()).says(question("q1"));
    assert!(asked().job.waits_for_person() && Row::of(&asked().job).summary.waiting);
    let ways: [fn(Desk) -> Desk; 6] = [
        |desk| desk.says(ends(TurnEnding::Completed)),
        |desk| desk.says(ends(TurnEnding::Failed)),
        |desk| desk.says(becomes(SessionState::Stopped)),
        |desk| desk.says(Signal::TurnStarted),
        |desk| desk.cancelled().emptied(exited(0)),
        |desk| desk.emptied(exited(1)),
    ];
    for way in ways {
        let desk = way(asked());
        assert!(of(&desk).questions.is_empty(), "{:?}", desk.kinds());
        assert!(!desk.job.waits_for_person() && !Row::of(&desk.job).summary.waiting);
        assert!(answer::decide(&desk.job, "ann", "q1", "yes").is_err());
    }
    // A stop is not a question to anybody.
    assert!(!asked().cancelled().job.waits_for_person());
}

#[test]
fn c52_the_stall_clock_rests_while_a_tool_runs_a_person_is_asked_or_nothing_is_to_do() {
    let check = |desk: Desk, runs: bool| {
        let since = limit::stalled_since(&desk.job, &desk.pulse);
        assert_eq!(since, runs.then_some(desk.pulse.progress), "{:?}", desk.job.session);
        let later = desk.now.awake.plus_ms(20 * 60_000);
        let fired = limit::fire(&desk.job, &desk.pulse, later);
        assert_eq!(fired.is_some(), runs);
    };
    check(Desk::running(agent()).says(Signal::Progress), true);
    check(Desk::in_turn(agent()), true);
    check(Desk::in_turn(agent()).says(Signal::ToolStarted), false);
    check(Desk::in_turn(agent()).says(Signal::ToolStarted).says(Signal::ToolEnded), true);
    check(
        Desk::in_turn(agent()).says(Signal::ToolStarted).says(Signal::ToolStarted).says(Signal::ToolEnded),
        false,
    );
    check(Desk::in_turn(agent()).says(Signal::ToolEnded).says(Signal::ToolStarted), false);
    check(Desk::in_turn(agent()).says(Signal::ToolStarted).says(Signal::TurnStarted), true);
    check(Desk::in_turn(agent()).says(question("q1")), false);
    check(
        Desk::in_turn(agent()).says(question("q1")).says(Signal::QuestionClosed { question: "q1".into() }),
        true,
    );
    check(Desk::in_turn(agent()).says(ends(TurnEnding::Completed)), false);
    check(Desk::in_turn(agent()).says(becomes(SessionState::Ready)), false);
    assert_eq!(limit::stalled_since(&Desk::held(agent()).job, &Desk::held(agent()).pulse), None);
    assert_eq!(limit::stalled_since(&Desk::launching(agent()).job, &Desk::held(agent()).pulse), None);
}

#[test]
fn what_an_agent_says_is_bounded() {
    let long = "é".repeat(5_000);
    let desk = Desk::running(agent())
        .says(Signal::SessionStarted { reference: Some(long.clone()), resumed_from: Some(long.clone()) });
    assert_eq!(of(&desk).reference.as_ref().map(|text| text.chars().count()), Some(2_000));
    assert_eq!(of(&desk).resumed_from.as_ref().map(|text| text.chars().count()), Some(2_000));
    let mut desk = desk.says(Signal::TurnStarted);
    for n in 0..70 {
        desk = desk.says(Signal::QuestionAsked { question: n.to_string(), text: long.clone() });
    }
    assert_eq!(of(&desk).questions.len(), 64);
    assert!(of(&desk).questions.iter().all(|question| question.text.chars().count() == 2_000));
    // A question asked again is one question.
    let again = Desk::in_turn(agent()).says(question("q1")).says(question("q1"));
    assert_eq!(of(&again).questions.len(), 1);
    // Outside a turn nobody is asked.
    let idle = Desk::running(agent()).says(session());
    assert_eq!(
        idle.observe(&Report::Heard { attempt: AttemptNo(1), offset: 99, signal: question("q") }),
        Vec::new()
    );
}

#[test]
fn a_recording_read_again_gives_nothing_new() {
    let desk = Desk::in_turn(agent()).says(Signal::Spent(commit().usage));
    let usage = desk.job.usage;
    for signal in [session(), Signal::TurnStarted, Signal::Spent(commit().usage), ends(TurnEnding::Failed)] {
        for offset in [0, 10, desk.offset] {
            let report = Report::Heard { attempt: AttemptNo(1), offset, signal: signal.clone() };
            assert_eq!(desk.observe(&report), Vec::new());
        }
    }
    assert_eq!((desk.job.usage, desk.job.attempts[0].heard), (usage, desk.offset));
    // A heard mark never goes back.
    let mut back = desk.clone();
    back.owner(vec![SessionChanged { offset: 1, state: SessionState::Running, background: 0 }.into()]);
    assert_eq!(back.job.attempts[0].heard, desk.offset);
}

#[test]
fn turns_are_numbered_without_gaps_and_one_at_a_time() {
    let check = |desk: &Desk, turn: u32, why: Option<&str>| {
        let fact = TurnStarted { offset: 99, turn: TurnNo(turn) };
        let result =
            Append::new(&desk.job, desk.fence.as_ref(), AppendId(9), desk.now.wall, vec![fact.into()]);
        let said = match &result {
            Err(lastword_core::Illegal::OutOfPlace { why, .. }) => Some(*why),
            _ => None,
        };
        assert_eq!(said, why);
    };
    let ready = Desk::running(agent()).says(session());
    check(&ready, 1, None);
    check(&ready, 2, Some("the turn is not the next one"));
    check(&Desk::in_turn(agent()), 2, Some("another turn is active"));
    check(&Desk::running(agent()), 1, Some("there is no session"));
}

/// An answer that was not delivered in time answers nothing: it is not said into the next turn.
#[test]
fn c81_an_answer_ends_with_its_question() {
    let answered = || {
        let mut desk = Desk::in_turn(agent()).says(question("q1"));
        let facts = answer::decide(&desk.job, "ann", "q1", "yes");
        desk.anyone(facts);
        desk
    };
    let tell = Effect::Tell { attempt: AttemptNo(1), input: InputNo(1) };
    let open = answered();
    assert!(effects::due(&open.job, open.fence()).contains(&tell));
    for desk in [
        answered().says(ends(TurnEnding::Completed)),
        answered().says(Signal::QuestionClosed { question: "q1".to_owned() }),
        answered().says(Signal::TurnStarted),
        answered().says(question("q1")),
    ] {
        assert!(!effects::due(&desk.job, desk.fence()).contains(&tell), "{:?}", desk.kinds());
        assert!(desk.job.inputs.is_empty());
    }
}

/// C69, C78: the end of an attempt settles its own session, and not the one an earlier attempt left behind.
#[test]
fn c78_an_attempt_settles_its_own_session_only() {
    let end = |error: Option<&str>| {
        let attempt = AttemptNo(1);
        let error = error.map(str::to_owned);
        let (outcome, cause) = (Outcome::Failed, Cause::Agent);
        let mut desk = Desk::in_turn(agent()).says(ends(TurnEnding::Completed));
        desk.owner(vec![AttemptEnded { attempt, outcome, cause, error, receipt: exited(1) }.into()]);
        of(&desk).state
    };
    assert_eq!((end(None), end(Some("broken pipe"))), (SessionState::Stopped, SessionState::Errored));
    let first = died_in_its_second_turn(3);
    let left = of(&first).clone();
    assert_eq!(left.state, SessionState::Errored);
    let desk = first.later(1_000).claimed("a", 1).intended();
    let second = desk.reports(Report::LaunchFailed { attempt: AttemptNo(2), error: "no".to_owned() });
    assert_eq!(of(&second), &left);
}
