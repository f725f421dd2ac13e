//! How attempts and jobs end: one last word, its precedence, and when another attempt follows.

use lastword_core::decide::{Refusal, limit, retry, send};
use lastword_core::event::{
    AttemptEnded, LastWord, LimitFired, RetryScheduled, SessionState, StopBegan, Submitted, TurnEnding,
};
use lastword_core::job::{Job, Phase};
use lastword_core::limits::{Limit, SETTINGS};
use lastword_core::outcome::{Begun, Budget, Cause, Clock, Outcome};
use lastword_core::receipt::{Exit, KeeperStop, Level, Proof, Receipt, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{Dialect, RetryPolicy, Spec, Terms, Work};
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Append, AppendId, AttemptNo, Event, Fact, Illegal, Seq, Timestamp};

use crate::common::{
    TestJob, agent, becomes, command, commit, dependent, ends, exited, id, kinds, question, session, tree,
};

const RUNNING: Outcome = Outcome::Cancelled(Begun::WhileRunning);

fn receipt(proof: Proof, exit: Option<Exit>, keeper_stop: Option<KeeperStop>) -> Receipt {
    Receipt { level: Level::Subreaper, exit, keeper_stop, ..Receipt::bare(proof) }
}

fn fired(test: TestJob, limit: Limit) -> TestJob {
    let mut test = test;
    let attempt = test.attempt();
    test.owner(vec![LimitFired { attempt, limit, measured: 2, allowed: 1 }.into()]);
    test
}

fn ended_as(test: TestJob, receipt: Receipt) -> (Outcome, Cause) {
    let test = test.emptied(receipt);
    let word = test.job.last_word().unwrap_or_else(|| panic!("{:?}", test.job.phase));
    let end = test.job.attempts.last().and_then(|attempt| attempt.end.clone()).expect("it ended");
    // The attempt and the job agree, and the last word refers to the attempt.
    assert_eq!((end.outcome, end.cause, Some(end.attempt)), (word.outcome, word.cause, word.attempt));
    (word.outcome, word.cause)
}

#[test]
fn c28_endings_have_the_documented_precedence() {
    use Proof::{BestEffort, BootChanged, LeaseSelfFenced, NamespaceGone, NeverStarted, NoChildren};
    let check = |test: TestJob, receipt: Receipt, outcome: Outcome, cause: Cause| {
        let shown = format!("{receipt:?} {:?}", test.job.stop);
        assert_eq!(ended_as(test, receipt), (outcome, cause), "{shown}");
    };
    let zero = Some(Exit::Code(0));
    let run = || TestJob::running(command());
    let wall = Cause::Limit(Limit::Wall);
    let deadline = Outcome::TimedOut(Clock::Deadline);
    // 1. No certain proof.
    check(run(), receipt(BestEffort, zero, None), Outcome::Lost, Cause::Unaccounted);
    check(run().cancelled(), receipt(BestEffort, zero, None), Outcome::Lost, Cause::Unaccounted);
    check(fired(run(), Limit::Wall), receipt(BestEffort, None, None), Outcome::Lost, Cause::Unaccounted);
    // 2. A reason in the log, whatever the receipt says.
    for exit in [None, zero, Some(Exit::Code(3)), Some(Exit::Signal(9))] {
        for stop in [None, Some(KeeperStop::Deadline), Some(KeeperStop::Lease), Some(KeeperStop::LocalStall)]
        {
            for proof in [NoChildren, NamespaceGone, NeverStarted, BootChanged, LeaseSelfFenced] {
                check(run().cancelled(), receipt(proof, exit, stop), RUNNING, Cause::User);
                check(fired(run(), Limit::Wall), receipt(proof, exit, stop), deadline, wall);
            }
        }
    }
    // 3. The keeper's own reason.
    let stall = Outcome::TimedOut(Clock::Stall);
    for exit in [None, zero, Some(Exit::Signal(9))] {
        check(run(), receipt(NoChildren, exit, Some(KeeperStop::Deadline)), deadline, wall);
        check(
            run(),
            receipt(NoChildren, exit, Some(KeeperStop::LocalStall)),
            stall,
            Cause::Limit(Limit::Stall),
        );
        for (budget, limit) in [
            (Budget::Output, Limit::Output),
            (Budget::Turns, Limit::Turns),
            (Budget::Tokens, Limit::Tokens),
            (Budget::Money, Limit::Money),
        ] {
            let record = receipt(NoChildren, exit, Some(KeeperStop::LocalBudget(budget)));
            check(run(), record, Outcome::OverBudget(budget), Cause::Limit(limit));
        }
        check(run(), receipt(NoChildren, exit, Some(KeeperStop::LocalCancel)), RUNNING, Cause::User);
        check(run(), receipt(NoChildren, exit, Some(KeeperStop::Lease)), Outcome::Lost, Cause::Unaccounted);
    }
    // 4. Never started, here because the launch failed.
    let failed = TestJob::launching(command()).reports(Report::LaunchFailed {
        attempt: AttemptNo(1),
        error: "no such program".to_owned(),
        launch_error: None,
    });
    assert_eq!(
        failed.job.last_word().map(|word| (word.outcome, word.cause)),
        Some((Outcome::Failed, Cause::Launch))
    );
    // 5. Proven dead by a reboot or an expired lease, or without an exit status.
    for (proof, exit) in
        [(BootChanged, zero), (LeaseSelfFenced, zero), (BootChanged, None), (NoChildren, None)]
    {
        check(run(), receipt(proof, exit, None), Outcome::Lost, Cause::Unaccounted);
    }
    // 6. The exit status of the leader.
    check(run(), receipt(NoChildren, zero, None), Outcome::Completed, Cause::Finished);
    check(run(), receipt(NamespaceGone, zero, None), Outcome::Completed, Cause::Finished);
    check(run(), receipt(NoChildren, Some(Exit::Code(1)), None), Outcome::Failed, Cause::Agent);
    check(run(), receipt(NoChildren, Some(Exit::Signal(15)), None), Outcome::Failed, Cause::Agent);
}

