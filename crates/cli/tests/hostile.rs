//! A keeper among hostile or unlucky processes: nothing they do makes its records false, keeps a tree alive or exhausts the keeper.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use lastword_core::receipt::{Exit, KeeperStop, Proof, Rung};
use lastword_proc::{
    Error, Input, Keep, Keeper, Launch, Located, Nursery, Stop, boot_id, clock, exit_record, locate,
    locate_known, wait,
};
use rustix::process::{Pid, Signal};

use crate::common::{FORCE, PATIENCE, Place, block_record, delete, read, until};
use crate::executable::lastword;

#[test]
fn c12_a_tree_that_floods_the_socket_is_stopped() {
    let place = Place::new();
    // Each is refused, but the next one is already waiting: a keeper that accepts all pending connections does nothing else.
    // Far below its leader, so that checking the ancestry of each takes longer than the next connect.
    let script = r#"perl -MSocket -e 'my ($path) = glob("a/ctl.*");
        for (1..200) { if (fork) { wait; exit } } fork; fork; fork;
        while (1) { socket(my $s, PF_UNIX, SOCK_STREAM, 0); connect($s, sockaddr_un($path)); }'"#;
    let launch =
        Launch { deadline: Some(clock::awake_ms() + 3_000), term_ms: 100, ..place.script("a", script) };
    place.launch(&launch);
    let record = place.end_of(&launch);
    assert_eq!(record.receipt.keeper_stop, Some(KeeperStop::Deadline));
}

#[test]
fn c35_a_peer_that_exited_is_not_served() {
    let place = Place::new();
    let script = r#"perl -MSocket -e '$SIG{PIPE} = "IGNORE"; $| = 1; my ($path) = glob("a/ctl.*");
        print "$$\n"; select(undef, undef, undef, 0.01) until -e "go";
        socket(my $s, PF_UNIX, SOCK_STREAM, 0);
        if (!fork) { connect($s, sockaddr_un($path)) or die; exit }
        wait; syswrite $s, "stop cause=cancel force=1 epoch=99\n"; open(my $asked, ">", "asked"); close $asked;
        sysread($s, my $answer, 100); open(my $f, ">", "answer"); print $f "<$answer>"; close $f; exit 6'"#;
    let launch = place.script("a", script);
    let launched = place.launch(&launch);
    place.pids(&launch, 1);
    // A keeper that is busy for a moment: the peer is dead by the time it is checked.
    assert!(launched.shim.signal(Signal::STOP).unwrap());
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    until("it has sent its request", || launch.cwd.join("asked").exists().then_some(()));
    assert!(launched.shim.signal(Signal::CONT).unwrap());
    let record = place.end_of(&launch);
    assert_eq!((record.exit(), record.receipt.rungs.len()), (Some(Exit::Code(6)), 0));
    assert_eq!(std::fs::read_to_string(launch.cwd.join("answer")).unwrap(), "<>");
}

/// Returns the CPU time of a process.
fn spent(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(text.split_ascii_whitespace().next().unwrap().parse().unwrap())
}

#[test]
fn c18_limits_do_not_wake_a_keeper_that_waits_to_write_its_record() {
    let place = Place::new();
    let launch = place.script("a", "while ! test -e go; do sleep 0.01; done");
    let launched = place.launch(&launch);
    let in_the_way = block_record(&launch, &launched.shim);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    let (lease, deadline) = (place.lease("lease", 3_600_000), clock::awake_ms());
    keeper.follow(Some(&lease)).unwrap();
    keeper.deadline(Some(deadline + 3_600_000)).unwrap();
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let status = until("the tree is gone and not recorded", || {
        keeper.status().ok().filter(|status| status.phase == "unrecorded")
    });
    assert_eq!((status.lease, status.deadline), (None, None), "its limits are over");
    // An owner that takes it over sets them again. Both have passed.
    keeper.follow(Some(&place.lease("over", 0))).unwrap();
    keeper.deadline(Some(deadline)).unwrap();
    drop(keeper);
    let (before, begin) = (spent(launched.shim.pid), Instant::now());
    until("a while has passed", || (begin.elapsed().as_millis() > 1_000).then_some(()));
    let spent = spent(launched.shim.pid).saturating_sub(before);
    std::fs::remove_dir(in_the_way).unwrap();
    let record = place.end_of(&launch);
    assert!(spent < Duration::from_millis(20), "{spent:?} of CPU time in a second of waiting");
    assert_eq!((record.exit(), record.receipt.keeper_stop), (Some(Exit::Code(0)), None));
}

