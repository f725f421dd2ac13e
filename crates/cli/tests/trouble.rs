//! A keeper in trouble: what cannot be written, read or found neither keeps a tree alive nor makes a record false.

use std::os::fd::AsFd as _;
use std::time::Instant;

use lastword_core::receipt::{Exit, Proof};
use lastword_proc::{Folder, Keeper, Launch, Located, boot_id, exit_record, locate, wait};
use rustix::fs::FlockOperation;
use rustix::process::Signal;

use crate::common::{FORCE, PATIENCE, Place, block_record, delete, read, until};

#[test]
fn c18_c19_a_record_that_cannot_be_written_is_retried_and_requests_meanwhile_change_nothing() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; while ! test -e go; do sleep 0.01; done; exit 5");
    let launched = place.launch(&launch);
    let pids = place.pids(&launch, 1);
    let in_the_way = block_record(&launch, &launched.shim);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let status = until("the tree is gone and not recorded", || {
        keeper.status().ok().filter(|status| status.phase == "unrecorded")
    });
    assert_eq!((status.alive, status.exited), (0, Some(Exit::Code(5))));
    assert!(!pids[0].is_alive());
    assert_eq!(exit_record(&launch.dir).unwrap(), None);
    // A stop request at this point neither fails nor changes the record.
    keeper.stop(FORCE).unwrap();
    std::fs::remove_dir(in_the_way).unwrap();
    let record = place.end_of(&launch);
    assert_eq!((record.exit(), record.receipt.rungs.len()), (Some(Exit::Code(5)), 0));
}

#[test]
fn c18_a_stop_does_not_wait_for_a_record_that_cannot_be_written() {
    let place = Place::new();
    let launch = place.script("a", "setsid sleep 100 & echo $!; echo $$; wait");
    let launched = place.launch(&launch);
    let pids = place.pids(&launch, 2);
    let in_the_way = block_record(&launch, &launched.shim);
    Keeper::connect(&launch.dir, 0).unwrap().stop(FORCE).unwrap();
    until("all are dead", || pids.iter().all(|pid| !pid.is_alive()).then_some(()));
    std::fs::remove_dir(in_the_way).unwrap();
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Signal(9)));
}

#[test]
fn c20_a_forced_stop_leaves_no_lock_and_no_file_behind() {
    let place = Place::new();
    let launch = place.script("a", "echo out; sleep 100");
    let launched = place.launch(&launch);
    until("it wrote", || (read(&launch, "stdout") == "out\n").then_some(()));
    place.stop(&launch, true);
    until("its keeper is gone", || (!launched.guard.is_alive() && !launched.shim.is_alive()).then_some(()));
    let mut names: Vec<String> = std::fs::read_dir(&launch.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["claim", "exit", "stdout", "stdout.times"]);
    let claim = std::fs::File::open(launch.dir.join("claim")).unwrap();
    rustix::fs::flock(claim.as_fd(), FlockOperation::NonBlockingLockExclusive)
        .expect("the claim is not locked");
    let groups = std::fs::read_to_string(launch.dir.join("claim")).unwrap();
    let group = groups.split_ascii_whitespace().find_map(|word| word.strip_prefix("cgroup="));
    assert!(group.is_none_or(|group| !std::path::Path::new(group).exists()), "{group:?} still exists");
}

#[test]
fn c40_an_unreadable_folder_does_not_keep_the_tree_alive() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; sleep 100");
    let launched = place.launch(&launch);
    let pids = place.pids(&launch, 1);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    delete(&launch.dir);
    keeper.stop(FORCE).unwrap();
    until("the tree is dead", || (!pids[0].is_alive()).then_some(()));
    // There is no folder for the record any more, so the keeper exits.
    until("its keeper is gone", || (!launched.shim.is_alive() && !launched.guard.is_alive()).then_some(()));
}

#[test]
fn c56_the_end_of_a_killed_leader_is_seen_although_its_pipe_stays_open() {
    let place = Place::new();
    let launch =
        Launch { leftover_ms: 100, ..place.script("a", "setsid sleep 100 & echo $!; echo $$; wait") };
    let launched = place.launch(&launch);
    let pids = place.pids(&launch, 2);
    let begin = Instant::now();
    assert!(launched.leader.signal(Signal::KILL).unwrap());
    let record = place.end_of(&launch);
    assert!(begin.elapsed() < PATIENCE / 2);
    assert_eq!(record.exit(), Some(Exit::Signal(9)));
    assert!(pids.iter().all(|pid| !pid.is_alive()));
}

