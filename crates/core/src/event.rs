//! Facts: what a job's log can say, one kind at a time, each with a version and a stored example.
//!
//! A fact is a promise: once written it is read for ever. A new field needs a default, a changed meaning
//! a new version with its own arm in `decode`, and an unknown kind is kept as it came.
//! `golden/` holds one example for every kind and version.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::ids::{
    AttemptNo, Awake, Epoch, HostId, Incarnation, InputNo, JobId, OwnerId, Seq, Timestamp, TurnNo,
};
use crate::limits::{Limit, Limits};
use crate::outcome::{Asked, Cause, Outcome};
use crate::receipt::{Receipt, Rung, Tree};
use crate::spec::Spec;

/// A fact in its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Its place in the job's log.
    pub seq: Seq,
    /// When it was decided, by the wall clock of whoever decided it.
    pub at: Timestamp,
    /// What it says.
    pub fact: Fact,
}

/// The newest reader this build is: it understands every fact whose kind asks for at most this.
pub const READER: u16 = 1;

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident = $kind:literal,)*) => {
        /// What a job's log can say.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Fact {
            $($(#[$doc])* $name($name),)*
            /// A kind or version this build does not know, kept as it was stored.
            Unknown(Stored),
        }

        /// Every kind this build writes.
        pub const KINDS: &[&str] = &[$($kind),*];

        impl Fact {
            /// Returns the stored name of this kind.
            pub fn kind(&self) -> &str {
                match self {
                    $(Fact::$name(_) => $kind,)*
                    Fact::Unknown(stored) => &stored.kind,
                }
            }

            /// Returns the fact as a store keeps it.
            pub fn encode(&self) -> Stored {
                let body = match self {
                    $(Fact::$name(body) => serde_json::to_string(body),)*
                    Fact::Unknown(stored) => return stored.clone(),
                };
                Stored {
                    kind: self.kind().to_owned(),
                    version: 1,
                    body: body.expect("a fact holds no map with keys other than text"),
                }
            }

            /// Reads a stored fact. A kind or version from a newer build comes back as [`Fact::Unknown`].
            pub fn decode(stored: Stored) -> Result<Fact, Unreadable> {
                let fact = match (stored.kind.as_str(), stored.version) {
                    $(($kind, 1) => serde_json::from_str(&stored.body).map(Fact::$name),)*
                    _ => return Ok(Fact::Unknown(stored)),
                };
                fact.map_err(|source| Unreadable { kind: stored.kind, reason: source.to_string() })
            }
        }

        $(impl From<$name> for Fact {
            fn from(body: $name) -> Fact {
                Fact::$name(body)
            }
        })*
    };
}

facts! {
    /// The job was asked for.
    Submitted = "submitted",
    /// A job it waited for has ended.
    DependencySettled = "dependency_settled",
    /// Somebody asked for its end.
    CancelRequested = "cancel_requested",
    /// Somebody changed a limit.
    LimitChanged = "limit_changed",
    /// Somebody has something to say to the agent.
    InputRequested = "input_requested",
    /// Somebody answered a question of the agent.
    AnswerRequested = "answer_requested",
    /// Somebody asked for the end of one turn, not of the run.
    InterruptRequested = "interrupt_requested",
    /// A person gave up on a host that did not return.
    Abandoned = "abandoned",
    /// An owner took the job.
    Claimed = "claimed",
    /// An owner gave the job back before it started anything.
    Released = "released",
    /// An owner is about to start an attempt.
    LaunchIntended = "launch_intended",
    /// The attempt's tree is there.
    Launched = "launched",
    /// A later owner found the tree alive and goes on with it.
    Adopted = "adopted",
    /// The owner began to stop the tree.
    StopBegan = "stop_began",
    /// The stop climbed a rung.
    RungClimbed = "rung_climbed",
    /// A limit was reached. From here the job is being stopped, whatever the limit becomes.
    LimitFired = "limit_fired",
    /// A limit is near. Nothing follows from it but that a person may know.
    LimitNeared = "limit_neared",
    /// A limit was reached, and everything holds still until a person has decided.
    Paused = "paused",
    /// The limit was raised: it goes on.
    Unpaused = "unpaused",
    /// An input or an answer reached the agent.
    InputDelivered = "input_delivered",
    /// The agent has a session.
    SessionStarted = "session_started",
    /// The session went into another state by itself.
    SessionChanged = "session_changed",
    /// A turn began.
    TurnStarted = "turn_started",
    /// The agent asked a person something.
    QuestionAsked = "question_asked",
    /// A question was withdrawn by the agent.
    QuestionClosed = "question_closed",
    /// The agent finished an item of work.
    ItemCompleted = "item_completed",
    /// Something was spent.
    Spent = "spent",
    /// A turn ended, and with it everything it did to the conversation.
    TurnEnded = "turn_ended",
    /// An attempt ended, and nothing of it is alive.
    AttemptEnded = "attempt_ended",
    /// Another attempt will follow.
    RetryScheduled = "retry_scheduled",
    /// The job ended. Nothing changes it any more.
    LastWord = "last_word",
    /// Something was reported too late to matter. Kept, and of no effect.
    LateReported = "late_reported",
}

