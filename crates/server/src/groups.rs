//! Groups: list, create, change, remove.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Code, GroupChange, Page, Problem};
use lastword_core::budget::{SPENT_MAX, Spent};
use lastword_core::decide::submit::is_name;
use lastword_core::view::row::PhaseName;
use lastword_engine::{Group, UNSET_SLOTS};
use lastword_store::{GroupCounts, Store};

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

/// Creates or changes a group. Pausing a group that does not exist is an error; anything else creates it, with one slot if `slots` is absent.
#[utoipa::path(
    put, operation_id = "set_group", path = "/v1/groups/{name}", tag = "groups", request_body = GroupChange,
    params(("name" = String, Path, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description = "Its name.")),
    responses(
        (status = 200, description = "The group.", body = api::Group),
        (status = 404, description = "The group does not exist, and only `paused` is given.", body = Problem),
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
    if [change.day_tokens, change.day_money_micros].contains(&Some(Some(0))) {
        return Err(Failure::invalid("a budget of nothing starts no job: pause the group instead"));
    }
    let is_too_large =
        |budget: Option<Option<u64>>| budget.flatten().is_some_and(|most| most > SPENT_MAX as u64);
    if is_too_large(change.day_tokens) || is_too_large(change.day_money_micros) {
        return Err(Failure::invalid("a budget is at most 2305843009213693952; null is no bound"));
    }
    let before = app.engine().desk().groups().await?.into_iter().find(|group| group.name == name);
    let creates = change.slots.is_some() || change.day_tokens.is_some() || change.day_money_micros.is_some();
    let unset = creates.then(|| Group::new(&name, Some(UNSET_SLOTS)));
    let mut group = before.or(unset).ok_or_else(|| no_group(&name))?;
    group.slots = change.slots.unwrap_or(group.slots);
    group.paused = change.paused.unwrap_or(group.paused);
    group.budget.tokens = change.day_tokens.unwrap_or(group.budget.tokens);
    group.budget.money_micros = change.day_money_micros.unwrap_or(group.budget.money_micros);
    app.engine().desk().set_group(group.clone()).await?;
    let spent = app.engine().desk().spent_today().await?;
    let counts = app.engine().desk().counts_by_group().await?;
    Ok(Json(shown(group, &spent, &counts)).into_response())
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
    let spent = app.engine().desk().spent_today().await?;
    let counts = app.engine().desk().counts_by_group().await?;
    let groups = app.engine().desk().groups().await?;
    Ok(groups.into_iter().map(|group| shown(group, &spent, &counts)).collect())
}

fn shown(group: Group, spent: &[(String, Spent)], counts: &GroupCounts) -> api::Group {
    let of_group = counts.get(&group.name);
    let count = |is: fn(PhaseName) -> bool| {
        let phases = of_group.into_iter().flatten().filter(|(phase, _)| is(**phase));
        phases.map(|(_, count)| count).sum()
    };
    let spent = spent.iter().find(|(name, _)| *name == group.name).map(|(_, spent)| *spent);
    let Spent { tokens, money_micros } = spent.unwrap_or_default();
    let positive = |amount: i64| u64::try_from(amount).unwrap_or(0);
    api::Group {
        running: count(|phase| !waits(phase)),
        queued: count(waits),
        name: group.name,
        slots: group.slots,
        paused: group.paused,
        day_tokens: group.budget.tokens,
        day_money_micros: group.budget.money_micros,
        spent_today: api::Spent { tokens: positive(tokens), money_micros: positive(money_micros) },
    }
}

/// Reports whether a job in this phase waits to be started.
fn waits(phase: PhaseName) -> bool {
    matches!(phase, PhaseName::Queued | PhaseName::Backoff)
}
