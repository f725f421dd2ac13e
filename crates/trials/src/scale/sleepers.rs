//! Many jobs that only sleep: asked for through the API, then found as processes.

use std::time::{Duration, Instant};

use lastword_proc::Identity;
use serde_json::{Value, json};

use crate::clock;
use crate::product::http::{Ask, Client};
use crate::product::{MARKER, Product, figures};

/// How long all of them may take to run, or to be gone.
const PATIENCE: Duration = Duration::from_secs(300);

/// Submits so many, in a group without a bound, and returns how long it took until all were asked for, and until all ran.
pub(super) fn start(product: &Product, count: usize) -> Result<(Duration, Duration), String> {
    let mut client = product.client();
    ask(&mut client, "PUT", "/v1/groups/default", &json!({"slots": null}))?;
    let place = product.place().to_string_lossy();
    let body = json!({"argv": ["/bin/sleep", "100000"], "cwd": "/", "env": {"PATH": "/bin", MARKER: place}});
    let begin = Instant::now();
    for _ in 0..count {
        ask(&mut client, "POST", "/v1/jobs", &body)?;
    }
    let asked = begin.elapsed();
    let all = clock::until(PATIENCE, Duration::from_millis(5), || {
        let running = counts(&mut client)["running"].as_u64().unwrap_or(0);
        (running >= count as u64).then_some(())
    });
    all.ok_or_else(|| format!("not all of {count} jobs run: {}", counts(&mut client)))?;
    Ok((asked, begin.elapsed()))
}

/// Asks for something that must be granted.
pub(super) fn ask(client: &mut Client, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let answer = client.ask(&Ask { method, path, key: None, body: Some(body) });
    let answer = answer.map_err(|why| format!("{path}: {why}"))?;
    match answer.is_fine() {
        true => Ok(answer.json()),
        false => Err(format!("{method} {path}: {}", String::from_utf8_lossy(&answer.body))),
    }
}

/// Returns how many jobs there are in each phase.
pub(super) fn counts(client: &mut Client) -> Value {
    client.json("/v1/daemon").map(|daemon| daemon["counts"].clone()).unwrap_or(Value::Null)
}

/// Returns the processes of the product apart from the daemon: keepers and nursery first, then what they keep.
pub(super) fn processes(product: &Product, daemon: i32) -> (Vec<i32>, Vec<i32>) {
    let ours = product.processes().into_iter().filter(|pid| *pid != daemon);
    ours.partition(|pid| figures::runs(*pid, product.program()))
}

/// Returns who these are, for good.
pub(super) fn identities(pids: &[i32]) -> Vec<Identity> {
    pids.iter().filter_map(|pid| Identity::of(*pid)).collect()
}

/// Waits until none of them is there any more, and returns how many still were at the first look.
pub(super) fn gone(identities: &[Identity]) -> Result<usize, String> {
    let alive = || identities.iter().filter(|identity| identity.is_alive()).count();
    let first = alive();
    let none = clock::until(PATIENCE, Duration::from_millis(1), || (alive() == 0).then_some(()));
    none.map(|()| first).ok_or_else(|| format!("{} processes are still there", alive()))
}
