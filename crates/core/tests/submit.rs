//! `submit`, `depend`, `send`, `answer`: requests to a job, and which of them are refused.

use std::sync::Arc;

use lastword_core::decide::cancel::Cancel;
use lastword_core::decide::{Decision, Refusal, cancel, depend, send, submit};
use lastword_core::effects::{self, Effect};
use lastword_core::event::{Submitted, TurnEnding};
use lastword_core::job::{Phase, Waits};
use lastword_core::limits::Limits;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{Dependency, Io, Needs, ProviderSession, RetryPolicy, Spec, Work, Worktree};
use lastword_core::{AttemptNo, Fact, InputNo};

use crate::common::{
    TestJob, agent, allow, command, dependent, ends, exited, id, kinds, question, reader, request, retried,
};

fn shown(decision: &Decision) -> Result<Vec<&str>, Refusal> {
    decision.as_ref().map(|facts| kinds(facts)).map_err(Clone::clone)
}

#[test]
fn c29_an_event_out_of_sequence_is_refused() {
    let TestJob { job, log, .. } = TestJob::queued(command());
    let last = log.last().expect("it was submitted").clone();
    let facts = cancel::decide(&job, &request(false), last.at).expect("it can be cancelled");
    for seq in [job.version, job.version.next().next()] {
        let mut job = job.clone();
        let event = lastword_core::Event { seq, fact: facts[0].clone(), ..last.clone() };
        assert!(job.apply(&event).is_err(), "{seq:?} after {:?}", job.version);
    }
}

#[test]
fn a_repeated_submission_adds_nothing() {
    let spec = Arc::new(command());
    let submit = |test: &TestJob, spec| submit::decide(&test.job, spec, "ann", Limits::default());
    assert_eq!(shown(&submit(&TestJob::empty(), &spec)), Ok(vec!["submitted"]));
    assert_eq!(submit(&TestJob::queued(command()), &spec), Ok(Vec::new()));
    assert_eq!(submit(&TestJob::ended(0), &spec), Ok(Vec::new()));
    let other = Arc::new(agent());
    assert_eq!(submit(&TestJob::queued(command()), &other), Err(Refusal::IdTaken(id(1))));
}

#[test]
fn c53_effective_limits_are_recorded_and_the_jobs_own_take_precedence() {
    let hour = 3_600_000;
    let check = |spec: Spec, global: Limits, expected: Limits| {
        let decided = submit::decide(&TestJob::empty().job, &Arc::new(spec), "ann", global);
        let Ok([Fact::Submitted(Submitted { limits, by, .. })]) = decided.as_deref() else {
            panic!("{decided:?}")
        };
        assert_eq!((*limits, by.as_str()), (expected, "ann"));
    };
    let none = Limits::default();
    let (handshake_ms, idle_ms) = (Some(hour / 30), Some(hour / 4));
    let usual = Limits { wall_ms: Some(4 * hour), stall_ms: Some(hour / 3), handshake_ms, idle_ms, ..none };
    check(agent(), none, usual);
    check(command(), none, none);
    let global = Limits { wall_ms: Some(9 * hour), money_micros: Some(5), ..none };
    check(agent(), global, Limits { wall_ms: Some(9 * hour), money_micros: Some(5), ..usual });
    check(command(), global, global);
    let own = Limits { wall_ms: Some(2 * hour), turns: Some(3), ..none };
    let expected = Limits { wall_ms: Some(2 * hour), turns: Some(3), money_micros: Some(5), ..usual };
    check(Spec { limits: own, ..agent() }, global, expected);
    // Zero means off; it is not left to the next source.
    let off = Limits { wall_ms: Some(0), ..none };
    check(
        Spec { limits: off, ..agent() },
        global,
        Limits { wall_ms: Some(0), money_micros: Some(5), ..usual },
    );
}

