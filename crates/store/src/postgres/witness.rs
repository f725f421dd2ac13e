//! Notices that the journal was created again, restored, emptied or rolled back under this process, before anything more is acknowledged.
//!
//! Every statement that writes looks at two things, by the snapshot it writes with. The first is which journal this is: its instance, and the
//! very row that was written when its tables were made. A copy of that row is another row: it has another transaction, and mostly another
//! table. The second is how far the server had come when it last stored something for this process: the number of a transaction never
//! goes back, unless the files of the server did. What was done before the journal was opened shows in `high_water`.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use deadpool_postgres::GenericClient;
use tokio_postgres::Client;

use super::failure::{Failure, Try};
use crate::high_water::{HighWater, Remembered};
use crate::{Behind, Error, Result};

/// What to do about it.
const ADVICE: &str = "put it back, or restart the daemon to use what is there now";

/// Names the journal of `meta m join migrations b on b.step = 1`.
macro_rules! identity {
    () => {
        "concat_ws('.', m.instance_first, b.tableoid, b.xmin)"
    };
}

/// Above the place of everything that is committed, by the snapshot of the statement.
macro_rules! next_place {
    () => {
        "pg_snapshot_xmax(pg_current_snapshot())::text::bigint + m.feed_offset"
    };
}

/// What a statement that writes begins with: the table `here` has a row if this is the journal that was opened. The parameters are
/// [`Witness::identity`] and [`Witness::newest`]. `batch.sql` and `settle.sql` say the same.
macro_rules! with_here {
    ($identity:literal, $newest:literal, $($rest:literal),+) => {
        concat!(
            "with here as materialized (
                select from meta m join migrations b on b.step = 1
                where ", $crate::postgres::witness::identity!(), " = ", $identity, "::text
                    and ", $crate::postgres::witness::next_place!(), " > ", $newest, "::bigint
            )"
            $(, $rest)+
        )
    };
}
pub(super) use {identity, next_place, with_here};

/// Which journal this is, and how far its server has counted. Benches ask for the first.
pub const IDENTITY: &str =
    concat!("select ", identity!(), ", ", next_place!(), " - 1 from meta m join migrations b on b.step = 1");

/// What this process knows of the journal that it opened.
pub(super) struct Witness {
    identity: String,
    newest: AtomicI64,
    /// From where to where the server was rolled back. It stays so: other processes bring the server further again, and what was lost
    /// does not come back by that.
    rolled_back: OnceLock<(i64, i64)>,
    high_water: Mutex<HighWater>,
    behind: Option<Behind>,
}

impl Witness {
    /// Begins to watch the journal; `folder` is where it is remembered.
    pub(super) async fn begin(client: &Client, folder: Option<&Path>) -> Try<Witness> {
        let row = client.query_opt(IDENTITY, &[]).await?;
        let row = row.ok_or_else(|| {
            Error::Corrupt("it has lost its row in `meta`: restore it from a backup".to_owned())
        })?;
        let (identity, counted): (String, i64) = (row.get(0), row.get(1));
        let (high_water, remembered) =
            folder.map_or_else(|| (HighWater::none(), Remembered::default()), HighWater::open);
        // A removal takes the newest event away, so the events tell only when the counter cannot: in a journal that was copied.
        let has = if remembered.journal == identity {
            counted
        } else {
            let sql = "select coalesce((select place from events order by place desc limit 1), 0)";
            client.query_one(sql, &[]).await?.get(0)
        };
        let (had, has) = (remembered.newest, has.cast_unsigned());
        Ok(Witness {
            high_water: Mutex::new(high_water.of(&identity)),
            // Not what is counted: after a crash, a server counts again what it had not written.
            newest: AtomicI64::new(0),
            rolled_back: OnceLock::new(),
            behind: (had > has).then_some(Behind { had, has }),
            identity,
        })
    }

    /// Returns how far the journal had been when it was opened, if it had been further.
    pub(super) fn behind(&self) -> Option<Behind> {
        self.behind
    }

    /// Returns how far the journal has come for certain. Asked before a transaction begins, whose place is then above it.
    pub(super) fn newest(&self) -> i64 {
        match self.rolled_back.get() {
            Some(_) => i64::MAX,
            None => self.newest.load(Ordering::Acquire),
        }
    }

    /// Names the journal in a statement.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Notes the place of what was committed.
    pub(super) fn note(&self, place: i64) {
        if self.newest.fetch_max(place, Ordering::AcqRel) < place {
            let mut high_water = self.high_water.lock().unwrap_or_else(PoisonError::into_inner);
            high_water.note(self.newest.load(Ordering::Acquire).cast_unsigned());
        }
    }

    /// Says why a statement found no row in `here`.
    pub(super) async fn explain(&self, client: &impl GenericClient) -> Failure {
        let asked = async {
            let newest = self.newest();
            let statement = client.prepare_cached(IDENTITY).await?;
            let found = client.query_opt(&statement, &[]).await?;
            self.check(found.as_ref().map(|row| (row.get(0), row.get(1))), newest)?;
            Err(Failure::Clash("the journal was exchanged, and put back".to_owned()))
        };
        asked.await.map_or_else(|failure| failure, |never: Infallible| match never {})
    }

    /// Fails unless this is the journal that was opened: its identity, and how far it has come. `newest` was known before it was asked.
    pub(super) fn check(&self, found: Option<(&str, i64)>, newest: i64) -> Result<()> {
        let lost = |what: &str| Err(Error::Unavailable(format!("{what} while it was in use: {ADVICE}")));
        let Some((identity, has)) = found else { return lost("it was emptied") };
        if identity.split('.').next() != self.identity.split('.').next() {
            return lost("its database was created again, restored or moved to another server");
        }
        if identity != self.identity {
            return lost("it was restored from a copy");
        }
        if has < newest {
            let (from, to) = self.rolled_back.get_or_init(|| (newest, has));
            return Err(Error::Unavailable(format!(
                "its server was rolled back from transaction {from} to {to} while it was in use: restart the daemon to use what is there now"
            )));
        }
        Ok(())
    }
}
