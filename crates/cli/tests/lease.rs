//! The lease of a tree: guard and shim each end it on time, and nothing is launched without one.

use std::collections::BTreeSet;
use std::time::Duration;

use lastword_core::receipt::{KeeperStop, LaunchError, LaunchStep, Proof};
use lastword_proc::{Error, ExitRecord, Identity, Keeper, Launch, Launched, LeaseFile, clock};
use rustix::process::Signal;

use crate::common::{Place, until};

/// A job with a child that left its session.
const TREE: &str = "setsid sh -c 'echo $$; sleep 100' & echo $$; wait";

/// Long enough to prepare a test in.
const LONG_MS: u64 = 600_000;

/// A running tree and its lease.
struct Leased {
    place: Place,
    launch: Launch,
    launched: Launched,
    lease: LeaseFile,
    pids: Vec<Identity>,
}

impl Leased {
    fn new() -> Leased {
        let place = Place::new();
        let lease = place.lease("lease", LONG_MS);
        let launch = Launch { lease: Some(lease.clone()), ..place.script("a", TREE) };
        let launched = place.launch(&launch);
        let pids = place.pids(&launch, 2);
        Leased { place, launch, launched, lease, pids }
    }

    /// Has guard and shim follow a lease that ends in so long; their timers were set by the first one.
    fn ending_in(&self, ms: u64) -> LeaseFile {
        let lease = self.place.lease("ending", ms);
        self.keeper().follow(Some(&lease)).unwrap();
        lease
    }

    fn keeper(&self) -> Keeper {
        Keeper::connect(&self.launch.dir, 0).unwrap()
    }

    fn is_alive(&self) -> bool {
        self.pids.iter().any(Identity::is_alive)
    }

    /// Waits for the end, and returns the record with how long after the end of the lease the tree was gone.
    fn end(&self, lease: &LeaseFile) -> (ExitRecord, Duration) {
        let record = self.place.end_of(&self.launch);
        assert!(!self.is_alive());
        assert_eq!(record.receipt.keeper_stop, Some(KeeperStop::Lease));
        assert!(record.receipt.proof.is_certain(), "{:?}", record.receipt.proof);
        let over = Duration::from_millis(lease.read().unwrap());
        let empty = Duration::from_nanos(record.empty_at_boot_ns);
        (record, empty.checked_sub(over).expect("not before the lease was over"))
    }
}

#[test]
fn a_tree_ends_with_its_lease() {
    let leased = Leased::new();
    let lease = leased.ending_in(50);
    let (record, _) = leased.end(&lease);
    assert!(record.receipt.processes.len() >= 2, "{:?}", record.receipt.processes);
}

#[test]
fn one_write_renews_the_lease_of_every_tree() {
    let place = Place::new();
    let lease = place.lease("lease", 1_500);
    let launches: Vec<Launch> = (0..4)
        .map(|n| Launch { lease: Some(lease.clone()), ..place.script(&n.to_string(), "echo $$; sleep 100") })
        .collect();
    let trees: Vec<Launched> = launches.iter().map(|launch| place.launch(launch)).collect();
    let first = lease.read().unwrap();
    lease.write(clock::boot_ms() + LONG_MS).unwrap();
    until("the first lease is over", || (clock::boot_ms() > first + 300).then_some(()));
    assert!(trees.iter().all(|tree| tree.leader.is_alive() && tree.guard.is_alive()));
    for launch in &launches {
        let status = Keeper::connect(&launch.dir, 0).unwrap().status().unwrap();
        assert_eq!((status.phase.as_str(), status.lease), ("running", lease.read()));
        place.stop(launch, true);
    }
}

#[test]
fn a_lease_file_that_is_gone_gives_no_lease() {
    let leased = Leased::new();
    let lease = leased.ending_in(1_000);
    std::fs::remove_file(lease.path()).unwrap();
    let record = leased.place.end_of(&leased.launch);
    assert_eq!(record.receipt.keeper_stop, Some(KeeperStop::Lease));
    assert!(!leased.is_alive());
}

#[test]
fn a_frozen_shim_does_not_keep_its_tree_alive() {
    let leased = Leased::new();
    let lease = leased.ending_in(1_000);
    assert!(leased.launched.shim.signal(Signal::STOP).unwrap());
    assert!(leased.is_alive());
    let (record, after) = leased.end(&lease);
    assert_eq!(record.by, "guard");
    assert!(after >= Duration::from_millis(200), "the shim had its time: {after:?}");
    assert!(!leased.launched.shim.is_alive());
}

