//! Enums that may grow. A reader keeps an unknown name as it is.

use std::borrow::Cow;
use std::fmt;

use lastword_core::view::row::PhaseName;
use lastword_core::{event, limits, outcome, receipt, spec};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! open_enums {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $name_doc:literal])* $variant:ident = $text:literal,)* })*) => {
        $($(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $name_doc])* $variant,)*
            /// A name that this build does not know.
            Other(Box<str>),
        }

        impl $name {
            /// Every name that this build knows.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the name.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)*
                    $name::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                match text {
                    $($text => $name::$variant,)*
                    _ => $name::Other(text.into()),
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
                open_enum(concat!($($doc, "\n",)*), &[$(($text, concat!($($name_doc),*)),)*])
            }
        }

        impl ToSchema for $name {})*
    };
}

/// Returns the schema of an open enum: a string, with the names known today in the description and as examples.
pub(crate) fn open_enum(about: &str, names: &[(&str, &str)]) -> RefOr<Schema> {
    let mut text =
        format!("{}\n\nNew names may be added: keep a name you do not know as it is.\n", about.trim());
    for (name, doc) in names {
        text.push_str(&format!("\n- `{name}`: {}", doc.trim()));
    }
    let examples = names.iter().map(|(name, _)| serde_json::Value::from(*name));
    ObjectBuilder::new().schema_type(Type::String).description(Some(text)).examples(examples).build().into()
}

pub(crate) use open_enums;

