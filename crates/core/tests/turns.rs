//! Turns: what an agent reports, and what is stored.

use lastword_core::decide::{Refusal, hear, interrupt, limit, send};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{Commit, Fact, LimitFired, SessionState, TurnEnded, TurnEnding, Usage};
use lastword_core::job::Phase;
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::report::{Pulse, Report, Signal};
use lastword_core::session::Session;
use lastword_core::spec::{Dialect, Spec, Terms, Work};
use lastword_core::{AppendId, AttemptNo, Awake, TurnNo};

use crate::common::{TestJob, agent, becomes, commit, ends, exited, id, kinds, question, session};

const ENDINGS: [TurnEnding; 11] = [
    TurnEnding::Completed,
    TurnEnding::Failed,
    TurnEnding::Aborted,
    TurnEnding::Refused,
    TurnEnding::Limited,
    TurnEnding::Cancelled,
    TurnEnding::OverLimit(Limit::Wall),
    TurnEnding::Interrupted,
    TurnEnding::Superseded,
    TurnEnding::AgentExit,
    TurnEnding::RuntimeError,
];

fn spoken(dialect: Dialect) -> Spec {
    let terms = Box::new(Terms { dialect, ..Terms::default() });
    Spec::of(Work::Agent { provider: "any".to_owned(), prompt: "fix it".to_owned(), terms }, "/src")
}

fn limited(limits: Limits) -> Spec {
    Spec { limits, ..agent() }
}

fn conversation(test: &TestJob) -> &Commit {
    &test.job.session.as_ref().expect("it has a session").conversation
}

fn last_turn(test: &TestJob) -> Option<TurnEnding> {
    test.job.session.as_ref().and_then(|session| session.last_turn).map(|(_, ending)| ending)
}

fn interrupted(mut test: TestJob) -> TestJob {
    let facts = interrupt::decide(&test.job, "ann", None);
    test.anyone(facts);
    test
}

#[test]
fn c70_a_completed_turn_is_committed_exactly_once() {
    let test = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    assert_eq!(conversation(&test), &commit());
    // Replayed from the recording, or repeated later: nothing follows.
    let heard = test.offset;
    let again = |offset| Report::Heard { attempt: AttemptNo(1), offset, signal: ends(TurnEnding::Completed) };
    for offset in [0, 1, heard, heard + 10] {
        assert_eq!(test.observe(&again(offset)), Vec::new());
    }
    // A second turn adds to the first.
    let test = test.says(Signal::TurnStarted).says(Signal::TurnEnded {
        ending: TurnEnding::Completed,
        error: None,
        commit: Commit { messages: 1, transcript: 50, resume: None, ..commit() },
    });
    let twice = Commit {
        messages: 3,
        transcript: 90,
        denials: vec!["rm".to_owned(); 2],
        usage: Usage { tokens_in: 10, tokens_out: 12, money_micros: 14 },
        resume: Some("ref-1".to_owned()),
        mark: Some("mark-1".to_owned()),
    };
    assert_eq!(conversation(&test), &twice);
    assert_eq!(test.job.attempts[0].turns_completed, 2);
}

#[test]
fn c70_a_turn_that_did_not_complete_does_not_change_the_conversation() {
    let entry = || TestJob::in_turn(agent()).says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
    let spent = Usage { tokens_in: 1, tokens_out: 2, money_micros: 3 };
    let before = conversation(&entry()).clone();
    let check = |test: TestJob, ending: TurnEnding| {
        assert_eq!((conversation(&test), last_turn(&test)), (&before, Some(ending)));
        // Usage counts whether or not the turn completed: limits depend on it.
        assert_eq!(test.job.usage, spent);
    };
    let worked = || entry().says(Signal::Spent(spent));
    for said in ENDINGS.into_iter().filter(|ending| *ending != TurnEnding::Completed) {
        let test = worked().says(ends(said));
        let ending = last_turn(&test).expect("it ended");
        check(test, ending);
    }
    let said = || ends(TurnEnding::Completed);
    let mut fired = worked();
    fired.owner(vec![
        LimitFired { attempt: AttemptNo(1), limit: Limit::Stall, measured: 2, allowed: 1 }.into(),
    ]);
    check(fired.says(said()), TurnEnding::OverLimit(Limit::Stall));
    check(worked().cancelled().says(said()), TurnEnding::Cancelled);
    check(interrupted(worked()).says(said()), TurnEnding::Interrupted);
    check(worked().says(Signal::TurnStarted).says(ends(TurnEnding::Failed)), TurnEnding::Failed);
    for (limit, value) in [(Limit::Wall, 1), (Limit::Tokens, 2), (Limit::Money, 2), (Limit::Turns, 1)] {
        let mut test = worked().later(5);
        let facts = limit::decide(&test.job, "ann", limit, value);
        test.anyone(facts);
        check(test.says(said()), TurnEnding::OverLimit(limit));
    }
}

