//! Jobs as a list, newest first, by pages.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Page, Problem};
use lastword_core::JobId;
use lastword_core::view::row::PhaseName;
use lastword_store::Filter;
use lastword_store::siblings::Siblings;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::caller::Outside;
use crate::extract::Query;
use crate::failure::Failure;
use crate::router::Answer;

/// Rows of a page by default, and at most.
pub(crate) const LIMIT: u32 = 50;
pub(crate) const LIMIT_MAX: u32 = 500;

/// Which jobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// In one of these phases, separated by commas.
    phase: Option<String>,
    /// Ended as this.
    outcome: Option<String>,
    /// Of this group.
    group: Option<String>,
    /// With this label, as `name=value`.
    label: Option<String>,
    /// With this name.
    name: Option<String>,
    /// At most so many; at most 500.
    limit: Option<u32>,
    /// Go on after the page that gave this.
    cursor: Option<String>,
}

/// Lists jobs, newest first.
///
/// What has just died is looked at first; order and limit are applied after that.
#[utoipa::path(get, operation_id = "list_jobs", path = "/v1/jobs", tag = "jobs", params(Which), responses(
    (status = 200, description = "A page of jobs.", body = Page<api::Row>),
    (status = "4XX", description = "The query cannot be used.", body = Problem),
))]
pub(crate) async fn list<J: Siblings>(
    State(app): State<App<J>>,
    _: Outside,
    Query(which): Query<Which>,
) -> Answer {
    let limit = page_limit(which.limit)?;
    let before = which.cursor.as_deref().map(cursor).transpose()?;
    // One more than asked for tells whether there is a next page.
    let rows = app.engine().rows(filter(&which)?, before, limit + 1).await?;
    let more = rows.value.len() > limit as usize;
    let items: Vec<api::Row> = rows.value.iter().take(limit as usize).map(api::Row::of).collect();
    let next_cursor = items.last().filter(|_| more).map(|row| row.id.clone());
    Ok(Json(Page { items, next_cursor, unsettled: rows.unsettled }).into_response())
}

/// Returns how many items a page has.
pub(crate) fn page_limit(asked: Option<u32>) -> Result<u32, Failure> {
    match asked.unwrap_or(LIMIT) {
        0 => Err(Failure::invalid("`limit` must be at least 1")),
        limit => Ok(limit.min(LIMIT_MAX)),
    }
}

fn cursor(text: &str) -> Result<JobId, Failure> {
    text.parse().map_err(|_| Failure::invalid("`cursor` is not one that a page of this list gave"))
}

fn filter(which: &Which) -> Result<Filter, Failure> {
    let outcome = which.outcome.as_deref().map(outcome).transpose()?;
    Ok(Filter {
        phases: which.phase.as_deref().map_or(Ok(Vec::new()), phases)?,
        outcome,
        queue: which.group.clone(),
        name: which.name.clone(),
        labels: which.label.iter().map(|label| label_of(label)).collect::<Result<_, _>>()?,
        holder: None,
    })
}

/// Reads a label as people write it.
pub(crate) fn label_of(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text.split_once('=').ok_or_else(|| Failure::invalid("`label` is `name=value`"))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn outcome(name: &str) -> Result<String, Failure> {
    match api::Outcome::from(name) {
        api::Outcome::Other(_) => {
            let known: Vec<&str> = api::Outcome::ALL.iter().map(api::Outcome::as_str).collect();
            Err(Failure::invalid(format!("`outcome` is one of {}", known.join(", "))))
        }
        known => Ok(known.as_str().to_owned()),
    }
}

/// Returns the phases of a list of names.
fn phases(names: &str) -> Result<Vec<PhaseName>, Failure> {
    let known = |name: &str| {
        PhaseName::parse(name).ok_or_else(|| {
            let known: Vec<&str> = PhaseName::ALL.into_iter().map(PhaseName::as_str).collect();
            Failure::invalid(format!("`phase` is one or more of {}", known.join(", ")))
        })
    };
    names.split(',').map(known).collect()
}
