//! The wire: every verb of the store with its answer, and the form of each type that is carried, as JSON.
//!
//! A verb is one entry of `verbs!`. A type of core or store that has no stored form gets its own here, field by field: a field that is
//! added there does not compile before it has a form. Facts are carried as they are stored. A field that a later build adds
//! needs `#[serde(default)]`, so that builds of one version of the protocol understand each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use lastword_core::budget::{Budget, Day, Spent};
use lastword_core::decide::claim::Claimant;
use lastword_core::event::Stored;
use lastword_core::life::{Life, Place};
use lastword_core::outcome::Outcome;
use lastword_core::reference::Reference;
use lastword_core::spec::ProviderSession;
use lastword_core::view::row::{PhaseName, Row, Section, Summary};
use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{
    Append, AppendId, AttemptNo, Event, Fact, Fence, HostId, Incarnation, JobId, OwnerId, Seq, Timestamp,
};
use lastword_store::hints::Hint;
use lastword_store::{
    After, Claim, Counts, Cursor, Error, Feed, Filter, Group, GroupCounts, Instance, Key, KeyRecord, Line,
    List, Listed, Prunable, Prune, Ready, Removal, Renew, Renewed, Source, WaitOver,
};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ask::Ask;
use crate::carried::{self, Carried, as_defined, as_they_are};

/// The protocol and its version, as TLS negotiates them.
pub(crate) const PROTOCOL: &[u8] = b"lastword-link/1";

/// The first message of a client.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Proves which principal it is.
    pub(crate) token: String,
    /// The version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// How many jobs it runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slots: Option<u32>,
    /// The name of its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
}

/// The first message of a client that has no token yet.
#[derive(Serialize, Deserialize)]
pub(crate) struct Enrol {
    /// A token that is good for this once.
    pub(crate) one_time: String,
}

/// The answer of a server that gives it one.
#[derive(Serialize, Deserialize)]
pub(crate) struct Enrolled {
    /// The name that the token proves.
    pub(crate) name: String,
    /// The token.
    pub(crate) token: String,
}

/// The answer of a server that lets it in.
#[derive(Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// Names the journal behind the server. It stays the same over failovers, and every server of a fleet says the same.
    pub(crate) journal: String,
}

/// A verb, as a client calls it.
pub(crate) trait Verb: Into<Request> {
    /// What a call returns.
    type Answer: Carried;
}

macro_rules! verbs {
    ($($name:ident { $($field:ident: $type:ty),* } -> $answer:ty;)*) => {
        /// A request.
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum Request {
            $($name($name),)*
        }

        #[cfg(test)]
        impl Request {
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Request::$name(_) => stringify!($name),)*
                }
            }
        }

        $(#[derive(Debug, Serialize, Deserialize)]
        pub(crate) struct $name {
            $(#[serde(with = "carried")] pub(crate) $field: $type,)*
        }

        impl Verb for $name {
            type Answer = $answer;
        }

        impl From<$name> for Request {
            fn from(verb: $name) -> Request {
                Request::$name(verb)
            }
        })*
    };
}

impl Request {
    /// Reports whether it overtakes others: a lease that is renewed late is lost, with everything that runs under it.
    pub(crate) fn is_urgent(&self) -> bool {
        matches!(self, Request::RenewLease(_))
    }
}

verbs! {
    LoadLog { job: JobId, after: Seq } -> Log;
    StoreAppend { append: Append } -> Seq;
    TakeJobs { claim: Claim } -> Vec<Taken>;
    StoreAndTake { append: Append, claim: Claim } -> (Result<Seq, Error>, Result<Vec<Taken>, Error>);
    RenewLease { renew: Renew } -> Renewed;
    ReadLives { } -> Vec<Life>;
    EndLife { life: Incarnation, beat: u64 } -> bool;
    ReadInstance { } -> Instance;
    Settle { instance: Instance } -> bool;
    Held { by: Incarnation, after: Option<JobId>, limit: u32 } -> Vec<JobId>;
    ReadFeed { after: Option<Cursor>, limit: u32 } -> Feed;
    FeedEnd { } -> Option<Cursor>;
    Dependents { other: JobId } -> Vec<JobId>;
    WaitsOver { after: Option<(JobId, JobId)>, limit: u32 } -> Vec<WaitOver>;
    ReadReady { now: Timestamp } -> Ready;
    ReadRow { job: JobId } -> Option<Row>;
    ReadRows { filter: Filter, before: Option<JobId>, limit: u32 } -> Vec<Row>;
    ReadList { list: List } -> Vec<Listed>;
    Find { reference: Reference } -> Vec<Row>;
    Count { } -> Counts;
    MarkSeen { job: JobId, now: Timestamp } -> ();
    FindPrunable { prune: Prune } -> Prunable;
    Remove { job: JobId, now: Timestamp } -> Removal;
    ReadGroups { } -> Vec<Group>;
    AddGroup { group: Group } -> Group;
    SetGroup { group: Group } -> ();
    SpentOn { day: Day } -> Vec<(String, Spent)>;
    RemoveGroup { name: String } -> bool;
    StoreKey { key: Key } -> KeyRecord;
    AskWorker { owner: OwnerId, ask: Ask } -> ();
    ReadListed { jobs: Vec<JobId> } -> Vec<Listed>;
    CountByGroup { } -> GroupCounts;
}