#[test]
fn c70_a_commit_with_any_other_ending_is_refused() {
    let test = TestJob::in_turn(agent());
    for ending in ENDINGS {
        let ended = TurnEnded {
            offset: 99,
            turn: TurnNo(1),
            ending,
            error: None,
            commit: Some(commit()),
            acknowledged: None,
            awake: None,
            active_ms: None,
        };
        let facts = vec![ended.into()];
        let result =
            lastword_core::Append::new(&test.job, test.fence.as_ref(), AppendId(9), test.now.wall, facts);
        assert_eq!(result.is_ok(), ending == TurnEnding::Completed, "{ending:?}");
    }
}

#[test]
fn c71_a_stop_request_takes_precedence_until_the_commit() {
    let completed = || ends(TurnEnding::Completed);
    // Before the turn: it does not begin.
    let set = TestJob::running(agent()).says(session()).cancelled();
    assert_eq!(kinds(&set.clone().says(Signal::TurnStarted).observe(&heard(999, completed()))), [""; 0]);
    // During the turn: it takes precedence over the commit and over a limit.
    let mut during = TestJob::in_turn(agent()).cancelled().later(5);
    let lowered = limit::decide(&during.job, "ann", Limit::Wall, 1);
    during.anyone(lowered);
    let during = during.says(completed());
    assert_eq!((last_turn(&during), during.count("limit_fired")), (Some(TurnEnding::Cancelled), 0));
    // After the commit: the turn does not change.
    let after = TestJob::in_turn(agent()).says(completed()).cancelled();
    assert_eq!((last_turn(&after), conversation(&after)), (Some(TurnEnding::Completed), &commit()));
}

fn heard(offset: u64, signal: Signal) -> Report {
    Report::Heard { attempt: AttemptNo(1), offset, signal }
}

#[test]
fn c72_a_late_stop_request_prevents_the_next_turn() {
    let test = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed)).cancelled();
    let next = test.says(Signal::TurnStarted);
    assert_eq!((next.count("turn_started"), next.job.active_turn()), (1, None));
    // So does a failed turn, and a limit that fired.
    let failed = TestJob::in_turn(agent()).says(ends(TurnEnding::Failed)).says(Signal::TurnStarted);
    assert_eq!(failed.count("turn_started"), 1);
}

#[test]
fn c73_a_deadline_between_the_last_check_and_the_commit_refuses_the_commit() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let just_before = TestJob::in_turn(limited(limits)).later(999).says(ends(TurnEnding::Completed));
    assert_eq!(
        (last_turn(&just_before), conversation(&just_before)),
        (Some(TurnEnding::Completed), &commit())
    );
    let test = TestJob::in_turn(limited(limits)).later(1_000).says(ends(TurnEnding::Completed));
    assert_eq!(test.kinds().split_off(6), ["limit_fired", "turn_ended"]);
    assert_eq!(conversation(&test), &Commit::default());
    assert_eq!(test.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Wall)));
    assert_eq!(
        test.emptied(exited(0)).job.last_word().map(|word| word.cause),
        Some(Cause::Limit(Limit::Wall))
    );
}

