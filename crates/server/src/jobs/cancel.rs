//! Stopping one job, or several.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest as _, Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Cancel, CancelMany, Page, Problem};
use lastword_core::decide::cancel::Cancel as StopRequest;
use lastword_core::outcome::Asked;
use lastword_core::view::row::{PhaseName, Row};
use lastword_core::{Job, JobId};
use lastword_engine::{Cancelled, Error, Held, Settled, Until};
use lastword_store::Filter;
use lastword_store::Store;
use tokio::task::JoinSet;

use super::list::{LIMIT_MAX, label_of};
use super::response::job_response;
use super::show::{WAIT_MAX, wait_for};
use crate::app::App;
use crate::extract::{Body, OptionalBody};
use crate::failure::{Failure, Reply};
use crate::principal::{Principal, Unrestricted};

/// Requests in flight to the journal at once. It stores concurrent writes together.
const REQUESTS_MAX: usize = 64;

/// Asks a job to stop.
///
/// The request is stored when this responds. If the journal cannot store it, the keeper of the tree is told: it stops the tree and holds the
/// request, which `stop.held_in` says. With `wait_ms` it waits for the proof that nothing is alive: 200 with the receipt, or 202
/// with the processes still alive. It does not change an ended job.
#[utoipa::path(
    post, operation_id = "cancel_job", path = "/v1/jobs/{ref}:cancel", tag = "jobs", request_body = Cancel,
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "It has ended.", body = api::Job),
        (status = 202, description = "It is being stopped.", body = api::Job),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
        (status = 503, description = "The request could not be stored.", body = Problem),
    ),
)]
pub(crate) async fn cancel<J: Store>(
    app: App<J>,
    principal: &Principal,
    reference: &str,
    request: Request,
) -> Reply {
    let id = match principal.find(&app, reference).await {
        Err(failure) => principal.find_running(&app, reference, failure)?,
        found => found?,
    };
    let OptionalBody(asked) = OptionalBody::<Cancel>::from_request(request, &()).await?;
    let kind = if asked.reader_gone { Asked::ReaderGone } else { Asked::User };
    let stop = StopRequest { by: principal.name().to_owned(), asked: kind, force: asked.force };
    let failure = match app.engine().cancel(id, &stop).await? {
        Cancelled::Held(held) => return held_response(&app, held, stop).await,
        Cancelled::Stored(job) => match stored_response(&app, *job, asked.wait_ms).await {
            Err(failure) if failure.is_of_journal() => failure,
            response => return response,
        },
    };
    // Stored, and cannot be read again: its owner may not learn of it.
    match app.engine().cancel_by_keeper(id, stop.force).await {
        Some(held) => held_response(&app, held, stop).await,
        None => Err(failure),
    }
}

/// Responds to a request that is stored, after `wait_ms` if the job has not ended.
async fn stored_response<J: Store>(app: &App<J>, job: Job, wait_ms: Option<u64>) -> Reply {
    let mut job = Settled { value: job, unsettled: false };
    if let Some(ms) = wait_ms.filter(|_| !job.value.is_ended()) {
        job = wait_for(app, job.value.id, Until::Ended, Duration::from_millis(ms).min(WAIT_MAX)).await?;
    }
    let status = if job.value.is_ended() { StatusCode::OK } else { StatusCode::ACCEPTED };
    job_response(app, status, job).await
}

/// Responds to a request that a keeper holds, because the journal cannot store it.
async fn held_response<J: Store>(app: &App<J>, held: Held, stop: StopRequest) -> Reply {
    let now = app.engine().desk().now().wall;
    let stop = api::Stop::held(stop.by, stop.force, now, held.on_disk);
    let called = held.job.called();
    match super::response::view(app, &Settled { value: *held.job, unsettled: false }).await {
        Ok(shown) => {
            let shown = api::Job { stop: Some(stop), ..shown };
            Ok((StatusCode::ACCEPTED, Json(shown)).into_response())
        }
        // It cannot even be read. There is nothing to repeat.
        Err(failure) => {
            let problem = Problem::new(failure.problem().code.clone(), held_words(&called));
            Err(Problem { retryable: false, ..problem }.into())
        }
    }
}

