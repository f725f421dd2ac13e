//! Properties of random histories of a job, with any decisions, reports and races.
//!
//! A history is a tape of numbers, each of which chooses a step. A shorter tape is a shorter history, so failures shrink well.

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::claim::{self, Lease};
use lastword_core::decide::{
    Decision, abandon, interrupt, late, launch, limit, observe, send, shut_down, take_over,
};
use lastword_core::effects::Effect;
use lastword_core::event::{Commit, KINDS, SessionState, Stored, TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits, SETTINGS};
use lastword_core::outcome::{Asked, Budget};
use lastword_core::owner::{Input, Output};
use lastword_core::question::Ask;
use lastword_core::receipt::{Exit, KeeperStop, Proof, Receipt, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnPartition, RetryPolicy, Spec};
use lastword_core::view::row::{Row, Summary};
use lastword_core::view::session::{SessionView, turns};
use lastword_core::view::usage::UsageView;
use lastword_core::{Append, AppendId, AttemptNo, Event, Fact, InputNo, Job, Timestamp, TurnNo};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::common::{TestJob, agent, allow, boot, claimant, command, exited, id, tree};
use crate::rig::Rig;

/// Steps of a history: enough for several attempts with turns.
const STEPS_MAX: usize = 150;

fn pick<T: Clone>(n: u32, from: &[T]) -> T {
    from[n as usize % from.len()].clone()
}

fn spec(n: u32) -> Spec {
    let retry = RetryPolicy {
        attempts_max: 1 + n % 3,
        relaunches_max: n % 2,
        when_lost: n & 4 != 0,
        ..RetryPolicy::default()
    };
    let limits =
        Limits { turns: (n & 8 != 0).then_some(2), tokens: (n & 16 != 0).then_some(30), ..Limits::default() };
    let on_partition = if n & 32 == 0 { OnPartition::Stop } else { OnPartition::Keep };
    let base = if n & 64 == 0 { agent() } else { command() };
    Spec { retry, limits, on_partition, ..base }
}

fn receipt(n: u32) -> Receipt {
    let proofs = [
        Proof::NoChildren,
        Proof::CgroupEmptyAndNoChildren,
        Proof::NamespaceGone,
        Proof::NeverStarted,
        Proof::BootChanged,
        Proof::LeaseSelfFenced,
        Proof::BestEffort,
    ];
    let exits = [None, Some(Exit::Code(0)), Some(Exit::Code(1)), Some(Exit::Signal(9))];
    let stops = [
        None,
        None,
        Some(KeeperStop::Deadline),
        Some(KeeperStop::Lease),
        Some(KeeperStop::LocalCancel),
        Some(KeeperStop::LocalStall),
        Some(KeeperStop::LocalBudget(Budget::Output)),
    ];
    Receipt {
        proof: pick(n, &proofs),
        exit: pick(n / 7, &exits),
        keeper_stop: pick(n / 28, &stops),
        ..exited(0)
    }
}

fn signal(n: u32) -> Signal {
    let states = [
        SessionState::Starting,
        SessionState::Running,
        SessionState::Ready,
        SessionState::Interrupted,
        SessionState::Stopped,
        SessionState::Errored,
    ];
    let endings = [
        TurnEnding::Completed,
        TurnEnding::Completed,
        TurnEnding::Failed,
        TurnEnding::Aborted,
        TurnEnding::Cancelled,
        TurnEnding::OverLimit(Limit::Money),
        TurnEnding::Interrupted,
        TurnEnding::Superseded,
        TurnEnding::AgentExit,
        TurnEnding::RuntimeError,
    ];
    let more = n / 12;
    match n % 12 {
        0 | 1 => Signal::SessionStarted { reference: Some("r".to_owned()), resumed_from: None },
        2 => Signal::SessionChanged { state: pick(more, &states), background: more % 2 },
        3 | 4 => Signal::TurnStarted,
        5 => Signal::QuestionAsked {
            question: (more % 3).to_string(),
            text: "?".to_owned(),
            ask: Box::new(Ask::permission("Bash", "make")),
            edits: Vec::new(),
        },
        6 => Signal::QuestionClosed { question: (more % 3).to_string() },
        7 => Signal::ItemCompleted { title: "x".to_owned() },
        8 => Signal::Spent(Usage { tokens_in: u64::from(more % 9), ..Usage::default() }),
        9 => pick(more, &[Signal::Progress, Signal::ToolStarted, Signal::ToolEnded]),
        _ => {
            let commit = Commit { messages: 1, resume: Some("r".to_owned()), ..Commit::default() };
            Signal::TurnEnded { ending: pick(more, &endings), error: None, commit }
        }
    }
}

