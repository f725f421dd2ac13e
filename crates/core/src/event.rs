//! Facts: what a job's log consists of. Each kind has a version and a stored example.
//!
//! A stored fact must stay readable for ever. A new field needs a default, a changed meaning needs a new version with its own arm in
//! `decode`, and unknown kinds are kept as they are. `golden/` has an example of every kind and version.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::conversation::Carried;
use crate::ids::{
    AttemptNo, Awake, Epoch, HostId, Incarnation, InputNo, JobId, OwnerId, Seq, Timestamp, TurnNo,
};
use crate::limits::{Limit, Limits};
use crate::outcome::{Asked, Cause, Outcome};
use crate::question::{Ask, Reply};
use crate::receipt::{Receipt, Rung, Tree};
use crate::spec::Spec;
pub use crate::turn::{Commit, SessionState, TurnEnding, Usage};

/// A fact in a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// Its position in the job's log.
    pub seq: Seq,
    /// When it was decided, by the wall clock of its writer.
    pub at: Timestamp,
    /// The fact.
    pub fact: Fact,
}

/// The reader version of this build: it understands every job whose `least_reader` is at most this.
pub const READER: u16 = 1;

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident = $kind:literal,)*) => {
        /// A fact about a job.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Fact {
            $($(#[$doc])* $name($name),)*
            /// A kind or version that this build does not know, as it was stored.
            Unknown(Stored),
        }

        /// Every kind that this build writes.
        pub const KINDS: &[&str] = &[$($kind),*];

        impl Fact {
            /// Returns the stored name of the kind.
            pub fn kind(&self) -> &str {
                match self {
                    $(Fact::$name(_) => $kind,)*
                    Fact::Unknown(stored) => &stored.kind,
                }
            }

            /// Returns the stored form.
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

            /// Parses a stored fact. A kind or version of a newer build becomes [`Fact::Unknown`].
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
    /// The job was submitted.
    Submitted = "submitted",
    /// A dependency has ended.
    DependencySettled = "dependency_settled",
    /// A dependency was removed before its ending could be read.
    DependencyRemoved = "dependency_removed",
    /// Its due time was set by a clock that was ahead, and is set anew.
    Rescheduled = "rescheduled",
    /// A stop was requested.
    CancelRequested = "cancel_requested",
    /// A limit was changed.
    LimitChanged = "limit_changed",
    /// Labels were changed.
    LabelsChanged = "labels_changed",
    /// A process of the job said how far its work is, or what its result is.
    ProgressReported = "progress_reported",
    /// An input was sent.
    InputRequested = "input_requested",
    /// A question of the agent was answered.
    AnswerRequested = "answer_requested",
    /// The end of one turn was requested, not of the job.
    InterruptRequested = "interrupt_requested",
    /// A user gave up on the host of the open attempt.
    Abandoned = "abandoned",
    /// An owner claimed the job.
    Claimed = "claimed",
    /// The owner released the job without a running attempt.
    Released = "released",
    /// The owner is about to start an attempt.
    LaunchIntended = "launch_intended",
    /// The attempt's tree was started.
    Launched = "launched",
    /// A later owner found the tree alive and adopted it.
    Adopted = "adopted",
    /// The owner began to stop the tree.
    StopBegan = "stop_began",
    /// The stop reached the next rung.
    RungClimbed = "rung_climbed",
    /// A limit was reached and the job is being stopped, even if the limit is raised later.
    LimitFired = "limit_fired",
    /// A limit is near. Only a warning.
    LimitNeared = "limit_neared",
    /// A limit was reached, and the tree is frozen until a person decides.
    Paused = "paused",
    /// The limit was raised and the tree continues.
    Unpaused = "unpaused",
    /// No person is asked any more, and the clocks of the attempt run on.
    Rested = "rested",
    /// A person allowed something for the rest of the job.
    RuleAdded = "rule_added",
    /// A person took that back.
    RuleRemoved = "rule_removed",
    /// An agent that was open between turns has a slot again, for the message that waits.
    Woken = "woken",
    /// An input or an answer was delivered.
    InputDelivered = "input_delivered",
    /// The agent opened a session.
    SessionStarted = "session_started",
    /// The session changed its state.
    SessionChanged = "session_changed",
    /// A turn began.
    TurnStarted = "turn_started",
    /// The agent asked a person a question.
    QuestionAsked = "question_asked",
    /// The agent withdrew a question.
    QuestionClosed = "question_closed",
    /// The agent completed an item of work.
    ItemCompleted = "item_completed",
    /// Tokens or money were spent.
    Spent = "spent",
    /// A turn ended, with its changes to the conversation.
    TurnEnded = "turn_ended",
    /// An attempt ended; its processes are gone, as far as the receipt proves.
    AttemptEnded = "attempt_ended",
    /// Another attempt will follow.
    RetryScheduled = "retry_scheduled",
    /// The provider of the agent refused to answer.
    ProviderRefused = "provider_refused",
    /// It waits until its provider answers again, and another attempt will follow.
    ProviderAwaited = "provider_awaited",
    /// It may ask its provider again.
    ProviderOpened = "provider_opened",
    /// The job ended. Nothing changes it any more.
    LastWord = "last_word",
    /// A report came too late. Recorded without effect.
    LateReported = "late_reported",
    /// The conversation of an ended job goes on as another job.
    Continued = "continued",
    /// A job that 0.1.0 submitted got its place in a conversation.
    Joined = "joined",
    /// A process of the job submitted another job.
    ChildSubmitted = "child_submitted",
    /// A job that a process of this one submitted has ended.
    ChildEnded = "child_ended",
    /// Nothing of the job runs any more, and it ends when the jobs that are tied to it have ended.
    ChildrenAwaited = "children_awaited",
}

/// The stored form of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stored {
    /// The name of the kind.
    pub kind: String,
    /// The version of the kind.
    pub version: u16,
    /// The fact as JSON.
    pub body: String,
}

/// A stored fact of a known kind that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored `{kind}` cannot be read: {reason}")]
pub struct Unreadable {
    kind: String,
    reason: String,
}

impl Fact {
    /// Reports whether this fact is about the conversation of an agent, so that it may follow the end of the job.
    pub fn is_of_conversation(&self) -> bool {
        matches!(self, Fact::Continued(_) | Fact::Joined(_) | Fact::LimitChanged(_) | Fact::RuleRemoved(_))
    }

    /// Reports whether only the owner may write this fact, with its fence.
    ///
    /// A last word needs the fence only while an attempt is open, see `append`.
    pub fn is_owners(&self) -> bool {
        match self {
            Fact::Submitted(_)
            | Fact::DependencySettled(_)
            | Fact::DependencyRemoved(_)
            | Fact::Rescheduled(_)
            | Fact::CancelRequested(_)
            | Fact::LimitChanged(_)
            | Fact::LabelsChanged(_)
            | Fact::ProgressReported(_)
            | Fact::InputRequested(_)
            | Fact::AnswerRequested(_)
            | Fact::RuleAdded(_)
            | Fact::RuleRemoved(_)
            | Fact::InterruptRequested(_)
            | Fact::Abandoned(_)
            | Fact::Claimed(_)
            | Fact::LastWord(_)
            | Fact::LateReported(_)
            | Fact::Continued(_)
            | Fact::Joined(_)
            | Fact::ChildSubmitted(_)
            | Fact::ChildEnded(_)
            | Fact::ChildrenAwaited(_)
            | Fact::ProviderOpened(_) => false,
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
            | Fact::Rested(_)
            | Fact::Woken(_)
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
            | Fact::ProviderRefused(_)
            | Fact::ProviderAwaited(_)
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

mod about;
mod limit_fired;
mod provider;
mod related;

pub use about::{LabelsChanged, ProgressReported};
pub use limit_fired::LimitFired;
pub use provider::{ProviderAwaited, ProviderOpened, ProviderRefused};
pub use related::{ChildEnded, ChildSubmitted, Continued, Joined};

bodies! {
    /// The job was submitted.
    Submitted {
        /// The job's spec.
        spec: Arc<Spec>,
        /// The submitter.
        by: String,
        /// Initial limits: the job's own, then the global ones, then the defaults.
        limits: Limits,
        /// What it takes over from the jobs of its conversation before it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<Box<Carried>>,
    }
    /// A dependency has ended.
    DependencySettled {
        /// The dependency.
        job: JobId,
        /// How it ended.
        outcome: Outcome,
    }
    /// A dependency was removed before its ending could be read. It had ended, since nothing else can be removed.
    DependencyRemoved {
        /// The dependency.
        job: JobId,
    }
    /// Its due time was set by a clock that was ahead, and is set anew.
    Rescheduled {
        /// The new due time.
        due: Timestamp,
    }
    /// A stop was requested.
    CancelRequested {
        /// The requester.
        by: String,
        /// The kind of requester.
        asked: Asked,
        /// Skip to the last rung.
        force: bool,
    }
    /// A limit was changed.
    LimitChanged {
        /// The requester.
        by: String,
        /// The limit.
        limit: Limit,
        /// Its new value; zero is off.
        value: u64,
    }
    /// An input was sent.
    InputRequested {
        /// The sender.
        by: String,
        /// Its number.
        input: InputNo,
        /// The input.
        text: String,
        /// Close the input after this one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        eof: bool,
        /// For the active turn, if the agent can be steered; otherwise for the next turn.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
    }
    /// A question of the agent was answered.
    AnswerRequested {
        /// The author of the answer.
        by: String,
        /// Its number among the inputs.
        input: InputNo,
        /// The question.
        question: String,
        /// The name by which it was answered.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// The answer, as a text.
        text: String,
        /// The answer. 0.1.0 stored the text only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Reply>,
    }
    /// The end of one turn was requested, not of the job.
    InterruptRequested {
        /// The requester.
        by: String,
        /// The turn.
        turn: TurnNo,
    }
    /// A user gave up on the host of the open attempt.
    Abandoned {
        /// The user.
        by: String,
    }
    /// An owner claimed the job.
    Claimed {
        /// The owner.
        owner: OwnerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Its host.
        host: HostId,
        /// The number of the claim.
        epoch: Epoch,
    }
    /// The owner released the job without a running attempt.
    Released {
        /// The claim that ends.
        epoch: Epoch,
    }
    /// The owner is about to start an attempt.
    LaunchIntended {
        /// The attempt.
        attempt: AttemptNo,
        /// The claim it is started under.
        epoch: Epoch,
        /// The limits at that time.
        limits: Limits,
        /// The boot of the host. After a reboot, nothing of the attempt can be alive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        boot: Option<Arc<str>>,
    }
    /// The attempt's tree was started.
    Launched {
        /// The attempt.
        attempt: AttemptNo,
        /// Its tree.
        tree: Tree,
        /// The start, by the host's awake clock.
        awake: Awake,
    }
    /// A later owner found the tree alive and adopted it.
    Adopted {
        /// The attempt.
        attempt: AttemptNo,
        /// The tree as found.
        tree: Tree,
        /// When it was started, by the host's awake clock.
        awake: Awake,
        /// The claim that adopts it.
        epoch: Epoch,
    }
    /// The owner began to stop the tree.
    StopBegan {
        /// The attempt.
        attempt: AttemptNo,
    }
    /// The stop reached the next rung.
    RungClimbed {
        /// The attempt.
        attempt: AttemptNo,
        /// The rung.
        rung: Rung,
        /// Processes still alive.
        alive: u32,
    }
    /// A limit is near.
    LimitNeared {
        /// The attempt.
        attempt: AttemptNo,
        /// The limit.
        limit: Limit,
        /// The measured value.
        measured: u64,
        /// The allowed value.
        allowed: u64,
    }
    /// A limit was reached, and the tree is frozen until a person decides.
    Paused {
        /// The attempt.
        attempt: AttemptNo,
        /// The limit.
        limit: Limit,
        /// The measured value.
        measured: u64,
        /// The allowed value.
        allowed: u64,
        /// The time, by the host's awake clock.
        awake: Awake,
    }
    /// The limit was raised and the tree continues.
    Unpaused {
        /// The attempt.
        attempt: AttemptNo,
    }
    /// No person is asked any more, and the clocks of the attempt run on.
    Rested {
        /// The attempt.
        attempt: AttemptNo,
        /// For how long they rested, by the awake clock.
        ms: u64,
    }
    /// A person allowed something for the rest of the job: exactly this request of this tool.
    RuleAdded {
        /// Its author.
        by: String,
        /// Its number in the job.
        rule: u32,
        /// The tool.
        tool: String,
        /// The complete request, as it was shown.
        request: String,
        /// The same as the agent sent it.
        exact: String,
    }
    /// A person took a rule back.
    RuleRemoved {
        /// Its author.
        by: String,
        /// The rule.
        rule: u32,
    }
    /// An agent that was open between turns has a slot again.
    Woken {
        /// The attempt.
        attempt: AttemptNo,
    }
    /// An input or an answer was delivered.
    InputDelivered {
        /// The input.
        input: InputNo,
    }
    /// The agent opened a session.
    SessionStarted {
        /// The attempt.
        attempt: AttemptNo,
        /// Its offset in the recording.
        offset: u64,
        /// The agent's name for the session, if it has given one. It can be resumed only after a completed turn.
        reference: Option<String>,
        /// The conversation it resumes.
        resumed_from: Option<String>,
    }
    /// The session changed its state.
    SessionChanged {
        /// Its offset in the recording.
        offset: u64,
        /// The new state.
        state: SessionState,
        /// Processes or tasks of the agent that run outside a turn.
        background: u32,
        /// The time, by the awake clock of the host, for an agent that stays open between turns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awake: Option<Awake>,
    }
    /// A turn began.
    TurnStarted {
        /// Its offset in the recording.
        offset: u64,
        /// The turn.
        turn: TurnNo,
        /// When, by the awake clock. 0.1.0 did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awake: Option<Awake>,
        }
    /// The agent asked a person a question.
    QuestionAsked {
        /// Its offset in the recording.
        offset: u64,
        /// The agent's id of the question.
        question: String,
        /// The name by which a person answers it; that of 0.1.0 is the agent's id.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// The text of the question, in one line.
        text: String,
        /// All that is asked. 0.1.0 stored the text only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<Box<Ask>>,
        /// When, by the awake clock. 0.1.0 did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awake: Option<Awake>,
    }
    /// The agent withdrew a question.
    QuestionClosed {
        /// Its offset in the recording.
        offset: u64,
        /// The question.
        question: String,
    }
    /// The agent completed an item of work.
    ItemCompleted {
        /// Its offset in the recording.
        offset: u64,
        /// A one-line title.
        title: String,
    }
    /// Tokens or money were spent.
    Spent {
        /// Its offset in the recording.
        offset: u64,
        /// The usage since the last such fact.
        usage: Usage,
        /// Money, in millionths of a dollar, that earlier facts counted too much, by the agent's own total.
        #[serde(default, skip_serializing_if = "is_zero")]
        overcounted_micros: u64,
    }
    /// A turn ended, with its changes to the conversation.
    TurnEnded {
        /// Its offset in the recording, or the last one heard if the agent did not report it.
        offset: u64,
        /// The turn.
        turn: TurnNo,
        /// How it ended.
        ending: TurnEnding,
        /// The error, if any.
        error: Option<String>,
        /// Its changes to the conversation. Only a completed turn has any.
        commit: Option<Commit>,
        /// Whether the agent itself ended it when it was told to, instead of being killed. `None` if it was not told to, and in logs of
        /// 0.1.0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acknowledged: Option<bool>,
        /// When, by the awake clock, if it was interrupted: from then on the agent waits for a message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awake: Option<Awake>,
        /// How long it took, by the awake clock, without the time in which a person was asked. 0.1.0 did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active_ms: Option<u64>,
    }
    /// An attempt ended; its processes are gone, as far as the receipt proves.
    AttemptEnded {
        /// The attempt.
        attempt: AttemptNo,
        /// How it ended.
        outcome: Outcome,
        /// Why it ended.
        cause: Cause,
        /// The error, if any.
        error: Option<String>,
        /// The proof that nothing of it is left.
        receipt: Receipt,
        /// What cut the rest of its processes short after its work was over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cut_short: Option<Cause>,
        /// How long it ran, by the awake clock, without the time in which a person was asked. 0.1.0 did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran_ms: Option<u64>,
    }
    /// Another attempt will follow.
    RetryScheduled {
        /// The next attempt.
        attempt: AttemptNo,
        /// The earliest time for it.
        due: Timestamp,
    }
    /// The job ended. Nothing changes it any more.
    LastWord {
        /// How it ended.
        outcome: Outcome,
        /// Why it ended.
        cause: Cause,
        /// The deciding attempt, whose `attempt_ended` has the receipt. `None` if none was open.
        attempt: Option<AttemptNo>,
        /// When the stop was requested, if it was.
        requested_at: Option<Timestamp>,
        /// The requester of the stop, or the dependency that did not end as required.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    }
    /// Nothing of the job runs any more, and it ends when the jobs that are tied to it have ended.
    ChildrenAwaited {
        /// The last word that it will have.
        word: LastWord,
    }
    /// A report came too late. Recorded without effect.
    LateReported {
        /// The claim it was made under.
        epoch: Epoch,
        /// The report, in one line.
        what: String,
    }
}

impl TurnEnded {
    /// Returns the end of a turn that the agent did not end itself. It adds nothing to the conversation.
    pub(crate) fn without_commit(
        offset: u64,
        turn: TurnNo,
        ending: TurnEnding,
        error: Option<String>,
    ) -> TurnEnded {
        TurnEnded {
            offset,
            turn,
            ending,
            error,
            commit: None,
            acknowledged: ending.was_told().then_some(false),
            awake: None,
            active_ms: None,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
