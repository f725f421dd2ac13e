//! Rows of jobs as they change: a list that stays up to date, across daemons.

use std::collections::{HashSet, VecDeque};

use lastword_api::{Row, RowGone};

use crate::client::Client;
use crate::error::Error;
use crate::jobs::{Filter, list};
use crate::stream::{Frame, Frames};

/// A change of the rows that a filter selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// A row as it is now.
    Row(Box<Row>),
    /// The job of this id was removed, or no longer passes the filter.
    Gone(String),
    /// Every row has been told. It comes once after each break.
    Here,
}

/// The rows that a filter selects, and how they change.
#[derive(Debug)]
pub struct Rows {
    frames: Frames,
    /// The jobs that were told and are not gone.
    told: HashSet<String>,
    /// Those of them that this connection has told, until it has told all.
    again: Option<HashSet<String>>,
    /// The connection they are of.
    connection: u64,
    gone: VecDeque<RowChange>,
}

impl Client {
    /// Follows the rows that a filter selects: all of them, and then those that change. After a break all are told again, and those that are
    /// gone since.
    pub fn follow_rows(&self, filter: &Filter) -> Rows {
        let frames = self.frames(list(filter).untyped(), None);
        Rows { frames, told: HashSet::new(), again: None, connection: 0, gone: VecDeque::new() }
    }
}

impl Rows {
    /// Returns the next change. There is always another one.
    pub async fn next(&mut self) -> Result<RowChange, Error> {
        loop {
            if let Some(change) = self.gone.pop_front() {
                return Ok(change);
            }
            let frame = self.frames.next().await?;
            if self.connection != self.frames.connections() {
                self.connection = self.frames.connections();
                self.again = Some(HashSet::new());
            }
            if let Some(change) = self.take(&frame) {
                return Ok(change);
            }
        }
    }

    /// Returns what a frame tells; `None` if it is of no kind that this version knows.
    fn take(&mut self, frame: &Frame) -> Option<RowChange> {
        match frame.kind.as_str() {
            "row" => {
                let row: Row = serde_json::from_str(&frame.data).ok()?;
                self.told.insert(row.id.clone());
                if let Some(again) = &mut self.again {
                    again.insert(row.id.clone());
                }
                Some(RowChange::Row(Box::new(row)))
            }
            "gone" => {
                let RowGone { id } = serde_json::from_str(&frame.data).ok()?;
                self.told.remove(&id);
                if let Some(again) = &mut self.again {
                    again.remove(&id);
                }
                Some(RowChange::Gone(id))
            }
            "here" => {
                if let Some(again) = self.again.take() {
                    let gone = std::mem::replace(&mut self.told, again);
                    let gone = gone.into_iter().filter(|id| !self.told.contains(id));
                    self.gone = gone.map(RowChange::Gone).collect();
                }
                self.gone.push_back(RowChange::Here);
                self.gone.pop_front()
            }
            _ => None,
        }
    }
}
