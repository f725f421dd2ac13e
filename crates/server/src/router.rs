//! The routes of the API.

use axum::Router;
use axum::routing::{get, patch, post, put};
use lastword_store::Store;

use crate::app::App;
use crate::{daemon, events, groups, health, jobs, output};

/// Returns the routes.
pub(crate) fn router<J: Store>(app: &App<J>) -> Router {
    Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready::<J>))
        .route("/openapi.json", get(health::openapi))
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
