//! `:seen`: a person has read how a job ended.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::Problem;
use lastword_core::Timestamp;
use lastword_proc::clock::wall_ms;
use lastword_store::Store;

use crate::app::App;
use crate::failure::Reply;
use crate::principal::Principal;

/// Notes that a person has read how a job ended: lists no longer show it before live jobs, and `prune` may remove it.
///
/// Reading a job, a list or a stream does not do this. A face says it when a person has looked.
#[utoipa::path(
    post, operation_id = "mark_job_seen", path = "/v1/jobs/{ref}:seen", tag = "jobs",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 204, description = "It is noted."),
        (status = 409, description = "It has not ended.", body = Problem),
    ),
)]
pub(crate) async fn seen<J: Store>(app: App<J>, principal: &Principal, reference: &str) -> Reply {
    principal.must_be_unrestricted()?;
    let id = principal.find(&app, reference).await?;
    // Its processes may have ended just now.
    app.engine().job(id).await?;
    app.engine().desk().seen(id, Timestamp(wall_ms())).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
