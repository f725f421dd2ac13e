//! What is watched during a run: the feed for last words, the judges of each job some time after its own, and the daemon's
//! memory.

use std::collections::BTreeMap;
use std::time::Duration;

use lastword_client::output::{self, Part, Piece};
use lastword_client::{FromReply as _, events, jobs};
use serde_json::Value;

use super::canary::Life;
use super::evidence::{Case, Told, Try};
use super::judge::job;
use super::judge::run::Sample;
use super::plan::Order;
use super::stage::{Entry, Stage};
use crate::clock;
use crate::product::client::{Client, code_of};
use crate::product::figures;

/// How often the feed is read.
const LOOK: Duration = Duration::from_millis(30);

/// How long after its last word a job is judged: a survivor has shown itself by then.
const LATER_NS: u64 = 1_500_000_000;

/// How long after its last word a job is still not known by its number: the answer to its submission got lost.
const UNANSWERED_NS: u64 = 3_000_000_000;

/// Every so many canaries are read by command, too.
const LOGS_EVERY: u64 = 6;

/// How often the daemon is looked at.
const SAMPLE: Duration = Duration::from_millis(500);

/// Reads the feed over all jobs, and returns how often it reported each last word. Processes of a job that are alive when its last
/// word is read are noted at once.
pub(crate) fn follow(stage: &Stage) -> BTreeMap<String, u64> {
    let (mut client, mut cursor) = (stage.product.client(), None::<String>);
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    // Words about jobs whose submission was not answered yet, or never.
    let mut unknown: Vec<(u64, Value)> = Vec::new();
    loop {
        let ends = stage.is_over();
        let events = page(&mut client, &mut cursor);
        // Read after the answer: what is alive now has outlived the word.
        let now = clock::boot_ns();
        for event in events.iter().filter(|event| event["type"] == "last_word") {
            *told.entry(event["job"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
            unknown.push((now, event.clone()));
        }
        unknown.retain(|(seen, event)| {
            let id = event["job"].as_str().unwrap_or_default();
            let number = stage.number(id).or_else(|| {
                (now - seen > UNANSWERED_NS).then(|| number_of(stage, &mut client, id)).flatten()
            });
            match number {
                Some(number) => note_last_word(stage, number, *seen, event),
                None => return true,
            }
            false
        });
        if ends && events.is_empty() {
            return told;
        }
        if events.is_empty() {
            clock::rest(LOOK);
        }
    }
}

/// Asks the daemon which number an unknown job was submitted with.
fn number_of(stage: &Stage, client: &mut Client, id: &str) -> Option<u64> {
    let number = client.call(&jobs::show(id)).ok()?.labels.get("chaos")?.parse().ok()?;
    stage.entry(number, |entry| entry.id = Some(id.to_owned()))?;
    Some(number)
}

fn page(client: &mut Client, cursor: &mut Option<String>) -> Vec<Value> {
    let call = events::of_all(&events::Filter::default(), cursor.as_deref(), 500).untyped();
    let Ok(page) = client.call(&call) else { return Vec::new() };
    if let Some(next) = page["next_cursor"].as_str() {
        *cursor = Some(next.to_owned());
    }
    page["items"].as_array().cloned().unwrap_or_default()
}

fn note_last_word(stage: &Stage, number: u64, now: u64, event: &Value) {
    let Some(order) = stage.entry(number, |entry| entry.order.clone()) else { return };
    let alive = Life::read(&order, &stage.ground.notes()).alive();
    let alive: Vec<i32> = alive.into_iter().filter(|pid| stage.product.marks(*pid)).collect();
    stage.entry(number, |entry| {
        entry.outcome = event["data"]["outcome"].as_str().map(str::to_owned);
        entry.seen.get_or_insert((now, alive));
    });
}

/// Judges jobs some time after their last words, until all that were submitted are judged or the run is over.
pub(crate) fn judge(stage: &Stage) {
    let mut client = stage.product.client();
    loop {
        let ends = stage.is_over();
        let due = clock::boot_ns().saturating_sub(LATER_NS);
        let ripe =
            |entry: &Entry| !entry.judged && entry.seen.as_ref().is_some_and(|(seen, _)| ends || *seen < due);
        let mut missed = false;
        for entry in stage.entries().into_iter().filter(ripe) {
            match case(stage, &mut client, &entry) {
                Ok(case) => conclude(stage, &case),
                // The daemon is away; it is asked again.
                Err(_) => missed = true,
            }
        }
        if ends && !missed {
            return;
        }
        clock::rest(SAMPLE);
    }
}

fn conclude(stage: &Stage, case: &Case) {
    stage.violated(job::judge(case));
    stage.count("judged");
    for attempt in &case.told.attempts {
        let lines = attempt.out.iter().chain(&attempt.err).filter(|byte| **byte == b'\n').count();
        stage.add("lines of output", lines);
        if attempt.output_lost {
            stage.count("attempts that admit a loss of output");
        }
        if !attempt.certain {
            stage.count("receipts without certainty");
        }
    }
    stage.count(name_of(&case.told.outcome));
    stage.entry(case.order.number, |entry| entry.judged = true);
    // A process that still writes to it would be found by its name at the end.
    let _ = std::fs::remove_file(stage.ground.notes().join(case.order.life()));
}

fn name_of(outcome: &str) -> &'static str {
    ["completed", "failed", "cancelled", "timed_out", "lost"]
        .into_iter()
        .find(|name| *name == outcome)
        .unwrap_or("ended otherwise")
}

/// Gathers what is known of a job that has ended.
fn case(stage: &Stage, client: &mut Client, entry: &Entry) -> Result<Case, String> {
    let (id, (seen_ns, alive)) = entry.id.clone().zip(entry.seen.clone()).ok_or("it has not ended")?;
    let mut told = Told::of(&client.call(&jobs::show(&id).untyped())?);
    if entry.order.canary().is_some() {
        for attempt in &mut told.attempts {
            read_output(client, &id, attempt)?;
        }
    }
    let mut acts = entry.acts.clone();
    acts.disk_full = stage.was_full((entry.asked_ns, seen_ns));
    acts.dependency = entry.order.after.and_then(|(back, _)| {
        stage.entry(entry.order.number.checked_sub(back)?, |other| other.outcome.clone())?
    });
    let life = Life::read(&entry.order, &stage.ground.notes());
    let logs = logs(stage, &entry.order, &id)?;
    Ok(Case { order: entry.order.clone(), id, acts, seen_ns, alive, life, told, logs })
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

/// Looks at the daemon twice a second.
pub(crate) fn sample(stage: &Stage) -> Vec<Sample> {
    let (mut samples, mut known) = (Vec::new(), None);
    while !stage.is_over() {
        known = known
            .filter(|pid| figures::runs(*pid, stage.product.program()))
            .or_else(|| stage.product.daemon());
        if let Some(pid) = known
            && let (Some(resident_kb), Some(descriptors)) =
                (figures::resident_kb(pid), figures::descriptors(pid))
        {
            let (at_s, zombies) = (stage.elapsed_s(), figures::zombies_of(pid) as u64);
            samples.push(Sample { at_s, pid, resident_kb, descriptors: descriptors as u64, zombies });
        }
        clock::rest(SAMPLE);
    }
    samples
}
