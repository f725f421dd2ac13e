//! What is watched during a run: the feed for last words, the judges of each job some time after its own, and the memory of the
//! product's processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lastword_client::{events, jobs};
use serde_json::Value;

use super::canary::Life;
use super::evidence::{Case, Dependency, Read};
use super::judge::run::Sample;
use super::judge::{Violation, job};
use super::members::Member;
use super::plan::AGAIN;
use super::reading::{Unread, read, show};
use super::stage::{Entry, Stage};
use crate::clock;
use crate::product::client::Client;
use crate::product::figures;

/// How often the feed is read.
const LOOK: Duration = Duration::from_millis(10);

/// How long after its last word a job is judged: a survivor has shown itself by then.
const LATER_NS: u64 = 1_500_000_000;

/// How long after its last word a job is still not known by its number: the answer to its submission got lost.
const UNANSWERED_NS: u64 = 3_000_000_000;

/// How long the last jobs may take to be read.
const READ_MAX: Duration = Duration::from_secs(30);

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
    let job = client.call(&jobs::show(id)).ok()?;
    let number: u64 = job.labels.get("chaos")?.parse().ok()?;
    let number = if job.retry_of.is_some() { number + AGAIN } else { number };
    let known = stage.entry(number, |entry| entry.id.get_or_insert(id.to_owned()).clone())?;
    if known != id {
        let what = format!("job {number} was taken twice: as {known} and as {id}");
        stage.violated(vec![Violation { judge: "no job lost or doubled", what }]);
        return None;
    }
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
    let life = Life::read(&order, &stage.ground.notes());
    let alive: Vec<i32> = life.alive().into_iter().filter(|pid| stage.product.marks(*pid)).collect();
    stage.entry(number, |entry| {
        entry.last_ns = life.last_ns();
        entry.outcome = event["data"]["outcome"].as_str().map(str::to_owned);
        entry.seen.get_or_insert((now, alive));
    });
}

/// Judges jobs some time after their last words, until all that were submitted are judged or the run is over.
pub(crate) fn judge(stage: &Stage) {
    let mut client = stage.product.client();
    let mut over = None;
    loop {
        let ends = stage.is_over();
        let due = clock::boot_ns().saturating_sub(LATER_NS);
        let ripe =
            |entry: &Entry| !entry.judged && entry.seen.as_ref().is_some_and(|(seen, _)| ends || *seen < due);
        let mut missed = false;
        for entry in stage.entries().into_iter().filter(ripe) {
            match case(stage, &mut client, &entry) {
                Ok(case) => conclude(stage, &case),
                Err(Unread::Gone) => lost_sight(stage, &entry),
                // The daemon is away; it is asked again.
                Err(Unread::Away(_)) => missed = true,
            }
        }
        overdue(stage, &mut client);
        // What cannot be read by then is missed by the judge of the run.
        let since = ends.then(|| *over.get_or_insert_with(Instant::now));
        if since.is_some_and(|since| !missed || since.elapsed() > READ_MAX) {
            return;
        }
        clock::rest(SAMPLE);
    }
}

