//! Reads recorded output by offset, while it is being written and after.
//!
//! Bytes that were dropped by the caps, trimmed or never written are holes in the file; they are skipped and counted, not read as zeros.
//! Exception: unwritten bytes that do not fill a block read as zeros, and the exit record says that output was lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{OFlags, SeekFrom};

use crate::error::Error;
use crate::folder::Folder;
use crate::keeper::input::NAME as INPUT;
use crate::line_format::Line;

/// One recorded output stream of an attempt.
#[derive(Debug)]
pub struct Recording {
    file: Option<File>,
    folder: Folder,
    name: String,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Missing bytes before the bytes that were read.
    pub skipped: u64,
    /// The offset of the first byte read.
    pub offset: u64,
    /// The number of bytes read. 0 means that there are no more yet.
    pub bytes: usize,
}

impl Read {
    /// Returns the cursor for the next read.
    pub fn next(&self) -> u64 {
        self.offset + self.bytes as u64
    }
}

impl Recording {
    /// Opens `stdout` or `stderr` of an attempt. The file need not exist yet.
    pub fn open(dir: &Path, name: &str) -> Result<Recording, Error> {
        let folder = Folder::open_ours(dir).map_err(Error::io(format!("cannot open {}", dir.display())))?;
        Ok(Recording { file: None, folder, name: name.to_owned() })
    }

    /// Reads what follows a cursor.
    pub fn read(&mut self, cursor: u64, buffer: &mut [u8]) -> Result<Read, Error> {
        let what = format!("cannot read {}", self.name);
        self.read_from(cursor, buffer).map_err(Error::io(what))
    }

    /// Returns its current size, holes included.
    pub fn size(&mut self) -> Result<u64, Error> {
        let what = format!("cannot read {}", self.name);
        let size = self.file().and_then(|file| file.map_or(Ok(0), |file| Ok(file.metadata()?.len())));
        size.map_err(Error::io(what))
    }

    /// Opens the file once it exists.
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
            // Read first: bytes written after this must not count as a hole.
            let end = file.metadata()?.len().max(cursor);
            let offset = match rustix::fs::seek(file, SeekFrom::Data(cursor)) {
                Ok(offset) => offset,
                // No data from here on: the end of the file, or a hole up to it.
                Err(rustix::io::Errno::NXIO) => {
                    return Ok(Read { skipped: end - cursor, offset: end, bytes: 0 });
                }
                Err(error) => return Err(error.into()),
            };
            let hole = rustix::fs::seek(file, SeekFrom::Hole(offset))?;
            let room = usize::try_from(hole - offset).unwrap_or(usize::MAX).min(buffer.len());
            let bytes = file.read_at(&mut buffer[..room], offset)?;
            // A hole punched meanwhile reads as zeros: return the bytes only if they are still data.
            let is_data = rustix::fs::seek(file, SeekFrom::Data(offset)) == Ok(offset);
            if is_data && rustix::fs::seek(file, SeekFrom::Hole(offset))? >= offset + bytes as u64 {
                return Ok(Read { skipped: offset - cursor, offset, bytes });
            }
        }
    }
}

/// Returns how many bytes an attempt has written to both streams, using two `stat` calls.
pub fn bytes_written(dir: &Path) -> u64 {
    let size = |name: &str| std::fs::metadata(dir.join(name)).map_or(0, |known| known.len());
    size("stdout") + size("stderr")
}

/// Returns when an attempt last wrote to one of its streams, by the wall clock, using two `stat` calls; `None` before the first byte.
pub fn last_written(dir: &Path) -> Option<SystemTime> {
    let written = |name: &str| {
        let known = std::fs::metadata(dir.join(name)).ok().filter(|known| known.len() > 0)?;
        known.modified().ok()
    };
    written("stdout").max(written("stderr"))
}

/// An input that was written to the leader, at least in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentInput {
    /// Its number.
    pub no: u64,
    /// How much output had been seen when it was written.
    pub output_at: u64,
    /// The input itself.
    pub bytes: Vec<u8>,
}

/// Reads the inputs written to the leader of an attempt, in order. Skips an entry that a killed keeper did not complete: it was never
/// sent whole.
pub fn sent_inputs(dir: &Path) -> Result<Vec<SentInput>, Error> {
    let what = || format!("cannot read the inputs in {}", dir.display());
    let folder = Folder::open(dir).map_err(Error::io(what()))?;
    let mut bytes = Vec::new();
    match folder
        .open_at(INPUT, OFlags::RDONLY)
        .and_then(|mut file| io::Read::read_to_end(&mut file, &mut bytes))
    {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(what())(error)),
    }
    let (mut rest, mut sent) = (bytes.as_slice(), Vec::new());
    while let Some((input, behind)) = sent_input(rest) {
        sent.push(input);
        rest = behind;
    }
    Ok(sent)
}

/// Parses one input; returns it and the remaining bytes.
fn sent_input(bytes: &[u8]) -> Option<(SentInput, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = Line::parse(std::str::from_utf8(&bytes[..end]).ok()?)?;
    let length = line.get::<usize>("bytes")?;
    let (payload, behind) = bytes[end + 1..].split_at_checked(length)?;
    let behind = behind.strip_prefix(b"\n")?;
    let (no, output_at) = (line.get("no")?, line.get("output_at")?);
    Some((SentInput { no, output_at, bytes: payload.to_vec() }, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_written_during_a_read_are_never_taken_for_a_hole() {
        const PIECES: usize = 100_000;
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let file = File::create(folder.path().join("stdout")).unwrap();
        let mut recording = Recording::open(folder.path(), "stdout").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..PIECES).for_each(|at| file.write_all_at(b"piece\n", at as u64 * 6).unwrap()));
            let (mut cursor, mut buffer) = (0, [0; 512]);
            while cursor < PIECES as u64 * 6 {
                let read = recording.read(cursor, &mut buffer).unwrap();
                assert_eq!((read.skipped, read.offset), (0, cursor));
                cursor = read.next();
            }
        });
    }

    #[test]
    fn sent_inputs_are_read_up_to_the_last_complete_one() {
        let whole = b"input no=1 output_at=0 at=5 bytes=3\na\nb\ninput no=7 output_at=9 at=6 bytes=0\n\ninput no=8 output_at=9 at=6 bytes=4\nab";
        let (first, rest) = sent_input(whole).unwrap();
        assert_eq!(first, SentInput { no: 1, output_at: 0, bytes: b"a\nb".to_vec() });
        let (second, rest) = sent_input(rest).unwrap();
        assert_eq!((second.no, second.output_at, second.bytes.len()), (7, 9, 0));
        assert_eq!(sent_input(rest), None);
    }
}
