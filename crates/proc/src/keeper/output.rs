//! Output of the tree: read from a pipe and recorded at its offset.
//!
//! Offsets in the file are those of the stream. What the caps drop, what a reader has consumed and what could not be written is a hole,
//! so a cursor never moves. Nothing is buffered: a killed keeper loses only what was still in the pipe.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::buffer::spare_capacity;
use rustix::fs::{FallocateFlags, OFlags};

use crate::clock;
use crate::folder::{self, Folder};
use crate::launch::Keep;
use crate::limits;

/// Bytes per read. A pipe holds as much.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Chunks read per turn of the loop: a flood of output must not delay a stop.
const CHUNKS_PER_TURN: usize = 16;

/// Alignment of holes; a multiple of every file system's block size.
const BLOCK_BYTES: u64 = 64 << 10;

/// How far the tail may exceed its cap before a hole is punched, to save system calls.
pub const SLACK_BYTES: u64 = 1 << 20;

/// Entries of the time index before its granularity doubles: a job that writes for months gets a coarser index, not a longer one.
const TIMES_PER_GRAIN: u64 = 16_384;

/// The finest granularity of the time index.
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
    /// Bytes written by the tree.
    pub(super) seen: u64,
    /// Bytes on disk.
    pub(super) kept: u64,
    /// Bytes that could not be written to disk.
    pub(super) lost: u64,
    /// End of the hole after the head.
    hole_end: u64,
    /// How far the reader has consumed the stream.
    trimmed: u64,
    /// Bytes of a spool that could not be written yet. Reading continues once they are.
    stalled: Vec<u8>,
    /// The file system cannot punch holes, so nothing is kept beyond the caps.
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

    /// Returns what to poll: nothing at the end of the stream or while its reader is too far behind.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        let room = match self.keep {
            Keep::Caps { .. } => true,
            Keep::Spool { ahead_max } => self.stalled.is_empty() && self.seen - self.trimmed < ahead_max,
        };
        self.pipe.as_ref().filter(|_| room).map(|pipe| pipe.as_fd())
    }

    /// Changes the size of the terminal that it is read from. Returns `false` if it is none, or closed.
    pub(super) fn resize(&self, rows: u16, columns: u16) -> bool {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        self.pipe.as_ref().is_some_and(|terminal| rustix::termios::tcsetwinsize(terminal, size).is_ok())
    }

    /// Reports whether a reader follows the stream.
    pub(super) fn is_spool(&self) -> bool {
        matches!(self.keep, Keep::Spool { .. })
    }

    /// Reports whether bytes of a spool are waiting for disk space.
    pub(super) fn is_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Reads what is available, within the limit per turn. Reports whether there may be more.
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
                // A terminal reports EIO when its last process is gone.
                Err(rustix::io::Errno::IO) => self.pipe = None,
                Err(_) => {
                    self.lost += 1;
                    self.pipe = None;
                }
            }
        }
        self.pipe.is_some()
    }

    /// Reads the rest after the tree is gone. Never blocks: any process that still holds the pipe is not part of the tree.
    pub(super) fn drain(&mut self, folder: &Folder, buffer: &mut Vec<u8>) {
        while self.take(folder, buffer) {}
        self.pipe = None;
        self.lost += self.stalled.len() as u64;
        self.seen += self.stalled.len() as u64;
        self.stalled.clear();
    }

    /// Records bytes of a spool, which must not be lost: if they cannot be written, the tree's writes block until they can.
    fn spool(&mut self, folder: &Folder, bytes: &[u8]) {
        let at = self.seen;
        match limits::retried(|| self.file(folder)?.write_all_at(bytes, at)) {
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
        let written = limits::retried(|| self.file(folder)?.write_all_at(bytes, at));
        match written {
            Ok(()) => self.kept += bytes.len() as u64,
            Err(_) => self.lost += bytes.len() as u64,
        }
        self.note_time(folder, at);
    }

    /// Creates the file with the first byte: most jobs leave one stream empty.
    fn file(&mut self, folder: &Folder) -> io::Result<&File> {
        match &mut self.file {
            Some(file) => Ok(file),
            empty => {
                let file = folder.open_at(self.name, OFlags::CREATE | OFlags::WRONLY)?;
                Ok(empty.insert(file))
            }
        }
    }

    /// Adds an entry to the time index. The index is optional: a failed write is ignored.
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

    /// Punches a hole between head and tail if it is large enough to be worth a system call.
    fn make_hole(&mut self) {
        let Keep::Caps { head, tail } = self.keep else { return };
        let Some(head) = head.checked_next_multiple_of(BLOCK_BYTES) else { return };
        let from = self.hole_end.max(head);
        let upto = self.seen.saturating_sub(tail) / BLOCK_BYTES * BLOCK_BYTES;
        if upto >= from.saturating_add(SLACK_BYTES.min(tail.max(BLOCK_BYTES))) {
            self.punch(from, upto);
        }
    }

    /// Records that the reader has reached `upto`, and deletes everything before `free`, or before `upto` if `free` is not given.
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

    /// Continues in a new file if the recording was deleted. What was in it is lost.
    pub(super) fn renew(&mut self, folder: &Folder) {
        if self.file.as_ref().is_some_and(|file| !folder.has(self.name, file)) {
            self.lost += self.kept;
            self.kept = 0;
            (self.file, self.times) = (None, None);
            (self.times_written, self.timed_at) = (0, 0);
        }
    }

    /// Flushes the recording and closes it, so that deleting the file frees its disk space. If the flush fails, all of it counts as lost,
    /// whatever the page cache shows.
    pub(super) fn sync(&mut self) {
        self.times = None;
        if let Some(file) = self.file.take()
            && folder::sync(&file).is_err()
        {
            self.lost += self.kept;
        }
    }
}