fn conclude(stage: &Stage, case: &Case) {
    stage.violated(job::judge(case));
    if !case.whole {
        stage.count("read while a prune was under way");
    }
    match case.told.cause.as_str() {
        "dependency" => stage.count("ended for a dependency"),
        "dependency_removed" => stage.count("ended for a removed dependency"),
        _ => {}
    }
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
fn case(stage: &Stage, client: &mut Client, entry: &Entry) -> Result<Case, Unread> {
    let ended = entry.id.clone().zip(entry.seen.clone());
    let (id, (seen_ns, alive)) = ended.ok_or_else(|| Unread::Away("it has not ended".to_owned()))?;
    let Read { told, logs, whole } = match &entry.read {
        Some(known) => known.clone(),
        None => read(stage, client, entry)?,
    };
    // What was done to it meanwhile.
    let mut acts = stage.entry(entry.order.number, |entry| entry.acts.clone()).unwrap_or_default();
    acts.disk_full = stage.was_full((entry.asked_ns, seen_ns));
    acts.dependency = entry.waits_for.as_ref().and_then(|other| {
        stage.entry(other.number, |entry| Dependency {
            id: other.id.clone(),
            must: other.must,
            outcome: entry.outcome.clone(),
            may_be_gone: entry.may_be_gone(),
            last_ns: entry.last_ns,
        })
    });
    let life = Life::read(&entry.order, &stage.ground.notes());
    Ok(Case { order: entry.order.clone(), id, acts, seen_ns, alive, life, told, logs, whole })
}

/// Notes that a job is gone that was never read. Nothing may show that it lives on.
fn lost_sight(stage: &Stage, entry: &Entry) {
    let number = entry.order.number;
    let life = Life::read(&entry.order, &stage.ground.notes());
    let alive: Vec<i32> = life.alive().into_iter().filter(|pid| stage.product.marks(*pid)).collect();
    if !alive.is_empty() {
        let what = format!("job {number} ({}): removed, and alive: {alive:?}", entry.order.kind());
        stage.violated(vec![Violation { judge: "removed", what }]);
    }
    stage.count("removed before they were read");
    stage.entry(number, |entry| (entry.gone, entry.judged) = (true, true));
}

/// Looks for jobs that still wait for one that has ended long ago, and for those that a prune took before their end was seen.
fn overdue(stage: &Stage, client: &mut Client) {
    let long_ago = clock::boot_ns().saturating_sub(stage.patience.as_nanos() as u64);
    let is_live = |entry: &Entry| !entry.is_over() && !entry.overdue && entry.taken_ns < long_ago;
    for entry in stage.entries().into_iter().filter(is_live) {
        let Some(id) = &entry.id else { continue };
        let ended_ns = entry.waits_for.as_ref().and_then(|other| {
            stage.entry(other.number, |other| other.seen.as_ref().map(|(seen, _)| *seen)).flatten()
        });
        let other = entry.waits_for.as_ref().filter(|_| ended_ns.is_some_and(|ended| ended < long_ago));
        if other.is_none() && !entry.may_be_gone() {
            continue;
        }
        match show(client, id) {
            Ok(None) if entry.may_be_gone() => lost_sight(stage, &entry),
            Ok(Some(job)) => {
                let waits = job["waits"]["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
                if let Some(other) = other.filter(|other| waits.iter().any(|wait| wait["job"] == *other.id)) {
                    stage.entry(entry.order.number, |entry| entry.overdue = true);
                    let what = format!(
                        "job {} ({id}) still waits for job {} ({}), which ended {:.1} s ago",
                        entry.order.number,
                        other.number,
                        other.id,
                        (clock::boot_ns() - ended_ns.unwrap_or(0)) as f64 / 1e9
                    );
                    stage.violated(vec![Violation { judge: "no job stuck", what }]);
                }
            }
            _ => {}
        }
    }
}

/// Looks at a member twice a second.
pub(crate) fn sample(stage: &Stage, member: Member) -> Vec<Sample> {
    let (mut samples, mut known) = (Vec::new(), None);
    while !stage.is_over() {
        known = known
            .filter(|pid| figures::runs(*pid, stage.product.program()))
            .or_else(|| stage.members.ready_pid(member));
        if let Some(pid) = known
            && let (Some(resident_kb), Some(descriptors)) =
                (figures::resident_kb(pid), figures::descriptors(pid))
            // One that was just killed has none left, and is still there for a moment.
            && descriptors > 0
        {
            let (at_s, zombies) = (stage.elapsed_s(), figures::zombies_of(pid) as u64);
            samples.push(Sample { at_s, pid, resident_kb, descriptors: descriptors as u64, zombies });
        }
        clock::rest(SAMPLE);
    }
    samples
}
