//! Writers: each does to jobs whatever users do, at random.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lastword_api::{Cancel, GroupChange, LimitsPatch, Row, Submit};
use lastword_client::groups;
use lastword_client::jobs::{self, Filter};
use serde_json::{Value, json};

use crate::clock;
use crate::product::Product;
use crate::product::client::Client;
use crate::random::Random;

/// The group whose jobs run, a few at a time.
pub(super) const BUSY: &str = "busy";

/// The group that is paused: its jobs wait.
const PARKED: &str = "parked";

/// Jobs that a writer knows, at most. Older ones are left to the others.
const KNOWN_MAX: u32 = 100;

/// Makes the groups, and jobs that wait.
pub(super) fn prepare(product: &Product, jobs: u64) -> Result<(), String> {
    let mut client = product.client();
    let change = |slots, paused| GroupChange {
        slots: Some(Some(slots)),
        paused: Some(paused),
        ..GroupChange::default()
    };
    client.call(&groups::set(BUSY, &change(8, false)))?;
    client.call(&groups::set(PARKED, &change(1, true)))?;
    for n in 0..jobs {
        client.call(
            &jobs::submit(&submission(PARKED, &["true"], n)?).once().map_err(|error| error.to_string())?,
        )?;
    }
    Ok(())
}

fn submission(group: &str, argv: &[&str], n: u64) -> Result<Submit, String> {
    let colour = if n.is_multiple_of(3) { "red" } else { "blue" };
    let asked: Value = json!({
        "argv": argv, "cwd": "/tmp", "env": { "PATH": "/usr/bin:/bin" }, "group": group,
        "labels": { "colour": colour }, "ladder": { "term_ms": 100 },
    });
    serde_json::from_value(asked).map_err(|error| error.to_string())
}

/// Writes until it is over. A call that the daemon refuses, or does not live to answer, is no failure.
pub(super) fn write(product: &Product, seed: u64, over: &AtomicBool, writes: &AtomicU64) {
    let (mut client, mut random) = (product.client(), Random::new(seed));
    while !over.load(Ordering::Relaxed) {
        match one(&mut client, &mut random) {
            Ok(()) => _ = writes.fetch_add(1, Ordering::Relaxed),
            Err(_) => clock::rest(Duration::from_millis(20)),
        }
    }
}

fn one(client: &mut Client, random: &mut Random) -> Result<(), String> {
    let n = random.draw();
    if random.chance(25) {
        let words: &[&str] = match n % 4 {
            0 => &["sleep", "0.2"],
            1 => &["false"],
            2 => &["sh", "-c", "echo some words; sleep 1"],
            _ => &["true"],
        };
        let submit = jobs::submit(&submission(BUSY, words, n)?).once().map_err(|error| error.to_string())?;
        return client.call(&submit).map(drop);
    }
    let filter = Filter {
        unread: random.chance(50).then_some(n.is_multiple_of(2)),
        group: random.chance(70).then(|| BUSY.to_owned()),
        limit: Some(KNOWN_MAX),
        ..Filter::default()
    };
    let rows: Vec<Row> = client.call(&jobs::list(&filter))?.items;
    if rows.is_empty() {
        return Ok(());
    }
    let row = random.pick(&rows);
    let is_ended = row.outcome.is_some();
    match random.below(10) {
        0..4 => {
            let colour = ["red", "blue", "green"][random.below(3) as usize];
            let labels = BTreeMap::from([("colour".to_owned(), Some(colour.to_owned()))]);
            client.call(&jobs::set_labels(&row.id, &labels)).map(drop)
        }
        4 | 5 if !is_ended => {
            let patch =
                LimitsPatch { wall_ms: Some(Some(60_000 + random.below(1_000))), ..LimitsPatch::default() };
            client.call(&jobs::set_limits(&row.id, &patch)).map(drop)
        }
        4 | 5 => client.call(&jobs::seen(&row.id)),
        6 if !is_ended => client.call(&jobs::cancel(&row.id, &Cancel::default())).map(drop),
        6 | 7 if is_ended => client.call(&jobs::remove(&row.id, false)),
        8 => {
            let change = GroupChange { paused: Some(random.chance(30)), ..GroupChange::default() };
            client.call(&groups::set(BUSY, &change)).map(drop)
        }
        _ if is_ended => client.call(&jobs::seen(&row.id)),
        _ => Ok(()),
    }
}
