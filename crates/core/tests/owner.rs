//! The owner's step: what the holder of a job does between two IOs, through conflicts, fences and restarts.

use lastword_core::decide::{cancel, send};
use lastword_core::effects::Effect;
use lastword_core::event::{SessionState, Usage};
use lastword_core::job::Phase;
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::owner::{Input, Output};
use lastword_core::receipt::{Proof, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::{AppendId, AttemptNo, Event, Fact, Illegal, InputNo};

use crate::common::{Desk, agent, becomes, command, exited, retried, session, tree, wish};
use crate::rig::{FIRST, Rig, append, effects, emptied, kinds, launched, stops};

#[test]
fn c5_nothing_is_done_before_the_durable_state_allows_it() {
    let mut rig = Rig::new(Desk::held(agent()));
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
fn c4_c5_an_owner_that_finds_the_job_cancelled_starts_nothing() {
    let mut rig = Rig::new(Desk::held(agent()));
    rig.cancelled();
    let outputs = rig.tick();
    assert_eq!((effects(&outputs), rig.owner.is_gone()), (Vec::new(), true));
    assert_eq!(rig.desk.job.attempts.len(), 0);
    // The same when it is told by news before it writes.
    let mut rig = Rig::new(Desk::held(agent()));
    rig.cancelled();
    let outputs = rig.step(Input::News);
    assert!(matches!(outputs[..], [Output::Load { .. }]));
    assert_eq!(effects(&rig.settle(outputs)), Vec::new());
    assert!(rig.owner.is_gone() && rig.step(Input::Tick).is_empty());
}

#[test]
fn a_launch_is_asked_for_once_per_claim() {
    let mut rig = Rig::new(Desk::launching(agent()));
    assert_eq!(effects(&rig.tick()), [Effect::Launch { attempt: FIRST }]);
    for input in [Input::Tick, Input::News, Input::Tick] {
        let outputs = rig.step(input);
        assert_eq!(effects(&rig.settle(outputs)), Vec::new());
    }
    // Its report is not stored yet: still no second one, whatever the journal says.
    let outputs = rig.report(launched());
    assert_eq!((kinds(append(&outputs)), effects(&outputs)), (vec!["launched"], Vec::new()));
    assert_eq!(effects(&rig.step(Input::Unavailable)), Vec::new());
    let outputs = rig.step(Input::Tick);
    assert_eq!(effects(&outputs), Vec::new());
    let rest = rig.settle(outputs);
    let at = Some(Desk::empty().now.awake.plus_ms(4 * 3_600_000));
    assert_eq!(effects(&rest), [Effect::Watch { attempt: FIRST }, Effect::Deadline { attempt: FIRST, at }]);
}

#[test]
fn a_launch_that_is_unclear_is_looked_for_and_not_repeated() {
    let mut rig = Rig::new(Desk::launching(agent()));
    let launch = Effect::Launch { attempt: FIRST };
    rig.tick();
    let outputs = rig.report(Report::Unclear(launch));
    assert_eq!(effects(&outputs), [Effect::Locate { attempt: FIRST }]);
    // A look that is unclear is looked again, and still nothing is launched.
    let outputs = rig.report(Report::Unclear(Effect::Locate { attempt: FIRST }));
    assert_eq!(effects(&outputs), [Effect::Locate { attempt: FIRST }]);
    let found = Found::Alive { tree: tree(100), awake: rig.desk.now.awake };
    let outputs = rig.report(Report::Located { attempt: FIRST, found });
    assert_eq!(kinds(append(&outputs)), ["adopted"]);
    let rest = rig.settle(outputs);
    assert_eq!(effects(&rest).first(), Some(&Effect::Watch { attempt: FIRST }));
    // What is unclear about another effect does not make the launch so.
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    let outputs = rig.report(Report::Unclear(Effect::Watch { attempt: FIRST }));
    assert_eq!(effects(&outputs), [Effect::Watch { attempt: FIRST }]);
}

#[test]
fn c35_a_later_claim_looks_before_anything_else() {
    for desk in
        [Desk::launching(agent()), Desk::running(agent()), Desk::in_turn(agent()), Desk::stopping(agent())]
    {
        let mut rig = Rig::new(desk.claimed("a", 2));
        assert_eq!(effects(&rig.tick()), [Effect::Locate { attempt: FIRST }]);
        assert_eq!(effects(&rig.tick()), Vec::new());
    }
}

#[test]
fn c1_c2_no_stop_before_the_request_is_in_the_remembered_job() {
    let mut rig = Rig::new(Desk::running(agent()));
    assert_eq!(stops(&rig.tick()), []);
    rig.cancelled();
    // It is durable, but this owner has not read it.
    assert_eq!(stops(&rig.step(Input::Tick)), []);
    let outputs = rig.step(Input::News);
    assert_eq!(stops(&outputs), []);
    let [Output::Load { after }] = outputs[..] else { panic!("{outputs:?}") };
    let outputs = rig.step(Input::Loaded(rig.events_after(after)));
    // Read: the stop is due in the same step, and the note of it is on its way.
    assert_eq!(stops(&outputs), [Cause::User]);
    assert_eq!(kinds(append(&outputs)), ["stop_began"]);
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::User], "and it is asked for once");
    assert_eq!(rig.desk.count("stop_began"), 1);
}