/// The rows of the table, for a command: what the keeper saw first counts.
#[test]
fn c84_a_command_that_finished_stays_finished() {
    let first = |code: i32, keeper_stop: Option<KeeperStop>| Receipt {
        exited_first: true,
        keeper_stop,
        ..exited(code)
    };
    let check = |test: TestJob, receipt: Receipt, outcome: Outcome, cut_short: Option<Cause>| {
        let test = test.emptied(receipt);
        let end = test.job.attempts.last().and_then(|attempt| attempt.end.clone()).expect("it ended");
        assert_eq!((end.outcome, end.cut_short), (outcome, cut_short));
        let word = test.job.last_word().expect("it is not tried again");
        assert_eq!(word.outcome, outcome);
        let is_asked = !matches!(outcome, Outcome::Completed | Outcome::Failed) && test.job.stop.is_some();
        assert_eq!(word.requested_at.is_some(), is_asked, "{word:?}");
    };
    let run = || TestJob::running(command());
    let wall = Cause::Limit(Limit::Wall);
    // Leftovers in their grace, then a stop.
    check(run().cancelled(), first(0, None), Outcome::Completed, Some(Cause::User));
    check(fired(run(), Limit::Wall), first(0, None), Outcome::Completed, Some(wall));
    check(run().cancelled(), first(3, None), Outcome::Failed, Some(Cause::User));
    check(fired(run(), Limit::Output), first(3, None), Outcome::Failed, Some(Cause::Limit(Limit::Output)));
    // The keeper's own reasons.
    check(run(), first(0, Some(KeeperStop::Deadline)), Outcome::Completed, Some(wall));
    check(run(), first(1, Some(KeeperStop::LocalCancel)), Outcome::Failed, Some(Cause::User));
    // Without a lease, another host may have started it.
    check(run(), first(0, Some(KeeperStop::Lease)), Outcome::Lost, None);
    // No stop, nothing to cut short.
    check(run(), first(0, None), Outcome::Completed, None);
    // The stop came first.
    check(run().cancelled(), exited(0), RUNNING, None);
    // A failed attempt that would be tried again has work left.
    let again = |attempts_max| {
        let retry = RetryPolicy { attempts_max, ..RetryPolicy::default() };
        TestJob::running(Spec { retry, ..command() })
    };
    check(again(2).cancelled(), first(3, None), RUNNING, None);
    check(again(2).cancelled(), first(0, None), Outcome::Completed, Some(Cause::User));
    check(again(1).cancelled(), first(3, None), Outcome::Failed, Some(Cause::User));
    // Nothing is certain.
    let lost = Receipt { proof: Proof::BestEffort, ..first(0, None) };
    check(run(), lost, Outcome::Lost, None);
}

