//! Conversations: chains of jobs with one budget and one set of rules; and limits that count over more than one attempt.

use std::sync::Arc;

use lastword_core::conversation::{Position, Spending};
use lastword_core::decide::resume::{GoesOn, How};
use lastword_core::decide::{Refusal, answer, limit, resume, retry, rule, submit};
use lastword_core::event::{Fact, TurnEnding, Usage};
use lastword_core::job::Phase;
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Cause, Outcome};
use lastword_core::question::Ask;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, ProviderSession, Spec, Terms, Unfinished, Work};
use lastword_core::view::row::{Row, Section};
use lastword_core::{AttemptNo, Job};

use crate::common::{TestJob, agent, command, ends, exited, id, kinds, name_of, question, retried, session};

/// Returns the job that continues another one, as the engine submits it.
fn next_of(before: &mut TestJob, new: u8) -> TestJob {
    let spec = resume::decide(&before.job, "go on", None, How::default()).expect("it has ended");
    before.anyone(resume::follow(&before.job, "ann", id(new)));
    let mut next = TestJob { job: Job::unborn(id(new)), ..TestJob::empty() };
    let carried = Some(Box::new(before.job.carries()));
    next.anyone(submit::decide_next(&next.job, &Arc::new(spec), "ann", Limits::default(), carried));
    next
}

/// Returns the signal of a question that a rule can answer from then on.
fn asks() -> Signal {
    match question("q1") {
        Signal::QuestionAsked { question, text, ask, edits } => {
            let exact = "[\"Bash\",\"make\"]".to_owned();
            Signal::QuestionAsked { question, text, ask: Box::new(Ask { exact, ..*ask }), edits }
        }
        other => other,
    }
}

/// Lets a job that waits run one turn that completes, and end.
fn turn(test: TestJob) -> TestJob {
    let running = test.claimed("a", 1).intended().launched(7);
    let test = running.says(session()).says(Signal::TurnStarted);
    let usage = Usage { tokens_in: 5, tokens_out: 6, money_micros: 7 };
    test.says(Signal::Spent(usage)).later(1_000).says(ends(TurnEnding::Completed)).emptied(exited(0))
}

#[test]
fn c92_jobs_of_a_conversation_have_one_budget() {
    let spec = Spec { limits: Limits { turns: Some(2), ..Limits::default() }, ..agent() };
    let mut first = turn(TestJob::queued(spec));
    assert_eq!(first.job.spending().turns, 1);
    let mut second = turn(next_of(&mut first, 2));
    let one = Spending {
        usage: Usage { tokens_in: 5, tokens_out: 6, money_micros: 7 },
        turns: 1,
        active_ms: first.job.active_ms,
    };
    let mut both = one;
    both.add(second.job.own_spending());
    assert_eq!((second.job.spent_before, second.job.spending()), (one, both));
    assert_eq!((both.turns, both.usage.money_micros >= 7), (2, true));
    // The third turn is not begun, whichever job would have it.
    let spec = resume::decide(&second.job, "more", None, How::default()).expect("it has ended");
    let unborn = Job::unborn(id(3));
    let asked = |second: &TestJob, spec: &Spec| {
        let carried = Some(Box::new(second.job.carries()));
        submit::decide_next(&unborn, &Arc::new(spec.clone()), "ann", Limits::default(), carried)
    };
    assert_eq!(asked(&second, &spec), Err(Refusal::UsedUp(id(2), Limit::Turns)));
    // A limit of an ended job is that of the conversation, as long as no other job follows.
    second.anyone(limit::decide(&second.job, "ann", Limit::Turns, 3));
    let spec = resume::decide(&second.job, "more", None, How::default()).expect("it has ended");
    assert_eq!(kinds(&asked(&second, &spec).expect("there is a turn left")), ["submitted"]);
    assert_eq!(limit::decide(&first.job, "ann", Limit::Turns, 9), Err(Refusal::Ended(id(1))));
    let command = TestJob::ended(0);
    assert_eq!(limit::decide(&command.job, "ann", Limit::Wall, 9), Err(Refusal::Ended(id(1))));
}