#[test]
fn a_job_waits_for_all_dependencies_and_starts_or_ends_by_their_outcomes() {
    let check = |spec: Spec, outcome: Outcome, expected: &[&str]| {
        let test = TestJob::queued(spec);
        assert_eq!(test.job.phase, Phase::Queued { waits: Waits::Dependencies });
        assert_eq!(shown(&depend::decide(&test.job, id(9), Some(outcome))), Ok(expected.to_vec()));
        assert_eq!(depend::decide(&test.job, id(8), Some(outcome)), Ok(Vec::new()));
    };
    check(dependent(Needs::Success), Outcome::Completed, &["dependency_settled"]);
    check(dependent(Needs::AnyEnd), Outcome::Completed, &["dependency_settled"]);
    for outcome in [Outcome::Failed, Outcome::Lost, Outcome::Cancelled(Begun::BeforeStart)] {
        check(dependent(Needs::Success), outcome, &["dependency_settled", "last_word"]);
        check(dependent(Needs::AnyEnd), outcome, &["dependency_settled"]);
    }
    let mut test = TestJob::queued(dependent(Needs::Success));
    let facts = depend::decide(&test.job, id(9), Some(Outcome::Failed));
    test.anyone(facts);
    let word = test.job.last_word().expect("it ended");
    assert_eq!((word.outcome, word.cause), (Outcome::Cancelled(Begun::BeforeStart), Cause::Dependency));
    assert_eq!(depend::decide(&test.job, id(9), Some(Outcome::Failed)), Ok(Vec::new()));
    let mut test = TestJob::queued(Spec {
        after: [9, 8].map(|n| Dependency { job: id(n), on: Needs::Success }).to_vec(),
        ..command()
    });
    for (n, waits) in [(9, Waits::Dependencies), (8, Waits::Slot)] {
        let facts = depend::decide(&test.job, id(n), Some(Outcome::Completed));
        test.anyone(facts);
        assert_eq!(test.job.phase, Phase::Queued { waits });
        assert_eq!(depend::decide(&test.job, id(n), Some(Outcome::Completed)), Ok(Vec::new()));
    }
}

/// A removed job had ended, but nothing says that it succeeded.
#[test]
fn c86_a_removed_dependency_is_a_reason_of_its_own() {
    let check = |on: Needs, expected: &[&str]| {
        let mut test = TestJob::queued(dependent(on));
        let facts = depend::decide(&test.job, id(9), None);
        assert_eq!(shown(&facts), Ok(expected.to_vec()));
        test.anyone(facts);
        assert!(test.job.unmet.is_empty());
        assert_eq!(depend::decide(&test.job, id(9), None), Ok(Vec::new()));
        test
    };
    assert_eq!(check(Needs::AnyEnd, &["dependency_removed"]).job.phase, Phase::Queued { waits: Waits::Slot });
    let test = check(Needs::Success, &["dependency_removed", "last_word"]);
    let word = test.job.last_word().expect("it ended");
    assert_eq!(
        (word.outcome, word.cause),
        (Outcome::Cancelled(Begun::BeforeStart), Cause::DependencyRemoved)
    );
    assert_eq!(word.by, Some(id(9).to_string()));
}

#[test]
fn c86_dependencies_that_ended_before_are_settled_with_the_submission() {
    let after = [(7, Needs::Success), (8, Needs::AnyEnd), (9, Needs::Success)];
    let spec = Spec { after: after.map(|(n, on)| Dependency { job: id(n), on }).to_vec(), ..command() };
    let check = |ended: &[(u8, Outcome)], expected: &[&str]| {
        let ended = ended.iter().map(|(n, outcome)| (id(*n), *outcome)).collect();
        let facts = depend::at_submission(&spec, &ended);
        assert_eq!(shown(&Ok(facts)), Ok(expected.to_vec()));
    };
    check(&[], &[]);
    check(&[(6, Outcome::Failed)], &[]);
    check(&[(8, Outcome::Failed), (9, Outcome::Completed)], &["dependency_settled", "dependency_settled"]);
    // The first that decides the end is the last to be recorded.
    check(&[(7, Outcome::Failed), (9, Outcome::Failed)], &["dependency_settled", "last_word"]);
}

#[test]
fn send_in_each_phase() {
    let check = |test: &TestJob, text: &str, expected: Result<&[&str], Refusal>| {
        let decided = send::decide(&test.job, "ann", text, false);
        assert_eq!(shown(&decided), expected.map(<[_]>::to_vec), "{:?}", test.job.phase);
    };
    let stop = Refusal::Nothing(id(1), "been asked to stop and accepts no more input");
    check(&TestJob::empty(), "hi", Err(Refusal::NotFound(id(1))));
    check(&TestJob::ended(0), "hi", Err(Refusal::Ended(id(1))));
    check(&TestJob::stopping(agent()), "hi", Err(stop));
    for test in
        [TestJob::queued(agent()), TestJob::launching(agent()), TestJob::running(agent()), TestJob::backoff()]
    {
        check(&test, "hi", Ok(&["input_requested"]));
    }
    let running = TestJob::running(agent());
    // The refusal says 256 KiB, so the bound must be exactly there.
    check(&running, &"x".repeat(262_144), Ok(&["input_requested"]));
    let large = Refusal::Full(id(1), "an input may be at most 256 KiB");
    check(&running, &"x".repeat(262_145), Err(large));
    let mut test = running;
    for _ in 0..send::INPUTS_MAX {
        let facts = send::decide(&test.job, "ann", "hi", false);
        test.anyone(facts);
    }
    check(&test, "hi", Err(Refusal::Full(id(1), "64 inputs are not delivered yet")));
}

