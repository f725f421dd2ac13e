//! Examines a journal from outside, beside a daemon that may be writing it: changes nothing and blocks no writer.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use lastword_core::JobId;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::append::key;
use super::failure::failed;
use super::open::{self, FILE, connect};
use crate::{Error, Result};

/// What is known of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of its write-ahead log.
    pub log_bytes: u64,
    /// When either was last written.
    pub written: Option<SystemTime>,
    /// Whether all of it was checked: a large file may take longer than the time.
    pub whole: bool,
}

/// Checks the journal of `folder` for damage, for at most `within`. `None` means that there is no journal.
///
/// Uses its own reader on a snapshot: a writer goes on, but cannot truncate its log meanwhile.
pub fn examine(folder: &Path, within: Duration) -> Result<Option<Examined>> {
    let file = folder.join(FILE);
    let log = fs::metadata(file.with_extension("db-wal")).ok();
    let found = match fs::metadata(&file) {
        Ok(found) => found,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::Unavailable(format!("{}: {error}", file.display())));
        }
        Err(_) if log.is_some_and(|log| log.len() > 0) => {
            return Err(Error::Corrupt(format!(
                "{} is gone, but its write-ahead log is there",
                file.display()
            )));
        }
        Err(_) => return Ok(None),
    };
    if found.len() == 0 {
        return Err(Error::Corrupt(format!("{} is empty", file.display())));
    }
    let whole = look(&file, within)?;
    let times = [Some(&found), log.as_ref()].into_iter().flatten().filter_map(|file| file.modified().ok());
    Ok(Some(Examined {
        bytes: found.len(),
        log_bytes: log.as_ref().map_or(0, fs::Metadata::len),
        written: times.max(),
        whole,
    }))
}

/// Returns those of `jobs` that the journal of `folder` does not have. Without a journal these are all.
pub fn unknown_jobs(folder: &Path, jobs: &[JobId]) -> Result<Vec<JobId>> {
    const SELECT: &str = "select exists (select 1 from jobs where job = ?1)";
    let file = folder.join(FILE);
    if jobs.is_empty() || !file.exists() {
        return Ok(jobs.to_vec());
    }
    let connection = connect(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut select = connection.prepare(SELECT).map_err(failed)?;
    let mut unknown = Vec::new();
    for job in jobs {
        let is_known: bool = select.query_row([key(*job)], |row| row.get(0)).map_err(failed)?;
        if !is_known {
            unknown.push(*job);
        }
    }
    Ok(unknown)
}

/// Opens the file and has SQLite check its pages. Reports whether it came to the end.
fn look(file: &Path, within: Duration) -> Result<bool> {
    let connection = match connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Ok(connection) => connection,
        Err(_) => connect_unlocked(file)?,
    };
    match check(&connection, within) {
        // A reader needs a file beside the journal for its locks, which a read-only folder does not allow. No process writes there either.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            check(&connect_unlocked(file)?, within).map_err(failed)?
        }
        checked => checked.map_err(failed)?,
    }
}

fn connect_unlocked(file: &Path) -> Result<Connection> {
    let mut name = String::from("file:");
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => name.push(char::from(*byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(*byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name.push_str("?immutable=1");
    connect(Path::new(&name), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

/// Checks a journal. The inner answer is whether all of it was checked; an inner error is damage.
fn check(connection: &Connection, within: Duration) -> rusqlite::Result<Result<bool>> {
    open::check(connection)?;
    if let Err(newer) = open::is_known(connection) {
        return Ok(Err(newer));
    }
    let (done, waiting) = mpsc::channel::<()>();
    let stop = connection.get_interrupt_handle();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(within) == Err(mpsc::RecvTimeoutError::Timeout) {
                stop.interrupt();
            }
        });
        let found = connection.query_row("pragma quick_check(1)", [], |row| row.get::<_, String>(0));
        drop(done);
        match found {
            Ok(found) if found == "ok" => Ok(Ok(true)),
            Ok(found) => Ok(Err(Error::Corrupt(found))),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(Ok(false)),
            Err(error) => Err(error),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt as _, PermissionsExt as _};

    use super::*;
    use crate::sqlite::Sqlite;

    const LONG: Duration = Duration::from_secs(60);

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        folder
    }

    #[test]
    fn a_journal_is_examined_beside_its_writer_and_without() {
        let folder = folder();
        assert_eq!(examine(folder.path(), LONG), Ok(None), "nothing is made");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let journal = Sqlite::open(folder.path()).expect("a new one");
        let beside = examine(folder.path(), LONG).expect("sound").expect("there");
        assert!(beside.whole && beside.bytes > 0 && beside.written.is_some(), "{beside:?}");
        drop(journal);
        let alone = examine(folder.path(), LONG).expect("sound").expect("there");
        assert!(alone.whole && alone.log_bytes == 0, "{alone:?}");
    }

    #[test]
    fn damage_is_found_wherever_it_is() {
        let folder = folder();
        drop(Sqlite::open(folder.path()).expect("a new one"));
        let file = folder.path().join(FILE);
        let sound = fs::read(&file).expect("its bytes");
        let damaged = |why: &str| match examine(folder.path(), LONG) {
            Err(Error::Corrupt(what)) => what,
            other => panic!("{why}: {other:?}"),
        };
        for page in 0..sound.len() / 4096 {
            let open = fs::File::options().write(true).open(&file).expect("it is there");
            open.write_all_at(&[0xa5; 64], page as u64 * 4096).expect("it is written");
            damaged(&format!("page {page}"));
            fs::write(&file, &sound).expect("it is whole again");
        }
        assert!(examine(folder.path(), LONG).is_ok());
        fs::write(&file, "").expect("it is cut");
        assert!(damaged("empty").contains("is empty"));
        fs::write(&file, "not a database").expect("it is replaced");
        damaged("foreign");
        fs::remove_file(&file).expect("it is gone");
        fs::write(folder.path().join("journal.db-wal"), "pages").expect("a log is left");
        assert!(damaged("gone").contains("write-ahead log"));
    }

    #[test]
    fn a_later_schema_is_not_called_sound() {
        let folder = folder();
        drop(Sqlite::open(folder.path()).expect("a new one"));
        let later = Connection::open(folder.path().join(FILE)).expect("it opens");
        later.execute("insert into migrations (version) values (99)", []).expect("it is written");
        drop(later);
        assert_eq!(examine(folder.path(), LONG), Err(Error::Newer { found: 99, known: 10 }));
    }
}
