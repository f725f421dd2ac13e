//! Enrolments of workers: which token proves which name, and how much work the fleet has.
//!
//! A person invites a name and gets a one-time token, which the worker exchanges for its own. Only hashes of tokens are stored. A name belongs
//! to one enrolment: a later one replaces the token of the earlier. Not part of [`Store`](crate::Store), because a laptop has no workers.

use std::fmt;
use std::future::Future;

use lastword_core::worker_labels::WorkerLabels;
use lastword_core::{OwnerId, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// How long a one-time token can be used.
pub const INVITATION_MS: u64 = 10 * 60 * 1_000;

/// How long an invitation is remembered after that, so that its token is refused with the reason.
pub(crate) const REMEMBERED_MS: u64 = 24 * 60 * 60 * 1_000;

/// Stores enrolments.
pub trait Enrolments: Clone + Send + Sync + 'static {
    /// Stores a one-time token for a name, in place of an earlier one that was not used.
    fn invite(&self, invitation: Invitation) -> impl Future<Output = Result<()>> + Send;

    /// Uses a one-time token: its name is enrolled with a new token, and returned. Of many calls with one token one succeeds.
    fn enrol(
        &self,
        enrolling: Enrolling,
    ) -> impl Future<Output = Result<std::result::Result<OwnerId, NotEnrolled>>> + Send;

    /// Returns the worker that a token proves; `None` if it was replaced or revoked, or never was one.
    fn worker_of(&self, token: TokenHash) -> impl Future<Output = Result<Option<EnrolledWorker>>> + Send;

    /// Returns every enrolment, by name, also those that were revoked.
    fn workers(&self) -> impl Future<Output = Result<Vec<EnrolledWorker>>> + Send;

    /// Stores what a worker says of itself, and to which server it does.
    fn describe(
        &self,
        name: OwnerId,
        said: Said,
        server: Option<OwnerId>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Stores how other servers reach one.
    fn announce(&self, server: ServerDoor) -> impl Future<Output = Result<()>> + Send;

    /// Returns the server to which a worker last connected, if that was announced.
    fn server_of(&self, worker: OwnerId) -> impl Future<Output = Result<Option<ServerDoor>>> + Send;

    /// Revokes the enrolment and the invitation of a name. Reports whether there is such a name; a second call changes nothing.
    fn revoke(&self, name: OwnerId, now: Timestamp) -> impl Future<Output = Result<bool>> + Send;

    /// Returns how many jobs are held and how many wait, at `now`.
    fn workload(&self, now: Timestamp) -> impl Future<Output = Result<Workload>> + Send;
}

/// A secret of 256 random bits, as text. It is shown once, and never stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Makes a new one.
    pub fn make() -> Result<Token> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::Unavailable(format!("this system gives no random bytes: {error}")))?;
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns its text.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns what is stored of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// Not the token: what is printed for debugging ends up in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The SHA-256 of a token. Tokens are found by it, so no comparison takes a time that depends on a stored secret; a token has too many bits
/// to be guessed from its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Returns the hash of what a stranger calls its token.
    pub fn of(token: &str) -> TokenHash {
        TokenHash(Sha256::digest(token).into())
    }
}

/// A name that a worker may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The one-time token.
    pub token: TokenHash,
    /// The name.
    pub name: OwnerId,
    /// What its worker has.
    pub labels: WorkerLabels,
    /// The caller's wall clock. A database that several servers share goes by its own.
    pub now: Timestamp,
}

/// A one-time token and what it is exchanged for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolling {
    /// The one-time token.
    pub one_time: TokenHash,
    /// The token of the worker from now on. A call that is repeated with the same one is the same call.
    pub token: TokenHash,
    /// The caller's wall clock, as in [`Invitation::now`].
    pub now: Timestamp,
}

/// Why a one-time token enrols nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEnrolled {
    /// It was never given out, or another one was given out for its name.
    Unknown,
    /// It was used.
    Used,
    /// Its time is over.
    Expired,
}

/// A worker as it is enrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrolledWorker {
    /// Its name.
    pub name: OwnerId,
    /// What proves it.
    pub token: TokenHash,
    /// What it has.
    pub labels: WorkerLabels,
    /// Since when.
    pub enrolled_at: Timestamp,
    /// Since when not any more.
    pub revoked_at: Option<Timestamp>,
    /// What it last said of itself.
    pub said: Said,
}

/// What a worker says of itself. Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The version of its program.
    pub version: Option<String>,
    /// How many jobs it runs at once.
    pub slots: Option<u32>,
    /// The name of its host.
    pub host: Option<String>,
}

/// How the other servers of a fleet reach one. They share its database, so its token needs no other place.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerDoor {
    /// Its name.
    pub name: OwnerId,
    /// Where it listens, as `host:port`.
    pub address: String,
    /// The SHA-256 of its certificate, as text.
    pub fingerprint: String,
    /// Proves another server to it.
    pub token: String,
}

/// Without the token.
impl fmt::Debug for ServerDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDoor")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// How much work the fleet has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The jobs that are held, by owner.
    pub held: Vec<HeldJobs>,
    /// How many jobs are due and wait for a worker with these labels. Those of paused groups wait for something else.
    pub waiting: Vec<(WorkerLabels, u64)>,
}

/// Jobs of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldJobs {
    /// The owner.
    pub owner: OwnerId,
    /// How many its living incarnation holds.
    pub live: u64,
    /// How many are held by incarnations whose lives are over: they wait to be taken over.
    pub left: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_different_and_not_printed() {
        let (one, other) = (Token::make().unwrap(), Token::make().unwrap());
        assert_eq!(one.reveal().len(), 64);
        assert_ne!(one, other);
        assert_ne!(one.hash(), other.hash());
        assert_eq!(TokenHash::of(one.reveal()), one.hash());
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}
