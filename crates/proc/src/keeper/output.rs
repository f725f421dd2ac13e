//! What the tree writes: read from its pipe, recorded at the offset at which it was written.
//!
//! A recording's offsets are the stream's own. What the caps drop, what a reader has done with and what could not be written
//! is a hole in the file, so that a cursor never moves. Nothing is buffered here: a killed keeper loses what was
//! still in the pipe and no more.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, OFlags};

use crate::clock;
use crate::folder::{self, Folder};
use crate::launch::Keep;

/// Bytes read at once. A pipe holds as much.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Chunks read before the loop looks at anything else: a flood must not delay a stop.
const CHUNKS_PER_TURN: usize = 16;

/// Holes begin and end at multiples of this, which every file system's block size divides.
const BLOCK_BYTES: u64 = 64 << 10;

/// How far the kept tail may grow beyond its cap before a hole is made: making one costs a call.
pub const SLACK_BYTES: u64 = 1 << 20;

/// Entries of the time index before its grain doubles. A job that writes for months has a coarser index, not a longer one.
const TIMES_PER_GRAIN: u64 = 16_384;

/// The finest grain of the time index.
const GRAIN_MS: u64 = 50;

/// One recorded stream.
#[derive(Debug)]
pub(super) struct Stream {
    name: &'static str,
    pipe: Option<OwnedFd>,
    keep: Keep,
    file: Option<File>,
    times: Option<File>,
    times_written: u64,
    timed_at: u64,
    /// Bytes the tree wrote.
    pub(super) seen: u64,
    /// Bytes on disk.
    pub(super) kept: u64,
    /// Bytes that should be on disk and are not.
    pub(super) lost: u64,
    /// Everything before, but for the head, is a hole.
    hole_end: u64,
    /// What its reader has done with.
    trimmed: u64,
    /// Bytes of a spool that could not be written yet. Nothing more is read until they are.
    stalled: Vec<u8>,
    /// The file system makes no holes: beyond the caps, nothing is kept.
    no_holes: bool,
}

