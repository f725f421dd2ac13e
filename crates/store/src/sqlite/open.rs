//! Opening: the private folder, a file that appears complete or not at all, its schema, its instance.
//!
//! A file that cannot be read is an error; only a folder without any trace of a journal gets a new one.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};

use super::conversations;
use super::failure::failed;
use super::log::newest_place;
use super::waits;
use super::witness::Witness;
use crate::{Behind, Error, Result};

/// The file's name in its folder.
pub(super) const FILE: &str = "journal.db";

/// Marks the file as ours among SQLite files: "lwrd".
const APPLICATION: i64 = 0x6c77_7264;

/// How long a batch waits for the write lock while another process holds it. Longer than any batch takes with its
/// sync; a process that holds it longer is stuck.
const BUSY: Duration = Duration::from_secs(10);

/// Bytes of the disk that the write-ahead log holds in reserve, so that on a full disk jobs can still be looked for and stopped:
/// the one that fills it, above all. It is a hundred writes or more; the log is used again from its beginning after each checkpoint.
const RESERVE: u64 = 4 << 20;

/// Every step of the schema, in order. A step that was released is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_journal.sql"),
    include_str!("migrations/0002_catalog.sql"),
    include_str!("migrations/0003_dependencies.sql"),
    include_str!("migrations/0004_removed.sql"),
    include_str!("migrations/0005_lists.sql"),
    include_str!("migrations/0006_budgets.sql"),
    include_str!("migrations/0007_lives.sql"),
    include_str!("migrations/0008_labels.sql"),
    include_str!("migrations/0009_conversations.sql"),
    include_str!("migrations/0010_idle.sql"),
];

/// The step that makes the table of waits, which is filled from the logs.
const DEPENDENCIES: i64 = 3;

/// The step that adds the conversation of a job, which is known from the logs.
const CONVERSATIONS: i64 = 9;

/// An open journal.
pub(super) struct Opened {
    pub(super) connection: Connection,
    pub(super) instance: u64,
    pub(super) file: PathBuf,
    pub(super) witness: Witness,
    /// The journal had been further once.
    pub(super) behind: Option<Behind>,
}

/// Opens the journal of a folder, or creates one.
pub(super) fn open(folder: &Path) -> Result<Opened> {
    make_private(folder)?;
    let file = folder.join(FILE);
    match fs::metadata(&file) {
        Ok(found) if found.len() == 0 => return Err(damaged(&file, "it is empty")),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            fs::set_permissions(&file, Permissions::from_mode(0o600)).map_err(|e| unreachable(&file, &e))?;
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => create(folder, &file)?,
        Err(error) => return Err(unreachable(&file, &error)),
    }
    let mut connection = connect(&file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    check(&connection).map_err(|error| explain(&file, error))?;
    debug_assert!(is_in_wal_mode(&connection), "the settings were applied");
    migrate(&mut connection)?;
    let instance = instance(&mut connection, &file)?;
    reserve(&file);
    let (witness, behind) = Witness::begin(&file, newest_place(&connection)?)?;
    Ok(Opened { connection, instance, file, witness, behind })
}

/// Reserves room for the write-ahead log, without changing its content. If the disk has none, the next write fails and says so.
fn reserve(file: &Path) {
    let log = OpenOptions::new().write(true).open(file.with_extension("db-wal"));
    let _ = log.map(|log| rustix::fs::fallocate(log, rustix::fs::FallocateFlags::KEEP_SIZE, 0, RESERVE));
}

/// Makes sure that only the user can read the folder.
fn make_private(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| unreachable(folder, &e))?;
    let mode = fs::metadata(folder).map_err(|e| unreachable(folder, &e))?.permissions().mode();
    if mode & 0o077 != 0 {
        let folder = folder.display();
        return Err(Error::Unavailable(format!("others may look into {folder}; run `chmod 700 {folder}`")));
    }
    Ok(())
}

/// Creates a file under another name and links it into its place once it is complete and on the disk, so that the file
/// in that place was never incomplete. Of two processes that do this at once, one links first and both use its file.
fn create(folder: &Path, file: &Path) -> Result<()> {
    let log = file.with_extension("db-wal");
    // Checked in this order: another process may be creating both right now.
    if fs::metadata(&log).is_ok_and(|found| found.len() > 0) && !file.exists() {
        return Err(damaged(file, "it is gone, but its write-ahead log is there"));
    }
    let draft = folder.join(format!("{FILE}.{:016x}", random()?));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(|e| unreachable(&draft, &e))?;
    let made = fill(&draft).and_then(|()| match fs::hard_link(&draft, file) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(unreachable(file, &error)),
        _ => Ok(()),
    });
    fs::remove_file(&draft).map_err(|e| unreachable(&draft, &e))?;
    made?;
    // The name must survive a power cut, and so must the folder's.
    for folder in [Some(folder), folder.parent()].into_iter().flatten() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| unreachable(folder, &e))?;
    }
    Ok(())
}