open_enums! {
    /// What becomes of turns that did not complete when the conversation goes on.
    Unfinished {
        /// The agent is told to forget them first.
        Forgotten = "forgotten",
        /// They stay, because the agent cannot forget them.
        Kept = "kept",
    }
    /// The phase of a job.
    Phase {
        /// It waits for its first attempt.
        Queued = "queued",
        /// An attempt is being started.
        Launching = "launching",
        /// An attempt runs.
        Running = "running",
        /// An attempt runs, and its agent is open between turns: it waits for a message, without a slot.
        Idle = "idle",
        /// A stop was requested, and processes may still be alive.
        Stopping = "stopping",
        /// It waits for its next attempt.
        Backoff = "backoff",
        /// It has ended. Nothing changes it any more.
        Ended = "ended",
    }
    /// Whether a worker of a fleet can be given jobs.
    WorkerState {
        /// It renews its lease.
        Connected = "connected",
        /// It has not renewed its lease in time, and its jobs are about to be given to others.
        Silent = "silent",
        /// It has no lease.
        Away = "away",
        /// Its token is refused, and it still holds jobs.
        Revoked = "revoked",
    }
    /// A permission for a tool use.
    Permission {
        /// Ask a person.
        Ask = "ask",
        /// Allow it.
        Allow = "allow",
        /// Deny it.
        Deny = "deny",
    }
    /// The protocol of an agent.
    Dialect {
        /// The Agent Client Protocol.
        Acp = "acp",
        /// The JSON lines of Claude Code.
        Claude = "claude",
        /// The app server of Codex.
        Codex = "codex",
        /// None: one turn, with the prompt as an argument, and the exit status as the result.
        Plain = "plain",
        /// One turn, with the prompt as an argument, reported in JSON lines.
        Once = "once",
    }
    /// The state of an agent's session.
    SessionState {
        /// It is starting.
        Starting = "starting",
        /// It is working on a turn.
        Running = "running",
        /// It is waiting for a prompt.
        Ready = "ready",
        /// Its turn was interrupted.
        Interrupted = "interrupted",
        /// It has ended.
        Stopped = "stopped",
        /// It has ended with an error.
        Errored = "errored",
    }
    /// How a turn of an agent ended.
    TurnEnding {
        /// The agent reports that it is done.
        Completed = "completed",
        /// The agent reports that it failed.
        Failed = "failed",
        /// The agent aborted it.
        Aborted = "aborted",
        /// The model refused.
        Refused = "refused",
        /// A limit of the agent or its model was reached.
        Limited = "limited",
        /// The job was asked to stop.
        Cancelled = "cancelled",
        /// A limit of the job was reached.
        OverLimit = "over_limit",
        /// A user interrupted it.
        Interrupted = "interrupted",
        /// Another turn took its place.
        Superseded = "superseded",
        /// The agent exited or its connection broke.
        AgentExit = "agent_exit",
        /// The agent's runtime failed.
        RuntimeError = "runtime_error",
    }
    /// What a queued job waits for.
    WaitsFor {
        /// A free slot of its group.
        Slot = "slot",
        /// Its group, which is paused.
        Paused = "paused",
        /// The next day: its group has spent what it may spend today.
        Budget = "budget",
        /// The conversation that it resumes, which another job drives.
        Conversation = "conversation",
        /// Jobs that its processes submitted and that end with it: nothing else of it runs.
        Children = "children",
        /// A worker with the labels that it needs.
        Worker = "worker",
        /// The quota of its provider's account, which is used up.
        Quota = "quota",
        /// Its provider, which is overloaded.
        Overload = "overload",
        /// Its dependencies.
        Dependencies = "dependencies",
        /// A point in time.
        Time = "time",
    }
    /// How a job, or one attempt of it, ended.
    Outcome {
        /// The work was done.
        Completed = "completed",
        /// The work was not done, and that is known.
        Failed = "failed",
        /// It was asked to stop.
        Cancelled = "cancelled",
        /// A time limit was reached.
        TimedOut = "timed_out",
        /// A budget was used up.
        OverBudget = "over_budget",
        /// How it ended is unknown.
        Lost = "lost",
    }
    /// Details of an outcome: whether cancelled work had begun, and which limit was reached.
    OutcomeDetail {
        /// Cancelled before any process was started.
        BeforeStart = "before_start",
        /// Cancelled after an attempt was started.
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
    /// Why a job ended, or is to stop.
    Cause {
        /// It finished successfully.
        Finished = "finished",
        /// The command or agent failed.
        Agent = "agent",
        /// It could not be started.
        Launch = "launch",
        /// A user or a program asked it to stop.
        User = "user",
        /// Its supervisor was shut down and told to stop its jobs.
        Shutdown = "shutdown",
        /// The job or process it worked for is gone.
        ParentGone = "parent_gone",
        /// The reader of its output went away.
        ReaderGone = "reader_gone",
        /// A dependency did not end as required.
        Dependency = "dependency",
        /// A dependency was removed before its ending could be read.
        DependencyRemoved = "dependency_removed",
        /// The limit on its wall clock.
        LimitWall = "limit_wall",
        /// The limit on the time of a turn.
        LimitTurn = "limit_turn",
        /// The limit on the time of all turns of a conversation.
        LimitActive = "limit_active",
        /// The limit on the time until the agent opens its session.
        LimitHandshake = "limit_handshake",
        /// The limit on the time without a message after a turn was interrupted.
        LimitIdle = "limit_idle",
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
        /// The tokens that its group may spend in a day.
        LimitGroupTokens = "limit_group_tokens",
        /// The money that its group may spend in a day.
        LimitGroupMoney = "limit_group_money",
        /// How it ended cannot be determined.
        Unaccounted = "unaccounted",
        /// A user gave up on its host.
        Abandoned = "abandoned",
    }
    /// How a process tree is contained, weakest first.
    Level {
        /// Not at all: no process was started or seen.
        None = "none",
        /// By a subreaper that waits for every descendant.
        Subreaper = "subreaper",
        /// By a subreaper, and Landlock keeps the tree from signalling its keeper.
        Landlock = "landlock",
        /// By a control group.
        Cgroup = "cgroup",
        /// By a PID namespace.
        Namespace = "namespace",
    }
    /// Why nothing of an attempt can be alive.
    Proof {
        /// The keeper waited until it had no children.
        NoChildren = "no_children",
        /// The keeper waited until it had no children and the control group was empty.
        CgroupEmptyAndNoChildren = "cgroup_empty_and_no_children",
        /// The PID namespace of the tree is gone.
        NamespaceGone = "namespace_gone",
        /// No process was ever started, and none can be.
        NeverStarted = "never_started",
        /// The host has rebooted since.
        BootChanged = "boot_changed",
        /// The keeper ends its tree before the lease runs out, and the lease has run out.
        LeaseSelfFenced = "lease_self_fenced",
        /// The keeper is gone. Every process that could be found was killed, but others may be left.
        BestEffort = "best_effort",
    }
    /// The rungs of a stop, gentlest first.
    Rung {
        /// The agent was asked to stop, in its own protocol.
        Interrupt = "interrupt",
        /// Its input was closed.
        StdinClosed = "stdin_closed",
        /// SIGTERM to the whole tree.
        Term = "term",
        /// SIGKILL to the whole tree.
        Kill = "kill",
    }
    /// The steps of a launch, in order.
    LaunchStep {
        /// Before a keeper was asked: the environment, the worktree, the agent's definition.
        Prepare = "prepare",
        /// In the keeper: its folder, pipes, the fork.
        Keeper = "keeper",
        /// In the keeper: the lease was over, so it started nothing.
        Lease = "lease",
        /// In the child: its session and controlling terminal.
        Session = "session",
        /// In the child: standard input, output and error.
        Stdio = "stdio",
        /// In the child: the control group.
        Cgroup = "cgroup",
        /// In the child: giving up privileges.
        Privileges = "privileges",
        /// In the child: entering the folder of the job.
        Folder = "folder",
        /// In the child: executing the program.
        Exec = "exec",
    }
    /// Why a keeper stopped its tree on its own.
    KeeperStop {
        /// Its wall-clock deadline passed.
        Deadline = "deadline",
        /// Its lease ran out without a renewal.
        Lease = "lease",
        /// A user asked it to stop while the journal was unavailable.
        LocalCancel = "local_cancel",
        /// The stall limit was reached while the journal was unavailable.
        LocalStall = "local_stall",
        /// A budget was used up while the journal was unavailable.
        LocalBudget = "local_budget",
    }
    /// How a dependency must end.
    Needs {
        /// It must complete.
        Success = "success",
        /// In any way.
        Any = "any",
    }
    /// The kind of a job's standard input.
    IoKind {
        /// None.
        None = "none",
        /// A pipe. Messages are written to it.
        Pipe = "pipe",
        /// A terminal.
        Terminal = "terminal",
    }
    /// Where the keeper of a tree holds a stop that the journal cannot store.
    HeldIn {
        /// On disk: it survives the keeper.
        Disk = "disk",
        /// In memory: the keeper could not write either.
        Memory = "memory",
    }
    /// What happens to the jobs of a daemon that stops.
    JobsFate {
        /// They keep running, and the next daemon adopts them.
        Keep = "keep",
        /// They are cancelled, and the daemon exits when all are proven dead.
        Cancel = "cancel",
        /// Those that were started go on, and the daemon exits when they have ended. No other is started.
        Finish = "finish",
    }
    /// The kind of a problem. Stable: programs can rely on it.
    Code {
        /// The job, group or path does not exist.
        NotFound = "not_found",
        /// The reference matches several jobs, listed in `candidates`.
        Ambiguous = "ambiguous",
        /// The request is malformed or asks for something impossible.
        Invalid = "invalid",
        /// The job has ended, and must not have.
        Ended = "ended",
        /// The job has not ended, and must have.
        NotEnded = "not_ended",
        /// Another owner holds the job.
        Held = "held",
        /// A process inside a job may not do this.
        InsideAJob = "inside_a_job",
        /// The idempotency key was used with another request.
        KeyReused = "key_reused",
        /// The idempotency key, or the id, belongs to a job that was removed: its work is not started again.
        Removed = "removed",
        /// The job was changed meanwhile: read it again before you repeat the request.
        Conflict = "conflict",
        /// A limit was reached.
        Full = "full",
        /// The journal or a part of the machine is temporarily unavailable. The same request may be repeated.
        Unavailable = "unavailable",
        /// Stored data cannot be read.
        Corrupt = "corrupt",
        /// Stored data was written by a newer version.
        NewerReader = "newer_reader",
        /// The daemon is still recovering its jobs. Repeat the request shortly.
        Starting = "starting",
        /// The daemon is stopping. Repeat the request; the next daemon answers it.
        Stopping = "stopping",
        /// The request is larger than allowed.
        TooLarge = "too_large",
        /// The caller may not do this.
        Forbidden = "forbidden",
        /// What was asked for is on a host that is not connected now.
        HostAway = "host_away",
        /// Work that exists nowhere else would be lost.
        Unsaved = "unsaved",
        /// The job is one of several of a conversation, which is removed as a whole.
        InConversation = "in_conversation",
        /// The conversation goes on as another job.
        Continued = "continued",
        /// The budget of a conversation is used up: raise its limit first.
        UsedUp = "used_up",
        /// A bug in Lastword.
        Internal = "internal",
    }
}

impl From<PhaseName> for Phase {
    fn from(phase: PhaseName) -> Phase {
        match phase {
            PhaseName::Queued => Phase::Queued,
            PhaseName::Launching => Phase::Launching,
            PhaseName::Running => Phase::Running,
            PhaseName::Idle => Phase::Idle,
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
    /// Returns the details of an outcome, if it has any.
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

impl From<spec::Unfinished> for Unfinished {
    fn from(unfinished: spec::Unfinished) -> Unfinished {
        match unfinished {
            spec::Unfinished::Forgotten => Unfinished::Forgotten,
            spec::Unfinished::Kept => Unfinished::Kept,
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
            outcome::Cause::ReaderGone => Cause::ReaderGone,
            outcome::Cause::Dependency => Cause::Dependency,
            outcome::Cause::DependencyRemoved => Cause::DependencyRemoved,
            outcome::Cause::Limit(Limit::Wall) => Cause::LimitWall,
            outcome::Cause::Limit(Limit::Turn) => Cause::LimitTurn,
            outcome::Cause::Limit(Limit::Active) => Cause::LimitActive,
            outcome::Cause::Limit(Limit::Handshake) => Cause::LimitHandshake,
            outcome::Cause::Limit(Limit::Idle) => Cause::LimitIdle,
            outcome::Cause::Limit(Limit::Stall) => Cause::LimitStall,
            outcome::Cause::Limit(Limit::Output) => Cause::LimitOutput,
            outcome::Cause::Limit(Limit::Turns) => Cause::LimitTurns,
            outcome::Cause::Limit(Limit::Tokens) => Cause::LimitTokens,
            outcome::Cause::Limit(Limit::Money) => Cause::LimitMoney,
            outcome::Cause::Limit(Limit::GroupTokens) => Cause::LimitGroupTokens,
            outcome::Cause::Limit(Limit::GroupMoney) => Cause::LimitGroupMoney,
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

impl From<receipt::LaunchStep> for LaunchStep {
    fn from(step: receipt::LaunchStep) -> LaunchStep {
        match step {
            receipt::LaunchStep::Prepare => LaunchStep::Prepare,
            receipt::LaunchStep::Keeper => LaunchStep::Keeper,
            receipt::LaunchStep::Lease => LaunchStep::Lease,
            receipt::LaunchStep::Session => LaunchStep::Session,
            receipt::LaunchStep::Stdio => LaunchStep::Stdio,
            receipt::LaunchStep::Cgroup => LaunchStep::Cgroup,
            receipt::LaunchStep::Privileges => LaunchStep::Privileges,
            receipt::LaunchStep::Folder => LaunchStep::Folder,
            receipt::LaunchStep::Exec => LaunchStep::Exec,
            receipt::LaunchStep::Other => LaunchStep::Other("other".into()),
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
    fn a_name_of_a_newer_build_is_kept() {
        let phase: Phase = serde_json::from_str("\"paused\"").unwrap();
        assert_eq!(phase, Phase::Other("paused".into()));
        assert_eq!(serde_json::to_string(&phase).unwrap(), "\"paused\"");
    }

    #[test]
    fn every_known_name_reads_back() {
        for code in Code::ALL {
            assert_eq!(Code::from(code.as_str()), *code);
        }
        for phase in PhaseName::ALL {
            assert_eq!(
                Phase::from(phase).as_str(),
                phase.as_str(),
                "core and API use the same names for phases"
            );
        }
    }
}
