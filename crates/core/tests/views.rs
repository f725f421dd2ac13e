//! Views: the session and its turns, usage, the timeline, and the row.

use lastword_core::decide::{Refusal, progress};
use lastword_core::event::{KINDS, SessionState, Stored, TurnEnding, Usage};
use lastword_core::limits::Limit;
use lastword_core::question::{Ask, AskKind};
use lastword_core::receipt::Exit;
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{Needs, ProviderSession, Spec, Work};
use lastword_core::view::asks::Asks;
use lastword_core::view::nearest::Used;
use lastword_core::view::row::{PhaseName, Row, Summary};
use lastword_core::view::session::{OpenQuestion, SessionView, turns};
use lastword_core::view::timeline;
use lastword_core::view::usage::UsageView;
use lastword_core::{AttemptNo, Awake, Event, Fact, Seq, Timestamp, TurnNo};

use crate::common::{
    TestJob, agent, allow, becomes, command, commit, dependent, ends, exited, name_of, question, retried,
    session, tree,
};

fn spent(tokens_in: u64) -> Signal {
    Signal::Spent(Usage { tokens_in, tokens_out: 1, money_micros: 2 })
}

#[test]
fn session_view() {
    assert_eq!(SessionView::of(&TestJob::running(agent()).job), None);
    let working = TestJob::in_turn(agent()).says(question("q1")).says(question("q2"));
    let mut answered = working.clone();
    let facts = allow(&answered.job, "q1");
    answered.anyone(facts);
    let view = SessionView::of(&answered.job).expect("it has one");
    let expected = SessionView {
        job: answered.job.id,
        version: answered.job.version,
        attempt: AttemptNo(1),
        state: SessionState::Running,
        active: Some(TurnNo(1)),
        reference: Some("ref-0".to_owned()),
        resumed_from: None,
        resume: None,
        background: 0,
        settled: false,
        open_questions: vec![OpenQuestion {
            id: "q2".to_owned(),
            name: name_of(&answered.job, "q2"),
            text: "may I?".to_owned(),
            ask: Some(Box::new(Ask::permission("Bash", "make"))),
            asked_at: answered.now.wall,
            expires_at: None,
        }],
        conversation: Default::default(),
    };
    assert_eq!(view, expected);
    let done = answered.says(ends(TurnEnding::Completed));
    let view = SessionView::of(&done.job).expect("it has one");
    assert_eq!((view.resume.as_deref(), view.settled, view.active), (Some("ref-1"), true, None));
    assert_eq!((view.conversation, view.open_questions), (commit(), Vec::new()));
}

#[test]
fn c26_session_turns_and_row_see_the_ending_together() {
    let test = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed)).says(Signal::TurnStarted).later(5);
    let shown = |test: &TestJob| {
        let row = Row::of(&test.job);
        let turns = turns(&test.log);
        let session = SessionView::of(&test.job).expect("it has one");
        assert_eq!(session.active.is_some(), row.summary.working);
        assert_eq!(session.active, turns.iter().find(|turn| turn.ended.is_none()).map(|turn| turn.turn));
        (row.phase, session.state, turns)
    };
    let (phase, state, before) = shown(&test);
    assert_eq!((phase, state, before.len()), (PhaseName::Running, SessionState::Running, 2));
    let (phase, state, after) = shown(&test.cancelled().emptied(exited(0)));
    assert_eq!((phase, state), (PhaseName::Ended, SessionState::Stopped));
    let ends: Vec<_> = after.iter().map(|turn| turn.ended.clone().map(|end| (end.at, end.ending))).collect();
    assert_eq!(
        ends,
        [Some((Timestamp(10_000), TurnEnding::Completed)), Some((Timestamp(10_005), TurnEnding::Cancelled))]
    );
    assert_eq!(after[0].ended.as_ref().and_then(|end| end.error.clone()), None);
    assert!(after[1].ended.as_ref().is_some_and(|end| end.error.is_some()));
}

#[test]
fn turns_have_their_attempt() {
    let test = TestJob::in_turn(retried(2)).emptied(exited(1)).later(1_000);
    let test = test.claimed("a", 1).intended().launched(2).says(session()).says(Signal::TurnStarted);
    let places: Vec<_> =
        turns(&test.log).iter().map(|turn| (turn.turn.0, turn.attempt.0, turn.started_at.0)).collect();
    assert_eq!(places, [(1, 1, 10_000), (2, 2, 11_000)]);
}

