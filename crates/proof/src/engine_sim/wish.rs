//! Wishes of clients, how far each is, and what the engine answers.

use lastword_core::decide::Refusal;
use lastword_core::limits::Limit;
use lastword_core::view::row::Row;
use lastword_core::{Job, JobId};
use lastword_engine::{Group, Settled};

use super::plan::Planned;

/// A client with a wish.
pub(super) struct Client {
    /// The host whose engine it asks.
    pub(super) host: usize,
    pub(super) wish: Wish,
    pub(super) state: State,
    /// It goes away after so long.
    pub(super) patience_ms: Option<u64>,
    /// It has asked before.
    pub(super) asked: bool,
}

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has not asked yet.
    Waiting,
    /// It asks, since then.
    Asking(u64),
    /// It has its answer, or wants none any more; since then.
    Done(u64),
}

/// What is wanted.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    Submit(Planned),
    Cancel { job: JobId, force: bool },
    SetLimit { job: JobId, limit: Limit, value: u64 },
    Send { job: JobId, text: String, eof: bool },
    Retry(JobId),
    Abandon(JobId),
    Read(JobId),
    List,
    Wait { job: JobId, ms: u64 },
    SetGroup(Group),
    Remove(JobId),
    Prune,
    ShutDown,
}

/// What a client was told.
pub(super) enum Answer {
    Job(Job),
    /// A keeper holds the stop that the journal could not store; the job as stored.
    Held(Box<Job>),
    Read(Settled<Job>),
    Rows(Settled<Vec<Row>>),
    Done,
    /// A well-formed no.
    Refused(Refusal),
    /// It is not known whether it was done.
    Failed(String),
    /// The client went away first.
    Gone,
}

/// Returns an answer in words.
pub(super) fn said(answer: &Answer) -> String {
    match answer {
        Answer::Job(job) => format!("#{} {:?}", job.version, job.phase),
        Answer::Held(job) => format!("held, #{} {:?}", job.version, job.phase),
        Answer::Read(read) => {
            format!("#{} {:?}, unsettled {}", read.value.version, read.value.phase, read.unsettled)
        }
        Answer::Rows(rows) => format!("{} rows, unsettled {}", rows.value.len(), rows.unsettled),
        Answer::Done => "done".to_owned(),
        Answer::Refused(refusal) => format!("no: {refusal}"),
        Answer::Failed(why) => format!("failed: {why}"),
        Answer::Gone => "nothing, because it is gone".to_owned(),
    }
}

impl Wish {
    /// Returns the job it is about.
    pub(super) fn job(&self) -> Option<JobId> {
        match self {
            Wish::Submit(planned) => Some(planned.id),
            Wish::Cancel { job, .. }
            | Wish::SetLimit { job, .. }
            | Wish::Send { job, .. }
            | Wish::Retry(job)
            | Wish::Abandon(job)
            | Wish::Read(job)
            | Wish::Wait { job, .. }
            | Wish::Remove(job) => Some(*job),
            Wish::List | Wish::SetGroup(_) | Wish::Prune | Wish::ShutDown => None,
        }
    }
}
