//! Input for the leader: numbered, in order, each written once, and recorded with the output offset at which it was written.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use crate::clock;
use crate::folder::Folder;
use crate::limits;
use crate::line_format::Line;

/// Bytes queued for the leader. The keeper must stay small, and the sender still has what is refused. An input in the log is limited to
/// 256 KiB, of which each byte may take six as JSON.
pub(crate) const QUEUED_BYTES_MAX: usize = 2 << 20;

/// Inputs queued: an empty one takes memory, too.
const QUEUED_MAX: usize = 1_024;

/// The name of the recording.
pub(crate) const NAME: &str = "input";

/// The result of offering an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// It will be written.
    Accepted,
    /// Its number was accepted before.
    AlreadyAccepted,
    /// The queue is full.
    Full,
    /// The leader has no input, or it is closed.
    Closed,
}

/// The leader's standard input.
#[derive(Debug)]
pub(super) struct Input {
    pipe: Option<OwnedFd>,
    /// A terminal stays open for its output; it gets an end-of-transmission character instead.
    is_terminal: bool,
    queue: VecDeque<(u64, Vec<u8>)>,
    queued_bytes: usize,
    /// Bytes of the first queued input that are written.
    written: usize,
    /// The newest number that was accepted.
    pub(super) accepted: u64,
    /// The newest number that was written completely.
    pub(super) completed: u64,
    closing: bool,
    recording: Option<File>,
    /// Part of the recording could not be written.
    pub(super) lost: bool,
}

impl Input {
    pub(super) fn new(pipe: Option<OwnedFd>, is_terminal: bool) -> Input {
        Input {
            pipe,
            is_terminal,
            queue: VecDeque::new(),
            queued_bytes: 0,
            written: 0,
            accepted: 0,
            completed: 0,
            closing: false,
            recording: None,
            lost: false,
        }
    }

    /// Returns what to poll while there is something to write.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.queue.is_empty()).map(|pipe| pipe.as_fd())
    }

    /// Queues an input, unless its number was accepted before.
    pub(super) fn offer(&mut self, no: u64, bytes: Vec<u8>) -> Offered {
        if no <= self.accepted {
            return Offered::AlreadyAccepted;
        }
        if self.pipe.is_none() || self.closing {
            return Offered::Closed;
        }
        if self.queued_bytes + bytes.len() > QUEUED_BYTES_MAX || self.queue.len() >= QUEUED_MAX {
            return Offered::Full;
        }
        self.accepted = no;
        self.queued_bytes += bytes.len();
        self.queue.push_back((no, bytes));
        Offered::Accepted
    }

    /// Closes the input once everything queued is written.
    pub(super) fn close(&mut self) {
        /// What a terminal takes for the end of its input.
        const END_OF_TRANSMISSION: u8 = 4;
        self.closing = true;
        if self.queue.is_empty()
            && let Some(pipe) = self.pipe.take()
            && self.is_terminal
        {
            let _ = rustix::io::write(&pipe, &[END_OF_TRANSMISSION]);
        }
    }

    /// Writes as much as the leader accepts. `output_at` is how much of its output has been seen.
    pub(super) fn write(&mut self, folder: &Folder, output_at: u64) {
        while let (Some(pipe), Some((no, bytes))) = (&self.pipe, self.queue.front()) {
            let no = *no;
            if self.written == 0 {
                record(&mut self.recording, &mut self.lost, folder, no, output_at, bytes);
            }
            match rustix::io::write(pipe, &bytes[self.written..]) {
                Ok(wrote) => self.written += wrote,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return,
                // The leader has closed its input.
                Err(_) => {
                    self.pipe = None;
                    self.queue.clear();
                    return;
                }
            }
            if self.written == bytes.len() {
                self.completed = no;
                self.written = 0;
                self.queued_bytes -= bytes.len();
                self.queue.pop_front();
            } else {
                return;
            }
        }
        if self.closing {
            self.close();
        }
    }

    /// Continues in a new file if the recording was deleted. What was in it is lost.
    pub(super) fn renew(&mut self, folder: &Folder) {
        if self.recording.as_ref().is_some_and(|file| !folder.has(NAME, file)) {
            self.recording = None;
            self.lost = true;
        }
    }
}

fn record(file: &mut Option<File>, lost: &mut bool, folder: &Folder, no: u64, output_at: u64, bytes: &[u8]) {
    if file.is_none() {
        *file = folder.open_at(NAME, OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND).ok();
    }
    let line = Line::new("input")
        .with("no", no)
        .with("output_at", output_at)
        .with("at", clock::wall_ms())
        .with("bytes", bytes.len());
    let mut entry = line.to_string().into_bytes();
    entry.extend_from_slice(bytes);
    entry.push(b'\n');
    *lost |= file.as_ref().is_none_or(|file| limits::append(file, &entry).is_err());
}
