//! Listing jobs, newest first, in pages.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Page, Problem};
use lastword_core::JobId;
use lastword_core::view::row::PhaseName;
use lastword_store::Filter;
use lastword_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::principal::Unrestricted;

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
    /// The size of a page; at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
    /// Continue after the page that returned this.
    #[param(pattern = "^job_[0-9a-z]+$")]
    cursor: Option<String>,
}

/// Lists jobs, newest first.
///
/// Jobs whose processes have just ended are settled first; order and limit apply after that.
#[utoipa::path(get, operation_id = "list_jobs", path = "/v1/jobs", tag = "jobs", params(ListQuery), responses(
    (status = 200, description = "A page of jobs.", body = Page<api::Row>),
    (status = "4XX", description = "The query is invalid.", body = Problem),
))]
pub(crate) async fn list<J: Store>(
    State(app): State<App<J>>,
    _: Unrestricted,
    Query(query): Query<ListQuery>,
) -> Reply {
    let limit = page_limit(query.limit)?;
    let before = query.cursor.as_deref().map(cursor).transpose()?;
    // One more row shows whether there is a next page.
    let rows = app.engine().rows(filter(&query)?, before, limit + 1).await?;
    let more = rows.value.len() > limit as usize;
    let items: Vec<api::Row> = rows.value.iter().take(limit as usize).map(api::Row::of).collect();
    let next_cursor = items.last().filter(|_| more).map(|row| row.id.clone());
    Ok(Json(Page { items, next_cursor, unsettled: rows.unsettled }).into_response())
}

/// Returns the size of a page.
pub(crate) fn page_limit(limit: Option<u32>) -> Result<u32, Failure> {
    match limit.unwrap_or(LIMIT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(Failure::invalid(format!("`limit` must be between 1 and {LIMIT_MAX}"))),
    }
}

fn cursor(text: &str) -> Result<JobId, Failure> {
    text.parse().map_err(|_| Failure::invalid("`cursor` is not a cursor of this list"))
}

fn filter(query: &ListQuery) -> Result<Filter, Failure> {
    let outcome = query.outcome.as_deref().map(outcome).transpose()?;
    Ok(Filter {
        phases: query.phase.as_deref().map_or(Ok(Vec::new()), phases)?,
        outcome,
        group: query.group.clone(),
        name: query.name.clone(),
        labels: query.label.iter().map(|label| label_of(label)).collect::<Result<_, _>>()?,
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