/// The rows of the table, for an agent: its last turn, if it was completed before the stop and nothing was left to do.
#[test]
fn c84_an_agent_that_finished_stays_finished() {
    let check = |test: TestJob, receipt: Receipt, outcome: Outcome, cut_short: Option<Cause>| {
        let test = test.emptied(receipt);
        let end = test.job.attempts.last().and_then(|attempt| attempt.end.clone()).expect("it ended");
        assert_eq!((end.outcome, end.cut_short), (outcome, cut_short));
    };
    let killed = || Receipt { exit: Some(Exit::Signal(9)), ..exited(0) };
    let turn = || TestJob::in_turn(agent());
    let done = || turn().says(ends(TurnEnding::Completed));
    check(done().cancelled(), killed(), Outcome::Completed, Some(Cause::User));
    check(fired(done(), Limit::Wall), killed(), Outcome::Completed, Some(Cause::Limit(Limit::Wall)));
    check(turn().cancelled(), killed(), RUNNING, None);
    check(turn().cancelled().says(ends(TurnEnding::Completed)), killed(), RUNNING, None);
    // Something still runs in the background.
    let busy = done().says(Signal::SessionChanged { state: SessionState::Ready, background: 1 });
    check(busy.clone().cancelled(), killed(), RUNNING, None);
    // The keeper's deadline came after the agent's exit, or before.
    let deadline =
        |exited_first| Receipt { exited_first, keeper_stop: Some(KeeperStop::Deadline), ..exited(1) };
    check(done(), deadline(true), Outcome::Completed, Some(Cause::Limit(Limit::Wall)));
    check(done(), deadline(false), Outcome::TimedOut(Clock::Deadline), None);
    // It exited with work left.
    check(busy, deadline(true), Outcome::TimedOut(Clock::Deadline), None);
    check(turn(), deadline(true), Outcome::TimedOut(Clock::Deadline), None);
}

#[test]
fn c58_an_agent_completes_by_its_last_turn_whatever_its_exit_status() {
    let check = |test: TestJob, outcome: Outcome| {
        let receipts = [exited(0), exited(1), Receipt { exit: Some(Exit::Signal(9)), ..exited(0) }];
        for receipt in receipts {
            assert_eq!(ended_as(test.clone(), receipt).0, outcome);
        }
    };
    let turn = || TestJob::in_turn(agent());
    check(TestJob::running(agent()), Outcome::Failed);
    check(TestJob::running(agent()).says(session()), Outcome::Failed);
    check(turn(), Outcome::Failed);
    check(turn().says(ends(TurnEnding::Completed)), Outcome::Completed);
    check(turn().says(ends(TurnEnding::Completed)).says(Signal::TurnStarted), Outcome::Failed);
    // An undelivered input means that the work is not done.
    let mut told = turn();
    let facts = send::decide(&told.job, "ann", "and the docs", false);
    told.anyone(facts);
    check(told.says(ends(TurnEnding::Completed)), Outcome::Failed);
    // A plain agent is judged by its exit status.
    let plain = Terms { dialect: Dialect::Plain, ..Terms::default() };
    let (provider, prompt) = ("mine".to_owned(), "go".to_owned());
    let plain = Spec::of(Work::Agent { provider, prompt, terms: Box::new(plain) }, "/src");
    assert_eq!(ended_as(TestJob::running(plain.clone()), exited(0)).0, Outcome::Completed);
    assert_eq!(ended_as(TestJob::running(plain), exited(1)).0, Outcome::Failed);
    // A one-shot agent that reports its turn is judged by that.
    let once = Terms { dialect: Dialect::Once, ..Terms::default() };
    let (provider, prompt) = ("mine".to_owned(), "go".to_owned());
    let once = Spec::of(Work::Agent { provider, prompt, terms: Box::new(once) }, "/src");
    check(TestJob::running(once.clone()), Outcome::Failed);
    check(TestJob::in_turn(once.clone()), Outcome::Failed);
    check(TestJob::in_turn(once).says(ends(TurnEnding::Completed)), Outcome::Completed);
}

