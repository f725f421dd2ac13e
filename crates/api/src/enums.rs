//! Lists of names that may grow. A reader keeps a word it does not know as it came and goes on.

use std::borrow::Cow;
use std::fmt;

use lastword_core::view::row::PhaseName;
use lastword_core::{event, limits, outcome, receipt, spec};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! open_enums {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $word_doc:literal])* $variant:ident = $word:literal,)* })*) => {
        $($(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $word_doc])* $variant,)*
            /// A word this build does not know.
            Other(Box<str>),
        }

        impl $name {
            /// Every word this build knows.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the word.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> $name {
                match word {
                    $($word => $name::$variant,)*
                    _ => $name::Other(word.into()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                Ok($name::from(&*Cow::<'de, str>::deserialize(deserializer)?))
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                open_list(concat!($($doc, "\n",)*), &[$(($word, concat!($($word_doc),*)),)*])
            }
        }

        impl ToSchema for $name {})*
    };
}

/// Says that a list may grow: a plain text, with the words known today in the description and as examples.
fn open_list(about: &str, words: &[(&str, &str)]) -> RefOr<Schema> {
    let mut text = format!("{}\n\nThe list may grow: take a word you do not know as such.\n", about.trim());
    for (word, doc) in words {
        text.push_str(&format!("\n- `{word}`: {}", doc.trim()));
    }
    let examples = words.iter().map(|(word, _)| serde_json::Value::from(*word));
    ObjectBuilder::new().schema_type(Type::String).description(Some(text)).examples(examples).build().into()
}

