//! Properties over random lives of a job: what holds whatever is decided, reported and raced.
//!
//! A life is a tape of numbers, each of which chooses a step; a shorter tape is a shorter life, so failures shrink well.

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::claim::{self, Lease};
use lastword_core::decide::{
    Decision, abandon, answer, interrupt, late, launch, limit, observe, send, shut_down, take_over,
};
use lastword_core::effects::Effect;
use lastword_core::event::{Commit, KINDS, SessionState, Stored, TurnEnding, Usage};
use lastword_core::limits::{Limit, Limits, SETTINGS};
use lastword_core::outcome::{Asked, Budget};
use lastword_core::owner::{Input, Output};
use lastword_core::receipt::{Exit, KeeperStop, Proof, Receipt, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnPartition, RetryPolicy, Spec};
use lastword_core::view::row::Row;
use lastword_core::view::session::{SessionView, turns};
use lastword_core::view::usage::UsageView;
use lastword_core::{Append, AppendId, AttemptNo, Event, Fact, InputNo, Job, Timestamp, TurnNo};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use crate::common::{Desk, agent, boot, claimant, command, exited, id, tree};
use crate::rig::Rig;

/// Steps of one life: enough for several attempts with turns in them.
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
        5 => Signal::QuestionAsked { question: (more % 3).to_string(), text: "?".to_owned() },
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

fn report(n: u32, desk: &Desk) -> Report {
    let more = n / 8;
    // Mostly the newest attempt, sometimes another.
    let attempt = if more % 16 == 15 { AttemptNo(more / 16 % 4) } else { desk.attempt() };
    let awake = desk.now.awake;
    match n % 8 {
        0 => Report::Launched { attempt, tree: tree(7), awake },
        1 if more.is_multiple_of(3) => Report::LaunchFailed { attempt, error: "no".to_owned() },
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
            Report::Heard { attempt, offset: desk.offset.saturating_sub(back) + 10, signal: signal(more / 8) }
        }
    }
}