/// A fact as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stored {
    /// The kind's name.
    pub kind: String,
    /// The version of the kind.
    pub version: u16,
    /// The fact itself, in JSON.
    pub body: String,
}

/// A stored fact of a known kind does not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored `{kind}` does not read: {reason}")]
pub struct Unreadable {
    kind: String,
    reason: String,
}

impl Fact {
    /// Reports whether only the owner may write this, under its fence.
    ///
    /// A last word is special: it needs the fence exactly while an attempt is open, see `append`.
    pub fn is_owners(&self) -> bool {
        match self {
            Fact::Submitted(_)
            | Fact::DependencySettled(_)
            | Fact::CancelRequested(_)
            | Fact::LimitChanged(_)
            | Fact::InputRequested(_)
            | Fact::AnswerRequested(_)
            | Fact::InterruptRequested(_)
            | Fact::Abandoned(_)
            | Fact::Claimed(_)
            | Fact::LastWord(_)
            | Fact::LateReported(_) => false,
            Fact::Released(_)
            | Fact::LaunchIntended(_)
            | Fact::Launched(_)
            | Fact::Adopted(_)
            | Fact::StopBegan(_)
            | Fact::RungClimbed(_)
            | Fact::LimitFired(_)
            | Fact::LimitNeared(_)
            | Fact::Paused(_)
            | Fact::Unpaused(_)
            | Fact::InputDelivered(_)
            | Fact::SessionStarted(_)
            | Fact::SessionChanged(_)
            | Fact::TurnStarted(_)
            | Fact::QuestionAsked(_)
            | Fact::QuestionClosed(_)
            | Fact::ItemCompleted(_)
            | Fact::Spent(_)
            | Fact::TurnEnded(_)
            | Fact::AttemptEnded(_)
            | Fact::RetryScheduled(_)
            | Fact::Unknown(_) => true,
        }
    }
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        })*
    };
}

