//! Events of one job or of all, as a page or as a stream.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use lastword_api::{Event, Feed, Page, Problem, Time};
use lastword_core::event::KINDS;
use lastword_core::{JobId, Seq, Timestamp};
use lastword_engine::{Error, FeedFilter};
use lastword_store::{self as store, Cursor, Filter, Store};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::jobs::{find_conversation, find_parent, label_of, page_limit};
use crate::principal::{Principal, Unrestricted};
use crate::stream::{self, last_event_id, wants_stream};

/// Which events of a job to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Events after this number; all by default. A stream prefers `Last-Event-ID`.
    after: Option<u64>,
    /// The same, as returned by a page.
    cursor: Option<u64>,
    /// Events of these types, separated by commas.
    #[serde(rename = "type")]
    #[param(pattern = "^[a-z_]+(,[a-z_]+)*$")]
    kinds: Option<String>,
    /// Events of this moment or later.
    since: Option<Time>,
    /// The size of a page; at most 500. Does not apply to a stream.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Returns the events of a job.
///
/// A page, or with `Accept: text/event-stream` a stream. Each event of a stream has its number as id, so a stream can be resumed with
/// `Last-Event-ID`. When the job has ended and everything was sent, the stream closes with `event: end`;
/// if the daemon stops before, with `event: stopping`, which says what happens to the jobs.
#[utoipa::path(
    get, operation_id = "job_events", path = "/v1/jobs/{ref}/events", tag = "events",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."), EventsQuery),
    responses(
        (status = 200, description = "A page of events, or a stream of them.", content(
            (Page<Event> = "application/json"), (String = "text/event-stream"),
        )),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
    ),
)]
pub(crate) async fn of_job<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    let (kinds, since) = (kinds(query.kinds.as_deref())?, query.since.map(Timestamp::from));
    let filter = FeedFilter { kinds, since, ..FeedFilter::default() };
    let after = Seq(query.after.or(query.cursor).unwrap_or(0));
    if wants_stream(&headers) {
        let after = match last_event_id(&headers) {
            None => after,
            Some(last) => {
                let number = last.parse().map(Seq);
                number.map_err(|_| Failure::invalid("`Last-Event-ID` must be the number of an event"))?
            }
        };
        return Ok(stream::of_job(app, id, after, filter));
    }
    let limit = page_limit(query.limit)? as usize;
    // Settles the job first, so that the page includes its end.
    let unsettled = app.engine().job(id).await?.unsettled;
    let mut events = app.engine().events(id, after).await?;
    events.retain(|event| filter.has(event));
    let more = events.len() > limit;
    let items: Vec<Event> = events.iter().take(limit).map(|event| Event::of(id, event)).collect();
    let next_cursor = items.last().filter(|_| more).map(|event| event.seq.to_string());
    Ok(Json(Page { items, next_cursor, unsettled }).into_response())
}

/// The cursor for the end of the feed.
const NOW: &str = "now";

/// The cursor for its beginning, as that of a job's events.
const BEGINNING: &str = "0";

/// Which part of the feed to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FeedQuery {
    /// Continue after the page that returned this. The beginning by default, or `0`; `now` for events from now on. A stream prefers
    /// `Last-Event-ID`.
    cursor: Option<String>,
    /// Events of these types, separated by commas.
    #[serde(rename = "type")]
    #[param(pattern = "^[a-z_]+(,[a-z_]+)*$")]
    kinds: Option<String>,
    /// Events of this job: an id or a prefix of one, a name, or `@last`.
    job: Option<String>,
    /// Events of jobs of this group.
    group: Option<String>,
    /// Events of jobs with this label, as `name=value`.
    #[param(pattern = "=")]
    label: Option<String>,
    /// Events of jobs that were submitted from this directory or below it.
    cwd: Option<String>,
    /// Events of jobs that were submitted by a process of this job: an id or a prefix of one, a name, or `@last`.
    parent: Option<String>,
    /// Events of jobs of the conversation that this job is in: an id or a prefix of one, a name, or `@last`.
    conversation: Option<String>,
    /// Events of this moment or later.
    since: Option<Time>,
    /// The size of a page; at most 500.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Returns the events of all jobs, or of those that a filter selects, in order per job.
///
/// With a filter, a page may have fewer events than asked for, or none, although more follow: the end is reached when the cursor stays the
/// same. A page, or with `Accept: text/event-stream` an endless stream. Not every event of the stream has an id, so after a resume an event may
/// be repeated. Events are identified by job and number. If the daemon stops, the stream closes with `event: stopping`, which says what happens
/// to the jobs.
#[utoipa::path(get, operation_id = "all_events", path = "/v1/events", tag = "events", params(FeedQuery), responses(
    (status = 200, description = "A page of events, or a stream of them.", content(
        (Feed = "application/json"), (String = "text/event-stream"),
    )),
    (status = 400, description = "The cursor or a filter is invalid.", body = Problem),
))]
pub(crate) async fn of_all<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Query(query): Query<FeedQuery>,
    headers: HeaderMap,
) -> Reply {
    let filter = FeedFilter {
        kinds: kinds(query.kinds.as_deref())?,
        job: match &query.job {
            Some(reference) => Some(principal.find(&app, reference).await?),
            None => None,
        },
        jobs: Filter {
            group: query.group,
            labels: query.label.iter().map(|label| label_of(label)).collect::<Result<_, _>>()?,
            cwd: query.cwd,
            parent: find_parent(&app, &principal, query.parent.as_deref()).await?,
            conversation: find_conversation(&app, &principal, query.conversation.as_deref()).await?,
            ..Filter::default()
        },
        since: query.since.map(Timestamp::from),
    };
    let last = last_event_id(&headers).filter(|_| wants_stream(&headers)).map(str::to_owned);
    let cursor = match last.or(query.cursor) {
        Some(text) if text == NOW => app.engine().desk().journal().feed_end().await?,
        Some(text) if text == BEGINNING => None,
        cursor => cursor.map(Cursor),
    };
    if wants_stream(&headers) {
        // Reports an invalid cursor before the stream begins.
        feed(&app, &FeedFilter::default(), cursor.clone(), 1).await?;
        return Ok(stream::of_all(app, cursor, filter));
    }
    let (events, next) = feed(&app, &filter, cursor, page_limit(query.limit)?).await?;
    let items = events.iter().map(|(job, event)| Event::of(*job, event)).collect();
    Ok(Json(Feed { items, next_cursor: next.map(|cursor| cursor.0) }).into_response())
}

/// Reads the feed. If the journal can be read from the beginning but not from the cursor, the cursor is invalid.
async fn feed<J: Store>(
    app: &App<J>,
    filter: &FeedFilter,
    cursor: Option<Cursor>,
    limit: u32,
) -> Result<(Vec<(JobId, lastword_core::Event)>, Option<Cursor>), Failure> {
    let has_cursor = cursor.is_some();
    match app.engine().feed(filter, cursor, limit).await {
        Err(Error::Journal(store::Error::Corrupt(_)))
            if has_cursor && app.engine().feed(&FeedFilter::default(), None, 1).await.is_ok() =>
        {
            Err(Failure::invalid("`cursor` is not a cursor of this feed; read it from the beginning"))
        }
        read => Ok(read?),
    }
}

/// Parses a list of types of events.
fn kinds(names: Option<&str>) -> Result<Vec<String>, Failure> {
    let known = |name: &str| match KINDS.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(Failure::invalid(format!("`type` must be one or more of {}", KINDS.join(", ")))),
    };
    names.map_or(Ok(Vec::new()), |names| names.split(',').map(known).collect())
}
