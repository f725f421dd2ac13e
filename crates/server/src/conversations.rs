//! Conversations: chains of jobs around one session of an agent.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{Conversation, ConversationInFull, Page, Problem, Used};
use lastword_core::view::row::Row;
use lastword_core::{JobId, Timestamp};
use lastword_proc::clock::wall_ms;
use lastword_store::{Filter, List, Store};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::jobs::{self, RemoveQuery, cursor, parse_cursor, rows_of};
use crate::principal::{Principal, Unrestricted};

/// Which conversations to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Those of this name.
    name: Option<String>,
    /// Those whose newest job is in this group.
    group: Option<String>,
    /// Those whose newest job has this label, as `name=value`.
    #[param(pattern = "=")]
    label: Option<String>,
    /// Those that were begun from this directory or below it.
    cwd: Option<String>,
    /// The size of a page; at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Continue after the page that returned this.
    #[param(pattern = "^[0-4]-[0-9]+-[0-9]+-job_[0-9a-z]+$")]
    cursor: Option<String>,
}

/// Lists conversations, each by its newest job, in the order in which jobs are listed.
#[utoipa::path(get, operation_id = "list_conversations", path = "/v1/conversations", tag = "conversations", params(ListQuery), responses(
    (status = 200, description = "A page of conversations.", body = Page<Conversation>),
    (status = "4XX", description = "The query is invalid.", body = Problem),
))]
pub(crate) async fn list<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Query(query): Query<ListQuery>,
) -> Reply {
    let limit = jobs::page_limit(query.limit)?;
    let after = query.cursor.as_deref().map(|text| parse_cursor(text, Timestamp(wall_ms()))).transpose()?;
    let labels = query.label.iter().map(|label| jobs::label_of(label)).collect::<Result<_, _>>()?;
    let ListQuery { name, group, cwd, .. } = query;
    let filter = Filter { name, group, labels, cwd, is_newest: true, ..Filter::default() };
    // One more row shows whether there is a next page.
    let list = List { filter, sections: Vec::new(), after, limit: limit + 1 };
    let (mut rows, read_at) = app.engine().list(list).await?;
    let more = rows.value.len() > limit as usize;
    rows.value.truncate(limit as usize);
    let since = after.map_or(read_at, |after| after.since);
    let next_cursor = rows.value.last().filter(|_| more).map(|last| cursor(last, since));
    let newest = rows_of(&app, &rows.value).await?;
    let items = rows.value.iter().zip(newest);
    let items: Vec<Conversation> =
        items.filter_map(|(listed, newest)| Conversation::of(&listed.row, newest)).collect();
    Ok(Json(Page { items, next_cursor, unsettled: rows.unsettled }).into_response())
}

/// Shows a conversation with its jobs.
#[utoipa::path(
    get, operation_id = "show_conversation", path = "/v1/conversations/{ref}", tag = "conversations",
    params(("ref" = String, Path, description = "Any of its jobs: an id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "The conversation.", body = ConversationInFull),
        (status = 409, description = "The job has no turns, so it is in no conversation.", body = Problem),
    ),
)]
pub(crate) async fn show<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
) -> Reply {
    let first = find(&app, &principal, &reference).await?;
    let rows = app.engine().desk().conversation(first).await?;
    let Some(newest) = rows.last() else { return Err(gone(&reference)) };
    let newest = app.engine().job(newest.job).await?;
    let shown = jobs::view(&app, &newest).await?;
    let in_full = ConversationInFull {
        id: first.to_string(),
        used: Used::of(newest.value.spending()),
        newest: Box::new(shown),
        jobs: jobs::plain_rows(&app, &rows.iter().collect::<Vec<&Row>>()).await?,
    };
    Ok(Json(in_full).into_response())
}

/// Removes a conversation: all of its jobs, with their logs, recordings and the worktree. All of them must have ended.
#[utoipa::path(
    delete, operation_id = "remove_conversation", path = "/v1/conversations/{ref}", tag = "conversations",
    params(("ref" = String, Path, description = "Any of its jobs: an id or a prefix of one, a name, or `@last`."), RemoveQuery),
    responses(
        (status = 204, description = "It was removed."),
        (status = 409, description = "One of its jobs has not ended, its worktree has work that was not applied, or a live job runs in its worktree.", body = Problem),
    ),
)]
pub(crate) async fn remove<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Path(reference): Path<String>,
    Query(query): Query<RemoveQuery>,
) -> Reply {
    let first = find(&app, &principal, &reference).await?;
    app.engine().remove_conversation(first, query.unsaved).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Returns the conversation of the job that a reference means.
async fn find<J: Store>(app: &App<J>, principal: &Principal, reference: &str) -> Result<JobId, Failure> {
    let id = principal.find(app, reference).await?;
    let row = app.engine().desk().row_of(id).await?;
    row.and_then(|row| row.conversation).ok_or_else(|| gone(reference))
}

fn gone(reference: &str) -> Failure {
    let reference: String = reference.chars().take(64).flat_map(char::escape_default).collect();
    let detail = format!("`{reference}` is in no conversation: it runs a command, or an agent without turns");
    Problem::new(lastword_api::Code::Conflict, detail).into()
}