fn report(n: u32, test: &TestJob) -> Report {
    let more = n / 8;
    // Mostly the newest attempt, sometimes another.
    let attempt = if more % 16 == 15 { AttemptNo(more / 16 % 4) } else { test.attempt() };
    let awake = test.now.awake;
    match n % 8 {
        0 => Report::Launched { attempt, tree: tree(7), awake },
        1 if more.is_multiple_of(3) => {
            Report::LaunchFailed { attempt, error: "no".to_owned(), launch_error: None }
        }
        1 => Report::Told { input: InputNo(more % 4) },
        2 => {
            let found = match more % 6 {
                0 => Found::Ended(Box::new(receipt(more / 6))),
                1 => Found::NeverStarted,
                2 => Found::OtherBoot,
                3 => Found::Vanished(Box::new(Receipt::bare(Proof::BestEffort))),
                _ => Found::Alive { tree: tree(7), awake },
            };
            Report::Located { attempt, found }
        }
        3 if more.is_multiple_of(4) => Report::Emptied { attempt, receipt: Box::new(receipt(more / 4)) },
        4 => {
            let rung = pick(more, &[Rung::Interrupt, Rung::StdinClosed, Rung::Term, Rung::Kill]);
            Report::Climbed { attempt, rung, alive: more % 3 }
        }
        _ => {
            let back = if more % 8 == 7 { 15 } else { 0 };
            Report::Heard { attempt, offset: test.offset.saturating_sub(back) + 10, signal: signal(more / 8) }
        }
    }
}

/// Returns a request that anyone may make.
fn request(n: u32, test: &TestJob) -> Decision {
    let (job, more, now) = (&test.job, n / 10, test.now.wall);
    let epoch = job.epoch;
    match n % 10 {
        0 if more % 4 == 0 => {
            let asked = pick(more / 4, &[Asked::User, Asked::Shutdown, Asked::ParentGone, Asked::ReaderGone]);
            cancel::decide(job, &Cancel { by: "ann".to_owned(), asked, force: more & 1 == 0 }, now)
        }
        1 => limit::decide(job, "ann", SETTINGS[more as usize % 6].0, u64::from(more / 6 % 4) * 10),
        2 => send::decide(job, "ann", "hi", more % 7 == 0),
        3 => allow(job, &(more % 3).to_string()),
        4 => interrupt::decide(job, "ann", (more % 2 == 0).then_some(TurnNo(more / 2 % 4))),
        5 if more % 8 == 0 => abandon::decide(job, "ann"),
        6 if more % 8 == 0 => late::decide(job, epoch, "late"),
        _ => {
            let who = claimant(pick(more, &["a", "b"]), u64::from(epoch.0) + 1);
            let lease = if more % 4 == 0 { Lease::Over } else { Lease::Live };
            claim::decide(job, &who, lease, now)
        }
    }
}

/// Returns what the holder decides, on a report or unprompted.
fn owners(n: u32, test: &TestJob) -> Decision {
    let Some(holder) = &test.job.holder else { return Ok(Vec::new()) };
    let (job, fence, more) = (&test.job, &holder.fence, n / 6);
    let unprompted = take_over::account(job, &holder.host, test.now.wall);
    if !unprompted.is_empty() {
        return Ok(unprompted);
    }
    match n % 6 {
        0 => launch::decide(job, fence, &boot()),
        1 => Ok(limit::fire(job, &test.pulse, test.now.awake).into_iter().collect()),
        2 => Ok(observe::stop_began(job).into_iter().collect()),
        3 if more % 8 == 0 => match more / 8 % 2 {
            0 => shut_down::leave(job, fence),
            _ => shut_down::cancel(job, &fence.owner, test.now.wall),
        },
        _ => Ok(observe::decide(job, fence, &report(more, test), &test.pulse, test.now)),
    }
}

/// Takes one step. A refusal adds nothing.
fn step(test: &mut TestJob, n: u32) {
    let more = n / 4;
    test.now.wall = test.now.wall.plus_ms(u64::from(more % 7) * 300);
    test.now.awake = test.now.awake.plus_ms(u64::from(more % 7) * 300);
    test.fence = test.job.holder.as_ref().map(|holder| holder.fence.clone());
    let (fence, decision) = match n % 4 {
        0 => (None, request(more, test)),
        _ => (test.fence.clone(), owners(more, test)),
    };
    test.offset += 3;
    let Ok(facts) = decision else { return };
    if facts.is_empty() {
        return;
    }
    let shown = format!("{facts:?}");
    let (append, after) = Append::new(&test.job, fence.as_ref(), AppendId(1), test.now.wall, facts)
        .unwrap_or_else(|illegal| panic!("{illegal}: {shown} on {:?}", test.job));
    for event in append.events {
        let before = test.job.clone();
        test.job.apply(&event).expect("the append was built of it");
        holds(&before, &test.job, &event.fact);
        test.log.push(event);
    }
    assert_eq!(test.job, after);
    assert_eq!(append.row, Row::of(&test.job));
}

