//! The workers of a fleet: list, invite, remove.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Code, Invite, Problem};
use lastword_core::OwnerId;
use lastword_core::decide::submit::is_name;
use lastword_core::worker_labels::WorkerLabels;
use lastword_store::Store;

use crate::app::App;
use crate::extract::Body;
use crate::failure::{Failure, Reply};
use crate::fleet::Fleet;
use crate::principal::Unrestricted;

/// The beginning of the names under which servers own jobs for a moment.
const SERVERS: &str = "server-";

/// Shows the workers of a fleet, and what is stuck.
#[utoipa::path(get, operation_id = "list_workers", path = "/v1/workers", tag = "fleet", responses(
    (status = 200, description = "The fleet.", body = api::Fleet),
    (status = 404, description = "The daemon is no server of a fleet.", body = Problem),
))]
pub(crate) async fn list<J: Store>(State(app): State<App<J>>, _: Unrestricted) -> Reply {
    Ok(Json(fleet_of(&app)?.show().await?).into_response())
}

/// Makes a one-time token, with which a worker takes a name. It takes the place of an earlier token for the name.
#[utoipa::path(
    post, operation_id = "invite_worker", path = "/v1/workers", tag = "fleet", request_body = Invite, responses(
    (status = 201, description = "The token, which is shown once.", body = api::Invitation),
    (status = 404, description = "The daemon is no server of a fleet.", body = Problem),
))]
pub(crate) async fn invite<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Body(Invite { name, labels }): Body<Invite>,
) -> Reply {
    let fleet = fleet_of(&app)?;
    if !is_name(&name) || name.starts_with(SERVERS) {
        return Err(Failure::invalid(
            "the name of a worker must be 1 to 64 letters, digits, `.`, `_` or `-`, start with a letter or digit, and not start with `server-`",
        ));
    }
    let labels: WorkerLabels = labels.into_iter().collect();
    let is_plain = labels.check().is_ok() && labels.worker().is_none();
    is_plain.then_some(()).ok_or_else(|| {
        Failure::invalid("a worker has at most 16 labels, each of 1 to 64 lower-case letters, digits, `.`, `_`, `-` or `/`")
    })?;
    let invitation = fleet.invite(OwnerId(name.into()), labels).await?;
    Ok((StatusCode::CREATED, Json(invitation)).into_response())
}

/// Removes a worker: its token is refused from now on, and it is cut off within seconds. Its jobs end with its lease.
#[utoipa::path(
    delete, operation_id = "remove_worker", path = "/v1/workers/{name}", tag = "fleet",
    params(("name" = String, Path, description = "Its name.")),
    responses(
        (status = 204, description = "It was removed."),
        (status = 404, description = "There is no such worker.", body = Problem),
    ),
)]
pub(crate) async fn remove<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Path(name): Path<String>,
) -> Reply {
    if !fleet_of(&app)?.revoke(OwnerId(name.as_str().into())).await? {
        let name: String = name.chars().take(64).collect();
        return Err(Problem::new(Code::NotFound, format!("no worker `{name}`")).into());
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn fleet_of<J: Store>(app: &App<J>) -> Result<&Fleet, Failure> {
    app.about().fleet.as_ref().ok_or_else(|| {
        let detail = "what runs here is no server of a fleet, which alone knows its workers: ask a server, or start one with `lastword serve --store postgres://…`";
        Problem::new(Code::NotFound, detail).into()
    })
}
