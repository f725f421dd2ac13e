//! Limits: parsing of settings, arithmetic, and the page that lists them.

use std::collections::BTreeMap;
use std::sync::Arc;

use lastword_core::decide::{Refusal, label, limit, submit};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{LimitFired, LimitNeared, TurnEnding, Usage};
use lastword_core::limits::{
    self, BadSetting, Clock, Clocks, Limit, Limits, Reached, SETTINGS, Used, parse_setting,
};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::owner::{Input, Output};
use lastword_core::report::{Found, Pulse, Report, Signal};
use lastword_core::spec::{Measures, Spec, Terms, Work};
use lastword_core::view::usage::UsageView;
use lastword_core::{AttemptNo, Awake, Event, Fact, Job};

use crate::common::{TestJob, agent, allow, command, ends, exited, id, kinds, question, session, tree};
use crate::rig::{FIRST, Rig};

/// Each warning is given once for a value: the newest value of each limit is remembered, and that of no other forgotten.
#[test]
fn a_warning_of_one_limit_does_not_forget_that_of_another() {
    let mut test = TestJob::running(agent());
    for (limit, allowed) in [(Limit::Turns, 10), (Limit::Tokens, 100), (Limit::Turns, 20)] {
        let near = LimitNeared { attempt: AttemptNo(1), limit, measured: allowed - 1, allowed };
        test.owner(vec![near.into()]);
    }
    assert_eq!(test.job.neared, [(Limit::Tokens, 100), (Limit::Turns, 20)]);
}

#[test]
fn money_is_formatted_with_two_decimals_or_more() {
    for (micros, written) in [
        (0, "$0.00"),
        (1_500_000, "$1.50"),
        (2_000_000, "$2.00"),
        (12_300, "$0.0123"),
        (10_000_001, "$10.000001"),
    ] {
        assert_eq!(limits::dollars(micros), written);
        assert_eq!(parse_setting("money", &written[1..]), Ok((Limit::Money, micros)), "it reads back");
    }
}

#[test]
fn c55_settings_are_parsed() {
    let check = |key: &str, value: &str, expected: (Limit, u64)| {
        assert_eq!(parse_setting(key, value), Ok(expected), "{key}={value}");
    };
    check("wall", "2h", (Limit::Wall, 7_200_000));
    check("wall", "90s", (Limit::Wall, 90_000));
    check("wall", "1d", (Limit::Wall, 86_400_000));
    check("stall", "20m", (Limit::Stall, 1_200_000));
    check("stall", "250ms", (Limit::Stall, 250));
    check("output", "4096", (Limit::Output, 4_096));
    check("output", "500k", (Limit::Output, 500 << 10));
    check("output", "500K", (Limit::Output, 500 << 10));
    check("output", "10M", (Limit::Output, 10 << 20));
    check("output", "1G", (Limit::Output, 1 << 30));
    check("output", "2T", (Limit::Output, 2 << 40));
    check("turns", "12", (Limit::Turns, 12));
    check("tokens", "2000000", (Limit::Tokens, 2_000_000));
    check("money", "1.50", (Limit::Money, 1_500_000));
    check("money", "3", (Limit::Money, 3_000_000));
    check("money", "0.000001", (Limit::Money, 1));
    check("money", "18446744073709.551615", (Limit::Money, u64::MAX));
    // Zero switches any limit off.
    for (limit, name) in SETTINGS {
        check(name, "0", (limit, 0));
    }
    check("wall", "0s", (Limit::Wall, 0));
    check("output", "0M", (Limit::Output, 0));
    check("money", "0.0", (Limit::Money, 0));
}

