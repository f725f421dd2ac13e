//! The output of a job, by offset, and its result. A read may wait for output that is not written yet.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use lastword_api::{Code, JobResult, Problem};
use lastword_core::decide::Refusal;
use lastword_core::spec::Dialect;
use lastword_core::{AttemptNo, Job, JobId};
use lastword_engine::{self as engine, Begin, Error, Part, Stream};
use lastword_store::Store;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::agents;
use crate::app::App;
use crate::extract::{Query, duration};
use crate::failure::{Failure, Reply};
use crate::jobs::{WAIT_MAX, view};
use crate::principal::Principal;

/// The default size of a response in bytes, and the largest. Small, because each is in memory while it is sent.
const LIMIT_DEFAULT: usize = 64 << 10;
const LIMIT_MAX: usize = 256 << 10;

/// Bytes of the end of standard output in a result.
const RESULT_BYTES_MAX: usize = 64 << 10;

/// Bytes of the end of an agent's output in which its last message is looked for. A message takes many times its own size: it is
/// streamed in small parts and then repeated whole, perhaps twice.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Which part of the output to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OutputQuery {
    /// `stdout` (the default) or `stderr`. A job with a terminal has only `stdout`.
    #[param(pattern = "^(stdout|stderr)$")]
    stream: Option<String>,
    /// The attempt; the newest by default.
    attempt: Option<u32>,
    /// The offset of the first byte.
    offset: Option<u64>,
    /// Start this many bytes before the current end, instead of at `offset`.
    tail: Option<u64>,
    /// The number of bytes; at most 256 KiB.
    #[param(minimum = 1, maximum = 262_144)]
    limit: Option<usize>,
    /// How long to wait if there is no output yet and more may come, such as `10s`; at most a minute.
    #[param(pattern = "^(0|([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$", min_length = 1)]
    wait: Option<String>,
}

impl OutputQuery {
    /// Returns the query for a part of an attempt.
    pub(crate) fn part(attempt: AttemptNo, offset: u64, limit: usize) -> OutputQuery {
        let (attempt, offset, limit) = (Some(attempt.0), Some(offset), Some(limit));
        OutputQuery { attempt, offset, limit, ..OutputQuery::default() }
    }
}

/// Reads the output of a job.
///
/// The body has the bytes. `Lastword-Offset` is their offset, `Lastword-Next` the offset to continue at, `Lastword-Skipped` the number of
/// bytes before them that were not kept, `Lastword-Size` the current size of the stream, `Lastword-Attempt` the attempt, and
/// `Lastword-End: true` means that the attempt has no more output.
#[utoipa::path(
    get, operation_id = "read_output", path = "/v1/jobs/{ref}/output", tag = "output",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."), OutputQuery),
    responses(
        (status = 200, description = "Bytes.", content_type = "application/octet-stream"),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
    ),
)]
pub(crate) async fn read<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    Query(query): Query<OutputQuery>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    let stream = match query.stream.as_deref() {
        None | Some("stdout") => Stream::Stdout,
        Some("stderr") => Stream::Stderr,
        Some(_) => return Err(Failure::invalid("`stream` must be `stdout` or `stderr`")),
    };
    if query.limit.is_some_and(|limit| !(1..=LIMIT_MAX).contains(&limit)) {
        return Err(Failure::invalid(format!("`limit` must be between 1 and {LIMIT_MAX}")));
    }
    let wait = query.wait.as_deref().map_or(Ok(Duration::ZERO), |text| duration("wait", text, WAIT_MAX))?;
    let piece = wait_for_piece(&app, id, stream, &query, Instant::now() + wait).await?;
    Ok(piece.into_response())
}

/// A piece of a stream of an attempt.
pub(crate) struct Piece {
    /// `None` if the job has no attempt yet.
    attempt: Option<AttemptNo>,
    pub(crate) read: engine::Piece,
    /// No output follows.
    pub(crate) is_end: bool,
}

impl Piece {
    fn into_response(self) -> Response {
        let number = |value: u64| HeaderValue::from(value);
        let headers = [
            ("lastword-offset", number(self.read.offset)),
            ("lastword-next", number(self.read.next())),
            ("lastword-skipped", number(self.read.skipped)),
            ("lastword-size", number(self.read.size)),
            ("lastword-end", HeaderValue::from_static(if self.is_end { "true" } else { "false" })),
        ];
        let mut response = (headers, self.read.bytes).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        if let Some(attempt) = self.attempt {
            response.headers_mut().insert("lastword-attempt", number(attempt.0.into()));
        }
        response
    }
}

/// Returns the next piece, waiting until there is output, the attempt has no more, the time is over, or the daemon closes.
pub(crate) async fn wait_for_piece<J: Store>(
    app: &App<J>,
    id: JobId,
    stream: Stream,
    query: &OutputQuery,
    until: Instant,
) -> Result<Piece, Failure> {
    // Subscribed before the first read, so that no change is missed.
    let mut changes = app.engine().desk().changes();
    let mut job = app.engine().job(id).await?.value;
    loop {
        // The job was read before the recording: if the attempt had ended, the recording is complete.
        let (attempt, is_over) = chosen(&job, query);
        let wait = if is_over { Duration::ZERO } else { until.saturating_duration_since(Instant::now()) };
        job = {
            let reading = read_now(app, &job, stream, query, wait);
            tokio::pin!(reading);
            loop {
                tokio::select! {
                    piece = &mut reading => return piece,
                    // A read goes on over changes that do not concern it: it may take longer than the time between two of them.
                    () = changed(&mut changes, id), if !is_over => {
                        let news = app.engine().job(id).await?.value;
                        if chosen(&news, query) != (attempt, is_over) {
                            break news;
                        }
                    }
                    () = app.closing() => return read_now(app, &job, stream, query, Duration::ZERO).await,
                }
            }
        };
    }
}

