//! Groups: list, create, change, remove.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Code, GroupChange, Page, Problem};
use lastword_core::decide::submit::is_name;
use lastword_engine::Group;
use lastword_store::Store;

use crate::app::App;
use crate::extract::Body;
use crate::failure::{Failure, Reply};
use crate::principal::Unrestricted;

/// Lists groups.
#[utoipa::path(get, operation_id = "list_groups", path = "/v1/groups", tag = "groups", responses(
    (status = 200, description = "Every group, by name.", body = Page<api::Group>),
))]
pub(crate) async fn list<J: Store>(State(app): State<App<J>>, _: Unrestricted) -> Reply {
    Ok(Json(Page::whole(all(&app).await?)).into_response())
}

/// Creates or changes a group. A group is created only if `slots` is given: pausing a group that does not exist is an error.
#[utoipa::path(
    put, operation_id = "set_group", path = "/v1/groups/{name}", tag = "groups", request_body = GroupChange,
    params(("name" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "Its name.")),
    responses(
        (status = 200, description = "The group.", body = api::Group),
        (status = 404, description = "The group does not exist, and `slots` is absent.", body = Problem),
    ),
)]
pub(crate) async fn set<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Path(name): Path<String>,
    Body(change): Body<GroupChange>,
) -> Reply {
    if !is_name(&name) {
        return Err(invalid_name());
    }
    let before = app.engine().desk().groups().await?.into_iter().find(|group| group.name == name);
    let slots = change.slots.or(before.as_ref().map(|group| group.slots)).ok_or_else(|| no_group(&name))?;
    let is_paused = before.is_some_and(|group| group.paused);
    let group = Group { name, slots, paused: change.paused.unwrap_or(is_paused) };
    app.engine().desk().set_group(group.clone()).await?;
    Ok(Json(shown(group)).into_response())
}

/// Removes a group without live jobs.
#[utoipa::path(
    delete, operation_id = "remove_group", path = "/v1/groups/{name}", tag = "groups",
    params(("name" = String, Path, description = "Its name.")),
    responses(
        (status = 204, description = "It was removed."),
        (status = 400, description = "It is the default group, or has live jobs.", body = Problem),
        (status = 404, description = "The group does not exist.", body = Problem),
    ),
)]
pub(crate) async fn remove<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Path(name): Path<String>,
) -> Reply {
    if !app.engine().desk().remove_group(&name).await? {
        return Err(no_group(&name));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn no_group(name: &str) -> Failure {
    let name: String = name.chars().take(64).collect();
    Problem::new(Code::NotFound, format!("no group `{name}`")).into()
}

/// Refuses an invalid group name. Group names follow the rules of job names, so that they fit into a column and a path.
pub(crate) fn invalid_name() -> Failure {
    Failure::invalid(
        "the name of a group must be 1 to 64 letters, digits, `.`, `_` or `-`, and start with a letter or digit",
    )
}

/// Returns all groups as the API shows them.
pub(crate) async fn all<J: Store>(app: &App<J>) -> Result<Vec<api::Group>, Failure> {
    Ok(app.engine().desk().groups().await?.into_iter().map(shown).collect())
}

fn shown(group: Group) -> api::Group {
    api::Group { name: group.name, slots: group.slots, paused: group.paused }
}
