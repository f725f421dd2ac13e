//! The daemon's log: a file that is rotated before it grows large, and reopened when asked.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Bytes of one file. With the one before it: enough for days, and nothing to a disk.
const BYTES_MAX: u64 = 8 << 20;

/// The log. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Log(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
}

impl Log {
    /// Opens the log, and makes it if it is not there.
    pub(crate) fn open(path: &Path) -> io::Result<Log> {
        Log::open_with(path, BYTES_MAX)
    }

    fn open_with(path: &Path, bytes_max: u64) -> io::Result<Log> {
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Log(Arc::new(Mutex::new(Open { path: path.to_owned(), file, bytes, bytes_max }))))
    }

    /// Opens the file anew: somebody moved it away.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reopen()
    }
}

/// Opens a log file for whoever appends to it.
pub(super) fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

impl Open {
    fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.bytes = self.file.metadata()?.len();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes >= self.bytes_max {
            // One that cannot be moved is written on: a long log is better than none.
            let _ = std::fs::rename(&self.path, self.path.with_extension("log.1"));
            self.reopen()?;
        }
        // One line, one write: others that append (a panic) stay apart from it.
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }
}

impl Write for Log {
    /// Never fails: on a full disk a line is lost, and nothing else. Whoever logs would say so on stderr, which is the same file, and
    /// panic over that.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes);
        Ok(written.unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_two_files_of_bounded_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let mut log = Log::open_with(&path, 100).unwrap();
        for number in 0..100 {
            writeln!(log, "line {number:04}").unwrap();
        }
        let names: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
        for name in names {
            let length = std::fs::metadata(folder.path().join(&name)).unwrap().len();
            assert!(length <= 110, "{name:?} has {length} bytes");
        }
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("line 0099\n"));
    }

    #[test]
    fn a_full_disk_costs_a_line_and_nothing_else() {
        let mut log = Log::open(Path::new("/dev/full")).unwrap();
        writeln!(log, "nobody reads this").unwrap();
    }

    #[test]
    fn it_goes_on_in_a_new_file_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let mut log = Log::open(&path).unwrap();
        writeln!(log, "before").unwrap();
        std::fs::rename(&path, folder.path().join("moved")).unwrap();
        log.reopen().unwrap();
        writeln!(log, "after").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "after\n");
    }
}
