//! Other requests to jobs: retry, abandon, terminal size, limits, messages, removal.

use axum::Json;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, LimitsPatch, Problem, Prune, Pruned, Resize, Resized, RetryJob};
use lastword_engine as engine;
use lastword_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use super::environment::environment;
use super::response::written_job_response;
use super::submit::derive_job;
use crate::app::App;
use crate::extract::{Body, EnvBody, Query, idempotency_key};
use crate::failure::{Failure, Reply};
use crate::principal::{Principal, Unrestricted};

/// Repeats an ended job as a new job. With `Idempotency-Key` the request may be repeated.
#[utoipa::path(
    post, operation_id = "retry_job", path = "/v1/jobs/{ref}:retry", tag = "jobs", request_body = RetryJob,
    params(
        ("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[\\t -~]*[!-~][\\t -~]*$", description = "Identifies this request, so that it can be repeated."),
    ),
    responses(
        (status = 202, description = "The new job.", body = api::Job),
        (status = 409, description = "It has not ended.", body = Problem),
        (status = 422, description = "The key was used for another request.", body = Problem),
    ),
)]
pub(crate) async fn retry<J: Store>(
    app: App<J>,
    principal: &Principal,
    reference: &str,
    request: Request,
) -> Reply {
    principal.must_be_unrestricted()?;
    let key = idempotency_key(request.headers())?;
    let EnvBody(asked) = EnvBody::<RetryJob>::from_request(request, &()).await?;
    let env = environment(&asked.env, asked.attributes.as_ref(), app.about().fleet.is_some())?;
    let (by, engine) = (principal.name(), app.engine());
    let retry = async |new, id| engine.retry_as(new, id, env, by).await;
    derive_job(&app, principal, reference, ("retry", key.as_deref(), &asked), retry).await
}

/// Gives up on the host of a job.
#[utoipa::path(
    post, operation_id = "abandon_job", path = "/v1/jobs/{ref}:abandon", tag = "jobs",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 202, description = "It will end as lost.", body = api::Job),
        (status = 409, description = "It has no open attempt.", body = Problem),
    ),
)]
pub(crate) async fn abandon<J: Store>(app: App<J>, principal: &Principal, reference: &str) -> Reply {
    principal.must_be_unrestricted()?;
    let id = principal.find(&app, reference).await?;
    let job = app.engine().desk().abandon(id, principal.name()).await?;
    written_job_response(&app, StatusCode::ACCEPTED, job).await
}

/// Changes the size of a job's terminal, as its user's terminal changes.
#[utoipa::path(
    post, operation_id = "resize_terminal", path = "/v1/jobs/{ref}:resize", tag = "jobs", request_body = Resize,
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "Whether it was changed.", body = Resized),
        (status = 400, description = "Not a size.", body = Problem),
    ),
)]
pub(crate) async fn resize<J: Store>(
    app: App<J>,
    principal: &Principal,
    reference: &str,
    request: Request,
) -> Reply {
    let id = principal.find(&app, reference).await?;
    let Body(size) = Body::<Resize>::from_request(request, &()).await?;
    if size.rows == 0 || size.columns == 0 {
        return Err(Failure::invalid("a terminal has at least one row and one column"));
    }
    let resized = app.engine().resize(id, size.rows, size.columns).await?;
    Ok(Json(Resized { resized }).into_response())
}

/// Changes limits, even while the job runs.
#[utoipa::path(
    patch, operation_id = "set_limits", path = "/v1/jobs/{ref}/limits", tag = "jobs", request_body = LimitsPatch,
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "The job, with its current limits.", body = api::Job),
        (status = 409, description = "It has ended.", body = Problem),
    ),
)]
pub(crate) async fn set_limits<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Path(reference): Path<String>,
    Body(patch): Body<LimitsPatch>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    let changes = patch.changes();
    if changes.is_empty() {
        return Err(Failure::invalid("no limits are given"));
    }
    let mut changed = None;
    for (limit, value) in changes {
        changed = Some(app.engine().desk().set_limit(id, principal.name(), limit, value).await?);
    }
    match changed {
        Some(job) => written_job_response(&app, StatusCode::OK, job).await,
        None => Err(Failure::invalid("no limits are given")),
    }
}

/// How to remove a job, or a conversation.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RemoveQuery {
    /// Even if its worktree has work that was not applied.
    pub(crate) unsaved: bool,
}

/// Removes an ended job with its log, recordings and worktree.
#[utoipa::path(
    delete, operation_id = "remove_job", path = "/v1/jobs/{ref}", tag = "jobs",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."), RemoveQuery),
    responses(
        (status = 204, description = "It was removed."),
        (status = 409, description = "It has not ended, its worktree has work that was not applied, or a live job runs in its worktree.", body = Problem),
    ),
)]
pub(crate) async fn remove<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Path(reference): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    app.engine().remove(id, query.unsaved).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Removes ended jobs that are old enough.
#[utoipa::path(post, operation_id = "prune_jobs", path = "/v1/jobs:prune", tag = "jobs", request_body = Prune, responses(
    (status = 200, description = "The number of jobs removed, and of jobs kept because their result was not read, their work would be lost, or a live job uses their worktree.", body = Pruned),
))]
pub(crate) async fn prune<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Body(asked): Body<Prune>,
) -> Reply {
    let which = engine::Prune {
        older_than_ms: asked.older_than_ms,
        unread: asked.unread,
        unsaved: asked.unsaved,
        dry_run: asked.dry_run,
    };
    let done = app.engine().prune(&which).await?;
    let removed = done.removed.len() as u64;
    let pruned = Pruned {
        removed,
        kept_unread: done.kept_unread,
        kept_unsaved: done.kept_unsaved,
        kept_in_use: done.kept_in_use,
    };
    Ok(Json(pruned).into_response())
}
