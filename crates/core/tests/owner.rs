//! The owner's state machine through conflicts, fencing and restarts.

use lastword_core::decide::{cancel, send};
use lastword_core::effects::Effect;
use lastword_core::event::{SessionState, Usage};
use lastword_core::job::Phase;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::owner::{Input, Output};
use lastword_core::receipt::{Proof, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::{AttemptNo, Event, Fact, Illegal, InputNo, Seq};

use crate::common::{TestJob, agent, becomes, command, exited, request, retried, session, tree};
use crate::rig::{FIRST, Rig, append, effects, emptied, kinds, launched, stops};

#[test]
fn c5_effects_wait_for_stored_facts() {
    let mut rig = Rig::new(TestJob::held(agent()));
    let first = rig.step(Input::Tick);
    assert_eq!(kinds(append(&first)), ["launch_intended"]);
    assert_eq!(effects(&first), Vec::new());
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Tick), Vec::new());
    }
    let stored = rig.settle(first);
    assert_eq!(effects(&stored), [Effect::Launch { attempt: FIRST }]);
}

#[test]
fn c4_c5_an_owner_of_a_cancelled_job_starts_nothing() {
    let mut rig = Rig::new(TestJob::held(agent()));
    rig.cancelled();
    let outputs = rig.tick();
    assert_eq!((effects(&outputs), rig.owner.is_gone()), (Vec::new(), true));
    assert_eq!(rig.test.job.attempts.len(), 0);
    // The same if it reads the cancel before it writes.
    let mut rig = Rig::new(TestJob::held(agent()));
    rig.cancelled();
    let outputs = rig.step(Input::News);
    assert!(matches!(outputs[..], [Output::Load { .. }]));
    assert_eq!(effects(&rig.settle(outputs)), Vec::new());
    assert!(rig.owner.is_gone() && rig.step(Input::Tick).is_empty());
}

#[test]
fn a_launch_is_requested_once_per_claim() {
    let mut rig = Rig::new(TestJob::launching(agent()));
    assert_eq!(effects(&rig.tick()), [Effect::Launch { attempt: FIRST }]);
    for input in [Input::Tick, Input::News, Input::Tick] {
        let outputs = rig.step(input);
        assert_eq!(effects(&rig.settle(outputs)), Vec::new());
    }
    // Its report is not stored yet: still no second launch, whatever the journal replies.
    let outputs = rig.report(launched());
    assert_eq!((kinds(append(&outputs)), effects(&outputs)), (vec!["launched"], Vec::new()));
    assert_eq!(effects(&rig.step(Input::Unavailable)), Vec::new());
    let outputs = rig.step(Input::Tick);
    assert_eq!(effects(&outputs), Vec::new());
    let rest = rig.settle(outputs);
    let at = Some(TestJob::empty().now.awake.plus_ms(4 * 3_600_000));
    assert_eq!(effects(&rest), [Effect::Watch { attempt: FIRST }, Effect::Deadline { attempt: FIRST, at }]);
}

#[test]
fn an_unclear_launch_is_located_and_not_repeated() {
    let mut rig = Rig::new(TestJob::launching(agent()));
    let launch = Effect::Launch { attempt: FIRST };
    rig.tick();
    let outputs = rig.report(Report::Unclear(launch));
    assert_eq!(effects(&outputs), [Effect::Locate { attempt: FIRST }]);
    // An unclear location is repeated, and still nothing is launched.
    let outputs = rig.report(Report::Unclear(Effect::Locate { attempt: FIRST }));
    assert_eq!(effects(&outputs), [Effect::Locate { attempt: FIRST }]);
    let found = Found::Alive { tree: tree(100), awake: rig.test.now.awake };
    let outputs = rig.report(Report::Located { attempt: FIRST, found });
    assert_eq!(kinds(append(&outputs)), ["adopted"]);
    let rest = rig.settle(outputs);
    assert_eq!(effects(&rest).first(), Some(&Effect::Watch { attempt: FIRST }));
    // Another unclear effect does not affect the launch.
    let mut rig = Rig::new(TestJob::running(agent()));
    rig.tick();
    let outputs = rig.report(Report::Unclear(Effect::Watch { attempt: FIRST }));
    assert_eq!(effects(&outputs), [Effect::Watch { attempt: FIRST }]);
}