/// What anyone may ask for.
fn request(n: u32, desk: &Desk) -> Decision {
    let (job, more, now) = (&desk.job, n / 10, desk.now.wall);
    let epoch = job.epoch;
    match n % 10 {
        0 if more % 4 == 0 => {
            let asked = pick(more / 4, &[Asked::User, Asked::Shutdown, Asked::ParentGone]);
            cancel::decide(job, &Cancel { by: "ann".to_owned(), asked, force: more & 1 == 0 }, now)
        }
        1 => limit::decide(job, "ann", SETTINGS[more as usize % 6].0, u64::from(more / 6 % 4) * 10),
        2 => send::decide(job, "ann", "hi", more % 7 == 0),
        3 => answer::decide(job, "ann", &(more % 3).to_string(), "yes"),
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

/// What the holder decides, by a report or by itself.
fn owners(n: u32, desk: &Desk) -> Decision {
    let Some(holder) = &desk.job.holder else { return Ok(Vec::new()) };
    let (job, fence, more) = (&desk.job, &holder.fence, n / 6);
    let by_itself = take_over::account(job, &holder.host, desk.now.wall);
    if !by_itself.is_empty() {
        return Ok(by_itself);
    }
    match n % 6 {
        0 => launch::decide(job, fence, &boot()),
        1 => Ok(limit::fire(job, &desk.pulse, desk.now.awake).into_iter().collect()),
        2 => Ok(observe::stop_began(job).into_iter().collect()),
        3 if more % 8 == 0 => match more / 8 % 2 {
            0 => shut_down::leave(job, fence),
            _ => shut_down::cancel(job, &fence.owner, desk.now.wall),
        },
        _ => Ok(observe::decide(job, fence, &report(more, desk), &desk.pulse, desk.now)),
    }
}

/// Lives one step; a refusal is a well-formed answer and adds nothing.
fn step(desk: &mut Desk, n: u32) {
    let more = n / 4;
    desk.now.wall = desk.now.wall.plus_ms(u64::from(more % 7) * 300);
    desk.now.awake = desk.now.awake.plus_ms(u64::from(more % 7) * 300);
    desk.fence = desk.job.holder.as_ref().map(|holder| holder.fence.clone());
    let (fence, decision) = match n % 4 {
        0 => (None, request(more, desk)),
        _ => (desk.fence.clone(), owners(more, desk)),
    };
    desk.offset += 3;
    let Ok(facts) = decision else { return };
    if facts.is_empty() {
        return;
    }
    let shown = format!("{facts:?}");
    let (append, after) = Append::new(&desk.job, fence.as_ref(), AppendId(1), desk.now.wall, facts)
        .unwrap_or_else(|illegal| panic!("{illegal}: {shown} on {:?}", desk.job));
    for event in append.events {
        let before = desk.job.clone();
        desk.job.apply(&event).expect("the append was built of it");
        holds(&before, &desk.job, &event.fact);
        desk.log.push(event);
    }
    assert_eq!(desk.job, after);
    assert_eq!(append.row, Row::of(&desk.job));
}

/// What holds after each event.
fn holds(before: &Job, job: &Job, fact: &Fact) {
    // C76: a state that may not hold a turn holds none.
    if let Some(session) = &job.session {
        assert!(session.active.is_none() || session.state.may_hold_turn(), "{session:?}");
        assert!(session.interrupt.is_none() || session.interrupt == session.active, "{session:?}");
    }
    // C23, C31: ended is absorbing, and nothing is held or open after it.
    if let Some(word) = before.last_word() {
        assert_eq!((job.last_word(), fact.kind()), (Some(word), "late_reported"));
        assert_eq!(Row { version: before.version, ..Row::of(job) }, Row::of(before));
    }
    if job.is_ended() {
        assert!(job.holder.is_none() && job.open_attempt().is_none() && job.active_turn().is_none());
        assert!(job.inputs.is_empty() && job.due().is_none());
    }
    // C7, C46: nothing but an ending follows a reason to stop.
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

/// Lives a job through its owner, with a journal that conflicts, goes away, forgets to answer, and is written by others.
fn own(first: u32, tape: &[u32]) {
    let mut rig = Rig::new(Desk::held(spec(first)));
    let mut flight: Option<Output> = None;
    let mut launches = 0;
    for n in tape {
        let more = n / 8;
        rig.desk = rig.desk.clone().later(u64::from(more % 5) * 300);
        rig.desk.offset += 3;
        let input = match (n % 8, &flight) {
            (0, _) => Input::Tick,
            (1, _) => {
                let decided = request(more - more % 10 + pick(more, &[0, 1, 2, 3, 4]), &rig.desk);
                rig.desk.anyone(decided.or(Ok(Vec::new())));
                Input::News
            }
            (2, Some(output)) => {
                // The append may be stored all the same.
                if let (Output::Append(append), true) = (output, more & 1 == 0) {
                    rig.store(&append.clone());
                }
                Input::Unavailable
            }
            (3 | 4, Some(Output::Append(append))) => rig.store(&append.clone()),
            (3 | 4, Some(Output::Load { after })) => Input::Loaded(rig.events_after(*after)),
            _ => Input::Report(report(more, &rig.desk)),
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

/// The faults stop: the journal answers, and the tree is reported empty. Then the owner lets go, and the job is
/// over or waits for another attempt.
fn finish(mut rig: Rig, flight: Option<Output>) {
    if rig.owner.is_gone() {
        return;
    }
    let outputs = rig.step(Input::Tick);
    rig.settle(flight.into_iter().chain(outputs).collect());
    for _ in 0..3 {
        let attempt = rig.desk.attempt();
        let emptied = Report::Emptied { attempt, receipt: Box::new(exited(0)) };
        let outputs = rig.step(Input::Report(emptied));
        rig.settle(outputs);
    }
    assert!(rig.owner.is_gone(), "{:?}", rig.desk.kinds());
    // Somebody else may have taken it since.
    let waits = rig.desk.job.due().is_some();
    let taken = rig.desk.job.holder.as_ref().is_some_and(|holder| holder.fence != *rig.owner.fence());
    assert!(rig.desk.job.is_ended() || waits || taken, "{:?}", rig.desk.job.phase);
    // C27: what the owner remembers is what the log says up to there.
    let known = rig.desk.log.iter().filter(|event| event.seq <= rig.owner.job().version);
    assert_eq!(Job::fold(rig.desk.job.id, known).as_ref(), Ok(rig.owner.job()));
}

/// Returns a fact of any kind with small numbers in it, in place or not.
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
    // The same lives in every run: what fails here fails again.
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x1a57_0000),
        ..ProptestConfig::default()
    })]

    /// C29, C30: every decision on every job that can be reached belongs in its log, and every log replays.
    #[test]
    fn c29_every_decision_on_a_reachable_job_follows_and_replays(first in any::<u32>(), tape in tape()) {
        let mut desk = Desk::queued(spec(first));
        for n in tape {
            step(&mut desk, n);
        }
        let folded = Job::fold(desk.job.id, &desk.log).expect("it replays");
        prop_assert_eq!(&folded, &desk.job);
        prop_assert!(desk.count("last_word") <= 1);
        prop_assert_eq!(desk.count("last_word") == 1, desk.job.is_ended());
        // Attempts begin and end once, and the views agree with the job.
        prop_assert_eq!(desk.count("launch_intended"), desk.job.attempts.len());
        let ended = desk.job.attempts.iter().filter(|attempt| attempt.end.is_some()).count();
        prop_assert_eq!(desk.count("attempt_ended"), ended);
        prop_assert_eq!(UsageView::of(&desk.log).total, desk.job.usage);
        let turns = turns(&desk.log);
        prop_assert_eq!(turns.len() as u32, desk.job.turns.0);
        let open: Vec<TurnNo> = turns.iter().filter(|turn| turn.ended.is_none()).map(|turn| turn.turn).collect();
        let active: Vec<TurnNo> = desk.job.active_turn().into_iter().collect();
        prop_assert_eq!(open, active);
        let view = SessionView::of(&desk.job);
        prop_assert_eq!(view.and_then(|view| view.active), desk.job.active_turn());
    }

    /// Facts in any order never panic the fold; what it takes replays to the same job, and what it refuses changes nothing
    /// that an append would have stored.
    #[test]
    fn c29_any_facts_in_any_order_are_taken_or_refused(tape in tape()) {
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

    /// C23, C25, C42: whatever the journal does, an owner breaks no rule, launches once, and comes to an end.
    #[test]
    fn c25_c42_an_owner_comes_to_its_end_through_any_faults(first in any::<u32>(), tape in tape()) {
        own(first, &tape);
    }
}
