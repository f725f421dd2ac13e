//! Responses with a job.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use lastword_api as api;
use lastword_core::Job;
use lastword_core::view::row::Row;
use lastword_engine::Settled;
use lastword_store::Store;

use super::waits;
use crate::app::App;
use crate::failure::{Failure, Reply};

/// Returns a job as the API shows it. The caller has settled it; later writes are left for the next read.
pub(crate) async fn view<J: Store>(app: &App<J>, job: &Settled<Job>) -> Result<api::Job, Failure> {
    let folded = app.engine().desk().folded(job.value.id).await?;
    let shown = api::Job::of(&job.value, &folded.shown)
        .ok_or(lastword_core::decide::Refusal::NotFound(job.value.id))?;
    let mut shown = api::Job { unsettled: job.unsettled, ..shown };
    let row = Row::of(&job.value);
    if let Some(waits) = shown.waits.take() {
        shown.waits = Some(waits::named(app, &row, waits).await?);
    }
    shown.silent_since = app.engine().silent_since(&row).map(api::Time::from);
    if let Some(stop) = &mut shown.stop
        && let Some(alive) = app.engine().alive(&job.value).await
    {
        (stop.alive, stop.pids) = (Some(alive.count), alive.pids);
    }
    if shown.worktree.is_none() {
        shown.worktree = shared_worktree(app, &job.value).await?;
    }
    if let Some(worktree) = &mut shown.worktree {
        let owner = worktree.job.parse().unwrap_or(job.value.id);
        let path = app.engine().worktree(owner);
        worktree.present = path.as_ref().is_some_and(|path| path.is_dir());
        worktree.path = path.map(|path| path.to_string_lossy().into_owned());
    }
    Ok(shown)
}

/// Returns the worktree that a job shares with the job that began its conversation.
async fn shared_worktree<J: Store>(app: &App<J>, job: &Job) -> Result<Option<Box<api::Worktree>>, Failure> {
    let Some(position) = job.position else { return Ok(None) };
    let first = app.engine().desk().folded(position.first).await?;
    let worktree = first.job.spec.as_ref().and_then(|spec| api::Worktree::of(position.first, spec));
    Ok(worktree.map(Box::new))
}

/// Responds with a job, and its version as ETag.
pub(super) async fn job_response<J: Store>(app: &App<J>, status: StatusCode, job: Settled<Job>) -> Reply {
    let shown = view(app, &job).await?;
    let etag = etag(shown.version);
    let mut response = (status, Json(shown)).into_response();
    response.headers_mut().insert(header::ETAG, etag);
    Ok(response)
}

/// Responds with a job that was just written to.
pub(super) async fn written_job_response<J: Store>(app: &App<J>, status: StatusCode, job: Job) -> Reply {
    job_response(app, status, Settled { value: job, unsettled: false }).await
}

/// Adds the location of a new job.
pub(super) fn set_location(response: &mut Response, job: &Job) -> Result<(), Failure> {
    let location = HeaderValue::try_from(format!("/v1/jobs/{}", job.id));
    let location = location.map_err(|_| Failure::invalid("the id of the job is not valid in a header"))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(())
}

pub(super) fn etag(version: u64) -> HeaderValue {
    // Digits and quotes are valid in any header.
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}