#[test]
fn c52_c28_each_limit_has_its_own_outcome_and_cause() {
    let outcomes = [
        Outcome::TimedOut(Clock::Deadline),
        Outcome::TimedOut(Clock::Deadline),
        Outcome::TimedOut(Clock::Deadline),
        Outcome::TimedOut(Clock::Stall),
        Outcome::TimedOut(Clock::Stall),
        Outcome::TimedOut(Clock::Stall),
        Outcome::OverBudget(Budget::Output),
        Outcome::OverBudget(Budget::Turns),
        Outcome::OverBudget(Budget::Tokens),
        Outcome::OverBudget(Budget::Money),
    ];
    let names = ["timed_out"; 6].into_iter().chain(["over_budget"; 4]);
    for (((limit, _), outcome), name) in SETTINGS.into_iter().zip(outcomes).zip(names) {
        let test = fired(TestJob::running(agent()), limit);
        assert_eq!(ended_as(test, exited(0)), (outcome, Cause::Limit(limit)));
        assert_eq!(outcome.name(), name);
    }
    let others = [Outcome::Completed, Outcome::Failed, RUNNING, Outcome::Lost];
    assert_eq!(others.map(Outcome::name), ["completed", "failed", "cancelled", "lost"]);
}

#[test]
fn c32_an_attempt_without_proof_is_lost() {
    let located =
        |test: TestJob, found: Found| test.reports(Report::Located { attempt: AttemptNo(1), found });
    for test in [TestJob::running(agent()), TestJob::launching(agent()), TestJob::running(command())] {
        let swept = Box::new(Receipt::bare(Proof::BestEffort));
        for found in [Found::Vanished(swept), Found::OtherBoot] {
            let test = located(test.clone().claimed("a", 2), found);
            assert_eq!(test.outcome(), Some(Outcome::Lost));
            assert_eq!(test.job.last_word().map(|word| word.cause), Some(Cause::Unaccounted));
        }
    }
    let boot = located(TestJob::running(agent()).claimed("a", 2), Found::OtherBoot);
    let end = boot.job.attempts[0].end.clone().expect("it ended");
    assert_eq!(end.receipt.proof, Proof::BootChanged);
}

#[test]
fn c41_an_unclear_report_adds_nothing() {
    use lastword_core::effects::Effect;
    let attempt = AttemptNo(1);
    for test in [TestJob::launching(agent()), TestJob::running(agent()), TestJob::stopping(agent())] {
        for effect in [Effect::Launch { attempt }, Effect::Locate { attempt }, Effect::Watch { attempt }] {
            assert_eq!(test.observe(&Report::Unclear(effect)), Vec::new());
        }
    }
}

#[test]
fn core_writes_no_last_word_while_an_attempt_is_open() {
    let word = LastWord {
        outcome: RUNNING,
        cause: Cause::User,
        attempt: Some(AttemptNo(1)),
        requested_at: None,
        by: None,
    };
    for test in [TestJob::launching(agent()), TestJob::running(agent()), TestJob::stopping(agent())] {
        let result =
            Append::new(&test.job, test.fence.as_ref(), AppendId(9), Timestamp(1), vec![word.clone().into()]);
        assert!(matches!(result, Err(Illegal::OutOfPlace { why: "an attempt is open", .. })));
        // Rungs do not end the attempt: only the empty tree does.
        for rung in [Rung::Interrupt, Rung::StdinClosed, Rung::Term, Rung::Kill] {
            let facts = test.observe(&Report::Climbed { attempt: AttemptNo(1), rung, alive: 0 });
            assert!(facts.iter().all(|fact| fact.kind() == "rung_climbed"), "{facts:?}");
        }
    }
}

#[test]
fn a_stop_shows_its_rung_and_live_processes() {
    let test = TestJob::stopping(agent());
    let since = test.now.wall;
    assert_eq!(test.job.phase, Phase::Stopping { since, rung: None, alive: None });
    let test = test.later(9).reports(Report::Climbed { attempt: AttemptNo(1), rung: Rung::Term, alive: 3 });
    assert_eq!(test.job.phase, Phase::Stopping { since, rung: Some(Rung::Term), alive: Some(3) });
    // The keeper reports a rung twice if it began to stop by its own clock; the log has it once.
    let again = |rung| test.observe(&Report::Climbed { attempt: AttemptNo(1), rung, alive: 2 });
    assert_eq!((again(Rung::Term), again(Rung::Kill).len()), (Vec::new(), 1));
    let running = TestJob::running(agent());
    let climbed = Report::Climbed { attempt: AttemptNo(1), rung: Rung::Term, alive: 3 };
    assert_eq!(running.observe(&climbed), Vec::new());
}

