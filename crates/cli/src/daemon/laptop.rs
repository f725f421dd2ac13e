//! The daemon of a laptop: the journal is a SQLite file in its state folder, and every job runs here.

use std::sync::Arc;

use lastword_api::Code;
use lastword_core::OwnerId;
use lastword_engine::Engine;
use lastword_store::sqlite::Sqlite;

use super::role::Role;
use super::service::{Place, Service};
use crate::failure::Failure;
use crate::paths::Paths;

/// The daemon of a laptop.
pub(crate) struct Laptop;

impl Service for Laptop {
    type Journal = Sqlite;
    const ROLE: Role = Role::Daemon;

    async fn open(&self, place: &Place) -> Result<Sqlite, Failure> {
        Sqlite::open(&place.paths.state).map_err(|error| unreadable(&place.paths, &error))
    }

    fn start(&self, place: &Place, journal: &Sqlite) -> Engine<Sqlite> {
        let options = place.options(OwnerId(Arc::from("daemon")));
        let behind = journal.behind();
        let engine = Engine::start(journal.clone(), place.host.clone(), options);
        if let Some(behind) = behind {
            let what = format!(
                "the journal has {} events and had {}: it was deleted, or an older copy was put in its place",
                behind.has, behind.had
            );
            engine.desk().report(what, "lastword doctor    # shows process trees that it does not know");
        }
        engine
    }
}

/// Returns an error for an unusable journal. It is never replaced by an empty one.
fn unreadable(paths: &Paths, error: &lastword_store::Error) -> Failure {
    let state = paths.state.display();
    match error {
        lastword_store::Error::Corrupt(_) => Failure::new(Code::Corrupt, format!("{error} (in {state}); nothing was changed"))
            .next(format!("restore {state}/journal.db from a backup,"))
            .next("or move it away together with its -wal file: all jobs are then forgotten, and running ones are no longer watched"),
        other => Failure::new(Code::Unavailable, format!("{other} (in {state})")),
    }
}
