//! The rule of an append: whether it is stored. Memory and SQLite call it; PostgreSQL checks in SQL, calls it to find out why an append was
//! refused, and is held to it by the conformance suite.

use lastword_core::{Append, AppendId, Fence, Seq};

use crate::{Error, Result};

/// Why a job is not ended in a pause.
const PAUSES: &str =
    "its database may have lost writes, so no job is ended before every lease from before that is over";

/// What the store holds of the job, read in the write's own transaction.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// Its version; zero if it does not exist.
    pub version: Seq,
    /// Its holder.
    pub holder: Option<&'a Fence>,
    /// Whether it has its last word.
    pub ended: bool,
    /// The append that wrote the event after the expected version, if there is one.
    pub next_written_by: Option<AppendId>,
    /// The instance of this database.
    pub instance: u64,
    /// Whether it pauses: see [`Instance::settling`](crate::Instance::settling).
    pub settling: bool,
}

/// What to do with an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Write,
    /// It is stored already: a repeat after a lost reply.
    Stored,
}

/// Decides whether an append is stored.
pub fn admit(append: &Append, standing: &Standing<'_>) -> Result<Verdict> {
    let fenced = Err(Error::Fenced { job: append.job });
    // First of all: what a life of another instance says counts for nothing here, not even that it repeats what is stored.
    let is_foreign = |fence: &Fence| fence.incarnation.instance != standing.instance;
    if append.fence.as_ref().is_some_and(is_foreign) {
        return fenced;
    }
    if standing.next_written_by == Some(append.id) {
        return Ok(Verdict::Stored);
    }
    let held = append.fence.as_ref().is_none_or(|fence| standing.holder == Some(fence));
    if !held {
        return fenced;
    }
    let conflict = Err(Error::Conflict { job: append.job, actual: standing.version });
    if standing.version != append.expected {
        return conflict;
    }
    // The events that it was decided on may be lost, and as many others stored in their place. A new job was not read.
    let is_stale = append.read_in.is_some_and(|instance| instance != standing.instance);
    if is_stale && standing.version > Seq(0) {
        return conflict;
    }
    if standing.ended && !append.may_follow_the_end() {
        return conflict;
    }
    // That the job was claimed and launched may be lost: its tree may be alive until its lease is over.
    let may_have_a_tree = standing.settling && standing.version > Seq(0) && !standing.ended;
    if may_have_a_tree && append.fence.is_none() && append.ends() {
        return Err(Error::Unavailable(PAUSES.to_owned()));
    }
    Ok(Verdict::Write)
}