#[test]
fn c55_a_malformed_setting_is_refused_by_name() {
    let duration =
        ["", "h", "2", "-1h", "+1h", "1.5h", "2 h", " 2h", "2h ", "2H", "2w", "1h30m", "0x1s", "٢h"];
    let number = ["", "-1", "+1", "1.5", "1e3", "many", " 1", "1 ", "0x10", "1_000", "18446744073709551616"];
    let size =
        ["", "k", "-1", "+1k", "1.5M", "10m", "1g", "10 M", " 1k", "1k ", "1MB", "1KiB", "0x1k", "16777216T"];
    let amount =
        ["", "-1", "+1", "1.", ".5", "1.0000001", "1,50", "$1", "1.5.0", "1.-5", "18446744073709.551616"];
    let cases = [
        ("wall", &duration[..]),
        ("stall", &duration),
        ("output", &size),
        ("turns", &number),
        ("tokens", &number),
        ("money", &amount),
    ];
    for (name, values) in cases {
        for value in values {
            let Err(error) = parse_setting(name, value) else { panic!("{name}={value} was taken") };
            assert!(matches!(error, BadSetting::Malformed { .. }));
            let text = error.to_string();
            assert!(
                text.contains(&format!("`{name}`")) && text.contains("0 switches the limit off"),
                "{text}"
            );
        }
    }
    for value in ["18446744073709551615h", "99999999999999999999s"] {
        assert!(parse_setting("wall", value).is_err(), "{value}");
    }
    // The echo is bounded.
    let long = parse_setting("turns", &"x".repeat(9_999)).expect_err("it is no number");
    assert!(long.to_string().len() < 200);
}

#[test]
fn c55_an_unknown_setting_is_refused_by_name() {
    for key in ["", "walls", "Wall", "wall_ms", " wall", "memory"] {
        let error = parse_setting(key, "1").expect_err("there is no such limit");
        assert_eq!(error, BadSetting::Unknown(key.to_owned()));
        assert!(error.to_string().contains(&format!("`{key}`")));
        for (_, name) in SETTINGS {
            assert!(error.to_string().contains(name));
        }
    }
    let long = parse_setting(&"x".repeat(9_999), "1").expect_err("there is no such limit");
    assert!(long.to_string().len() < 200);
    // One bad setting refuses them all; of two with the same name, the later one counts.
    assert!(Limits::parse([("wall", "1h"), ("stalls", "1m")]).is_err());
    let read = Limits::parse([("wall", "1h"), ("turns", "0"), ("wall", "2s")]);
    assert_eq!(read, Ok(Limits { wall_ms: Some(2_000), turns: Some(0), ..Limits::default() }));
}

#[test]
fn c55_every_setting_is_in_the_reference() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/limits.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.split('`').nth(1)).collect();
    assert_eq!(names, SETTINGS.map(|(_, name)| name));
    // The example in each row is valid.
    for (row, (limit, name)) in rows.iter().zip(SETTINGS) {
        let example = row.split('`').nth(3).and_then(|text| text.strip_prefix(&format!("{name}=")));
        let example = example.unwrap_or_else(|| panic!("no example in {row}"));
        assert_eq!(parse_setting(name, example).map(|(limit, _)| limit), Ok(limit));
    }
}

#[test]
fn c52_each_limit_is_reached_by_its_own_measure() {
    let none = Limits::default();
    let check = |limits: Limits, used: Used, expected: Option<(Limit, u64, u64)>| {
        let expected = expected.map(|(limit, measured, allowed)| Reached { limit, measured, allowed });
        assert_eq!(limits::reached(&limits, &used), expected);
    };
    let times =
        Used { wall_ms: 100, turn_ms: 60, handshake_ms: 50, idle_ms: 45, stall_ms: 40, ..Used::default() };
    let used = Used { output_bytes: 500, turns: 3, tokens: 70, money_micros: 9, ..times };
    check(none, used, None);
    // Time is up at the limit; a count may reach it, but not exceed it.
    check(Limits { wall_ms: Some(100), ..none }, used, Some((Limit::Wall, 100, 100)));
    check(Limits { wall_ms: Some(101), ..none }, used, None);
    check(Limits { turn_ms: Some(60), ..none }, used, Some((Limit::Turn, 60, 60)));
    check(Limits { turn_ms: Some(61), ..none }, used, None);
    check(Limits { handshake_ms: Some(50), ..none }, used, Some((Limit::Handshake, 50, 50)));
    check(Limits { handshake_ms: Some(51), ..none }, used, None);
    check(Limits { idle_ms: Some(45), ..none }, used, Some((Limit::Idle, 45, 45)));
    check(Limits { idle_ms: Some(46), ..none }, used, None);
    check(Limits { stall_ms: Some(40), ..none }, used, Some((Limit::Stall, 40, 40)));
    check(Limits { stall_ms: Some(41), ..none }, used, None);
    check(Limits { output_bytes: Some(499), ..none }, used, Some((Limit::Output, 500, 499)));
    check(Limits { output_bytes: Some(500), ..none }, used, None);
    check(Limits { turns: Some(2), ..none }, used, Some((Limit::Turns, 3, 2)));
    check(Limits { turns: Some(3), ..none }, used, None);
    check(Limits { tokens: Some(69), ..none }, used, Some((Limit::Tokens, 70, 69)));
    check(Limits { tokens: Some(70), ..none }, used, None);
    check(Limits { money_micros: Some(8), ..none }, used, Some((Limit::Money, 9, 8)));
    check(Limits { money_micros: Some(9), ..none }, used, None);
    // The first in the order of the settings is recorded; zero is off.
    let all = Limits {
        wall_ms: Some(1),
        turn_ms: Some(1),
        active_ms: Some(1),
        handshake_ms: Some(1),
        idle_ms: Some(1),
        stall_ms: Some(1),
        output_bytes: Some(1),
        turns: Some(1),
        tokens: Some(1),
        money_micros: Some(1),
    };
    check(all, used, Some((Limit::Wall, 100, 1)));
    check(Limits { wall_ms: Some(0), ..all }, used, Some((Limit::Turn, 60, 1)));
}

