//! Many jobs that only sleep: asked for through the API, then found as processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lastword_api::{GroupChange, Submit};
use lastword_client::{daemon, groups, jobs};
use lastword_proc::Identity;

use crate::clock;
use crate::product::client::Client;
use crate::product::{MARKER, Product, figures};

/// How long all of them may take to run, or to be gone.
const PATIENCE: Duration = Duration::from_secs(300);

/// Submits so many, in a group without a bound, and returns how long it took until all were asked for, and until all ran.
pub(super) fn start(product: &Product, count: usize) -> Result<(Duration, Duration), String> {
    let mut client = product.client();
    client.call(&groups::set("default", &GroupChange { slots: Some(None), ..GroupChange::default() }))?;
    let place = product.place().to_string_lossy();
    let env = [("PATH", "/bin"), (MARKER, place.as_ref())];
    let sleeper = jobs::submit(&Submit {
        argv: vec!["/bin/sleep".to_owned(), "100000".to_owned()],
        cwd: "/".to_owned(),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Submit::default()
    });
    let begin = Instant::now();
    for _ in 0..count {
        client.call(&sleeper)?;
    }
    let asked = begin.elapsed();
    let all = clock::until(PATIENCE, Duration::from_millis(5), || {
        let running = counts(&mut client).get("running").copied().unwrap_or(0);
        (running >= count as u64).then_some(())
    });
    all.ok_or_else(|| format!("not all of {count} jobs run: {:?}", counts(&mut client)))?;
    Ok((asked, begin.elapsed()))
}

/// Returns how many jobs there are in each phase.
pub(super) fn counts(client: &mut Client) -> BTreeMap<String, u64> {
    client.call(&daemon::show()).map(|daemon| daemon.counts).unwrap_or_default()
}

/// Returns the filter of so many of the newest jobs.
pub(super) fn newest(count: u32) -> jobs::Filter {
    jobs::Filter { limit: Some(count), ..jobs::Filter::default() }
}

/// Returns the processes of the product apart from the daemon: keepers and nursery first, then what they keep.
pub(super) fn processes(product: &Product, daemon: i32) -> (Vec<i32>, Vec<i32>) {
    let ours = product.processes().into_iter().filter(|pid| *pid != daemon);
    ours.partition(|pid| figures::runs(*pid, product.program()))
}

/// Returns the identities of these processes, which hold even when a pid is reused.
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