#[test]
fn an_interrupted_agent_waits_for_a_message_for_a_bounded_time() {
    let spec = || limited(Limits { idle_ms: Some(1_000), ..Limits::default() });
    let fired = |test: &TestJob| limit::fire(&test.job, &test.pulse, test.now.awake);
    let waiting = || interrupted(TestJob::in_turn(spec())).later(5_000).says(ends(TurnEnding::Aborted));
    let mut test = waiting().later(999);
    assert_eq!(fired(&test), None);
    assert_eq!(limit::next_check(&test.job, &test.pulse), Some(test.now.awake.plus_ms(1)));
    test = test.later(1);
    let fact = fired(&test).expect("the time is up");
    assert!(matches!(&fact, Fact::LimitFired(LimitFired { limit: Limit::Idle, measured: 1_000, .. })));
    test.owner(vec![fact]);
    let test = test.emptied(exited(0));
    assert_eq!(last_turn(&test), Some(TurnEnding::Interrupted));
    assert_eq!(test.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Idle)));
    // A message, a later turn, and work in the background end the wait.
    let mut told = waiting();
    let facts = send::decide(&told.job, "ann", "go on", false);
    told.anyone(facts);
    assert_eq!(fired(&told.later(2_000)), None);
    assert_eq!(fired(&waiting().says(Signal::TurnStarted).later(2_000)), None);
    let busy = Signal::SessionChanged { state: SessionState::Interrupted, background: 1 };
    assert_eq!(fired(&waiting().says(busy).later(2_000)), None);
    // A turn that was not interrupted begins none.
    assert_eq!(fired(&TestJob::in_turn(spec()).says(ends(TurnEnding::Completed)).later(2_000)), None);
}

#[test]
fn c75_without_limits_nothing_is_checked() {
    let off = Limits {
        wall_ms: Some(0),
        turn_ms: Some(0),
        active_ms: Some(0),
        handshake_ms: Some(0),
        idle_ms: Some(0),
        stall_ms: Some(0),
        output_bytes: Some(0),
        turns: Some(0),
        tokens: Some(0),
        money_micros: Some(0),
    };
    let test = TestJob::in_turn(limited(off)).says(Signal::Spent(Usage {
        tokens_in: u64::MAX,
        tokens_out: u64::MAX,
        money_micros: u64::MAX,
    }));
    let pulse = Pulse::default();
    assert_eq!(limit::next_check(&test.job, &pulse), None);
    assert_eq!(limit::fire(&test.job, &pulse, Awake(u64::MAX)), None);
    let unlimited = test.later(u64::MAX / 4).says(ends(TurnEnding::Completed));
    assert_eq!((last_turn(&unlimited), unlimited.count("limit_fired")), (Some(TurnEnding::Completed), 0));
    let deadline = Effect::Deadline { attempt: AttemptNo(1), at: None };
    assert!(effects::due(&unlimited.job, unlimited.fence()).contains(&deadline));
}

#[test]
fn c69_an_ended_turn_changes_nothing_more() {
    let ended = TestJob::in_turn(agent()).says(question("q1")).says(ends(TurnEnding::Completed));
    let before = ended.job.session.clone();
    for ghost in [
        ends(TurnEnding::Failed),
        ends(TurnEnding::Completed),
        question("q2"),
        Signal::QuestionClosed { question: "q1".to_owned() },
    ] {
        assert_eq!(ended.observe(&heard(9_999, ghost)), Vec::new());
    }
    let noted =
        ended.says(Signal::ItemCompleted { title: "late".to_owned() }).says(Signal::Spent(commit().usage));
    assert_eq!(noted.job.session, before);
}

#[test]
fn c78_every_turn_ending_leaves_the_session_without_a_turn() {
    let state = |ending| match ending {
        TurnEnding::Completed | TurnEnding::Superseded => SessionState::Ready,
        TurnEnding::Aborted | TurnEnding::Cancelled | TurnEnding::Interrupted => SessionState::Interrupted,
        TurnEnding::OverLimit(_) => SessionState::Stopped,
        TurnEnding::Failed
        | TurnEnding::Refused
        | TurnEnding::Limited
        | TurnEnding::AgentExit
        | TurnEnding::RuntimeError => SessionState::Errored,
    };
    for ending in ENDINGS {
        let mut test = TestJob::in_turn(agent()).says(question("q1"));
        let ended = TurnEnded {
            offset: 99,
            turn: TurnNo(1),
            ending,
            error: None,
            commit: None,
            acknowledged: None,
            awake: None,
            active_ms: None,
        };
        test.owner(vec![ended.into()]);
        let session = test.job.session.as_ref().expect("it has one");
        assert_eq!((session.active, session.state), (None, state(ending)));
        assert!(session.is_settled() && session.questions.is_empty());
        assert_eq!(session.last_turn, Some((TurnNo(1), ending)));
    }
}

