//! What a job wrote, by offset; and what came of it in the end.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use lastword_api::{Code, JobResult, Problem};
use lastword_core::decide::Refusal;
use lastword_core::{AttemptNo, Job, JobId};
use lastword_engine::{Error, Recording, Stream};
use lastword_store::siblings::Siblings;
use serde::Deserialize;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::agents;
use crate::app::App;
use crate::caller::Caller;
use crate::extract::{Query, duration};
use crate::failure::Failure;
use crate::jobs::{WAIT_MAX, seen, view};
use crate::router::Answer;

/// Bytes of one answer by default, and at most. Small: each is held in memory while it is sent.
const LIMIT: usize = 64 << 10;
const LIMIT_MAX: usize = 256 << 10;

/// Bytes of the end of standard output that a result holds.
const RESULT_BYTES_MAX: usize = 64 << 10;

/// A recording that grows tells nobody, so whoever waits for it looks, at first after this long and then ever more rarely. A look
/// takes microseconds.
const LOOK_FIRST: Duration = Duration::from_millis(2);
const LOOK_LAST: Duration = Duration::from_millis(64);

/// Which part of which stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Part {
    /// `stdout` (if not said) or `stderr`. A job with a terminal has only the first.
    stream: Option<String>,
    /// Of which attempt; the newest if not said.
    attempt: Option<u32>,
    /// From this byte on.
    offset: Option<u64>,
    /// Instead of `offset`: so many bytes before the present end.
    tail: Option<u64>,
    /// At most so many bytes; at most 256 KiB.
    limit: Option<usize>,
    /// If there is nothing yet and more may come, wait at most so long, such as `10s`; at most a minute.
    wait: Option<String>,
}

/// Reads what a job wrote.
///
/// The body is the bytes. `Lastword-Offset` says where they begin, `Lastword-Next` where to go on, `Lastword-Skipped` how many
/// bytes before them were not kept, `Lastword-Size` how long the stream is by now, `Lastword-Attempt` which attempt wrote it, and
/// `Lastword-End: true` that nothing more will come of this attempt.
#[utoipa::path(
    get, operation_id = "read_output", path = "/v1/jobs/{ref}/output", tag = "output",
    params(("ref" = String, Path, description = "An id, a part of one, a name, or `@last`."), Part),
    responses(
        (status = 200, description = "Bytes.", content_type = "application/octet-stream"),
        (status = "4XX", description = "Not found, ambiguous, or not allowed.", body = Problem),
    ),
)]
pub(crate) async fn read<J: Siblings>(
    State(app): State<App<J>>,
    caller: Caller,
    Path(reference): Path<String>,
    Query(part): Query<Part>,
) -> Answer {
    let id = caller.find(&app, &reference).await?;
    let stream = match part.stream.as_deref() {
        None | Some("stdout") => Stream::Stdout,
        Some("stderr") => Stream::Stderr,
        Some(_) => return Err(Failure::invalid("`stream` is `stdout` or `stderr`")),
    };
    let wait = part.wait.as_deref().map_or(Ok(Duration::ZERO), |text| duration("wait", text, WAIT_MAX))?;
    let piece = wait_for_piece(&app, id, stream, &part, Instant::now() + wait).await?;
    seen(&app, caller, &piece.job).await;
    Ok(piece.into_response())
}

/// A piece of a stream, and what is known about the rest.
struct Piece {
    job: Job,
    attempt: Option<AttemptNo>,
    bytes: Vec<u8>,
    offset: u64,
    skipped: u64,
    size: u64,
    is_end: bool,
}

impl Piece {
    fn into_response(self) -> Response {
        let next = self.offset + self.bytes.len() as u64;
        let number = |value: u64| HeaderValue::from(value);
        let headers = [
            ("lastword-offset", number(self.offset)),
            ("lastword-next", number(next)),
            ("lastword-skipped", number(self.skipped)),
            ("lastword-size", number(self.size)),
            ("lastword-end", HeaderValue::from_static(if self.is_end { "true" } else { "false" })),
        ];
        let mut response = (headers, self.bytes).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        if let Some(attempt) = self.attempt {
            response.headers_mut().insert("lastword-attempt", number(attempt.0.into()));
        }
        response
    }
}

/// Returns what follows, as soon as there is something, nothing more will come, the time is over or the daemon goes.
async fn wait_for_piece<J: Siblings>(
    app: &App<J>,
    id: JobId,
    stream: Stream,
    part: &Part,
    until: Instant,
) -> Result<Piece, Failure> {
    // Heard from before the first look, so that no change falls between.
    let mut changes = app.engine().desk().changes();
    let mut pause = LOOK_FIRST;
    let mut job = app.engine().job(id).await?.value;
    loop {
        // Whether it was over is known before the look: what is found then is all.
        let piece = look(app, job, stream, part).await?;
        if !piece.bytes.is_empty() || piece.is_end || Instant::now() >= until {
            return Ok(piece);
        }
        tokio::select! {
            () = tokio::time::sleep_until(until.min(Instant::now() + pause)) => job = piece.job,
            () = changed(&mut changes, id) => job = app.engine().job(id).await?.value,
            () = app.closing() => return Ok(piece),
        }
        pause = (pause * 2).min(LOOK_LAST);
    }
}