#[test]
fn c92_tokens_money_and_time_of_turns_count_over_the_conversation() {
    for (limit, value) in [(Limit::Tokens, 10), (Limit::Money, 6), (Limit::Active, 900)] {
        let mut first = turn(TestJob::queued(agent()));
        first.anyone(limit::decide(&first.job, "ann", limit, value));
        let spec = resume::decide(&first.job, "more", None, How::default()).expect("it has ended");
        let carried = Some(Box::new(first.job.carries()));
        let refused =
            submit::decide_next(&Job::unborn(id(2)), &Arc::new(spec), "ann", Limits::default(), carried);
        assert_eq!(refused, Err(Refusal::UsedUp(id(1), limit)), "{limit:?}");
    }
    // What is left is what the next job may use.
    let spec = Spec { limits: Limits { active_ms: Some(1_500), ..Limits::default() }, ..agent() };
    let mut first = turn(TestJob::queued(spec));
    let used = first.job.active_ms;
    assert!((1_000..1_500).contains(&used), "{used}");
    let running = next_of(&mut first, 2).claimed("a", 1).intended().launched(7);
    let test = running.says(session()).says(Signal::TurnStarted);
    let left = 1_500 - used;
    let fired = |ms| limit::fire(&test.job, &test.pulse, test.now.awake.plus_ms(ms));
    assert_eq!(fired(left - 10), None);
    let Some(Fact::LimitFired(fired)) = fired(left + 10) else { panic!("its time is up") };
    assert_eq!((fired.limit, fired.allowed), (Limit::Active, 1_500));
}

#[test]
fn c92_what_a_person_allowed_belongs_to_the_conversation() {
    let mut first = TestJob::in_turn(agent()).says(asks());
    first.anyone(answer::allow_always(&first.job, "ann", &name_of(&first.job, "q1")));
    assert_eq!(first.job.rules.len(), 1);
    let mut first = first.says(ends(TurnEnding::Completed)).emptied(exited(0));
    // A rule can be taken back between two jobs, and only from the newest one.
    let mut kept = first.clone();
    let second = next_of(&mut kept, 2);
    assert_eq!((second.job.rules.len(), second.job.rules_made), (1, 1));
    assert_eq!(rule::remove(&kept.job, "ann", 1), Err(Refusal::Ended(id(1))));
    first.anyone(rule::remove(&first.job, "ann", 1));
    let second = next_of(&mut first, 2);
    assert_eq!((second.job.rules.len(), second.job.rules_made), (0, 1));
}

#[test]
fn one_job_follows_another() {
    let live = TestJob::in_turn(agent());
    assert_eq!(resume::follow(&live.job, "ann", id(2)), Err(Refusal::NotEnded(id(1))));
    let mut first = turn(TestJob::queued(agent()));
    let before = (first.job.phase.clone(), first.job.updated_at);
    first.anyone(resume::follow(&first.job, "ann", id(2)));
    assert_eq!(resume::follow(&first.job, "ann", id(2)), Ok(Vec::new()), "the same request again");
    assert_eq!(resume::follow(&first.job, "bob", id(3)), Err(Refusal::Continued(id(1), id(2))));
    assert_eq!((first.job.phase.clone(), first.job.updated_at), before, "its ending is as it was");
    assert_eq!(Row::of(&first.job).section(), Section::Continued);
    // The one that was to follow was never submitted.
    assert_eq!(resume::unfollow(&first.job, "recovery", id(3)), Ok(Vec::new()));
    first.anyone(resume::unfollow(&first.job, "recovery", id(2)));
    assert_eq!((first.job.continued_by, Row::of(&first.job).section()), (None, Section::Unread));
    first.anyone(resume::follow(&first.job, "ann", id(3)));
    assert_eq!(first.job.continued_by, Some(id(3)));
}

#[test]
fn a_job_has_its_place_in_a_conversation() {
    assert_eq!(Row::of(&TestJob::queued(command()).job).conversation, None);
    let mut first = turn(TestJob::queued(agent()));
    let mut second = turn(next_of(&mut first, 2));
    let third = next_of(&mut second, 3);
    let place = |test: &TestJob| (test.job.conversation(), test.job.number());
    assert_eq!([place(&first), place(&second), place(&third)], [1, 2, 3].map(|n| (Some(id(1)), n)));
    assert_eq!(third.job.position, Some(Position { first: id(1), after: id(2), number: 3 }));
    let row = Row::of(&third.job);
    assert_eq!((row.conversation, row.summary.number), (Some(id(1)), 3));
    assert_eq!(row.summary.spending(), third.job.spending());
    // A fork begins another one, with nothing spent.
    let fork = resume::decide(&second.job, "otherwise", None, How { fork: true, ..How::default() })
        .expect("codex can");
    assert_eq!((fork.conversation, fork.fork), (None, true));
}

