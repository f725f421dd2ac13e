//! Listing jobs as people read them, in pages.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Page, Problem, Time};
use lastword_core::view::row::{PhaseName, Section};
use lastword_core::{JobId, Timestamp};
use lastword_proc::clock::wall_ms;
use lastword_store::{After, Filter, List, Listed, Store};
use serde::Deserialize;
use utoipa::IntoParams;

use super::waits::rows_of;
use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::principal::{Principal, Unrestricted};
use crate::rows;
use crate::stream::wants_stream;

/// The default size of a page, and the largest.
pub(crate) const LIMIT: u32 = 50;
pub(crate) const LIMIT_MAX: u32 = 500;

/// Which jobs to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Jobs in one of these phases, separated by commas.
    #[param(pattern = "^[a-z]+(,[a-z]+)*$")]
    phase: Option<String>,
    /// Jobs with this outcome.
    #[param(pattern = "^[a-z_]+$")]
    outcome: Option<String>,
    /// Jobs of this group.
    group: Option<String>,
    /// Jobs with this label, as `name=value`.
    #[param(pattern = "=")]
    label: Option<String>,
    /// Jobs with this name.
    name: Option<String>,
    /// Jobs that were submitted from this directory or below it.
    cwd: Option<String>,
    /// Jobs that were submitted by a process of this job: an id or a prefix of one, a name, or `@last`.
    parent: Option<String>,
    /// Jobs of the conversation that this job is in: an id or a prefix of one, a name, or `@last`.
    conversation: Option<String>,
    /// Jobs whose state changed at this moment or later.
    changed_since: Option<Time>,
    /// Jobs that wait for a person, or those that do not.
    waiting: Option<bool>,
    /// Ended jobs whose ending was not read, or all others.
    unread: Option<bool>,
    /// The size of a page; at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Continue after the page that returned this.
    #[param(pattern = "^[0-4]-[0-9]+-[0-9]+-job_[0-9a-z]+$")]
    cursor: Option<String>,
}

/// Lists jobs: those that wait for a person, those whose ending was not read, live ones, those whose ending was read, and those whose
/// conversation goes on as another job; each by the last change of its state, newest first.
///
/// Jobs whose processes have just ended are settled first; order and limit apply after that. A cursor continues the list as it was when
/// its first page was read: a job that changed or was read since then comes again on the next first page. Reading marks nothing as read;
/// `:seen` does.
///
/// With `Accept: text/event-stream` it is a stream, without pages. It begins with every row (`event: row`) and `event: here`; then come rows
/// that changed, as they are, and `event: gone` for jobs that were removed or no longer pass the filter. A new phase, question or ending is
/// sent at once, other changes of a job at most four times a second. What changes without an event of the job is looked up again while it
/// lives: why it waits within two seconds of any change, else, and since when it is silent, every fifteen. A stream cannot be resumed: a new one
/// begins with every row again, and a row that is not sent before `event: here` is gone. If the daemon stops, the stream closes with `event:
/// stopping`. On a fleet, a job that was read or removed through another server shows it with its next change, or on the next stream.
#[utoipa::path(get, operation_id = "list_jobs", path = "/v1/jobs", tag = "jobs", params(ListQuery), responses(
    (status = 200, description = "A page of jobs, or a stream of their rows.", content(
        (Page<api::Row> = "application/json"), (String = "text/event-stream"),
    )),
    (status = "4XX", description = "The query is invalid.", body = Problem),
))]
pub(crate) async fn list<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Query(query): Query<ListQuery>,
    headers: HeaderMap,
) -> Reply {
    let limit = page_limit(query.limit)?;
    let now = Timestamp(wall_ms());
    let after = query.cursor.as_deref().map(|text| parse_cursor(text, now)).transpose()?;
    if query.waiting == Some(true) && query.unread == Some(true) {
        return Err(Failure::invalid(
            "no job both waits for a person and has ended: `waiting` and `unread` exclude each other",
        ));
    }
    let parent = find_parent(&app, &principal, query.parent.as_deref()).await?;
    let conversation = find_conversation(&app, &principal, query.conversation.as_deref()).await?;
    let filter = Filter { parent, conversation, ..filter(&query)? };
    let sections = sections(&query);
    if wants_stream(&headers) {
        return Ok(rows::follow(app, filter, sections));
    }
    // One more row shows whether there is a next page.
    let list = List { filter, sections, after, limit: limit + 1 };
    let (mut rows, read_at) = app.engine().list(list).await?;
    let more = rows.value.len() > limit as usize;
    rows.value.truncate(limit as usize);
    let since = after.map_or(read_at, |after| after.since);
    let next_cursor = rows.value.last().filter(|_| more).map(|last| cursor(last, since));
    let items = rows_of(&app, &rows.value).await?;
    Ok(Json(Page { items, next_cursor, unsettled: rows.unsettled }).into_response())
}