#[test]
fn c23_a_second_last_word_is_refused() {
    let word =
        |cause| LastWord { outcome: Outcome::Failed, cause, attempt: None, requested_at: None, by: None };
    let ways = [
        TestJob::ended(0),
        TestJob::ended(1),
        TestJob::queued(agent()).cancelled(),
        TestJob::backoff().cancelled(),
        fired(TestJob::running(agent()), Limit::Wall).emptied(exited(0)),
        TestJob::running(agent())
            .claimed("a", 2)
            .reports(Report::Located { attempt: AttemptNo(1), found: Found::OtherBoot }),
    ];
    for test in ways {
        assert_eq!(test.count("last_word"), 1);
        for cause in
            [Cause::User, Cause::Agent, Cause::Limit(Limit::Wall), Cause::Shutdown, Cause::Unaccounted]
        {
            let result = Append::new(
                &test.job,
                test.fence.as_ref(),
                AppendId(9),
                Timestamp(1),
                vec![word(cause).into()],
            );
            assert!(matches!(result, Err(Illegal::OutOfPlace { why: "the job has ended", .. })));
        }
        let twice = vec![word(Cause::User).into(), word(Cause::User).into()];
        let waiting = TestJob::queued(agent());
        assert!(Append::new(&waiting.job, None, AppendId(9), Timestamp(1), twice).is_err());
    }
}

#[test]
fn c31_an_ended_job_accepts_late_reports_and_what_its_conversation_needs() {
    for test in [TestJob::ended(0), TestJob::queued(agent()).cancelled()] {
        for kind in lastword_core::event::KINDS {
            let fact = Fact::decode(crate::golden::example(kind)).expect("it reads");
            let mut job = test.job.clone();
            let event = Event { seq: job.version.next(), at: Timestamp(1), fact };
            let of_conversation = ["continued", "joined", "limit_changed"].contains(kind);
            let expected = *kind == "late_reported" || (of_conversation && job.reports_turns());
            assert_eq!(job.apply(&event).is_ok(), expected, "{kind}");
            assert_eq!(job.phase, test.job.phase);
            assert_eq!(job.last_word(), test.job.last_word());
        }
    }
}

#[test]
fn c26_one_append_ends_turn_session_attempt_and_job() {
    let test = TestJob::in_turn(agent()).says(question("q1"));
    let before = test.log.len();
    let test = test.cancelled().emptied(exited(0));
    let ending: Vec<&str> = test.kinds().split_off(before + 1);
    assert_eq!(ending, ["turn_ended", "attempt_ended", "last_word"]);
    let session = test.job.session.as_ref().expect("it had one");
    assert_eq!((session.active, session.state), (None, SessionState::Stopped));
    assert!(session.questions.is_empty());
    let row = Row::of(&test.job);
    assert_eq!((row.phase, row.outcome), (PhaseName::Ended, test.outcome()));
    assert_eq!((row.summary.working, row.summary.waiting, row.holder), (false, false, None));
    assert_eq!((row.summary.decided_by, row.summary.cause), (Some(AttemptNo(1)), Some(Cause::User)));
    assert_eq!(test.job.last_word().and_then(|word| word.requested_at), Some(Timestamp(10_000)));
}

#[test]
fn c26_an_open_turn_ends_by_the_cause_of_the_attempts_end() {
    let check = |test: TestJob, ending: TurnEnding| {
        let test = test.emptied(exited(1));
        let ended = test.log.iter().find_map(|event| match &event.fact {
            Fact::TurnEnded(ended) => Some(ended.clone()),
            _ => None,
        });
        let ended = ended.expect("the turn ended");
        assert_eq!((ended.ending, ended.commit, ended.error.is_some()), (ending, None, true));
    };
    check(TestJob::in_turn(agent()).cancelled(), TurnEnding::Cancelled);
    check(fired(TestJob::in_turn(agent()), Limit::Money), TurnEnding::OverLimit(Limit::Money));
    check(TestJob::in_turn(agent()), TurnEnding::AgentExit);
}

