//! The caller and its rights: the user from outside, or a process inside a job, which has that job's rights only.

use std::sync::{Arc, OnceLock};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lastword_api::{Code, Problem};
use lastword_core::JobId;
use lastword_proc::Peer;
use lastword_store::siblings::Siblings;

use crate::app::App;
use crate::failure::Failure;

/// Jobs between a job and one it is said to have submitted. No real nesting is that deep; a ring of parents, which only damage can
/// make, ends here.
const DEPTH_MAX: usize = 64;

/// The peer of a connection. It cannot change while connected, so it is looked up once.
#[derive(Debug)]
pub(crate) struct Visitor {
    peer: Peer,
    standing: OnceLock<Caller>,
}

/// Why the caller cannot be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// The process that connected is gone or cannot be seen.
    Gone,
    /// It was started through this daemon, and its job is not known yet: the launch has not been answered.
    Launching,
}

impl Visitor {
    pub(crate) fn new(peer: Peer) -> Visitor {
        Visitor { peer, standing: OnceLock::new() }
    }

    /// Reports whether it is the user this daemon works for. No other is answered, not even root: root can become the user.
    pub(crate) fn is_user(&self) -> bool {
        self.peer.uid == rustix::process::geteuid().as_raw()
    }

    /// Identifies it.
    fn caller<J: Siblings>(&self, app: &App<J>) -> Result<Caller, Unknown> {
        if let Some(known) = self.standing.get() {
            return Ok(*known);
        }
        // Before its job is asked for: a launch that is answered in between has made it known.
        let me = std::process::id().cast_signed();
        let is_below_us = lastword_proc::ancestors(self.peer.pid).iter().skip(1).any(|(pid, _)| *pid == me);
        let holder = app.engine().holder_of(self.peer.pid);
        // Asked after the look: its number meant it all the while.
        if !self.peer.is_alive() {
            return Err(Unknown::Gone);
        }
        match holder {
            None if is_below_us => Err(Unknown::Launching),
            holder => Ok(*self.standing.get_or_init(|| holder.map_or(Caller::Outside, Caller::Inside))),
        }
    }
}

/// The caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The user.
    Outside,
    /// A process in the tree of a job.
    Inside(JobId),
}

impl<J: Siblings> FromRequestParts<App<J>> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<Caller, Failure> {
        if !app.is_ready() {
            let detail = "the daemon is finding out what became of the jobs of its former life";
            let hindered = app.engine().desk().troubles().pop().map(|trouble| trouble.what);
            let detail = hindered.map_or_else(|| detail.to_owned(), |why| format!("{detail}: {why}"));
            return Err(Problem::new(Code::Starting, detail).into());
        }
        let visitor = parts.extensions.get::<Arc<Visitor>>();
        let problem = match visitor.map_or(Err(Unknown::Gone), |visitor| visitor.caller(app)) {
            Ok(caller) => return Ok(caller),
            Err(Unknown::Gone) => {
                let detail =
                    "the process that opened this connection is gone or cannot be seen; connect again";
                Problem::new(Code::Forbidden, detail)
            }
            Err(Unknown::Launching) => {
                let detail = "the job that asks is being started, and is not known yet; repeat in a moment";
                Problem::new(Code::Starting, detail)
            }
        };
        Err(problem.into())
    }
}

/// The user, from outside any job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outside;

impl<J: Siblings> FromRequestParts<App<J>> for Outside {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App<J>) -> Result<Outside, Failure> {
        Caller::from_request_parts(parts, app).await?.must_be_outside()?;
        Ok(Outside)
    }
}

fn inside(job: JobId) -> Failure {
    let detail = format!(
        "this was asked from inside {job}, which may submit jobs and read, wait for, cancel and speak to itself and those; \
         ask from outside"
    );
    Problem::new(Code::InsideAJob, detail).about(job).into()
}

impl Caller {
    /// Returns the name under which a request is recorded.
    pub(crate) fn name<J: Siblings>(&self, app: &App<J>) -> String {
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

    /// Returns the job that asks, if one does.
    pub(crate) fn job(&self) -> Option<JobId> {
        match self {
            Caller::Outside => None,
            Caller::Inside(job) => Some(*job),
        }
    }

    /// Returns the job that is meant by a reference, if the caller may have to do with it.
    pub(crate) async fn find<J: Siblings>(&self, app: &App<J>, reference: &str) -> Result<JobId, Failure> {
        let id = app.engine().desk().find(reference).await?;
        match self {
            Caller::Outside => Ok(id),
            Caller::Inside(me) if descends(app, id, *me).await? => Ok(id),
            Caller::Inside(me) => Err(inside(*me)),
        }
    }
}

/// Reports whether a job is the given one, or was submitted by it, or by one that was.
async fn descends<J: Siblings>(app: &App<J>, job: JobId, from: JobId) -> Result<bool, Failure> {
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

async fn parent<J: Siblings>(app: &App<J>, job: JobId) -> Result<Option<JobId>, Failure> {
    let job = app.engine().job(job).await?.value;
    Ok(job.spec.as_ref().and_then(|spec| spec.parent))
}
