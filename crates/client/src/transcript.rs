//! Transcripts, a page at a time, and as a stream that goes on to the end of the job.

use lastword_api::{Item, Transcript};

use crate::call::{Call, Query, job_path};
use crate::client::Client;
use crate::error::Error;
use crate::stream::Frames;

/// Reads a page of a transcript after a cursor; of the newest attempt, unless another one is asked for or the cursor is of another one.
pub fn read(reference: &str, attempt: Option<u32>, after: Option<&str>, limit: u32) -> Call<Transcript> {
    let query = Query::default().with("attempt", attempt).with("after", after).with("limit", Some(limit));
    Call::get(query.after(&job_path(reference, "/transcript")))
}

/// The items of a job that come after a cursor, up to its end.
#[derive(Debug)]
pub struct Items(Frames);

impl Client {
    /// Streams what an agent or a command says and does after a cursor: the rest of one attempt, if it is given, or of that of the cursor and
    /// all later ones. Without a cursor, the newest attempt counts and what follows it.
    pub fn follow_transcript(&self, reference: &str, attempt: Option<u32>, after: Option<String>) -> Items {
        let query = Query::default().with("attempt", attempt);
        Items(self.frames(Call::get(query.after(&job_path(reference, "/transcript"))), after))
    }
}

impl Items {
    /// Returns the next item, or what was added to one; `None` after the last one. Nothing is lost or repeated after a break.
    pub async fn next(&mut self) -> Result<Option<Item>, Error> {
        loop {
            let frame = self.0.next().await?;
            if frame.kind == "end" {
                return Ok(None);
            }
            if let Ok(item) = serde_json::from_str(&frame.data) {
                return Ok(Some(item));
            }
        }
    }
}
