//! Which path is whose.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post, put};
use lastword_api::{Code, Problem};
use lastword_store::siblings::Siblings;

use crate::app::App;
use crate::failure::Failure;
use crate::{daemon, document, events, groups, jobs, output};

/// What a handler returns.
pub(crate) type Answer = Result<Response, Failure>;

/// Returns the routes.
pub(crate) fn router<J: Siblings>(app: &App<J>) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready::<J>))
        .route("/openapi.json", get(openapi))
        .route("/v1/daemon", get(daemon::show::<J>))
        .route("/v1/daemon:stop", post(daemon::stop::<J>))
        .route("/v1/jobs", get(jobs::list::<J>).post(jobs::submit::<J>))
        .route("/v1/jobs:cancel", post(jobs::cancel_many::<J>))
        .route("/v1/jobs:prune", post(jobs::prune::<J>))
        .route("/v1/jobs/{ref}", get(jobs::show::<J>).delete(jobs::remove::<J>).post(jobs::verb::<J>))
        .route("/v1/jobs/{ref}/limits", patch(jobs::set_limits::<J>))
        .route("/v1/jobs/{ref}/messages", post(jobs::send::<J>))
        .route("/v1/jobs/{ref}/answers", post(jobs::answer_question::<J>))
        .route("/v1/jobs/{ref}/events", get(events::of_job::<J>))
        .route("/v1/jobs/{ref}/output", get(output::read::<J>))
        .route("/v1/jobs/{ref}/result", get(output::result::<J>))
        .route("/v1/events", get(events::of_all::<J>))
        .route("/v1/groups", get(groups::list::<J>))
        .route("/v1/groups/{name}", put(groups::set::<J>).delete(groups::remove::<J>))
        .with_state(app.clone())
}

/// Is the daemon there?
#[utoipa::path(get, operation_id = "live", path = "/livez", tag = "daemon", responses((status = 204, description = "It is there.")))]
async fn live() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Does the daemon answer?
#[utoipa::path(get, operation_id = "ready", path = "/readyz", tag = "daemon", responses(
    (status = 204, description = "It answers."),
    (status = 503, description = "It is finding out what became of the jobs of its former life.", body = Problem),
))]
async fn ready<J: Siblings>(State(app): State<App<J>>) -> Result<StatusCode, Failure> {
    match app.is_ready() {
        true => Ok(StatusCode::NO_CONTENT),
        false => {
            Err(Problem::new(Code::Starting, "the daemon is finding out what became of its jobs").into())
        }
    }
}

/// This document.
#[utoipa::path(get, operation_id = "openapi", path = "/openapi.json", tag = "daemon", responses((status = 200, description = "This document.")))]
async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document::COMMITTED).into_response()
}