open_enums! {
    /// Where a job stands.
    Phase {
        /// Waits for its first attempt.
        Queued = "queued",
        /// An attempt is being started.
        Launching = "launching",
        /// An attempt runs.
        Running = "running",
        /// A stop was asked for, and something may still be alive.
        Stopping = "stopping",
        /// Waits for the next attempt.
        Backoff = "backoff",
        /// Over. Nothing changes it any more.
        Ended = "ended",
    }
    /// What becomes of what an agent wants to do.
    Permission {
        /// A person is asked.
        Ask = "ask",
        /// It may.
        Allow = "allow",
        /// It may not.
        Deny = "deny",
    }
    /// How an agent is spoken to.
    Dialect {
        /// The Agent Client Protocol.
        Acp = "acp",
        /// The lines of Claude Code, both ways.
        Claude = "claude",
        /// The app server of Codex.
        Codex = "codex",
        /// Not at all: its prompt is among its arguments, and its exit status is its result.
        Plain = "plain",
        /// One turn, its prompt among its arguments; it says in lines of JSON how its turn goes.
        Once = "once",
    }
    /// Where the conversation of an agent stands.
    SessionState {
        /// Coming up.
        Starting = "starting",
        /// Working on a turn.
        Running = "running",
        /// Waiting for the next prompt.
        Ready = "ready",
        /// Its turn was interrupted.
        Interrupted = "interrupted",
        /// Over.
        Stopped = "stopped",
        /// Over, and something went wrong.
        Errored = "errored",
    }
    /// How a turn of an agent ended.
    TurnEnding {
        /// The agent says it is done.
        Completed = "completed",
        /// The agent says it failed.
        Failed = "failed",
        /// The agent gave it up.
        Aborted = "aborted",
        /// The model would not do it.
        Refused = "refused",
        /// The agent or its model has reached a limit of its own.
        Limited = "limited",
        /// The job was asked to end.
        Cancelled = "cancelled",
        /// A limit ended the job.
        OverLimit = "over_limit",
        /// A person interrupted just this turn.
        Interrupted = "interrupted",
        /// Another turn took its place.
        Superseded = "superseded",
        /// The agent or its connection ended first.
        AgentExit = "agent_exit",
        /// The agent's runtime broke.
        RuntimeError = "runtime_error",
    }
    /// Why a queued job waits.
    WaitsFor {
        /// For a free slot of its group.
        Slot = "slot",
        /// For its group, which is paused.
        Paused = "paused",
        /// For other jobs to end.
        Dependencies = "dependencies",
        /// For a moment.
        Time = "time",
    }
    /// How a job, or one attempt of it, ended.
    Outcome {
        /// The work was done.
        Completed = "completed",
        /// The work was not done, and it is known.
        Failed = "failed",
        /// Somebody asked for the end.
        Cancelled = "cancelled",
        /// Time ran out.
        TimedOut = "timed_out",
        /// A budget ran out.
        OverBudget = "over_budget",
        /// Nobody can say how it ended.
        Lost = "lost",
    }
    /// What an outcome leaves open: whether cancelled work had begun, which clock or which budget ran out.
    OutcomeDetail {
        /// Cancelled, and no process was ever started.
        BeforeStart = "before_start",
        /// Cancelled after an attempt had been started.
        WhileRunning = "while_running",
        /// Timed out: the wall clock.
        Deadline = "deadline",
        /// Timed out: no progress.
        Stall = "stall",
        /// Over budget: turns.
        Turns = "turns",
        /// Over budget: tokens.
        Tokens = "tokens",
        /// Over budget: money.
        Money = "money",
        /// Over budget: bytes of output.
        Output = "output",
    }
    /// Why a job ended, or is to end.
    Cause {
        /// It came to its own end with success.
        Finished = "finished",
        /// The command or agent failed.
        Agent = "agent",
        /// It could not be started.
        Launch = "launch",
        /// A person or a program asked.
        User = "user",
        /// Its supervisor was shut down and told to take its jobs along.
        Shutdown = "shutdown",
        /// The job or agent it worked for is gone.
        ParentGone = "parent_gone",
        /// A job it waited for did not end as needed.
        Dependency = "dependency",
        /// The limit on its wall clock.
        LimitWall = "limit_wall",
        /// The limit on time without progress.
        LimitStall = "limit_stall",
        /// The limit on bytes of output.
        LimitOutput = "limit_output",
        /// The limit on turns.
        LimitTurns = "limit_turns",
        /// The limit on tokens.
        LimitTokens = "limit_tokens",
        /// The limit on money.
        LimitMoney = "limit_money",
        /// It cannot be accounted for.
        Unaccounted = "unaccounted",
        /// A person gave up on a host that did not return.
        Abandoned = "abandoned",
    }
    /// How a tree of processes is held, weakest first.
    Level {
        /// Nothing was ever held: no process was started or seen.
        None = "none",
        /// A subreaper walks the tree to the last child.
        Subreaper = "subreaper",
        /// The same, and the tree cannot signal its keeper.
        Landlock = "landlock",
        /// A control group of its own.
        Cgroup = "cgroup",
        /// A process namespace of its own.
        Namespace = "namespace",
    }
    /// Why nothing of an attempt can be alive.
    Proof {
        /// The keeper waited until it had no child.
        NoChildren = "no_children",
        /// The same, and the control group was empty.
        CgroupEmptyAndNoChildren = "cgroup_empty_and_no_children",
        /// The namespace of the tree is gone.
        NamespaceGone = "namespace_gone",
        /// No process was ever started, and none can be.
        NeverStarted = "never_started",
        /// The host has booted since.
        BootChanged = "boot_changed",
        /// The keeper had to end its tree before the lease ran out, and the lease has run out.
        LeaseSelfFenced = "lease_self_fenced",
        /// The keeper is gone. What could be found was killed; more cannot be said.
        BestEffort = "best_effort",
    }
    /// The rungs of a stop, gentlest first.
    Rung {
        /// The agent was asked in its own protocol.
        Interrupt = "interrupt",
        /// Its input was closed.
        StdinClosed = "stdin_closed",
        /// TERM to the whole tree.
        Term = "term",
        /// KILL to the whole tree.
        Kill = "kill",
    }
    /// Why a keeper stopped its tree without being told by its owner.
    KeeperStop {
        /// The hard wall-clock limit it holds ran out.
        Deadline = "deadline",
        /// Its lease ran out unheard.
        Lease = "lease",
        /// It was told to stop while the journal was away.
        LocalCancel = "local_cancel",
        /// It was told to stop for stall while the journal was away.
        LocalStall = "local_stall",
        /// It was told to stop for a budget while the journal was away.
        LocalBudget = "local_budget",
    }
    /// How a job that others wait for must end.
    Needs {
        /// It must complete.
        Success = "success",
        /// Any ending will do.
        Any = "any",
    }
    /// What a job reads from.
    IoKind {
        /// Nothing.
        None = "none",
        /// A pipe, written to with messages.
        Pipe = "pipe",
        /// A terminal of its own.
        Terminal = "terminal",
    }
    /// What becomes of the jobs of a daemon that stops.
    JobsFate {
        /// They go on, and the next daemon adopts them.
        Keep = "keep",
        /// They are cancelled, and the daemon goes when all are proven dead.
        Cancel = "cancel",
    }
    /// What kind of problem it is. Stable: programs decide by it.
    Code {
        /// There is no such thing.
        NotFound = "not_found",
        /// The reference means several jobs; `candidates` names them.
        Ambiguous = "ambiguous",
        /// The request cannot be understood, or asks for something that cannot be.
        Invalid = "invalid",
        /// The job has ended, and must not have for this.
        Ended = "ended",
        /// The job has not ended, and must have for this.
        NotEnded = "not_ended",
        /// Somebody else holds the job.
        Held = "held",
        /// A process inside a job may not do this.
        InsideAJob = "inside_a_job",
        /// The idempotency key was used with another request.
        KeyReused = "key_reused",
        /// Somebody else was faster; look again and decide anew.
        Conflict = "conflict",
        /// A bound was reached.
        Full = "full",
        /// The journal or a part of the machine cannot be reached now; the same request may be repeated.
        Unavailable = "unavailable",
        /// What is stored cannot be read. Never treated as empty.
        Corrupt = "corrupt",
        /// What is stored was written by a newer build.
        NewerReader = "newer_reader",
        /// The daemon is still finding out what became of its jobs; repeat in a moment.
        Starting = "starting",
        /// The request is larger than allowed.
        TooLarge = "too_large",
        /// The caller may not do this.
        Forbidden = "forbidden",
        /// Work would be lost that is nowhere else.
        Unsaved = "unsaved",
        /// A bug of Lastword.
        Internal = "internal",
    }
}