#[test]
fn c27_an_append_returns_the_job_that_the_log_folds_to() {
    for test in [
        TestJob::in_turn(agent()).says(ends(TurnEnding::Completed)).emptied(exited(0)),
        TestJob::backoff(),
        TestJob::stopping(agent()),
        TestJob::queued(dependent(lastword_core::spec::Needs::AnyEnd)),
    ] {
        let folded = Job::fold(test.job.id, &test.log).expect("it replays");
        assert_eq!(folded, test.job);
        assert_eq!(Row::of(&folded), Row::of(&test.job));
        let facts = vec![LimitFired::default().into()];
        if let Ok((append, after)) =
            Append::new(&test.job, test.fence.as_ref(), AppendId(9), Timestamp(1), facts)
        {
            assert_eq!((append.expected, append.row), (test.job.version, Row::of(&after)));
            assert_eq!(append.events[0].seq, test.job.version.next());
        }
    }
}

#[test]
fn c29_nothing_ends_before_it_began() {
    let check = |test: &TestJob, fact: Fact, why: &str| {
        let kind = fact.kind().to_owned();
        let result = Append::new(
            &test.job,
            TestJob::held(agent()).fence.as_ref(),
            AppendId(9),
            Timestamp(1),
            vec![fact],
        );
        let Err(Illegal::OutOfPlace { why: broken, after, job, kind: named }) = result else {
            panic!("{kind}")
        };
        assert_eq!((broken, after, job, named), (why, test.job.version, test.job.id, kind));
    };
    let word = LastWord { outcome: RUNNING, cause: Cause::User, attempt: None, requested_at: None, by: None };
    let attempt_end = |no| {
        let attempt = AttemptNo(no);
        AttemptEnded {
            attempt,
            outcome: RUNNING,
            cause: Cause::User,
            error: None,
            receipt: exited(0),
            cut_short: None,
            ran_ms: None,
        }
    };
    let turn_end = Fact::decode(crate::golden::example("turn_ended")).expect("it reads");
    let retry = RetryScheduled { attempt: AttemptNo(1), due: Timestamp(1) };
    let spec = TestJob::queued(agent()).job.spec.expect("it has one");
    let again = Submitted { spec, by: "ann".to_owned(), limits: Default::default(), carried: None };
    check(&TestJob::empty(), word.into(), "the job was not submitted");
    check(&TestJob::queued(agent()), again.into(), "the job was submitted already");
    check(&TestJob::held(agent()), attempt_end(1).into(), "that attempt is not open");
    check(&TestJob::running(agent()), attempt_end(2).into(), "that attempt is not open");
    check(&TestJob::running(agent()), turn_end.clone(), "there is no session");
    check(&TestJob::running(agent()).says(session()), turn_end, "that turn is not active");
    check(&TestJob::held(agent()), retry.clone().into(), "no attempt has ended");
    check(&TestJob::running(agent()), retry.into(), "no attempt has ended");
    check(&TestJob::running(agent()), StopBegan { attempt: AttemptNo(1) }.into(), "no stop was asked for");
    let cancel = Fact::decode(crate::golden::example("cancel_requested")).expect("it reads");
    check(&TestJob::queued(agent()), cancel, "no attempt is open");
    let climbed = Fact::decode(crate::golden::example("rung_climbed")).expect("it reads");
    check(&TestJob::running(agent()), climbed, "no stop was asked for");
    let launched = Fact::decode(crate::golden::example("launched")).expect("it reads");
    check(&TestJob::running(agent()), launched, "the attempt has a tree already");
}

#[test]
fn c29_a_gap_or_a_repeat_in_the_log_is_refused() {
    let test = TestJob::running(agent());
    let mut gap = test.log.clone();
    gap.remove(1);
    assert!(Job::fold(test.job.id, &gap).is_err());
    let mut twice = test.log.clone();
    twice.insert(1, test.log[0].clone());
    assert!(Job::fold(test.job.id, &twice).is_err());
    assert_eq!(Job::fold(test.job.id, &test.log).map(|job| job.version), Ok(Seq(4)));
    assert_eq!(
        Append::new(&test.job, test.fence.as_ref(), AppendId(9), Timestamp(1), Vec::new()).map(|_| ()),
        Err(Illegal::Empty)
    );
}

