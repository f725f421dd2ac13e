//! Principals and their rights: the user, or a process inside a job, which has only the rights of that job.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lastword_api::{Code, Problem};
use lastword_core::JobId;
use lastword_engine::FindError;
use lastword_store::Store;

use crate::app::App;
use crate::failure::Failure;

/// How many ancestors of a job are checked. Jobs are not nested deeper; the bound ends a loop of parents, which only damage can cause.
const DEPTH_MAX: usize = 64;

/// The other end of a connection, as its transport knows it: by its process, or later by a token.
pub(crate) trait Identify<J>: Send + Sync {
    /// Reports whether its requests are served at all.
    fn is_admitted(&self) -> bool;

    /// Reports whether it descends from no keeper at all, which can be told before jobs are known.
    fn is_outside_jobs(&self) -> bool;

    /// Returns the principal, which stays the same while it is connected.
    fn principal(&self, app: &App<J>) -> Result<Principal, Unidentified>;
}

/// Why the principal of a connection cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unidentified {
    /// The process that connected has exited or cannot be seen, or its ancestors cannot be read.
    Gone,
    /// It descends from this daemon, but its job is not known yet because the launch has not been reported.
    Launching,
}

/// The author of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal {
    /// The name that requests are recorded under.
    name: Arc<str>,
    rights: Rights,
}

/// What a principal may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Everything: the user.
    All,
    /// Submit jobs, and read, wait for, interrupt, cancel, answer and send messages to this job and its own jobs: a process in the tree of
    /// this job.
    Job(JobId),
}

impl<J: Store> FromRequestParts<App<J>> for Principal {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<Principal, Failure> {
        if !app.is_ready() {
            let detail = "the daemon is still recovering its jobs";
            let trouble = app.engine().desk().troubles().pop().map(|trouble| trouble.what);
            let detail = trouble.map_or_else(|| detail.to_owned(), |why| format!("{detail}: {why}"));
            return Err(Problem::new(Code::Starting, detail).into());
        }
        let peer = parts.extensions.get::<Arc<dyn Identify<J>>>();
        let problem = match peer.map_or(Err(Unidentified::Gone), |peer| peer.principal(app)) {
            Ok(principal) => return Ok(principal),
            Err(Unidentified::Gone) => {
                let detail = "the process that opened this connection has exited, or its ancestors cannot be read; connect again";
                Problem::new(Code::Forbidden, detail)
            }
            Err(Unidentified::Launching) => {
                let detail = "the job that sent this request is still being started; repeat it shortly";
                Problem::new(Code::Starting, detail)
            }
        };
        Err(problem.into())
    }
}

/// A principal with all rights.
#[derive(Clone, Debug)]
pub(crate) struct Unrestricted(pub(crate) Principal);

impl<J: Store> FromRequestParts<App<J>> for Unrestricted {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<Unrestricted, Failure> {
        let principal = Principal::from_request_parts(parts, app).await?;
        principal.must_be_unrestricted()?;
        Ok(Unrestricted(principal))
    }
}

/// A peer that may stop the daemon: one with all rights. While jobs are being recovered, one that descends from no keeper: a daemon that
/// waits for its journal can be stopped.
#[derive(Clone, Debug)]
pub(crate) struct MayStop;

impl<J: Store> FromRequestParts<App<J>> for MayStop {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<MayStop, Failure> {
        let peer = parts.extensions.get::<Arc<dyn Identify<J>>>();
        if !app.is_ready() && peer.is_some_and(|peer| peer.is_outside_jobs()) {
            return Ok(MayStop);
        }
        Unrestricted::from_request_parts(parts, app).await.map(|_| MayStop)
    }
}

fn inside(job: JobId) -> Failure {
    let detail = format!(
        "not allowed from inside {job}: it may only submit jobs, and read, wait for, cancel and send messages to itself and \
         its own jobs"
    );
    Problem::new(Code::InsideAJob, detail).about(job).into()
}

impl Principal {
    pub(crate) fn new(name: impl Into<Arc<str>>, rights: Rights) -> Principal {
        Principal { name: name.into(), rights }
    }

    /// Returns the name that its requests are recorded under.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Refuses a principal with the rights of a job.
    pub(crate) fn must_be_unrestricted(&self) -> Result<(), Failure> {
        match self.rights {
            Rights::All => Ok(()),
            Rights::Job(job) => Err(inside(job)),
        }
    }

    /// Returns the job whose rights it has, if it is inside one.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self.rights {
            Rights::All => None,
            Rights::Job(job) => Some(job),
        }
    }

    /// Returns the job that a reference means, if the principal has rights to it.
    pub(crate) async fn find<J: Store>(&self, app: &App<J>, reference: &str) -> Result<JobId, Failure> {
        let found = app.engine().desk().find(reference).await;
        match (self.rights, found) {
            // The candidates may be jobs of others.
            (Rights::Job(own), Err(FindError::Ambiguous { .. })) => Err(inside(own)),
            (Rights::Job(own), Ok(id)) if !descends(app, id, own).await? => Err(inside(own)),
            (_, found) => Ok(found?),
        }
    }

    /// Returns the running job that a user means although the journal cannot be read; otherwise the failure to read it.
    pub(crate) fn find_running<J: Store>(
        &self,
        app: &App<J>,
        reference: &str,
        failure: Failure,
    ) -> Result<JobId, Failure> {
        // What a job may stop is in the journal alone.
        let running = match self.rights {
            Rights::All if failure.is_of_journal() => app.engine().find_running(reference),
            _ => None,
        };
        running.ok_or(failure)
    }
}

/// Reports whether a job is `from` or was submitted by it, directly or indirectly.
async fn descends<J: Store>(app: &App<J>, job: JobId, from: JobId) -> Result<bool, Failure> {
    let mut at = job;
    for _ in 0..DEPTH_MAX {
        if at == from {
            return Ok(true);
        }
        let Some(parent) = parent(app, at).await? else { return Ok(false) };
        at = parent;
    }
    Ok(false)
}

async fn parent<J: Store>(app: &App<J>, job: JobId) -> Result<Option<JobId>, Failure> {
    let job = app.engine().job(job).await?.value;
    Ok(job.spec.as_ref().and_then(|spec| spec.parent))
}