#[test]
fn c35_a_later_claim_locates_the_tree_first() {
    for test in [
        TestJob::launching(agent()),
        TestJob::running(agent()),
        TestJob::in_turn(agent()),
        TestJob::stopping(agent()),
    ] {
        let mut rig = Rig::new(test.claimed("a", 2));
        assert_eq!(effects(&rig.tick()), [Effect::Locate { attempt: FIRST }]);
        assert_eq!(effects(&rig.tick()), Vec::new());
    }
}

#[test]
fn c1_c2_no_stop_before_the_request_is_read() {
    let mut rig = Rig::new(TestJob::running(agent()));
    assert_eq!(stops(&rig.tick()), []);
    rig.cancelled();
    // It is stored, but this owner has not read it.
    assert_eq!(stops(&rig.step(Input::Tick)), []);
    let outputs = rig.step(Input::News);
    assert_eq!(stops(&outputs), []);
    let [Output::Load { after }] = outputs[..] else { panic!("{outputs:?}") };
    let outputs = rig.step(Input::Loaded(rig.events_after(after)));
    // Once it is read, the stop is requested in the same step, and its start is being stored.
    assert_eq!(stops(&outputs), [Cause::User]);
    assert_eq!(kinds(append(&outputs)), ["stop_began"]);
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::User], "and it is requested once");
    assert_eq!(rig.test.count("stop_began"), 1);
}

#[test]
fn force_is_requested_on_top_of_a_stop() {
    let mut rig = Rig::new(TestJob::stopping(agent()));
    let stop = |force| Effect::Stop { attempt: FIRST, cause: Cause::User, force };
    assert_eq!(effects(&rig.tick()), [Effect::Watch { attempt: FIRST }, stop(false)]);
    let facts = cancel::decide(&rig.test.job, &request(true), rig.test.now.wall);
    rig.test.anyone(facts);
    let outputs = rig.step(Input::News);
    assert_eq!(effects(&rig.settle(outputs)), [stop(true)]);
}

#[test]
fn c39_a_stored_request_is_acted_on_once_after_a_restart() {
    let test = TestJob::stopping(agent()).claimed("a", 2);
    let mut rig = Rig::new(test);
    assert_eq!(effects(&rig.tick()), [Effect::Locate { attempt: FIRST }]);
    let found = Found::Alive { tree: tree(100), awake: rig.test.now.awake };
    let outputs = rig.report(Report::Located { attempt: FIRST, found });
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::User]);
    assert_eq!(stops(&rig.tick()), []);
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.test.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!((rig.test.count("cancel_requested"), rig.test.count("stop_began")), (1, 1));
}

#[test]
fn c39_inputs_and_interrupts_are_due_again_after_a_restart() {
    let mut test = TestJob::in_turn(agent());
    let facts = send::steer(&test.job, "ann", "and the docs");
    test.anyone(facts);
    let facts = lastword_core::decide::interrupt::decide(&test.job, "ann", None);
    test.anyone(facts);
    let mut rig = Rig::new(test.claimed("a", 2));
    rig.tick();
    let found = Found::Alive { tree: tree(100), awake: rig.test.now.awake };
    let outputs = rig.report(Report::Located { attempt: FIRST, found });
    let due = effects(&rig.settle(outputs));
    assert!(due.contains(&Effect::Tell { attempt: FIRST, input: InputNo(1) }), "{due:?}");
    assert!(due.contains(&Effect::Interrupt { attempt: FIRST, turn: lastword_core::TurnNo(1) }), "{due:?}");
    let outputs = rig.report(Report::Told { input: InputNo(1) });
    assert_eq!(effects(&rig.settle(outputs)), Vec::new());
    assert_eq!(rig.test.count("input_delivered"), 1);
}