/// Checks what must hold after each event.
fn holds(before: &Job, job: &Job, fact: &Fact) {
    // C76: a session in an inactive state has no turn.
    if let Some(session) = &job.session {
        assert!(session.active.is_none() || session.state.may_hold_turn(), "{session:?}");
        assert!(session.interrupt.is_none() || session.interrupt == session.active, "{session:?}");
    }
    // C23, C31: an ended job stays as it is, with no holder and nothing open.
    if let Some(word) = before.last_word() {
        // What follows an end is a late report, or is about the conversation, which may go on as another job.
        let of_conversation = matches!(
            fact,
            Fact::Continued(_) | Fact::Joined(_) | Fact::LimitChanged(_) | Fact::RuleRemoved(_)
        );
        assert!(
            matches!(fact, Fact::LateReported(_)) || (of_conversation && before.reports_turns()),
            "{fact:?}"
        );
        assert_eq!((job.last_word(), &job.phase), (Some(word), &before.phase));
        let row = Row { version: before.version, changed_at: before.changed_at, ..Row::of(job) };
        let was = Row::of(before);
        // The limits of a conversation may change.
        let nearest =
            if matches!(fact, Fact::LimitChanged(_)) { was.summary.nearest } else { row.summary.nearest };
        let summary = Summary { continued_by: before.continued_by, nearest, ..row.summary.clone() };
        assert_eq!(Row { summary, ..row }, was);
    }
    if job.is_ended() {
        assert!(job.holder.is_none() && job.open_attempt().is_none() && job.active_turn().is_none());
        assert!(job.inputs.is_empty() && job.due().is_none());
    }
    // C7, C46: after a reason to stop, only an end can follow.
    let stopped = before.stop.as_ref().is_some_and(|stop| stop.cause != lastword_core::outcome::Cause::Agent);
    if stopped {
        assert!(!matches!(fact, Fact::LaunchIntended(_) | Fact::RetryScheduled(_) | Fact::TurnStarted(_)));
        assert_eq!(job.stop.as_ref().map(|stop| stop.cause), before.stop.as_ref().map(|stop| stop.cause));
    }
    assert!(job.attempts.iter().rev().skip(1).all(|attempt| attempt.end.is_some()));
    assert_eq!(job.version, before.version.next());
}

fn tape() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..STEPS_MAX)
}

/// Runs a job through its owner, with a journal that conflicts, fails, loses replies and has other writers.
fn own(first: u32, tape: &[u32]) {
    let mut rig = Rig::new(TestJob::held(spec(first)));
    let mut flight: Option<Output> = None;
    let mut launches = 0;
    for n in tape {
        let more = n / 8;
        rig.test = rig.test.clone().later(u64::from(more % 5) * 300);
        rig.test.offset += 3;
        let input = match (n % 8, &flight) {
            (0, _) => Input::Tick,
            (1, _) => {
                let decided = request(more - more % 10 + pick(more, &[0, 1, 2, 3, 4]), &rig.test);
                rig.test.anyone(decided.or(Ok(Vec::new())));
                Input::News
            }
            (2, Some(output)) => {
                // The append may be stored anyway.
                if let (Output::Append(append), true) = (output, more & 1 == 0) {
                    rig.store(&append.clone());
                }
                Input::Unavailable
            }
            (3 | 4, Some(Output::Append(append))) => rig.store(&append.clone()),
            (3 | 4, Some(Output::Load { after })) => Input::Loaded(rig.events_after(*after)),
            _ => Input::Report(report(more, &rig.test)),
        };
        if !matches!(input, Input::Tick | Input::News | Input::Report(_)) {
            flight = None;
        }
        for output in rig.step(input) {
            match output {
                Output::Append(_) | Output::Load { .. } => flight = Some(output),
                Output::Do(Effect::Launch { .. }) => launches += 1,
                Output::Do(_) | Output::LetGo { .. } => {}
                Output::Broken(illegal) => panic!("{illegal}"),
            }
        }
        if rig.owner.is_gone() {
            break;
        }
    }
    assert!(launches <= 1, "launched {launches} times");
    finish(rig, flight);
}

