//! Prints what an agent writes, with the messages that it was sent and the borders of its turns between its lines. The recording has the one,
//! the log the other.

use std::pin::Pin;
use std::time::Duration;

use lastword_api::Job;
use lastword_client::events::{self, Filter};
use lastword_client::output::Piece;
use tokio::sync::watch;
use tokio::time::Instant;

use super::passage::Passage;
use super::recording::{Recording, say_skipped};
use super::{Client, Events};
use crate::failure::Failure;
use crate::ui::conversation::{Conversation, KINDS};

/// Events per request.
const PAGE_EVENTS: u32 = 200;

/// How long what an agent writes waits for the event that belongs before it. The event is stored while the agent works, so it is seldom late.
const HOLD: Duration = Duration::from_secs(1);

/// How far the log was shown, by the number of its last event. A question is shown after all that came before it.
pub(crate) type Told = watch::Sender<u64>;

/// An attempt of an agent, and how much of it was printed.
pub(super) struct Dialogue<'a> {
    pub(super) client: &'a Client,
    pub(super) job: &'a Job,
    pub(super) recording: &'a Recording,
    pub(super) passage: Passage,
    pub(super) conversation: Conversation,
    /// The place in the recording up to which it was printed.
    pub(super) offset: u64,
    pub(super) told: &'a Told,
}

/// A read that is under way.
type Reading<'a> = Pin<Box<dyn Future<Output = Result<Piece, Failure>> + 'a>>;

impl<'a> Dialogue<'a> {
    /// Prints what is recorded now.
    pub(super) async fn pass_on(mut self) -> Result<(), Failure> {
        self.catch_up().await?;
        let mut is_line_start = true;
        loop {
            let piece = self.recording.read(self.client, self.offset, false).await?;
            let is_last = piece.is_end || piece.bytes.is_empty();
            self.print(piece, &mut is_line_start)?;
            if is_last {
                return self.end();
            }
        }
    }

    /// Prints it until the attempt has ended.
    pub(super) async fn follow(mut self) -> Result<(), Failure> {
        let mut last = self.catch_up().await?;
        let mut events = self.client.follow_job(&self.job.id, &filter(), Some(last));
        let mut is_line_start = true;
        // Whether to wait for more than is recorded now.
        let mut waits = false;
        let mut reading = self.read(waits);
        let (mut held, mut is_patient): (Option<(Piece, Instant)>, bool) = (None, true);
        let mut has_events = true;
        loop {
            let is_due = !is_patient || !self.conversation.is_behind();
            if let Some((piece, _)) = held.take_if(|_| is_due) {
                let (is_end, is_all) = (piece.is_end, piece.bytes.is_empty());
                self.print(piece, &mut is_line_start)?;
                if is_end {
                    break;
                }
                waits |= is_all;
                reading = self.read(waits);
            }
            // A mark that is left stands after output that was not read yet.
            if waits && self.conversation.next_offset().is_none() {
                self.told.send_replace(last);
            }
            let deadline = held.as_ref().map(|(_, since)| *since + HOLD);
            tokio::select! {
                piece = &mut reading, if held.is_none() => held = Some((piece?, Instant::now())),
                event = events.next(), if has_events => {
                    let Some(event) = event? else {
                        (has_events, is_patient) = (false, false);
                        continue;
                    };
                    self.conversation.hear(&event);
                    (last, is_patient) = (event.seq, true);
                    if is_line_start {
                        self.passage.mark(&self.conversation.take(self.offset))?;
                    }
                }
                () = until(deadline) => is_patient = false,
            }
        }
        self.rest(&mut events).await
    }

    /// Prints what the log still tells after the last byte of the recording.
    async fn rest(mut self, events: &mut Events) -> Result<(), Failure> {
        while !self.conversation.is_over() {
            self.passage.mark(&self.conversation.take(u64::MAX))?;
            match events.next().await? {
                Some(event) => self.conversation.hear(&event),
                None => break,
            }
        }
        self.end()
    }

    /// Reads what the log has now, and returns the number of its last event. What is not about the part that is printed is dropped.
    async fn catch_up(&mut self) -> Result<u64, Failure> {
        let (filter, mut last) = (filter(), 0);
        loop {
            let after = last.to_string();
            let page =
                self.client.call(&events::of_job(&self.job.id, &filter, Some(&after), PAGE_EVENTS)).await?;
            page.items.iter().for_each(|event| self.conversation.hear(event));
            match page.items.last() {
                Some(event) => last = event.seq,
                None => break,
            }
        }
        if let Some(before) = self.offset.checked_sub(1) {
            self.conversation.take(before);
        }
        self.passage.mark(&self.conversation.take(self.offset))?;
        Ok(last)
    }

    fn read(&self, waits: bool) -> Reading<'a> {
        let (client, recording, offset) = (self.client, self.recording, self.offset);
        Box::pin(recording.read(client, offset, waits))
    }

    /// Prints a piece of the recording, and the marks within it.
    fn print(&mut self, piece: Piece, is_line_start: &mut bool) -> Result<(), Failure> {
        say_skipped(self.client, self.recording.stream, piece.skipped);
        self.offset = piece.next - piece.bytes.len() as u64;
        let mut rest = &piece.bytes[..];
        while let Some(mark) = self.conversation.next_offset() {
            // It stands after the line that contains the byte before it.
            let from = usize::try_from(mark.saturating_sub(self.offset + 1)).unwrap_or(usize::MAX);
            let line_feed = rest.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
            let Some(end) = line_feed.map(|at| from + at + 1) else { break };
            self.passage.pass_on(&rest[..end])?;
            (self.offset, rest, *is_line_start) = (self.offset + end as u64, &rest[end..], true);
            self.passage.mark(&self.conversation.take(self.offset))?;
        }
        if let Some(last) = rest.last() {
            *is_line_start = *last == b'\n';
            self.passage.pass_on(rest)?;
        }
        self.offset = piece.next;
        Ok(())
    }

    fn end(mut self) -> Result<(), Failure> {
        self.passage.mark(&self.conversation.take(u64::MAX))?;
        self.told.send_replace(u64::MAX);
        self.passage.end()
    }
}

fn filter() -> Filter {
    Filter { types: KINDS.map(str::to_owned).to_vec(), ..Filter::default() }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