#[test]
fn an_input_is_numbered_and_delivered_once() {
    let mut test = TestJob::running(reader());
    for text in ["one", "two"] {
        let facts = send::decide(&test.job, "ann", text, false);
        test.anyone(facts);
    }
    let tells = |test: &TestJob| {
        let due = effects::due(&test.job, test.fence());
        let tells = due.into_iter().filter_map(|effect| match effect {
            Effect::Tell { input, .. } => Some(input.0),
            _ => None,
        });
        tells.collect::<Vec<_>>()
    };
    assert_eq!(tells(&test), [1, 2]);
    let texts: Vec<_> = test.job.inputs.iter().map(|input| (input.no.0, input.text.as_str())).collect();
    assert_eq!(texts, [(1, "one"), (2, "two")]);
    let test = test.reports(Report::Told { input: InputNo(1) });
    assert_eq!(tells(&test), [2]);
    assert_eq!(test.observe(&Report::Told { input: InputNo(1) }), Vec::new());
    assert_eq!(test.job.inputs_made, InputNo(2));
    assert!(test.cancelled().emptied(exited(0)).job.inputs.is_empty());
}

#[test]
fn an_open_question_takes_one_answer() {
    let asked = TestJob::in_turn(agent()).says(question("q1")).says(question("q2"));
    let check = |test: &TestJob, id: &str, expected: Result<&[&str], Refusal>| {
        let decided = allow(&test.job, id);
        assert_eq!(shown(&decided), expected.map(<[_]>::to_vec));
    };
    let none = Err(Refusal::Nothing(id(1), "no open question of that name"));
    check(&TestJob::running(agent()), "q1", none.clone());
    check(&TestJob::in_turn(agent()), "q1", none.clone());
    check(&asked, "q3", none.clone());
    check(&asked, "q2", Ok(&["answer_requested"]));
    check(&TestJob::ended(0), "q1", Err(Refusal::Ended(id(1))));
    let mut test = asked.clone();
    let facts = allow(&test.job, "q1");
    test.anyone(facts);
    check(&test, "q1", Err(Refusal::Nothing(id(1), "an answer to that question already")));
    check(&test, "q2", Ok(&["answer_requested"]));
    let input = test.job.inputs.last().expect("it waits").clone();
    assert_eq!((input.no, input.question.as_deref(), input.text.as_str()), (InputNo(1), Some("q1"), "allow"));
    assert!(test.job.waits_for_person());
    let closed = test.says(Signal::QuestionClosed { question: "q2".to_owned() });
    assert!(!closed.job.waits_for_person());
    assert_eq!(closed.job.inputs.len(), 1, "the other answer is still pending");
    check(&closed, "q2", none);
}

/// If a dependency is listed twice, the stricter requirement counts, in either order.
#[test]
fn a_dependency_listed_twice_must_meet_both_requirements() {
    for needs in [[Needs::Success, Needs::AnyEnd], [Needs::AnyEnd, Needs::Success]] {
        let test = TestJob::queued(Spec {
            after: needs.map(|on| Dependency { job: id(9), on }).to_vec(),
            ..command()
        });
        assert_eq!(
            shown(&depend::decide(&test.job, id(9), Some(Outcome::Failed))),
            Ok(vec!["dependency_settled", "last_word"])
        );
        assert_eq!(
            shown(&depend::decide(&test.job, id(9), Some(Outcome::Completed))),
            Ok(vec!["dependency_settled"])
        );
    }
}

