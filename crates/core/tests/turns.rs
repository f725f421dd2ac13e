//! Turns: what an agent says about them, and what the log makes of it.

use lastword_core::decide::{Refusal, interrupt, limit, send};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{Commit, Fact, LimitFired, SessionState, TurnEnded, TurnEnding, Usage};
use lastword_core::job::Phase;
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::report::{Pulse, Report, Signal};
use lastword_core::session::Session;
use lastword_core::spec::{Dialect, Spec, Terms, Work};
use lastword_core::{AppendId, AttemptNo, Awake, TurnNo};

use crate::common::{Desk, agent, becomes, commit, ends, exited, id, kinds, question, session};

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

fn conversation(desk: &Desk) -> &Commit {
    &desk.job.session.as_ref().expect("it has a session").conversation
}

fn last_turn(desk: &Desk) -> Option<TurnEnding> {
    desk.job.session.as_ref().and_then(|session| session.last_turn).map(|(_, ending)| ending)
}

fn interrupted(mut desk: Desk) -> Desk {
    let facts = interrupt::decide(&desk.job, "ann", None);
    desk.anyone(facts);
    desk
}

#[test]
fn c70_a_completed_turn_is_committed_exactly_once() {
    let desk = Desk::in_turn(agent()).says(ends(TurnEnding::Completed));
    assert_eq!(conversation(&desk), &commit());
    // Heard again from the start of the recording, or said again further on: nothing follows.
    let heard = desk.offset;
    let again = |offset| Report::Heard { attempt: AttemptNo(1), offset, signal: ends(TurnEnding::Completed) };
    for offset in [0, 1, heard, heard + 10] {
        assert_eq!(desk.observe(&again(offset)), Vec::new());
    }
    // A second turn adds to the first.
    let desk = desk.says(Signal::TurnStarted).says(Signal::TurnEnded {
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
    };
    assert_eq!(conversation(&desk), &twice);
    assert_eq!(desk.job.attempts[0].turns_completed, 2);
}

#[test]
fn c70_a_turn_that_did_not_complete_leaves_the_conversation_as_it_was() {
    let entry = || Desk::in_turn(agent()).says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
    let spent = Usage { tokens_in: 1, tokens_out: 2, money_micros: 3 };
    let before = conversation(&entry()).clone();
    let check = |desk: Desk, ending: TurnEnding| {
        assert_eq!((conversation(&desk), last_turn(&desk)), (&before, Some(ending)));
        // Usage counts whether or not the turn completed: limits depend on it.
        assert_eq!(desk.job.usage, spent);
    };
    let worked = || entry().says(Signal::Spent(spent));
    for said in ENDINGS.into_iter().filter(|ending| *ending != TurnEnding::Completed) {
        let desk = worked().says(ends(said));
        let ending = last_turn(&desk).expect("it ended");
        check(desk, ending);
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
        let mut desk = worked().later(5);
        let facts = limit::decide(&desk.job, "ann", limit, value);
        desk.anyone(facts);
        check(desk.says(said()), TurnEnding::OverLimit(limit));
    }
}

#[test]
fn c70_a_commit_beside_any_other_ending_does_not_follow() {
    let desk = Desk::in_turn(agent());
    for ending in ENDINGS {
        let ended = TurnEnded { offset: 99, turn: TurnNo(1), ending, error: None, commit: Some(commit()) };
        let facts = vec![ended.into()];
        let result =
            lastword_core::Append::new(&desk.job, desk.fence.as_ref(), AppendId(9), desk.now.wall, facts);
        assert_eq!(result.is_ok(), ending == TurnEnding::Completed, "{ending:?}");
    }
}

#[test]
fn c71_a_request_beats_every_other_check_before_the_commit_and_nothing_after() {
    let completed = || ends(TurnEnding::Completed);
    // Already set: the first word of a turn is not even begun.
    let set = Desk::running(agent()).says(session()).cancelled();
    assert_eq!(kinds(&set.clone().says(Signal::TurnStarted).observe(&heard(999, completed()))), [""; 0]);
    // Set during the work: honoured before the commit, and before a limit that is reached as well.
    let mut during = Desk::in_turn(agent()).cancelled().later(5);
    let lowered = limit::decide(&during.job, "ann", Limit::Wall, 1);
    during.anyone(lowered);
    let during = during.says(completed());
    assert_eq!((last_turn(&during), during.count("limit_fired")), (Some(TurnEnding::Cancelled), 0));
    // After the commit: nothing of the turn is rewritten.
    let after = Desk::in_turn(agent()).says(completed()).cancelled();
    assert_eq!((last_turn(&after), conversation(&after)), (Some(TurnEnding::Completed), &commit()));
}

fn heard(offset: u64, signal: Signal) -> Report {
    Report::Heard { attempt: AttemptNo(1), offset, signal }
}

#[test]
fn c72_a_request_set_late_in_a_turn_stops_the_next_at_its_entry() {
    let desk = Desk::in_turn(agent()).says(ends(TurnEnding::Completed)).cancelled();
    let next = desk.says(Signal::TurnStarted);
    assert_eq!((next.count("turn_started"), next.job.active_turn()), (1, None));
    // And so does a failed turn, and a limit that fired.
    let failed = Desk::in_turn(agent()).says(ends(TurnEnding::Failed)).says(Signal::TurnStarted);
    assert_eq!(failed.count("turn_started"), 1);
}

#[test]
fn c73_a_deadline_between_the_last_check_and_the_commit_refuses_the_commit() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let just_before = Desk::in_turn(limited(limits)).later(999).says(ends(TurnEnding::Completed));
    assert_eq!(
        (last_turn(&just_before), conversation(&just_before)),
        (Some(TurnEnding::Completed), &commit())
    );
    let desk = Desk::in_turn(limited(limits)).later(1_000).says(ends(TurnEnding::Completed));
    assert_eq!(desk.kinds().split_off(6), ["limit_fired", "turn_ended"]);
    assert_eq!(conversation(&desk), &Commit::default());
    assert_eq!(desk.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Wall)));
    assert_eq!(
        desk.emptied(exited(0)).job.last_word().map(|word| word.cause),
        Some(Cause::Limit(Limit::Wall))
    );
}