#[test]
fn c49_c54_the_next_deadline_is_the_nearer_of_two_clocks() {
    let (launched, progress) = (Clock::since(Awake(1_000)), Some(Clock::since(Awake(1_500))));
    let check = |wall: Option<u64>, stall: Option<u64>, progress, expected: Option<u64>| {
        let limits = Limits { wall_ms: wall, stall_ms: stall, ..Limits::default() };
        let clocks = Clocks { wall: Some(launched), stall: progress, ..Clocks::default() };
        assert_eq!(limits::next_deadline(&limits, &clocks), expected.map(Awake));
    };
    check(None, None, progress, None);
    check(Some(0), Some(0), progress, None);
    check(Some(700), None, progress, Some(1_700));
    check(None, Some(700), progress, Some(2_200));
    check(Some(700), Some(700), progress, Some(1_700));
    check(Some(700), Some(100), progress, Some(1_600));
    check(Some(700), Some(100), None, Some(1_700));
    check(None, Some(100), None, None);
    check(Some(u64::MAX), None, progress, Some(u64::MAX));
    let pulse = Pulse { progress: Awake(600), ..Pulse::default() };
    for test in
        [TestJob::held(agent()), TestJob::launching(agent()), TestJob::stopping(agent()), TestJob::ended(0)]
    {
        assert_eq!(limit::next_check(&test.job, &pulse), None);
        assert_eq!(limit::fire(&test.job, &pulse, Awake(u64::MAX)), None);
    }
    let running = TestJob::running(agent());
    // First, the agent is to open its session: a warning is due after 30 s.
    let launched = running.job.attempts[0].launched.expect("it was launched");
    assert_eq!(limit::next_check(&running.job, &pulse), Some(launched.plus_ms(30_000)));
    let running = running.says(session());
    assert_eq!(limit::next_check(&running.job, &pulse), Some(Awake(600 + 20 * 60_000)));
    // Progress before the launch does not count.
    let early = Pulse { progress: Awake(1), ..Pulse::default() };
    assert_eq!(limit::stalled_since(&running.job, &early), Some(Awake(500)));
}

#[test]
fn labels_have_bounds() {
    let job = TestJob::running(command()).job;
    let labels = |count: usize, value: &str| -> BTreeMap<String, Option<String>> {
        (0..count).map(|n| (format!("{n:02}"), Some(value.to_owned()))).collect()
    };
    let decide = |changes| label::decide(&job, "ann", &changes).map(|facts| facts.len());
    assert_eq!(decide(labels(64, "x")), Ok(1));
    assert_eq!(decide(labels(65, "x")), Err(Refusal::Invalid("it would have more than 64 labels")));
    // Names and values of 1 KiB each.
    assert_eq!(decide(labels(64, &"x".repeat(1_022))), Ok(1));
    let large = Err(Refusal::Invalid("its labels would be larger than 64 KiB"));
    let mut changes = labels(64, &"x".repeat(1_022));
    changes.insert("00".to_owned(), Some("x".repeat(1_023)));
    assert_eq!(decide(changes), large);
}

