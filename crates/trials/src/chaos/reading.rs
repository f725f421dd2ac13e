//! Reads everything that the product says about an ended job: the job, its log, its output, and what `logs` prints of it.

use lastword_client::output::{self, Part, Piece};
use lastword_client::{FromReply as _, events, jobs};
use serde_json::Value;

use super::evidence::{Read, Told, Try};
use super::plan::Order;
use super::stage::{Entry, Stage};
use crate::product::client::{Client, code_of};

/// Every so many canaries are read by command, too.
const LOGS_EVERY: u64 = 6;

/// The most events of a job that are read: more than any job of a run has.
const EVENTS_MAX: u32 = 500;

/// Why a job was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Something removed it, or may have begun to.
    Gone,
    /// The daemon did not answer.
    Away(String),
}

impl From<String> for Unread {
    fn from(why: String) -> Unread {
        Unread::Away(why)
    }
}

/// Reads a job as a whole.
pub(crate) fn read(stage: &Stage, client: &mut Client, entry: &Entry) -> Result<Read, Unread> {
    let id = entry.id.as_deref().ok_or_else(|| Unread::Away("it was not acknowledged".to_owned()))?;
    let Some(job) = show(client, id)? else { return Err(gone(stage, entry)) };
    let mut told = Told::of(&job);
    told.log = log(client, id)?;
    if entry.order.canary().is_some() {
        for attempt in &mut told.attempts {
            read_output(client, id, attempt)?;
        }
    }
    let logs = logs(stage, &entry.order, id)?;
    // A removal takes the output first, and may have been cut off then.
    let whole = stage.entry(entry.order.number, |entry| !entry.may_be_gone()).unwrap_or(true);
    match whole || show(client, id)?.is_some() {
        true => Ok(Read { told, logs, whole }),
        false => Err(Unread::Gone),
    }
}

/// Says that a job is gone, if anything may have removed it: else the daemon has forgotten it, and that is seen at the end.
fn gone(stage: &Stage, entry: &Entry) -> Unread {
    match stage.entry(entry.order.number, |entry| entry.may_be_gone()) {
        Some(true) => Unread::Gone,
        _ => Unread::Away("it is not there".to_owned()),
    }
}

/// Shows a job; `None` if there is none.
pub(crate) fn show(client: &mut Client, id: &str) -> Result<Option<Value>, String> {
    let call = jobs::show(id).untyped();
    let reply = client.send(&call).map_err(|why| why.to_string())?;
    match reply.status {
        404 => Ok(None),
        _ if reply.is_success() => Value::from_reply(reply).map(Some),
        _ => Err(format!("{call:?}: {}", code_of(&reply))),
    }
}

fn log(client: &mut Client, id: &str) -> Result<Vec<(String, Value)>, String> {
    let page = client.call(&events::of_job(id, &events::Filter::default(), None, EVENTS_MAX).untyped())?;
    let events = page["items"].as_array().cloned().unwrap_or_default();
    let note = |event: &Value| (event["type"].as_str().unwrap_or_default().to_owned(), event["data"].clone());
    Ok(events.iter().map(note).collect())
}

/// Reads the output of some canaries by command, too. A command that could not reach the daemon is tried again with the rest.
fn logs(stage: &Stage, order: &Order, id: &str) -> Result<Option<[Vec<u8>; 2]>, String> {
    if order.canary().is_none() || !order.number.is_multiple_of(LOGS_EVERY) {
        return Ok(None);
    }
    let output = stage.product.run(&["logs", id])?;
    match output.status.success() {
        true => {
            stage.count("read by `logs`");
            Ok(Some([output.stdout, output.stderr]))
        }
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Reads both streams of an attempt to their end.
fn read_output(client: &mut Client, id: &str, attempt: &mut Try) -> Result<(), String> {
    for stream in ["stdout", "stderr"] {
        let mut bytes = Vec::new();
        let mut offset = 0_u64;
        loop {
            let (stream, attempt_no) = (Some(stream), u32::try_from(attempt.no).ok());
            let part = Part { stream, attempt: attempt_no, offset: Some(offset), ..Part::default() };
            let call = output::read(id, &part);
            let reply = client.send(&call).map_err(|why| why.to_string())?;
            // An attempt that never started has no recording.
            if reply.status == 404 {
                break;
            }
            if !reply.is_success() {
                return Err(format!("{call:?}: {}", code_of(&reply)));
            }
            let piece = Piece::from_reply(reply)?;
            attempt.skipped += piece.skipped;
            bytes.extend(&piece.bytes);
            if (piece.is_end && piece.next >= piece.size) || piece.next == offset {
                break;
            }
            offset = piece.next;
        }
        match stream {
            "stdout" => attempt.out = bytes,
            _ => attempt.err = bytes,
        }
    }
    Ok(())
}
