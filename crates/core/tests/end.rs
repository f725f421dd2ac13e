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
    Desk, agent, becomes, command, commit, dependent, ends, exited, id, kinds, question, session, tree,
};

const RUNNING: Outcome = Outcome::Cancelled(Begun::WhileRunning);

fn receipt(proof: Proof, exit: Option<Exit>, keeper_stop: Option<KeeperStop>) -> Receipt {
    Receipt { level: Level::Subreaper, exit, keeper_stop, ..Receipt::bare(proof) }
}

fn fired(desk: Desk, limit: Limit) -> Desk {
    let mut desk = desk;
    let attempt = desk.attempt();
    desk.owner(vec![LimitFired { attempt, limit, measured: 2, allowed: 1 }.into()]);
    desk
}

fn ended_as(desk: Desk, receipt: Receipt) -> (Outcome, Cause) {
    let desk = desk.emptied(receipt);
    let word = desk.job.last_word().unwrap_or_else(|| panic!("{:?}", desk.job.phase));
    let end = desk.job.attempts.last().and_then(|attempt| attempt.end.clone()).expect("it ended");
    // The attempt and the job say the same, and the last word refers to its receipt.
    assert_eq!((end.outcome, end.cause, Some(end.attempt)), (word.outcome, word.cause, word.attempt));
    (word.outcome, word.cause)
}

#[test]
fn c28_the_precedence_of_endings_is_the_written_one() {
    use Proof::{BestEffort, BootChanged, LeaseSelfFenced, NamespaceGone, NeverStarted, NoChildren};
    let check = |desk: Desk, receipt: Receipt, outcome: Outcome, cause: Cause| {
        let shown = format!("{receipt:?} {:?}", desk.job.stop);
        assert_eq!(ended_as(desk, receipt), (outcome, cause), "{shown}");
    };
    let zero = Some(Exit::Code(0));
    let run = || Desk::running(command());
    let wall = Cause::Limit(Limit::Wall);
    let deadline = Outcome::TimedOut(Clock::Deadline);
    // 1. No certain proof.
    check(run(), receipt(BestEffort, zero, None), Outcome::Lost, Cause::Unaccounted);
    check(run().cancelled(), receipt(BestEffort, zero, None), Outcome::Lost, Cause::Unaccounted);
    check(fired(run(), Limit::Wall), receipt(BestEffort, None, None), Outcome::Lost, Cause::Unaccounted);
    // 2. A reason in the log, whatever the keeper and the exit say.
    for exit in [None, zero, Some(Exit::Code(3)), Some(Exit::Signal(9))] {
        for stop in [None, Some(KeeperStop::Deadline), Some(KeeperStop::Lease), Some(KeeperStop::LocalStall)]
        {
            for proof in [NoChildren, NamespaceGone, NeverStarted, BootChanged, LeaseSelfFenced] {
                check(run().cancelled(), receipt(proof, exit, stop), RUNNING, Cause::User);
                check(fired(run(), Limit::Wall), receipt(proof, exit, stop), deadline, wall);
            }
        }
    }
    // 3. A reason of the keeper's own.
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
    // 4. Never started, here because it could not be.
    let failed = Desk::launching(command())
        .reports(Report::LaunchFailed { attempt: AttemptNo(1), error: "no such program".to_owned() });
    assert_eq!(
        failed.job.last_word().map(|word| (word.outcome, word.cause)),
        Some((Outcome::Failed, Cause::Launch))
    );
    // 5. Dead by boot or lease, or with an exit nobody saw.
    for (proof, exit) in
        [(BootChanged, zero), (LeaseSelfFenced, zero), (BootChanged, None), (NoChildren, None)]
    {
        check(run(), receipt(proof, exit, None), Outcome::Lost, Cause::Unaccounted);
    }
    // 6. The exit of the leader.
    check(run(), receipt(NoChildren, zero, None), Outcome::Completed, Cause::Finished);
    check(run(), receipt(NamespaceGone, zero, None), Outcome::Completed, Cause::Finished);
    check(run(), receipt(NoChildren, Some(Exit::Code(1)), None), Outcome::Failed, Cause::Agent);
    check(run(), receipt(NoChildren, Some(Exit::Signal(15)), None), Outcome::Failed, Cause::Agent);
}