impl Stream {
    pub(super) fn new(name: &'static str, pipe: OwnedFd, keep: Keep) -> Stream {
        Stream {
            name,
            pipe: Some(pipe),
            keep,
            file: None,
            times: None,
            times_written: 0,
            timed_at: 0,
            seen: 0,
            kept: 0,
            lost: 0,
            hole_end: 0,
            trimmed: 0,
            stalled: Vec::new(),
            no_holes: false,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what to wait on: nothing at the end of the stream, and nothing while its reader is too far behind.
    pub(super) fn wanted(&self) -> Option<BorrowedFd<'_>> {
        let room = match self.keep {
            Keep::Caps { .. } => true,
            Keep::Spool { ahead_max } => self.stalled.is_empty() && self.seen - self.trimmed < ahead_max,
        };
        self.pipe.as_ref().filter(|_| room).map(|pipe| pipe.as_fd())
    }

    /// Reports whether somebody reads along.
    pub(super) fn is_spool(&self) -> bool {
        matches!(self.keep, Keep::Spool { .. })
    }

    /// Reports whether bytes of a spool wait for room on the disk.
    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Reads what is there, up to a turn's worth. Reports whether there may be more.
    pub(super) fn take(&mut self, folder: &Folder, buffer: &mut Vec<u8>) -> bool {
        if !self.stalled.is_empty() {
            let bytes = std::mem::take(&mut self.stalled);
            self.spool(folder, &bytes);
        }
        for _ in 0..CHUNKS_PER_TURN {
            if !self.stalled.is_empty() {
                return false;
            }
            let Some(pipe) = &self.pipe else { return false };
            buffer.clear();
            match rustix::io::read(pipe, spare_capacity(buffer)) {
                Ok(0) => self.pipe = None,
                Ok(_) => self.record(folder, buffer),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return false,
                // A terminal whose last user is gone says so with an error.
                Err(rustix::io::Errno::IO) => self.pipe = None,
                Err(_) => {
                    self.lost += 1;
                    self.pipe = None;
                }
            }
        }
        self.pipe.is_some()
    }

    /// Reads what is left after the tree is gone. Never waits: whoever holds the other end is not of the tree.
    pub(super) fn drain(&mut self, folder: &Folder, buffer: &mut Vec<u8>) {
        while self.take(folder, buffer) {}
        self.pipe = None;
        self.lost += self.stalled.len() as u64;
        self.seen += self.stalled.len() as u64;
        self.stalled.clear();
    }

    /// Records bytes of a spool, of which none may be lost: what cannot be written waits, and its writer with it.
    fn spool(&mut self, folder: &Folder, bytes: &[u8]) {
        let at = self.seen;
        match self.file(folder).and_then(|file| file.write_all_at(bytes, at)) {
            Ok(()) => {
                self.seen += bytes.len() as u64;
                self.kept += bytes.len() as u64;
                self.note_time(folder, at);
            }
            Err(_) => self.stalled = bytes.to_vec(),
        }
    }

    fn record(&mut self, folder: &Folder, bytes: &[u8]) {
        if matches!(self.keep, Keep::Spool { .. }) {
            return self.spool(folder, bytes);
        }
        let at = self.seen;
        self.seen += bytes.len() as u64;
        if let Keep::Caps { head, tail } = self.keep
            && self.no_holes
        {
            let room = usize::try_from(head.saturating_add(tail).saturating_sub(at)).unwrap_or(usize::MAX);
            self.write(folder, at, &bytes[..bytes.len().min(room)]);
            return;
        }
        self.write(folder, at, bytes);
        self.make_hole();
    }

    fn write(&mut self, folder: &Folder, at: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let written = self.file(folder).and_then(|file| file.write_all_at(bytes, at));
        match written {
            Ok(()) => self.kept += bytes.len() as u64,
            Err(_) => self.lost += bytes.len() as u64,
        }
        self.note_time(folder, at);
    }

    /// The file is made with the first byte: most jobs write nothing to one of the two.
    fn file(&mut self, folder: &Folder) -> io::Result<&File> {
        match &mut self.file {
            Some(file) => Ok(file),
            empty => {
                let file = folder.open_at(self.name, OFlags::CREATE | OFlags::WRONLY)?;
                Ok(empty.insert(file))
            }
        }
    }

    /// Notes when the byte at `at` came. The index is a convenience: what cannot be written is left out.
    fn note_time(&mut self, folder: &Folder, at: u64) {
        let now = clock::wall_ms();
        let grain = GRAIN_MS << (self.times_written / TIMES_PER_GRAIN).min(24);
        if self.timed_at != 0 && now.saturating_sub(self.timed_at) < grain {
            return;
        }
        if self.times.is_none() {
            let name = format!("{}.times", self.name);
            self.times = folder.open_at(&name, OFlags::CREATE | OFlags::WRONLY).ok();
        }
        let Some(times) = &self.times else { return };
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&at.to_le_bytes());
        entry[8..].copy_from_slice(&now.to_le_bytes());
        if times.write_all_at(&entry, self.times_written * 16).is_ok() {
            self.times_written += 1;
            self.timed_at = now;
        }
    }

    /// Gives back what lies between head and tail, once it is worth a call.
    fn make_hole(&mut self) {
        let Keep::Caps { head, tail } = self.keep else { return };
        let Some(head) = head.checked_next_multiple_of(BLOCK_BYTES) else { return };
        let from = self.hole_end.max(head);
        let upto = self.seen.saturating_sub(tail) / BLOCK_BYTES * BLOCK_BYTES;
        if upto >= from.saturating_add(SLACK_BYTES.min(tail.max(BLOCK_BYTES))) {
            self.punch(from, upto);
        }
    }

    /// Takes note that its reader has come to `upto`, and lets go of everything before; or only before `free`, if that is said.
    pub(super) fn trim(&mut self, upto: u64, free: Option<u64>) {
        self.trimmed = self.trimmed.max(upto.min(self.seen));
        let free = free.unwrap_or(self.trimmed).min(self.trimmed) / BLOCK_BYTES * BLOCK_BYTES;
        if matches!(self.keep, Keep::Spool { .. }) && free > self.hole_end {
            self.punch(self.hole_end, free);
        }
    }

    fn punch(&mut self, from: u64, upto: u64) {
        let Some(file) = &self.file else { return };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, from, upto - from) {
            Ok(()) => {
                self.kept = self.kept.saturating_sub(upto - from);
                self.hole_end = upto;
            }
            Err(_) => self.no_holes = true,
        }
    }

    /// Makes the recording durable, and lets go of it: held open, it would keep its room on a full disk although somebody
    /// removes it. A recording that cannot be made durable is lost, whatever the page cache shows.
    pub(super) fn sync(&mut self) {
        self.times = None;
        if let Some(file) = self.file.take()
            && folder::sync(&file).is_err()
        {
            self.lost += self.kept;
        }
    }
}
