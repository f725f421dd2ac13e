//! The transcript of a job as a stream, attempt by attempt until the job has ended.

use std::time::Duration;

use axum::response::Response;
use axum::response::sse;
use futures_util::stream;
use lastword_api::Item;
use lastword_core::{AttemptNo, JobId};
use lastword_engine::Until;
use lastword_store::Store;

use super::cursor::Cursor;
use super::reader::{Batch, Read, Reader};
use crate::app::App;
use crate::failure::Failure;
use crate::stream::{problem, respond, stopping};

/// How long to wait for output, or for the next attempt, before looking again.
const WAIT: Duration = Duration::from_secs(60);

/// How long to wait for a change of the job if there is no output. An attempt that is being launched has no recording to wait for.
const PAUSE: Duration = Duration::from_secs(1);

struct Follow<J> {
    app: App<J>,
    id: JobId,
    /// The attempt that is read; `None` before the first, and between two.
    reader: Option<Reader<J>>,
    /// The attempt that was read last.
    last: AttemptNo,
    /// No other attempt is asked for.
    is_single: bool,
    batch: Batch,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// More may come.
    Open,
    /// The items that were read are the last ones.
    Final,
    /// The stream has ended.
    Over,
}

/// Streams the items of a job from a reader's place on.
pub(super) fn of_job<J: Store>(
    app: App<J>,
    id: JobId,
    reader: Option<Reader<J>>,
    is_single: bool,
) -> Response {
    let batch = Batch::new(usize::MAX);
    let follow = Follow { app, id, reader, last: AttemptNo(0), is_single, batch, stage: Stage::Open };
    respond(stream::unfold(follow, |mut follow| async move {
        let frame = follow.next().await?;
        Some((Ok(frame), follow))
    }))
}

impl<J: Store> Follow<J> {
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some((item, cursor)) = self.batch.pop() {
                return Some(frame(&item, &cursor));
            }
            match self.stage {
                Stage::Open => {}
                Stage::Final => {
                    self.stage = Stage::Over;
                    let data = format!("{{\"job\":\"{}\"}}", self.id);
                    return Some(sse::Event::default().event("end").data(data));
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

    /// Reads more of the attempt, or goes on to the next one.
    async fn fetch(&mut self) -> Result<(), Failure> {
        let Some(reader) = &mut self.reader else { return self.next_attempt().await };
        match reader.read(WAIT, &mut self.batch).await? {
            Read::More | Read::Full => {}
            Read::Nothing => {
                let version = self.app.engine().job(self.id).await?.value.version;
                self.app.engine().wait(self.id, Until::After(version), PAUSE).await?;
            }
            Read::End => {
                self.last = reader.attempt();
                self.reader = None;
                if self.is_single {
                    self.stage = Stage::Final;
                }
            }
        }
        Ok(())
    }

    /// Begins with the attempt after the last one, and waits for it if necessary.
    async fn next_attempt(&mut self) -> Result<(), Failure> {
        let job = self.app.engine().job(self.id).await?.value;
        if let Some(next) = job.attempts.iter().map(|attempt| attempt.no).find(|no| *no > self.last) {
            self.reader = Some(Reader::at(&self.app, &job, Cursor::start(&job, next))?);
        } else if job.is_ended() {
            self.stage = Stage::Final;
        } else {
            self.app.engine().wait(self.id, Until::After(job.version), WAIT).await?;
        }
        Ok(())
    }
}

fn frame(item: &Item, after: &Cursor) -> sse::Event {
    // JSON on one line is a single SSE field.
    let data = serde_json::to_string(item).unwrap_or_default();
    sse::Event::default().event("item").id(after.to_string()).data(data)
}
