//! A worker of a fleet: the journal is behind a link to its servers, and jobs run here, each under the lease of this worker.

use std::path::PathBuf;

use lastword_api::Code;
use lastword_core::OwnerId;
use lastword_engine::{Engine, LocalHost};
use lastword_link::Link;
use lastword_proc::User;

use super::enrolment::Enrolment;
use crate::daemon::role::Role;
use crate::daemon::service::{Place, Service};
use crate::environment;
use crate::failure::Failure;
use crate::paths::Paths;

/// The folder of the lease files.
const LEASES: &str = "leases";

/// A worker.
pub(crate) struct Worker {
    pub(crate) enrolment: Enrolment,
    /// How many jobs it runs at once.
    pub(crate) slots: u32,
    /// The user that jobs run as; the worker's own if `None`.
    pub(crate) user: Option<User>,
    /// How long its trees may run without a word from a server.
    pub(crate) lease_ms: u64,
}

/// Returns the folder of the folders of jobs that run as another user: beside the state folder, which is closed to them.
fn work_folder(paths: &Paths) -> PathBuf {
    let mut name = paths.state.file_name().unwrap_or_default().to_owned();
    name.push(".work");
    paths.state.with_file_name(name)
}

impl Service for Worker {
    type Journal = Link;
    const ROLE: Role = Role::Worker;

    fn host(&self, host: LocalHost, paths: &Paths) -> Result<LocalHost, Failure> {
        let host = host.with_leases(paths.in_state(LEASES));
        let host = host.map_err(|error| Failure::new(Code::Unavailable, error.to_string()))?;
        let host = host.with_env(environment::all());
        let Some(user) = &self.user else { return Ok(host) };
        let work = work_folder(paths);
        host.with_user(user.clone(), work.clone()).map_err(|error| {
            Failure::new(Code::Unavailable, format!("cannot make the folder {}: {error}", work.display()))
        })
    }

    /// Connects in the background: a worker whose servers are away still looks after the trees that it has.
    async fn open(&self, _: &Place) -> Result<Link, Failure> {
        Link::open(self.enrolment.remote(self.slots))
            .map_err(|error| Failure::new(Code::Unavailable, format!("cannot connect to a server: {error}")))
    }

    fn start(&self, place: &Place, journal: &Link) -> Engine<Link> {
        let name = OwnerId(self.enrolment.name.as_str().into());
        let options = place.options(name).worker(self.slots, self.lease_ms);
        journal.answer_for(place.host.clone());
        Engine::start(journal.clone(), place.host.clone(), options)
    }
}
