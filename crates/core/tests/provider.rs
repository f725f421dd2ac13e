//! Providers that refuse to answer: what a job waits for, and how it goes on.

use lastword_core::decide::{provider, resume};
use lastword_core::event::{Fact, TurnEnding};
use lastword_core::job::Phase;
use lastword_core::outcome::Outcome;
use lastword_core::provider::{GO_ON, Refused, Reset};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{Spec, Terms, Unfinished, Work};
use lastword_core::{AttemptNo, Timestamp};

use crate::common::{TestJob, agent, ends, exited, session};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

fn waiting_agent() -> Spec {
    let Work::Agent { provider, prompt, terms } = agent().work else { panic!("it is an agent") };
    let terms = Box::new(Terms { tells_refusals: true, ..*terms });
    Spec { wait_for_quota: Some(DAY_MS), work: Work::Agent { provider, prompt, terms }, ..agent() }
}

fn refuses(why: Refused, reset: Reset) -> Signal {
    Signal::ProviderRefused { why, reset }
}

/// Ends the active turn because the provider refused to answer, and its attempt.
fn refused(test: TestJob, why: Refused, reset: Reset) -> TestJob {
    test.says(refuses(why, reset)).says(ends(TurnEnding::Limited)).emptied(exited(1))
}

/// Returns a job whose first turn is active.
fn in_turn(spec: Spec) -> TestJob {
    TestJob::queued(spec).claimed("a", 1).intended().launched(7).says(session()).says(Signal::TurnStarted)
}

/// Completes the active turn, and begins the next one with a message.
fn next_turn(mut test: TestJob, text: &str) -> TestJob {
    test.anyone(lastword_core::decide::send::decide(&test.job, "ann", text, false));
    let input = test.job.inputs[0].no;
    test.says(ends(TurnEnding::Completed)).says(Signal::TurnStarted).reports(Report::Told { input })
}

#[test]
fn c95_a_refused_job_waits_without_a_slot_until_it_is_told() {
    let test = in_turn(waiting_agent());
    let now = test.now.wall;
    let mut test = refused(test, Refused::Quota, Reset::At(now.plus_ms(60_000)));
    assert!(matches!(test.job.phase, Phase::Backoff { .. }) && test.job.holder.is_none());
    let wait = test.job.provider_wait.clone().expect("it waits");
    assert_eq!((wait.why, wait.until), (Refused::Quota, now.plus_ms(61_000)));
    assert_eq!((wait.account.as_str(), wait.ends_at), ("codex", now.plus_ms(DAY_MS)));
    assert_eq!(test.job.due(), None, "it cannot be claimed");
    test.anyone(provider::open(&test.job, wait.until));
    assert_eq!(test.job.due(), Some(wait.until));
    assert_eq!(provider::open(&test.job, wait.until), Ok(Vec::new()));
}

#[test]
fn c95_what_was_not_answered_is_sent_again_and_what_was_is_gone_on_with() {
    let at = |test: &TestJob| Reset::At(test.now.wall.plus_ms(1_000));
    let prompt = |test: &TestJob| resume::prompt_of_attempt(&test.job, AttemptNo(2)).to_owned();
    let first = in_turn(waiting_agent());
    let untouched = refused(first.clone(), Refused::Quota, at(&first));
    assert_eq!(
        (prompt(&untouched), resume::of_attempt(&untouched.job, AttemptNo(2))),
        ("fix the build".to_owned(), None)
    );

    let said = first.says(Signal::ItemCompleted { title: "ls".to_owned() });
    let in_part = refused(said.clone(), Refused::Quota, at(&said));
    let on = resume::of_attempt(&in_part.job, AttemptNo(2)).expect("its session has what it did");
    assert_eq!(
        (prompt(&in_part).as_str(), on.reference, on.unfinished),
        (GO_ON, "ref-0", Some(Unfinished::Kept))
    );

    // A later turn, without an answer: it is forgotten and sent again.
    let second = next_turn(said, "now the tests");
    let again = refused(second.clone(), Refused::Quota, at(&second));
    assert_eq!(prompt(&again), "now the tests");
    let on = resume::of_attempt(&again.job, AttemptNo(2)).expect("a turn was completed");
    assert_eq!((on.reference, on.at, on.unfinished), ("ref-1", Some("mark-1"), Some(Unfinished::Forgotten)));
}

/// What was done in part, or what an interrupted turn was told, is in the session: a second refusal must not lose it.
#[test]
fn c95_a_second_refusal_loses_nothing_of_the_session() {
    let opened = |reference: &str| Signal::SessionStarted {
        reference: Some(reference.to_owned()),
        resumed_from: Some(reference.to_owned()),
    };
    let first = in_turn(waiting_agent()).says(Signal::ItemCompleted { title: "ls".to_owned() });
    let mut once = refused(first, Refused::Overload, Reset::Unknown);
    once.anyone(provider::open(&once.job, once.now.wall.plus_ms(60_000)));
    let tries = once.later(60_000).claimed("a", 2).intended().launched(7);
    let twice =
        refused(tries.says(opened("ref-0")).says(Signal::TurnStarted), Refused::Overload, Reset::Unknown);
    let on = resume::of_attempt(&twice.job, AttemptNo(3)).expect("the work is in it");
    assert_eq!((on.reference, on.unfinished), ("ref-0", Some(Unfinished::Kept)));
    assert_eq!(resume::prompt_of_attempt(&twice.job, AttemptNo(3)), GO_ON);

    let mut interrupted = in_turn(waiting_agent());
    let facts = lastword_core::decide::interrupt::decide(&interrupted.job, "ann", None);
    interrupted.anyone(facts);
    let next = interrupted.says(ends(TurnEnding::Aborted)).says(Signal::TurnStarted);
    let after = refused(next, Refused::Quota, Reset::Unknown);
    let on = resume::of_attempt(&after.job, AttemptNo(2)).expect("the interrupted turn is in it");
    assert_eq!((on.reference, on.unfinished), ("ref-0", Some(Unfinished::Kept)));
}