#[test]
fn a_new_turn_supersedes_the_active_one() {
    let test = TestJob::in_turn(agent()).says(Signal::TurnStarted);
    assert_eq!(test.kinds().split_off(5), ["turn_started", "turn_ended", "turn_started"]);
    assert_eq!((last_turn(&test), test.job.active_turn()), (Some(TurnEnding::Superseded), Some(TurnNo(2))));
    let interrupted = interrupted(TestJob::in_turn(agent())).says(Signal::TurnStarted);
    assert_eq!(last_turn(&interrupted), Some(TurnEnding::Interrupted));
}

#[test]
fn c52_a_turn_over_the_limit_does_not_begin() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let turn = |test: TestJob| test.says(Signal::TurnStarted).says(ends(TurnEnding::Completed));
    let two = turn(turn(TestJob::running(limited(limits)).says(session())));
    assert_eq!((two.count("turn_started"), two.count("limit_fired")), (2, 0));
    let third = two.says(Signal::TurnStarted);
    assert_eq!((third.count("turn_started"), third.count("limit_fired")), (2, 1));
    assert_eq!(third.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Turns)));
}

#[test]
fn c80_an_interrupt_is_for_the_active_turn_or_refused() {
    let check = |test: &TestJob, turn: Option<u32>, expected: Result<&[&str], Refusal>| {
        let decided = interrupt::decide(&test.job, "ann", turn.map(TurnNo));
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec));
    };
    let none = Err(Refusal::Nothing(id(1), "no active turn to interrupt"));
    let other = Err(Refusal::Nothing(id(1), "another active turn; that one is over"));
    check(&TestJob::empty(), None, Err(Refusal::NotFound(id(1))));
    check(&TestJob::ended(0), None, Err(Refusal::Ended(id(1))));
    check(&TestJob::queued(agent()), None, none.clone());
    check(&TestJob::running(agent()), None, none.clone());
    let first = TestJob::in_turn(agent());
    check(&first, None, Ok(&["interrupt_requested"]));
    check(&first, Some(1), Ok(&["interrupt_requested"]));
    let later = Err(Refusal::Nothing(id(1), "another active turn; that one has not begun"));
    check(&first, Some(2), later);
    let asked = interrupted(first);
    assert_eq!(asked.job.session.as_ref().and_then(|session| session.interrupt), Some(TurnNo(1)));
    check(&asked, None, Ok(&[]));
    let due = effects::due(&asked.job, asked.fence());
    assert!(due.contains(&Effect::Interrupt { attempt: AttemptNo(1), turn: TurnNo(1) }));
    let over = asked.says(ends(TurnEnding::Aborted));
    check(&over, None, none);
    let second = over.says(Signal::TurnStarted);
    check(&second, Some(1), other);
    // The interrupt of the first turn does not affect the second.
    assert_eq!(second.job.session.as_ref().and_then(|session| session.interrupt), None);
    assert!(matches!(second.job.phase, Phase::Running));
}