bodies! {
    /// The job was asked for.
    Submitted {
        /// As what.
        spec: Arc<Spec>,
        /// By whom.
        by: String,
        /// Limits in force from the start: the job's own, then the global ones, then the defaults.
        limits: Limits,
    }
    /// A job it waited for has ended.
    DependencySettled {
        /// Which one.
        job: JobId,
        /// As what.
        outcome: Outcome,
    }
    /// Somebody asked for its end.
    CancelRequested {
        /// Who.
        by: String,
        /// In whose name.
        asked: Asked,
        /// Straight to the last rung.
        force: bool,
    }
    /// Somebody changed a limit.
    LimitChanged {
        /// Who.
        by: String,
        /// Which.
        limit: Limit,
        /// To what; zero is off.
        value: u64,
    }
    /// Somebody has something to say to the agent.
    InputRequested {
        /// Who.
        by: String,
        /// Its number.
        input: InputNo,
        /// What.
        text: String,
        /// Nothing more comes: its input is closed after this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        eof: bool,
        /// Into the turn that is under way, if the agent can be told so; otherwise it is the next turn's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
    }
    /// Somebody answered a question of the agent.
    AnswerRequested {
        /// Who.
        by: String,
        /// Its number among the inputs.
        input: InputNo,
        /// Which question.
        question: String,
        /// What.
        text: String,
    }
    /// Somebody asked for the end of one turn, not of the run.
    InterruptRequested {
        /// Who.
        by: String,
        /// Which turn.
        turn: TurnNo,
    }
    /// A person gave up on a host that did not return.
    Abandoned {
        /// Who.
        by: String,
    }
    /// An owner took the job.
    Claimed {
        /// Who.
        owner: OwnerId,
        /// Which life of it.
        incarnation: Incarnation,
        /// Where.
        host: HostId,
        /// Which claim this is.
        epoch: Epoch,
    }
    /// An owner gave the job back before it started anything.
    Released {
        /// Which claim ends.
        epoch: Epoch,
    }
    /// An owner is about to start an attempt.
    LaunchIntended {
        /// Which.
        attempt: AttemptNo,
        /// Under which claim.
        epoch: Epoch,
        /// Limits in force.
        limits: Limits,
        /// In which boot of the host: in a later one nothing of it can be alive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<Arc<str>>,
    }
    /// The attempt's tree is there.
    Launched {
        /// Which.
        attempt: AttemptNo,
        /// Its tree.
        tree: Tree,
        /// When, by the host's awake clock.
        awake: Awake,
    }
    /// A later owner found the tree alive and goes on with it.
    Adopted {
        /// Which.
        attempt: AttemptNo,
        /// The tree as found.
        tree: Tree,
        /// When it was launched, by the host's awake clock.
        awake: Awake,
        /// Under which claim it goes on.
        epoch: Epoch,
    }
    /// The owner began to stop the tree.
    StopBegan {
        /// Which attempt.
        attempt: AttemptNo,
    }
    /// The stop climbed a rung.
    RungClimbed {
        /// Which attempt.
        attempt: AttemptNo,
        /// Which rung.
        rung: Rung,
        /// Processes still alive.
        alive: u32,
    }
    /// A limit is near.
    LimitNeared {
        /// In which attempt.
        attempt: AttemptNo,
        /// Which limit.
        limit: Limit,
        /// What was measured.
        measured: u64,
        /// What is allowed.
        allowed: u64,
    }
    /// A limit was reached, and everything holds still until a person has decided.
    Paused {
        /// Which attempt.
        attempt: AttemptNo,
        /// Which limit.
        limit: Limit,
        /// What was measured.
        measured: u64,
        /// What was allowed.
        allowed: u64,
        /// When, by the host's awake clock.
        awake: Awake,
    }
    /// The limit was raised: it goes on.
    Unpaused {
        /// Which attempt.
        attempt: AttemptNo,
    }
    /// An input or an answer reached the agent.
    InputDelivered {
        /// Which.
        input: InputNo,
    }
    /// The agent has a session.
    SessionStarted {
        /// In which attempt.
        attempt: AttemptNo,
        /// Heard at this offset of the recording.
        offset: u64,
        /// The provider's name for it, if it gave one yet. It counts for a resume only after a turn.
        reference: Option<String>,
        /// What it goes on from.
        resumed_from: Option<String>,
    }
    /// The session went into another state by itself.
    SessionChanged {
        /// Heard at this offset.
        offset: u64,
        /// Which state.
        state: SessionState,
        /// Processes or tasks of the agent that go on outside a turn.
        background: u32,
    }
    /// A turn began.
    TurnStarted {
        /// Heard at this offset.
        offset: u64,
        /// Which.
        turn: TurnNo,
    }
    /// The agent asked a person something.
    QuestionAsked {
        /// Heard at this offset.
        offset: u64,
        /// The agent's name for it.
        question: String,
        /// What it asks.
        text: String,
    }
    /// A question was withdrawn by the agent.
    QuestionClosed {
        /// Heard at this offset.
        offset: u64,
        /// Which.
        question: String,
    }
    /// The agent finished an item of work.
    ItemCompleted {
        /// Heard at this offset.
        offset: u64,
        /// One line for people.
        title: String,
    }
    /// Something was spent.
    Spent {
        /// Heard at this offset.
        offset: u64,
        /// How much, since the last such fact.
        usage: Usage,
    }
    /// A turn ended, and with it everything it did to the conversation.
    TurnEnded {
        /// Heard at this offset, or the last one heard when nothing was.
        offset: u64,
        /// Which.
        turn: TurnNo,
        /// How.
        ending: TurnEnding,
        /// What the agent said about it.
        error: Option<String>,
        /// What it changed. Only a completed turn changes anything.
        commit: Option<Commit>,
    }
    /// An attempt ended, and nothing of it is alive.
    AttemptEnded {
        /// Which.
        attempt: AttemptNo,
        /// How.
        outcome: Outcome,
        /// Why.
        cause: Cause,
        /// What was reported wrong, if anything.
        error: Option<String>,
        /// What proves it.
        receipt: Receipt,
    }
    /// Another attempt will follow.
    RetryScheduled {
        /// Which.
        attempt: AttemptNo,
        /// Not before.
        due: Timestamp,
    }
    /// The job ended. Nothing changes it any more.
    LastWord {
        /// How.
        outcome: Outcome,
        /// Why.
        cause: Cause,
        /// The attempt that decided it; its `attempt_ended` holds the receipt. `None` if nothing ever ran.
        attempt: Option<AttemptNo>,
        /// When the stop was asked for, if it was.
        requested_at: Option<Timestamp>,
        /// Who asked for the stop, if somebody did; or the job that did not end as this one needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// Something was reported too late to matter. Kept, and of no effect.
    LateReported {
        /// Under which claim.
        epoch: Epoch,
        /// What, in one line.
        what: String,
    }
}

/// A limit was reached. A stored one that reads badly still stops the job: each field has a default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitFired {
    /// Which attempt it stops.
    #[serde(deserialize_with = "lenient")]
    pub attempt: AttemptNo,
    /// Which limit.
    #[serde(deserialize_with = "lenient")]
    pub limit: Limit,
    /// What was measured.
    #[serde(deserialize_with = "lenient")]
    pub measured: u64,
    /// What was allowed.
    #[serde(deserialize_with = "lenient")]
    pub allowed: u64,
}

