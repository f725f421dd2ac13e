//! The owner's step: what the holder of a job does between two IOs, and what it does when the journal is away.

use lastword_core::decide::{answer, cancel, limit, send};
use lastword_core::effects::Effect;
use lastword_core::event::{SessionState, TurnEnding, Usage};
use lastword_core::job::Phase;
use lastword_core::limits::{Limit, Limits};
use lastword_core::outcome::{Begun, Cause, Outcome};
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::receipt::{Proof, Receipt, Rung};
use lastword_core::report::{Found, Report, Signal};
use lastword_core::spec::{OnPartition, Spec};
use lastword_core::{Append, AppendId, AttemptNo, Awake, Event, Fact, Illegal, InputNo, Job, Seq, Timestamp};

use crate::common::{Desk, agent, becomes, command, ends, exited, question, retried, session, tree, wish};

const FIRST: AttemptNo = AttemptNo(1);

/// An owner with the journal it writes to: the desk's log is the durable one.
pub(crate) struct Rig {
    pub(crate) desk: Desk,
    pub(crate) owner: Owner,
    stored: Vec<AppendId>,
}

impl Rig {
    /// Returns a new owner of the desk's job, as after a claim or a restart.
    pub(crate) fn new(desk: Desk) -> Rig {
        let host = desk.job.holder.as_ref().expect("it is held").host.clone();
        let job = Job::fold(desk.job.id, &desk.log).expect("it replays");
        let owner = Owner::new(job, desk.fence().clone(), host, desk.now);
        Rig { desk, owner, stored: Vec::new() }
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Output> {
        self.owner.step(input, self.desk.now)
    }

    fn report(&mut self, report: Report) -> Vec<Output> {
        self.step(Input::Report(report))
    }

    fn says(&mut self, signal: Signal) -> Vec<Output> {
        self.desk.offset += 10;
        let offset = self.desk.offset;
        self.report(Report::Heard { attempt: FIRST, offset, signal })
    }

    fn later(&mut self, ms: u64) {
        self.desk = self.desk.clone().later(ms);
    }

    /// Takes an append into the log, as a journal does.
    pub(crate) fn store(&mut self, append: &Append) -> Input {
        // A repeat, after an answer that got lost.
        if self.stored.contains(&append.id) {
            return Input::Stored;
        }
        if append.expected != self.desk.job.version {
            return Input::Conflict;
        }
        let holder = self.desk.job.holder.as_ref().map(|holder| &holder.fence);
        if append.fence.as_ref() != holder {
            return Input::Fenced;
        }
        self.stored.push(append.id);
        for event in &append.events {
            self.desk.job.apply(event).expect("it follows");
            self.desk.log.push(event.clone());
        }
        Input::Stored
    }

    /// Answers for the journal until the owner wants nothing more of it; returns everything else, in order.
    pub(crate) fn settle(&mut self, outputs: Vec<Output>) -> Vec<Output> {
        let mut rest = Vec::new();
        let mut todo: std::collections::VecDeque<Output> = outputs.into();
        while let Some(output) = todo.pop_front() {
            let answer = match &output {
                Output::Append(append) => self.store(append),
                Output::Load { after } => Input::Loaded(self.events_after(*after)),
                Output::Do(_) | Output::LetGo { .. } | Output::Broken(_) => {
                    rest.push(output);
                    continue;
                }
            };
            todo.extend(self.step(answer));
        }
        rest
    }

    pub(crate) fn events_after(&self, after: Seq) -> Vec<Event> {
        self.desk.log.iter().filter(|event| event.seq > after).cloned().collect()
    }

    fn tick(&mut self) -> Vec<Output> {
        let outputs = self.step(Input::Tick);
        self.settle(outputs)
    }

    /// A user's cancel goes into the log behind the owner's back.
    fn cancelled(&mut self) {
        let facts = cancel::decide(&self.desk.job, &wish(false), self.desk.now.wall);
        self.desk.anyone(facts);
    }
}

fn append(outputs: &[Output]) -> &Append {
    let mut appends = outputs.iter().filter_map(|output| match output {
        Output::Append(append) => Some(&**append),
        _ => None,
    });
    let append = appends.next().unwrap_or_else(|| panic!("{outputs:?}"));
    assert_eq!(appends.next(), None, "one append at a time");
    append
}

fn kinds(append: &Append) -> Vec<&str> {
    append.events.iter().map(|event| event.fact.kind()).collect()
}

fn effects(outputs: &[Output]) -> Vec<Effect> {
    let done = outputs.iter().filter_map(|output| match output {
        Output::Do(effect) => Some(effect.clone()),
        _ => None,
    });
    done.collect()
}

fn stops(outputs: &[Output]) -> Vec<Cause> {
    let causes = effects(outputs).into_iter().filter_map(|effect| match effect {
        Effect::Stop { cause, .. } => Some(cause),
        _ => None,
    });
    causes.collect()
}

fn launched() -> Report {
    Report::Launched { attempt: FIRST, tree: tree(100), awake: Desk::empty().now.awake }
}

fn emptied(receipt: Receipt) -> Report {
    Report::Emptied { attempt: FIRST, receipt: Box::new(receipt) }
}

fn limited(limits: Limits) -> Spec {
    Spec { limits, ..agent() }
}

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
    let facts = send::decide(&desk.job, "ann", "and the docs");
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
    let facts = send::decide(&rig.desk.job, "ann", "hi");
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
fn an_append_without_an_answer_is_sent_again_as_it_was() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    let first = append(&outputs).clone();
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new());
        assert_eq!(rig.says(Signal::ItemCompleted { title: "more".to_owned() }), Vec::new());
        rig.later(10);
        let outputs = rig.step(Input::Tick);
        assert_eq!(append(&outputs), &first);
        assert_eq!(rig.step(Input::Tick), Vec::new(), "once per answer");
    }
    let answer = rig.store(&first);
    let outputs = rig.step(answer);
    assert_eq!(kinds(append(&outputs)), ["item_completed"; 3]);
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
fn c42_a_last_word_that_could_not_be_written_releases_nothing() {
    let mut rig = Rig::new(Desk::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let word = append(&outputs).clone();
    assert_eq!(kinds(&word), ["attempt_ended", "last_word"]);
    for _ in 0..5 {
        let outputs = rig.step(Input::Unavailable);
        assert_eq!((outputs, rig.owner.is_gone()), (Vec::new(), false));
        assert!(rig.owner.job().holder.is_some() && !rig.owner.job().is_ended());
        assert_eq!(append(&rig.step(Input::Tick)), &word);
    }
    let answer = rig.store(&word);
    assert_eq!(rig.step(answer), [Output::LetGo { late: Vec::new() }]);
    assert!(rig.owner.is_gone() && rig.owner.job().is_ended());
}

#[test]
fn c49_a_limit_binds_while_the_agent_hangs() {
    let limits = Limits { wall_ms: Some(1_000), stall_ms: Some(400), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    assert_eq!(rig.owner.next_look(), Some(rig.desk.now.awake.plus_ms(400)));
    rig.later(399);
    assert_eq!(rig.tick(), Vec::new());
    rig.later(1);
    let outputs = rig.step(Input::Tick);
    assert_eq!(kinds(append(&outputs)), ["limit_fired", "stop_began"]);
    assert_eq!(stops(&outputs), [], "remembered first");
    let rest = rig.settle(outputs);
    assert_eq!(stops(&rest), [Cause::Limit(Limit::Stall)]);
    assert_eq!((rig.desk.count("limit_fired"), rig.owner.next_look()), (1, None));
    let Some(Fact::LimitFired(fired)) =
        rig.desk.log.iter().map(|event| &event.fact).find(|fact| fact.kind() == "limit_fired")
    else {
        panic!("it fired")
    };
    assert_eq!((fired.attempt, fired.measured, fired.allowed), (FIRST, 400, 400));
}

#[test]
fn c68_a_deadline_signals_the_work_before_any_ending_is_in_the_log() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    let rest = rig.tick();
    assert_eq!(stops(&rest), [Cause::Limit(Limit::Wall)]);
    assert_eq!((rig.desk.count("turn_ended"), rig.desk.count("last_word")), (0, 0));
    assert_eq!(rig.desk.job.active_turn(), Some(lastword_core::TurnNo(1)));
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
}

#[test]
fn c40_c50_a_limit_that_fires_with_the_journal_away_stops_the_tree() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    let outputs = rig.step(Input::Tick);
    let fired = append(&outputs).clone();
    let outputs = rig.step(Input::Unavailable);
    assert_eq!(stops(&outputs), [Cause::Limit(Limit::Wall)]);
    // The tree ends before the journal is back: the decision is still the one that was made.
    assert_eq!(rig.report(emptied(exited(143))), Vec::new());
    let again = rig.step(Input::Tick);
    assert_eq!(append(&again), &fired);
    rig.settle(again);
    assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
    assert_eq!(rig.desk.count("limit_fired"), 1);
}