#[test]
fn usage_adds_up_in_total_per_attempt_and_per_turn() {
    let test = TestJob::in_turn(retried(2)).says(spent(1)).says(spent(10)).says(ends(TurnEnding::Completed));
    let test =
        test.says(spent(100)).says(Signal::TurnStarted).says(spent(1_000)).emptied(exited(1)).later(1_000);
    let test = test.claimed("a", 1).intended().launched(2).says(session()).says(spent(10_000));
    let view = UsageView::of(&test.log);
    assert_eq!(view.total, test.job.usage);
    let sums = |usage: &Usage| (usage.tokens_in, usage.tokens_out, usage.money_micros);
    let attempts: Vec<_> = view.attempts.iter().map(|(no, usage)| (no.0, sums(usage))).collect();
    assert_eq!(attempts, [(1, (1_111, 4, 8)), (2, (10_000, 1, 2))]);
    let by_turn: Vec<_> = view.turns.iter().map(|(no, usage)| (no.0, sums(usage))).collect();
    assert_eq!(by_turn, [(1, (11, 2, 4)), (2, (1_000, 1, 2))]);
    assert_eq!(sums(&view.between_turns), (10_100, 2, 4));
    assert_eq!(UsageView::of(&TestJob::queued(agent()).log), UsageView::default());
    // An inactive session has no turn that spends.
    let idle = TestJob::in_turn(agent()).says(becomes(SessionState::Ready)).says(spent(5));
    assert_eq!(UsageView::of(&idle.log).turns, Vec::new());
}

#[test]
fn a_timeline_has_a_line_for_every_event_in_order() {
    let test = TestJob::in_turn(agent()).later(5).cancelled().emptied(exited(0));
    let lines = timeline::of(&test.log);
    assert_eq!(lines.len(), test.log.len());
    for (line, event) in lines.iter().zip(&test.log) {
        assert_eq!((line.at, line.seq), (event.at, event.seq));
    }
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "submitted by `ann`",
            "claimed by `a` (epoch 1)",
            "attempt 1 intended",
            "attempt 1 launched, pid 100",
            "session `ref-0` started",
            "turn 1 started",
            "stop requested by `ann` (user request)",
            "turn 1 cancelled, which the agent did not acknowledge: `the agent exited before its turn ended`",
            "attempt 1 ended: cancelled while running (user request)",
            "last word: cancelled while running (user request: `ann`)",
        ]
    );
}

#[test]
fn every_kind_has_its_own_line() {
    let text = |fact: Fact| timeline::line(&Event { seq: Seq(1), at: Timestamp(1), fact }).text;
    let golden = |kind: &str| text(Fact::decode(crate::golden::example(kind)).expect("it reads"));
    let texts: std::collections::BTreeSet<String> = KINDS.iter().map(|kind| golden(kind)).collect();
    assert_eq!(texts.len(), KINDS.len());
    for (kind, line) in [
        ("cancel_requested", "stop requested by `ann` (its parent is gone, forced)"),
        ("limit_changed", "limit wall switched off by `ann`"),
        ("limit_fired", "limit money reached: $2.000001 of $2.00"),
        ("attempt_ended", "attempt 1 ended: timed out at its deadline (limit wall): `out of time`"),
        ("input_requested", "input 1 from `ann`: `and the docs`"),
        ("answer_requested", "answer to `q1` from `ann`: `yes`"),
        ("late_reported", "late report (epoch 1): `attempt 1: tree empty`"),
    ] {
        assert_eq!(golden(kind), line);
    }
    let grown = |name: &str| text(Fact::decode(crate::golden::stored(name)).expect("it reads"));
    assert_eq!(grown("input_requested.v1+eof"), "input 1 from `ann`, end of input: `and the docs`");
    let newer = Stored { kind: "dreamt\u{1b}[2J".to_owned(), version: 3, body: "{}".to_owned() };
    assert_eq!(text(Fact::Unknown(newer)), "`dreamt\\u{1b}[2J` (version 3), written by a newer build");
}