/// A part of a log: as much as fits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Log {
    /// The events.
    #[serde(with = "carried")]
    pub(crate) events: Vec<Event>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// A job that was taken, with as much of its log as fits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Taken {
    /// Which job.
    pub(crate) job: JobId,
    /// The beginning of its log.
    #[serde(with = "carried")]
    pub(crate) events: Vec<Event>,
    /// The number of its last event. The client loads what is missing.
    pub(crate) version: Seq,
    /// What the owner writes under.
    pub(crate) fence: Fence,
}

as_they_are!(JobId, Seq, Timestamp, Incarnation, OwnerId, Counts, GroupCounts, Log, Taken, Ask);

/// An event, with its fact as it is stored.
#[derive(Serialize, Deserialize)]
struct EventForm {
    seq: Seq,
    at: Timestamp,
    kind: String,
    version: u16,
    body: String,
}

impl Carried for Event {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Stored { kind, version, body } = self.fact.encode();
        EventForm { seq: self.seq, at: self.at, kind, version, body }.serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Event, D::Error> {
        let EventForm { seq, at, kind, version, body } = EventForm::deserialize(from)?;
        let fact = Fact::decode(Stored { kind, version, body }).map_err(D::Error::custom)?;
        Ok(Event { seq, at, fact })
    }
}

/// A reference is carried as the text that means it.
impl Carried for Reference {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Reference::Last => to.serialize_str(lastword_core::reference::LAST),
            Reference::Id(job) => job.serialize(to),
            Reference::Loose(loose) => to.serialize_str(&loose.text),
        }
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Reference, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Numbers that JSON readers would round.
mod wide {
    use super::*;