#[test]
fn an_invalid_spec_is_refused() {
    const KIB_256: usize = 256 * 1024;
    let check = |spec: Spec, why: Option<&'static str>| {
        let decided = submit::decide(&TestJob::empty().job, &Arc::new(spec), "ann", Limits::default());
        assert_eq!(decided.err(), why.map(Refusal::Invalid));
    };
    let argv = |argv: Vec<String>| Spec { work: Work::Command { argv }, ..command() };
    let named = |provider: &str, prompt: String| {
        let provider = provider.to_owned();
        Spec { work: Work::Agent { provider, prompt, terms: Box::default() }, ..agent() }
    };
    // Counted: each argument plus one, here "cmd", the directory and the group.
    let rest = "/src".len() + "default".len() + 1;
    let large = Some("its command or prompt, with its labels and paths, is larger than 256 KiB");
    check(argv(Vec::new()), Some("there is no command"));
    check(argv(vec!["x".repeat(KIB_256 - rest)]), None);
    check(argv(vec!["x".repeat(KIB_256 - rest + 1)]), large);
    check(argv(vec![String::new(); KIB_256 + 1]), large);
    check(named("", String::new()), Some("the agent has no name"));
    check(named("codex", "x".repeat(KIB_256 - 5 - rest + 1)), None);
    check(named("codex", "x".repeat(KIB_256 - 5 - rest + 2)), large);
    check(Spec { cwd: "x".repeat(KIB_256), ..command() }, large);
    check(Spec { group: "x".repeat(KIB_256), ..command() }, large);
    let long = ProviderSession { provider: "codex".to_owned(), reference: "x".repeat(KIB_256) };
    check(Spec { resume: Some(long), ..agent() }, large);
    let long = ProviderSession { provider: "x".repeat(KIB_256), reference: String::new() };
    check(Spec { resume: Some(long), ..agent() }, large);
    let (git_dir, checkout) = ("/src/.git".to_owned(), "/src".to_owned());
    let worktree = Worktree { git_dir, checkout, base: "0123456789".repeat(4), keep: false };
    let rest = rest + "/src/.git".len() + "/src".len() + 40;
    let within = |bytes: usize| {
        let argv = vec!["x".repeat(bytes)];
        Spec { work: Work::Command { argv }, worktree: Some(worktree.clone()), ..command() }
    };
    check(within(KIB_256 - rest), None);
    check(within(KIB_256 - rest + 1), large);
    let bare = [("x".repeat(KIB_256), String::new())].into();
    check(Spec { labels: bare, ..command() }, large);
    let labels = |n: usize, value: &str| (0..n).map(|n| (n.to_string(), value.to_owned())).collect();
    check(Spec { labels: labels(64, "x"), ..command() }, None);
    check(Spec { labels: labels(65, "x"), ..command() }, Some("it has more than 64 labels"));
    check(Spec { labels: labels(2, &"x".repeat(KIB_256 / 2)), ..command() }, large);
    check(Spec { group: String::new(), ..command() }, Some("the group has no name"));
    let on = |job| Dependency { job, on: Needs::AnyEnd };
    check(Spec { after: vec![on(id(9)); 256], ..command() }, None);
    check(Spec { after: vec![on(id(9)); 257], ..command() }, Some("it waits for more than 256 jobs"));
    check(Spec { after: vec![on(id(9)), on(id(1))], ..command() }, Some("it waits for itself"));
    let never = RetryPolicy { attempts_max: 0, ..RetryPolicy::default() };
    check(Spec { retry: never, ..command() }, Some("it must be allowed at least one attempt"));
}

#[test]
fn a_worktree_needs_a_commit_and_a_checkout_that_contains_the_directory() {
    let fine = Worktree {
        git_dir: "/src/.git".to_owned(),
        checkout: "/src".to_owned(),
        base: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        keep: false,
    };
    let check = |worktree: Worktree, cwd: &str, is_fine: bool| {
        let spec = Spec { worktree: Some(worktree), cwd: cwd.to_owned(), ..command() };
        let decided =
            submit::decide(&TestJob::empty().job, &Arc::new(spec.clone()), "ann", Limits::default());
        assert_eq!(decided.is_ok(), is_fine, "{spec:?}");
    };
    for cwd in ["/src", "/src/a", "/src/a/b"] {
        check(fine.clone(), cwd, true);
    }
    for cwd in ["/", "/srcs", "/other", "/src/../other", "/src/a/.."] {
        check(fine.clone(), cwd, false);
    }
    for base in ["HEAD", "", "--all", "0123456789ABCDEF0123456789ABCDEF01234567", "0123"] {
        check(Worktree { base: base.to_owned(), ..fine.clone() }, "/src", false);
    }
    check(Worktree { base: "a".repeat(64), ..fine.clone() }, "/src", true);
    check(Worktree { git_dir: ".git".to_owned(), ..fine.clone() }, "/src", false);
    check(Worktree { git_dir: "/src/\0".to_owned(), ..fine.clone() }, "/src", false);
    check(Worktree { checkout: "src".to_owned(), ..fine.clone() }, "src", false);
    check(Worktree { git_dir: format!("/{}", "x".repeat(256 * 1024)), ..fine.clone() }, "/src", false);
    check(Worktree { checkout: "/src\0".to_owned(), ..fine }, "/src\0/a", false);
}

