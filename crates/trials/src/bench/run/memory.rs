//! What a server holds while nobody asks: ours beside pueue's and task-spooler's.

use super::super::Ground;
use super::{Ours, Rivals};
use crate::product::figures;
use crate::statistics::goal;

/// Part of pueue's memory that ours may have.
const OF_PUEUE_MAX: f64 = 0.25;

/// Reads the memory of the servers, each alone and asked once.
pub(super) fn idle(ground: &Ground, rivals: &Rivals) -> Result<bool, String> {
    let ours = Ours::start(ground)?;
    let daemon = ours.product.daemon().ok_or("the daemon is gone")?;
    let others: Vec<i32> = ours.product.processes().into_iter().filter(|pid| *pid != daemon).collect();
    println!(
        "\n{:<44} {:>10} {:>10} {:>10} {:>10}",
        "an idle server, kB", "resident", "PSS", "private", "anonymous"
    );
    let row = |name: &str, pids: &[i32]| {
        let all: Vec<figures::Memory> = pids.iter().filter_map(|pid| figures::memory(*pid)).collect();
        let sum = |of: fn(&figures::Memory) -> u64| all.iter().map(of).sum::<u64>();
        let resident = sum(|memory| memory.resident);
        println!(
            "{name:<44} {resident:>10} {:>10} {:>10} {:>10}",
            sum(|memory| memory.proportional),
            sum(|memory| memory.private),
            sum(|memory| memory.anonymous)
        );
        resident as f64
    };
    let own = row("ours, daemon", &[daemon]);
    row("ours, nursery", &others);
    if let Some(spooler) = &rivals.spooler {
        let server = spooler.serve(ground, 2)?;
        row("task-spooler", &server.pid().into_iter().collect::<Vec<i32>>());
    }
    let Some(pueue) = &rivals.pueue else { return Ok(true) };
    let server = pueue.serve(ground, 2)?;
    let theirs = row("pueued", &[server.pid()]);
    let part = own / theirs;
    println!("what is not anonymous is the executable itself, which every process of ours shares");
    println!("goal: at most {OF_PUEUE_MAX} of pueued, is {part:.2}{}", goal(part <= OF_PUEUE_MAX));
    Ok(part <= OF_PUEUE_MAX)
}