#[test]
fn c82_a_reference_counts_only_after_a_completed_turn() {
    let resume =
        |test: &TestJob| test.job.session.as_ref().and_then(Session::resume_reference).map(str::to_owned);
    let retry = |test: TestJob| {
        lastword_core::decide::retry::decide(&test.job, &test.job).expect("it has ended").resume
    };
    let begun = TestJob::in_turn(agent());
    assert_eq!(begun.job.session.as_ref().and_then(|session| session.reference.as_deref()), Some("ref-0"));
    assert_eq!(resume(&begun), None);
    assert_eq!(resume(&begun.clone().says(ends(TurnEnding::Failed))), None);
    assert_eq!(retry(begun.clone().cancelled().emptied(exited(0))), None);
    let done = begun.says(ends(TurnEnding::Completed));
    assert_eq!(resume(&done).as_deref(), Some("ref-1"));
    // A turn cut short by the end is not part of the conversation that a retry resumes.
    let cut = done.says(Signal::TurnStarted).cancelled().emptied(exited(0));
    let again = retry(cut).expect("it resumes after the first turn");
    assert_eq!((again.provider.as_str(), again.reference.as_str()), ("codex", "ref-1"));
}

#[test]
fn an_inactive_session_ends_its_turn_by_its_state() {
    for (state, ending) in [
        (SessionState::Ready, TurnEnding::Aborted),
        (SessionState::Interrupted, TurnEnding::Aborted),
        (SessionState::Stopped, TurnEnding::AgentExit),
        (SessionState::Errored, TurnEnding::RuntimeError),
    ] {
        let test = TestJob::in_turn(agent()).says(becomes(state));
        let ended = test.log.iter().find_map(|event| match &event.fact {
            Fact::TurnEnded(ended) => Some(ended.clone()),
            _ => None,
        });
        let ended = ended.expect("the turn ended");
        assert_eq!((ended.ending, ended.error.is_some(), ended.commit), (ending, true, None));
        assert_eq!(test.job.session_state(), Some(state));
    }
    for state in [SessionState::Starting, SessionState::Running] {
        let test = TestJob::in_turn(agent()).says(becomes(state));
        assert_eq!((test.job.active_turn(), test.count("turn_ended")), (Some(TurnNo(1)), 0));
    }
}

/// An ending that only the log can decide is not taken from the agent.
#[test]
fn c28_an_agent_cannot_report_a_cancel_limit_or_interrupt_that_is_not_in_the_log() {
    for said in [TurnEnding::Cancelled, TurnEnding::OverLimit(Limit::Money), TurnEnding::Interrupted] {
        let test = TestJob::in_turn(agent()).says(ends(said));
        assert_eq!(last_turn(&test), Some(TurnEnding::Aborted), "{said:?}");
        assert_eq!(test.emptied(exited(0)).job.last_word().map(|word| word.cause), Some(Cause::Agent));
    }
}

/// A turn that begins with an input has the offset of the signal before it. An older one was heard already.
#[test]
fn a_turn_may_begin_at_the_offset_of_the_signal_before() {
    let test = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    let begins = |offset| {
        let report = Report::Heard { attempt: test.attempt(), offset, signal: Signal::TurnStarted };
        !test.observe(&report).is_empty()
    };
    assert!(begins(test.offset) && !begins(test.offset - 1));
}

/// A prompt is not delivered before the owner knows that there will be a next turn.
#[test]
fn c72_c74_a_prompt_is_due_only_after_the_turn_before_it_is_decided() {
    let with_two = |mut test: TestJob| {
        for text in ["and then", "and at last"] {
            let facts = send::decide(&test.job, "ann", text, false);
            test.anyone(facts);
        }
        test
    };
    let told = |test: &TestJob| {
        let due = effects::due(&test.job, test.fence()).into_iter();
        let told = due
            .filter_map(|effect| if let Effect::Tell { input, .. } = effect { Some(input.0) } else { None });
        told.collect::<Vec<u32>>()
    };
    let none: Vec<u32> = Vec::new();
    // The first turn begins with the job's own prompt.
    assert_eq!(told(&with_two(TestJob::running(agent()))), none);
    let in_turn = || with_two(TestJob::in_turn(agent()));
    assert_eq!(told(&in_turn()), none);
    assert_eq!(told(&in_turn().says(ends(TurnEnding::Failed))), none);
    assert_eq!(told(&in_turn().cancelled().says(ends(TurnEnding::Completed))), none);
    let between = in_turn().says(ends(TurnEnding::Completed));
    assert_eq!(told(&between), [1]);
    assert_eq!(told(&between.says(Signal::TurnStarted)), none);
    assert_eq!(told(&interrupted(in_turn()).says(ends(TurnEnding::Interrupted))), [1]);
    // A steering input is delivered in the turn if the agent supports it; else it waits too.
    let steered = |dialect| {
        let mut test = TestJob::in_turn(spoken(dialect));
        let facts = send::steer(&test.job, "ann", "another way");
        test.anyone(facts);
        told(&test)
    };
    assert_eq!((steered(Dialect::Codex), steered(Dialect::Acp)), (vec![1], none));
}

