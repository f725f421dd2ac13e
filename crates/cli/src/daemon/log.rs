//! The daemon's log file: rotated at a size limit, and reopened on SIGHUP.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// The size limit of one file. Two files hold days of logs and take little disk space.
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
    /// Opens the log, creating it if needed.
    pub(crate) fn open(path: &Path) -> io::Result<Log> {
        Log::open_with(path, BYTES_MAX)
    }

    fn open_with(path: &Path, bytes_max: u64) -> io::Result<Log> {
        let file = open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Log(Arc::new(Mutex::new(Open { path: path.to_owned(), file, bytes, bytes_max }))))
    }

    /// Reopens the file after it was moved.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reopen()
    }
}

/// Opens a log file for appending.
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
            // If it cannot be moved, keep writing to it: a long log is better than none.
            let _ = std::fs::rename(&self.path, self.path.with_extension("log.1"));
            self.reopen()?;
        }
        // One write per line, so that other writers (a panic) do not interleave with it.
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }
}

impl Write for Log {
    /// Never fails: on a full disk a line is lost. On an error the caller would print to stderr, which is the same file, and panic because
    /// that fails, too.
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
    fn a_log_has_at_most_two_files_of_limited_size() {
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
    fn a_full_disk_loses_only_the_line() {
        let mut log = Log::open(Path::new("/dev/full")).unwrap();
        writeln!(log, "lost").unwrap();
    }

    #[test]
    fn reopening_continues_in_a_new_file() {
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