/// Returns the conversation that a list asks for, by any of its jobs; that of a job without turns has no other.
pub(crate) async fn find_conversation<J: Store>(
    app: &App<J>,
    principal: &Principal,
    reference: Option<&str>,
) -> Result<Option<JobId>, Failure> {
    let Some(reference) = reference else { return Ok(None) };
    let id = principal.find(app, reference).await?;
    let row = app.engine().desk().row_of(id).await?;
    Ok(Some(row.and_then(|row| row.conversation).unwrap_or(id)))
}

/// Returns the job that a list asks for as parent. It may have been removed, so an id needs no job.
pub(crate) async fn find_parent<J: Store>(
    app: &App<J>,
    principal: &Principal,
    reference: Option<&str>,
) -> Result<Option<JobId>, Failure> {
    match reference.map(|reference| (reference, reference.parse())) {
        None => Ok(None),
        Some((_, Ok(id))) => Ok(Some(id)),
        Some((reference, Err(_))) => principal.find(app, reference).await.map(Some),
    }
}

/// Returns the sections that the query asks for; none means all.
fn sections(query: &ListQuery) -> Vec<Section> {
    let is_asked = |section: &Section| {
        let is = |wanted: Option<bool>, this| wanted.is_none_or(|wanted| (*section == this) == wanted);
        is(query.waiting, Section::NeedsPerson) && is(query.unread, Section::Unread)
    };
    match (query.waiting, query.unread) {
        (None, None) => Vec::new(),
        _ => Section::ALL.into_iter().filter(is_asked).collect(),
    }
}

/// Returns the size of a page.
pub(crate) fn page_limit(limit: Option<u32>) -> Result<u32, Failure> {
    match limit.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(Failure::invalid(format!("`limit` must be between 1 and {LIMIT_MAX}"))),
    }
}

/// Returns where a list continues after a row, if its first page was read at `since`.
pub(crate) fn cursor(last: &Listed, since: Timestamp) -> String {
    let Listed { row, section } = last;
    format!("{}-{}-{}-{}", section.number(), row.changed_at.0, since.0, row.job)
}

pub(crate) fn parse_cursor(text: &str, now: Timestamp) -> Result<After, Failure> {
    let parse = || {
        let mut parts = text.splitn(4, '-');
        let section = Section::parse(parts.next()?.parse().ok()?)?;
        let [changed_at, since] = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?].map(Timestamp);
        Some(After { section, changed_at, job: parts.next()?.parse().ok()?, since, now })
    };
    parse().ok_or_else(|| Failure::invalid("`cursor` is not a cursor of this list"))
}

fn filter(query: &ListQuery) -> Result<Filter, Failure> {
    let outcome = query.outcome.as_deref().map(outcome).transpose()?;
    Ok(Filter {
        phases: query.phase.as_deref().map_or(Ok(Vec::new()), phases)?,
        outcome,
        group: query.group.clone(),
        name: query.name.clone(),
        labels: query.label.iter().map(|label| label_of(label)).collect::<Result<_, _>>()?,
        cwd: query.cwd.clone(),
        parent: None,
        conversation: None,
        is_newest: false,
        changed_since: query.changed_since.map(Timestamp::from),
    })
}

/// Parses a label.
pub(crate) fn label_of(text: &str) -> Result<(String, String), Failure> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Failure::invalid("`label` must be `name=value`"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn outcome(name: &str) -> Result<String, Failure> {
    match api::Outcome::from(name) {
        api::Outcome::Other(_) => {
            let known: Vec<&str> = api::Outcome::ALL.iter().map(api::Outcome::as_str).collect();
            Err(Failure::invalid(format!("`outcome` must be one of {}", known.join(", "))))
        }
        known => Ok(known.as_str().to_owned()),
    }
}

/// Parses a list of phases.
fn phases(names: &str) -> Result<Vec<PhaseName>, Failure> {
    let known = |name: &str| {
        PhaseName::parse(name).ok_or_else(|| {
            let known: Vec<&str> = PhaseName::ALL.into_iter().map(PhaseName::as_str).collect();
            Failure::invalid(format!("`phase` must be one or more of {}", known.join(", ")))
        })
    };
    names.split(',').map(known).collect()
}
