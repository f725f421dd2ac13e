//! Strikes a fault, and ends it: what was killed is started again, what was cut is joined.

use std::fs;
use std::path::Path;
use std::time::Duration;

use lastword_proc::Line;

use super::canary::{self, Run};
use super::cast::{Cast, WORKERS};
use super::fault::Fault;
use super::orders::Strike;
use crate::clock;

/// How long to look for a process that can be struck.
const FIND_MAX: Duration = Duration::from_millis(2_500);

/// A canary whose last note is not older is alive.
const ALIVE_NS: u64 = 100_000_000;

/// A fault that lasts.
pub(super) struct Lasting {
    pub(super) strike: Strike,
    worker: usize,
    /// Processes that are frozen, by their numbers here.
    frozen: Vec<i32>,
    /// When it did its harm.
    pub(super) from_ns: u64,
}

impl Lasting {
    /// Returns a fault that was struck in another way.
    pub(super) fn begun(strike: Strike, from_ns: u64) -> Lasting {
        Lasting { strike, worker: strike.worker, frozen: Vec::new(), from_ns }
    }

    /// Returns the worker that was struck.
    pub(super) fn worker(&self) -> Option<&'static str> {
        let of_worker = matches!(
            self.strike.fault,
            Fault::KillWorker
                | Fault::KillShim
                | Fault::KillGuard
                | Fault::FreezeWorker
                | Fault::FreezeShim
                | Fault::FreezeBoth
                | Fault::CutToServers
                | Fault::CutFromServers
                | Fault::Reboot
                | Fault::Clone
                | Fault::Upgrade
        );
        of_worker.then(|| WORKERS[self.worker])
    }
}

/// Strikes the worker of a job, if it has one. Returns nothing if there was nothing to strike.
pub(super) fn strike(
    cast: &mut Cast,
    notes: &Path,
    strike: Strike,
    job: &str,
) -> Result<Option<Lasting>, String> {
    let worker = cast.holder(job).unwrap_or(strike.worker);
    strike_at(cast, notes, Strike { worker, ..strike }, job)
}

/// Strikes the worker that is named. Returns nothing if there was nothing to strike.
pub(super) fn strike_at(
    cast: &mut Cast,
    notes: &Path,
    strike: Strike,
    job: &str,
) -> Result<Option<Lasting>, String> {
    let mut lasting = Lasting::begun(strike, clock::boot_ns());
    let (server, first) = (strike.server, cast.first);
    match strike.fault {
        // A host without power has no link to cut.
        Fault::CutToServers | Fault::CutFromServers if !cast.workers[lasting.worker].host.is_up() => {
            return Ok(None);
        }
        Fault::CutDatabase if !cast.databases[first].host.is_up() => return Ok(None),
        Fault::KillWorker => {
            if let Some(process) = cast.workers[lasting.worker].process.take() {
                process.kill();
            }
        }
        Fault::KillServer => {
            if let Some(process) = cast.servers[server].process.take() {
                process.kill();
            }
        }
        Fault::KillShim | Fault::KillGuard | Fault::FreezeShim | Fault::FreezeBoth => {
            return of_keeper(cast, notes, lasting, job);
        }
        Fault::FreezeWorker => freeze_worker(cast, &mut lasting),
        Fault::CutToServers => {
            let worker = &cast.workers[lasting.worker].host;
            cast.servers.iter().try_for_each(|server| worker.cut(&server.host))?;
        }
        Fault::CutFromServers => {
            let worker = &cast.workers[lasting.worker].host;
            cast.servers.iter().try_for_each(|server| server.host.cut(worker))?;
        }
        Fault::CutDatabase => {
            let (server, database) = (&cast.servers[server].host, &cast.databases[first].host);
            server.cut(database)?;
            database.cut(server)?;
        }
        Fault::KillDatabase => cast.databases[first].kill(),
        Fault::Promote => replace(cast, strike.forward)?,
        // What is stored from now on is lost.
        Fault::PromoteBehind => {
            let [one, other] = &cast.databases;
            one.host.cut(&other.host)?;
            other.host.cut(&one.host)?;
        }
        Fault::Restore => cast.databases[first].snapshot()?,
        Fault::WrongClock => {
            let offset = if strike.forward { 3_600 } else { -3_600 };
            cast.databases.iter().try_for_each(|database| database.set_clock(offset))?;
        }
        Fault::Reboot => {
            let worker = &mut cast.workers[lasting.worker];
            worker.host.power_off();
            worker.process = None;
        }
        // One at a time.
        Fault::Clone if cast.clone.is_some() => return Ok(None),
        Fault::Clone => cast.clone_worker(lasting.worker)?,
        Fault::Upgrade => cast.stop_worker(lasting.worker)?,
    }
    Ok(Some(lasting))
}