/// Reads a field, taking the default where it does not fit its type.
fn lenient<'de, D: Deserializer<'de>, T: Default + for<'a> Deserialize<'a>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// The state of an agent's session. Only the first two may hold an active turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Coming up.
    Starting,
    /// Working on a turn.
    Running,
    /// Waiting for the next prompt.
    Ready,
    /// A person interrupted its turn.
    Interrupted,
    /// It is over.
    Stopped,
    /// It is over, and something went wrong.
    Errored,
}

impl SessionState {
    /// Reports whether a turn may be active in this state.
    pub fn may_hold_turn(self) -> bool {
        matches!(self, SessionState::Starting | SessionState::Running)
    }
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnding {
    /// The agent says it is done.
    Completed,
    /// The agent says it failed.
    Failed,
    /// The agent gave it up.
    Aborted,
    /// The model would not do it.
    Refused,
    /// The agent or its model has reached a limit of its own.
    Limited,
    /// The run was asked to end.
    Cancelled,
    /// A limit ended the run.
    OverLimit(Limit),
    /// A person interrupted just this turn.
    Interrupted,
    /// Another turn took its place.
    Superseded,
    /// The agent or its connection ended first.
    AgentExit,
    /// The agent's runtime broke.
    RuntimeError,
}

/// What a completed turn changed in the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Commit {
    /// Messages added.
    pub messages: u32,
    /// The transcript now reaches this offset of the recording.
    pub transcript: u64,
    /// Permissions that were denied.
    pub denials: Vec<String>,
    /// What the session used, by the agent's own account.
    pub usage: Usage,
    /// The provider's reference to resume from here.
    pub resume: Option<String>,
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read.
    pub tokens_in: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Money, in millionths of a dollar.
    pub money_micros: u64,
}

impl Usage {
    /// Adds another account to this one.
    pub fn add(&mut self, more: Usage) {
        self.tokens_in = self.tokens_in.saturating_add(more.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(more.tokens_out);
        self.money_micros = self.money_micros.saturating_add(more.money_micros);
    }

    /// Returns all tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens_in.saturating_add(self.tokens_out)
    }
}
