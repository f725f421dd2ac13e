//! What is sent to the leader: numbered, in order, each once, and recorded with the output offset at which it was written.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;

use crate::clock;
use crate::folder::Folder;
use crate::line::Line;

/// Bytes that may wait for the leader to read them. The keeper must stay small; the sender still has what is refused.
/// An input in the log has at most 256 KiB, of which each byte may take six as JSON.
pub(crate) const WAITING_BYTES_MAX: usize = 2 << 20;

/// Inputs that may wait: an empty one takes room as well.
const WAITING_MAX: usize = 1_024;

/// The recording's name in its folder.
pub(crate) const NAME: &str = "input";

/// Whether an input was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It will be written.
    Yes,
    /// It was taken before.
    Before,
    /// There is no room for it now.
    Full,
    /// The leader has no input, or it is closed.
    Closed,
}

/// The leader's standard input.
#[derive(Debug)]
pub(super) struct Input {
    pipe: Option<OwnedFd>,
    /// A terminal cannot be closed, since its output is still wanted; it is told that there is no more.
    is_terminal: bool,
    waiting: VecDeque<(u64, Vec<u8>)>,
    waiting_bytes: usize,
    /// Bytes of the first waiting input that are written.
    written: usize,
    /// The newest number that was taken.
    pub(super) taken: u64,
    /// The newest number that was written to its last byte.
    pub(super) told: u64,
    closing: bool,
    recording: Option<File>,
    /// A part of the recording could not be written.
    pub(super) lost: bool,
}

impl Input {
    pub(super) fn new(pipe: Option<OwnedFd>, is_terminal: bool) -> Input {
        Input {
            pipe,
            is_terminal,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            written: 0,
            taken: 0,
            told: 0,
            closing: false,
            recording: None,
            lost: false,
        }
    }

    /// Returns what to wait on, if something is to be written.
    pub(super) fn wanted(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| !self.waiting.is_empty()).map(|pipe| pipe.as_fd())
    }

    /// Takes an input. A number that was taken before is not taken again.
    pub(super) fn take(&mut self, no: u64, bytes: Vec<u8>) -> Taken {
        if no <= self.taken {
            return Taken::Before;
        }
        if self.pipe.is_none() || self.closing {
            return Taken::Closed;
        }
        if self.waiting_bytes + bytes.len() > WAITING_BYTES_MAX || self.waiting.len() >= WAITING_MAX {
            return Taken::Full;
        }
        self.taken = no;
        self.waiting_bytes += bytes.len();
        self.waiting.push_back((no, bytes));
        Taken::Yes
    }

    /// Closes the input once everything taken is written.
    pub(super) fn close(&mut self) {
        /// What a terminal takes for the end of its input.
        const END_OF_TRANSMISSION: u8 = 4;
        self.closing = true;
        if self.waiting.is_empty()
            && let Some(pipe) = self.pipe.take()
            && self.is_terminal
        {
            let _ = rustix::io::write(&pipe, &[END_OF_TRANSMISSION]);
        }
    }

    /// Writes what the leader will take. `output_at` is how far its output has been seen.
    pub(super) fn write(&mut self, folder: &Folder, output_at: u64) {
        while let (Some(pipe), Some((no, bytes))) = (&self.pipe, self.waiting.front()) {
            let no = *no;
            if self.written == 0 {
                record(&mut self.recording, &mut self.lost, folder, no, output_at, bytes);
            }
            match rustix::io::write(pipe, &bytes[self.written..]) {
                Ok(wrote) => self.written += wrote,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => return,
                // The leader has closed its input. Nobody will read what waits.
                Err(_) => {
                    self.pipe = None;
                    self.waiting.clear();
                    return;
                }
            }
            if self.written == bytes.len() {
                self.told = no;
                self.written = 0;
                self.waiting_bytes -= bytes.len();
                self.waiting.pop_front();
            } else {
                return;
            }
        }
        if self.closing {
            self.close();
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
    *lost |= file.as_mut().is_none_or(|file| file.write_all(&entry).is_err());
}