#[test]
fn c50_nothing_new_starts_with_the_journal_away() {
    let mut rig = Rig::new(Desk::held(agent()));
    let outputs = rig.step(Input::Tick);
    let intent = append(&outputs).clone();
    for _ in 0..3 {
        assert_eq!(rig.step(Input::Unavailable), Vec::new());
        let outputs = rig.step(Input::Tick);
        assert_eq!((append(&outputs), effects(&outputs)), (&intent, Vec::new()));
    }
}

#[test]
fn c40_a_failed_read_does_not_keep_a_local_stop_from_happening() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    assert!(matches!(rig.step(Input::News)[..], [Output::Load { .. }]));
    rig.later(1_000);
    let outputs = rig.step(Input::Unavailable);
    assert_eq!(kinds(append(&outputs)), ["limit_fired", "stop_began"]);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Wall)]);
}

#[test]
fn c46_c47_a_limit_that_fired_still_stops_after_a_restart_and_after_it_was_raised() {
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    for raised in [None, Some(1_000_000), Some(0)] {
        let mut rig = Rig::new(Desk::in_turn(limited(limits)));
        rig.tick();
        rig.later(1_000);
        let outputs = rig.step(Input::Tick);
        let answer = rig.store(append(&outputs));
        assert_eq!(answer, Input::Stored);
        // The owner dies before it has done anything, and the limit is changed.
        let mut desk = rig.desk.clone();
        if let Some(value) = raised {
            let facts = limit::decide(&desk.job, "ann", Limit::Wall, value);
            desk.anyone(facts);
        }
        let mut rig = Rig::new(desk.later(60_000).claimed("a", 2));
        rig.tick();
        let found = Found::Alive { tree: tree(100), awake: Desk::empty().now.awake };
        let outputs = rig.report(Report::Located { attempt: FIRST, found });
        assert_eq!(stops(&rig.settle(outputs)), [Cause::Limit(Limit::Wall)]);
        let outputs = rig.report(emptied(exited(0)));
        rig.settle(outputs);
        assert_eq!(rig.desk.count("limit_fired"), 1);
        let fired = rig.desk.log.iter().find_map(|event| match &event.fact {
            Fact::LimitFired(fired) => Some((event.at, fired.measured, fired.allowed)),
            _ => None,
        });
        assert_eq!(fired, Some((Timestamp(11_000), 1_000, 1_000)), "the decision is the one stored");
        assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Wall)));
    }
}