#[test]
fn hostile_text_is_quoted_and_bounded() {
    let line = |title: &str| {
        let mut test = TestJob::in_turn(agent()).says(Signal::ItemCompleted { title: title.to_owned() });
        let event = test.log.pop().expect("it was heard");
        timeline::line(&event).text
    };
    assert_eq!(line("plain text, é and 漢"), "done: `plain text, é and 漢`");
    assert_eq!(line("\u{1b}]0;owned\u{7}\r\n"), "done: `\\u{1b}]0;owned\\u{7}\\u{d}\\u{a}`");
    assert_eq!(line("a\u{9b}31mb"), "done: `a\\u{9b}31mb`");
    assert_eq!(line("a\u{202e}b\u{200b}c\u{feff}"), "done: `a\\u{202e}b\\u{200b}c\\u{feff}`");
    assert_eq!(line("%s {} <b>$(rm)"), "done: `%s {} <b>$(rm)`");
    assert_eq!(line(&"x".repeat(160)), format!("done: `{}`", "x".repeat(160)));
    assert_eq!(line(&"x".repeat(161)), format!("done: `{}…`", "x".repeat(160)));
    for c in (0..=0x9f).filter_map(char::from_u32).filter(|c| c.is_control()) {
        assert!(!line(&c.to_string()).chars().any(char::is_control), "{c:?}");
    }
}

#[test]
fn row_fields_for_lists_and_claims() {
    let phases = [
        (TestJob::queued(agent()), PhaseName::Queued),
        (TestJob::launching(agent()), PhaseName::Launching),
        (TestJob::running(agent()), PhaseName::Running),
        (TestJob::stopping(agent()), PhaseName::Stopping),
        (TestJob::backoff(), PhaseName::Backoff),
        (TestJob::ended(0), PhaseName::Ended),
    ];
    for (test, phase) in phases {
        let row = Row::of(&test.job);
        assert_eq!((row.phase, row.version, row.due), (phase, test.job.version, test.job.due()));
        assert_eq!(PhaseName::parse(phase.as_str()), Some(phase));
        assert_eq!(row.holder, test.job.holder.map(|holder| holder.fence));
    }
    assert_eq!(PhaseName::parse("dreaming"), None);
    let row = Row::of(&TestJob::queued(command()).job);
    assert_eq!((row.summary.title.as_str(), row.summary.attempts), ("make test", 0));
    let long = Work::Agent { provider: "codex".to_owned(), prompt: "é".repeat(500), terms: Box::default() };
    let row = Row::of(&TestJob::running(Spec { work: long, ..agent() }).job);
    assert_eq!((row.summary.title.chars().count(), row.summary.attempts), (120, 1));
}

#[test]
fn row_times_and_exit() {
    let of = |test: &TestJob| Row::of(&test.job).summary;
    let named = Spec { name: Some("nightly".to_owned()), ..command() };
    let queued = of(&TestJob::queued(named.clone()));
    assert_eq!((queued.name.as_deref(), queued.started_at, queued.ended_at), (Some("nightly"), None, None));
    assert_eq!(of(&TestJob::launching(named.clone())).started_at, None);
    // The first tree counts, even if it was found late or others followed.
    let found = TestJob::launching(named.clone()).later(3).claimed("a", 2).reports(Report::Located {
        attempt: AttemptNo(1),
        found: Found::Alive { tree: tree(7), awake: Awake(9) },
    });
    assert_eq!(of(&found).started_at, Some(Timestamp(10_003)));
    let found = found.later(4).claimed("a", 3).reports(Report::Located {
        attempt: AttemptNo(1),
        found: Found::Alive { tree: tree(7), awake: Awake(9) },
    });
    assert_eq!(of(&found).started_at, Some(Timestamp(10_003)));
    let again = TestJob::running(retried(2)).later(5).emptied(exited(3)).later(1_000);
    let summary = of(&again.clone().claimed("a", 1).intended().launched(2));
    assert_eq!((summary.started_at, summary.ended_at, summary.exit), (Some(Timestamp(10_000)), None, None));
    let again = again.claimed("a", 1).intended().launched(2).later(7).emptied(exited(4));
    let times: Vec<_> = again.job.attempts.iter().map(|one| (one.started_at, one.ended_at)).collect();
    let moment = |ms| Some(Timestamp(ms));
    assert_eq!(times, [(moment(10_000), moment(10_005)), (moment(11_005), moment(11_012))]);
    let summary = of(&again);
    assert_eq!((summary.ended_at, summary.exit), (moment(11_012), Some(Exit::Code(4))));
    let cancelled = of(&TestJob::queued(command()).later(2).cancelled());
    assert_eq!((cancelled.started_at, cancelled.ended_at, cancelled.exit), (None, moment(10_002), None));
    assert_eq!(of(&TestJob::queued(dependent(Needs::AnyEnd))).unmet, 1);
    assert_eq!(of(&TestJob::queued(command())).unmet, 0);
}

