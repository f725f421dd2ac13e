//! What is stored: the journal, and what belongs to it.
//!
//! | table | one row per | written by |
//! |---|---|---|
//! | `events` | event, keyed by job and number | every append, never changed |
//! | `jobs` | job: version, phase, holder, ending, views | the same append |
//! | `ready` | job that may be claimed | the append that makes it so; a claim deletes it |
//! | `owners` | worker or daemon: incarnation, end of lease | `renew` |
//! | `dependencies` | job that waits for another | the append that begins or ends the wait |
//! | `conversations` | provider reference that a held job drives | claims and appends |
//! | `keys` | key of a request that may be repeated | [`Keys`] |
//! | `groups` | group: its slots, whether it is paused | [`Groups`] |
//! | `workers`, `invitations` | worker of a fleet, name that one may take | [`Enrolments`] |
//! | `servers` | server of a fleet: how others reach it | [`Enrolments`] |
//! | `removals` | removed job whose files a worker still has | [`Removals`] |
//! | `meta` | the database itself: its instance, whether that pauses | opening it; `settle` |
//!
//! Four traits, each for one kind of caller:
//!
//! - [`Journal`]: logs and their owners. A worker needs nothing else to claim jobs and drive them.
//! - [`Catalog`]: jobs as people see them: lists, names, and removing what has ended.
//! - [`Groups`]: how many jobs of a group may run at once. A claim reads them in its own transaction.
//! - [`Keys`]: requests that a client repeats because a reply was lost.
//!
//! [`Store`] is all four. [`Enrolments`] and [`Removals`] are for the servers of a fleet. Output is not in the journal: [`attempts`] says how
//! it is read from the host that has it. Decisions about jobs are in `core`; a journal makes sure that a decision counts exactly once, for the version and
//! the holder it was made for. The rules that every journal shares are `admit.rs` (appends) and `claim.rs` (claims); the conformance
//! suite in `crates/proof` holds all journals to them.
//!
//! Tests: `crates/proof`. Every journal runs through `conformance` and `differential`, and is killed in `crash` and `power_loss`.

pub mod admit;
pub mod attempts;
mod catalog;
mod claim;
mod enrolments;
mod error;
mod groups;
mod high_water;
pub mod hints;
mod journal;
mod keys;
mod list;
pub mod memory;
pub mod postgres;
mod removals;
pub mod sqlite;
mod waits;
mod workers;

pub use attempts::Attempts;
pub use catalog::{Catalog, Counts, FOUND_MAX, GroupCounts, Prunable, Prune, Removal};
pub use enrolments::{
    EnrolledWorker, Enrolling, Enrolments, HeldJobs, INVITATION_MS, Invitation, NotEnrolled, Said,
    ServerDoor, Token, TokenHash, Workload,
};
pub use error::{Error, Result};
pub use groups::{Group, Groups};
pub use high_water::Behind;
pub use journal::{
    Beats, Claim, Claimed, Cursor, Feed, Instance, Journal, Line, Ready, Renew, Renewed, Source,
};
pub use keys::{KEY_MS, Key, KeyRecord, Keys};
pub use list::{After, Filter, List, Listed};
pub use removals::Removals;
pub use waits::WaitOver;
pub use workers::Workers;

/// Everything that a supervisor with its own database stores: the four traits together.
pub trait Store: Journal + Catalog + Groups + Keys {}

impl<S: Journal + Catalog + Groups + Keys> Store for S {}