#[test]
fn c53_a_limit_can_be_changed_while_the_job_runs() {
    let mut rig = Rig::new(Desk::running(agent()));
    rig.tick();
    let start = Desk::empty().now.awake;
    let check = |rig: &mut Rig, value: u64, at: Option<Awake>| {
        let facts = limit::decide(&rig.desk.job, "ann", Limit::Wall, value);
        rig.desk.anyone(facts);
        let outputs = rig.step(Input::News);
        assert_eq!(effects(&rig.settle(outputs)), [Effect::Deadline { attempt: FIRST, at }]);
        assert_eq!(rig.desk.job.limits.get(Limit::Wall), Some(value).filter(|value| *value > 0));
    };
    check(&mut rig, 60_000, Some(start.plus_ms(60_000)));
    assert_eq!(rig.owner.next_look(), Some(start.plus_ms(60_000)));
    check(&mut rig, 0, None);
    check(&mut rig, 90_000, Some(start.plus_ms(90_000)));
    rig.later(70_000);
    assert_eq!(rig.tick(), Vec::new(), "the shorter one is gone");
    rig.later(20_000);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Wall)]);
}

#[test]
fn c54_a_fast_job_is_not_disturbed_and_no_look_is_due_after_its_end() {
    let mut rig = Rig::new(Desk::held(agent()));
    rig.tick();
    let outputs = rig.report(launched());
    rig.settle(outputs);
    for signal in [session(), Signal::TurnStarted, ends(TurnEnding::Completed)] {
        let outputs = rig.says(signal);
        rig.settle(outputs);
    }
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!((rig.desk.outcome(), rig.desk.count("limit_fired")), (Some(Outcome::Completed), 0));
    assert_eq!(rig.owner.next_look(), None);
    // A limit that is reached in the very moment of the end does not undo it.
    let limits = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::running(Spec { limits, ..command() }));
    rig.tick();
    rig.later(1_000);
    let outputs = rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert_eq!(rig.desk.outcome(), Some(Outcome::Completed));
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
    assert_eq!(rig.owner.next_look(), Some(rig.desk.now.awake.plus_ms(20 * 60_000)));
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