#[test]
fn only_retryable_ends_are_followed_by_another_attempt() {
    let policy = |when_lost| RetryPolicy { attempts_max: 2, when_lost, ..RetryPolicy::default() };
    let check = |spec: Spec, stop: fn(TestJob) -> TestJob, receipt: Receipt, again: bool| {
        let test = stop(TestJob::running(spec)).emptied(receipt);
        let waits = matches!(test.job.phase, Phase::Backoff { .. });
        assert_eq!((waits, test.job.is_ended()), (again, !again), "{:?}", test.kinds());
        if again {
            assert_eq!((test.job.stop, test.job.holder.is_none()), (None, true));
        }
    };
    let spec = |when_lost| Spec { retry: policy(when_lost), ..command() };
    let lost = || Receipt::bare(Proof::BestEffort);
    let as_is = |test: TestJob| test;
    check(spec(false), as_is, exited(1), true);
    check(spec(false), as_is, exited(0), false);
    check(spec(false), as_is, lost(), false);
    check(spec(true), as_is, lost(), true);
    check(spec(true), TestJob::cancelled, exited(1), false);
    check(spec(true), |test| fired(test, Limit::Wall), exited(1), false);
    check(spec(true), |test| fired(test, Limit::Money), exited(1), false);
    check(command(), as_is, exited(1), false);
}

#[test]
fn the_backoff_doubles_up_to_its_maximum() {
    let retry =
        RetryPolicy { attempts_max: 100, backoff_ms: 1_000, backoff_max_ms: 5_000, ..RetryPolicy::default() };
    let mut test = TestJob::queued(Spec { retry, ..command() });
    let mut pauses = Vec::new();
    for _ in 0..70 {
        test = test.claimed("a", 1).intended().launched(1).emptied(exited(1));
        let Phase::Backoff { until } = test.job.phase else { panic!("it waits") };
        pauses.push(until.0 - test.now.wall.0);
        test = test.later(5_000);
    }
    assert_eq!(&pauses[..5], &[1_000, 2_000, 4_000, 5_000, 5_000]);
    assert!(pauses[5..].iter().all(|pause| *pause == 5_000));
    let log: Vec<u32> = test
        .log
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::RetryScheduled(retry) => Some(retry.attempt.0),
            _ => None,
        })
        .collect();
    assert_eq!(log, (2..=71).collect::<Vec<_>>());
}

#[test]
fn only_an_ended_job_can_be_retried() {
    let decide = |job: &Job| retry::decide(job, job);
    assert_eq!(decide(&TestJob::empty().job), Err(Refusal::NotFound(id(1))));
    for test in
        [TestJob::queued(agent()), TestJob::running(agent()), TestJob::stopping(agent()), TestJob::backoff()]
    {
        assert_eq!(decide(&test.job), Err(Refusal::NotEnded(id(1))));
    }
    let spec = Spec { not_before: Some(Timestamp(5)), ..dependent(lastword_core::spec::Needs::AnyEnd) };
    let again = decide(&TestJob::queued(spec.clone()).cancelled().job).expect("it has ended");
    let wanted = Spec { not_before: None, after: Vec::new(), retry_of: Some(id(1)), ..spec };
    assert_eq!(again, wanted);
}

/// C24, C31: after the last word, no report about the tree adds anything.
#[test]
fn c24_a_later_disconnect_does_not_change_an_end() {
    let test = TestJob::in_turn(agent()).says(ends(TurnEnding::Completed));
    let session_before = test.job.session.clone();
    let gone = test.says(becomes(SessionState::Errored));
    let session = gone.job.session.clone().expect("it has one");
    let last = session_before.and_then(|session| session.last_turn);
    assert_eq!(session.last_turn, last);
    assert_eq!(gone.count("turn_ended"), 1);
    let ended = gone.emptied(exited(0));
    assert_eq!(ended.outcome(), Some(Outcome::Completed));
    let after = ended.observe(&Report::Emptied { attempt: AttemptNo(1), receipt: Box::new(exited(1)) });
    assert_eq!(after, Vec::new());
}