#[test]
fn c64_concurrent_locates_agree() {
    let place = Place::new();
    for round in 0..30 {
        let dir = place.dir(&format!("closed-{round}"));
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            let looks: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        locate(&dir, boot_id())
                    })
                })
                .collect();
            for look in looks {
                assert_eq!(look.join().unwrap().unwrap(), Located::NeverStarted);
            }
        });
    }
    for round in 0..5 {
        let launch = place.script(&format!("lost-{round}"), "sleep 100");
        let launched = place.launch(&launch);
        assert!(launched.guard.signal(Signal::KILL).unwrap());
        assert!(launched.shim.signal(Signal::KILL).unwrap());
        until("its keeper is gone", || {
            (!launched.guard.is_alive() && !launched.shim.is_alive()).then_some(())
        });
        let barrier = Barrier::new(8);
        let found: Vec<Located> = std::thread::scope(|scope| {
            let looks: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        locate(&launch.dir, boot_id()).unwrap()
                    })
                })
                .collect();
            looks.into_iter().map(|look| look.join().unwrap()).collect()
        });
        let stands = locate(&launch.dir, boot_id()).unwrap();
        assert!(matches!(stands, Located::Vanished(_)));
        assert!(found.iter().all(|each| *each == stands), "{found:#?}");
    }
}

#[test]
fn a_launch_that_is_too_long_is_refused_not_truncated() {
    let place = Place::new();
    // With a large stack, the kernel accepts more arguments than a launch may have.
    let program = place.dir("lastword");
    let script = format!("#!/bin/sh\nulimit -s 65536\nexec {} \"$@\"\n", lastword());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let nursery = Nursery::start(&program).unwrap();
    let mut launch = place.script("a", "env | grep -c ^V");
    // Half of it is plain text, so that it would parse wherever it is cut.
    let value = OsString::from_vec([vec![1; 25_000], vec![b'x'; 75_000]].concat());
    launch.env.extend((0..60).map(|number| (format!("V{number}").into(), value.clone())));
    let refused = nursery.launch(&launch);
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}, of 60: {}", read(&launch, "stdout"));
    assert_eq!(locate(&launch.dir, boot_id()).unwrap(), Located::NeverStarted);
    nursery.launch(&place.script("b", "exit 0")).unwrap();
}

#[test]
fn c65_a_program_with_a_huge_name_leaves_a_readable_record() {
    let place = Place::new();
    let name = format!("/{}", " ".repeat(2 << 20));
    let launch = Launch::new(place.dir("a"), [name]);
    assert!(matches!(place.nursery.launch(&launch), Err(Error::Refused(_))));
    assert_eq!(place.end_of(&launch).receipt.proof, Proof::NeverStarted);
    assert!(matches!(locate(&launch.dir, boot_id()).unwrap(), Located::Ended(_)));
}