    pub(super) fn serialize<S: Serializer>(number: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{number:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        u128::from_str_radix(&String::deserialize(from)?, 16).map_err(D::Error::custom)
    }
}

macro_rules! forms {
    ($($form:item)*) => {
        $(#[derive(Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        $form)*
    };
}

forms! {
    #[serde(remote = "AppendId")]
    struct AppendIdForm(#[serde(with = "wide")] u128);

    #[serde(remote = "Append")]
    struct AppendForm {
        job: JobId,
        expected: Seq,
        fence: Option<Fence>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        read_in: Option<u64>,
        #[serde(with = "AppendIdForm")]
        id: AppendId,
        at: Timestamp,
        #[serde(with = "carried")]
        events: Vec<Event>,
        #[serde(with = "RowForm")]
        row: Row,
    }

    #[serde(remote = "Row")]
    struct RowForm {
        job: JobId,
        version: Seq,
        phase: PhaseName,
        group: String,
        priority: i16,
        due: Option<Timestamp>,
        holder: Option<Fence>,
        outcome: Option<Outcome>,
        least_reader: u16,
        drives: Option<ProviderSession>,
        conversation: Option<JobId>,
        submitted_at: Timestamp,
        updated_at: Timestamp,
        changed_at: Timestamp,
        summary: Summary,
    }

    #[serde(remote = "Claim")]
    struct ClaimForm {
        #[serde(with = "ClaimantForm")]
        by: Claimant,
        #[serde(with = "SourceForm")]
        from: Source,
        labels: WorkerLabels,
        at_most: u32,
        now: Timestamp,
    }

    #[serde(remote = "Claimant")]
    struct ClaimantForm {
        owner: OwnerId,
        incarnation: Incarnation,
        host: HostId,
        boot: Option<Arc<str>>,
    }

    #[serde(remote = "Source")]
    enum SourceForm {
        Ready { group: String, slots: Option<u32> },
        Expired,
        Alive { trees: Vec<(JobId, AttemptNo)> },
    }

    #[serde(remote = "Renew")]
    struct RenewForm {
        owner: OwnerId,
        #[serde(with = "PlaceForm")]
        place: Place,
        incarnation: Option<Incarnation>,
        lease_ms: u64,
    }

    #[serde(remote = "Place")]
    struct PlaceForm {
        host: HostId,
        boot: Arc<str>,
    }

    #[serde(remote = "Renewed")]
    struct RenewedForm {
        incarnation: Incarnation,
        beat: u64,
        news: Vec<JobId>,
        settling: bool,
    }

    #[serde(remote = "Life")]
    struct LifeForm {
        owner: OwnerId,
        incarnation: Incarnation,
        #[serde(with = "PlaceForm")]
        place: Place,
        beat: u64,
        lease_ms: u64,
    }

    #[serde(remote = "Instance")]
    struct InstanceForm {
        number: u64,
        settling: Option<u64>,
        lease_max_ms: u64,
    }

    #[serde(remote = "Cursor")]
    struct CursorForm(String);

    #[serde(remote = "Feed")]
    struct FeedForm {
        #[serde(with = "carried")]
        events: Vec<(JobId, Event)>,
        #[serde(with = "carried")]
        next: Option<Cursor>,
    }

    #[serde(remote = "WaitOver")]
    struct WaitOverForm {
        other: JobId,
        job: JobId,
        outcome: Option<Outcome>,
    }

    #[serde(remote = "Line")]
    struct LineForm {
        group: String,
        labels: String,
    }

    #[serde(remote = "Ready")]
    struct ReadyForm {
        #[serde(with = "carried")]
        lines: Vec<Line>,
        next_ms: Option<u64>,
    }

    #[serde(remote = "Hint")]
    enum HintForm {
        Commit,
        News(JobId),
        Ready(String),
    }

    #[serde(remote = "Filter")]
    struct FilterForm {
        phases: Vec<PhaseName>,
        outcome: Option<String>,
        group: Option<String>,
        name: Option<String>,
        labels: BTreeMap<String, String>,
        cwd: Option<String>,
        parent: Option<JobId>,
        conversation: Option<JobId>,
        is_newest: bool,
        changed_since: Option<Timestamp>,
    }

    #[serde(remote = "Section")]
    enum SectionForm {
        NeedsPerson,
        Unread,
        Live,
        Read,
        Continued,
    }

    #[serde(remote = "List")]
    struct ListForm {
        #[serde(with = "FilterForm")]
        filter: Filter,
        #[serde(with = "carried")]
        sections: Vec<Section>,
        #[serde(with = "carried")]
        after: Option<After>,
        limit: u32,
    }

    #[serde(remote = "After")]
    struct AfterForm {
        #[serde(with = "SectionForm")]
        section: Section,
        changed_at: Timestamp,
        job: JobId,
        since: Timestamp,
        now: Timestamp,
    }

    #[serde(remote = "Listed")]
    struct ListedForm {
        #[serde(with = "RowForm")]
        row: Row,
        #[serde(with = "SectionForm")]
        section: Section,
    }

    #[serde(remote = "Prune")]
    struct PruneForm {
        before: Timestamp,
        unread: bool,
        limit: u32,
    }

    #[serde(remote = "Prunable")]
    struct PrunableForm {
        jobs: Vec<JobId>,
        kept_unread: u64,
    }

    #[serde(remote = "Removal")]
    enum RemovalForm {
        Gone,
        NotEnded,
        Awaited,
        NotThere,
    }

    #[serde(remote = "Group")]
    struct GroupForm {
        name: String,
        slots: Option<u32>,
        paused: bool,
        #[serde(with = "BudgetForm")]
        budget: Budget,
    }

    #[serde(remote = "Budget")]
    struct BudgetForm {
        tokens: Option<u64>,
        money_micros: Option<u64>,
    }

    #[serde(remote = "Spent")]
    struct SpentForm {
        tokens: i64,
        money_micros: i64,
    }

    #[serde(remote = "Day")]
    struct DayForm(u64);

    #[serde(remote = "Key")]
    struct KeyForm {
        key: String,
        #[serde(with = "wide")]
        fingerprint: u128,
        job: JobId,
        now: Timestamp,
    }

    #[serde(remote = "KeyRecord")]
    struct KeyRecordForm {
        job: JobId,
        #[serde(with = "wide")]
        fingerprint: u128,
        replayed: bool,
        removed: Option<Timestamp>,
    }

    #[serde(remote = "Error")]
    enum ErrorForm {
        Conflict { job: JobId, actual: Seq },
        Fenced { job: JobId },
        Lapsed { owner: OwnerId },
        Taken { owner: OwnerId },
        LeaseTooLong { owner: OwnerId, lease_ms: u64, max_ms: u64 },
        Unavailable(String),
        Newer { found: i64, known: i64 },
        Corrupt(String),
        Refused(String),
    }
}

as_defined! {
    Append as AppendForm,
    Claim as ClaimForm,
    Renew as RenewForm,
    Renewed as RenewedForm,
    Life as LifeForm,
    Instance as InstanceForm,
    Cursor as CursorForm,
    Feed as FeedForm,
    WaitOver as WaitOverForm,
    Line as LineForm,
    Ready as ReadyForm,
    Hint as HintForm,
    Row as RowForm,
    Filter as FilterForm,
    Section as SectionForm,
    List as ListForm,
    After as AfterForm,
    Listed as ListedForm,
    Prune as PruneForm,
    Prunable as PrunableForm,
    Removal as RemovalForm,
    Group as GroupForm,
    Spent as SpentForm,
    Day as DayForm,
    Key as KeyForm,
    KeyRecord as KeyRecordForm,
    Error as ErrorForm,
}
