//! A recording, read by offset while it is written and after.
//!
//! What the caps dropped, what was trimmed and what could not be written is a hole in the file: it is skipped and counted, not
//! read as zeros. Only bytes that could not be written and do not fill a block are; the exit record says that some were lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom};

use crate::error::Error;
use crate::folder::Folder;

/// A stream of an attempt.
#[derive(Debug)]
pub struct Recording {
    file: Option<File>,
    folder: Folder,
    name: String,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Bytes that are missing before what was read.
    pub skipped: u64,
    /// Where what was read begins.
    pub offset: u64,
    /// How much was read. Nothing means that there is no more yet.
    pub bytes: usize,
}

impl Read {
    /// Returns the cursor for the next read.
    pub fn next(&self) -> u64 {
        self.offset + self.bytes as u64
    }
}

impl Recording {
    /// Opens `stdout` or `stderr` of an attempt. It need not have written anything yet.
    pub fn open(dir: &Path, name: &str) -> Result<Recording, Error> {
        let folder = Folder::open(dir).map_err(Error::io(format!("cannot open {}", dir.display())))?;
        Ok(Recording { file: None, folder, name: name.to_owned() })
    }

    /// Reads what follows a cursor.
    pub fn read(&mut self, cursor: u64, buffer: &mut [u8]) -> Result<Read, Error> {
        let what = format!("cannot read {}", self.name);
        self.read_from(cursor, buffer).map_err(Error::io(what))
    }

    /// Returns how long it is by now, with what is missing.
    pub fn size(&mut self) -> Result<u64, Error> {
        let what = format!("cannot read {}", self.name);
        let size = self.file().and_then(|file| file.map_or(Ok(0), |file| Ok(file.metadata()?.len())));
        size.map_err(Error::io(what))
    }

    /// Opens the file, once it is there.
    fn file(&mut self) -> io::Result<Option<&File>> {
        if self.file.is_none() {
            self.file = match self.folder.open_at(&self.name, OFlags::RDONLY) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        Ok(self.file.as_ref())
    }

    fn read_from(&mut self, cursor: u64, buffer: &mut [u8]) -> io::Result<Read> {
        let Some(file) = self.file()? else { return Ok(Read { skipped: 0, offset: cursor, bytes: 0 }) };
        loop {
            let offset = match rustix::fs::seek(file, SeekFrom::Data(cursor)) {
                Ok(offset) => offset,
                // No data from here on: the end, or a hole up to it.
                Err(rustix::io::Errno::NXIO) => {
                    let end = file.metadata()?.len().max(cursor);
                    return Ok(Read { skipped: end - cursor, offset: end, bytes: 0 });
                }
                Err(error) => return Err(error.into()),
            };
            let hole = rustix::fs::seek(file, SeekFrom::Hole(offset))?;
            let room = usize::try_from(hole - offset).unwrap_or(usize::MAX).min(buffer.len());
            let bytes = file.read_at(&mut buffer[..room], offset)?;
            // A hole that was made meanwhile reads as zeros: only what is still data was read.
            let is_data = rustix::fs::seek(file, SeekFrom::Data(offset)) == Ok(offset);
            if is_data && rustix::fs::seek(file, SeekFrom::Hole(offset))? >= offset + bytes as u64 {
                return Ok(Read { skipped: offset - cursor, offset, bytes });
            }
        }
    }
}

/// Returns how many bytes an attempt has written so far, over both streams, at the price of two looks at its folder.
pub fn written(dir: &Path) -> u64 {
    let size = |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |known| known.len());
    size("stdout") + size("stderr")
}
