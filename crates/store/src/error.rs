//! Why a call did not succeed, by what its caller can do.

use lastword_core::{JobId, OwnerId, Seq};

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another writer was faster: load what is new and decide again.
    #[error("{job} has moved on to event {actual}: load it and decide again")]
    Conflict {
        /// Which job.
        job: JobId,
        /// Its version now.
        actual: Seq,
    },
    /// The caller does not hold the job any more: let go of it and change nothing.
    #[error("{job} is held by another owner: let go of it")]
    Fenced {
        /// Which job.
        job: JobId,
    },
    /// The life of the owner is over, a later one has registered, or the database was replaced: register again.
    #[error("the lease of {owner} is over: it must register again before it takes jobs")]
    Lapsed {
        /// Which owner.
        owner: OwnerId,
    },
    /// The owner's life at another place is not over: its trees may be alive there. Wait until it is, or use another name.
    #[error(
        "{owner} runs on another host, or in another boot of this one: it can start here once its lease there is over"
    )]
    Taken {
        /// Which owner.
        owner: OwnerId,
    },
    /// The lease is longer than any that the journal gives. After a loss it waits for the longest before it goes on.
    #[error("the lease of {owner} is too long: {lease_ms} ms, and this journal gives at most {max_ms} ms")]
    LeaseTooLong {
        /// Which owner.
        owner: OwnerId,
        /// What it asked for.
        lease_ms: u64,
        /// What it may ask for.
        max_ms: u64,
    },
    /// The journal cannot be used now. Whether the write happened is unknown: repeat the very same call.
    #[error("the journal cannot be used now ({0}): repeat the same call")]
    Unavailable(String),
    /// A newer build wrote it. Nothing is wrong with it.
    #[error(
        "the journal is of a newer version: its schema is number {found}, and this build knows {known}; upgrade to open it"
    )]
    Newer {
        /// The number of its schema.
        found: i64,
        /// The number that this build knows.
        known: i64,
    },
    /// What is stored cannot be read, or breaks a rule: a person must look. Never treated as empty.
    #[error("the journal is damaged: {0}")]
    Corrupt(String),
    /// The caller may not do this. Nothing was changed, and repeating the call changes nothing.
    #[error("{0}")]
    Refused(String),
}

/// What a call returns.
pub type Result<T> = std::result::Result<T, Error>;