#[test]
fn c75_without_limits_nothing_is_looked_at() {
    let off = Limits {
        wall_ms: Some(0),
        stall_ms: Some(0),
        output_bytes: Some(0),
        turns: Some(0),
        tokens: Some(0),
        money_micros: Some(0),
    };
    let desk = Desk::in_turn(limited(off)).says(Signal::Spent(Usage {
        tokens_in: u64::MAX,
        tokens_out: u64::MAX,
        money_micros: u64::MAX,
    }));
    let pulse = Pulse::default();
    assert_eq!(limit::next_check(&desk.job, &pulse), None);
    assert_eq!(limit::fire(&desk.job, &pulse, Awake(u64::MAX)), None);
    let unlimited = desk.later(u64::MAX / 4).says(ends(TurnEnding::Completed));
    assert_eq!((last_turn(&unlimited), unlimited.count("limit_fired")), (Some(TurnEnding::Completed), 0));
    let deadline = Effect::Deadline { attempt: AttemptNo(1), at: None };
    assert!(effects::due(&unlimited.job, unlimited.fence()).contains(&deadline));
}

#[test]
fn c69_after_an_ending_nothing_of_that_turn_changes_the_session() {
    let ended = Desk::in_turn(agent()).says(question("q1")).says(ends(TurnEnding::Completed));
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
fn c78_every_kind_of_ending_settles_the_session() {
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
        let mut desk = Desk::in_turn(agent()).says(question("q1"));
        let ended = TurnEnded { offset: 99, turn: TurnNo(1), ending, error: None, commit: None };
        desk.owner(vec![ended.into()]);
        let session = desk.job.session.as_ref().expect("it has one");
        assert_eq!((session.active, session.state), (None, state(ending)));
        assert!(session.is_settled() && session.questions.is_empty());
        assert_eq!(session.last_turn, Some((TurnNo(1), ending)));
    }
}

#[test]
fn a_turn_that_begins_in_another_takes_its_place() {
    let desk = Desk::in_turn(agent()).says(Signal::TurnStarted);
    assert_eq!(desk.kinds().split_off(5), ["turn_started", "turn_ended", "turn_started"]);
    assert_eq!((last_turn(&desk), desk.job.active_turn()), (Some(TurnEnding::Superseded), Some(TurnNo(2))));
    let interrupted = interrupted(Desk::in_turn(agent())).says(Signal::TurnStarted);
    assert_eq!(last_turn(&interrupted), Some(TurnEnding::Interrupted));
}

