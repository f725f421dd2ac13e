//! The daemon itself: how it is, and its end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{Daemon, JobsFate, Problem, StopDaemon, Stopping, Trouble, VERSION};
use lastword_engine::Jobs;
use lastword_store::siblings::Siblings;

use crate::app::App;
use crate::caller::Outside;
use crate::extract::Body;
use crate::failure::Failure;
use crate::groups;
use crate::router::Answer;

/// Shows the daemon, also while it is starting.
#[utoipa::path(get, operation_id = "show_daemon", path = "/v1/daemon", tag = "daemon", responses(
    (status = 200, description = "The daemon.", body = Daemon),
))]
pub(crate) async fn show<J: Siblings>(State(app): State<App<J>>) -> Answer {
    let about = app.about();
    let counts = app.engine().desk().journal().counts().await?;
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
/// Its jobs go on, and the next daemon adopts them; or they are cancelled, and it goes when all are proven dead. Until it goes it
/// answers, and takes no new jobs.
#[utoipa::path(post, operation_id = "stop_daemon", path = "/v1/daemon:stop", tag = "daemon", request_body = StopDaemon, responses(
    (status = 202, description = "It will stop; with `cancel`, once every job is proven dead.", body = Stopping),
    (status = 403, description = "Asked from inside a job.", body = Problem),
))]
pub(crate) async fn stop<J: Siblings>(
    State(app): State<App<J>>,
    _: Outside,
    Body(asked): Body<StopDaemon>,
) -> Answer {
    let jobs = match asked.jobs {
        JobsFate::Keep => Jobs::Keep,
        JobsFate::Cancel => Jobs::Cancel,
        JobsFate::Other(_) => return Err(Failure::invalid("`jobs` is `keep` or `cancel`")),
    };
    tracing::info!(jobs = %asked.jobs, "asked to stop");
    tokio::spawn(async move {
        match app.engine().shut_down(jobs).await {
            // A caller that asked for the end of the jobs must not mistake the end of the daemon for it.
            Err(error) if jobs == Jobs::Cancel => {
                tracing::error!(%error, "not every job could be cancelled; the daemon stays, and takes no new jobs");
            }
            Err(error) => {
                tracing::error!(%error, "the lease could not be given back; the next daemon takes it over");
                app.close();
            }
            Ok(()) => app.close(),
        }
    });
    let stopping = Stopping { pid: std::process::id() };
    Ok((StatusCode::ACCEPTED, Json(stopping)).into_response())
}
