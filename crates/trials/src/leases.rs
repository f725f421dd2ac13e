//! `leases`: trees whose lease ends, with all of their keeper at work and with a part of it frozen, and launches that come too late.
//!
//! `--bug guard-without-deadline` and `--bug late-launch` break a rule of the keeper, and must be caught.

use std::time::Duration;

use lastword_core::receipt::{KeeperStop, LaunchStep, Proof};
use lastword_proc::{Identity, Launch, Launched, LeaseFile, Nursery, wait};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::args::Args;
use crate::clock::boot_ns;
use crate::place::{Programs, temporary};
use crate::statistics::{median, percentile};
use crate::verdict::{bug, verdict};

/// How long after its lease a tree may be alive while its keeper is at work: on an idle machine it takes less than half of that.
const GONE_WITHIN: Duration = Duration::from_millis(50);

/// The same with the shim frozen: the guard gives it 200 ms first.
const GONE_BY_GUARD_WITHIN: Duration = Duration::from_millis(400);

/// How much later anything may be on a machine that runs other trials beside this one.
const BUSY: u32 = 4;

/// How long an ending may take before it counts as missing.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lease of each tree, which must be there before it ends.
const LEASE_MS: u64 = 400;

/// A job whose child left its session.
const TREE: &str = "setsid sleep 100 & sleep 100";

/// What is done to a keeper before the lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Whole,
    FrozenShim,
    FrozenGuard,
    KilledGuard,
}

/// Nursery and folders.
struct Harness {
    nursery: Nursery,
    place: TempDir,
    launches: u32,
}

/// Runs `leases [--rounds N] [--launches N] [--bug NAME]`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, &["--rounds", "--launches", "--bug"], &[])?;
    let bug = bug(&args, &["guard-without-deadline", "late-launch"])?;
    let (rounds, launches) = (args.value("--rounds", 20)?, args.value("--launches", 300)?);
    let place = temporary("leases")?;
    // A keeper inherits no environment, so the bug travels in the name by which it is called.
    let keeper = place.path().join("lastword").with_extension(bug.unwrap_or("sound"));
    std::os::unix::fs::symlink(Programs::beside()?.lastword, &keeper).map_err(|error| error.to_string())?;
    let nursery = Nursery::start(&keeper).map_err(|error| error.to_string())?;
    let mut harness = Harness { nursery, place, launches: 0 };
    let found = harness.ends(rounds).and_then(|()| harness.late(launches));
    Ok(verdict(bug, found))
}

impl Harness {
    /// Ends so many trees in each case, and prints how long that took.
    fn ends(&mut self, rounds: usize) -> Result<(), String> {
        for case in [Case::Whole, Case::FrozenGuard, Case::KilledGuard, Case::FrozenShim] {
            let bound = if case == Case::FrozenShim { GONE_BY_GUARD_WITHIN } else { GONE_WITHIN };
            let mut figures = Vec::new();
            for _ in 0..rounds {
                let late = self.end(case).map_err(|why| format!("{case:?}: {why}"))?;
                figures.push(late.as_secs_f64() * 1_000.0);
            }
            let (middle, last) = (median(&mut figures), percentile(&mut figures, 100));
            println!("{case:?}: {rounds} trees gone {middle:.1} ms after their lease, the last {last:.1} ms");
            if last > (bound * BUSY).as_secs_f64() * 1_000.0 {
                return Err(format!("{case:?}: a tree lived for {last:.1} ms without a lease"));
            }
        }
        Ok(())
    }

    /// Ends one tree by its lease, and returns how late.
    fn end(&mut self, case: Case) -> Result<Duration, String> {
        let lease = self.lease(LEASE_MS)?;
        let launch = self.launch(&lease, TREE);
        let launched = self.nursery.launch(&launch).map_err(|error| error.to_string())?;
        let Launched { guard, shim, leader, .. } = &launched;
        let struck = match case {
            Case::Whole => None,
            Case::FrozenShim => Some((shim, Signal::STOP)),
            Case::FrozenGuard => Some((guard, Signal::STOP)),
            Case::KilledGuard => Some((guard, Signal::KILL)),
        };
        let strike = |process: &Identity, signal| process.signal(signal).map_err(|error| error.to_string());
        struck.map(|(process, signal)| strike(process, signal)).transpose()?;
        let ended = wait(&launch.dir, Duration::from_millis(LEASE_MS) + PATIENCE);
        let is_alive = leader.is_alive();
        if let (Ok(None), _) | (_, true) = (&ended, is_alive) {
            // Nothing of this trial is left, whatever it has found.
            for process in [shim, guard, leader] {
                strike(process, Signal::KILL)?;
            }
            return Err("its leader was alive long after its lease".to_owned());
        }
        strike(guard, Signal::CONT)?;
        let record = ended.map_err(|error| error.to_string())?.ok_or("there is no exit record")?;
        let receipt = &record.receipt;
        if receipt.keeper_stop != Some(KeeperStop::Lease) || !receipt.proof.is_certain() {
            return Err(format!("not ended by its lease: {receipt:?}"));
        }
        let over = lease.read().ok_or("the lease file is gone")? * 1_000_000;
        let late = record.empty_at_boot_ns.checked_sub(over).ok_or("it was ended before its lease")?;
        Ok(Duration::from_nanos(late))
    }

    /// Sends launches whose lease is over: none may run.
    fn late(&mut self, launches: usize) -> Result<(), String> {
        let lease = self.lease(0)?;
        let (mut ran, mut accepted) = (0, 0);
        for _ in 0..launches {
            let launch = self.launch(&lease, "echo >ran");
            accepted += usize::from(self.nursery.launch(&launch).is_ok());
            let record = wait(&launch.dir, PATIENCE).map_err(|error| error.to_string())?;
            let record = record.ok_or("a late launch has no ending")?;
            ran += usize::from(std::fs::remove_file(launch.cwd.join("ran")).is_ok());
            let at = record.receipt.launch_error.map(|error| error.step);
            let is_refused = record.receipt.proof == Proof::NeverStarted && at == Some(LaunchStep::Lease);
            accepted += usize::from(!is_refused);
        }
        println!("{launches} launches after the end of their lease: {ran} ran");
        match (ran, accepted) {
            (0, 0) => Ok(()),
            _ => Err(format!("of {launches} late launches, {ran} ran, and not all were refused")),
        }
    }

    fn lease(&self, ms: u64) -> Result<LeaseFile, String> {
        let lease = LeaseFile::new(self.place.path().join("lease"));
        lease.write(boot_ns() / 1_000_000 + ms).map_err(|error| error.to_string())?;
        Ok(lease)
    }

    fn launch(&mut self, lease: &LeaseFile, script: &str) -> Launch {
        self.launches += 1;
        let dir = self.place.path().join(self.launches.to_string());
        Launch {
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: self.place.path().to_owned(),
            lease: Some(lease.clone()),
            ..Launch::new(dir, ["sh", "-c", script])
        }
    }
}