#[test]
fn c52_the_turn_after_the_last_allowed_one_is_not_begun() {
    let limits = Limits { turns: Some(2), ..Limits::default() };
    let turn = |desk: Desk| desk.says(Signal::TurnStarted).says(ends(TurnEnding::Completed));
    let two = turn(turn(Desk::running(limited(limits)).says(session())));
    assert_eq!((two.count("turn_started"), two.count("limit_fired")), (2, 0));
    let third = two.says(Signal::TurnStarted);
    assert_eq!((third.count("turn_started"), third.count("limit_fired")), (2, 1));
    assert_eq!(third.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Turns)));
}

#[test]
fn c80_an_interrupt_names_the_active_turn_or_says_there_is_none() {
    let check = |desk: &Desk, turn: Option<u32>, expected: Result<&[&str], Refusal>| {
        let decided = interrupt::decide(&desk.job, "ann", turn.map(TurnNo));
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec));
    };
    let none = Err(Refusal::Nothing(id(1), "no active turn: there is nothing to stop"));
    let other = Err(Refusal::Nothing(id(1), "another active turn: that one is over"));
    check(&Desk::empty(), None, Err(Refusal::NotFound(id(1))));
    check(&Desk::ended(0), None, Err(Refusal::Ended(id(1))));
    check(&Desk::queued(agent()), None, none.clone());
    check(&Desk::running(agent()), None, none.clone());
    let first = Desk::in_turn(agent());
    check(&first, None, Ok(&["interrupt_requested"]));
    check(&first, Some(1), Ok(&["interrupt_requested"]));
    check(&first, Some(2), other.clone());
    let asked = interrupted(first);
    assert_eq!(asked.job.session.as_ref().and_then(|session| session.interrupt), Some(TurnNo(1)));
    check(&asked, None, Ok(&[]));
    let due = effects::due(&asked.job, asked.fence());
    assert!(due.contains(&Effect::Interrupt { attempt: AttemptNo(1), turn: TurnNo(1) }));
    let over = asked.says(ends(TurnEnding::Aborted));
    check(&over, None, none);
    let second = over.says(Signal::TurnStarted);
    check(&second, Some(1), other);
    // The wish was for the first turn: it does not reach the second.
    assert_eq!(second.job.session.as_ref().and_then(|session| session.interrupt), None);
    assert!(matches!(second.job.phase, Phase::Running));
}

#[test]
fn c82_a_reference_counts_only_after_an_acknowledged_turn() {
    let resume =
        |desk: &Desk| desk.job.session.as_ref().and_then(Session::resume_reference).map(str::to_owned);
    let retry = |desk: Desk| lastword_core::decide::retry::decide(&desk.job).expect("it has ended").resume;
    let begun = Desk::in_turn(agent());
    assert_eq!(begun.job.session.as_ref().and_then(|session| session.reference.as_deref()), Some("ref-0"));
    assert_eq!(resume(&begun), None);
    assert_eq!(resume(&begun.clone().says(ends(TurnEnding::Failed))), None);
    assert_eq!(retry(begun.clone().cancelled().emptied(exited(0))), None);
    let done = begun.says(ends(TurnEnding::Completed));
    assert_eq!(resume(&done).as_deref(), Some("ref-1"));
    // A turn that was interrupted by the end is not in what a retry goes on from, and nothing runs it again.
    let cut = done.says(Signal::TurnStarted).cancelled().emptied(exited(0));
    let again = retry(cut).expect("it goes on from the first turn");
    assert_eq!((again.provider.as_str(), again.reference.as_str()), ("codex", "ref-1"));
}