#[test]
fn c23_between_a_request_and_the_last_word_the_first_write_counts() {
    // The request is first: the end is decided again, with it.
    let mut rig = Rig::new(TestJob::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let alone = append(&outputs).clone();
    assert!(
        matches!(alone.events.last().map(|event| &event.fact), Some(Fact::LastWord(word)) if word.outcome == Outcome::Completed)
    );
    rig.cancelled();
    rig.settle(outputs);
    assert_eq!(rig.test.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!((rig.test.count("last_word"), rig.owner.is_gone()), (1, true));
    // The last word is first: the request adds nothing.
    let mut rig = Rig::new(TestJob::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    rig.cancelled();
    assert_eq!((rig.test.outcome(), rig.test.count("cancel_requested")), (Some(Outcome::Completed), 0));
}

#[test]
fn c25_after_a_conflict_the_owner_decides_again_and_loses_no_report() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    let first = append(&outputs).clone();
    // More reports arrive while the append is in flight, and another writer appends.
    assert_eq!(rig.says(Signal::Spent(Usage { tokens_in: 1, ..Usage::default() })), Vec::new());
    let facts = send::steer(&rig.test.job, "ann", "hi");
    rig.test.anyone(facts);
    let outputs = rig.step(Input::Conflict);
    assert_eq!(outputs, [Output::Load { after: first.expected }]);
    assert!(rig.owner.waits_for_journal());
    assert_eq!(rig.step(Input::Tick), Vec::new());
    let outputs = rig.step(Input::Loaded(rig.events_after(first.expected)));
    let again = append(&outputs);
    assert_eq!((kinds(again), again.expected), (vec!["item_completed", "spent"], first.expected.next()));
    assert_ne!(again.id, first.id);
    assert_eq!(effects(&outputs), [Effect::Tell { attempt: FIRST, input: InputNo(1) }]);
    rig.settle(outputs);
    assert_eq!((rig.test.count("item_completed"), rig.test.count("spent")), (1, 1));
    assert!(!rig.owner.waits_for_journal());
}

#[test]
fn a_batch_of_reports_is_one_append() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let first = rig.says(Signal::ItemCompleted { title: "0".to_owned() });
    for n in 1..=100 {
        assert_eq!(rig.says(Signal::ItemCompleted { title: n.to_string() }), Vec::new());
    }
    let answer = rig.store(append(&first));
    let outputs = rig.step(answer);
    assert_eq!(append(&outputs).events.len(), 64);
    let answer = rig.store(append(&outputs));
    let outputs = rig.step(answer);
    assert_eq!(append(&outputs).events.len(), 36);
    rig.settle(outputs);
    assert_eq!(rig.test.count("item_completed"), 101);
}

#[test]
fn the_inbox_is_bounded() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    rig.says(Signal::ItemCompleted { title: "0".to_owned() });
    for n in 1..256 {
        assert!(rig.owner.has_room(), "{n}");
        rig.says(Signal::ItemCompleted { title: n.to_string() });
    }
    assert!(!rig.owner.has_room());
}

#[test]
fn c35_a_fenced_owner_lets_go_and_hands_over_late_reports() {
    let mut rig = Rig::new(TestJob::running(agent()));
    rig.tick();
    let outputs = rig.report(Report::Climbed { attempt: FIRST, rung: Rung::Kill, alive: 0 });
    assert_eq!(outputs, Vec::new());
    let outputs = rig.says(session());
    assert_eq!(kinds(append(&outputs)), ["session_started"]);
    rig.says(Signal::TurnStarted);
    rig.report(emptied(exited(0)));
    rig.report(launched());
    rig.report(Report::LaunchFailed { attempt: FIRST, error: "no".to_owned(), launch_error: None });
    rig.report(Report::Located { attempt: FIRST, found: Found::NeverStarted });
    rig.report(Report::Told { input: InputNo(1) });
    let outputs = rig.step(Input::Fenced);
    let late = [
        "attempt 1: tree empty, proof NoChildren, exit Some(Code(0))",
        "attempt 1: tree launched, pid 100 of boot b1",
        "attempt 1: not launched: no",
        "attempt 1: located the tree",
    ];
    assert_eq!(outputs, [Output::LetGo { late: late.map(str::to_owned).to_vec() }]);
    assert!(rig.owner.is_gone() && !rig.owner.waits_for_journal());
    for input in
        [Input::Tick, Input::News, Input::Stored, Input::Report(emptied(exited(0))), Input::Unavailable]
    {
        assert_eq!(rig.step(input), Vec::new());
    }
}

