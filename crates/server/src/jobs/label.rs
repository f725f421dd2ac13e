//! Labels of a job, changed after its submission.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use lastword_api::{self as api, Problem};
use lastword_store::Store;

use super::response::written_job_response;
use crate::app::App;
use crate::extract::Body;
use crate::failure::{Failure, Reply};
use crate::principal::Unrestricted;

/// Changes labels of a job that has not ended. A label that is null is removed; those not named stay.
#[utoipa::path(
    patch, operation_id = "set_labels", path = "/v1/jobs/{ref}/labels", tag = "jobs",
    request_body = BTreeMap<String, Option<String>>,
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "The job, with its current labels.", body = api::Job),
        (status = 409, description = "It has ended.", body = Problem),
    ),
)]
pub(crate) async fn set_labels<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Path(reference): Path<String>,
    Body(changes): Body<BTreeMap<String, Option<String>>>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    if changes.is_empty() {
        return Err(Failure::invalid("no labels are given"));
    }
    let job = app.engine().desk().label(id, principal.name(), &changes).await?;
    written_job_response(&app, StatusCode::OK, job).await
}
