//! Programs that follow the list while nothing happens: what each costs the daemon.

use std::time::{Duration, Instant};

use lastword_client::jobs::Filter;
use lastword_client::{Client, RowChange, Unix};

use crate::clock;
use crate::product::Product;
use crate::product::figures;
use crate::statistics::goal;

/// How many follow at once: one of them costs too little to be seen.
const FOLLOWERS: u64 = 20;

/// Part of a core that one may use.
const IDLE_MAX: f64 = 0.001;

/// Memory of the daemon that one may take, in kB.
const MEMORY_MAX_KB: f64 = 200.0;

/// The longest until all have every row.
const HERE_MAX: Duration = Duration::from_secs(60);

/// Measures the daemon with followers beside itself without.
pub(super) fn run(product: &Product, daemon: i32, seconds: u64) -> Result<bool, String> {
    let used = || figures::run_ns(daemon).map(|ns| ns as f64 / 1e9).ok_or("the daemon is gone");
    let resident = || figures::resident_kb(daemon).ok_or("no memory to be read");
    let idle = |seconds: u64| -> Result<f64, String> {
        let (begin, before) = (Instant::now(), used()?);
        clock::rest(Duration::from_secs(seconds));
        Ok((used()? - before) / begin.elapsed().as_secs_f64())
    };
    let (without, before_kb) = (idle(seconds)?, resident()?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let begin = Instant::now();
    let (here, rows) = runtime.block_on(begin_all(product))?;
    let took = begin.elapsed();
    let (after_kb, with) = (resident()?, idle(seconds)?);
    drop(here);
    runtime.shutdown_background();
    let cpu = ((with - without) / FOLLOWERS as f64).max(0.0);
    let memory = (after_kb as f64 - before_kb as f64) / FOLLOWERS as f64;
    let (is_idle, is_small) = (cpu <= IDLE_MAX, memory <= MEMORY_MAX_KB);
    println!(
        "\n{FOLLOWERS} followers of {rows} rows: all had them after {:.0} ms; each takes {memory:.0} kB of the daemon (goal {MEMORY_MAX_KB:.0}){} and, while nothing happens, {:.3} % of a core (goal {:.1} %){}",
        took.as_secs_f64() * 1e3,
        goal(is_small),
        cpu * 100.0,
        IDLE_MAX * 100.0,
        goal(is_idle)
    );
    Ok(is_idle && is_small)
}

/// The followers, for as long as they are to follow.
type Following = Vec<tokio::task::JoinHandle<()>>;

/// Starts all of them, and waits until each has every row. Returns how many rows each has.
async fn begin_all(product: &Product) -> Result<(Following, u64), String> {
    let (told, mut here) = tokio::sync::mpsc::unbounded_channel();
    let mut all = Vec::new();
    for _ in 0..FOLLOWERS {
        let (socket, told) = (product.home().join("lastword.sock"), told.clone());
        all.push(tokio::spawn(async move {
            let client = Client::new(Unix(socket), |_| {});
            let (mut rows, mut count) = (client.follow_rows(&Filter::default()), 0_u64);
            while let Ok(change) = rows.next().await {
                match change {
                    RowChange::Row(_) => count += 1,
                    RowChange::Gone(_) => {}
                    RowChange::Here => _ = told.send(count),
                }
            }
        }));
    }
    let mut rows = 0;
    for _ in 0..FOLLOWERS {
        let next = tokio::time::timeout(HERE_MAX, here.recv()).await;
        rows = next.map_err(|_| "a follower does not get all rows")?.ok_or("a follower ended")?;
    }
    Ok((all, rows))
}