#[test]
fn c35_a_fenced_owner_requests_no_effects() {
    for test in [TestJob::launching(agent()), TestJob::running(agent()), TestJob::stopping(agent())] {
        let mut rig = Rig::new(test);
        assert_eq!(rig.step(Input::Fenced), [Output::LetGo { late: Vec::new() }]);
        assert_eq!(rig.step(Input::Tick), Vec::new());
    }
}

#[test]
fn c35_an_owner_that_reads_another_claim_lets_go() {
    let mut rig = Rig::new(TestJob::running(agent()));
    rig.tick();
    rig.test = rig.test.clone().claimed("b", 2);
    let outputs = rig.step(Input::News);
    assert_eq!(rig.settle(outputs), [Output::LetGo { late: Vec::new() }]);
    assert!(rig.owner.is_gone());
}

#[test]
fn c34_an_attempt_on_another_host_ends_by_its_lease_and_is_never_touched() {
    let kept = Spec { on_partition: OnPartition::Keep, ..retried(2) };
    for (spec, abandoned, proof) in
        [(retried(2), false, Proof::LeaseSelfFenced), (kept, true, Proof::BestEffort)]
    {
        let mut test = TestJob::in_turn(spec);
        if abandoned {
            let facts = lastword_core::decide::abandon::decide(&test.job, "ann");
            test.anyone(facts);
        }
        let mut rig = Rig::new(test.claimed("b", 2));
        let outputs = rig.step(Input::Tick);
        assert_eq!(effects(&outputs), Vec::new());
        assert_eq!(kinds(append(&outputs)), ["turn_ended", "attempt_ended", "last_word"]);
        rig.settle(outputs);
        let end = rig.test.job.attempts[0].end.clone().expect("it ended");
        assert_eq!((end.receipt.proof, rig.test.outcome()), (proof, Some(Outcome::Lost)));
        assert!(rig.owner.is_gone());
    }
}

#[test]
fn c83_a_failed_launch_ends_the_claim_and_the_next_one_retries() {
    let mut rig = Rig::new(TestJob::held(retried(2)));
    rig.tick();
    let outputs = rig.report(Report::LaunchFailed {
        attempt: FIRST,
        error: "no such program".to_owned(),
        launch_error: None,
    });
    assert_eq!(kinds(append(&outputs)), ["attempt_ended", "retry_scheduled"]);
    rig.settle(outputs);
    assert!(rig.owner.is_gone() && matches!(rig.test.job.phase, Phase::Backoff { .. }));
    let mut next = Rig::new(rig.test.later(1_000).claimed("b", 2));
    let outputs = next.step(Input::Tick);
    assert_eq!(kinds(append(&outputs)), ["launch_intended"]);
    let rest = next.settle(outputs);
    assert_eq!(effects(&rest), [Effect::Launch { attempt: AttemptNo(2) }]);
}

#[test]
fn a_cancel_during_a_launch_waits_for_its_report() {
    let mut rig = Rig::new(TestJob::launching(agent()));
    rig.tick();
    rig.cancelled();
    let outputs = rig.step(Input::News);
    assert_eq!(effects(&rig.settle(outputs)), Vec::new(), "the launch reports first");
    let outputs = rig.report(launched());
    let mut rest = rig.settle(outputs);
    // The tree may be located while the report of it is stored; the stop follows either way.
    if effects(&rest).contains(&Effect::Locate { attempt: FIRST }) {
        let found = Found::Alive { tree: tree(100), awake: rig.test.now.awake };
        let outputs = rig.report(Report::Located { attempt: FIRST, found });
        rest.extend(rig.settle(outputs));
    }
    assert_eq!(stops(&rest), [Cause::User]);
    assert_eq!(effects(&rest).iter().filter(|effect| matches!(effect, Effect::Launch { .. })).count(), 0);
}