#[test]
fn c51_a_limit_does_not_affect_other_jobs() {
    let mine = TestJob::running(agent());
    let mut other = TestJob::running(agent());
    let facts = limit::decide(&other.job, "ann", Limit::Wall, 1);
    other.anyone(facts);
    let now = mine.now.awake.plus_ms(100);
    assert_eq!(kinds(limit::fire(&other.job, &other.pulse, now).as_slice()), ["limit_fired"]);
    assert_eq!(limit::fire(&mine.job, &mine.pulse, now), None);
    let other = fired(other, Limit::Wall).emptied(exited(0));
    assert_eq!((other.job.is_ended(), mine.job.stop), (true, None));
}

#[test]
fn a_tree_reported_twice_is_one_tree() {
    let test = TestJob::running(agent());
    let again = Report::Launched { attempt: AttemptNo(1), tree: tree(999), awake: test.now.awake };
    assert_eq!(test.observe(&again), Vec::new());
}

/// An attempt that was asked to stop is not retried, even if it is lost.
#[test]
fn c46_a_stop_in_the_log_rules_out_another_attempt() {
    let retry = RetryPolicy { attempts_max: 9, when_lost: true, ..RetryPolicy::default() };
    let spec = || Spec { retry, ..agent() };
    let stops: [fn(TestJob) -> TestJob; 3] =
        [TestJob::cancelled, |test| fired(test, Limit::Wall), |test| fired(test, Limit::Money)];
    for stop in stops {
        for receipt in [Receipt::bare(Proof::BestEffort), Receipt::bare(Proof::BootChanged), exited(1)] {
            let test = stop(TestJob::in_turn(spec())).emptied(receipt);
            assert!(test.job.is_ended(), "{:?}", test.kinds());
        }
    }
}

/// The same for a stop that only the keeper knows, because the journal could not store it.
#[test]
fn c85_a_stop_that_the_keeper_held_rules_out_another_attempt() {
    let retry = RetryPolicy { attempts_max: 9, when_lost: true, ..RetryPolicy::default() };
    for proof in [Proof::BestEffort, Proof::NoChildren] {
        let receipt = Receipt { keeper_stop: Some(KeeperStop::LocalCancel), ..Receipt::bare(proof) };
        let test = TestJob::running(Spec { retry, ..command() }).emptied(receipt);
        assert!(test.job.is_ended(), "{:?}", test.kinds());
    }
}

#[test]
fn c56_the_error_of_a_failed_turn_is_the_error_of_its_attempt() {
    let failed = |ending| {
        let error = Some("API Error: 500".to_owned());
        let test = TestJob::in_turn(agent()).says(Signal::TurnEnded { ending, error, commit: commit() });
        test.emptied(exited(143)).job.attempts[0].end.clone().expect("it ended")
    };
    for ending in [TurnEnding::Failed, TurnEnding::Refused, TurnEnding::Limited, TurnEnding::RuntimeError] {
        let end = failed(ending);
        assert_eq!((end.outcome, end.error.as_deref()), (Outcome::Failed, Some("API Error: 500")));
    }
    assert_eq!(failed(TurnEnding::Completed).error, None);
}

#[test]
fn c56_an_agent_that_exits_silently_has_an_error_that_says_so() {
    let error = |test: TestJob| {
        test.emptied(exited(3)).job.attempts[0].end.as_ref().and_then(|end| end.error.clone())
    };
    let error_text = |text: &str| Some(text.to_owned());
    assert_eq!(error(TestJob::running(agent())), error_text("the agent exited before its first turn"));
    assert_eq!(error(TestJob::in_turn(agent())), error_text("the agent exited before its turn ended"));
    let mut waiting = TestJob::in_turn(agent());
    let facts = send::decide(&waiting.job, "ann", "and then", false);
    waiting.anyone(facts);
    let waiting = waiting.says(ends(TurnEnding::Completed));
    assert_eq!(error(waiting), error_text("the agent exited with inputs left to deliver"));
    // Its turn failed without a reason, and nothing else was left to do.
    assert_eq!(error(TestJob::in_turn(agent()).says(ends(TurnEnding::Failed))), None);
    // No such error if it was stopped, or is a command.
    assert_eq!(error(TestJob::in_turn(agent()).cancelled()), None);
    assert_eq!(error(TestJob::running(command())), None);
}
