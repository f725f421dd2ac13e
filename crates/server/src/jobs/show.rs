//! Showing one job, at once or after a wait.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Problem};
use lastword_core::{Job, JobId, Seq};
use lastword_engine::{Settled, Until};
use lastword_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use super::response::{etag, job_response};
use crate::app::App;
use crate::extract::{Query, duration};
use crate::failure::{Failure, Reply};
use crate::principal::Principal;

/// The longest wait of one request. Clients that wait longer repeat it.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// What to wait for, and how long.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitQuery {
    /// How long to wait, such as `30s`; at most a minute.
    #[param(pattern = "^(0|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$", min_length = 1)]
    wait: Option<String>,
    /// What to wait for: `ended` (the default), `started`, or `changed`, which is any event after the version in `If-None-Match`.
    #[param(pattern = "^(ended|started|changed)$")]
    until: Option<String>,
}

/// Shows a job.
///
/// A job whose processes have just ended is settled first, so one read is enough. With `If-None-Match` the response is 304 if nothing has
/// changed.
#[utoipa::path(
    get, operation_id = "show_job", path = "/v1/jobs/{ref}", tag = "jobs",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."), WaitQuery),
    responses(
        (status = 200, description = "The job, with its version as ETag.", body = api::Job),
        (status = 304, description = "Nothing has changed since that version."),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
    ),
)]
pub(crate) async fn show<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    Query(query): Query<WaitQuery>,
    headers: HeaderMap,
) -> Reply {
    let known = headers.get(header::IF_NONE_MATCH);
    let id = principal.find(&app, &reference).await?;
    let at_most = query.wait.as_deref().map(|text| duration("wait", text, WAIT_MAX)).transpose()?;
    let seen = known.and_then(|etag| etag.to_str().ok()?.trim_matches('"').parse().ok());
    let until = until(&query, seen)?;
    let job = match at_most {
        None => app.engine().job(id).await?,
        Some(at_most) => wait_for(&app, id, until, at_most).await?,
    };
    if !job.unsettled && known.is_some_and(|known| *known == etag(job.value.version.0)) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        response.headers_mut().insert(header::ETAG, etag(job.value.version.0));
        return Ok(response);
    }
    job_response(&app, StatusCode::OK, job).await
}

fn until(query: &WaitQuery, seen: Option<u64>) -> Result<Until, Failure> {
    match (query.until.as_deref(), seen) {
        (None | Some("ended"), _) => Ok(Until::Ended),
        (Some("started"), _) => Ok(Until::Started),
        (Some("changed"), Some(seen)) => Ok(Until::After(Seq(seen))),
        (Some("changed"), None) => {
            Err(Failure::invalid("`until=changed` needs the last known version in `If-None-Match`"))
        }
        (Some(_), _) => Err(Failure::invalid("`until` must be `ended`, `started` or `changed`")),
    }
}

/// Waits for a job, for a time at most or until the daemon closes. Returns the job as it is then.
pub(crate) async fn wait_for<J: Store>(
    app: &App<J>,
    id: JobId,
    until: Until,
    at_most: Duration,
) -> Result<Settled<Job>, Failure> {
    tokio::select! {
        job = app.engine().wait(id, until, at_most) => Ok(job?),
        () = app.closing() => Ok(app.engine().job(id).await?),
    }
}