/// Stops the faults: the journal answers and the tree is reported empty. Then the owner lets go, and the job has ended or waits for
/// another attempt.
fn finish(mut rig: Rig, flight: Option<Output>) {
    if rig.owner.is_gone() {
        return;
    }
    let outputs = rig.step(Input::Tick);
    rig.settle(flight.into_iter().chain(outputs).collect());
    for _ in 0..3 {
        let attempt = rig.test.attempt();
        let emptied = Report::Emptied { attempt, receipt: Box::new(exited(0)) };
        let outputs = rig.step(Input::Report(emptied));
        rig.settle(outputs);
    }
    assert!(rig.owner.is_gone(), "{:?}", rig.test.kinds());
    // Another owner may have taken it over since.
    let waits = rig.test.job.due().is_some();
    let taken = rig.test.job.holder.as_ref().is_some_and(|holder| holder.fence != *rig.owner.fence());
    assert!(rig.test.job.is_ended() || waits || taken, "{:?}", rig.test.job.phase);
    // C27: the owner's job is the fold of the log up to its version.
    let known = rig.test.log.iter().filter(|event| event.seq <= rig.owner.job().version);
    assert_eq!(Job::fold(rig.test.job.id, known).as_ref(), Ok(rig.owner.job()));
}

/// Returns a fact of any kind with small numbers, valid or not.
fn any_fact(n: u32) -> Fact {
    let kind = pick(n, KINDS);
    let more = n / KINDS.len() as u32;
    let mut body: Value = serde_json::from_str(&crate::golden::example(kind).body).expect("it is JSON");
    for field in ["attempt", "turn", "epoch", "input", "offset"] {
        if body.get(field).is_some_and(Value::is_number) {
            body[field] = json!(more % 3);
        }
    }
    for (field, words) in [
        ("state", &["starting", "running", "ready", "stopped", "errored"][..]),
        ("ending", &["completed", "failed", "interrupted", "superseded", "agent_exit"]),
        ("outcome", &["completed", "failed", "lost"]),
    ] {
        if body.get(field).is_some() {
            body[field] = json!(pick(more / 3, words));
        }
    }
    let stored = Stored {
        kind: kind.to_owned(),
        version: if more % 40 == 39 { 2 } else { 1 },
        body: body.to_string(),
    };
    Fact::decode(stored).expect("it reads")
}

proptest! {
    // The same histories in every run, so that failures can be repeated.
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x1a57_0000),
        ..ProptestConfig::default()
    })]

    /// C29, C30: every decision on a reachable job is valid, and every log replays.
    #[test]
    fn c29_every_decision_on_a_reachable_job_is_valid_and_replays(first in any::<u32>(), tape in tape()) {
        let mut test = TestJob::queued(spec(first));
        for n in tape {
            step(&mut test, n);
        }
        let folded = Job::fold(test.job.id, &test.log).expect("it replays");
        prop_assert_eq!(&folded, &test.job);
        prop_assert!(test.count("last_word") <= 1);
        prop_assert_eq!(test.count("last_word") == 1, test.job.is_ended());
        // Attempts begin and end once, and the views agree with the job.
        prop_assert_eq!(test.count("launch_intended"), test.job.attempts.len());
        let ended = test.job.attempts.iter().filter(|attempt| attempt.end.is_some()).count();
        prop_assert_eq!(test.count("attempt_ended"), ended);
        prop_assert_eq!(UsageView::of(&test.log).total, test.job.usage);
        let turns = turns(&test.log);
        prop_assert_eq!(turns.len() as u32, test.job.turns.0);
        let open: Vec<TurnNo> = turns.iter().filter(|turn| turn.ended.is_none()).map(|turn| turn.turn).collect();
        let active: Vec<TurnNo> = test.job.active_turn().into_iter().collect();
        prop_assert_eq!(open, active);
        let view = SessionView::of(&test.job);
        prop_assert_eq!(view.and_then(|view| view.active), test.job.active_turn());
    }

    /// Facts in any order never panic the fold. Accepted ones replay to the same job; refused ones change nothing that an append would
    /// have stored.
    #[test]
    fn c29_facts_in_any_order_are_accepted_or_refused(tape in tape()) {
        let mut job = Job::unborn(id(1));
        let mut log: Vec<Event> = Vec::new();
        for (n, choice) in tape.into_iter().enumerate() {
            let fact = if n == 0 { any_fact(0) } else { any_fact(choice) };
            let event = Event { seq: job.version.next(), at: Timestamp(n as u64), fact };
            let mut next = job.clone();
            if next.apply(&event).is_ok() {
                if let Some(session) = &next.session {
                    prop_assert!(session.active.is_none() || session.state.may_hold_turn());
                }
                job = next;
                log.push(event);
            }
        }
        prop_assert_eq!(Job::fold(id(1), &log), Ok(job.clone()));
        prop_assert!(log.iter().filter(|event| matches!(event.fact, Fact::LastWord(_))).count() <= 1);
        if job.spec.is_some() {
            Row::of(&job);
        }
        prop_assert_eq!(lastword_core::view::timeline::of(&log).len(), log.len());
    }

    /// C23, C25, C42: whatever the journal does, an owner breaks no rule, launches once, and finishes.
    #[test]
    fn c25_c42_an_owner_finishes_through_any_faults(first in any::<u32>(), tape in tape()) {
        own(first, &tape);
    }
}