#[test]
fn c74_the_first_turn_that_does_not_complete_stops_the_job() {
    let check = |test: TestJob, goes_on: bool| {
        assert_eq!(test.job.stop.is_none(), goes_on, "{:?}", last_turn(&test));
        assert_eq!(matches!(test.job.phase, Phase::Running), goes_on);
        assert_eq!(test.job.active_turn(), None);
    };
    for said in ENDINGS {
        let goes_on = matches!(said, TurnEnding::Completed | TurnEnding::Superseded);
        check(TestJob::in_turn(agent()).says(ends(said)), goes_on);
        // An interrupted turn does not stop the job, whatever the agent reports.
        check(interrupted(TestJob::in_turn(agent())).says(ends(said)), true);
    }
    let failed = TestJob::in_turn(agent()).says(ends(TurnEnding::Failed)).emptied(exited(0));
    assert_eq!(failed.outcome(), Some(Outcome::Failed));
}

#[test]
fn c94_an_agent_that_went_idle_has_ended_its_turn() {
    let at = |test: &TestJob| hear::inactive(&test.job, &test.pulse, test.now.awake);
    let idle = |failed| TestJob::in_turn(agent()).says(Signal::Inactive { failed });
    for (failed, ending) in [(false, TurnEnding::Aborted), (true, TurnEnding::RuntimeError)] {
        let early = idle(failed).later(hear::SETTLE_MS - 1);
        assert_eq!(at(&early), None);
        assert_eq!(hear::next_inactive(&early.job, &early.pulse), Some(early.now.awake.plus_ms(1)));
        // What it says besides changes nothing, and the clock does not start anew.
        let mut late = early.says(Signal::Progress).says(Signal::Inactive { failed: false }).later(1);
        let fact = at(&late).expect("it is due");
        late.owner(vec![fact]);
        assert_eq!((last_turn(&late), late.job.active_turn()), (Some(ending), None));
        // The message that should have ended the turn comes too late.
        assert_eq!(at(&late), None);
        assert_eq!(late.clone().says(ends(TurnEnding::Completed)).count("turn_ended"), 1);
        assert_eq!(late.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Agent));
    }
}

#[test]
fn c94_the_message_that_ends_the_turn_takes_precedence() {
    let at = |test: TestJob| {
        let test = test.later(hear::SETTLE_MS);
        (hear::inactive(&test.job, &test.pulse, test.now.awake), last_turn(&test))
    };
    let idle = || TestJob::in_turn(agent()).says(Signal::Inactive { failed: false });
    assert_eq!(at(idle().says(ends(TurnEnding::Completed))), (None, Some(TurnEnding::Completed)));
    // It works again.
    assert_eq!(at(idle().says(Signal::Active)), (None, None));
    assert_eq!(at(idle().says(Signal::ToolStarted)), (None, None));
    assert_eq!(at(idle().says(Signal::ItemCompleted { title: "one".to_owned() })), (None, None));
    assert_eq!(at(idle().says(Signal::Spent(Usage::default()))), (None, None));
    // It asks, before or after it said so.
    assert_eq!(at(idle().says(question("q1"))), (None, None));
    let asking = TestJob::in_turn(agent()).says(question("q1")).says(Signal::Inactive { failed: false });
    assert_eq!(at(asking), (None, None));
    // The idle word was about the turn before.
    let next = idle().says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
    assert_eq!(at(next), (None, Some(TurnEnding::Completed)));
    // Without a turn there is nothing to end.
    assert_eq!(
        at(TestJob::running(agent()).says(session()).says(Signal::Inactive { failed: true })),
        (None, None)
    );
}