/// A row of an older build lacks newer fields.
#[test]
fn a_summary_of_an_older_build_is_readable() {
    let before = r#"{"title": "make", "labels": {}, "attempts": 1, "decided_by": 1, "cause": "finished", "waiting": false,
        "working": false, "meter": {}}"#;
    let summary: Summary = serde_json::from_str(before).expect("it reads");
    assert_eq!((summary.name, summary.unmet, summary.started_at, summary.exit), (None, 0, None, None));
}

#[test]
fn a_row_names_the_session_a_live_job_drives() {
    let codex =
        |reference: &str| ProviderSession { provider: "codex".to_owned(), reference: reference.to_owned() };
    let resumes = Spec { resume: Some(codex("old")), ..agent() };
    let of = |test: &TestJob| Row::of(&test.job).drives;
    assert_eq!(of(&TestJob::queued(agent())), None);
    assert_eq!(of(&TestJob::queued(resumes.clone())), Some(codex("old")));
    assert_eq!(of(&TestJob::in_turn(resumes.clone())), Some(codex("ref-0")));
    assert_eq!(of(&TestJob::in_turn(resumes).emptied(exited(1))), None);
}

#[test]
fn c24_a_late_fact_changes_nothing_but_the_version() {
    let mut test = TestJob::ended(0).later(500);
    let (row, lines) = (Row::of(&test.job), timeline::of(&test.log));
    let facts = lastword_core::decide::late::decide(&test.job, test.job.epoch, "too late");
    test.anyone(facts);
    assert_eq!(Row { version: row.version, ..Row::of(&test.job) }, row);
    assert_eq!(timeline::of(&test.log)[..lines.len()], lines);
}

#[test]
fn a_row_says_what_its_job_asks_and_since_when() {
    let mut spec = agent();
    let Work::Agent { terms, .. } = &mut spec.work else { panic!("it is an agent") };
    terms.permissions.expires_ms = Some(60_000);
    let asks = |test: &TestJob| Row::of(&test.job).summary.asks;
    let test = TestJob::in_turn(spec);
    assert_eq!(asks(&test), None);
    let begun = test.now.wall;
    let test = test.says(question("q1")).later(5).says(question("q2"));
    let first = asks(&test).expect("it asks");
    let expected = Asks {
        kind: Some(AskKind::Permission),
        limit: None,
        text: "may I?".to_owned(),
        since: begun,
        expires_at: Some(begun.plus_ms(60_000)),
        others: 1,
    };
    assert_eq!(*first, expected, "the one that has waited longest");
    let mut test = test;
    let facts = allow(&test.job, "q1");
    test.anyone(facts);
    let second = asks(&test).expect("it still asks");
    assert_eq!((second.since, second.others), (begun.plus_ms(5), 0));
    assert_eq!(asks(&test.cancelled()), None, "no answer would help any more");
}

#[test]
fn a_row_says_what_its_agent_did_last_in_its_turn() {
    let did = |test: &TestJob| Row::of(&test.job).summary.did;
    let item = |title: &str| Signal::ItemCompleted { title: title.to_owned() };
    let test = TestJob::in_turn(agent());
    assert_eq!(did(&test), None);
    let test = test.says(item("Read: a.rs")).says(item(&"x".repeat(500)));
    assert_eq!(did(&test), Some("x".repeat(120)));
    let test = test.says(ends(TurnEnding::Completed));
    assert_eq!(did(&test), None, "it works on nothing");
    assert_eq!(did(&test.says(Signal::TurnStarted)), None, "that was the turn before");
}

