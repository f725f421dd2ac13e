//! Families: jobs that processes of other jobs submit end with those, and are waited for.

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::{Refusal, depend, family};
use lastword_core::event::Fact;
use lastword_core::job::Phase;
use lastword_core::outcome::{Asked, Begun, Cause, Outcome};
use lastword_core::spec::{Dependency, Needs, Permission, Permissions, RetryPolicy, Rule, Spec, Terms, Work};
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Job, Timestamp};

use crate::common::{TestJob, agent, command, exited, id, kinds, request, retried};

/// Returns the spec of a command that ends with job 1.
fn tied() -> Spec {
    Spec { parent: Some(id(1)), tied: true, ..command() }
}

/// Lets a job have a child.
fn with_child(mut test: TestJob, child: u8, spec: &Spec) -> TestJob {
    test.anyone(family::admit(&test.job, &[], 0, "ann", id(child), spec));
    test
}

/// Tells a job that a child has ended.
fn told(mut test: TestJob, child: u8, outcome: Outcome) -> TestJob {
    test.anyone(depend::decide(&test.job, id(child), Some(outcome)));
    test
}

#[test]
fn a_job_that_completed_waits_for_the_jobs_that_are_tied_to_it() {
    let parent = with_child(with_child(TestJob::running(command()), 2, &tied()), 3, &tied());
    let parent = parent.emptied(exited(0));
    assert!(matches!(&parent.job.phase, Phase::Awaiting(word) if word.outcome == Outcome::Completed));
    assert_eq!((parent.job.holder.as_ref(), parent.job.due()), (None, None), "it holds no slot");
    assert!(!parent.job.is_ended() && !parent.job.ends_children());
    let row = Row::of(&parent.job);
    assert_eq!((row.phase, row.summary.tied, row.summary.awaits), (PhaseName::Running, 2, true));
    let parent = told(parent, 2, Outcome::Failed);
    assert!(!parent.job.is_ended());
    let parent = told(parent, 3, Outcome::Completed);
    assert_eq!(parent.outcome(), Some(Outcome::Completed));
    assert_eq!(depend::decide(&parent.job, id(3), Some(Outcome::Completed)), Ok(Vec::new()), "told again");
}