impl From<PhaseName> for Phase {
    fn from(phase: PhaseName) -> Phase {
        match phase {
            PhaseName::Queued => Phase::Queued,
            PhaseName::Launching => Phase::Launching,
            PhaseName::Running => Phase::Running,
            PhaseName::Stopping => Phase::Stopping,
            PhaseName::Backoff => Phase::Backoff,
            PhaseName::Ended => Phase::Ended,
        }
    }
}

impl From<event::SessionState> for SessionState {
    fn from(state: event::SessionState) -> SessionState {
        match state {
            event::SessionState::Starting => SessionState::Starting,
            event::SessionState::Running => SessionState::Running,
            event::SessionState::Ready => SessionState::Ready,
            event::SessionState::Interrupted => SessionState::Interrupted,
            event::SessionState::Stopped => SessionState::Stopped,
            event::SessionState::Errored => SessionState::Errored,
        }
    }
}

impl From<event::TurnEnding> for TurnEnding {
    fn from(ending: event::TurnEnding) -> TurnEnding {
        match ending {
            event::TurnEnding::Completed => TurnEnding::Completed,
            event::TurnEnding::Failed => TurnEnding::Failed,
            event::TurnEnding::Aborted => TurnEnding::Aborted,
            event::TurnEnding::Refused => TurnEnding::Refused,
            event::TurnEnding::Limited => TurnEnding::Limited,
            event::TurnEnding::Cancelled => TurnEnding::Cancelled,
            event::TurnEnding::OverLimit(_) => TurnEnding::OverLimit,
            event::TurnEnding::Interrupted => TurnEnding::Interrupted,
            event::TurnEnding::Superseded => TurnEnding::Superseded,
            event::TurnEnding::AgentExit => TurnEnding::AgentExit,
            event::TurnEnding::RuntimeError => TurnEnding::RuntimeError,
        }
    }
}

impl From<outcome::Outcome> for Outcome {
    fn from(outcome: outcome::Outcome) -> Outcome {
        match outcome {
            outcome::Outcome::Completed => Outcome::Completed,
            outcome::Outcome::Failed => Outcome::Failed,
            outcome::Outcome::Cancelled(_) => Outcome::Cancelled,
            outcome::Outcome::TimedOut(_) => Outcome::TimedOut,
            outcome::Outcome::OverBudget(_) => Outcome::OverBudget,
            outcome::Outcome::Lost => Outcome::Lost,
        }
    }
}

impl OutcomeDetail {
    /// Returns what an outcome says beyond its name.
    pub fn of(outcome: outcome::Outcome) -> Option<OutcomeDetail> {
        use outcome::{Begun, Budget, Clock};
        match outcome {
            outcome::Outcome::Cancelled(Begun::BeforeStart) => Some(OutcomeDetail::BeforeStart),
            outcome::Outcome::Cancelled(Begun::WhileRunning) => Some(OutcomeDetail::WhileRunning),
            outcome::Outcome::TimedOut(Clock::Deadline) => Some(OutcomeDetail::Deadline),
            outcome::Outcome::TimedOut(Clock::Stall) => Some(OutcomeDetail::Stall),
            outcome::Outcome::OverBudget(Budget::Output) => Some(OutcomeDetail::Output),
            outcome::Outcome::OverBudget(Budget::Turns) => Some(OutcomeDetail::Turns),
            outcome::Outcome::OverBudget(Budget::Tokens) => Some(OutcomeDetail::Tokens),
            outcome::Outcome::OverBudget(Budget::Money) => Some(OutcomeDetail::Money),
            outcome::Outcome::Completed | outcome::Outcome::Failed | outcome::Outcome::Lost => None,
        }
    }
}