/// Reports that add nothing must not keep the one behind them waiting for an input that never comes.
#[test]
fn reports_that_add_nothing_do_not_hold_up_the_last_word() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
    // The recording is read again from its start while the append is in flight, and then the tree ends.
    for _ in 0..200 {
        let signal = Signal::ItemCompleted { title: "heard before".to_owned() };
        rig.report(Report::Heard { attempt: FIRST, offset: 1, signal });
    }
    rig.report(emptied(exited(0)));
    rig.settle(outputs);
    assert!(rig.desk.job.is_ended(), "{:?}", rig.desk.kinds());
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

/// A person may take an hour to answer: the stall clock rested meanwhile and starts anew with the answer.
#[test]
fn c52_an_answer_after_a_long_wait_is_not_a_stall() {
    let limits = Limits { stall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    let outputs = rig.says(question("q1"));
    rig.settle(outputs);
    rig.later(50_000);
    assert_eq!((rig.tick(), rig.desk.count("limit_fired")), (Vec::new(), 0));
    rig.later(50_000);
    let facts = answer::decide(&rig.desk.job, "ann", "q1", "yes");
    rig.desk.anyone(facts);
    let outputs = rig.step(Input::News);
    let rest = rig.settle(outputs);
    assert_eq!(
        (effects(&rest), rig.desk.count("limit_fired")),
        (vec![Effect::Tell { attempt: FIRST, input: InputNo(1) }], 0)
    );
    assert_eq!(rig.owner.next_look(), Some(rig.desk.now.awake.plus_ms(1_000)));
    rig.later(999);
    assert_eq!((rig.tick(), rig.desk.count("limit_fired")), (Vec::new(), 0));
    rig.later(1);
    assert_eq!(stops(&rig.tick()), [Cause::Limit(Limit::Stall)]);
}

/// The journal went away with something else in flight; limits reached afterwards bind all the same.
#[test]
fn c50_a_limit_reached_while_an_older_append_has_no_answer_stops_the_tree() {
    let wall = Limits { wall_ms: Some(1_000), ..Limits::default() };
    let tokens = Limits { tokens: Some(10), wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    let turns = Limits { turns: Some(1), wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    let spent = Signal::Spent(Usage { tokens_in: 11, ..Usage::default() });
    for (limits, signal, limit) in [
        (wall, Signal::Progress, Limit::Wall),
        (tokens, spent, Limit::Tokens),
        (turns, Signal::TurnStarted, Limit::Turns),
    ] {
        let mut rig = Rig::new(Desk::in_turn(limited(limits)));
        rig.tick();
        let outputs = rig.says(Signal::ItemCompleted { title: "one".to_owned() });
        let older = append(&outputs).clone();
        assert_eq!(stops(&rig.step(Input::Unavailable)), []);
        rig.later(1_000);
        rig.says(signal);
        let again = rig.step(Input::Tick);
        assert_eq!(append(&again), &older);
        let outputs = rig.step(Input::Unavailable);
        assert_eq!(stops(&outputs), [Cause::Limit(limit)]);
        // The tree ends; the journal comes back; the record says what was decided, and when.
        rig.later(5_000);
        rig.report(emptied(exited(143)));
        let again = rig.step(Input::Tick);
        rig.settle(again);
        assert_eq!(rig.desk.count("limit_fired"), 1, "{:?}", rig.desk.kinds());
        assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(limit)));
    }
}

/// What was decided and acted on is not decided anew when somebody else wrote in between.
#[test]
fn c46_a_limit_acted_on_without_the_journal_stands_after_a_conflict() {
    let limits = Limits { stall_ms: Some(1_000), ..Limits::default() };
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    rig.step(Input::Tick);
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Limit(Limit::Stall)]);
    // The agent stirs as it is being stopped, and a limit is raised behind the owner's back.
    rig.says(Signal::Progress);
    let facts = limit::decide(&rig.desk.job, "ann", Limit::Stall, 9_000);
    rig.desk.anyone(facts);
    rig.report(emptied(exited(143)));
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!(rig.desk.job.last_word().map(|word| word.cause), Some(Cause::Limit(Limit::Stall)));
    // But a wish that was in the log first is the reason.
    let mut rig = Rig::new(Desk::in_turn(limited(limits)));
    rig.tick();
    rig.later(1_000);
    rig.step(Input::Tick);
    rig.step(Input::Unavailable);
    rig.cancelled();
    let again = rig.step(Input::Tick);
    rig.settle(again);
    assert_eq!(rig.desk.job.stop.map(|stop| stop.cause), Some(Cause::User));
    assert_eq!(rig.desk.count("limit_fired"), 0);
}

