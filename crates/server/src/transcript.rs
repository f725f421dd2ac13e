//! What an agent or a command says and does, as items: a page, or a stream that follows the job to its end.
//!
//! * `cursor`: a place between two items of a job. `reader`: reads an attempt from a cursor on. `follow`: the stream.

mod cursor;
mod follow;
mod reader;

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use lastword_api::{Code, Problem, Transcript};
use lastword_core::{AttemptNo, Job};
use lastword_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::jobs::page_limit;
use crate::principal::Principal;
use crate::stream::{last_event_id, wants_stream};
use cursor::Cursor;
use reader::{Batch, Read, Reader};

/// Bytes of the recording that are read for one page. A page with fewer items than asked for says where to continue.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Which part of the transcript to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TranscriptQuery {
    /// The attempt; the newest by default. A stream without it goes on with later attempts.
    attempt: Option<u32>,
    /// Continue after the page that returned this as `next_cursor`, or after the item of a stream with this id. A stream prefers
    /// `Last-Event-ID`.
    #[param(pattern = "^[0-9a-z]{8}-[0-9a-f]+-[0-9a-f]+(-[0-9a-f]+)+$")]
    after: Option<String>,
    /// The size of a page; at most 500. Does not apply to a stream.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

/// Returns what an agent or a command says and does, as items: the same for every agent.
///
/// A page, or with `Accept: text/event-stream` a stream. An item is complete when its `status` is no longer `running`. An item that grew, or
/// that ended, comes again with the same `n`: append its `text` at `from`, and take its new `status`. Its `id` and `title` are absent
/// then. So a streamed message comes in parts, and a tool once when it starts and once with its output, unless both are on one page.
/// Messages come whole, up to 1 MiB. Of the output of a tool the first 8 KiB come, and `text_bytes` says how long it is; the rest is in the
/// recording (`/output`) before the offset `end`.
///
/// Only standard output is read. Whatever the place at which reading continues, no item is lost and no part comes twice. A page may have fewer
/// items than asked for, or none, although more follow: `end` says whether it is the last. Turns, messages to the agent, questions and answers
/// are events: each event of an agent has the `offset` in the recording after which it stands.
///
/// Each item of a stream (`event: item`) has an id, so a stream can be resumed with `Last-Event-ID`. When the job has ended and everything was
/// sent, the stream closes with `event: end`; if the daemon stops before, with `event: stopping`, which says what happens to the jobs.
#[utoipa::path(
    get, operation_id = "read_transcript", path = "/v1/jobs/{ref}/transcript", tag = "output",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."), TranscriptQuery),
    responses(
        (status = 200, description = "A page of items, or a stream of them.", content(
            (Transcript = "application/json"), (String = "text/event-stream"),
        )),
        (status = "4XX", description = "Not found, ambiguous, not allowed, or not a cursor of this transcript.", body = Problem),
    ),
)]
pub(crate) async fn of_job<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    Query(query): Query<TranscriptQuery>,
    headers: HeaderMap,
) -> Reply {
    let id = principal.find(&app, &reference).await?;
    let is_stream = wants_stream(&headers);
    let last = last_event_id(&headers).filter(|_| is_stream);
    let job = app.engine().job(id).await?.value;
    let cursor = match last.or(query.after.as_deref()) {
        Some(text) => Some(Cursor::parse(text, &job)?),
        None => None,
    };
    let asked = query.attempt.map(AttemptNo);
    if let (Some(asked), Some(cursor)) = (asked, &cursor)
        && asked != cursor.attempt
    {
        return Err(Failure::invalid(format!("the cursor is of attempt {}, not of {asked}", cursor.attempt)));
    }
    let known = |no: &AttemptNo| job.attempts.iter().any(|attempt| attempt.no == *no);
    if let Some(asked) = asked.filter(|asked| !known(asked)) {
        let detail = format!("{id} has no attempt {asked}");
        return Err(Problem::new(Code::NotFound, detail).about(id).into());
    }
    let begin = || asked.or_else(|| job.attempts.last().map(|attempt| attempt.no));
    let cursor = cursor.or_else(|| begin().map(|attempt| Cursor::start(&job, attempt)));
    let limit = page_limit(query.limit)? as usize;
    let reader = cursor.map(|cursor| Reader::at(&app, &job, cursor)).transpose()?;
    if is_stream {
        return Ok(follow::of_job(app, id, reader, asked.is_some()));
    }
    Ok(Json(page(reader, limit, &job).await?).into_response())
}

/// Reads a page; without a reader, that of a job that has no attempt.
async fn page<J: Store>(reader: Option<Reader<J>>, limit: usize, job: &Job) -> Result<Transcript, Failure> {
    let Some(mut reader) = reader else {
        return Ok(Transcript { attempt: None, items: Vec::new(), next_cursor: None, end: job.is_ended() });
    };
    let mut batch = Batch::new(limit);
    let begin = reader.offset();
    let read = loop {
        match reader.read(Duration::ZERO, &mut batch).await? {
            // A long line is read to its end, or the next page would begin with it again.
            Read::More if reader.next_byte() - begin < PAGE_BYTES_MAX || reader.offset() == begin => {}
            read => break read,
        }
    };
    let attempt = Some(reader.attempt().0);
    let last = batch.last_cursor().filter(|_| read == Read::Full).cloned();
    let next_cursor = Some(last.unwrap_or_else(|| reader.cursor()).to_string());
    let items = batch.take().map(|(item, _)| item).collect();
    Ok(Transcript { attempt, items, next_cursor, end: read == Read::End })
}
