//! Reads the recording of an attempt as items, from a cursor on.

use std::collections::VecDeque;
use std::time::Duration;

use lastword_agents::{BadPlace, Change, Kind, PART_BYTES_MAX, Place, Status, Transcript};
use lastword_api::{Item, ItemKind, ItemStatus};
use lastword_core::{AttemptNo, Job, JobId};
use lastword_engine::Stream;
use lastword_store::Store;
use tokio::time::Instant;

use super::cursor::Cursor;
use crate::app::App;
use crate::failure::Failure;
use crate::output::{OutputQuery, wait_for_piece};

/// Bytes of the recording per read.
const READ_BYTES: usize = 64 << 10;

/// How a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// More may be there.
    More,
    /// Nothing more is there now.
    Nothing,
    /// Nothing follows.
    End,
    /// The batch has no room for the next item.
    Full,
}

/// Reads an attempt.
pub(super) struct Reader<J> {
    app: App<J>,
    id: JobId,
    /// Its attempt, and how many changes of the next step were told.
    cursor: Cursor,
    transcript: Transcript,
}

impl<J: Store> Reader<J> {
    /// Returns a reader that continues at a cursor.
    pub(super) fn at(app: &App<J>, job: &Job, cursor: Cursor) -> Result<Reader<J>, Failure> {
        let refused = |why: BadPlace| Failure::invalid(format!("the cursor cannot be used: {why}"));
        let transcript = cursor.transcript(job).map_err(refused)?;
        Ok(Reader { app: app.clone(), id: job.id, cursor, transcript })
    }

    pub(super) fn attempt(&self) -> AttemptNo {
        self.cursor.attempt
    }

    /// Returns the offset after the last whole line.
    pub(super) fn offset(&self) -> u64 {
        self.transcript.place().offset
    }

    pub(super) fn next_byte(&self) -> u64 {
        self.transcript.next_byte()
    }

    /// Returns where it continues, if everything that was read was told.
    pub(super) fn cursor(&self) -> Cursor {
        self.at_place(self.transcript.place(), self.cursor.told)
    }

    fn at_place(&self, place: Place, told: usize) -> Cursor {
        Cursor { place, told, ..self.cursor.clone() }
    }

    /// Reads the next piece into a batch, waiting for it if nothing is there yet.
    pub(super) async fn read(&mut self, wait: Duration, batch: &mut Batch) -> Result<Read, Failure> {
        let query = OutputQuery::part(self.attempt(), self.transcript.next_byte(), READ_BYTES);
        let piece = wait_for_piece(&self.app, self.id, Stream::Stdout, &query, Instant::now() + wait).await?;
        if piece.read.skipped > 0 {
            self.transcript.skip(piece.read.skipped);
        }
        let mut bytes = &piece.read.bytes[..];
        loop {
            let before = self.transcript.place();
            let Some(changes) = self.transcript.step(&mut bytes) else { break };
            if !self.tell(&before, changes, batch) {
                return Ok(Read::Full);
            }
        }
        if piece.is_end {
            let before = self.transcript.place();
            let changes = self.transcript.finish();
            return Ok(if self.tell(&before, changes, batch) { Read::End } else { Read::Full });
        }
        let is_empty = piece.read.bytes.is_empty() && piece.read.skipped == 0;
        Ok(if is_empty { Read::Nothing } else { Read::More })
    }

    /// Adds the changes of a step that were not told yet; reports whether all have room.
    fn tell(&mut self, before: &Place, changes: Vec<Change>, batch: &mut Batch) -> bool {
        let (told, count) = (std::mem::take(&mut self.cursor.told), changes.len());
        for (index, change) in changes.into_iter().enumerate().skip(told) {
            let after = match index + 1 {
                all if all == count => self.at_place(self.transcript.place(), 0),
                some => self.at_place(before.clone(), some),
            };
            if !batch.add(change, after) {
                return false;
            }
        }
        true
    }
}

/// Items that were read, each with the cursor after it.
pub(super) struct Batch {
    items: VecDeque<(Item, Cursor)>,
    limit: usize,
}

impl Batch {
    pub(super) fn new(limit: usize) -> Batch {
        Batch { items: VecDeque::new(), limit }
    }

    /// Adds a change, to the last item if it continues that; reports whether it has room.
    fn add(&mut self, change: Change, after: Cursor) -> bool {
        if let Some((last, cursor)) = self.items.back_mut()
            && last.n == change.n
            && last.text.len() + change.text.len() <= PART_BYTES_MAX
        {
            last.text.push_str(&change.text);
            (last.status, last.text_bytes, last.end) = (status(change.status), change.text_bytes, change.end);
            *cursor = after;
            return true;
        }
        if self.items.len() >= self.limit {
            return false;
        }
        self.items.push_back((item(change, after.attempt), after));
        true
    }

    pub(super) fn last_cursor(&self) -> Option<&Cursor> {
        self.items.back().map(|(_, cursor)| cursor)
    }

    /// Takes the first item, with the cursor after it.
    pub(super) fn pop(&mut self) -> Option<(Item, Cursor)> {
        self.items.pop_front()
    }

    pub(super) fn take(self) -> impl Iterator<Item = (Item, Cursor)> {
        self.items.into_iter()
    }
}

fn item(change: Change, attempt: AttemptNo) -> Item {
    let kind = match change.kind {
        Kind::Message => ItemKind::Message,
        Kind::Reasoning => ItemKind::Reasoning,
        Kind::Tool => ItemKind::Tool,
        Kind::Note => ItemKind::Note,
        Kind::Output => ItemKind::Output,
        Kind::Gap => ItemKind::Gap,
    };
    Item {
        attempt: attempt.0,
        n: change.n,
        kind,
        status: status(change.status),
        id: change.id,
        title: change.title.filter(|title| !title.is_empty()),
        from: change.from,
        text: change.text,
        text_bytes: change.text_bytes,
        end: change.end,
    }
}

fn status(status: Status) -> ItemStatus {
    match status {
        Status::Running => ItemStatus::Running,
        Status::Completed => ItemStatus::Completed,
        Status::Failed => ItemStatus::Failed,
    }
}