#[test]
fn c63_a_wait_returns_when_the_keeper_dies_not_at_its_timeout() {
    let place = Place::new();
    let launch = place.script("a", "sleep 100");
    let launched = place.launch(&launch);
    let (dir, begin) = (launch.dir.clone(), Instant::now());
    let waits = std::thread::spawn(move || wait(&dir, PATIENCE * 10).unwrap());
    assert!(launched.guard.signal(Signal::KILL).unwrap());
    assert!(launched.shim.signal(Signal::KILL).unwrap());
    assert_eq!(waits.join().unwrap(), None);
    assert!(begin.elapsed() < PATIENCE);
    assert!(matches!(locate(&launch.dir, boot_id()).unwrap(), Located::Vanished(_)));
}

#[test]
fn c64_an_ended_attempt_is_never_touched_again() {
    let place = Place::new();
    let launch = place.script("a", "exit 0");
    place.run(&launch);
    let before = std::fs::read(launch.dir.join("exit")).unwrap();
    for _ in 0..3 {
        assert!(matches!(locate(&launch.dir, boot_id()).unwrap(), Located::Ended(_)));
    }
    assert_eq!(std::fs::read(launch.dir.join("exit")).unwrap(), before);
}

#[test]
fn c22_c64_a_reused_pid_is_left_alone() {
    let place = Place::new();
    // An unrelated process with the pid that the claim names.
    let bystander = place.script("bystander", "sleep 100");
    let innocent = place.launch(&bystander).leader;
    let dir = place.dir("a");
    Folder::create(&dir).unwrap();
    let (boot, pid) = (boot_id(), innocent.pid);
    let then = innocent.start_ticks - 1;
    let claim = format!(
        "kept version=1 socket=ctl marker=somebody-else boot={boot} pid={pid} start={then}\n\
         leader boot={boot} pid={pid} start={then} level=subreaper launched=1 may_escape=0\n"
    );
    std::fs::write(dir.join("claim"), claim).unwrap();
    let Located::Vanished(record) = locate(&dir, boot).unwrap() else { panic!("its keeper is gone") };
    assert_eq!((record.receipt.proof, record.receipt.found), (Proof::BestEffort, 0));
    assert!(innocent.is_alive());
    place.stop(&bystander, true);
}

#[test]
fn many_connections_neither_lock_out_the_owner_nor_exhaust_the_keeper() {
    let place = Place::new();
    let launch = place.script("a", "sleep 100");
    let launched = place.launch(&launch);
    let crowd: Vec<Keeper> = (0..40).map(|_| Keeper::connect(&launch.dir, 0).unwrap()).collect();
    let mut owner = Keeper::connect(&launch.dir, 0).unwrap();
    assert_eq!(owner.status().unwrap().phase, "running");
    let spent = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let ticks = stat.rsplit(')').next().unwrap().split_ascii_whitespace().skip(11).take(2);
        ticks.map(|word| word.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = spent(launched.shim.pid);
    let begin = Instant::now();
    until("a while has passed", || (begin.elapsed().as_millis() > 300).then_some(()));
    assert!(spent(launched.shim.pid) - before < 10, "the keeper spins while idle");
    drop(crowd);
    owner.stop(FORCE).unwrap();
    place.end_of(&launch);
}

#[test]
fn c35_a_tree_cannot_control_its_own_keeper() {
    let place = Place::new();
    let script = r#"perl -MSocket -e '$SIG{PIPE} = "IGNORE"; my ($path) = glob("a/ctl.*");
        socket(my $s, PF_UNIX, SOCK_STREAM, 0); connect($s, sockaddr_un($path)) or die;
        syswrite $s, "stop cause=cancel force=1 epoch=99\n"; print sysread($s, my $answer, 100) // 0, "\n"'"#;
    let launch = place.script("a", script);
    let record = place.run(&launch);
    assert_eq!((record.exit(), read(&launch, "stdout").as_str()), (Some(Exit::Code(0)), "0\n"));
    assert_eq!(record.receipt.rungs.len(), 0);
}