#[test]
fn labels_are_changed_in_each_phase_of_a_live_job() {
    let changes = |pairs: &[(&str, Option<&str>)]| -> BTreeMap<String, Option<String>> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), value.map(str::to_owned))).collect()
    };
    let set = changes(&[("a", Some("1")), ("b", Some("2"))]);
    assert_eq!(label::decide(&TestJob::empty().job, "ann", &set), Err(Refusal::NotFound(id(1))));
    assert_eq!(label::decide(&TestJob::ended(0).job, "ann", &set), Err(Refusal::Ended(id(1))));
    for mut test in
        [TestJob::queued(agent()), TestJob::running(agent()), TestJob::stopping(agent()), TestJob::backoff()]
    {
        let (before, state) = (test.job.labels.clone(), test.job.changed_at);
        test.anyone(label::decide(&test.job, "ann", &set));
        assert_eq!(test.job.labels.get("b").map(String::as_str), Some("2"));
        assert_eq!(label::decide(&test.job, "ann", &set), Ok(Vec::new()), "nothing is left to change");
        test.anyone(label::decide(&test.job, "ann", &changes(&[("a", None), ("b", None), ("c", None)])));
        assert_eq!(test.job.labels, before);
        assert_eq!(test.job.changed_at, state, "labels are no part of the state");
    }
    let test = TestJob::queued(command());
    let many = (0..65).map(|n| (n.to_string(), Some(String::new()))).collect();
    assert!(matches!(label::decide(&test.job, "ann", &many), Err(Refusal::Invalid(_))));
    for name in ["", "a=b"] {
        let odd = changes(&[(name, Some("x"))]);
        assert!(matches!(label::decide(&test.job, "ann", &odd), Err(Refusal::Invalid(_))), "{name}");
    }
    let large = changes(&[("a", Some(&"x".repeat(64 * 1024)))]);
    assert!(matches!(label::decide(&test.job, "ann", &large), Err(Refusal::Invalid(_))));
}

#[test]
fn c53_changing_a_limit_in_each_phase() {
    let check = |test: TestJob, limit, value, expected: Result<&[&str], Refusal>| {
        let decided = limit::decide(&test.job, "ann", limit, value);
        let decided = decided.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone);
        assert_eq!(decided, expected.map(<[_]>::to_vec), "{:?}", test.job.phase);
    };
    check(TestJob::empty(), Limit::Wall, 1, Err(Refusal::NotFound(id(1))));
    check(TestJob::ended(0), Limit::Wall, 1, Err(Refusal::Ended(id(1))));
    for test in
        [TestJob::queued(agent()), TestJob::running(agent()), TestJob::stopping(agent()), TestJob::backoff()]
    {
        check(test.clone(), Limit::Wall, 1, Ok(&["limit_changed"]));
        check(test.clone(), Limit::Wall, 0, Ok(&["limit_changed"]));
        check(test.clone(), Limit::Wall, 4 * 3_600_000, Ok(&[]));
        check(test, Limit::Turns, 0, Ok(&[]));
    }
    for (limit, _) in SETTINGS {
        let mut test = TestJob::queued(agent());
        let before = test.job.limits;
        let facts = limit::decide(&test.job, "ann", limit, 7);
        test.anyone(facts);
        assert_eq!(test.job.limits.get(limit), Some(7));
        let others = SETTINGS.iter().filter(|(other, _)| *other != limit);
        assert!(others.into_iter().all(|(other, _)| test.job.limits.get(*other) == before.get(*other)));
    }
    // The intent of an attempt records the limits in force.
    let mut test = TestJob::held(agent());
    let facts = limit::decide(&test.job, "ann", Limit::Wall, 5);
    test.anyone(facts);
    let test = test.intended();
    let Some(Fact::LaunchIntended(intent)) = test.log.last().map(|event| &event.fact) else {
        panic!("intended")
    };
    assert_eq!(intent.limits.get(Limit::Wall), Some(5));
}

