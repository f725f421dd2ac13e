//! A desk: one job with its log, moved on by decisions and reports as in production, through `Append::new`.

use std::sync::Arc;

use lastword_core::decide::cancel::{self, Cancel};
use lastword_core::decide::claim::{self, Claimant, Lease};
use lastword_core::decide::{Decision, launch, observe, submit};
use lastword_core::event::{Commit, SessionState, TurnEnding, Usage};
use lastword_core::limits::Limits;
use lastword_core::outcome::{Asked, Outcome};
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

/// Returns a command that reads what is sent to it.
pub(crate) fn reader() -> Spec {
    Spec { io: Io::Pipe, ..command() }
}

/// Returns an agent.
pub(crate) fn agent() -> Spec {
    let (provider, prompt) = ("codex".to_owned(), "fix the build".to_owned());
    let terms = Box::new(Terms { dialect: Dialect::Codex, ..Terms::default() });
    Spec::of(Work::Agent { provider, prompt, terms }, "/src")
}

/// Returns an agent that is tried up to `attempts_max` times.
pub(crate) fn retried(attempts_max: u32) -> Spec {
    Spec { retry: RetryPolicy { attempts_max, ..RetryPolicy::default() }, ..agent() }
}

/// Returns a command that waits for job 9.
pub(crate) fn dependent(on: Needs) -> Spec {
    Spec { after: vec![Dependency { job: id(9), on }], ..command() }
}

/// Returns the boot in which everything here runs.
pub(crate) fn boot() -> Arc<str> {
    "b1".into()
}

/// Returns the claimant of one life of an owner, on its own host.
pub(crate) fn claimant(name: &str, life: u64) -> Claimant {
    Claimant {
        owner: OwnerId(name.into()),
        incarnation: Incarnation { instance: 7, number: life },
        host: HostId(format!("host-{name}").into()),
        boot: None,
    }
}

/// Returns the tree with this leader.
pub(crate) fn tree(pid: i32) -> Tree {
    Tree { boot: "b1".to_owned(), pid, start_ticks: 77, level: Level::Subreaper, withheld: None }
}

/// Returns the receipt of a leader that exited with `code` and left nothing.
pub(crate) fn exited(code: i32) -> Receipt {
    Receipt { level: Level::Subreaper, exit: Some(Exit::Code(code)), ..Receipt::bare(Proof::NoChildren) }
}

/// Returns a user's wish.
pub(crate) fn wish(force: bool) -> Cancel {
    Cancel { by: "ann".to_owned(), asked: Asked::User, force }
}

/// Returns what a completed turn changed.
pub(crate) fn commit() -> Commit {
    Commit {
        messages: 2,
        transcript: 90,
        denials: vec!["rm".to_owned()],
        usage: Usage { tokens_in: 5, tokens_out: 6, money_micros: 7 },
        resume: Some("ref-1".to_owned()),
    }
}

/// Returns a turn that ended, by the agent's own account.
pub(crate) fn ends(ending: TurnEnding) -> Signal {
    Signal::TurnEnded { ending, error: None, commit: commit() }
}

/// Returns the session's start, as an agent says it.
pub(crate) fn session() -> Signal {
    Signal::SessionStarted { reference: Some("ref-0".to_owned()), resumed_from: None }
}

/// Returns a session's change of state, as an agent says it.
pub(crate) fn becomes(state: SessionState) -> Signal {
    Signal::SessionChanged { state, background: 0 }
}

/// Returns a question, as an agent asks it.
pub(crate) fn question(id: &str) -> Signal {
    Signal::QuestionAsked { question: id.to_owned(), text: "may I?".to_owned() }
}

/// Returns the names of facts, for tables.
pub(crate) fn kinds(facts: &[Fact]) -> Vec<&str> {
    facts.iter().map(Fact::kind).collect()
}

/// One job, its log, and the claim under which it is worked on.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(crate) job: Job,
    pub(crate) log: Vec<Event>,
    pub(crate) fence: Option<Fence>,
    pub(crate) pulse: Pulse,
    pub(crate) now: Now,
    pub(crate) offset: u64,
    pub(crate) appends: u32,
}

impl Desk {
    /// Returns the desk of a job nobody asked for yet.
    pub(crate) fn empty() -> Desk {
        Desk {
            job: Job::unborn(id(1)),
            log: Vec::new(),
            fence: None,
            pulse: Pulse::default(),
            now: Now { wall: Timestamp(10_000), awake: Awake(500) },
            offset: 0,
            appends: 0,
        }
    }