#[test]
fn a_branch_is_named_after_its_job_and_unique() {
    let short = id(1).short();
    assert_eq!(Worktree::branch(None, id(1)), format!("lastword/{short}"));
    assert_eq!(Worktree::branch(Some("fix.it"), id(1)), format!("lastword/fix.it-{short}"));
    assert_eq!(Worktree::branch(Some("a..b...c"), id(1)), format!("lastword/a--b--.c-{short}"));
    assert_ne!(Worktree::branch(Some("fix"), id(1)), Worktree::branch(Some("fix"), id(2)));
}

/// C39: an attempt that never started was given no input.
#[test]
fn c39_inputs_of_an_attempt_that_never_started_stay_pending() {
    let mut test = TestJob::launching(Spec { retry: retried(2).retry, ..reader() });
    let facts = send::decide(&test.job, "ann", "and the docs", false);
    test.anyone(facts);
    let test =
        test.claimed("a", 2).reports(Report::Located { attempt: AttemptNo(1), found: Found::NeverStarted });
    let test = test.claimed("a", 2).intended().launched(5);
    let due = effects::due(&test.job, test.fence());
    assert!(due.contains(&Effect::Tell { attempt: AttemptNo(2), input: InputNo(1) }), "{due:?}");
    // An attempt that ran may have read it, so it is not delivered again.
    let test = test.emptied(exited(1)).later(1_000).claimed("a", 2).intended().launched(6);
    assert!(matches!(test.job.phase, Phase::Running) && test.job.inputs.is_empty());
}

#[test]
fn only_a_command_with_input_can_be_sent_any() {
    let check = |test: &TestJob, eof: bool, expected: Result<&[&str], &'static str>| {
        let decided = send::decide(&test.job, "ann", "hi", eof);
        let expected = expected.map(<[_]>::to_vec).map_err(|why| Refusal::Nothing(id(1), why));
        assert_eq!(shown(&decided), expected, "{:?}", test.job.phase);
    };
    let deaf = "no input: it was not started with a pipe or a terminal";
    for test in [TestJob::queued(command()), TestJob::running(command())] {
        check(&test, false, Err(deaf));
        check(&test, true, Err(deaf));
    }
    let terminal = Spec { io: Io::Terminal { rows: 24, columns: 80 }, ..command() };
    for test in [TestJob::queued(reader()), TestJob::running(reader()), TestJob::running(terminal)] {
        check(&test, false, Ok(&["input_requested"]));
        check(&test, true, Ok(&["input_requested"]));
    }
    check(&TestJob::running(agent()), true, Err("no input to close: an agent ends when its work is done"));
}

/// Sends the last input.
fn closed(mut test: TestJob) -> TestJob {
    let facts = send::decide(&test.job, "ann", "bye", true);
    test.anyone(facts);
    test
}

#[test]
fn no_input_is_accepted_after_the_last_until_the_next_attempt() {
    let retry = RetryPolicy { attempts_max: 3, ..RetryPolicy::default() };
    let refused = Err(Refusal::Nothing(id(1), "had its input closed; nothing more can be sent"));
    let test = closed(TestJob::running(Spec { retry, ..reader() }));
    let waits: Vec<_> = test.job.inputs.iter().map(|input| (input.text.as_str(), input.eof)).collect();
    assert_eq!(waits, [("bye", true)]);
    assert_eq!(send::decide(&test.job, "ann", "more", false), refused);
    let closes = |test: &TestJob| {
        let due = effects::due(&test.job, test.fence());
        due.contains(&Effect::Close { attempt: test.attempt() })
    };
    assert!(!closes(&test), "an input is still pending");
    let test = test.reports(Report::Told { input: InputNo(1) });
    assert_eq!(send::decide(&test.job, "ann", "", true), refused);
    // Due until the end, for a later owner too.
    assert!(closes(&test) && !closes(&TestJob::running(reader())));
    // The next attempt has its own input.
    let next = test.emptied(exited(1)).later(1_000);
    assert!(send::decide(&next.job, "ann", "more", false).is_ok());
    assert!(!closes(&next.claimed("a", 1).intended().launched(2)));
    // An input closed before anything was started is still to be closed.
    let early = closed(TestJob::launching(Spec { retry, ..reader() })).claimed("a", 2);
    let early = early.reports(Report::Located { attempt: AttemptNo(1), found: Found::NeverStarted });
    assert_eq!(send::decide(&early.job, "ann", "more", false), refused);
}