#[test]
fn a_command_has_no_limit_that_only_an_agent_can_reach() {
    for (limit, name) in SETTINGS {
        let test = TestJob::running(command());
        let is_refused = matches!(limit::decide(&test.job, "ann", limit, 7), Err(Refusal::Nothing(_, why)) if why.contains("no agent"));
        assert_eq!(is_refused, !["wall", "stall", "output"].contains(&name), "{name}");
        assert!(limit::decide(&test.job, "ann", limit, 0).is_ok(), "{name} can be switched off");
    }
}

#[test]
fn a_limit_that_stops_the_job_is_not_changed() {
    let mut test = TestJob::running(agent());
    let attempt = test.attempt();
    test.owner(vec![LimitFired { attempt, limit: Limit::Wall, measured: 2, allowed: 1 }.into()]);
    for value in [0, 1, 100] {
        let refused = limit::decide(&test.job, "ann", Limit::Wall, value);
        assert!(matches!(refused, Err(Refusal::Nothing(_, why)) if why.contains("already")), "{refused:?}");
    }
    assert!(limit::decide(&test.job, "ann", Limit::Stall, 0).is_ok());
}

#[test]
fn c52_usage_adds_up_over_all_attempts() {
    let limits = Limits { tokens: Some(10), ..Limits::default() };
    let spend = |test: TestJob, tokens_in, tokens_out| {
        test.says(Signal::Spent(Usage { tokens_in, tokens_out, money_micros: 0 }))
    };
    let fires = |test: &TestJob| limit::fire(&test.job, &test.pulse, test.now.awake).is_some();
    let test = TestJob::in_turn(Spec { limits, ..agent() });
    let ten = spend(spend(test, 4, 0), 1, 5);
    assert!(!fires(&ten));
    assert!(fires(&spend(ten, 0, 1)));
    let mut usage = Usage { tokens_in: u64::MAX, tokens_out: 5, money_micros: u64::MAX };
    usage.add(Usage { tokens_in: 1, tokens_out: 1, money_micros: 1 });
    assert_eq!(usage, Usage { tokens_in: u64::MAX, tokens_out: 6, money_micros: u64::MAX });
    assert_eq!(usage.tokens(), u64::MAX);
}

/// C48: a damaged `limit_fired` is read with defaults and still stops the job.
#[test]
fn c48_a_malformed_decision_still_stops_the_job() {
    let test = TestJob::running(agent());
    let stored = lastword_core::event::Stored {
        kind: "limit_fired".to_owned(),
        version: 1,
        body: r#"{"attempt": "first", "limit": 7, "measured": -1}"#.to_owned(),
    };
    let fact = Fact::decode(stored).expect("it reads");
    assert_eq!(fact, LimitFired::default().into());
    let event = Event { seq: test.job.version.next(), at: test.now.wall, fact };
    let mut log = test.log.clone();
    log.push(event);
    let job = Job::fold(test.job.id, &log).expect("it replays");
    let stop = job.stop.expect("it stops");
    assert_eq!(
        (stop.cause, stop.requested_at),
        (lastword_core::outcome::Cause::Limit(Limit::Wall), test.now.wall)
    );
}

#[test]
fn c52_output_is_counted_per_attempt_and_counts_as_progress() {
    let limits = Limits { output_bytes: Some(100), stall_ms: Some(50), ..Limits::default() };
    let wrote = |total_bytes| Signal::Wrote { total_bytes };
    let test = TestJob::running(Spec { limits, ..command() }).later(10).says(wrote(100));
    assert_eq!((test.pulse.output, test.pulse.progress), (100, Awake(510)));
    assert_eq!(test.count("launched") + 3, test.log.len(), "no fact follows");
    // The same count again, or a smaller one, is no progress.
    let test = test.later(10).says(wrote(100)).says(wrote(7));
    assert_eq!((test.pulse.output, test.pulse.progress), (100, Awake(510)));
    let fired = |test: &TestJob| match limit::fire(&test.job, &test.pulse, test.now.awake) {
        Some(Fact::LimitFired(fired)) => Some((fired.limit, fired.measured, fired.allowed)),
        _ => None,
    };
    assert_eq!(fired(&test), None, "a count may reach the limit");
    assert_eq!(fired(&test.clone().says(wrote(101))), Some((Limit::Output, 101, 100)));
    assert_eq!(fired(&test.clone().later(40)), Some((Limit::Stall, 50, 50)));
    // If it is raised in time, the new value counts.
    let mut raised = test;
    let facts = limit::decide(&raised.job, "ann", Limit::Output, 200);
    raised.anyone(facts);
    assert_eq!(fired(&raised.says(wrote(200))), None);
}