/// The daemon may die between the claim and the start of the try.
#[test]
fn c95_a_try_that_was_not_started_is_made_by_the_next_attempt() {
    let told = next_turn(in_turn(waiting_agent()), "now the tests");
    let mut waits = refused(told, Refused::Overload, Reset::Unknown);
    let prompt = |test: &TestJob, no| resume::prompt_of_attempt(&test.job, AttemptNo(no)).to_owned();
    assert_eq!(prompt(&waits, 2), "now the tests");
    waits.anyone(provider::open(&waits.job, waits.now.wall.plus_ms(60_000)));
    let unstarted = waits.later(60_000).claimed("a", 2).intended();
    let attempt = AttemptNo(2);
    let unstarted = unstarted.reports(Report::Located { attempt, found: Found::NeverStarted });
    assert!(unstarted.job.provider_wait.is_some(), "its bound is that of the first refusal");
    assert_eq!(prompt(&unstarted, 3), "now the tests");
}

#[test]
fn c95_a_wait_is_bounded_over_all_refusals_and_is_no_try() {
    let test = in_turn(waiting_agent());
    let late = Reset::At(test.now.wall.plus_ms(DAY_MS + 1));
    let over = refused(test.clone(), Refused::Quota, late);
    assert_eq!(over.job.last_word().map(|word| word.outcome), Some(Outcome::Failed));
    let error = over.job.attempts[0].end.as_ref().and_then(|end| end.error.clone());
    assert!(error.is_some_and(|error| error.contains("longer than it may wait")));
    // Without being told to, no job waits.
    let unasked = refused(in_turn(agent()), Refused::Quota, Reset::Unknown);
    assert_eq!(unasked.job.last_word().map(|word| word.outcome), Some(Outcome::Failed));

    let mut waits = refused(test, Refused::Overload, Reset::Unknown);
    let (since, until) =
        waits.job.provider_wait.as_ref().map(|wait| (wait.since, wait.until)).expect("it waits");
    assert_eq!(until, since.plus_ms(60_000));
    waits.anyone(provider::open(&waits.job, until));
    let again =
        waits.later(60_000).claimed("a", 2).intended().launched(7).says(session()).says(Signal::TurnStarted);
    let twice = refused(again, Refused::Overload, Reset::Unknown);
    let wait = twice.job.provider_wait.clone().expect("one attempt is all it has, and these are none");
    assert_eq!((wait.since, wait.times), (since, 2));
    assert!(wait.until >= twice.now.wall.plus_ms(120_000), "the pause doubles");
    let facts = provider::give_up(&twice.job, wait.ends_at).expect("it waited for a day");
    assert!(matches!(&facts[..], [Fact::LastWord(word)] if word.outcome == Outcome::Failed));
    assert_eq!(provider::give_up(&twice.job, Timestamp(wait.ends_at.0 - 1)), Ok(Vec::new()));
}

/// The others of its account must not follow.
#[test]
fn c95_a_try_that_fails_in_another_way_is_no_answer() {
    let spec = waiting_agent();
    let retry = lastword_core::spec::RetryPolicy { attempts_max: 2, ..spec.retry };
    let test = in_turn(Spec { retry, ..spec }).says(Signal::ItemCompleted { title: "ls".to_owned() });
    let until = test.now.wall.plus_ms(1_000);
    let mut test = refused(test, Refused::Quota, Reset::At(until));
    assert!(test.job.has_answer(), "in part");
    test.anyone(provider::open(&test.job, until));
    let failed = test.later(1_000).claimed("a", 2).intended().launched(7).emptied(exited(1));
    assert!(matches!(failed.job.phase, Phase::Backoff { .. }), "it is tried again: the refusal was no try");
    assert!(failed.job.provider_wait.is_some() && !failed.job.has_answer());
}

#[test]
fn c95_an_answer_ends_the_wait() {
    let test = in_turn(waiting_agent());
    let until = test.now.wall.plus_ms(1_000);
    let mut test = refused(test, Refused::Quota, Reset::At(until));
    test.anyone(provider::open(&test.job, until));
    let again =
        test.later(1_000).claimed("a", 2).intended().launched(7).says(session()).says(Signal::TurnStarted);
    assert!(again.job.provider_wait.is_some(), "it was not answered yet");
    let answered = again.says(Signal::ItemCompleted { title: "ls".to_owned() });
    assert_eq!(answered.job.provider_wait, None);
    assert_eq!(answered.says(ends(TurnEnding::Completed)).emptied(exited(0)).job.attempts.len(), 2);
}