#[test]
fn c50_only_a_stop_is_done_ahead_of_the_journal() {
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    let outputs = rig.says(ends(TurnEnding::Completed));
    assert_eq!(kinds(append(&outputs)), ["turn_ended"]);
    // The agent could be closed once this is stored, and not before.
    assert_eq!(rig.step(Input::Unavailable), Vec::new());
    let again = rig.step(Input::Tick);
    assert_eq!(effects(&rig.settle(again)), [Effect::Close { attempt: FIRST }]);
    // A turn that failed stops the tree, and that does not wait.
    let mut rig = Rig::new(Desk::in_turn(agent()));
    rig.tick();
    rig.says(ends(TurnEnding::Failed));
    assert_eq!(stops(&rig.step(Input::Unavailable)), [Cause::Agent]);
}

#[test]
fn c27_an_append_that_was_stored_unheard_is_resolved_by_its_repeat() {
    let mut rig = Rig::new(Desk::running(command()));
    rig.tick();
    let outputs = rig.report(emptied(exited(0)));
    let word = append(&outputs).clone();
    assert_eq!(rig.store(&word), Input::Stored);
    assert_eq!(rig.step(Input::Unavailable), Vec::new(), "the answer got lost");
    let again = rig.step(Input::Tick);
    assert_eq!(append(&again), &word);
    assert_eq!(rig.settle(again), [Output::LetGo { late: Vec::new() }]);
    assert_eq!((rig.desk.count("last_word"), rig.desk.outcome()), (1, Some(Outcome::Completed)));
}