#[test]
fn a_tree_of_an_earlier_owner_is_located_before_it_is_measured() {
    let spec = Spec { limits: Limits { wall_ms: Some(700), ..Limits::default() }, ..command() };
    let pulse = Pulse::default();
    let left = TestJob::running(spec).claimed("a", 2);
    assert_eq!(limit::next_check(&left.job, &pulse), None);
    assert_eq!(limit::fire(&left.job, &pulse, Awake(u64::MAX)), None);
    // It had completed long before.
    let ended =
        left.reports(Report::Located { attempt: AttemptNo(1), found: Found::Ended(Box::new(exited(0))) });
    assert_eq!(ended.outcome(), Some(Outcome::Completed));
    // A live one is measured from its launch.
    let alive = Found::Alive { tree: tree(7), awake: Awake(500) };
    let adopted =
        TestJob::running(Spec { limits: Limits { wall_ms: Some(700), ..Limits::default() }, ..command() })
            .claimed("a", 2)
            .reports(Report::Located { attempt: AttemptNo(1), found: alive });
    assert_eq!(limit::next_check(&adopted.job, &pulse), Some(Awake(1_200)));
    assert!(limit::fire(&adopted.job, &pulse, Awake(1_200)).is_some());
}

#[test]
fn c90_the_clocks_rest_while_a_person_is_asked() {
    let limits = Limits { wall_ms: Some(10_000), turn_ms: Some(8_000), ..Limits::default() };
    let mut rig = Rig::new(TestJob::in_turn(Spec { limits, ..agent() }));
    rig.tick();
    let begun = rig.test.now.awake;
    rig.later(3_000);
    let outputs = rig.says(question("q1"));
    let effects = rig.settle(outputs);
    assert!(effects.contains(&Output::Do(Effect::Deadline { attempt: FIRST, at: None })), "{effects:?}");
    // An hour passes, a new owner takes the job over, and nothing fires.
    rig.later(3_600_000);
    let mut rig = Rig::new(rig.test);
    assert_eq!((rig.tick().len(), rig.test.count("limit_fired")), (2, 0));
    let facts = allow(&rig.test.job, "q1");
    rig.test.anyone(facts);
    let outputs = rig.step(Input::News);
    rig.settle(outputs);
    assert_eq!(rig.test.count("rested"), 1);
    // Five of the turn's eight seconds are left, and seven of the attempt's ten.
    assert_eq!(rig.owner.next_check(), Some(begun.plus_ms(3_600_000 + 8_000)));
    let deadline = Effect::Deadline { attempt: FIRST, at: Some(begun.plus_ms(3_600_000 + 10_000)) };
    assert!(effects::due(rig.owner.job(), rig.test.fence()).contains(&deadline));
    rig.later(4_999);
    rig.tick();
    assert_eq!(rig.test.count("limit_fired"), 0);
    rig.later(1);
    rig.tick();
    assert_eq!(rig.test.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Turn)));
}

#[test]
fn c90_each_turn_has_its_own_clock() {
    let limits = Limits { turn_ms: Some(1_000), ..Limits::default() };
    let test = TestJob::in_turn(Spec { limits, ..agent() }).later(999);
    let test = test.says(ends(TurnEnding::Completed)).later(50_000).says(Signal::TurnStarted).later(999);
    assert_eq!(limit::fire(&test.job, &test.pulse, test.now.awake), None);
    let test = test.later(1);
    let fired = limit::fire(&test.job, &test.pulse, test.now.awake);
    assert!(matches!(fired, Some(Fact::LimitFired(LimitFired { limit: Limit::Turn, measured: 1_000, .. }))));
}