#[test]
fn jobs_end_with_a_parent_that_is_stopped_or_fails() {
    // A request, before anything is gone.
    let mut stopped = with_child(TestJob::running(command()), 2, &tied());
    stopped.anyone(cancel::decide(&stopped.job, &request(false), Timestamp(1)));
    assert!(stopped.job.ends_children());
    let stopped = stopped.emptied(exited(1));
    assert!(!stopped.job.is_ended() && stopped.job.ends_children());
    let over = told(stopped, 2, Outcome::Cancelled(Begun::WhileRunning));
    assert_eq!(over.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!(over.job.children_stopped, [id(2)]);
    // A failure, once there is no further attempt.
    let failed = with_child(TestJob::running(command()), 2, &tied()).emptied(exited(1));
    assert!(matches!(&failed.job.phase, Phase::Awaiting(word) if word.outcome == Outcome::Failed));
    assert!(failed.job.ends_children());
    assert_eq!(Row::of(&failed.job).phase, PhaseName::Stopping);
    let policy = RetryPolicy { attempts_max: 2, ..RetryPolicy::default() };
    let again = with_child(TestJob::running(Spec { retry: policy, ..command() }), 2, &tied());
    let again = again.emptied(exited(1));
    assert!(matches!(again.job.phase, Phase::Backoff { .. }) && !again.job.ends_children());
    // While it waits for its next attempt it can be cancelled, and ends after its children.
    let mut cancelled = again;
    cancelled.anyone(cancel::decide(&cancelled.job, &request(false), Timestamp(1)));
    assert!(matches!(cancelled.job.phase, Phase::Awaiting(_)) && cancelled.job.ends_children());
}

/// What a parent achieved stays so, whatever becomes of its children.
#[test]
fn c84_a_cancel_while_a_job_waits_for_its_children_stops_those_only() {
    let mut parent = with_child(TestJob::running(command()), 2, &tied()).emptied(exited(0));
    parent.anyone(cancel::decide(&parent.job, &request(false), Timestamp(1)));
    assert!(parent.job.ends_children());
    assert_eq!(cancel::decide(&parent.job, &request(false), Timestamp(2)), Ok(Vec::new()));
    assert_eq!(
        kinds(&cancel::decide(&parent.job, &request(true), Timestamp(2)).unwrap()),
        ["cancel_requested"]
    );
    let over = told(parent, 2, Outcome::Cancelled(Begun::WhileRunning));
    assert_eq!(
        over.job.last_word().map(|word| (word.outcome, word.cause)),
        Some((Outcome::Completed, Cause::Finished))
    );
}

#[test]
fn a_kept_job_is_not_waited_for_and_not_ended() {
    let kept = Spec { tied: false, ..tied() };
    let parent = with_child(TestJob::running(command()), 2, &kept);
    let over = parent.clone().emptied(exited(0));
    assert_eq!(over.outcome(), Some(Outcome::Completed));
    assert_eq!(over.job.children.len(), 1, "it is named as left");
    let stopped = parent.cancelled();
    assert!(!stopped.job.ends_children());
    assert!(stopped.emptied(exited(1)).job.is_ended());
}

#[test]
fn a_child_is_ended_by_a_cause_of_its_own() {
    let mut child = TestJob::running(Spec { parent: Some(id(7)), ..tied() });
    let gone = Cancel { by: "docs".to_owned(), asked: Asked::ParentGone, force: false };
    child.anyone(cancel::decide(&child.job, &gone, Timestamp(1)));
    let child = child.emptied(exited(1));
    assert_eq!(child.job.last_word().map(|word| word.cause), Some(Cause::ParentGone));
}

#[test]
fn a_family_has_bounds() {
    let admit = |parent: &Job, above: &[Job], live, spec: &Spec| {
        family::admit(parent, above, live, "ann", id(9), spec).map(|facts| facts.len())
    };
    let running = TestJob::running(command()).job;
    assert_eq!(admit(&running, &[], 0, &tied()), Ok(1));
    assert_eq!(admit(&running, &vec![running.clone(); 2], 0, &tied()), Ok(1));
    assert!(matches!(admit(&running, &vec![running.clone(); 3], 0, &tied()), Err(Refusal::Invalid(_))));
    assert_eq!(admit(&running, &[], 31, &tied()), Ok(1));
    assert!(matches!(admit(&running, &[], 32, &tied()), Err(Refusal::Full(..))));
    let waits = Spec { after: vec![Dependency { job: id(1), on: Needs::AnyEnd }], ..tied() };
    assert!(matches!(admit(&running, &[], 0, &waits), Err(Refusal::Invalid(_))), "it would wait for ever");
    for over in [
        TestJob::ended(0),
        TestJob::stopping(command()),
        with_child(TestJob::running(command()), 2, &tied()).emptied(exited(0)),
    ] {
        assert!(admit(&over.job, &[], 0, &tied()).is_err(), "{:?}", over.job.phase);
    }
    let parent = with_child(TestJob::running(retried(3)), 9, &tied());
    assert_eq!(admit(&parent.job, &[], 1, &tied()), Ok(0), "the same submission again");
}

#[test]
fn a_child_is_allowed_no_more_than_its_parent() {
    use Permission::{Allow, Ask, Deny};
    let with = |otherwise, rules: &[(&str, Permission)]| {
        let rule = |(pattern, permission): &(&str, Permission)| Rule {
            pattern: (*pattern).to_owned(),
            permission: *permission,
        };
        let permissions =
            Permissions { rules: rules.iter().map(rule).collect(), otherwise, expires_ms: None };
        let Work::Agent { provider, prompt, terms } = agent().work else { panic!("an agent") };
        let terms = Box::new(Terms { permissions, ..*terms });
        Spec { parent: Some(id(7)), tied: true, work: Work::Agent { provider, prompt, terms }, ..command() }
    };
    let parent = TestJob::running(with(Ask, &[("Bash: cargo *", Allow), ("Bash: git push *", Deny)])).job;
    let admit = |mut spec: Spec| {
        family::inherit(&parent, &mut spec);
        family::admit(&parent, &[], 0, "ann", id(9), &spec)
    };
    // What the parent denies is denied without a word.
    assert!(admit(with(Ask, &[])).is_ok());
    assert!(admit(with(Ask, &[("Bash: cargo *", Allow)])).is_ok());
    assert!(admit(with(Deny, &[])).is_ok());
    for more in [with(Allow, &[]), with(Ask, &[("Bash", Allow)]), with(Ask, &[("Bash: git push *", Allow)])] {
        assert_eq!(admit(more.clone()), Err(Refusal::Exceeds(id(1))), "{:?}", more.work);
    }
    let mute = TestJob::running(with(Deny, &[])).job;
    let mut asks = with(Ask, &[]);
    family::inherit(&mute, &mut asks);
    let Work::Agent { terms, .. } = &asks.work else { panic!("an agent") };
    assert_eq!(terms.permissions.otherwise, Deny, "a person is not asked for what the parent may not do");
    assert!(family::admit(&mute, &[], 0, "ann", id(9), &asks).is_ok());
    // A command of a person may start any agent.
    assert!(family::admit(&TestJob::running(command()).job, &[], 0, "ann", id(9), &with(Allow, &[])).is_ok());
}

/// A child whose submission never came, or that is gone, does not hold its parent for ever.
#[test]
fn c86_a_child_that_is_gone_is_over() {
    let parent = with_child(TestJob::running(command()), 2, &tied()).emptied(exited(0));
    let facts = depend::decide(&parent.job, id(2), None).expect("it is told");
    assert!(matches!(facts.as_slice(), [Fact::ChildEnded(_), Fact::LastWord(_)]), "{facts:?}");
}