#[test]
fn force_is_asked_for_on_top_of_a_stop() {
    let mut rig = Rig::new(Desk::stopping(agent()));
    let stop = |force| Effect::Stop { attempt: FIRST, cause: Cause::User, force };
    assert_eq!(effects(&rig.tick()), [Effect::Watch { attempt: FIRST }, stop(false)]);
    let facts = cancel::decide(&rig.desk.job, &wish(true), rig.desk.now.wall);
    rig.desk.anyone(facts);
    let outputs = rig.step(Input::News);
    assert_eq!(effects(&rig.settle(outputs)), [stop(true)]);
}

#[test]
fn c39_a_persisted_request_is_acted_on_after_a_restart_once() {
    let desk = Desk::stopping(agent()).claimed("a", 2);
    let mut rig = Rig::new(desk);
    assert_eq!(effects(&rig.tick()), [Effect::Locate { attempt: FIRST }]);
    let found = Found::Alive { tree: tree(100), awake: rig.desk.now.awake };
    let outputs = rig.report(Report::Located { attempt: FIRST, found });
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::User]);
    assert_eq!(stops(&rig.tick()), []);
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.desk.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!((rig.desk.count("cancel_requested"), rig.desk.count("stop_began")), (1, 1));
}

#[test]
fn c39_inputs_and_interrupts_are_due_again_after_a_restart() {
    let mut desk = Desk::in_turn(agent());
    let facts = send::steer(&desk.job, "ann", "and the docs");
    desk.anyone(facts);
    let facts = lastword_core::decide::interrupt::decide(&desk.job, "ann", None);
    desk.anyone(facts);
    let mut rig = Rig::new(desk.claimed("a", 2));
    rig.tick();
    let found = Found::Alive { tree: tree(100), awake: rig.desk.now.awake };
    let outputs = rig.report(Report::Located { attempt: FIRST, found });
    let due = effects(&rig.settle(outputs));
    assert!(due.contains(&Effect::Tell { attempt: FIRST, input: InputNo(1) }), "{due:?}");
    assert!(due.contains(&Effect::Interrupt { attempt: FIRST, turn: lastword_core::TurnNo(1) }), "{due:?}");
    let outputs = rig.report(Report::Told { input: InputNo(1) });
    assert_eq!(effects(&rig.settle(outputs)), Vec::new());
    assert_eq!(rig.desk.count("input_delivered"), 1);
}

#[test]
fn c23_a_request_that_comes_with_the_last_word_is_decided_by_who_was_first() {
    // The request is first: the ending is decided again, with it.
    let mut rig = Rig::new(Desk::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let alone = append(&outputs).clone();
    assert!(
        matches!(alone.events.last().map(|event| &event.fact), Some(Fact::LastWord(word)) if word.outcome == Outcome::Completed)
    );
    rig.cancelled();
    rig.settle(outputs);
    assert_eq!(rig.desk.outcome(), Some(Outcome::Cancelled(Begun::WhileRunning)));
    assert_eq!((rig.desk.count("last_word"), rig.owner.is_gone()), (1, true));
    // The last word is first: the request finds it.
    let mut rig = Rig::new(Desk::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    rig.cancelled();
    assert_eq!((rig.desk.outcome(), rig.desk.count("cancel_requested")), (Some(Outcome::Completed), 0));
}

#[test]
fn c25_a_conflict_is_read_and_decided_again_and_no_report_is_lost() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    let first = append(&outputs).clone();
    // More is reported while the append is in flight, and somebody else writes.
    assert_eq!(rig.says(Signal::Spent(Usage { tokens_in: 1, ..Usage::default() })), Vec::new());
    let facts = send::steer(&rig.desk.job, "ann", "hi");
    rig.desk.anyone(facts);
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
    assert_eq!((rig.desk.count("item_completed"), rig.desk.count("spent")), (1, 1));
    assert!(!rig.owner.waits_for_journal());
}

#[test]
fn a_batch_of_reports_is_one_append() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
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
    assert_eq!(rig.desk.count("item_completed"), 101);
}

