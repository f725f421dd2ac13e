//! Providers that refuse to answer: what a job waits for, and how it goes on.

use lastword_core::decide::{provider, resume};
use lastword_core::event::{Fact, TurnEnding};
use lastword_core::job::Phase;
use lastword_core::outcome::Outcome;
use lastword_core::provider::{GO_ON, Refused, Reset};
use lastword_core::report::Signal;
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
    let second = said.says(ends(TurnEnding::Completed)).says(Signal::TurnStarted);
    let again = refused(second.clone(), Refused::Quota, at(&second));
    let on = resume::of_attempt(&again.job, AttemptNo(2)).expect("a turn was completed");
    assert_eq!((on.reference, on.at, on.unfinished), ("ref-1", Some("mark-1"), Some(Unfinished::Forgotten)));
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