#[test]
fn maximum_values_mean_unlimited() {
    let place = Place::new();
    let script = "trap '' TERM; head -c 3000000 /dev/zero; echo done; sleep 100 & wait; sleep 100";
    let launch = Launch {
        leftover_ms: u64::MAX,
        stdout: Keep::Caps { head: u64::MAX, tail: u64::MAX },
        ..place.script("a", script)
    };
    let launched = place.launch(&launch);
    until("it wrote everything", || read(&launch, "stdout").ends_with("done\n").then_some(()));
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    keeper.stop(Stop { cause: "cancel", term_ms: Some(u64::MAX), ..Stop::default() }).unwrap();
    assert_eq!(keeper.status().unwrap().rung, Some(Rung::Term));
    let lease = place.lease("lease", 0);
    lease.write(u64::MAX).unwrap();
    keeper.follow(Some(&lease)).unwrap();
    keeper.deadline(Some(u64::MAX)).unwrap();
    assert_eq!(keeper.status().unwrap().phase, "stopping");
    assert!(launched.leader.is_alive());
    keeper.stop(FORCE).unwrap();
    let record = wait(&launch.dir, Duration::MAX).unwrap().expect("an ending");
    assert_eq!((record.by.as_str(), record.exit()), ("shim", Some(Exit::Signal(9))));
    assert_eq!((read(&launch, "stdout").len(), record.receipt.output.kept), (3_000_005, 3_000_005));
}

#[test]
fn c37_only_kill_ends_a_keeper() {
    let place = Place::new();
    let launch = place.script("a", "while ! test -e go; do sleep 0.01; done; exit 3");
    let launched = place.launch(&launch);
    for signal in
        [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::IO, Signal::XFSZ, Signal::XCPU, Signal::PIPE]
    {
        assert!(launched.guard.signal(signal).unwrap());
        assert!(launched.shim.signal(signal).unwrap());
    }
    Keeper::connect(&launch.dir, 0).unwrap().status().unwrap();
    assert!(launched.guard.is_alive() && launched.shim.is_alive());
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let record = place.end_of(&launch);
    assert_eq!((record.by.as_str(), record.exit()), ("shim", Some(Exit::Code(3))));
    assert_eq!(record.receipt.rungs.len(), 0);
}

#[test]
fn c65_killing_a_process_group_leaves_guard_or_shim() {
    let place = Place::new();
    let launch = place.script("a", "setsid sleep 100 & echo $!; echo $$; wait");
    let launched = place.launch(&launch);
    let pids = place.pids(&launch, 2);
    let group = rustix::process::getpgid(Pid::from_raw(launched.guard.pid)).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    until("the guard is gone", || (!launched.guard.is_alive()).then_some(()));
    assert!(launched.shim.is_alive());
    let record = place.stop(&launch, true);
    assert_eq!((record.by.as_str(), record.exit()), ("shim", Some(Exit::Signal(9))));
    assert!(pids.iter().all(|pid| !pid.is_alive()));
}

#[test]
fn c36_a_removed_claim_does_not_hide_a_running_tree() {
    let place = Place::new();
    let closed = "closed version=1\n";
    for (name, instead) in [("removed", None), ("closed", Some(closed))] {
        let launch = place.script(name, "echo $$; while ! test -e go; do sleep 0.01; done; exit 4");
        place.launch(&launch);
        let pids = place.pids(&launch, 1);
        std::fs::remove_file(launch.dir.join("claim")).unwrap();
        if let Some(text) = instead {
            std::fs::write(launch.dir.join("claim"), text).unwrap();
        }
        let found = locate(&launch.dir, boot_id());
        assert!(matches!(found, Ok(Located::Alive(_))), "{name}: {found:?}, but it is running");
        let refused = place.nursery.launch(&launch);
        assert!(matches!(refused, Err(Error::Refused(_))), "{name}: {refused:?}");
        assert!(pids[0].is_alive());
        std::fs::write(launch.cwd.join("go"), "").unwrap();
        assert_eq!(place.end_of(&launch).exit(), Some(Exit::Code(4)));
        std::fs::remove_file(launch.cwd.join("go")).unwrap();
    }
}