#[test]
fn an_inbox_has_room_until_its_bound() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    rig.says(Signal::ItemCompleted { title: "0".to_owned() });
    for n in 1..256 {
        assert!(rig.owner.has_room(), "{n}");
        rig.says(Signal::ItemCompleted { title: n.to_string() });
    }
    assert!(!rig.owner.has_room());
}

#[test]
fn c35_a_fenced_owner_lets_go_and_hands_over_what_came_too_late() {
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    let outputs = rig.report(Report::Climbed { attempt: FIRST, rung: Rung::Kill, alive: 0 });
    assert_eq!(outputs, Vec::new());
    let outputs = rig.says(session());
    assert_eq!(kinds(append(&outputs)), ["session_started"]);
    rig.says(Signal::TurnStarted);
    rig.report(emptied(exited(0)));
    rig.report(launched());
    rig.report(Report::LaunchFailed { attempt: FIRST, error: "no".to_owned() });
    rig.report(Report::Located { attempt: FIRST, found: Found::NeverStarted });
    rig.report(Report::Told { input: InputNo(1) });
    let outputs = rig.step(Input::Fenced);
    let late = [
        "attempt 1: tree empty, proof NoChildren, exit Some(Code(0))",
        "attempt 1: tree launched, pid 100 of boot b1",
        "attempt 1: not launched: no",
        "attempt 1: looked for the tree",
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
fn c35_a_fenced_owner_asks_for_nothing_that_is_due() {
    for desk in [Desk::launching(agent()), Desk::running(agent()), Desk::stopping(agent())] {
        let mut rig = Rig::new(desk);
        assert_eq!(rig.step(Input::Fenced), [Output::LetGo { late: Vec::new() }]);
        assert_eq!(rig.step(Input::Tick), Vec::new());
    }
}

#[test]
fn c35_an_owner_that_reads_another_claim_lets_go() {
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    rig.desk = rig.desk.clone().claimed("b", 2);
    let outputs = rig.step(Input::News);
    assert_eq!(rig.settle(outputs), [Output::LetGo { late: Vec::new() }]);
    assert!(rig.owner.is_gone());
}

#[test]
fn c34_an_attempt_of_another_host_is_accounted_by_its_lease_and_never_touched() {
    let kept = Spec { on_partition: OnPartition::Keep, ..retried(2) };
    for (spec, abandoned, proof) in
        [(retried(2), false, Proof::LeaseSelfFenced), (kept, true, Proof::BestEffort)]
    {
        let mut desk = Desk::in_turn(spec);
        if abandoned {
            let facts = lastword_core::decide::abandon::decide(&desk.job, "ann");
            desk.anyone(facts);
        }
        let mut rig = Rig::new(desk.claimed("b", 2));
        let outputs = rig.step(Input::Tick);
        assert_eq!(effects(&outputs), Vec::new());
        assert_eq!(kinds(append(&outputs)), ["turn_ended", "attempt_ended", "last_word"]);
        rig.settle(outputs);
        let end = rig.desk.job.attempts[0].end.clone().expect("it ended");
        assert_eq!((end.receipt.proof, rig.desk.outcome()), (proof, Some(Outcome::Lost)));
        assert!(rig.owner.is_gone());
    }
}

#[test]
fn c83_a_launch_that_failed_ends_the_claim_and_the_next_one_tries_again() {
    let mut rig = Rig::new(Desk::held(retried(2)));
    rig.tick();
    let outputs = rig.report(Report::LaunchFailed { attempt: FIRST, error: "no such program".to_owned() });
    assert_eq!(kinds(append(&outputs)), ["attempt_ended", "retry_scheduled"]);
    rig.settle(outputs);
    assert!(rig.owner.is_gone() && matches!(rig.desk.job.phase, Phase::Backoff { .. }));
    let mut next = Rig::new(rig.desk.later(1_000).claimed("b", 2));
    let outputs = next.step(Input::Tick);
    assert_eq!(kinds(append(&outputs)), ["launch_intended"]);
    let rest = next.settle(outputs);
    assert_eq!(effects(&rest), [Effect::Launch { attempt: AttemptNo(2) }]);
}

#[test]
fn a_cancel_during_a_launch_waits_for_its_report_and_then_stops() {
    let mut rig = Rig::new(Desk::launching(agent()));
    rig.tick();
    rig.cancelled();
    let outputs = rig.step(Input::News);
    assert_eq!(effects(&rig.settle(outputs)), Vec::new(), "the launch reports first");
    let outputs = rig.report(launched());
    let mut rest = rig.settle(outputs);
    // The tree may be looked for while the report of it is stored; the stop follows either way.
    if effects(&rest).contains(&Effect::Locate { attempt: FIRST }) {
        let found = Found::Alive { tree: tree(100), awake: rig.desk.now.awake };
        let outputs = rig.report(Report::Located { attempt: FIRST, found });
        rest.extend(rig.settle(outputs));
    }
    assert_eq!(stops(&rest), [Cause::User]);
    assert_eq!(effects(&rest).iter().filter(|effect| matches!(effect, Effect::Launch { .. })).count(), 0);
}

#[test]
fn a_log_that_breaks_a_rule_is_told_and_nothing_is_touched() {
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    let after = rig.desk.job.version;
    assert_eq!(rig.step(Input::News), [Output::Load { after }]);
    let fact = Fact::decode(crate::golden::example("submitted")).expect("it reads");
    let event = Event { seq: after.next(), at: rig.desk.now.wall, fact };
    let outputs = rig.step(Input::Loaded(vec![event]));
    assert!(matches!(outputs[..], [Output::Broken(Illegal::OutOfPlace { .. })]));
    assert!(rig.owner.is_gone() && rig.step(Input::Tick).is_empty());
}

#[test]
fn events_that_are_known_are_passed_over() {
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    rig.step(Input::News);
    let outputs = rig.step(Input::Loaded(rig.desk.log.clone()));
    assert_eq!((outputs, rig.owner.is_gone()), (Vec::new(), false));
    assert_eq!((rig.owner.job(), rig.owner.fence()), (&rig.desk.job, rig.desk.fence()));
}

#[test]
fn a_pulse_is_not_worth_a_fact() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    for signal in [Signal::Progress, Signal::ToolStarted, Signal::ToolEnded] {
        rig.later(60_000);
        assert_eq!(rig.says(signal), Vec::new());
        assert!(rig.owner.has_room());
    }
    assert_eq!(rig.owner.next_limit_check(), Some(rig.desk.now.awake.plus_ms(20 * 60_000)));
    let outputs = rig.says(becomes(SessionState::Running));
    assert_eq!(kinds(append(&outputs)), ["session_changed"]);
}

#[test]
fn ids_of_appends_are_never_the_same_twice() {
    let desk = Desk::in_turn(agent());
    let mut seen = std::collections::BTreeSet::new();
    for life in [2, 3] {
        let mut rig = Rig::new(desk.clone().claimed("a", life));
        rig.tick();
        for _ in 0..3 {
            let outputs = rig.says(Signal::ItemCompleted { title: "x".to_owned() });
            assert!(seen.insert(append(&outputs).id));
            rig.settle(outputs);
        }
    }
    let fence = desk.fence();
    assert_eq!(AppendId::of_owner(fence, 5), AppendId((1 << 64) | (1 << 32) | 5));
}

#[test]
fn news_during_a_flight_or_a_load_is_read_afterwards() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    assert_eq!(rig.step(Input::News), Vec::new());
    let answer = rig.store(append(&outputs));
    assert!(matches!(rig.step(answer)[..], [Output::Load { .. }]));
    // The answer to this load was read before the request that the next news is about.
    let early = rig.events_after(rig.desk.job.version);
    rig.cancelled();
    assert_eq!(rig.step(Input::News), Vec::new());
    let outputs = rig.step(Input::Loaded(early));
    assert!(matches!(outputs[..], [Output::Load { .. }]), "{outputs:?}");
    assert_eq!(stops(&rig.settle(outputs)), [Cause::User]);
}
