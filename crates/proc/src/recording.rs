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
use crate::keeper::input::NAME as INPUT;
use crate::line::Line;

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
        let folder = Folder::open_ours(dir).map_err(Error::io(format!("cannot open {}", dir.display())))?;
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
            // Asked first: what is written after this and before the next look is found by that, and is no hole.
            let end = file.metadata()?.len().max(cursor);
            let offset = match rustix::fs::seek(file, SeekFrom::Data(cursor)) {
                Ok(offset) => offset,
                // No data from here on: the end, or a hole up to it.
                Err(rustix::io::Errno::NXIO) => {
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

/// An input that was written to the leader, or whose writing began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentInput {
    /// Its number.
    pub no: u64,
    /// How far the output had been seen.
    pub output_at: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// Reads what was sent to the leader of an attempt, in order. What a killed keeper wrote only half of was never sent whole, and is
/// left out.
pub fn sent_inputs(dir: &Path) -> Result<Vec<SentInput>, Error> {
    let what = || format!("cannot read what was sent in {}", dir.display());
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

/// Reads one input, and returns what is behind it.
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
    fn what_is_written_while_it_is_read_is_never_taken_for_a_hole() {
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
    fn what_was_sent_is_read_back_up_to_what_was_written_whole() {
        let whole = b"input no=1 output_at=0 at=5 bytes=3\na\nb\ninput no=7 output_at=9 at=6 bytes=0\n\ninput no=8 output_at=9 at=6 bytes=4\nab";
        let (first, rest) = sent_input(whole).unwrap();
        assert_eq!(first, SentInput { no: 1, output_at: 0, bytes: b"a\nb".to_vec() });
        let (second, rest) = sent_input(rest).unwrap();
        assert_eq!((second.no, second.output_at, second.bytes.len()), (7, 9, 0));
        assert_eq!(sent_input(rest), None);
    }
}