fn held_words(job: &str) -> String {
    format!(
        "the journal cannot be used, so the keeper of {job} was told: it stops the job, and the journal gets that once it can be written"
    )
}

/// Asks all live jobs to stop, or those of a group or with a label. A request that names none of these is refused.
///
/// All requests are stored when this responds. If one could not be stored, the response is a problem, also if the keeper of that job was
/// told instead. Repeat the call: it changes nothing for jobs that were asked already.
#[utoipa::path(post, operation_id = "cancel_jobs", path = "/v1/jobs:cancel", tag = "jobs", request_body = CancelMany, responses(
    (status = 202, description = "The jobs that were asked to stop.", body = Page<api::Row>),
    (status = 400, description = "It does not name any jobs.", body = Problem),
    (status = 503, description = "Not every request could be stored.", body = Problem),
))]
pub(crate) async fn cancel_many<J: Store>(
    State(app): State<App<J>>,
    Unrestricted(principal): Unrestricted,
    Body(asked): Body<CancelMany>,
) -> Reply {
    let filter = filter(&asked)?;
    let stop = StopRequest { by: principal.name().to_owned(), asked: Asked::User, force: asked.force };
    let (mut items, mut before) = (Vec::new(), None);
    loop {
        let rows = app.engine().rows(filter.clone(), before, LIMIT_MAX).await?.value;
        before = rows.last().map(|row| row.job);
        let is_last = rows.len() < LIMIT_MAX as usize;
        items.extend(cancel_each(&app, rows, &stop).await?);
        if is_last {
            break;
        }
    }
    Ok((StatusCode::ACCEPTED, Json(Page::whole(items))).into_response())
}

async fn cancel_each<J: Store>(
    app: &App<J>,
    rows: Vec<Row>,
    stop: &StopRequest,
) -> Result<Vec<api::Row>, Failure> {
    let mut rows = rows.into_iter();
    let mut requests: JoinSet<Result<Cancelled, Error>> = JoinSet::new();
    let (mut items, mut failed) = (Vec::new(), None);
    loop {
        while requests.len() < REQUESTS_MAX
            && let Some(row) = rows.next()
        {
            requests.spawn(cancel_one(app.clone(), row.job, stop.clone()));
        }
        match requests.join_next().await {
            None => break,
            Some(Ok(Ok(Cancelled::Stored(job)))) => items.push(api::Row::of(&Row::of(&job))),
            Some(Ok(Ok(Cancelled::Held(_)))) => {
                let held = held_words("each job that could be reached");
                failed = Some(Problem::new(api::Code::Unavailable, held).into());
            }
            Some(Ok(Err(error))) => failed = Some(Failure::from(error)),
            Some(Err(_)) => failed = Some(Problem::new(api::Code::Internal, "a request was dropped").into()),
        }
    }
    // Newest first, as in every list: ids sort by time.
    items.sort_by(|one, other| other.id.cmp(&one.id));
    failed.map_or(Ok(items), Err)
}

async fn cancel_one<J: Store>(app: App<J>, id: JobId, stop: StopRequest) -> Result<Cancelled, Error> {
    app.engine().cancel(id, &stop).await
}

fn filter(asked: &CancelMany) -> Result<Filter, Failure> {
    if !asked.all && asked.group.is_none() && asked.label.is_none() {
        return Err(Failure::invalid("no jobs are named: set `group`, `label`, or `all` to true"));
    }
    Ok(Filter {
        phases: PhaseName::LIVE.into(),
        group: asked.group.clone(),
        labels: asked.label.iter().map(|label| label_of(label)).collect::<Result<_, _>>()?,
        ..Filter::default()
    })
}