#[test]
fn a_session_that_goes_inactive_ends_its_turn_by_its_state() {
    for (state, ending) in [
        (SessionState::Ready, TurnEnding::Aborted),
        (SessionState::Interrupted, TurnEnding::Aborted),
        (SessionState::Stopped, TurnEnding::AgentExit),
        (SessionState::Errored, TurnEnding::RuntimeError),
    ] {
        let desk = Desk::in_turn(agent()).says(becomes(state));
        let ended = desk.log.iter().find_map(|event| match &event.fact {
            Fact::TurnEnded(ended) => Some(ended.clone()),
            _ => None,
        });
        let ended = ended.expect("the turn ended");
        assert_eq!((ended.ending, ended.error.is_some(), ended.commit), (ending, true, None));
        assert_eq!(desk.job.session_state(), Some(state));
    }
    for state in [SessionState::Starting, SessionState::Running] {
        let desk = Desk::in_turn(agent()).says(becomes(state));
        assert_eq!((desk.job.active_turn(), desk.count("turn_ended")), (Some(TurnNo(1)), 0));
    }
}

/// An ending that only the log can know is not taken from the agent's mouth.
#[test]
fn c28_an_agent_cannot_claim_a_cancel_a_limit_or_an_interrupt_that_never_was() {
    for said in [TurnEnding::Cancelled, TurnEnding::OverLimit(Limit::Money), TurnEnding::Interrupted] {
        let desk = Desk::in_turn(agent()).says(ends(said));
        assert_eq!(last_turn(&desk), Some(TurnEnding::Aborted), "{said:?}");
        assert_eq!(desk.emptied(exited(0)).job.last_word().map(|word| word.cause), Some(Cause::Agent));
    }
}

/// What waits for the next turn is not in the agent's hands before its owner knows whether there will be one.
#[test]
fn c72_c74_a_prompt_is_given_out_when_the_turn_before_it_is_decided_and_one_at_a_time() {
    let with_two = |mut desk: Desk| {
        for text in ["and then", "and at last"] {
            let facts = send::decide(&desk.job, "ann", text, false);
            desk.anyone(facts);
        }
        desk
    };
    let told = |desk: &Desk| {
        let due = effects::due(&desk.job, desk.fence()).into_iter();
        let told = due
            .filter_map(|effect| if let Effect::Tell { input, .. } = effect { Some(input.0) } else { None });
        told.collect::<Vec<u32>>()
    };
    let none: Vec<u32> = Vec::new();
    // The first turn begins with the prompt of the job.
    assert_eq!(told(&with_two(Desk::running(agent()))), none);
    let in_turn = || with_two(Desk::in_turn(agent()));
    assert_eq!(told(&in_turn()), none);
    assert_eq!(told(&in_turn().says(ends(TurnEnding::Failed))), none);
    assert_eq!(told(&in_turn().cancelled().says(ends(TurnEnding::Completed))), none);
    let between = in_turn().says(ends(TurnEnding::Completed));
    assert_eq!(told(&between), [1]);
    assert_eq!(told(&between.says(Signal::TurnStarted)), none);
    assert_eq!(told(&interrupted(in_turn()).says(ends(TurnEnding::Interrupted))), [1]);
    // What is meant for the turn under way is said into it, where that can be; else it waits too.
    let steered = |dialect| {
        let mut desk = Desk::in_turn(spoken(dialect));
        let facts = send::steer(&desk.job, "ann", "another way");
        desk.anyone(facts);
        told(&desk)
    };
    assert_eq!((steered(Dialect::Codex), steered(Dialect::Acp)), (vec![1], none));
}

#[test]
fn c74_the_first_turn_that_does_not_complete_ends_the_run() {
    let check = |desk: Desk, goes_on: bool| {
        assert_eq!(desk.job.stop.is_none(), goes_on, "{:?}", last_turn(&desk));
        assert_eq!(matches!(desk.job.phase, Phase::Running), goes_on);
        assert_eq!(desk.job.active_turn(), None);
    };
    for said in ENDINGS {
        let goes_on = matches!(said, TurnEnding::Completed | TurnEnding::Superseded);
        check(Desk::in_turn(agent()).says(ends(said)), goes_on);
        // A person interrupted just that turn: the run goes on, whatever the agent calls it.
        check(interrupted(Desk::in_turn(agent())).says(ends(said)), true);
    }
    let failed = Desk::in_turn(agent()).says(ends(TurnEnding::Failed)).emptied(exited(0));
    assert_eq!(failed.outcome(), Some(Outcome::Failed));
}