#[test]
fn c37_a_forged_claim_does_not_end_a_tree() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; while ! test -e go; do sleep 0.01; done; exit 4");
    place.launch(&launch);
    let pids = place.pids(&launch, 1);
    // The same content in another file, which is not locked.
    let text = std::fs::read(launch.dir.join("claim")).unwrap();
    std::fs::remove_file(launch.dir.join("claim")).unwrap();
    std::fs::write(launch.dir.join("claim"), text).unwrap();
    assert!(matches!(locate(&launch.dir, boot_id()).unwrap(), Located::Alive(_)));
    assert!(pids[0].is_alive());
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Code(4)));
}

#[test]
fn c36_a_listener_in_place_of_a_keeper_is_not_trusted() {
    let place = Place::new();
    let launch = place.script("a", "sleep 100");
    let launched = place.launch(&launch);
    let socket = launch.dir.join(format!("ctl.{}", launched.guard.pid));
    std::fs::remove_file(&socket).unwrap();
    let _impostor = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(matches!(Keeper::connect(&launch.dir, 0), Err(Error::NoKeeper(_))));
    // The process itself can still be identified.
    assert!(launched.shim.signal(Signal::TERM).unwrap());
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Signal(15)));
}

#[test]
fn c12_a_blocking_folder_does_not_block_the_keeper() {
    let place = Place::new();
    let launch = Launch { cwd: "/nowhere".into(), ..Launch::new(place.dir("a"), ["true"]) };
    assert!(place.nursery.launch(&launch).is_err());
    // A hanging network folder is not available here; what counts is that the leader was recorded before the chdir.
    let claim = std::fs::read_to_string(launch.dir.join("claim")).unwrap();
    assert!(claim.contains("\nleader "), "{claim}");
    assert_eq!(place.end_of(&launch).receipt.proof, Proof::NeverStarted);
}

#[test]
fn the_memory_of_a_keeper_is_bounded() {
    let place = Place::new();
    let script = "trap '' INT; echo ready; while ! test -e go; do sleep 0.01; done";
    let launch = Launch { input: Input::Pipe, ..place.script("a", script) };
    place.launch(&launch);
    until("it is ready", || (read(&launch, "stdout") == "ready\n").then_some(()));
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    for _ in 0..1_000 {
        keeper.interrupt().unwrap();
    }
    keeper.input(1, &[b'x'; 500_000]).unwrap();
    let refused = (2..10_000).find_map(|no| keeper.input(no, b"").err());
    assert!(
        matches!(refused, Some(Error::Declined { code, .. }) if code == "full"),
        "it queues inputs without limit"
    );
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let record = place.end_of(&launch);
    assert!(record.receipt.rungs.len() < 200, "{} rungs", record.receipt.rungs.len());
}

/// Reports whether this process runs unprivileged in namespaces where `/proc` is mounted with `hidepid`. If it does
/// not, runs the test again in such namespaces.
#[expect(
    clippy::disallowed_methods,
    reason = "the test enters other namespaces, and needs to know whether it is in them"
)]
fn is_apart(test: &str) -> bool {
    const APART: &str = "LASTWORD_TEST_APART";
    if std::env::var_os(APART).is_some() {
        return true;
    }
    let enter =
        "mount -t proc -o hidepid=4 proc /proc && exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let output = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", enter, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(APART, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn c13_a_keeper_works_with_hidepid() {
    if !is_apart("hostile::c13_a_keeper_works_with_hidepid") {
        return;
    }
    let place = Place::new();
    // The `/proc` files of a program without read permission are not readable.
    let script = "cp $(command -v sh) private && chmod 0111 private; echo $$; \
                  setsid ./private -c 'touch started; sleep 100; :' & wait";
    let launch = place.script("a", script);
    let launched = place.launch(&launch);
    place.pids(&launch, 1);
    assert!(std::fs::read(format!("/proc/{}/stat", launched.shim.pid)).is_err(), "nothing is hidden here");
    assert!(launched.guard.is_alive() && launched.shim.is_alive());
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    until("all run", || launch.cwd.join("started").exists().then_some(()));
    keeper.stop(FORCE).unwrap();
    let record = place.end_of(&launch);
    assert_eq!((record.by.as_str(), record.exit()), ("shim", Some(Exit::Signal(9))));
}

#[test]
fn c18_a_recording_is_closed_before_its_record_waits_for_disk_space() {
    let place = Place::new();
    // On a full disk, deleting a recording frees space only if no process holds it open.
    let script = "echo '#!/bin/sh'; echo 'exit 7'; while ! test -e go; do sleep 0.01; done";
    let launch = place.script("a", script);
    let launched = place.launch(&launch);
    let in_the_way = block_record(&launch, &launched.shim);
    std::fs::write(launch.cwd.join("go"), "").unwrap();
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    until("the tree is gone and not recorded", || {
        keeper.status().ok().filter(|status| status.phase == "unrecorded")
    });
    // A file that is open for writing cannot be executed.
    let recording = launch.dir.join("stdout");
    std::fs::set_permissions(&recording, std::fs::Permissions::from_mode(0o700)).unwrap();
    let record = place.run(&Launch { argv: vec![recording.into()], ..place.script("b", "") });
    assert_eq!(record.exit(), Some(Exit::Code(7)));
    std::fs::remove_dir(in_the_way).unwrap();
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Code(0)));
}

