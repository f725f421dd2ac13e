//! Showing and stopping the daemon.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{Daemon, JobsFate, Problem, StopDaemon, Stopping, Trouble, VERSION};
use lastword_engine::Jobs;
use lastword_store::Store;

use crate::app::{App, Closing};
use crate::extract::Body;
use crate::failure::{Failure, Reply};
use crate::groups;
use crate::principal::MayStop;

/// Shows the daemon, even while it is starting.
#[utoipa::path(get, operation_id = "show_daemon", path = "/v1/daemon", tag = "daemon", responses(
    (status = 200, description = "The daemon.", body = Daemon),
))]
pub(crate) async fn show<J: Store>(State(app): State<App<J>>) -> Reply {
    let about = app.about();
    let counts = match app.engine().desk().journal().counts().await {
        // A worker of a fleet: its server has the list.
        Err(lastword_store::Error::Refused(_)) => Default::default(),
        counts => counts?,
    };
    let mut troubles: Vec<Trouble> = app.engine().desk().troubles().into_iter().map(shown).collect();
    troubles.reverse();
    let daemon = Daemon {
        version: VERSION.to_owned(),
        pid: std::process::id(),
        started_at: app.started_at(),
        state_dir: about.state_dir.display().to_string(),
        host: about.host.clone(),
        level: about.level.into(),
        ready: app.is_ready(),
        counts: counts.into_iter().map(|(phase, count)| (phase.as_str().to_owned(), count)).collect(),
        groups: groups::all(&app).await?,
        troubles,
    };
    Ok(Json(daemon).into_response())
}

fn shown(trouble: lastword_engine::Trouble) -> Trouble {
    Trouble {
        time: trouble.at.into(),
        job: trouble.job.map(|job| job.to_string()),
        text: trouble.what,
        remedy: trouble.next,
        count: trouble.count,
    }
}

/// Stops the daemon.
///
/// Its jobs keep running and the next daemon adopts them; or they are cancelled, and the daemon exits when all are proven dead; or those that
/// were started are waited for. Until then it serves requests but accepts no new jobs.
#[utoipa::path(post, operation_id = "stop_daemon", path = "/v1/daemon:stop", tag = "daemon", request_body = StopDaemon, responses(
    (status = 202, description = "It will stop; with `cancel`, once every job is proven dead; with `finish`, once those that were started have ended.", body = Stopping),
    (status = 403, description = "The caller is inside a job.", body = Problem),
))]
pub(crate) async fn stop<J: Store>(
    State(app): State<App<J>>,
    _: MayStop,
    Body(asked): Body<StopDaemon>,
) -> Reply {
    let jobs = match asked.jobs {
        // A server holds none: it would stop, and they would go on.
        JobsFate::Cancel if app.about().fleet.is_some() => {
            let text =
                "the jobs of a fleet do not end with one of its servers: cancel them before it is stopped";
            return Err(Failure::invalid(text));
        }
        JobsFate::Keep => Jobs::Keep,
        JobsFate::Cancel => Jobs::Cancel,
        JobsFate::Finish => Jobs::Finish,
        JobsFate::Other(_) => return Err(Failure::invalid("`jobs` must be `keep`, `cancel` or `finish`")),
    };
    tracing::info!(jobs = %asked.jobs, "asked to stop");
    let stopping = Stopping { pid: std::process::id(), jobs: asked.jobs.clone() };
    tokio::spawn(async move {
        let why = Closing::Stop(asked.jobs);
        match app.engine().shut_down(jobs).await {
            // The caller asked for the end of the jobs, so the daemon must not exit before that.
            Err(error) if jobs == Jobs::Cancel => {
                tracing::error!(%error, "not every job could be cancelled; the daemon stays, and accepts no new jobs");
            }
            Err(error) => {
                tracing::error!(%error, "the lease could not be released; the next daemon takes it over");
                app.close(why);
            }
            Ok(()) => app.close(why),
        }
    });
    Ok((StatusCode::ACCEPTED, Json(stopping)).into_response())
}