/// The newest job may have been cancelled before its first turn, or while it waited: then the session is the one before it.
#[test]
fn c91_a_job_whose_turns_did_not_complete_passes_its_session_on() {
    let reference = |spec: &Spec| spec.resume.as_ref().map(|session| session.reference.clone());
    let mut first = turn(TestJob::queued(agent()));
    for cancelled in [next_of(&mut first.clone(), 2).cancelled(), {
        let begun = next_of(&mut first, 2).claimed("a", 1).intended().launched(7);
        begun.says(session()).says(Signal::TurnStarted).cancelled().emptied(exited(0))
    }] {
        let spec = resume::decide(&cancelled.job, "again", None, How::default()).expect("it has ended");
        assert_eq!(reference(&spec).as_deref(), Some("ref-1"));
        assert_eq!(spec.conversation.map(|position| position.number), Some(3));
    }
}

/// Returns an agent that speaks this dialect, and how it is told to forget.
fn forgetting(dialect: Dialect, rewind: &[&str]) -> Spec {
    let rewind = rewind.iter().map(|word| (*word).to_owned()).collect();
    let resume = vec!["--resume".to_owned()];
    let terms = Box::new(Terms { dialect, rewind, resume, ..Terms::default() });
    Spec::of(Work::Agent { provider: "any".to_owned(), prompt: "fix it".to_owned(), terms }, "/src")
}

/// Lets a job that waits complete one turn, and begin another one that is cancelled.
fn cancelled_in_second_turn(test: TestJob) -> TestJob {
    let running = test.claimed("a", 1).intended().launched(7).says(session()).says(Signal::TurnStarted);
    let second = running.says(ends(TurnEnding::Completed)).later(1_000).says(Signal::TurnStarted);
    second.cancelled().emptied(exited(0))
}

/// goose cuts by the second, and would cut the completed turn too.
#[test]
fn c91_a_turn_that_began_in_the_second_of_the_one_before_stays_where_seconds_are_cut() {
    for (dialect, rewind, unfinished) in [
        (Dialect::Acp, &["truncate"][..], Unfinished::Kept),
        (Dialect::Claude, &["--resume-session-at", "{}"], Unfinished::Forgotten),
        (Dialect::Codex, &[], Unfinished::Forgotten),
    ] {
        let running = TestJob::queued(forgetting(dialect, rewind)).claimed("a", 1).intended().launched(7);
        let done = running.says(session()).says(Signal::TurnStarted).says(ends(TurnEnding::Completed));
        let cut = done.says(Signal::TurnStarted).cancelled().emptied(exited(0));
        assert_eq!(resume::source(&cut.job).unfinished, Some(unfinished), "{dialect:?}");
    }
}

#[test]
fn c91_a_turn_that_did_not_complete_is_forgotten_by_an_agent_that_can() {
    for (dialect, rewind, unfinished) in [
        (Dialect::Codex, &[][..], Unfinished::Forgotten),
        (Dialect::Claude, &["--resume-session-at", "{}"], Unfinished::Forgotten),
        (Dialect::Claude, &[], Unfinished::Kept),
        (Dialect::Acp, &["truncate"], Unfinished::Forgotten),
        (Dialect::Acp, &[], Unfinished::Kept),
    ] {
        let done = turn(TestJob::queued(forgetting(dialect, rewind)));
        assert_eq!(resume::source(&done.job).unfinished, None, "{dialect:?}");
        let first = cancelled_in_second_turn(TestJob::queued(forgetting(dialect, rewind)));
        let spec = resume::decide(&first.job, "on", None, How::default()).expect("it has ended");
        assert_eq!(
            (spec.unfinished, spec.resume_at.as_deref()),
            (Some(unfinished), Some("mark-1")),
            "{dialect:?}"
        );
        let kept = How { keep_unfinished: true, ..How::default() };
        let spec = resume::decide(&first.job, "on", None, kept).expect("it has ended");
        assert_eq!(spec.unfinished, Some(Unfinished::Kept), "{dialect:?}");
    }
}

#[test]
fn c91_what_is_to_be_forgotten_is_passed_on_until_the_agent_has_forgotten_it() {
    let opened = Signal::SessionStarted {
        reference: Some("ref-1".to_owned()),
        resumed_from: Some("ref-1".to_owned()),
    };
    let forgets = |test: &TestJob| {
        let source = resume::source(&test.job);
        source.unfinished.map(|unfinished| unfinished == Unfinished::Forgotten)
    };
    let mut first = cancelled_in_second_turn(TestJob::queued(forgetting(Dialect::Codex, &[])));
    let second = next_of(&mut first, 2);
    let on = GoesOn {
        reference: "ref-1",
        is_copy: false,
        at: Some("mark-1"),
        unfinished: Some(Unfinished::Forgotten),
    };
    assert_eq!(resume::of_attempt(&second.job, AttemptNo(1)), Some(on));
    assert_eq!(forgets(&second.clone().cancelled()), Some(true), "it was never started");
    let running = second.claimed("a", 1).intended().launched(7);
    assert_eq!(forgets(&running.clone().cancelled().emptied(exited(0))), Some(true), "it opened no session");
    let open = running.says(opened);
    assert_eq!(resume::of_attempt(&open.job, AttemptNo(1)).and_then(|on| on.unfinished), None);
    assert_eq!(forgets(&open.clone().cancelled().emptied(exited(0))), None, "it began no turn");
    let begun = open.says(Signal::TurnStarted);
    assert_eq!(
        forgets(&begun.clone().cancelled().emptied(exited(0))),
        Some(true),
        "its turn did not complete"
    );
    assert_eq!(forgets(&begun.says(ends(TurnEnding::Completed)).emptied(exited(0))), None);
}

