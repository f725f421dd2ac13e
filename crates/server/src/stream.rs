//! Streams of events (SSE). A stream buffers the events of one read of the journal. It reads again when the client has taken them; a client
//! that stalls is cut off by its connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream};
use lastword_api::Event;
use lastword_core::{JobId, Seq};
use lastword_engine::{FeedFilter, Until};
use lastword_store::Cursor;
use lastword_store::Store;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::failure::Failure;

/// How often an idle stream sends a comment.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After how long a disconnected client reconnects.
const RECONNECT: Duration = Duration::from_millis(2_000);

/// How long to wait for a change before reading again.
const WAIT: Duration = Duration::from_secs(60);

/// Events of the feed per read.
const FEED_MAX: u32 = 100;

/// An item of the stream.
pub(crate) type Frame = Result<sse::Event, Infallible>;

/// Streams the events of a job that a filter selects, until its end.
pub(crate) fn of_job<J: Store>(app: App<J>, id: JobId, after: Seq, filter: FeedFilter) -> Response {
    let follow = JobStream { app, id, after, filter, buffer: VecDeque::new(), stage: Stage::Open };
    respond(stream::unfold(follow, |mut follow| async move {
        let frame = follow.next().await?;
        Some((Ok(frame), follow))
    }))
}

/// Streams the events of all jobs that a filter selects.
pub(crate) fn of_all<J: Store>(app: App<J>, after: Option<Cursor>, filter: FeedFilter) -> Response {
    let changes = app.engine().desk().changes();
    let follow = FeedStream { app, after, filter, changes, buffer: VecDeque::new(), is_over: false };
    respond(stream::unfold(follow, |mut follow| async move {
        let frame = follow.next().await?;
        Some((Ok(frame), follow))
    }))
}

/// Reports whether a request asks for a stream instead of a page.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).into_iter().filter_map(|accept| accept.to_str().ok());
    accept.flat_map(|accept| accept.split(',')).any(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Returns the place after which a request resumes a stream.
pub(crate) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id").and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty())
}

/// Returns the response that carries a stream.
pub(crate) fn respond(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    let opening = stream::once(async { Ok(sse::Event::default().retry(RECONNECT)) });
    let frames = stream::StreamExt::chain(opening, frames);
    let mut response = Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The state of a job's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// More may come.
    Open,
    /// The buffered events are the last ones.
    Final,
    /// The stream has ended.
    Over,
}

struct JobStream<J> {
    app: App<J>,
    id: JobId,
    after: Seq,
    filter: FeedFilter,
    buffer: VecDeque<Event>,
    stage: Stage,
}

impl<J: Store> JobStream<J> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Some(frame(&event).id(event.seq.to_string()));
            }
            match self.stage {
                Stage::Open => {}
                Stage::Final => {
                    self.stage = Stage::Over;
                    return Some(
                        sse::Event::default().event("end").data(format!("{{\"job\":\"{}\"}}", self.id)),
                    );
                }
                Stage::Over => return None,
            }
            let app = self.app.clone();
            let fetched = tokio::select! {
                fetched = self.fetch() => fetched,
                // The client reconnects to the next daemon.
                () = app.closing() => {
                    self.stage = Stage::Over;
                    return stopping(&app);
                }
            };
            if let Err(failure) = fetched {
                self.stage = Stage::Over;
                return Some(problem(&failure));
            }
        }
    }

    /// Reads new events, waiting for some if there are none.
    async fn fetch(&mut self) -> Result<(), Failure> {
        let engine = self.app.engine();
        let mut job = engine.job(self.id).await?.value;
        if !job.is_ended() && job.version <= self.after {
            job = engine.wait(self.id, Until::After(self.after), WAIT).await?.value;
        }
        let events = engine.events(self.id, self.after).await?;
        self.after = events.last().map_or(self.after, |event| event.seq);
        let selected = events.iter().filter(|event| self.filter.has(event));
        self.buffer.extend(selected.map(|event| Event::of(self.id, event)));
        if job.is_ended() {
            self.stage = Stage::Final;
        }
        Ok(())
    }
}

struct FeedStream<J> {
    app: App<J>,
    after: Option<Cursor>,
    filter: FeedFilter,
    changes: broadcast::Receiver<JobId>,
    buffer: VecDeque<(Event, Option<Cursor>)>,
    is_over: bool,
}

impl<J: Store> FeedStream<J> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            match self.buffer.pop_front() {
                Some((event, None)) => return Some(frame(&event)),
                Some((event, Some(cursor))) => return Some(frame(&event).id(cursor.0)),
                None if self.is_over => return None,
                None => {}
            }
            let app = self.app.clone();
            let fetched = tokio::select! {
                fetched = self.fetch() => fetched,
                () = app.closing() => {
                    self.is_over = true;
                    return stopping(&app);
                }
            };
            if let Err(failure) = fetched {
                self.is_over = true;
                return Some(problem(&failure));
            }
        }
    }

    /// Reads new events; if there are none, waits until there may be some.
    async fn fetch(&mut self) -> Result<(), Failure> {
        let (events, next) = self.app.engine().feed(&self.filter, self.after.clone(), FEED_MAX).await?;
        if events.is_empty() && next != self.after {
            // There were events, but not of this filter.
            self.after = next;
            return Ok(());
        }
        if events.is_empty() {
            // Lagging counts as a change. A change without a notification is found at the next read.
            let change = tokio::time::timeout(WAIT, self.changes.recv()).await;
            if change == Ok(Err(RecvError::Closed)) {
                self.is_over = true;
            }
            return Ok(());
        }
        let last = events.len() - 1;
        for (index, (job, event)) in events.iter().enumerate() {
            let cursor = next.clone().filter(|_| index == last);
            self.buffer.push_back((Event::of(*job, event), cursor));
        }
        self.after = next;
        Ok(())
    }
}

fn frame(event: &Event) -> sse::Event {
    // JSON on one line is a single SSE field.
    let data = serde_json::to_string(event).unwrap_or_default();
    sse::Event::default().event(&event.kind).data(data)
}

/// Announces that the daemon stops, if that is why it closes its streams.
pub(crate) fn stopping<J: Store>(app: &App<J>) -> Option<sse::Event> {
    let data = serde_json::to_string(&app.stopping()?).unwrap_or_default();
    Some(sse::Event::default().event("stopping").data(data))
}

/// Reports why a stream ends early. The client can resume after its last event.
pub(crate) fn problem(failure: &Failure) -> sse::Event {
    let data = serde_json::to_string(failure.problem()).unwrap_or_default();
    sse::Event::default().event("problem").data(data)
}