/// Waits until this job may have changed.
async fn changed(changes: &mut tokio::sync::broadcast::Receiver<JobId>, id: JobId) {
    loop {
        match changes.recv().await {
            Ok(other) if other != id => {}
            Ok(_) | Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

async fn look<J: Siblings>(app: &App<J>, job: Job, stream: Stream, part: &Part) -> Result<Piece, Failure> {
    let no = part.attempt.map(AttemptNo).or_else(|| job.attempts.last().map(|attempt| attempt.no));
    let attempt = job.attempts.iter().find(|attempt| Some(attempt.no) == no);
    let is_over = attempt.map_or(job.is_ended(), |attempt| attempt.end.is_some());
    let nothing = |job, attempt| {
        let offset = part.offset.unwrap_or(0);
        Piece { job, attempt, bytes: Vec::new(), offset, skipped: 0, size: 0, is_end: is_over }
    };
    let Some(attempt) = attempt.map(|attempt| attempt.no) else {
        return match part.attempt {
            Some(asked) => {
                let detail = format!("{} has no attempt {asked}", job.id);
                Err(Problem::new(Code::NotFound, detail).about(job.id).into())
            }
            None => Ok(nothing(job, None)),
        };
    };
    let recording = match app.engine().recording(job.id, attempt, stream) {
        Ok(recording) => recording,
        // Its folder is made when it is launched.
        Err(Error::NoAttempt(_)) => return Ok(nothing(job, Some(attempt))),
        Err(error) => return Err(error.into()),
    };
    let limit = part.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let (offset, tail) = (part.offset.unwrap_or(0), part.tail);
    let found = off_thread(move || read_piece(recording, offset, tail, limit)).await?;
    let is_end = is_over && found.next() >= found.size;
    let Found { bytes, offset, skipped, size } = found;
    Ok(Piece { job, attempt: Some(attempt), bytes, offset, skipped, size, is_end })
}

/// What was read.
struct Found {
    bytes: Vec<u8>,
    offset: u64,
    skipped: u64,
    size: u64,
}

impl Found {
    fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// Reads up to the next bytes that are missing.
fn read_piece(
    mut recording: Recording,
    offset: u64,
    tail: Option<u64>,
    limit: usize,
) -> Result<Found, lastword_proc::Error> {
    let size = recording.size()?;
    let offset = tail.map_or(offset, |tail| size.saturating_sub(tail));
    // No more is reserved than there is.
    let room = usize::try_from(size.saturating_sub(offset)).unwrap_or(limit).min(limit);
    let mut bytes = vec![0; room];
    let first = recording.read(offset, &mut bytes)?;
    let mut filled = first.bytes;
    while filled < room && filled > 0 {
        let more = recording.read(first.offset + filled as u64, &mut bytes[filled..])?;
        if more.skipped > 0 || more.bytes == 0 {
            break;
        }
        filled += more.bytes;
    }
    bytes.truncate(filled);
    Ok(Found { bytes, offset: first.offset, skipped: first.skipped, size: size.max(first.offset) })
}

/// Does what may wait for a disk beside the one thread that answers everybody.
async fn off_thread<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, lastword_proc::Error> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(Problem::new(Code::Unavailable, error.to_string()).into()),
        Err(_) => Err(Problem::new(Code::Internal, "the recording could not be read").into()),
    }
}

/// Returns what came of a job that has ended.
#[utoipa::path(
    get, operation_id = "job_result", path = "/v1/jobs/{ref}/result", tag = "output",
    params(("ref" = String, Path, description = "An id, a part of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "How it ended, the proof, and the end of its output.", body = JobResult),
        (status = 409, description = "It has not ended.", body = Problem),
    ),
)]
pub(crate) async fn result<J: Siblings>(
    State(app): State<App<J>>,
    caller: Caller,
    Path(reference): Path<String>,
) -> Answer {
    let id = caller.find(&app, &reference).await?;
    let job = app.engine().job(id).await?;
    if !job.value.is_ended() && job.value.spec.is_some() {
        return Err(Refusal::NotEnded(id).into());
    }
    let shown = view(&app, &job).await?;
    let dialect = shown.agent.as_ref().and_then(|agent| agent.dialect.to_core());
    let bytes = if dialect.is_some() { LIMIT_MAX } else { RESULT_BYTES_MAX };
    let part = Part { tail: Some(bytes as u64), limit: Some(bytes), ..Part::default() };
    let piece = look(&app, job.value, Stream::Stdout, &part).await?;
    seen(&app, caller, &piece.job).await;
    let said = dialect.and_then(|dialect| agents::last_message(dialect, &piece.bytes));
    let (text, skipped) = match said {
        Some(message) => (message, 0),
        None => (String::from_utf8_lossy(&piece.bytes).into_owned(), piece.offset),
    };
    let result = JobResult::of(&shown, text, skipped).ok_or(Refusal::NotEnded(id))?;
    Ok(Json(result).into_response())
}
