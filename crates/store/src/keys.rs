//! Keys of requests that a client repeats because a reply was lost: a key belongs to the job of the first request, even after the job was
//! removed.

use std::future::Future;

use lastword_core::{JobId, Timestamp};

use crate::Result;

/// How long a key stands at least: after its request if there is no job, after the removal of its job otherwise. While its job is stored it
/// does not expire. A request that is repeated after a week does not follow a lost reply.
pub const KEY_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Old keys that are looked at when one is added: more than one, so that the table shrinks when fewer come in.
pub(crate) const SWEPT_MAX: u32 = 16;

/// Stores keys.
pub trait Keys: Clone + Send + Sync + 'static {
    /// Stores a key for a job, or returns what is stored for it.
    fn key(&self, key: Key) -> impl Future<Output = Result<KeyRecord>> + Send;
}

/// A key that a client made for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub key: String,
    /// Distinguishes the request from another one under the same key.
    pub fingerprint: u128,
    /// The job of the request.
    pub job: JobId,
    /// The caller's wall clock.
    pub now: Timestamp,
}

/// What is stored for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The job of the first request.
    pub job: JobId,
    /// The fingerprint of the first request.
    pub fingerprint: u128,
    /// Whether it was stored before this request.
    pub replayed: bool,
    /// When its job was removed.
    pub removed: Option<Timestamp>,
}
