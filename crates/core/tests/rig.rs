//! A rig: one owner with the journal it writes to, which stores, conflicts and answers as a test wants.

use lastword_core::decide::cancel;
use lastword_core::effects::Effect;
use lastword_core::limits::Limits;
use lastword_core::outcome::Cause;
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::receipt::Receipt;
use lastword_core::report::{Report, Signal};
use lastword_core::spec::Spec;
use lastword_core::{Append, AppendId, AttemptNo, Event, Job, Seq};

use crate::common::{Desk, agent, boot, tree, wish};

pub(crate) const FIRST: AttemptNo = AttemptNo(1);

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
        let owner = Owner::new(job, desk.fence().clone(), host, boot(), desk.now);
        Rig { desk, owner, stored: Vec::new() }
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Output> {
        self.owner.step(input, self.desk.now)
    }

    pub(crate) fn report(&mut self, report: Report) -> Vec<Output> {
        self.step(Input::Report(report))
    }

    pub(crate) fn says(&mut self, signal: Signal) -> Vec<Output> {
        self.desk.offset += 10;
        let offset = self.desk.offset;
        self.report(Report::Heard { attempt: FIRST, offset, signal })
    }

    pub(crate) fn later(&mut self, ms: u64) {
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
        let mut rounds = 0;
        while let Some(output) = todo.pop_front() {
            // An owner that writes without end is broken; no test needs a tenth of this.
            rounds += 1;
            assert!(rounds < 1_000, "it never settles: {output:?}");
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

    pub(crate) fn tick(&mut self) -> Vec<Output> {
        let outputs = self.step(Input::Tick);
        self.settle(outputs)
    }

    /// A user's cancel goes into the log behind the owner's back.
    pub(crate) fn cancelled(&mut self) {
        let facts = cancel::decide(&self.desk.job, &wish(false), self.desk.now.wall);
        self.desk.anyone(facts);
    }
}

pub(crate) fn append(outputs: &[Output]) -> &Append {
    let mut appends = outputs.iter().filter_map(|output| match output {
        Output::Append(append) => Some(&**append),
        _ => None,
    });
    let append = appends.next().unwrap_or_else(|| panic!("{outputs:?}"));
    assert_eq!(appends.next(), None, "one append at a time");
    append
}

pub(crate) fn kinds(append: &Append) -> Vec<&str> {
    append.events.iter().map(|event| event.fact.kind()).collect()
}

pub(crate) fn effects(outputs: &[Output]) -> Vec<Effect> {
    let done = outputs.iter().filter_map(|output| match output {
        Output::Do(effect) => Some(effect.clone()),
        _ => None,
    });
    done.collect()
}

pub(crate) fn stops(outputs: &[Output]) -> Vec<Cause> {
    let causes = effects(outputs).into_iter().filter_map(|effect| match effect {
        Effect::Stop { cause, .. } => Some(cause),
        _ => None,
    });
    causes.collect()
}

pub(crate) fn launched() -> Report {
    Report::Launched { attempt: FIRST, tree: tree(100), awake: Desk::empty().now.awake }
}

pub(crate) fn emptied(receipt: Receipt) -> Report {
    Report::Emptied { attempt: FIRST, receipt: Box::new(receipt) }
}

pub(crate) fn limited(limits: Limits) -> Spec {
    Spec { limits, ..agent() }
}