/// Returns the attempt that is asked for, and whether its output is complete.
fn chosen(job: &Job, query: &OutputQuery) -> (Option<AttemptNo>, bool) {
    let no = query.attempt.map(AttemptNo).or_else(|| job.attempts.last().map(|attempt| attempt.no));
    let attempt = job.attempts.iter().find(|attempt| Some(attempt.no) == no);
    // Without an attempt there may still be a first one, unless the job has ended.
    (attempt.map(|attempt| attempt.no), attempt.map_or(job.is_ended(), |attempt| attempt.end.is_some()))
}

/// Waits until this job may have changed. A receiver that lags has missed changes, perhaps of this job.
async fn changed(changes: &mut tokio::sync::broadcast::Receiver<JobId>, id: JobId) {
    loop {
        match changes.recv().await {
            Ok(other) if other != id => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Reads a piece of the job as it is known, and waits at most so long for the first byte.
async fn read_now<J: Store>(
    app: &App<J>,
    job: &Job,
    stream: Stream,
    query: &OutputQuery,
    wait: Duration,
) -> Result<Piece, Failure> {
    let (attempt, is_over) = chosen(job, query);
    let offset = query.offset.unwrap_or(0);
    let empty = || engine::Piece { bytes: Vec::new(), offset, skipped: 0, size: 0 };
    let Some(no) = attempt else {
        return match query.attempt {
            Some(asked) => {
                let detail = format!("{} has no attempt {asked}", job.id);
                Err(Problem::new(Code::NotFound, detail).about(job.id).into())
            }
            None => {
                tokio::time::sleep(wait).await;
                Ok(Piece { attempt, read: empty(), is_end: is_over })
            }
        };
    };
    let from = query.tail.map_or(Begin::At(offset), Begin::BeforeEnd);
    let part = Part { from, limit: query.limit.unwrap_or(LIMIT_DEFAULT), wait };
    let read = match app.engine().read(job, no, stream, part).await {
        Ok(read) => read,
        // The attempt is intended but not launched: the launch creates its directory.
        Err(Error::NoAttempt(_)) => return Ok(Piece { attempt, read: empty(), is_end: is_over }),
        Err(error) => return Err(error.into()),
    };
    let is_end = is_over && read.next() >= read.size;
    Ok(Piece { attempt, read, is_end })
}

/// Reads the end of standard output: at most so many bytes, and nothing before a gap.
async fn read_end<J: Store>(app: &App<J>, job: &Job, bytes: usize) -> Result<engine::Piece, Failure> {
    let read = |query: OutputQuery| async move {
        read_now(app, job, Stream::Stdout, &query, Duration::ZERO).await.map(|piece| piece.read)
    };
    let query = OutputQuery { tail: Some(bytes as u64), limit: Some(bytes), ..OutputQuery::default() };
    let mut piece = read(query).await?;
    // A read that does not reach the end has stopped at a gap.
    while piece.next() < piece.size && !piece.bytes.is_empty() {
        let query = OutputQuery { offset: Some(piece.next()), limit: Some(bytes), ..OutputQuery::default() };
        piece = read(query).await?;
    }
    Ok(piece)
}

/// Returns the result of an ended job.
#[utoipa::path(
    get, operation_id = "job_result", path = "/v1/jobs/{ref}/result", tag = "output",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "Its outcome, receipt and the end of its output.", body = JobResult),
        (status = 409, description = "It has not ended.", body = Problem),
    ),
)]
pub(crate) async fn result<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    let job = app.engine().job(id).await?;
    if !job.value.is_ended() && job.value.spec.is_some() {
        return Err(Refusal::NotEnded(id).into());
    }
    let shown = view(&app, &job).await?;
    let dialect = shown.agent.as_ref().and_then(|agent| agent.dialect.to_core());
    let bytes = match dialect {
        None => RESULT_BYTES_MAX,
        Some(Dialect::Plain) => LIMIT_MAX,
        Some(_) => MESSAGE_BYTES_MAX,
    };
    let piece = match read_end(&app, &job.value, bytes).await {
        // How it ended is known all the same.
        Err(failure) if failure.problem().code == Code::HostAway => {
            let result = JobResult::of(&shown, String::new(), 0).ok_or(Refusal::NotEnded(id))?;
            let text_away = Some(failure.problem().detail.clone());
            let reported = reported(&job.value);
            return Ok(Json(JobResult { reported, text_away, ..result }).into_response());
        }
        read => read?,
    };
    let before = piece.offset;
    let message = dialect.and_then(|dialect| agents::last_message(dialect, &piece.bytes, before > 0));
    let (text, skipped) = match (message, dialect) {
        (Some(message), _) => (message.text, if message.is_cut { before } else { 0 }),
        // It failed before its first message, or the message is longer than what was read. Its protocol is no result.
        (None, Some(dialect)) if dialect != Dialect::Plain => {
            (agents::outside_protocol(&piece.bytes, before > 0), before)
        }
        // The end of the output; `skipped` is the number of bytes before it.
        (None, _) => (String::from_utf8_lossy(&piece.bytes).into_owned(), before),
    };
    let result = JobResult::of(&shown, text, skipped).ok_or(Refusal::NotEnded(id))?;
    Ok(Json(JobResult { reported: reported(&job.value), ..result }).into_response())
}

/// Returns the result that a job reported.
fn reported(job: &Job) -> Option<String> {
    job.result().map(str::to_owned)
}