#[test]
fn c58_an_agent_must_have_completed_its_last_turn_and_how_it_exits_changes_nothing() {
    let check = |desk: Desk, outcome: Outcome| {
        let receipts = [exited(0), exited(1), Receipt { exit: Some(Exit::Signal(9)), ..exited(0) }];
        for receipt in receipts {
            assert_eq!(ended_as(desk.clone(), receipt).0, outcome);
        }
    };
    let turn = || Desk::in_turn(agent());
    check(Desk::running(agent()), Outcome::Failed);
    check(Desk::running(agent()).says(session()), Outcome::Failed);
    check(turn(), Outcome::Failed);
    check(turn().says(ends(TurnEnding::Completed)), Outcome::Completed);
    check(turn().says(ends(TurnEnding::Completed)).says(Signal::TurnStarted), Outcome::Failed);
    // What was said to it and did not reach it was not done.
    let mut told = turn().says(ends(TurnEnding::Completed));
    let facts = send::decide(&told.job, "ann", "and the docs", false);
    told.anyone(facts);
    check(told, Outcome::Failed);
    // One that is not spoken to has nothing but its exit.
    let plain = Terms { dialect: Dialect::Plain, ..Terms::default() };
    let (provider, prompt) = ("mine".to_owned(), "go".to_owned());
    let plain = Spec::of(Work::Agent { provider, prompt, terms: Box::new(plain) }, "/src");
    assert_eq!(ended_as(Desk::running(plain.clone()), exited(0)).0, Outcome::Completed);
    assert_eq!(ended_as(Desk::running(plain), exited(1)).0, Outcome::Failed);
    // One that only says how its turn goes is judged by that.
    let once = Terms { dialect: Dialect::Once, ..Terms::default() };
    let (provider, prompt) = ("mine".to_owned(), "go".to_owned());
    let once = Spec::of(Work::Agent { provider, prompt, terms: Box::new(once) }, "/src");
    check(Desk::running(once.clone()), Outcome::Failed);
    check(Desk::in_turn(once.clone()), Outcome::Failed);
    check(Desk::in_turn(once).says(ends(TurnEnding::Completed)), Outcome::Completed);
}

#[test]
fn c52_c28_each_limit_has_its_own_outcome_and_cause() {
    let outcomes = [
        Outcome::TimedOut(Clock::Deadline),
        Outcome::TimedOut(Clock::Stall),
        Outcome::OverBudget(Budget::Output),
        Outcome::OverBudget(Budget::Turns),
        Outcome::OverBudget(Budget::Tokens),
        Outcome::OverBudget(Budget::Money),
    ];
    let names = ["timed_out", "timed_out", "over_budget", "over_budget", "over_budget", "over_budget"];
    for (((limit, _), outcome), name) in SETTINGS.into_iter().zip(outcomes).zip(names) {
        let desk = fired(Desk::running(agent()), limit);
        assert_eq!(ended_as(desk, exited(0)), (outcome, Cause::Limit(limit)));
        assert_eq!(outcome.name(), name);
    }
    let others = [Outcome::Completed, Outcome::Failed, RUNNING, Outcome::Lost];
    assert_eq!(others.map(Outcome::name), ["completed", "failed", "cancelled", "lost"]);
}

#[test]
fn c32_what_nobody_can_account_for_is_lost() {
    let located = |desk: Desk, found: Found| desk.reports(Report::Located { attempt: AttemptNo(1), found });
    for desk in [Desk::running(agent()), Desk::launching(agent()), Desk::running(command())] {
        let swept = Box::new(Receipt::bare(Proof::BestEffort));
        for found in [Found::Vanished(swept), Found::OtherBoot] {
            let desk = located(desk.clone().claimed("a", 2), found);
            assert_eq!(desk.outcome(), Some(Outcome::Lost));
            assert_eq!(desk.job.last_word().map(|word| word.cause), Some(Cause::Unaccounted));
        }
    }
    let boot = located(Desk::running(agent()).claimed("a", 2), Found::OtherBoot);
    let end = boot.job.attempts[0].end.clone().expect("it ended");
    assert_eq!(end.receipt.proof, Proof::BootChanged);
}

