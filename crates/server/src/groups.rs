//! Groups: listed, made, changed, removed.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Code, GroupChange, Page, Problem};
use lastword_core::decide::submit::is_name;
use lastword_engine::Group;
use lastword_store::siblings::Siblings;

use crate::app::App;
use crate::caller::Outside;
use crate::extract::Body;
use crate::failure::Failure;
use crate::router::Answer;

/// Lists groups.
#[utoipa::path(get, operation_id = "list_groups", path = "/v1/groups", tag = "groups", responses(
    (status = 200, description = "Every group, by name.", body = Page<api::Group>),
))]
pub(crate) async fn list<J: Siblings>(State(app): State<App<J>>, _: Outside) -> Answer {
    Ok(Json(Page::whole(all(&app).await?)).into_response())
}

/// Makes a group, or changes it. One that is not there is made only by saying how many slots it has: to pause it is to mean another.
#[utoipa::path(
    put, operation_id = "set_group", path = "/v1/groups/{name}", tag = "groups", request_body = GroupChange,
    params(("name" = String, Path, description = "Its name.")),
    responses(
        (status = 200, description = "The group as it is now.", body = api::Group),
        (status = 404, description = "There is no such group, and nothing is said of its slots.", body = Problem),
    ),
)]
pub(crate) async fn set<J: Siblings>(
    State(app): State<App<J>>,
    _: Outside,
    Path(name): Path<String>,
    Body(change): Body<GroupChange>,
) -> Answer {
    if !is_name(&name) {
        return Err(not_a_name());
    }
    let before = app.engine().desk().groups().await?.into_iter().find(|group| group.name == name);
    let slots = change.slots.or(before.as_ref().map(|group| group.slots)).ok_or_else(|| not_there(&name))?;
    let is_paused = before.is_some_and(|group| group.paused);
    let group = Group { name, slots, paused: change.paused.unwrap_or(is_paused) };
    app.engine().desk().set_group(group.clone()).await?;
    Ok(Json(shown(group)).into_response())
}

/// Removes a group that no live job is in.
#[utoipa::path(
    delete, operation_id = "remove_group", path = "/v1/groups/{name}", tag = "groups",
    params(("name" = String, Path, description = "Its name.")),
    responses(
        (status = 204, description = "It is gone."),
        (status = 400, description = "It is the default one, or a live job is in it.", body = Problem),
        (status = 404, description = "There is no such group.", body = Problem),
    ),
)]
pub(crate) async fn remove<J: Siblings>(
    State(app): State<App<J>>,
    _: Outside,
    Path(name): Path<String>,
) -> Answer {
    if !app.engine().desk().remove_group(&name).await? {
        return Err(not_there(&name));
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn not_there(name: &str) -> Failure {
    let name: String = name.chars().take(64).collect();
    Problem::new(Code::NotFound, format!("there is no group `{name}`")).into()
}

/// Says what a group may be called: what a job may be, so that it fits into a column and a path.
pub(crate) fn not_a_name() -> Failure {
    Failure::invalid(
        "a group is called by 1 to 64 letters, digits, `.`, `_` or `-`, the first a letter or digit",
    )
}

/// Returns every group as the API shows it.
pub(crate) async fn all<J: Siblings>(app: &App<J>) -> Result<Vec<api::Group>, Failure> {
    Ok(app.engine().desk().groups().await?.into_iter().map(shown).collect())
}

fn shown(group: Group) -> api::Group {
    api::Group { name: group.name, slots: group.slots, paused: group.paused }
}
