//! A job with its log, driven by decisions and reports through `Append::new`, as in production.

use std::sync::Arc;

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::decide::{Decision, answer, launch, observe, submit};
use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::limits::Limits;
use lastword_core::outcome::{Asked, Outcome};
use lastword_core::question::{Ask, Reply};
use lastword_core::receipt::{Exit, Level, Proof, Receipt, Tree};
use lastword_core::report::{Pulse, Report, Signal};
use lastword_core::spec::{Dependency, Dialect, Io, Needs, RetryPolicy, Spec, Terms, Work};
use lastword_core::{
    Append, AppendId, AttemptNo, Awake, Event, Fact, Fence, HostId, Incarnation, Job, JobId, Now, OwnerId,
    Timestamp,
};

/// Returns the `n`th id.
pub(crate) fn id(n: u8) -> JobId {
    JobId::new(0, Timestamp(1_000), [n; 10])
}

/// Returns a plain command.
pub(crate) fn command() -> Spec {
    Spec::command(["make", "test"], "/src")
}

/// Returns a command with an input pipe.
pub(crate) fn reader() -> Spec {
    Spec { io: Io::Pipe, ..command() }
}

/// Returns an agent.
pub(crate) fn agent() -> Spec {
    let (provider, prompt) = ("codex".to_owned(), "fix the build".to_owned());
    let terms = Box::new(Terms { dialect: Dialect::Codex, ..Terms::default() });
    Spec::of(Work::Agent { provider, prompt, terms }, "/src")
}

/// Returns an agent with up to `attempts_max` attempts.
pub(crate) fn retried(attempts_max: u32) -> Spec {
    Spec { retry: RetryPolicy { attempts_max, ..RetryPolicy::default() }, ..agent() }
}

/// Returns a command that depends on job 9.
pub(crate) fn dependent(on: Needs) -> Spec {
    Spec { after: vec![Dependency { job: id(9), on }], ..command() }
}

/// Returns the boot of all hosts here.
pub(crate) fn boot() -> Arc<str> {
    "b1".into()
}

/// Returns an incarnation of an owner as a claimant, on its own host.
pub(crate) fn claimant(name: &str, incarnation: u64) -> Claimant {
    Claimant {
        owner: OwnerId(name.into()),
        incarnation: Incarnation { instance: 7, number: incarnation },
        host: HostId(format!("host-{name}").into()),
        boot: None,
    }
}

/// Returns the tree with this leader.
pub(crate) fn tree(pid: i32) -> Tree {
    Tree { boot: "b1".to_owned(), pid, start_ticks: 77, level: Level::Subreaper, withheld: None }
}

/// Returns the receipt of a leader that exited with `code` without leftovers.
pub(crate) fn exited(code: i32) -> Receipt {
    Receipt { level: Level::Subreaper, exit: Some(Exit::Code(code)), ..Receipt::bare(Proof::NoChildren) }
}

/// Returns a user's request to stop.
pub(crate) fn request(force: bool) -> Cancel {
    Cancel { by: "ann".to_owned(), asked: Asked::User, force }
}

/// Returns the changes of a completed turn.
pub(crate) fn commit() -> Commit {
    Commit {
        messages: 2,
        transcript: 90,
        denials: vec!["rm".to_owned()],
        usage: Usage { tokens_in: 5, tokens_out: 6, money_micros: 7 },
        resume: Some("ref-1".to_owned()),
        mark: Some("mark-1".to_owned()),
    }
}

/// Returns the signal that a turn ended.
pub(crate) fn ends(ending: TurnEnding) -> Signal {
    Signal::TurnEnded { ending, error: None, commit: commit() }
}

/// Returns the signal that a session started.
pub(crate) fn session() -> Signal {
    Signal::SessionStarted { reference: Some("ref-0".to_owned()), resumed_from: None }
}

/// Returns the signal that a session changed its state.
pub(crate) fn becomes(state: SessionState) -> Signal {
    Signal::SessionChanged { state, background: 0 }
}

/// Returns the signal of a question.
pub(crate) fn question(id: &str) -> Signal {
    let ask = Box::new(Ask::permission("Bash", "make"));
    Signal::QuestionAsked { question: id.to_owned(), text: "may I?".to_owned(), ask, edits: Vec::new() }
}

/// Returns the name of the question that has this id.
pub(crate) fn name_of(job: &Job, id: &str) -> String {
    let questions = job.session.iter().flat_map(|session| &session.questions);
    questions.into_iter().find(|open| open.id == id).map_or_else(|| id.to_owned(), |open| open.name.clone())
}

/// Decides that the question of this id is allowed.
pub(crate) fn allow(job: &Job, id: &str) -> Decision {
    answer::decide(job, "ann", &name_of(job, id), &Reply::Allow)
}

/// Returns the kinds of facts.
pub(crate) fn kinds(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(Fact::kind).collect()
}

/// A job, its log, and the current claim.
#[derive(Clone, Debug)]
pub(crate) struct TestJob {
    pub(crate) job: Job,
    pub(crate) log: Vec<Event>,
    pub(crate) fence: Option<Fence>,
    pub(crate) pulse: Pulse,
    pub(crate) now: Now,
    pub(crate) offset: u64,
    pub(crate) appends: u32,
}

impl TestJob {
    /// Returns a job that was not submitted.
    pub(crate) fn empty() -> TestJob {
        TestJob {
            job: Job::unborn(id(1)),
            log: Vec::new(),
            fence: None,
            pulse: Pulse::default(),
            now: Now { wall: Timestamp(10_000), awake: Awake(500) },
            offset: 0,
            appends: 0,
        }
    }