/// Writes schema and instance into an empty file.
fn fill(draft: &Path) -> Result<()> {
    let mut connection = connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "application_id", APPLICATION).map_err(failed)?;
    migrate(&mut connection)?;
    let found = fs::metadata(draft).map_err(|e| unreachable(draft, &e))?;
    let insert = "insert into meta (one, instance, device, inode, incarnations) values (1, ?1, ?2, ?3, 0)";
    let values = params![random()?.cast_signed(), found.dev().cast_signed(), found.ino().cast_signed()];
    connection.execute(insert, values).map_err(failed)?;
    // Closing the only connection moves everything from the log into the file, synced.
    connection.close().map_err(|(_, error)| failed(error))
}

/// Opens one connection with the settings all of them share.
pub(super) fn connect(file: &Path, access: OpenFlags) -> Result<Connection> {
    let connection = Connection::open_with_flags(file, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|error| explain(file, error))?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    // Otherwise a bound limit makes SQLite plan the statement anew whenever it is run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
    if access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE) {
        // SQLite opens a file that may not be written for reading instead, and never again for writing.
        if connection.is_readonly(rusqlite::MAIN_DB).map_err(failed)? {
            let file = file.display();
            return Err(Error::Unavailable(format!("{file} may not be written; run `chmod 600 {file}`")));
        }
        let settings = [
            ("journal_mode", "WAL"),
            ("synchronous", "FULL"),
            ("foreign_keys", "OFF"),
            // 16 MB for the one writer: the inner pages of a large journal stay at hand.
            ("cache_size", "-16384"),
        ];
        for (name, value) in settings {
            connection.pragma_update(None, name, value).map_err(|error| explain(file, error))?;
        }
    }
    Ok(connection)
}

/// Reads what a damaged file, or one of another program, does not have.
pub(super) fn check(connection: &Connection) -> rusqlite::Result<()> {
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application != APPLICATION {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_NOTADB);
        return Err(rusqlite::Error::SqliteFailure(
            code,
            Some("another program made this database".to_owned()),
        ));
    }
    newest(connection).map(|_| ())
}

fn is_in_wal_mode(connection: &Connection) -> bool {
    connection
        .pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0))
        .is_ok_and(|mode| mode == "wal")
}

/// Returns the number of the last step that was taken.
fn newest(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("select coalesce(max(version), 0) from migrations", [], |row| row.get(0))
}

/// Refuses a schema of a later build.
pub(super) fn is_known(connection: &Connection) -> Result<i64> {
    let (found, known) = (newest(connection).map_err(failed)?, MIGRATIONS.len() as i64);
    if found > known {
        return Err(Error::Newer { found, known });
    }
    Ok(found)
}

/// Brings the schema up to this build.
fn migrate(connection: &mut Connection) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let table = "create table if not exists migrations (version integer primary key) strict";
    transaction.execute(table, []).map_err(failed)?;
    let found = is_known(&transaction)?;
    for (step, version) in MIGRATIONS.iter().zip(1..).skip(found as usize) {
        transaction.execute_batch(step).map_err(failed)?;
        if version == DEPENDENCIES {
            waits::fill(&transaction)?;
        }
        if version == CONVERSATIONS {
            conversations::fill(&transaction)?;
        }
        transaction.execute("insert into migrations (version) values (?1)", [version]).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

/// Returns the instance of this database, and gives it a new one if the file is a copy.
///
/// A copy starts without owners: their leases belong to the other file.
fn instance(connection: &mut Connection, file: &Path) -> Result<u64> {
    let found = fs::metadata(file).map_err(|e| unreachable(file, &e))?;
    let (device, inode) = (found.dev().cast_signed(), found.ino().cast_signed());
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (instance, at): (i64, (i64, i64)) = transaction
        .query_row("select instance, device, inode from meta", [], read)
        .map(|(instance, device, inode)| (instance, (device, inode)))
        .map_err(|error| explain(file, error))?;
    if at == (device, inode) {
        return Ok(instance.cast_unsigned());
    }
    let instance = random()?;
    let renamed = "update meta set instance = ?1, device = ?2, inode = ?3";
    transaction.execute(renamed, params![instance.cast_signed(), device, inode]).map_err(failed)?;
    transaction.execute("delete from lives", []).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(instance)
}

fn random() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::Unavailable(error.to_string()))
}

fn unreachable(path: &Path, error: &std::io::Error) -> Error {
    Error::Unavailable(format!("{}: {error}", path.display()))
}

fn damaged(file: &Path, what: &str) -> Error {
    let file = file.display();
    Error::Corrupt(format!(
        "{file} cannot be read: {what}; restore it from a backup, or move it away to begin anew"
    ))
}

/// Adds the file and what to do to an error that says the file is damaged.
fn explain(file: &Path, error: rusqlite::Error) -> Error {
    match failed(error) {
        Error::Corrupt(what) => damaged(file, &what),
        other => other,
    }
}