#[test]
fn valid_and_invalid_names() {
    for name in ["a", "7", "Nightly", "web.1", "a-b_c", "job_1", &"x".repeat(64)] {
        assert!(submit::is_name(name), "{name}");
    }
    let known = id(1).to_string();
    for name in ["", ".hidden", "-x", "_x", "a b", "a/b", "@last", "a:b", "é", "a\n", &"x".repeat(65), &known]
    {
        assert!(!submit::is_name(name), "{name}");
    }
    let check = |spec: Spec, valid: bool| {
        let decided = submit::decide(&TestJob::empty().job, &Arc::new(spec), "ann", Limits::default());
        assert_eq!(decided.is_ok(), valid, "{decided:?}");
    };
    let named = |name: &str| Spec { name: Some(name.to_owned()), ..command() };
    check(named("nightly"), true);
    check(named("night ly"), false);
    let terminal = |rows, columns| Spec { io: Io::Terminal { rows, columns }, ..command() };
    check(terminal(24, 80), true);
    check(terminal(0, 80), false);
    check(terminal(24, 0), false);
    check(Spec { io: Io::Pipe, ..agent() }, false);
    check(Spec { parent: Some(id(9)), ..command() }, true);
    check(Spec { parent: Some(id(1)), ..command() }, false);
}

#[test]
fn c28_the_last_word_names_the_requester() {
    let by = |test: &TestJob| test.job.last_word().and_then(|word| word.by.clone());
    assert_eq!(by(&TestJob::queued(command()).cancelled()).as_deref(), Some("ann"));
    assert_eq!(by(&TestJob::stopping(command()).emptied(exited(0))).as_deref(), Some("ann"));
    assert_eq!(by(&TestJob::ended(0)), None);
    // The first requester is named, even if another one adds force.
    let mut test = TestJob::stopping(command());
    let bob = Cancel { by: "bob".to_owned(), ..request(true) };
    let facts = cancel::decide(&test.job, &bob, test.now.wall);
    test.anyone(facts);
    assert_eq!(
        test.job.stop.as_ref().map(|stop| (stop.by.as_deref(), stop.force)),
        Some((Some("ann"), true))
    );
    assert_eq!(by(&test.emptied(exited(0))).as_deref(), Some("ann"));
    // A failed turn has no requester, so a request replaces it.
    let failed = TestJob::in_turn(agent()).says(ends(TurnEnding::Failed));
    assert_eq!(failed.job.stop.as_ref().and_then(|stop| stop.by.clone()), None);
    assert_eq!(by(&failed.cancelled().emptied(exited(0))).as_deref(), Some("ann"));
    // A job whose dependency failed names the dependency.
    let mut test = TestJob::queued(dependent(Needs::Success));
    let facts = depend::decide(&test.job, id(9), Some(Outcome::Failed));
    test.anyone(facts);
    assert_eq!(by(&test), Some(id(9).to_string()));
}

#[test]
fn labels_of_the_worker_are_checked() {
    let submit = |labels: Vec<String>| {
        let spec = Arc::new(Spec { on: labels.into_iter().collect(), ..command() });
        submit::decide(&TestJob::empty().job, &spec, "ann", Limits::default())
    };
    let one = |label: &str| submit(vec![label.to_owned()]);
    let many = |count: u32| submit((0..count).map(|n| format!("l{n}")).collect());
    for good in [one("gpu"), one("a.b_c-d/9"), one(&"x".repeat(64)), many(0), many(16)] {
        assert_eq!(shown(&good), Ok(vec!["submitted"]));
    }
    for bad in [one(""), one("GPU"), one("two words"), one("ü"), one("a,b"), one(&"x".repeat(65)), many(17)]
    {
        assert!(matches!(bad, Err(Refusal::Invalid(_))), "{bad:?}");
    }
}
