//! A rig: an owner with a journal that stores, conflicts and replies as a test wants.

use lastword_core::decide::cancel;
use lastword_core::effects::Effect;
use lastword_core::limits::Limits;
use lastword_core::outcome::Cause;
use lastword_core::owner::{Input, Output, Owner};
use lastword_core::receipt::Receipt;
use lastword_core::report::{Report, Signal};
use lastword_core::spec::Spec;
use lastword_core::{Append, AppendId, AttemptNo, Event, Job, Seq};

use crate::common::{TestJob, agent, boot, request, tree};

pub(crate) const FIRST: AttemptNo = AttemptNo(1);

/// An owner with its journal: the log of `test` is the stored one.
pub(crate) struct Rig {
    pub(crate) test: TestJob,
    pub(crate) owner: Owner,
    stored: Vec<AppendId>,
}

impl Rig {
    /// Returns a new owner of the job, as after a claim or a restart.
    pub(crate) fn new(test: TestJob) -> Rig {
        let host = test.job.holder.as_ref().expect("it is held").host.clone();
        let job = Job::fold(test.job.id, &test.log).expect("it replays");
        let owner = Owner::new(job, test.fence().clone(), host, boot(), test.now);
        Rig { test, owner, stored: Vec::new() }
    }

    pub(crate) fn step(&mut self, input: Input) -> Vec<Output> {
        self.owner.step(input, self.test.now)
    }

    pub(crate) fn report(&mut self, report: Report) -> Vec<Output> {
        self.step(Input::Report(report))
    }

    pub(crate) fn says(&mut self, signal: Signal) -> Vec<Output> {
        self.test.offset += 10;
        let offset = self.test.offset;
        self.report(Report::Heard { attempt: FIRST, offset, signal })
    }

    pub(crate) fn later(&mut self, ms: u64) {
        self.test = self.test.clone().later(ms);
    }

    /// Stores an append as a journal does.
    pub(crate) fn store(&mut self, append: &Append) -> Input {
        // A repeat, after a lost reply.
        if self.stored.contains(&append.id) {
            return Input::Stored;
        }
        if append.expected != self.test.job.version {
            return Input::Conflict;
        }
        let holder = self.test.job.holder.as_ref().map(|holder| &holder.fence);
        if append.fence.as_ref() != holder {
            return Input::Fenced;
        }
        self.stored.push(append.id);
        for event in &append.events {
            self.test.job.apply(event).expect("it follows");
            self.test.log.push(event.clone());
        }
        Input::Stored
    }

    /// Replies for the journal until the owner needs no more of it. Returns all other outputs, in order.
    pub(crate) fn settle(&mut self, outputs: Vec<Output>) -> Vec<Output> {
        let mut rest = Vec::new();
        let mut todo: std::collections::VecDeque<Output> = outputs.into();
        let mut rounds = 0;
        while let Some(output) = todo.pop_front() {
            // No test needs a tenth of this.
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
        self.test.log.iter().filter(|event| event.seq > after).cloned().collect()
    }

    pub(crate) fn tick(&mut self) -> Vec<Output> {
        let outputs = self.step(Input::Tick);
        self.settle(outputs)
    }

    /// Stores a user's cancel without telling the owner.
    pub(crate) fn cancelled(&mut self) {
        let facts = cancel::decide(&self.test.job, &request(false), self.test.now.wall);
        self.test.anyone(facts);
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
    Report::Launched { attempt: FIRST, tree: tree(100), awake: TestJob::empty().now.awake }
}

pub(crate) fn emptied(receipt: Receipt) -> Report {
    Report::Emptied { attempt: FIRST, receipt: Box::new(receipt) }
}

pub(crate) fn limited(limits: Limits) -> Spec {
    Spec { limits, ..agent() }
}