#[test]
fn c91_a_turn_that_failed_is_forgotten_before_it_is_tried_again() {
    let running = TestJob::queued(retried(3))
        .claimed("a", 1)
        .intended()
        .launched(7)
        .says(session())
        .says(Signal::TurnStarted);
    let failed = running.says(ends(TurnEnding::Completed)).says(Signal::TurnStarted).emptied(exited(1));
    assert!(matches!(failed.job.phase, Phase::Backoff { .. }));
    let on = resume::of_attempt(&failed.job, AttemptNo(2)).expect("its first turn completed");
    assert_eq!((on.reference, on.at, on.unfinished), ("ref-1", Some("mark-1"), Some(Unfinished::Forgotten)));
}

#[test]
fn a_retry_goes_on_in_the_conversation_of_its_job() {
    let mut first = turn(TestJob::queued(agent()));
    let second = next_of(&mut first, 2);
    assert_eq!(retry::decide(&first.job, &second.job), Err(Refusal::NotEnded(id(2))));
    let second = turn(second);
    let again = retry::decide(&first.job, &second.job).expect("both have ended");
    let session = ProviderSession { provider: "codex".to_owned(), reference: "ref-1".to_owned() };
    assert_eq!((again.resume, again.retry_of), (Some(session), Some(id(1))));
    assert_eq!(again.conversation.map(|position| (position.after, position.number)), Some((id(2), 3)));
}

/// B8: `--wall 2s --retry 3` takes two seconds, not eight.
#[test]
fn c53_the_wall_clock_counts_over_all_attempts() {
    for spec in [retried(4), Spec { retry: retried(4).retry, ..command() }] {
        let spec =
            Spec { limits: Limits { wall_ms: Some(2_000), stall_ms: Some(0), ..Limits::default() }, ..spec };
        let first = TestJob::queued(spec).claimed("a", 1).intended().launched(7);
        let failed = first.later(1_500).emptied(exited(1));
        assert!(matches!(failed.job.phase, Phase::Backoff { .. }), "{:?}", failed.job.phase);
        assert_eq!(failed.job.ran_ms, 1_500);
        let second = failed.later(60_000).claimed("a", 2).intended().launched(7);
        let attempt = second.job.open_attempt().expect("it runs");
        assert_eq!(attempt.no, AttemptNo(2));
        let fired = |ms| limit::fire(&second.job, &second.pulse, second.now.awake.plus_ms(ms));
        assert_eq!(fired(499), None, "the pause between attempts does not count");
        let Some(Fact::LimitFired(reached)) = fired(500) else { panic!("its time is up") };
        assert_eq!((reached.limit, reached.measured, reached.allowed), (Limit::Wall, 2_000, 2_000));
        let mut over = second.later(500);
        let fired = limit::fire(&over.job, &over.pulse, over.now.awake);
        over.owner(vec![fired.expect("its time is up")]);
        let over = over.emptied(exited(1));
        let word = over.job.last_word().expect("it is not tried again");
        assert_eq!(
            (word.cause, matches!(word.outcome, Outcome::TimedOut(_))),
            (Cause::Limit(Limit::Wall), true)
        );
    }
}

/// A further attempt would have no time.
#[test]
fn c53_a_job_whose_time_is_used_up_is_not_tried_again() {
    let spec = Spec { limits: Limits { wall_ms: Some(1_000), ..Limits::default() }, ..retried(4) };
    let failed = |ms| {
        TestJob::queued(spec.clone()).claimed("a", 1).intended().launched(7).later(ms).emptied(exited(1))
    };
    assert!(matches!(failed(999).job.phase, Phase::Backoff { .. }));
    let word = failed(1_000).job.last_word().map(|word| (word.outcome, word.cause));
    assert_eq!(word, Some((Outcome::Failed, Cause::Agent)));
}