impl From<outcome::Cause> for Cause {
    fn from(cause: outcome::Cause) -> Cause {
        use limits::Limit;
        match cause {
            outcome::Cause::Finished => Cause::Finished,
            outcome::Cause::Agent => Cause::Agent,
            outcome::Cause::Launch => Cause::Launch,
            outcome::Cause::User => Cause::User,
            outcome::Cause::Shutdown => Cause::Shutdown,
            outcome::Cause::ParentGone => Cause::ParentGone,
            outcome::Cause::Dependency => Cause::Dependency,
            outcome::Cause::Limit(Limit::Wall) => Cause::LimitWall,
            outcome::Cause::Limit(Limit::Stall) => Cause::LimitStall,
            outcome::Cause::Limit(Limit::Output) => Cause::LimitOutput,
            outcome::Cause::Limit(Limit::Turns) => Cause::LimitTurns,
            outcome::Cause::Limit(Limit::Tokens) => Cause::LimitTokens,
            outcome::Cause::Limit(Limit::Money) => Cause::LimitMoney,
            outcome::Cause::Unaccounted => Cause::Unaccounted,
            outcome::Cause::Abandoned => Cause::Abandoned,
        }
    }
}

impl From<receipt::Level> for Level {
    fn from(level: receipt::Level) -> Level {
        match level {
            receipt::Level::None => Level::None,
            receipt::Level::Subreaper => Level::Subreaper,
            receipt::Level::Landlock => Level::Landlock,
            receipt::Level::Cgroup => Level::Cgroup,
            receipt::Level::Namespace => Level::Namespace,
        }
    }
}

impl From<receipt::Proof> for Proof {
    fn from(proof: receipt::Proof) -> Proof {
        match proof {
            receipt::Proof::NoChildren => Proof::NoChildren,
            receipt::Proof::CgroupEmptyAndNoChildren => Proof::CgroupEmptyAndNoChildren,
            receipt::Proof::NamespaceGone => Proof::NamespaceGone,
            receipt::Proof::NeverStarted => Proof::NeverStarted,
            receipt::Proof::BootChanged => Proof::BootChanged,
            receipt::Proof::LeaseSelfFenced => Proof::LeaseSelfFenced,
            receipt::Proof::BestEffort => Proof::BestEffort,
        }
    }
}

impl From<receipt::Rung> for Rung {
    fn from(rung: receipt::Rung) -> Rung {
        match rung {
            receipt::Rung::Interrupt => Rung::Interrupt,
            receipt::Rung::StdinClosed => Rung::StdinClosed,
            receipt::Rung::Term => Rung::Term,
            receipt::Rung::Kill => Rung::Kill,
        }
    }
}

impl From<receipt::KeeperStop> for KeeperStop {
    fn from(stop: receipt::KeeperStop) -> KeeperStop {
        match stop {
            receipt::KeeperStop::Deadline => KeeperStop::Deadline,
            receipt::KeeperStop::Lease => KeeperStop::Lease,
            receipt::KeeperStop::LocalCancel => KeeperStop::LocalCancel,
            receipt::KeeperStop::LocalStall => KeeperStop::LocalStall,
            receipt::KeeperStop::LocalBudget(_) => KeeperStop::LocalBudget,
        }
    }
}

impl From<spec::Needs> for Needs {
    fn from(needs: spec::Needs) -> Needs {
        match needs {
            spec::Needs::Success => Needs::Success,
            spec::Needs::AnyEnd => Needs::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_newer_build_is_kept_as_it_came() {
        let phase: Phase = serde_json::from_str("\"paused\"").unwrap();
        assert_eq!(phase, Phase::Other("paused".into()));
        assert_eq!(serde_json::to_string(&phase).unwrap(), "\"paused\"");
    }

    #[test]
    fn every_known_word_reads_back() {
        for code in Code::ALL {
            assert_eq!(Code::from(code.as_str()), *code);
        }
        for phase in PhaseName::ALL {
            assert_eq!(
                Phase::from(phase).as_str(),
                phase.as_str(),
                "the phase is called the same everywhere"
            );
        }
    }
}
