//! Stopping: one job, or all that are meant.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Cancel, CancelMany, Page, Problem};
use lastword_core::decide::cancel::Cancel as Wish;
use lastword_core::outcome::Asked;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Job, JobId};
use lastword_engine::{Error, Settled, Until};
use lastword_store::Filter;
use lastword_store::siblings::Siblings;
use tokio::task::JoinSet;

use super::answer;
use super::list::{LIMIT_MAX, label_of};
use super::show::{WAIT_MAX, wait_for};
use crate::app::App;
use crate::caller::{Caller, Outside};
use crate::extract::Body;
use crate::failure::Failure;
use crate::router::Answer;

/// Wishes on their way to the journal at once: it writes what comes together in one go.
const WISHES_MAX: usize = 64;

/// Asks for the end of a job.
///
/// The wish is durable when this is answered. With `wait_ms` the answer waits for the proof that nothing is alive: 200 with the
/// receipt, or 202 while it is still being stopped, with what is still alive. On an ended job it changes nothing.
#[utoipa::path(
    post, operation_id = "cancel_job", path = "/v1/jobs/{ref}:cancel", tag = "jobs", request_body = Cancel,
    params(("ref" = String, Path, description = "An id, a part of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "It has ended.", body = api::Job),
        (status = 202, description = "It is being stopped.", body = api::Job),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
        (status = 503, description = "The wish could not be made durable.", body = Problem),
    ),
)]
pub(crate) async fn cancel<J: Siblings>(
    app: App<J>,
    caller: Caller,
    reference: &str,
    request: Request,
) -> Answer {
    let id = caller.find(&app, reference).await?;
    let Body(asked) = Body::<Cancel>::from_request(request, &()).await?;
    let wish = Wish { by: caller.name(&app), asked: Asked::User, force: asked.force };
    let mut job = Settled { value: app.engine().desk().cancel(id, &wish).await?, unsettled: false };
    if let Some(ms) = asked.wait_ms.filter(|_| !job.value.is_ended()) {
        job = wait_for(&app, id, Until::Ended, Duration::from_millis(ms).min(WAIT_MAX)).await?;
    }
    let status = if job.value.is_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
    super::show::seen(&app, caller, &job.value).await;
    answer(&app, status, job).await
}

/// Asks for the end of every live job, or of those of a group or with a label. A body that says none of these is refused.
///
/// Every wish is durable when this is answered. If one could not be made so, the answer is a problem: repeat the same call, which
/// changes nothing for those that were asked already.
#[utoipa::path(post, operation_id = "cancel_jobs", path = "/v1/jobs:cancel", tag = "jobs", request_body = CancelMany, responses(
    (status = 202, description = "The jobs that were asked to end.", body = Page<api::Row>),
    (status = 400, description = "It does not say which jobs.", body = Problem),
    (status = 503, description = "Not every wish could be made durable.", body = Problem),
))]
pub(crate) async fn cancel_many<J: Siblings>(
    State(app): State<App<J>>,
    _: Outside,
    Body(asked): Body<CancelMany>,
) -> Answer {
    let filter = filter(&asked)?;
    let wish = Wish { by: Caller::Outside.name(&app), asked: Asked::User, force: asked.force };
    let (mut items, mut before) = (Vec::new(), None);
    loop {
        let rows = app.engine().rows(filter.clone(), before, LIMIT_MAX).await?.value;
        before = rows.last().map(|row| row.job);
        let is_last = rows.len() < LIMIT_MAX as usize;
        items.extend(cancel_each(&app, rows, &wish).await?);
        if is_last {
            break;
        }
    }
    Ok((StatusCode::ACCEPTED, Json(Page::whole(items))).into_response())
}

async fn cancel_each<J: Siblings>(
    app: &App<J>,
    rows: Vec<Row>,
    wish: &Wish,
) -> Result<Vec<api::Row>, Failure> {
    let mut rows = rows.into_iter();
    let mut wishes: JoinSet<Result<Job, Error>> = JoinSet::new();
    let (mut items, mut failed) = (Vec::new(), None);
    loop {
        while wishes.len() < WISHES_MAX
            && let Some(row) = rows.next()
        {
            wishes.spawn(wish_for(app.clone(), row.job, wish.clone()));
        }
        match wishes.join_next().await {
            None => break,
            Some(Ok(Ok(job))) => items.push(api::Row::of(&Row::of(&job))),
            Some(Ok(Err(error))) => failed = Some(Failure::from(error)),
            Some(Err(_)) => failed = Some(Problem::new(api::Code::Internal, "a wish was dropped").into()),
        }
    }
    // Newest first, as in every list: an id sorts by its time.
    items.sort_by(|one, other| other.id.cmp(&one.id));
    failed.map_or(Ok(items), Err)
}

async fn wish_for<J: Siblings>(app: App<J>, id: JobId, wish: Wish) -> Result<Job, Error> {
    app.engine().desk().cancel(id, &wish).await
}

fn filter(asked: &CancelMany) -> Result<Filter, Failure> {
    if !asked.all && asked.group.is_none() && asked.label.is_none() {
        return Err(Failure::invalid("which jobs is not said: give `group`, `label`, or `all` as true"));
    }
    Ok(Filter {
        phases: PhaseName::LIVE.into(),
        queue: asked.group.clone(),
        labels: asked.label.iter().map(|label| label_of(label)).collect::<Result<_, _>>()?,
        ..Filter::default()
    })
}
