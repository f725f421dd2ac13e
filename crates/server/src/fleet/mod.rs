//! The fleet of a server: its workers, new ones, and what is stuck. A daemon that is no server of a fleet has none.

mod beats;
mod roster;

use std::fmt;
use std::sync::Arc;

use lastword_api as api;
use lastword_core::OwnerId;
use lastword_core::worker_labels::WorkerLabels;
use lastword_store::{Enrolments, Journal, Result};

pub use self::roster::Door;
use self::roster::{AnyRoster, Roster};

/// The fleet of a server. Clones share it.
#[derive(Clone)]
pub struct Fleet(Arc<dyn AnyRoster>);

impl Fleet {
    /// Returns the fleet that is enrolled in a store.
    pub fn new<S: Enrolments + Journal>(store: S, door: Door) -> Fleet {
        Fleet(Arc::new(Roster::new(store, door)))
    }

    /// Watches the beats of workers, for ever.
    pub(crate) async fn watch(&self) {
        self.0.watch().await;
    }

    /// Makes a one-time token for a name.
    pub(crate) async fn invite(&self, name: OwnerId, labels: WorkerLabels) -> Result<api::Invitation> {
        self.0.invite(name, labels).await
    }

    /// Revokes the enrolment of a name. Reports whether there is one.
    pub(crate) async fn revoke(&self, name: OwnerId) -> Result<bool> {
        self.0.revoke(name).await
    }

    /// Returns what this server sees of it.
    pub(crate) async fn show(&self) -> Result<api::Fleet> {
        self.0.show().await
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fleet")
    }
}