#[test]
fn a_row_says_which_limit_is_nearest() {
    let nearest = |test: &TestJob| Row::of(&test.job).summary.nearest;
    let spends = |tokens: Option<u64>, money_micros: Option<u64>, turns: Option<u64>| {
        let mut spec = agent();
        (spec.limits.tokens, spec.limits.money_micros, spec.limits.turns) = (tokens, money_micros, turns);
        TestJob::in_turn(spec).says(spent(9))
    };
    let used = |limit, used, allowed| Some(Used { limit, used, allowed });
    assert_eq!(nearest(&spends(None, None, None)), None);
    assert_eq!(nearest(&spends(Some(20), Some(100), Some(9))), used(Limit::Tokens, 10, 20));
    assert_eq!(nearest(&spends(Some(20), Some(3), Some(9))), used(Limit::Money, 2, 3));
    assert_eq!(nearest(&spends(Some(2_000), Some(3_000), Some(9))), used(Limit::Turns, 1, 9));
    assert_eq!(nearest(&spends(Some(u64::MAX), None, None)), used(Limit::Tokens, 10, u64::MAX));
}

#[test]
fn a_job_says_how_far_it_is_and_a_new_attempt_begins_with_nothing_said() {
    let says = |mut test: TestJob, text: Option<&str>, result: Option<&str>| {
        let facts = progress::decide(&test.job, text, result);
        test.anyone(facts);
        test
    };
    let said = |test: &TestJob| (Row::of(&test.job).summary.progress, test.job.result().map(str::to_owned));
    let of = |text: &str| Some(text.to_owned());
    let test = says(TestJob::running(retried(2)), Some("1 of 3"), None).later(5);
    assert_eq!(said(&test), (of("1 of 3"), None));
    let test = says(test, Some("2 of 3"), Some("half"));
    assert_eq!(said(&test), (of("2 of 3"), of("half")));
    let test = says(test, None, Some("whole"));
    assert_eq!(said(&test), (of("2 of 3"), of("whole")), "what was not said again stays");
    let version = test.job.version;
    let test = says(test, Some("2 of 3"), Some("whole"));
    assert_eq!(test.job.version, version, "the same again says nothing");
    let line = timeline::of(&test.log).pop().expect("there are lines");
    assert!(line.text.contains("a result of 5 bytes"), "{line:?}");
    let test = test.emptied(exited(3)).later(1_000).claimed("a", 1).intended();
    assert_eq!(said(&test), (None, None), "that was of the attempt before");
    let ended = says(TestJob::running(command()), None, Some("done")).emptied(exited(0));
    assert_eq!(said(&ended), (None, of("done")));
}

#[test]
fn what_a_job_says_is_bounded() {
    let running = TestJob::running(command());
    let says = |text: Option<&str>, result: Option<&str>| progress::decide(&running.job, text, result);
    let (long, line) = ("x".repeat(201), "x".repeat(200));
    assert!(says(Some(&line), None).is_ok());
    for text in [&long, "", "  ", "one\ntwo", "\u{1b}[2J"] {
        assert!(matches!(says(Some(text), None), Err(Refusal::Invalid(_))), "{text:?}");
    }
    let (whole, more) = ("x".repeat(64 << 10), "x".repeat((64 << 10) + 1));
    assert!(says(None, Some(&whole)).is_ok());
    assert!(matches!(says(None, Some(&more)), Err(Refusal::Invalid(_))));
    assert!(matches!(says(None, None), Err(Refusal::Invalid(_))));
    let mut test = running.clone();
    for n in 0..10_000 {
        let (text, result) = (format!("{n}"), (n < 20).then(|| format!("{n}")));
        let facts = progress::decide(&test.job, Some(&text), result.as_deref());
        test.anyone(facts);
        if n == 19 {
            let one_more = progress::decide(&test.job, None, Some("one more"));
            assert!(matches!(one_more, Err(Refusal::Nothing(..))), "{one_more:?}");
        }
    }
    let one_more = progress::decide(&test.job, Some("one more"), None);
    assert!(matches!(one_more, Err(Refusal::Nothing(..))), "{one_more:?}");
    let over = progress::decide(&TestJob::ended(0).job, Some("late"), None);
    assert!(matches!(over, Err(Refusal::Ended(_))), "{over:?}");
}