#[test]
fn c35_an_unknown_request_changes_nothing() {
    let place = Place::new();
    let launch = Launch { input: Input::Pipe, ..place.script("a", "cat") };
    let launched = place.launch(&launch);
    let socket = launch.dir.join(format!("ctl.{}", launched.guard.pid));
    let send = |text: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(send("obey epoch=18446744073709551615\n").starts_with("err code=unknown"));
    // An impossible length, and a payload that looks like a request.
    let answer = send("input no=1 bytes=18446744073709551616 epoch=0\nstop cause=cancel force=1 epoch=0\n");
    assert!(answer.starts_with("err code=too_long") && answer.lines().count() == 1, "{answer}");
    let mut owner = Keeper::connect(&launch.dir, 0).unwrap();
    assert_eq!(owner.status().unwrap().phase, "running");
    owner.close_input().unwrap();
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Code(0)));
}

#[test]
fn c17_a_stopped_keeper_does_not_block_its_clients_forever() {
    let place = Place::new();
    let launch = place.script("a", "sleep 100");
    let launched = place.launch(&launch);
    assert!(launched.shim.signal(Signal::STOP).unwrap());
    let dir = launch.dir.clone();
    // Its backlog accepts some connections; later ones fail in time.
    let (told, tells) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let all: Result<Vec<Keeper>, Error> = (0..100).map(|_| Keeper::connect(&dir, 0)).collect();
        told.send(all.map(|all| all.len())).unwrap();
    });
    let all = tells.recv_timeout(PATIENCE);
    assert!(launched.shim.signal(Signal::CONT).unwrap());
    assert!(matches!(all, Ok(Err(Error::NoKeeper(_)))), "{all:?}");
    place.stop(&launch, true);
}

#[test]
fn c16_a_sweep_without_descriptors_declares_no_process_dead() {
    if !is_apart("hostile::c16_a_sweep_without_descriptors_declares_no_process_dead") {
        return;
    }
    let place = Place::new();
    for free in 0..12 {
        let launch = place.script(&format!("a{free}"), "setsid sleep 100 & echo $!; wait");
        let launched = place.launch(&launch);
        let pids = place.pids(&launch, 1);
        assert!(launched.guard.signal(Signal::KILL).unwrap());
        assert!(launched.shim.signal(Signal::KILL).unwrap());
        until("its keeper is gone", || {
            (!launched.guard.is_alive() && !launched.shim.is_alive()).then_some(())
        });
        let mut taken: Vec<std::fs::File> =
            std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        taken.truncate(taken.len() - free);
        let found = locate(&launch.dir, boot_id());
        drop(taken);
        assert!(found.is_err() || !pids[0].is_alive(), "{free} left: {found:?}, but it is running");
        assert!(matches!(locate(&launch.dir, boot_id()).unwrap(), Located::Vanished(_)));
        assert!(!pids[0].is_alive());
    }
}