/// Ends a fault. Returns when it did its harm.
pub(super) fn end(cast: &mut Cast, lasting: &Lasting) -> Result<u64, String> {
    let Lasting { strike, worker, frozen, from_ns } = lasting;
    let (server, first) = (strike.server, cast.first);
    match strike.fault {
        Fault::KillWorker | Fault::Upgrade => cast.start_worker(*worker)?,
        Fault::KillServer => cast.start_server(server)?,
        Fault::KillShim | Fault::KillGuard | Fault::Promote => {}
        Fault::FreezeWorker | Fault::FreezeShim | Fault::FreezeBoth => {
            for pid in frozen {
                // SAFETY: it was frozen, so no other process has its number unless it was killed and waited for since; to be
                // continued harms no process.
                unsafe { libc::kill(*pid, libc::SIGCONT) };
            }
        }
        Fault::CutToServers => {
            let worker = &cast.workers[*worker].host;
            cast.servers.iter().for_each(|server| worker.heal(&server.host));
        }
        Fault::CutFromServers => {
            let worker = &cast.workers[*worker].host;
            cast.servers.iter().for_each(|server| server.host.heal(worker));
        }
        Fault::CutDatabase => {
            for database in &cast.databases {
                cast.servers[server].host.heal(&database.host);
                database.host.heal(&cast.servers[server].host);
            }
        }
        Fault::KillDatabase => cast.databases[first].start()?,
        Fault::PromoteBehind => {
            let harm = clock::boot_ns();
            replace(cast, strike.forward)?;
            return Ok(harm);
        }
        Fault::Restore => {
            let harm = clock::boot_ns();
            // A standby is ahead of what is put back.
            cast.databases[1 - first].kill();
            cast.databases[first].restore()?;
            return Ok(harm);
        }
        Fault::WrongClock => cast.databases.iter().try_for_each(|database| database.set_clock(0))?,
        Fault::Reboot => {
            cast.workers[*worker].host.reboot()?;
            cast.start_worker(*worker)?;
        }
        Fault::Clone => cast.clone = None,
    }
    Ok(*from_ns)
}

/// Kills the first database for good, and has the second take its place. If the host of the first stays, clients notice at once.
fn replace(cast: &mut Cast, host_stays: bool) -> Result<(), String> {
    cast.databases[0].kill();
    if !host_stays {
        cast.databases[0].host.power_off();
    }
    cast.first = 1;
    cast.databases[1].start()?;
    cast.databases[1].promote()
}

fn freeze_worker(cast: &Cast, lasting: &mut Lasting) {
    if let Some(process) = &cast.workers[lasting.worker].process {
        process.signal(libc::SIGSTOP);
        lasting.frozen.push(process.pid);
    }
}

/// Strikes a keeper of a tree that is alive: that of the job if it is, or another.
fn of_keeper(cast: &Cast, notes: &Path, mut lasting: Lasting, job: &str) -> Result<Option<Lasting>, String> {
    let found = clock::until(FIND_MAX, Duration::from_millis(20), || {
        let alive = alive(notes);
        let aimed = alive.iter().find(|run| run.job == job);
        aimed.into_iter().chain(&alive).find_map(|run| keepers(cast, run))
    });
    let Some((worker, guard, shim)) = found else { return Ok(None) };
    (lasting.worker, lasting.from_ns) = (worker, clock::boot_ns());
    let (victim, signal) = match lasting.strike.fault {
        Fault::KillShim => (shim, libc::SIGKILL),
        Fault::KillGuard => (guard, libc::SIGKILL),
        _ => (shim, libc::SIGSTOP),
    };
    if lasting.strike.fault == Fault::FreezeBoth {
        freeze_worker(cast, &mut lasting);
    }
    // SAFETY: a signal to a process of this history that was there a moment ago.
    unsafe { libc::kill(victim, signal) };
    if signal == libc::SIGSTOP {
        lasting.frozen.push(victim);
    }
    Ok(Some(lasting))
}

/// Returns the canaries that are alive.
pub(super) fn alive(notes: &Path) -> Vec<Run> {
    let now = clock::boot_ns();
    let runs = canary::read(&fs::read_to_string(notes).unwrap_or_default());
    runs.into_iter().filter(|run| run.code.is_none() && run.last_ns + ALIVE_NS > now).collect()
}

/// Returns the worker of a run, and its guard and shim by their numbers here.
fn keepers(cast: &Cast, run: &Run) -> Option<(usize, i32, i32)> {
    let place = WORKERS.iter().position(|name| *name == run.host)?;
    let worker = &cast.workers[place];
    let folder = worker.state().join("jobs").join(&run.job).join(run.attempt.to_string());
    let claim = fs::read_to_string(folder.join("claim")).ok()?;
    let number = |kind: &str| -> Option<i32> {
        claim.lines().filter_map(Line::parse).find(|line| line.kind() == kind)?.get("pid")
    };
    Some((place, worker.host.outer(number("kept")?)?, worker.host.outer(number("shim")?)?))
}