#[test]
fn c41_what_is_not_known_adds_nothing() {
    use lastword_core::effects::Effect;
    let attempt = AttemptNo(1);
    for desk in [Desk::launching(agent()), Desk::running(agent()), Desk::stopping(agent())] {
        for effect in [Effect::Launch { attempt }, Effect::Locate { attempt }, Effect::Watch { attempt }] {
            assert_eq!(desk.observe(&Report::Unclear(effect)), Vec::new());
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
    for desk in [Desk::launching(agent()), Desk::running(agent()), Desk::stopping(agent())] {
        let result =
            Append::new(&desk.job, desk.fence.as_ref(), AppendId(9), Timestamp(1), vec![word.clone().into()]);
        assert!(matches!(result, Err(Illegal::OutOfPlace { why: "an attempt is open", .. })));
        // Climbing every rung is not an ending: only the empty tree is.
        for rung in [Rung::Interrupt, Rung::StdinClosed, Rung::Term, Rung::Kill] {
            let facts = desk.observe(&Report::Climbed { attempt: AttemptNo(1), rung, alive: 0 });
            assert!(facts.iter().all(|fact| fact.kind() == "rung_climbed"), "{facts:?}");
        }
    }
}

#[test]
fn a_stop_shows_its_rung_and_what_is_still_alive() {
    let desk = Desk::stopping(agent());
    let since = desk.now.wall;
    assert_eq!(desk.job.phase, Phase::Stopping { since, rung: None, alive: None });
    let desk = desk.later(9).reports(Report::Climbed { attempt: AttemptNo(1), rung: Rung::Term, alive: 3 });
    assert_eq!(desk.job.phase, Phase::Stopping { since, rung: Some(Rung::Term), alive: Some(3) });
    let running = Desk::running(agent());
    let climbed = Report::Climbed { attempt: AttemptNo(1), rung: Rung::Term, alive: 3 };
    assert_eq!(running.observe(&climbed), Vec::new());
}

#[test]
fn c23_a_second_last_word_does_not_follow_whoever_wrote_the_first() {
    let word =
        |cause| LastWord { outcome: Outcome::Failed, cause, attempt: None, requested_at: None, by: None };
    let ways = [
        Desk::ended(0),
        Desk::ended(1),
        Desk::queued(agent()).cancelled(),
        Desk::backoff().cancelled(),
        fired(Desk::running(agent()), Limit::Wall).emptied(exited(0)),
        Desk::running(agent())
            .claimed("a", 2)
            .reports(Report::Located { attempt: AttemptNo(1), found: Found::OtherBoot }),
    ];
    for desk in ways {
        assert_eq!(desk.count("last_word"), 1);
        for cause in
            [Cause::User, Cause::Agent, Cause::Limit(Limit::Wall), Cause::Shutdown, Cause::Unaccounted]
        {
            let result = Append::new(
                &desk.job,
                desk.fence.as_ref(),
                AppendId(9),
                Timestamp(1),
                vec![word(cause).into()],
            );
            assert!(matches!(result, Err(Illegal::OutOfPlace { why: "the last word was spoken", .. })));
        }
        let twice = vec![word(Cause::User).into(), word(Cause::User).into()];
        let waiting = Desk::queued(agent());
        assert!(Append::new(&waiting.job, None, AppendId(9), Timestamp(1), twice).is_err());
    }
}

#[test]
fn c31_ended_is_absorbing_for_every_kind_but_late() {
    for desk in [Desk::ended(0), Desk::queued(agent()).cancelled()] {
        for kind in lastword_core::event::KINDS {
            let fact = Fact::decode(crate::golden::example(kind)).expect("it reads");
            let mut job = desk.job.clone();
            let event = Event { seq: job.version.next(), at: Timestamp(1), fact };
            assert_eq!(job.apply(&event).is_ok(), *kind == "late_reported", "{kind}");
            assert_eq!(job.phase, desk.job.phase);
        }
    }
}

#[test]
fn c26_one_append_ends_turn_session_attempt_and_job() {
    let desk = Desk::in_turn(agent()).says(question("q1"));
    let before = desk.log.len();
    let desk = desk.cancelled().emptied(exited(0));
    let ending: Vec<&str> = desk.kinds().split_off(before + 1);
    assert_eq!(ending, ["turn_ended", "attempt_ended", "last_word"]);
    let session = desk.job.session.as_ref().expect("it had one");
    assert_eq!((session.active, session.state), (None, SessionState::Stopped));
    assert!(session.questions.is_empty());
    let row = Row::of(&desk.job);
    assert_eq!((row.phase, row.outcome), (PhaseName::Ended, desk.outcome()));
    assert_eq!((row.summary.working, row.summary.waiting, row.holder), (false, false, None));
    assert_eq!((row.summary.decided_by, row.summary.cause), (Some(AttemptNo(1)), Some(Cause::User)));
    assert_eq!(desk.job.last_word().and_then(|word| word.requested_at), Some(Timestamp(10_000)));
}

#[test]
fn c26_a_turn_left_open_ends_by_the_cause_of_the_end() {
    let check = |desk: Desk, ending: TurnEnding| {
        let desk = desk.emptied(exited(1));
        let ended = desk.log.iter().find_map(|event| match &event.fact {
            Fact::TurnEnded(ended) => Some(ended.clone()),
            _ => None,
        });
        let ended = ended.expect("the turn ended");
        assert_eq!((ended.ending, ended.commit, ended.error.is_some()), (ending, None, true));
    };
    check(Desk::in_turn(agent()).cancelled(), TurnEnding::Cancelled);
    check(fired(Desk::in_turn(agent()), Limit::Money), TurnEnding::OverLimit(Limit::Money));
    check(Desk::in_turn(agent()), TurnEnding::AgentExit);
}

#[test]
fn c27_what_an_append_returns_is_what_the_log_folds_to() {
    for desk in [
        Desk::in_turn(agent()).says(ends(TurnEnding::Completed)).emptied(exited(0)),
        Desk::backoff(),
        Desk::stopping(agent()),
        Desk::queued(dependent(lastword_core::spec::Needs::AnyEnd)),
    ] {
        let folded = Job::fold(desk.job.id, &desk.log).expect("it replays");
        assert_eq!(folded, desk.job);
        assert_eq!(Row::of(&folded), Row::of(&desk.job));
        let facts = vec![LimitFired::default().into()];
        if let Ok((append, after)) =
            Append::new(&desk.job, desk.fence.as_ref(), AppendId(9), Timestamp(1), facts)
        {
            assert_eq!((append.expected, append.row), (desk.job.version, Row::of(&after)));
            assert_eq!(append.events[0].seq, desk.job.version.next());
        }
    }
}

#[test]
fn c29_no_ending_without_a_beginning() {
    let check = |desk: &Desk, fact: Fact, why: &str| {
        let kind = fact.kind().to_owned();
        let result =
            Append::new(&desk.job, Desk::held(agent()).fence.as_ref(), AppendId(9), Timestamp(1), vec![fact]);
        let Err(Illegal::OutOfPlace { why: said, after, job, kind: named }) = result else {
            panic!("{kind}")
        };
        assert_eq!((said, after, job, named), (why, desk.job.version, desk.job.id, kind));
    };
    let word = LastWord { outcome: RUNNING, cause: Cause::User, attempt: None, requested_at: None, by: None };
    let attempt_end = |no| {
        let attempt = AttemptNo(no);
        AttemptEnded { attempt, outcome: RUNNING, cause: Cause::User, error: None, receipt: exited(0) }
    };
    let turn_end = Fact::decode(crate::golden::example("turn_ended")).expect("it reads");
    let retry = RetryScheduled { attempt: AttemptNo(1), due: Timestamp(1) };
    let spec = Desk::queued(agent()).job.spec.expect("it has one");
    let again = Submitted { spec, by: "ann".to_owned(), limits: Default::default() };
    check(&Desk::empty(), word.into(), "the job was not submitted");
    check(&Desk::queued(agent()), again.into(), "it was submitted before");
    check(&Desk::held(agent()), attempt_end(1).into(), "that attempt is not open");
    check(&Desk::running(agent()), attempt_end(2).into(), "that attempt is not open");
    check(&Desk::running(agent()), turn_end.clone(), "there is no session");
    check(&Desk::running(agent()).says(session()), turn_end, "that turn is not active");
    check(&Desk::held(agent()), retry.clone().into(), "no attempt has ended");
    check(&Desk::running(agent()), retry.into(), "no attempt has ended");
    check(&Desk::running(agent()), StopBegan { attempt: AttemptNo(1) }.into(), "no stop was asked for");
    let cancel = Fact::decode(crate::golden::example("cancel_requested")).expect("it reads");
    check(&Desk::queued(agent()), cancel, "there is no attempt to stop");
    let climbed = Fact::decode(crate::golden::example("rung_climbed")).expect("it reads");
    check(&Desk::running(agent()), climbed, "no stop was asked for");
    let launched = Fact::decode(crate::golden::example("launched")).expect("it reads");
    check(&Desk::running(agent()), launched, "the attempt has a tree already");
}

#[test]
fn c29_a_gap_or_a_repeat_in_the_log_is_refused() {
    let desk = Desk::running(agent());
    let mut gap = desk.log.clone();
    gap.remove(1);
    assert!(Job::fold(desk.job.id, &gap).is_err());
    let mut twice = desk.log.clone();
    twice.insert(1, desk.log[0].clone());
    assert!(Job::fold(desk.job.id, &twice).is_err());
    assert_eq!(Job::fold(desk.job.id, &desk.log).map(|job| job.version), Ok(Seq(4)));
    assert_eq!(
        Append::new(&desk.job, desk.fence.as_ref(), AppendId(9), Timestamp(1), Vec::new()).map(|_| ()),
        Err(Illegal::Empty)
    );
}

#[test]
fn another_attempt_follows_only_what_may_be_tried_again() {
    let policy = |when_lost| RetryPolicy { attempts_max: 2, when_lost, ..RetryPolicy::default() };
    let check = |spec: Spec, stop: fn(Desk) -> Desk, receipt: Receipt, again: bool| {
        let desk = stop(Desk::running(spec)).emptied(receipt);
        let waits = matches!(desk.job.phase, Phase::Backoff { .. });
        assert_eq!((waits, desk.job.is_ended()), (again, !again), "{:?}", desk.kinds());
        if again {
            assert_eq!((desk.job.stop, desk.job.holder.is_none()), (None, true));
        }
    };
    let spec = |when_lost| Spec { retry: policy(when_lost), ..command() };
    let lost = || Receipt::bare(Proof::BestEffort);
    let as_is = |desk: Desk| desk;
    check(spec(false), as_is, exited(1), true);
    check(spec(false), as_is, exited(0), false);
    check(spec(false), as_is, lost(), false);
    check(spec(true), as_is, lost(), true);
    check(spec(true), Desk::cancelled, exited(1), false);
    check(spec(true), |desk| fired(desk, Limit::Wall), exited(1), false);
    check(spec(true), |desk| fired(desk, Limit::Money), exited(1), false);
    check(command(), as_is, exited(1), false);
}

#[test]
fn the_pause_doubles_up_to_its_bound() {
    let retry =
        RetryPolicy { attempts_max: 100, backoff_ms: 1_000, backoff_max_ms: 5_000, ..RetryPolicy::default() };
    let mut desk = Desk::queued(Spec { retry, ..command() });
    let mut pauses = Vec::new();
    for _ in 0..70 {
        desk = desk.claimed("a", 1).intended().launched(1).emptied(exited(1));
        let Phase::Backoff { until } = desk.job.phase else { panic!("it waits") };
        pauses.push(until.0 - desk.now.wall.0);
        desk = desk.later(5_000);
    }
    assert_eq!(&pauses[..5], &[1_000, 2_000, 4_000, 5_000, 5_000]);
    assert!(pauses[5..].iter().all(|pause| *pause == 5_000));
    let log: Vec<u32> = desk
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
fn retry_makes_a_new_job_of_an_ended_one_only() {
    assert_eq!(retry::decide(&Desk::empty().job), Err(Refusal::NotFound(id(1))));
    for desk in [Desk::queued(agent()), Desk::running(agent()), Desk::stopping(agent()), Desk::backoff()] {
        assert_eq!(retry::decide(&desk.job), Err(Refusal::NotEnded(id(1))));
    }
    let spec = Spec { not_before: Some(Timestamp(5)), ..dependent(lastword_core::spec::Needs::AnyEnd) };
    let again = retry::decide(&Desk::queued(spec.clone()).cancelled().job).expect("it has ended");
    let wanted = Spec { not_before: None, after: Vec::new(), retry_of: Some(id(1)), ..spec };
    assert_eq!(again, wanted);
}

/// C24, C31: once the tree was reported empty and the last word stored, no report of the tree adds anything.
#[test]
fn c24_an_accepted_ending_is_not_changed_by_a_later_disconnect() {
    let desk = Desk::in_turn(agent()).says(ends(TurnEnding::Completed));
    let session_before = desk.job.session.clone();
    let gone = desk.says(becomes(SessionState::Errored));
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
fn c51_a_limit_of_one_job_is_nothing_to_another() {
    let mine = Desk::running(agent());
    let mut other = Desk::running(agent());
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
    let desk = Desk::running(agent());
    let again = Report::Launched { attempt: AttemptNo(1), tree: tree(999), awake: desk.now.awake };
    assert_eq!(desk.observe(&again), Vec::new());
}

/// Not knowing how it ended does not undo the wish: what was asked to stop is not tried again, here or by a limit.
#[test]
fn c46_a_stop_in_the_log_is_never_followed_by_another_attempt() {
    let retry = RetryPolicy { attempts_max: 9, when_lost: true, ..RetryPolicy::default() };
    let spec = || Spec { retry, ..agent() };
    let stops: [fn(Desk) -> Desk; 3] =
        [Desk::cancelled, |desk| fired(desk, Limit::Wall), |desk| fired(desk, Limit::Money)];
    for stop in stops {
        for receipt in [Receipt::bare(Proof::BestEffort), Receipt::bare(Proof::BootChanged), exited(1)] {
            let desk = stop(Desk::in_turn(spec())).emptied(receipt);
            assert!(desk.job.is_ended(), "{:?}", desk.kinds());
        }
    }
}

#[test]
fn c56_the_words_of_an_agent_whose_turn_failed_are_the_error_of_its_attempt() {
    let failed = |ending| {
        let error = Some("API Error: 500".to_owned());
        let desk = Desk::in_turn(agent()).says(Signal::TurnEnded { ending, error, commit: commit() });
        desk.emptied(exited(143)).job.attempts[0].end.clone().expect("it ended")
    };
    for ending in [TurnEnding::Failed, TurnEnding::Refused, TurnEnding::Limited, TurnEnding::RuntimeError] {
        let end = failed(ending);
        assert_eq!((end.outcome, end.error.as_deref()), (Outcome::Failed, Some("API Error: 500")));
    }
    assert_eq!(failed(TurnEnding::Completed).error, None);
}

#[test]
fn c56_an_agent_that_says_nothing_and_goes_is_said_to_have_gone() {
    let error =
        |desk: Desk| desk.emptied(exited(3)).job.attempts[0].end.as_ref().and_then(|end| end.error.clone());
    let said = |text: &str| Some(text.to_owned());
    assert_eq!(error(Desk::running(agent())), said("the agent ended before it began to work"));
    assert_eq!(error(Desk::in_turn(agent())), said("the agent ended before its turn did"));
    let mut waiting = Desk::in_turn(agent()).says(ends(TurnEnding::Completed));
    let facts = send::decide(&waiting.job, "ann", "and then", false);
    waiting.anyone(facts);
    assert_eq!(error(waiting), said("the agent ended before it was told everything"));
    // Who was stopped did not go by itself, and a command's exit says all there is.
    assert_eq!(error(Desk::in_turn(agent()).cancelled()), None);
    assert_eq!(error(Desk::running(command())), None);
}
