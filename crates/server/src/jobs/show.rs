//! One job, at once or as soon as it has come so far.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Problem};
use lastword_core::{Job, JobId, Seq};
use lastword_engine::{Settled, Until};
use lastword_store::siblings::Siblings;
use serde::Deserialize;
use utoipa::IntoParams;

use super::{answer, etag};
use crate::app::App;
use crate::caller::Caller;
use crate::extract::{Query, duration};
use crate::failure::Failure;
use crate::router::Answer;

/// The longest wait of one call. A caller that waits longer asks again.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long to wait, and for what.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Wait {
    /// Wait at most so long, such as `30s`; at most a minute. The answer is the job as it is then.
    wait: Option<String>,
    /// Wait for this: `ended` (if not said), `started`, or `changed`, which is any event after the version in `If-None-Match`.
    until: Option<String>,
}

/// Shows a job.
///
/// What has just died is looked at first, so one read is enough. With `If-None-Match` the answer is 304 while nothing is new.
#[utoipa::path(
    get, operation_id = "show_job", path = "/v1/jobs/{ref}", tag = "jobs",
    params(("ref" = String, Path, description = "An id, a part of one, a name, or `@last`."), Wait),
    responses(
        (status = 200, description = "The job; its version is the ETag.", body = api::Job),
        (status = 304, description = "Nothing is new since that version."),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
    ),
)]
pub(crate) async fn show<J: Siblings>(
    State(app): State<App<J>>,
    caller: Caller,
    Path(reference): Path<String>,
    Query(wait): Query<Wait>,
    headers: HeaderMap,
) -> Answer {
    let known = headers.get(header::IF_NONE_MATCH);
    let id = caller.find(&app, &reference).await?;
    let at_most = wait.wait.as_deref().map(|text| duration("wait", text, WAIT_MAX)).transpose()?;
    let job = match at_most {
        None => app.engine().job(id).await?,
        Some(at_most) => {
            let seen = known.and_then(|etag| etag.to_str().ok()?.trim_matches('"').parse().ok());
            wait_for(&app, id, until(&wait, seen)?, at_most).await?
        }
    };
    seen(&app, caller, &job.value).await;
    if !job.unsettled && known.is_some_and(|known| *known == etag(job.value.version.0)) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        response.headers_mut().insert(header::ETAG, etag(job.value.version.0));
        return Ok(response);
    }
    answer(&app, StatusCode::OK, job).await
}

fn until(wait: &Wait, seen: Option<u64>) -> Result<Until, Failure> {
    match (wait.until.as_deref(), seen) {
        (None | Some("ended"), _) => Ok(Until::Ended),
        (Some("started"), _) => Ok(Until::Started),
        (Some("changed"), Some(seen)) => Ok(Until::After(Seq(seen))),
        (Some("changed"), None) => {
            Err(Failure::invalid("`until=changed` needs the version you know, in `If-None-Match`"))
        }
        (Some(_), _) => Err(Failure::invalid("`until` is `ended`, `started` or `changed`")),
    }
}

/// Waits until a job has come so far, its time is over, or the daemon goes. The answer is the job as it is then.
pub(crate) async fn wait_for<J: Siblings>(
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

/// Takes note that the user has seen how a job ended. Not having noted it only means that its result is kept longer.
pub(crate) async fn seen<J: Siblings>(app: &App<J>, caller: Caller, job: &Job) {
    if caller == Caller::Outside
        && job.is_ended()
        && let Err(error) = app.engine().desk().mark_read(job.id).await
    {
        tracing::warn!(job = %job.id, %error, "that its result was read could not be noted");
    }
}