#[test]
fn a_log_that_breaks_a_rule_is_reported_and_the_job_left_alone() {
    let mut rig = Rig::new(TestJob::running(agent()));
    rig.tick();
    let after = rig.test.job.version;
    assert_eq!(rig.step(Input::News), [Output::Load { after }]);
    let fact = Fact::decode(crate::golden::example("submitted")).expect("it reads");
    let event = Event { seq: after.next(), at: rig.test.now.wall, fact };
    rig.test.log.push(event.clone());
    assert_eq!(rig.step(Input::Loaded(vec![event])), [Output::Load { after: Seq(0) }], "it looks again");
    let outputs = rig.step(Input::Loaded(rig.test.log.clone()));
    assert!(matches!(outputs[..], [Output::Broken(Illegal::OutOfPlace { .. })]));
    assert!(rig.owner.is_gone() && rig.step(Input::Tick).is_empty());
}

#[test]
fn a_log_that_has_lost_what_is_known_of_it_is_not_called_broken() {
    let mut rig = Rig::new(TestJob::launching(agent()));
    rig.tick();
    let known = rig.owner.job().version;
    // Claim and intent are lost. A message is stored in their place, and another owner intends the same attempt later.
    let mut test = TestJob::queued(agent());
    test.anyone(send::decide(&test.job, "me", "more", false));
    rig.test = test.claimed("b", 1).intended();
    let outputs = rig.step(Input::News);
    assert_eq!(outputs, [Output::Load { after: known }]);
    let newer = Input::Loaded(rig.events_after(known));
    assert_eq!(rig.step(newer), [Output::Load { after: Seq(0) }]);
    // Nothing is decided before it has read, also if the journal is away.
    assert_eq!(rig.step(Input::Unavailable), Vec::new());
    let outputs = rig.step(Input::Tick);
    assert_eq!(outputs, [Output::Load { after: Seq(0) }]);
    let rest = rig.settle(outputs);
    assert!(matches!(rest[..], [Output::LetGo { .. }]), "{rest:?}");
}

#[test]
fn known_events_are_skipped() {
    let mut rig = Rig::new(TestJob::running(agent()));
    rig.tick();
    rig.step(Input::News);
    let outputs = rig.step(Input::Loaded(rig.test.log.clone()));
    assert_eq!((outputs, rig.owner.is_gone()), (Vec::new(), false));
    assert_eq!((rig.owner.job(), rig.owner.fence()), (&rig.test.job, rig.test.fence()));
}

#[test]
fn activity_signals_lead_to_no_facts() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    for signal in [Signal::Progress, Signal::ToolStarted, Signal::ToolEnded] {
        rig.later(60_000);
        assert_eq!(rig.says(signal), Vec::new());
        assert!(rig.owner.has_room());
    }
    assert_eq!(rig.owner.next_check(), Some(rig.test.now.awake.plus_ms(20 * 60_000)));
    let outputs = rig.says(becomes(SessionState::Running));
    assert_eq!(kinds(append(&outputs)), ["session_changed"]);
}

#[test]
fn append_ids_are_unique() {
    let test = TestJob::in_turn(agent());
    let mut seen = std::collections::BTreeSet::new();
    for incarnation in [2, 3] {
        let mut rig = Rig::new(test.clone().claimed("a", incarnation));
        rig.tick();
        for _ in 0..3 {
            let outputs = rig.says(Signal::ItemCompleted { title: "x".to_owned() });
            assert!(seen.insert(append(&outputs).id));
            rig.settle(outputs);
        }
    }
}

#[test]
fn news_during_an_append_or_a_load_is_read_afterwards() {
    let mut rig = Rig::new(TestJob::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    assert_eq!(rig.step(Input::News), Vec::new());
    let answer = rig.store(append(&outputs));
    assert!(matches!(rig.step(answer)[..], [Output::Load { .. }]));
    // This load read the log before the request that the next news is about.
    let early = rig.events_after(rig.test.job.version);
    rig.cancelled();
    assert_eq!(rig.step(Input::News), Vec::new());
    let outputs = rig.step(Input::Loaded(early));
    assert!(matches!(outputs[..], [Output::Load { .. }]), "{outputs:?}");
    assert_eq!(stops(&rig.settle(outputs)), [Cause::User]);
}
