//! The routes of the API.

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use lastword_store::Store;

use crate::app::App;
use crate::extract::refuse_query;
use crate::{
    changes, conversations, daemon, events, groups, health, jobs, output, processes, progress, transcript,
    usage, workers,
};

/// Returns the routes.
pub(crate) fn router<J: Store>(app: &App<J>) -> Router {
    Router::new()
        .route("/livez", plain(get(health::live)))
        .route("/readyz", plain(get(health::ready::<J>)))
        .route("/openapi.json", plain(get(health::openapi)))
        .route("/v1/daemon", plain(get(daemon::show::<J>)))
        .route("/v1/daemon:stop", plain(post(daemon::stop::<J>)))
        .route("/v1/jobs", plain(post(jobs::submit::<J>)).get(jobs::list::<J>))
        .route("/v1/jobs:cancel", plain(post(jobs::cancel_many::<J>)))
        .route("/v1/jobs:prune", plain(post(jobs::prune::<J>)))
        .route("/v1/jobs/{ref}", one_job())
        .route("/v1/jobs/{ref}/limits", plain(patch(jobs::set_limits::<J>)))
        .route("/v1/jobs/{ref}/labels", plain(patch(jobs::set_labels::<J>)))
        .route("/v1/jobs/{ref}/messages", plain(post(jobs::send::<J>)))
        .route("/v1/jobs/{ref}/answers", plain(post(jobs::answer_question::<J>)))
        .route("/v1/jobs/{ref}/rules/{rule}", plain(delete(jobs::remove_rule::<J>)))
        .route("/v1/jobs/{ref}/events", get(events::of_job::<J>))
        .route("/v1/jobs/{ref}/output", get(output::read::<J>))
        .route("/v1/jobs/{ref}/changes", plain(get(changes::list::<J>)))
        .route("/v1/jobs/{ref}/diff", get(changes::patch::<J>))
        .route("/v1/jobs/{ref}/processes", plain(get(processes::list::<J>)))
        .route("/v1/jobs/{ref}/transcript", get(transcript::of_job::<J>))
        .route("/v1/jobs/{ref}/result", plain(get(output::result::<J>)))
        .route("/v1/progress", plain(post(progress::report::<J>)))
        .route("/v1/conversations", get(conversations::list::<J>))
        .route("/v1/conversations/{ref}", plain(get(conversations::show::<J>)))
        .route("/v1/conversations/{ref}", delete(conversations::remove::<J>))
        .route("/v1/events", get(events::of_all::<J>))
        .route("/v1/usage", get(usage::sums::<J>))
        .route("/v1/groups", plain(get(groups::list::<J>)))
        .route("/v1/groups/{name}", plain(put(groups::set::<J>).delete(groups::remove::<J>)))
        .route("/v1/workers", plain(get(workers::list::<J>).post(workers::invite::<J>)))
        .route("/v1/workers/{name}", plain(delete(workers::remove::<J>)))
        .with_state(app.clone())
}

/// A job, and its verbs.
fn one_job<J: Store>() -> MethodRouter<App<J>> {
    let verbs = plain(post(jobs::verb::<J>));
    verbs.get(jobs::show::<J>).delete(jobs::remove::<J>).layer(from_fn(jobs::separate_verbs))
}

/// Requests without parameters.
fn plain<J: Store>(requests: MethodRouter<App<J>>) -> MethodRouter<App<J>> {
    requests.route_layer(from_fn(refuse_query))
}