    /// Returns a job that was asked for.
    pub(crate) fn queued(spec: Spec) -> Desk {
        let mut desk = Desk::empty();
        let facts = submit::decide(&desk.job, &Arc::new(spec), "ann", Limits::default());
        desk.anyone(facts);
        desk
    }

    /// Returns a job that owner `a` holds.
    pub(crate) fn held(spec: Spec) -> Desk {
        Desk::queued(spec).claimed("a", 1)
    }

    /// Returns a job whose first attempt is intended.
    pub(crate) fn launching(spec: Spec) -> Desk {
        Desk::held(spec).intended()
    }

    /// Returns a job that runs.
    pub(crate) fn running(spec: Spec) -> Desk {
        Desk::launching(spec).launched(100)
    }

    /// Returns an agent in its first turn.
    pub(crate) fn in_turn(spec: Spec) -> Desk {
        Desk::running(spec).says(session()).says(Signal::TurnStarted)
    }

    /// Returns a job that runs and was asked to stop.
    pub(crate) fn stopping(spec: Spec) -> Desk {
        Desk::running(spec).cancelled()
    }

    /// Returns a job whose first attempt failed and that waits for the second.
    pub(crate) fn backoff() -> Desk {
        let desk = Desk::running(retried(2))
            .reports(Report::Emptied { attempt: AttemptNo(1), receipt: Box::new(exited(1)) });
        desk.later(1_000)
    }

    /// Returns a job that ended by itself.
    pub(crate) fn ended(code: i32) -> Desk {
        Desk::running(command()).emptied(exited(code))
    }

    /// Lets time pass.
    pub(crate) fn later(mut self, ms: u64) -> Desk {
        self.now.wall = self.now.wall.plus_ms(ms);
        self.now.awake = self.now.awake.plus_ms(ms);
        self
    }

    /// Stores a decision anyone may make.
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

    /// Claims the job as the journal does, whether it waits or its holder is gone.
    pub(crate) fn claimed(mut self, name: &str, life: u64) -> Desk {
        let claimant = claimant(name, life);
        let facts = claim::decide(&self.job, &claimant, Lease::Over, self.now.wall);
        self.anyone(facts);
        let epoch = self.job.epoch;
        self.fence = Some(Fence { owner: claimant.owner, incarnation: claimant.incarnation, epoch });
        self
    }

    /// Stores the intent of the next attempt.
    pub(crate) fn intended(mut self) -> Desk {
        let facts = launch::decide(&self.job, self.fence(), &boot()).expect("it is held");
        self.owner(facts);
        self
    }

    /// Reports the tree of the open attempt.
    pub(crate) fn launched(self, pid: i32) -> Desk {
        let (attempt, awake) = (self.attempt(), self.now.awake);
        self.reports(Report::Launched { attempt, tree: tree(pid), awake })
    }

    /// Reports the open attempt's tree empty.
    pub(crate) fn emptied(self, receipt: Receipt) -> Desk {
        let attempt = self.attempt();
        self.reports(Report::Emptied { attempt, receipt: Box::new(receipt) })
    }

    /// Takes a user's cancel.
    pub(crate) fn cancelled(mut self) -> Desk {
        let facts = cancel::decide(&self.job, &wish(false), self.now.wall);
        self.anyone(facts);
        self
    }

    /// Lets the agent say something new.
    pub(crate) fn says(mut self, signal: Signal) -> Desk {
        self.offset += 10;
        self.pulse.record(&signal, self.now.awake);
        let (attempt, offset) = (self.attempt(), self.offset);
        self.reports(Report::Heard { attempt, offset, signal })
    }

    /// Takes a report.
    pub(crate) fn reports(mut self, report: Report) -> Desk {
        let facts = self.observe(&report);
        self.owner(facts);
        self
    }

    /// Returns what would follow from a report.
    pub(crate) fn observe(&self, report: &Report) -> Vec<Fact> {
        observe::decide(&self.job, self.fence(), report, &self.pulse, self.now)
    }

    /// Returns the claim it is worked on under.
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

    /// Returns how many facts of a kind are in the log.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.log.iter().filter(|event| event.fact.kind() == kind).count()
    }
}
