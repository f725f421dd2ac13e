//! What a job says of its own work: how far it is, and its result.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{Code, Problem, ReportProgress};
use lastword_store::Store;

use crate::app::App;
use crate::extract::Body;
use crate::failure::Reply;
use crate::principal::Principal;

/// Says how far the work of a job is, or what its result is. Only a process of the job can: the job is the one that it is in.
///
/// What the newest attempt said last is shown with the job. A text is one line of at most 200 characters, a result at most 64 KiB.
#[utoipa::path(
    post, operation_id = "report_progress", path = "/v1/progress", tag = "jobs", request_body = ReportProgress,
    responses(
        (status = 204, description = "It is recorded."),
        (status = 403, description = "The caller is in no job.", body = Problem),
        (status = 409, description = "The job has said too much already.", body = Problem),
    ),
)]
pub(crate) async fn report<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Body(said): Body<ReportProgress>,
) -> Reply {
    let Some(job) = principal.job() else {
        let detail = "progress is said from inside a job, by a process of it; this one is in no job";
        return Err(Problem::new(Code::Forbidden, detail).into());
    };
    app.engine().desk().progress(job, said.text.as_deref(), said.result.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