#[test]
fn a_frozen_guard_does_not_keep_the_tree_alive() {
    let leased = Leased::new();
    let lease = leased.ending_in(1_000);
    assert!(leased.launched.guard.signal(Signal::STOP).unwrap());
    let (record, _) = leased.end(&lease);
    assert_eq!(record.by, "shim");
    assert!(leased.launched.guard.signal(Signal::CONT).unwrap());
    until("the guard exits", || (!leased.launched.guard.is_alive()).then_some(()));
}

#[test]
fn a_shim_that_survives_its_guard_keeps_the_lease_alone() {
    let leased = Leased::new();
    assert!(leased.launched.guard.signal(Signal::KILL).unwrap());
    until("the guard is gone", || (!leased.launched.guard.is_alive()).then_some(()));
    let lease = leased.ending_in(50);
    let (record, _) = leased.end(&lease);
    assert_eq!(record.by, "shim");
}

/// A tree that a later life adopted must not end with the lease of the life before, by the hand of either.
#[test]
fn an_adopted_tree_follows_the_lease_of_its_new_life() {
    let leased = Leased::new();
    let first = leased.ending_in(2_000);
    let next = leased.place.lease("next", LONG_MS);
    leased.keeper().follow(Some(&next)).unwrap();
    let over = first.read().unwrap();
    until("the first lease is over", || (clock::boot_ms() > over + 500).then_some(()));
    assert!(leased.is_alive() && leased.launched.guard.is_alive());
    assert_eq!(leased.keeper().status().unwrap().lease, next.read());
    // The guard follows it as well.
    let last = leased.ending_in(500);
    assert!(leased.launched.shim.signal(Signal::STOP).unwrap());
    let (record, _) = leased.end(&last);
    assert_eq!(record.by, "guard");
    assert!(!leased.lease.is_over(), "the lease of its launch would have lasted");
}

#[test]
fn a_tree_without_a_lease_can_be_given_one_and_freed_of_it() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; sleep 100");
    let launched = place.launch(&launch);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    let lease = place.lease("lease", 1_000);
    keeper.follow(Some(&lease)).unwrap();
    assert_eq!(keeper.status().unwrap().lease, lease.read());
    keeper.follow(None).unwrap();
    assert_eq!(keeper.status().unwrap().lease, None);
    until("it is over", || lease.is_over().then_some(()));
    until("the guard would have acted", || (clock::boot_ms() > lease.read().unwrap() + 500).then_some(()));
    assert!(launched.leader.is_alive() && launched.shim.is_alive());
    place.stop(&launch, true);
}

#[test]
fn a_launch_after_the_end_of_its_lease_starts_nothing() {
    let place = Place::new();
    for (number, lease) in [place.lease("over", 0), LeaseFile::new(place.dir("missing"))]
        .into_iter()
        .cycle()
        .take(40)
        .enumerate()
    {
        let launch = Launch { lease: Some(lease), ..place.script(&number.to_string(), "echo >ran") };
        let refused = place.nursery.launch(&launch).unwrap_err();
        assert!(matches!(&refused, Error::Refused(words) if words.contains("lease")), "{refused}");
        let record = place.end_of(&launch);
        assert_eq!(record.receipt.proof, Proof::NeverStarted);
        assert_eq!(record.receipt.launch_error, Some(LaunchError::at(LaunchStep::Lease)));
        assert!(!launch.cwd.join("ran").exists());
    }
}

/// Leases that end around the moment at which the gate opens: each launch is refused, or its tree is ended at once. The guard looks when it
/// begins, the shim before it opens the gate; both are seen to refuse.
#[test]
fn a_launch_at_the_end_of_its_lease_starts_nothing_that_lasts() {
    let place = Place::new();
    let mut refused = BTreeSet::new();
    let mut number = 0;
    until("guard and shim have both refused", || {
        number += 1;
        let lease = place.lease("lease", number % 12);
        let launch = Launch { lease: Some(lease.clone()), ..place.script(&number.to_string(), "sleep 100") };
        let launched = place.nursery.launch(&launch);
        let record = place.end_of(&launch);
        assert!(lease.is_over());
        match launched {
            Ok(_) => assert_eq!(record.receipt.keeper_stop, Some(KeeperStop::Lease)),
            Err(refusal) => {
                assert!(matches!(&refusal, Error::Refused(words) if words.contains("lease")), "{refusal}");
                assert_eq!(record.receipt.launch_error, Some(LaunchError::at(LaunchStep::Lease)));
                assert_eq!(record.receipt.proof, Proof::NeverStarted);
                refused.insert(record.by);
            }
        }
        (refused.len() == 2).then_some(())
    });
}
