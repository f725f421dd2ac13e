//! Callers and their rights: the user, or a process inside a job, which has only the rights of that job.

use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lastword_api::{Code, Problem};
use lastword_core::JobId;
use lastword_proc::Peer;
use lastword_store::Store;

use crate::app::App;
use crate::failure::Failure;

/// How many ancestors of a job are checked. Jobs are not nested deeper; the bound ends a loop of parents, which only damage can cause.
const DEPTH_MAX: usize = 64;

/// The process at the other end of a connection. It does not change, so its rights are determined once.
#[derive(Debug)]
pub(crate) struct Client {
    peer: Peer,
    caller: OnceLock<Caller>,
}

/// Why the caller cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// The process that connected has exited or cannot be seen.
    Gone,
    /// It descends from this daemon, but its job is not known yet because the launch has not been reported.
    Launching,
}

impl Client {
    pub(crate) fn new(peer: Peer) -> Client {
        Client { peer, caller: OnceLock::new() }
    }

    /// Reports whether it belongs to the daemon's user. Other users are refused, including root, which can become the user.
    pub(crate) fn is_user(&self) -> bool {
        self.peer.uid == rustix::process::geteuid().as_raw()
    }

    /// Returns the caller.
    fn caller<J: Store>(&self, app: &App<J>) -> Result<Caller, Unknown> {
        if let Some(known) = self.caller.get() {
            return Ok(*known);
        }
        // Checked before the job is looked up: a launch that is reported in between makes the job known.
        let me = std::process::id().cast_signed();
        let is_below_us = lastword_proc::ancestors(self.peer.pid).iter().skip(1).any(|(pid, _)| *pid == me);
        let holder = app.engine().holder_of(self.peer.pid);
        // If it is still alive, its pid was not reused meanwhile.
        if !self.peer.is_alive() {
            return Err(Unknown::Gone);
        }
        match holder {
            None if is_below_us => Err(Unknown::Launching),
            holder => Ok(*self.caller.get_or_init(|| holder.map_or(Caller::Outside, Caller::Inside))),
        }
    }
}

/// The author of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The user.
    Outside,
    /// A process in the tree of this job.
    Inside(JobId),
}

impl<J: Store> FromRequestParts<App<J>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<Caller, Failure> {
        if !app.is_ready() {
            let detail = "the daemon is still recovering its jobs";
            let trouble = app.engine().desk().troubles().pop().map(|trouble| trouble.what);
            let detail = trouble.map_or_else(|| detail.to_owned(), |why| format!("{detail}: {why}"));
            return Err(Problem::new(Code::Starting, detail).into());
        }
        let client = parts.extensions.get::<Arc<Client>>();
        let problem = match client.map_or(Err(Unknown::Gone), |client| client.caller(app)) {
            Ok(caller) => return Ok(caller),
            Err(Unknown::Gone) => {
                let detail =
                    "the process that opened this connection has exited or cannot be seen; connect again";
                Problem::new(Code::Forbidden, detail)
            }
            Err(Unknown::Launching) => {
                let detail = "the job that sent this request is still being started; repeat it shortly";
                Problem::new(Code::Starting, detail)
            }
        };
        Err(problem.into())
    }
}

/// The user, from outside any job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside;

impl<J: Store> FromRequestParts<App<J>> for Outside {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<Outside, Failure> {
        Caller::from_request_parts(parts, app).await?.must_be_outside()?;
        Ok(Outside)
    }
}

fn inside(job: JobId) -> Failure {
    let detail = format!(
        "not allowed from inside {job}: it may only submit jobs, and read, wait for, cancel and send messages to itself and \
         its own jobs"
    );
    Problem::new(Code::InsideAJob, detail).about(job).into()
}

impl Caller {
    /// Returns the name that requests are recorded under.
    pub(crate) fn name<J: Store>(&self, app: &App<J>) -> String {
        match self {
            Caller::Outside => app.about().user.clone(),
            Caller::Inside(job) => job.to_string(),
        }
    }

    /// Refuses callers inside a job.
    pub(crate) fn must_be_outside(&self) -> Result<(), Failure> {
        match self {
            Caller::Outside => Ok(()),
            Caller::Inside(job) => Err(inside(*job)),
        }
    }

    /// Returns the job of the caller, if it is inside one.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Caller::Outside => None,
            Caller::Inside(job) => Some(*job),
        }
    }

    /// Returns the job that a reference means, if the caller has rights to it.
    pub(crate) async fn find<J: Store>(&self, app: &App<J>, reference: &str) -> Result<JobId, Failure> {
        let id = app.engine().desk().find(reference).await?;
        match self {
            Caller::Outside => Ok(id),
            Caller::Inside(me) if descends(app, id, *me).await? => Ok(id),
            Caller::Inside(me) => Err(inside(*me)),
        }
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
