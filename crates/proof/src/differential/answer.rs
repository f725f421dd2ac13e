//! Answers of a journal without what may differ between two that do the same.

use std::collections::BTreeMap;

use lastword_core::budget::Spent;
use lastword_core::view::row::Row;
use lastword_core::{Event, Fact, Incarnation, JobId, Seq};
use lastword_store::{Claimed, Error, KeyRecord, Removal, Renewed, Result};

use super::Operation;

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There was nothing it could be done to.
    Nothing,
    /// An append was answered.
    Appended(Result<Seq>),
    /// A claim was answered.
    Taken(Result<Vec<Claimed>>),
    /// A renewal was answered.
    Renewed(Result<Renewed>),
    /// The end of a life was answered.
    LifeEnded(Result<bool>),
    /// Events were loaded.
    Loaded(Result<Vec<Event>>),
    /// A group was set.
    Set(Result<()>),
    /// What an owner holds was read.
    Held(Result<Vec<JobId>>),
    /// A key was answered.
    Keyed(Result<KeyRecord>),
    /// A job was removed.
    Removed(Result<Removal>),
    /// Rows were read.
    Rows(Result<Vec<Row>>),
    /// What the groups spent was read.
    Spent(Result<Vec<(String, Spent)>>),
    /// Everything was read: rows, logs, the feed sorted into logs, and what the groups spent.
    Everything(Vec<Row>, BTreeMap<JobId, Vec<Event>>, BTreeMap<JobId, Vec<Event>>, Vec<(String, Spent)>),
}

impl Answer {
    fn error(&self) -> Option<&Error> {
        match self {
            Answer::Nothing | Answer::Everything(..) => None,
            Answer::Appended(answer) => answer.as_ref().err(),
            Answer::Taken(answer) => answer.as_ref().err(),
            Answer::Renewed(answer) => answer.as_ref().err(),
            Answer::Loaded(answer) => answer.as_ref().err(),
            Answer::Set(answer) => answer.as_ref().err(),
            Answer::Held(answer) => answer.as_ref().err(),
            Answer::Keyed(answer) => answer.as_ref().err(),
            Answer::LifeEnded(answer) => answer.as_ref().err(),
            Answer::Removed(answer) => answer.as_ref().err(),
            Answer::Rows(answer) => answer.as_ref().err(),
            Answer::Spent(answer) => answer.as_ref().err(),
        }
    }

    /// Reports whether the journal failed: two that fail alike are not thereby right.
    pub fn is_failure(&self) -> bool {
        matches!(self.error(), Some(Error::Unavailable(_) | Error::Corrupt(_)))
    }
}

/// Lives in the order in which one journal gave them.
#[derive(Debug, Default)]
pub(super) struct Lives(Vec<Incarnation>);

impl Lives {
    /// Notes a life.
    pub(super) fn begin(&mut self, incarnation: Incarnation) {
        self.0.push(incarnation);
    }

    /// Replaces a life by its place in that order. One that was never given stays, and shows as a difference.
    pub(super) fn plain(&self, incarnation: &mut Incarnation) {
        if let Some(place) = self.0.iter().position(|life| life == incarnation) {
            *incarnation = Incarnation { instance: 0, number: place as u64 };
        }
    }

    /// The same for every event of a log.
    pub(super) fn plain_events(&self, events: &mut [Event]) {
        for event in events {
            if let Fact::Claimed(claimed) = &mut event.fact {
                self.plain(&mut claimed.incarnation);
            }
        }
    }

    /// The same for rows.
    pub(super) fn plain_rows(&self, rows: &mut [Row]) {
        rows.iter_mut()
            .filter_map(|row| row.holder.as_mut())
            .for_each(|fence| self.plain(&mut fence.incarnation));
    }
}

/// What a run has met: a comparison of nothing but refusals would prove little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Appends that were written or found written.
    pub appended: u64,
    /// Repeats that were found written.
    pub repeated: u64,
    /// Writes at another version.
    pub conflicts: u64,
    /// Writes by callers that do not hold the job.
    pub fenced: u64,
    /// Calls by owners whose lease was over.
    pub lapsed: u64,
    /// Jobs taken from a queue.
    pub claimed: u64,
    /// Jobs taken over.
    pub taken_over: u64,
    /// News told.
    pub news: u64,
    /// Jobs that ended.
    pub ended: u64,
    /// Keys that stood for a removed job.
    pub outlived: u64,
}

impl Coverage {
    /// Counts one answer.
    pub fn count(&mut self, operation: &Operation, answer: &Answer) {
        match answer {
            Answer::Appended(Ok(_)) => {
                self.appended += 1;
                self.repeated += u64::from(matches!(operation, Operation::Repeat { .. }));
            }
            Answer::Taken(Ok(taken)) if matches!(operation, Operation::TakeOver { .. }) => {
                self.taken_over += taken.len() as u64;
            }
            Answer::Taken(Ok(taken)) => self.claimed += taken.len() as u64,
            Answer::Renewed(Ok(renewed)) => self.news += renewed.news.len() as u64,
            Answer::Keyed(Ok(record)) => self.outlived += u64::from(record.removed.is_some()),
            Answer::Everything(rows, ..) => {
                self.ended += rows.iter().filter(|row| row.outcome.is_some()).count() as u64;
            }
            _ => {}
        }
        match answer.error() {
            Some(Error::Conflict { .. }) => self.conflicts += 1,
            Some(Error::Fenced { .. }) => self.fenced += 1,
            Some(Error::Lapsed { .. }) => self.lapsed += 1,
            _ => {}
        }
    }

    /// Adds another run.
    pub fn add(&mut self, more: &Coverage) {
        let Coverage {
            appended,
            repeated,
            conflicts,
            fenced,
            lapsed,
            claimed,
            taken_over,
            news,
            ended,
            outlived,
        } = self;
        *appended += more.appended;
        *repeated += more.repeated;
        *conflicts += more.conflicts;
        *fenced += more.fenced;
        *lapsed += more.lapsed;
        *claimed += more.claimed;
        *taken_over += more.taken_over;
        *news += more.news;
        *ended += more.ended;
        *outlived += more.outlived;
    }

    /// Reports whether everything was met at least once.
    pub fn is_full(&self) -> bool {
        let Coverage {
            appended,
            repeated,
            conflicts,
            fenced,
            lapsed,
            claimed,
            taken_over,
            news,
            ended,
            outlived,
        } = *self;
        [appended, repeated, conflicts, fenced, lapsed, claimed, taken_over, news, ended, outlived]
            .iter()
            .all(|count| *count > 0)
    }
}
