//! Notices that the journal was created again, restored, emptied or rolled back under this process, before anything more is acknowledged. A
//! journal that has lost something goes on as a new instance, see `instance`; one that was emptied or created again is refused.
//!
//! What was done before the journal was opened shows in `high_water`.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_postgres::Client;
use uuid::Uuid;

use super::failure::Try;
use super::identity::{Known, identity, next_place};
use super::instance::{self, Found};
use crate::high_water::{HighWater, Remembered};
use crate::{Behind, Error};

/// What to do about it.
const ADVICE: &str = "put it back, or restart the daemon to use what is there now";

/// Watches the journal that was opened.
pub(super) struct Witness {
    /// The journal, through all its instances.
    journal: Uuid,
    state: Mutex<State>,
    behind: Option<Behind>,
}

struct State {
    known: Known,
    high_water: HighWater,
}

impl Witness {
    /// Begins to watch the journal; `folder` is where it is remembered.
    pub(super) async fn begin(client: &Client, folder: Option<&Path>) -> Try<Witness> {
        let sql = concat!(
            "select ",
            identity!(),
            ", ",
            next_place!(),
            " - 1, m.journal, m.instance_first
            from meta m join migrations b on b.step = 1"
        );
        let row = client.query_opt(sql, &[]).await?;
        let row = row.ok_or_else(|| {
            Error::Corrupt("it has lost its row in `meta`: restore it from a backup".to_owned())
        })?;
        let (identity, counted): (String, i64) = (row.get(0), row.get(1));
        let (high_water, remembered) =
            folder.map_or_else(|| (HighWater::none(), Remembered::default()), HighWater::open);
        let is_same = remembered.journal == identity;
        // A removal takes the newest event away, so the events tell only when the counter cannot: in a journal that was copied.
        let has = if is_same {
            counted
        } else {
            let sql = "select coalesce((select place from events order by place desc limit 1), 0)";
            client.query_one(sql, &[]).await?.get(0)
        };
        let (had, has) = (remembered.newest, has.cast_unsigned());
        let known = Known {
            instance: instance::number(row.get(3)),
            newest: if is_same { had.cast_signed() } else { 0 },
            started: Some(remembered.run).filter(|run| is_same && !run.is_empty()),
            identity: identity.clone(),
        };
        let witness = Witness {
            journal: row.get(2),
            state: Mutex::new(State { known, high_water: high_water.of(&identity) }),
            behind: (had > has).then_some(Behind { had, has }),
        };
        witness.recognise(client).await?;
        Ok(witness)
    }

    /// Returns how far the journal had been when it was opened, if it had been further.
    pub(super) fn behind(&self) -> Option<Behind> {
        self.behind
    }

    /// Returns which journal it is.
    pub(super) fn journal(&self) -> Uuid {
        self.journal
    }

    /// Returns what is known of the journal.
    pub(super) fn known(&self) -> Known {
        self.state().known.clone()
    }

    /// Returns the instance that is known.
    pub(super) fn instance(&self) -> u64 {
        self.state().known.instance
    }

    /// Notes the place of what was committed in the instance that was known.
    pub(super) fn note(&self, before: &Known, place: i64) {
        let mut state = self.state();
        if state.known.identity == before.identity && state.known.newest < place {
            state.known.newest = place;
            state.high_water.note(place.cast_unsigned());
        }
    }

    /// Looks which instance is on the server, and goes on with it. Fails if it is another journal, or none.
    pub(super) async fn recognise(&self, client: &Client) -> Try<()> {
        let lost = |what: &str| {
            let text = format!("{what} while it was in use: {ADVICE}");
            Err(Error::Unavailable(text).into())
        };
        match instance::recognise(client, self.journal, || self.known()).await? {
            None => lost("it was emptied"),
            Some(found) if found.journal != self.journal => lost("its database was created again"),
            Some(found) => {
                self.go_on_with(found);
                Ok(())
            }
        }
    }

    fn go_on_with(&self, found: Found) {
        let mut state = self.state();
        if state.known.identity != found.identity {
            state.high_water.rename(&found.identity);
            state.known.newest = 0;
        }
        state.high_water.in_run(&found.started);
        let newest = state.known.newest;
        let (instance, started) = (instance::number(found.instance), Some(found.started));
        state.known = Known { identity: found.identity, instance, newest, started };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Ignores poison: no critical section here can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