    /// Returns a submitted job.
    pub(crate) fn queued(spec: Spec) -> TestJob {
        let mut test = TestJob::empty();
        let facts = submit::decide(&test.job, &Arc::new(spec), "ann", Limits::default());
        test.anyone(facts);
        test
    }

    /// Returns a job that owner `a` holds.
    pub(crate) fn held(spec: Spec) -> TestJob {
        TestJob::queued(spec).claimed("a", 1)
    }

    /// Returns a job whose first attempt is intended.
    pub(crate) fn launching(spec: Spec) -> TestJob {
        TestJob::held(spec).intended()
    }

    /// Returns a running job.
    pub(crate) fn running(spec: Spec) -> TestJob {
        TestJob::launching(spec).launched(100)
    }

    /// Returns an agent in its first turn.
    pub(crate) fn in_turn(spec: Spec) -> TestJob {
        TestJob::running(spec).says(session()).says(Signal::TurnStarted)
    }

    /// Returns a running job that was asked to stop.
    pub(crate) fn stopping(spec: Spec) -> TestJob {
        TestJob::running(spec).cancelled()
    }

    /// Returns a job that waits for its second attempt.
    pub(crate) fn backoff() -> TestJob {
        let test = TestJob::running(retried(2))
            .reports(Report::Emptied { attempt: AttemptNo(1), receipt: Box::new(exited(1)) });
        test.later(1_000)
    }

    /// Returns a job whose command exited with `code`.
    pub(crate) fn ended(code: i32) -> TestJob {
        TestJob::running(command()).emptied(exited(code))
    }

    /// Advances both clocks.
    pub(crate) fn later(mut self, ms: u64) -> TestJob {
        self.now.wall = self.now.wall.plus_ms(ms);
        self.now.awake = self.now.awake.plus_ms(ms);
        self
    }

    /// Stores a decision that anyone may make.
    pub(crate) fn anyone(&mut self, decision: Decision) {
        let facts = decision.expect("it is not refused");
        self.store(None, facts);
    }

    /// Stores what the holder decided.
    pub(crate) fn owner(&mut self, facts: Vec<Fact>) {
        let fence = self.fence.clone();
        self.store(fence, facts);
    }

    fn store(&mut self, fence: Option<Fence>, facts: Vec<Fact>) {
        if facts.is_empty() {
            return;
        }
        self.appends += 1;
        let id = AppendId(u128::from(self.appends));
        let (append, after) =
            Append::new(&self.job, fence.as_ref(), id, self.now.wall, facts).expect("it follows");
        self.log.extend(append.events);
        self.job = after;
    }

    /// Claims the job as the journal does, waiting or with an expired lease.
    pub(crate) fn claimed(mut self, name: &str, incarnation: u64) -> TestJob {
        let claimant = claimant(name, incarnation);
        let facts = claim::decide(&self.job, &claimant, Lease::Over, self.now.wall);
        self.anyone(facts);
        let epoch = self.job.epoch;
        self.fence = Some(Fence { owner: claimant.owner, incarnation: claimant.incarnation, epoch });
        self
    }

    /// Stores the intent of the next attempt.
    pub(crate) fn intended(mut self) -> TestJob {
        let facts = launch::decide(&self.job, self.fence(), &boot()).expect("it is held");
        self.owner(facts);
        self
    }

    /// Reports that the tree of the open attempt was started.
    pub(crate) fn launched(self, pid: i32) -> TestJob {
        let (attempt, awake) = (self.attempt(), self.now.awake);
        self.reports(Report::Launched { attempt, tree: tree(pid), awake })
    }

    /// Reports that the tree of the open attempt is empty.
    pub(crate) fn emptied(self, receipt: Receipt) -> TestJob {
        let attempt = self.attempt();
        self.reports(Report::Emptied { attempt, receipt: Box::new(receipt) })
    }

    /// Stores a user's cancel.
    pub(crate) fn cancelled(mut self) -> TestJob {
        let facts = cancel::decide(&self.job, &request(false), self.now.wall);
        self.anyone(facts);
        self
    }

    /// Handles a new signal of the agent.
    pub(crate) fn says(mut self, signal: Signal) -> TestJob {
        self.offset += 10;
        self.pulse.record(&signal, self.now.awake);
        let (attempt, offset) = (self.attempt(), self.offset);
        self.reports(Report::Heard { attempt, offset, signal })
    }

    /// Stores what follows from a report.
    pub(crate) fn reports(mut self, report: Report) -> TestJob {
        let facts = self.observe(&report);
        self.owner(facts);
        self
    }

    /// Returns what would follow from a report.
    pub(crate) fn observe(&self, report: &Report) -> Vec<Fact> {
        observe::decide(&self.job, self.fence(), report, &self.pulse, self.now)
    }

    /// Returns the fence of the current claim.
    pub(crate) fn fence(&self) -> &Fence {
        self.fence.as_ref().expect("it was claimed")
    }

    /// Returns the newest attempt.
    pub(crate) fn attempt(&self) -> AttemptNo {
        AttemptNo(self.job.attempts.len() as u32)
    }

    /// Returns the outcome in the last word.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.job.last_word().map(|word| word.outcome)
    }

    /// Returns the kinds in the log, in order.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.log.iter().map(|event| event.fact.kind()).collect()
    }

    /// Counts the facts of a kind in the log.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.log.iter().filter(|event| event.fact.kind() == kind).count()
    }
}
