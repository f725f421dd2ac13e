//! Streams of events (SSE). Nothing is kept for a reader but what it has not taken yet of one look at the journal: the next look
//! is taken when it comes for more, and one that does not come is cut off by its connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream};
use lastword_api::Event;
use lastword_core::{JobId, Seq};
use lastword_engine::Until;
use lastword_store::Cursor;
use lastword_store::siblings::Siblings;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::failure::Failure;

/// How often a quiet stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After how long a client that was cut off comes back.
const COME_BACK: Duration = Duration::from_millis(2_000);

/// How long one look waits for something new before it looks again.
const LOOK: Duration = Duration::from_secs(60);

/// Events of the feed taken at one look.
const FEED_MAX: u32 = 100;

/// What is sent, or what ended the stream.
type Frame = Result<sse::Event, Infallible>;

/// Streams the events of a job until its end.
pub(crate) fn of_job<J: Siblings>(app: App<J>, id: JobId, after: Seq) -> Response {
    let follow = JobStream { app, id, after, waiting: VecDeque::new(), stage: Stage::Open };
    respond(stream::unfold(follow, |mut follow| async move {
        let frame = follow.next().await?;
        Some((Ok(frame), follow))
    }))
}

/// Streams the events of all jobs without end.
pub(crate) fn of_all<J: Siblings>(app: App<J>, after: Option<Cursor>) -> Response {
    let changes = app.engine().desk().changes();
    let follow = FeedStream { app, after, changes, waiting: VecDeque::new(), is_over: false };
    respond(stream::unfold(follow, |mut follow| async move {
        let frame = follow.next().await?;
        Some((Ok(frame), follow))
    }))
}

fn respond(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    let opening = stream::once(async { Ok(sse::Event::default().retry(COME_BACK)) });
    let frames = stream::StreamExt::chain(opening, frames);
    let mut response = Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// How far the stream of a job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// More may come.
    Open,
    /// What waits is the last of it.
    Final,
    /// Nothing is sent any more.
    Over,
}

struct JobStream<J> {
    app: App<J>,
    id: JobId,
    after: Seq,
    waiting: VecDeque<Event>,
    stage: Stage,
}

impl<J: Siblings> JobStream<J> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
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
            let looked = tokio::select! {
                looked = self.look() => looked,
                // The next daemon has more.
                () = app.closing() => return None,
            };
            if let Err(failure) = looked {
                self.stage = Stage::Over;
                return Some(problem(&failure));
            }
        }
    }

    /// Takes what is new, waiting for it if there is nothing.
    async fn look(&mut self) -> Result<(), Failure> {
        let engine = self.app.engine();
        let mut job = engine.job(self.id).await?.value;
        if !job.is_ended() && job.version <= self.after {
            job = engine.wait(self.id, Until::After(self.after), LOOK).await?.value;
        }
        let events = engine.events(self.id, self.after).await?;
        self.after = events.last().map_or(self.after, |event| event.seq);
        self.waiting.extend(events.iter().map(|event| Event::of(self.id, event)));
        if job.is_ended() {
            self.stage = Stage::Final;
        }
        Ok(())
    }
}

struct FeedStream<J> {
    app: App<J>,
    after: Option<Cursor>,
    changes: broadcast::Receiver<JobId>,
    waiting: VecDeque<(Event, Option<Cursor>)>,
    is_over: bool,
}

impl<J: Siblings> FeedStream<J> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            match self.waiting.pop_front() {
                Some((event, None)) => return Some(frame(&event)),
                Some((event, Some(cursor))) => return Some(frame(&event).id(cursor.0)),
                None if self.is_over => return None,
                None => {}
            }
            let app = self.app.clone();
            let looked = tokio::select! {
                looked = self.look() => looked,
                () = app.closing() => return None,
            };
            if let Err(failure) = looked {
                self.is_over = true;
                return Some(problem(&failure));
            }
        }
    }

    /// Takes what is new; if nothing is, waits until something may be.
    async fn look(&mut self) -> Result<(), Failure> {
        let (events, next) = self.app.engine().feed(self.after.clone(), FEED_MAX).await?;
        if events.is_empty() {
            // Lagging behind means the same as a change: read. A change without a hint is seen at the next poll.
            let heard = tokio::time::timeout(LOOK, self.changes.recv()).await;
            if heard == Ok(Err(RecvError::Closed)) {
                self.is_over = true;
            }
            return Ok(());
        }
        let last = events.len() - 1;
        for (index, (job, event)) in events.iter().enumerate() {
            let cursor = next.clone().filter(|_| index == last);
            self.waiting.push_back((Event::of(*job, event), cursor));
        }
        self.after = next;
        Ok(())
    }
}

fn frame(event: &Event) -> sse::Event {
    // Written in one line, so it is one field of the stream.
    let data = serde_json::to_string(event).unwrap_or_default();
    sse::Event::default().event(&event.kind).data(data)
}

/// Tells why a stream ends before its end. The client goes on from the last event it has.
fn problem(failure: &Failure) -> sse::Event {
    let data = serde_json::to_string(failure.problem()).unwrap_or_default();
    sse::Event::default().event("problem").data(data)
}
