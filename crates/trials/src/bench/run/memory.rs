//! The memory of an idle server: ours beside pueue's and task-spooler's.

use super::super::folders::Folders;
use super::super::rivals::Rivals;
use super::product::Ours;
use super::rates;
use crate::product::figures;
use crate::statistics::goal;

/// Part of pueue's memory that ours may have.
const OF_PUEUE_MAX: f64 = 0.25;

/// Jobs at once while the servers work.
const AT_ONCE: usize = 8;

/// Reads the memory of the servers, each alone: asked once, and idle again after so many jobs.
pub(super) fn idle(folders: &Folders, rivals: &Rivals, jobs: usize) -> Result<bool, String> {
    println!(
        "\n{:<44} {:>10} {:>10} {:>10} {:>10}",
        "an idle server, kB", "resident", "PSS", "private", "anonymous"
    );
    let ours = Ours::start(folders)?;
    let daemon = ours.product.daemon().ok_or("the daemon is gone")?;
    let others: Vec<i32> = ours.product.processes().into_iter().filter(|pid| *pid != daemon).collect();
    row("ours, daemon", &[daemon]);
    row("ours, nursery", &others);
    rates::by_api(&ours, AT_ONCE, jobs)?;
    let own = row(&format!("ours, daemon, after {jobs} jobs"), &[daemon]);
    if let Some(spooler) = &rivals.spooler {
        let server = spooler.serve(folders, AT_ONCE)?;
        let pids: Vec<i32> = server.pid().into_iter().collect();
        row("task-spooler", &pids);
        server.work(AT_ONCE, jobs)?;
        row(&format!("task-spooler, after {jobs} jobs"), &pids);
    }
    println!("what is not anonymous is the executable itself, which every process of ours shares");
    let Some(pueue) = &rivals.pueue else { return Ok(true) };
    let server = pueue.serve(folders, AT_ONCE)?;
    row("pueued", &[server.pid()]);
    server.work(AT_ONCE, jobs)?;
    let theirs = row(&format!("pueued, after {jobs} jobs"), &[server.pid()]);
    let part = own / theirs;
    println!("goal: after work at most {OF_PUEUE_MAX} of pueued, is {part:.2}{}", goal(part <= OF_PUEUE_MAX));
    Ok(part <= OF_PUEUE_MAX)
}

/// Prints what some processes hold, and returns what of it is resident.
fn row(name: &str, pids: &[i32]) -> f64 {
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
}
