//! What a new daemon finds after keepers were killed.

use lastword_core::receipt::{Exit, Level, Proof};
use lastword_proc::{Error, Folder, Keeper, Launch, Located, boot_id, locate};
use rustix::process::Signal;

use crate::common::{Place, read, start_nursery, until};

#[test]
fn c37_a_killed_nursery_leaves_the_tree_running_with_its_output_and_its_exit() {
    let mut place = Place::new();
    let launch = place.script("a", "echo one; while ! test -e go; do sleep 0.01; done; echo two; exit 9");
    place.launch(&launch);
    place.nursery = start_nursery();
    let found = locate(&launch.dir, boot_id()).unwrap();
    assert!(matches!(found, Located::Alive(alive) if alive.leader.is_some()));
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let record = place.end_of(&launch);
    assert_eq!(record.exit(), Some(Exit::Code(9)));
    assert_eq!(read(&launch, "stdout"), "one\ntwo\n");
    assert_eq!(locate(&launch.dir, boot_id()).unwrap(), Located::Ended(Box::new(record)));
}

#[test]
fn c65_a_killed_shim_is_replaced_by_its_guard() {
    let place = Place::new();
    let launch = place.script("a", "setsid sh -c 'echo $$; sleep 100' & echo $$; wait");
    let launched = place.launch(&launch);
    let pids = place.pids(&launch, 2);
    assert!(launched.shim.signal(Signal::KILL).unwrap());
    let record = place.end_of(&launch);
    assert!(pids.iter().all(|pid| !pid.is_alive()));
    assert_eq!((record.by.as_str(), record.exit()), ("guard", None));
    assert!(record.receipt.proof.is_certain());
    assert!(record.receipt.output_lost, "what was in the pipe is unknown");
}

#[test]
fn c65_a_killed_guard_leaves_the_shim_at_work() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; sleep 100");
    let launched = place.launch(&launch);
    place.pids(&launch, 1);
    assert!(launched.guard.signal(Signal::KILL).unwrap());
    until("the guard is gone", || (!launched.guard.is_alive()).then_some(()));
    assert!(matches!(locate(&launch.dir, boot_id()).unwrap(), Located::Alive(_)));
    let record = place.stop(&launch, true);
    assert_eq!(record.exit(), Some(Exit::Signal(9)));
    assert!(!launched.leader.is_alive());
}

#[test]
fn c65_if_both_are_killed_the_sweep_finds_the_rest_before_reporting_lost() {
    let place = Place::new();
    // With a control group they are found by it; without one, only by their marker.
    for at_most in [Level::Subreaper, Level::Cgroup] {
        let script = "setsid sh -c 'echo $$; sleep 100' & setsid sleep 100 & echo $!; sleep 100";
        let launch = Launch { at_most, ..place.script(&format!("{at_most:?}"), script) };
        sweep_finds_the_rest(&place, &launch);
    }
}

fn sweep_finds_the_rest(place: &Place, launch: &Launch) {
    let launched = place.launch(launch);
    let pids = place.pids(launch, 2);
    assert!(launched.guard.signal(Signal::STOP).unwrap());
    assert!(launched.shim.signal(Signal::KILL).unwrap());
    assert!(launched.guard.signal(Signal::KILL).unwrap());
    until("both are gone", || (!launched.guard.is_alive() && !launched.shim.is_alive()).then_some(()));
    let Located::Vanished(record) = locate(&launch.dir, boot_id()).unwrap() else { panic!("not vanished") };
    assert!(pids.iter().all(|pid| !pid.is_alive()));
    assert_eq!(record.receipt.proof, Proof::BestEffort);
    assert_eq!(
        locate(&launch.dir, boot_id()).unwrap(),
        Located::Vanished(record),
        "the answer does not change"
    );
}

#[test]
fn c36_an_unclaimed_folder_is_closed_before_it_is_called_never_started() {
    let place = Place::new();
    let launch = place.script("a", "echo ran");
    assert_eq!(locate(&launch.dir, boot_id()).unwrap(), Located::NeverStarted);
    // A daemon that was paused before its launch is too late.
    assert!(matches!(place.nursery.launch(&launch), Err(Error::Refused(_))));
    assert_eq!(read(&launch, "stdout"), "");
    assert!(matches!(Keeper::connect(&launch.dir, 0), Err(Error::NoKeeper(_))));
    assert_eq!(locate(&launch.dir, boot_id()).unwrap(), Located::NeverStarted);
}

#[test]
fn an_attempt_of_an_earlier_boot_is_dead_but_was_started() {
    let place = Place::new();
    assert_eq!(locate(&place.dir("a"), "an earlier boot").unwrap(), Located::OtherBoot);
    let launch = place.script("b", "exit 0");
    place.run(&launch);
    assert!(matches!(locate(&launch.dir, "an earlier boot").unwrap(), Located::Ended(_)));
}

#[test]
fn c65_a_claim_left_empty_by_a_power_cut_needs_no_repair() {
    let place = Place::new();
    let dir = place.dir("a");
    Folder::create(&dir).unwrap();
    std::fs::write(dir.join("claim"), "").unwrap();
    assert_eq!(locate(&dir, "an earlier boot").unwrap(), Located::OtherBoot);
    assert!(locate(&dir, boot_id()).is_err(), "in this boot nothing can have emptied it");
}

#[test]
fn c65_a_file_that_a_tree_puts_in_place_of_its_record_is_moved_aside() {
    let place = Place::new();
    for (number, way) in [
        "mkfifo exit",
        "mkdir -p exit/x",
        "ln -s /etc/passwd exit",
        "echo hello >exit",
        "echo exit version=1 >exit",
        "chmod 777 .",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("a{number}");
        let launch = place.script(&name, &format!("cd {name} && {way} && exit 4"));
        place.launch(&launch);
        let found = until("it has ended", || match locate(&launch.dir, boot_id()) {
            Ok(Located::Alive(_)) | Err(_) => None,
            Ok(found) => Some(found),
        });
        assert!(
            matches!(&found, Located::Ended(record) if record.exit() == Some(Exit::Code(4))),
            "{way}: {found:?}"
        );
    }
    // A record of a newer version is a record, even if we cannot parse it.
    let launch = place.script("newer", "cd newer && echo exit version=99 >exit && echo done && sleep 0.05");
    let launched = place.launch(&launch);
    until("it has exited", || (!launched.leader.is_alive()).then_some(()));
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    until("it is not recorded", || keeper.status().ok().filter(|status| status.phase == "unrecorded"));
    assert_eq!(std::fs::read_to_string(launch.dir.join("exit")).unwrap(), "exit version=99\n");
    std::fs::remove_file(launch.dir.join("exit")).unwrap();
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Code(0)));
}