#[test]
fn an_agent_without_a_handshake_is_reported_and_then_stopped() {
    let mut rig = Rig::new(TestJob::running(agent()));
    rig.tick();
    rig.later(29_999);
    rig.tick();
    assert_eq!(rig.test.count("limit_neared"), 0);
    rig.later(1);
    rig.tick();
    rig.later(60_000);
    rig.tick();
    assert_eq!((rig.test.count("limit_neared"), rig.test.count("limit_fired")), (1, 0));
    rig.later(30_000);
    rig.tick();
    assert_eq!(rig.test.job.stop.as_ref().map(|stop| stop.cause), Some(Cause::Limit(Limit::Handshake)));
    // One that opened its session in time is never warned.
    let mut rig = Rig::new(TestJob::running(agent()).later(29_000).says(session()));
    rig.tick();
    rig.later(200_000);
    rig.tick();
    assert_eq!((rig.test.count("limit_neared"), rig.test.count("limit_fired")), (0, 0));
    // A command has none, and neither has an agent that says nothing before its model answers.
    assert_eq!(command().work.default_limits().get(Limit::Handshake), None);
}

#[test]
fn c90_a_limit_that_the_agent_does_not_report_is_refused() {
    let with = |measures: Option<Measures>, limits: Limits| {
        let terms = Box::new(Terms { measures, ..Terms::default() });
        let work = Work::Agent { provider: "mine".to_owned(), prompt: "go".to_owned(), terms };
        Spec { limits, ..Spec::of(work, "/src") }
    };
    let submit = |spec: Spec, global: Limits| {
        submit::decide(&TestJob::empty().job, &Arc::new(spec), "ann", global).map(|facts| facts.len())
    };
    let (tokens, money) = (
        Limits { tokens: Some(9), ..Limits::default() },
        Limits { money_micros: Some(9), ..Limits::default() },
    );
    let none = Limits::default();
    let only_money = Some(Measures { tokens: false, money: true });
    assert_eq!(submit(with(only_money, money), none), Ok(1));
    let refused = Err(Refusal::Unmeasured("mine".to_owned(), Limit::Tokens));
    assert_eq!(submit(with(only_money, tokens), none), refused);
    // A limit of the installation is one too. Zero switches it off for this job.
    assert_eq!(submit(with(only_money, none), tokens), refused);
    assert_eq!(submit(with(only_money, Limits { tokens: Some(0), ..none }), tokens), Ok(1));
    // What 0.1.0 recorded says nothing about it.
    assert_eq!(submit(with(None, tokens), none), Ok(1));
    // The same for a later change.
    let test = TestJob::running(with(only_money, none));
    let change = |limit, value| limit::decide(&test.job, "ann", limit, value).map(|facts| facts.len());
    assert_eq!(change(Limit::Tokens, 5), refused);
    assert_eq!(
        (change(Limit::Money, 5), change(Limit::Wall, 5), change(Limit::Tokens, 0)),
        (Ok(1), Ok(1), Ok(0))
    );
}

#[test]
fn c90_money_without_a_price_ends_the_turn_if_it_is_limited() {
    let unpriced = || Signal::Unpriced { model: "new-model".to_owned() };
    let free = TestJob::in_turn(agent()).says(unpriced());
    assert_eq!(free.count("turn_ended"), 0);
    let limits = Limits { money_micros: Some(1), ..Limits::default() };
    let bound = TestJob::in_turn(Spec { limits, ..agent() }).says(unpriced());
    let session = bound.job.session.as_ref().expect("it has one");
    assert_eq!(session.last_turn.map(|(_, ending)| ending), Some(TurnEnding::Failed));
    assert!(session.last_error.as_ref().is_some_and(|error| error.contains("`new-model`")));
}

#[test]
fn money_that_was_counted_too_much_is_taken_back() {
    let money = |money_micros| Signal::Spent(Usage { money_micros, ..Usage::default() });
    let test = TestJob::in_turn(agent()).says(money(900)).says(Signal::Overcounted { money_micros: 300 });
    assert_eq!(test.job.usage.money_micros, 600);
    let view = UsageView::of(&test.log);
    assert_eq!((view.total, view.turns[0].1), (test.job.usage, test.job.usage));
    let test = test.says(Signal::Overcounted { money_micros: 9_999 });
    assert_eq!(test.job.usage.money_micros, 0);
}