#[test]
fn an_interrupted_agent_that_went_idle_is_interrupted() {
    let mut test = interrupted(TestJob::in_turn(agent())).says(Signal::Inactive { failed: false });
    test = test.later(hear::SETTLE_MS);
    let fact = hear::inactive(&test.job, &test.pulse, test.now.awake).expect("it is due");
    test.owner(vec![fact]);
    assert_eq!(last_turn(&test), Some(TurnEnding::Interrupted));
    assert!(matches!(test.job.phase, Phase::Running));
}

#[test]
fn a_turn_that_was_told_to_end_says_whether_the_agent_did() {
    let acknowledged = |test: &TestJob| {
        let mut ends = test.log.iter().filter_map(|event| match &event.fact {
            Fact::TurnEnded(ended) => Some((ended.ending, ended.acknowledged)),
            _ => None,
        });
        ends.next_back().expect("a turn ended")
    };
    let told = || TestJob::in_turn(agent()).cancelled();
    let (cancelled, interrupt) = (TurnEnding::Cancelled, TurnEnding::Interrupted);
    assert_eq!(acknowledged(&told().says(ends(TurnEnding::Aborted))), (cancelled, Some(true)));
    assert_eq!(acknowledged(&told().says(ends(TurnEnding::AgentExit))), (cancelled, Some(false)));
    assert_eq!(acknowledged(&told().emptied(exited(0))), (cancelled, Some(false)));
    let told = || interrupted(TestJob::in_turn(agent()));
    assert_eq!(acknowledged(&told().says(ends(TurnEnding::Aborted))), (interrupt, Some(true)));
    assert_eq!(acknowledged(&told().says(becomes(SessionState::Ready))), (interrupt, Some(false)));
    // It ended in its own way before it heard of it.
    let late = interrupted(TestJob::in_turn(agent())).says(ends(TurnEnding::Completed));
    assert_eq!(acknowledged(&late), (interrupt, None));
    // Nothing told these to end.
    let completed = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    assert_eq!(acknowledged(&completed), (TurnEnding::Completed, None));
    let died = TestJob::in_turn(agent()).says(ends(TurnEnding::AgentExit));
    assert_eq!(acknowledged(&died), (TurnEnding::AgentExit, None));
}

#[test]
fn the_exit_of_an_agent_without_a_session_is_a_turn_that_did_not_complete() {
    let died = || Signal::Unopened { error: "it exited with 3".to_owned() };
    let test = TestJob::running(agent()).says(died());
    assert_eq!(
        test.kinds().split_off(4),
        ["session_started", "turn_started", "turn_ended", "session_changed"]
    );
    assert_eq!(last_turn(&test), Some(TurnEnding::AgentExit));
    assert_eq!(
        test.job.session.as_ref().and_then(|session| session.last_error.as_deref()),
        Some("it exited with 3")
    );
    // One that is told to stop owes none, and one that had a session has said what it had to say.
    assert_eq!(TestJob::running(agent()).cancelled().says(died()).count("session_started"), 0);
    let ready = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    assert_eq!(ready.says(died()).count("turn_ended"), 1);
}

/// Its input is closed then, so that a message could not be delivered, and work that is done would count as failed.
#[test]
fn an_agent_that_has_finished_takes_no_more_messages() {
    let refused = |test: &TestJob| {
        let by_send = send::decide(&test.job, "ann", "more", false).is_err();
        assert_eq!(by_send, send::steer(&test.job, "ann", "more").is_err());
        by_send
    };
    let working = TestJob::in_turn(agent());
    assert!(!refused(&working));
    let finished = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    assert!(refused(&finished));
    // One that was told more before its turn ended has more to do.
    let mut told = TestJob::in_turn(agent());
    told.anyone(send::decide(&told.job, "ann", "more", false));
    let told = told.says(ends(TurnEnding::Completed));
    assert!(!refused(&told));
    // After an interrupt it waits for a message.
    let mut interrupted = TestJob::in_turn(agent());
    interrupted.anyone(interrupt::decide(&interrupted.job, "ann", None));
    assert!(!refused(&interrupted.says(ends(TurnEnding::Aborted))));
}