#[test]
fn c36_a_folder_removed_under_a_running_tree_is_written_again_by_its_keeper() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; exec env -i sleep 100");
    let launched = place.launch(&launch);
    place.pids(&launch, 1);
    until("its environment is empty", || {
        let environ = std::fs::read(format!("/proc/{}/environ", launched.leader.pid)).unwrap();
        environ.is_empty().then_some(())
    });
    delete(&launch.dir);
    let found = locate_known(&launch.dir, boot_id(), Some(&launched.leader)).unwrap();
    let Located::Alive(alive) = found else { panic!("{found:?}, but it is running") };
    assert_eq!(alive.leader.map(|(leader, _)| leader), Some(launched.leader.clone()));
    Keeper::connect(&launch.dir, 0).unwrap().stop(FORCE).unwrap();
    let record = wait(&launch.dir, PATIENCE).unwrap().expect("its keeper recorded how it ended");
    assert!(!launched.leader.is_alive());
    assert!(record.receipt.proof.is_certain());
    assert!(record.receipt.output_lost, "what it had written was deleted");
}

#[test]
fn c36_a_keeper_records_the_end_although_its_folder_was_removed() {
    let place = Place::new();
    for (name, victim) in [("shim", true), ("none", false)] {
        let launch = place.script(name, "echo $$; while ! test -e go; do sleep 0.01; done; exit 4");
        let launched = place.launch(&launch);
        let pids = place.pids(&launch, 1);
        delete(&launch.dir);
        match victim {
            true => assert!(launched.shim.signal(Signal::KILL).unwrap()),
            false => std::fs::write(launch.cwd.join("go"), "").unwrap(),
        }
        let record = until("its end is recorded", || exit_record(&launch.dir).ok().flatten());
        assert!(!pids[0].is_alive());
        assert_eq!(record.exit(), (!victim).then_some(Exit::Code(4)));
        assert!(record.receipt.proof.is_certain() && record.receipt.output_lost, "{record:?}");
    }
}

#[test]
fn c36_a_tree_without_records_and_keeper_is_ended_and_was_not_never_started() {
    let place = Place::new();
    for (name, is_alive) in [("alive", true), ("dead", false)] {
        let launch = place.script(name, "echo $$; exec env -i sleep 100");
        let launched = place.launch(&launch);
        place.pids(&launch, 1);
        assert!(launched.guard.signal(Signal::KILL).unwrap());
        assert!(launched.shim.signal(Signal::KILL).unwrap());
        if !is_alive {
            assert!(launched.leader.signal(Signal::KILL).unwrap());
        }
        until("its keeper is gone", || {
            (!launched.guard.is_alive() && !launched.shim.is_alive()).then_some(())
        });
        delete(&launch.dir);
        let found = locate_known(&launch.dir, boot_id(), Some(&launched.leader)).unwrap();
        let Located::Vanished(record) = found else { panic!("{found:?}, but it ran") };
        assert_eq!(record.receipt.proof, Proof::BestEffort);
        assert!(!launched.leader.is_alive());
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "this one has no keeper on purpose")]
fn c36_a_process_that_has_the_name_of_a_keeper_is_left_alone() {
    let place = Place::new();
    let launch = place.script("a", "echo $$; sleep 100");
    let launched = place.launch(&launch);
    let program = launch.cwd.join("lw-shim");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut other = std::process::Command::new(&program).arg("100").spawn().unwrap();
    delete(&launch.dir);
    assert!(matches!(
        locate_known(&launch.dir, boot_id(), Some(&launched.leader)).unwrap(),
        Located::Alive(_)
    ));
    assert!(other.try_wait().unwrap().is_none(), "it was killed");
    other.kill().unwrap();
    other.wait().unwrap();
    Keeper::connect(&launch.dir, 0).unwrap().stop(FORCE).unwrap();
}
