//! A tree from its launch to its exit record.

use lastword_core::receipt::{Exit, KeeperStop, LaunchError, LaunchStep, Level, Proof, Rung};
use lastword_proc::{Error, Identity, Input, Keeper, Launch, boot_id, clock};

use crate::common::{FORCE, Place, read, until};

/// Starts a process that outlives its leader, and waits until its command line is that of `sleep`.
const LEAVE: &str = "setsid sleep 100 & until grep -q ^sleep /proc/$!/cmdline; do sleep 0.01; done";

#[test]
fn c36_a_command_ends_with_its_own_code_and_output() {
    let place = Place::new();
    let launch = place.script("a", "echo out; echo err >&2; exit 7");
    let record = place.run(&launch);
    assert_eq!(record.exit(), Some(Exit::Code(7)));
    assert_eq!((read(&launch, "stdout").as_str(), read(&launch, "stderr").as_str()), ("out\n", "err\n"));
    assert_eq!(record.receipt.output.seen, 8);
    assert!(!record.receipt.output_lost);
    assert!(record.receipt.proof.is_certain());
    assert_eq!(
        record.receipt.level,
        *place.nursery.levels().iter().filter(|level| **level < Level::Namespace).max().unwrap()
    );
}

#[test]
fn a_missing_program_is_refused_and_leaves_a_record() {
    let place = Place::new();
    let launch = Launch::new(place.dir("a"), ["/nowhere/at/all"]);
    let refused = place.nursery.launch(&launch).unwrap_err();
    assert!(matches!(&refused, Error::Refused(words) if words.contains("/nowhere/at/all")), "{refused}");
    let record = place.end_of(&launch);
    assert_eq!((record.receipt.proof, record.exit()), (Proof::NeverStarted, None));
    let failed = |step: LaunchStep| Some(LaunchError { step, errno: Some(2) });
    assert_eq!(record.receipt.launch_error, failed(LaunchStep::Exec));
    let launch = Launch { cwd: "/nowhere".into(), ..Launch::new(place.dir("b"), ["true"]) };
    let refused = place.nursery.launch(&launch).unwrap_err();
    assert!(matches!(&refused, Error::Refused(words) if words.contains("folder /nowhere")), "{refused}");
    assert_eq!(place.end_of(&launch).receipt.launch_error, failed(LaunchStep::Folder));
}

#[test]
fn c36_a_folder_is_launched_into_once() {
    let place = Place::new();
    let launch = place.script("a", "exit 0");
    place.run(&launch);
    assert!(matches!(place.nursery.launch(&launch), Err(Error::Refused(_))));
}

#[test]
fn c13_a_tree_that_ignores_term_is_killed_after_its_grace() {
    let place = Place::new();
    let script = "trap '' TERM; (trap '' TERM; echo $$; sleep 100) & echo $!; wait";
    let launch = Launch { term_ms: 100, ..place.script("a", script) };
    place.launch(&launch);
    let pids = place.pids(&launch, 2);
    let record = place.stop(&launch, false);
    assert!(pids.iter().all(|pid| !pid.is_alive()));
    let rungs: Vec<Rung> = record.receipt.rungs.iter().map(|taken| taken.rung).collect();
    assert_eq!(rungs, [Rung::Term, Rung::Kill]);
    assert!(record.receipt.asked_to_empty_ms.unwrap() >= 100);
}

#[test]
fn c14_a_daemonized_process_dies_with_the_tree() {
    let place = Place::new();
    let script = "setsid sh -c 'setsid sh -c \"echo \\$\\$; sleep 100\" & echo $$; sleep 100' & wait";
    let launch = place.script("a", script);
    place.launch(&launch);
    let pids = place.pids(&launch, 2);
    assert_eq!(pids.len(), 2);
    let record = place.stop(&launch, true);
    assert!(pids.iter().all(|pid| !pid.is_alive()));
    for pid in pids {
        assert!(
            record.receipt.processes.iter().any(|process| process.pid == pid.pid),
            "{pid:?} is not in the receipt"
        );
    }
}

#[test]
fn c15_a_process_that_holds_the_pipe_neither_hides_the_exit_nor_survives() {
    let place = Place::new();
    let launch = Launch { leftover_ms: 50, ..place.script("a", &format!("{LEAVE}; echo $!; exit 3")) };
    let record = place.run(&launch);
    assert_eq!(record.exit(), Some(Exit::Code(3)));
    let [left] = record.receipt.leftovers.as_slice() else { panic!("not one: {record:?}") };
    assert_eq!((left.command.as_str(), read(&launch, "stdout")), ("sleep 100", format!("{}\n", left.pid)));
    let (boot, pid, start_ticks) = (boot_id().to_owned(), left.pid, left.start_ticks);
    assert!(!Identity { boot, pid, start_ticks, inode: None }.is_alive());
}

#[test]
fn c12_the_deadline_is_enforced_without_a_daemon() {
    let place = Place::new();
    let launch = Launch { deadline: Some(clock::awake_ms() + 300), ..place.script("a", "sleep 100") };
    let launched = place.launch(&launch);
    let Place { nursery, .. } = &place;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(nursery.pid()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    let record = place.end_of(&launch);
    assert!(!launched.leader.is_alive());
    assert_eq!(record.receipt.keeper_stop, Some(KeeperStop::Deadline));
}

#[test]
fn c35_a_later_owner_is_obeyed_and_an_old_one_refused() {
    let place = Place::new();
    let launch = Launch { epoch: 5, ..place.script("a", "echo $$; sleep 100") };
    place.launch(&launch);
    let pids = place.pids(&launch, 1);
    let mut old = Keeper::connect(&launch.dir, 5).unwrap();
    let mut new = Keeper::connect(&launch.dir, 6).unwrap();
    new.deadline(None).unwrap();
    assert!(matches!(old.stop(FORCE), Err(Error::Stale(_))));
    assert!(pids[0].is_alive());
    assert_eq!(new.status().unwrap().phase, "running");
    new.stop(FORCE).unwrap();
    place.end_of(&launch);
}

#[test]
fn each_numbered_input_is_accepted_once() {
    let place = Place::new();
    let launch = Launch { input: Input::Pipe, ..place.script("a", "cat") };
    place.launch(&launch);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    assert!(keeper.input(1, b"one\n").unwrap());
    assert!(!keeper.input(1, b"one again\n").unwrap());
    assert!(keeper.input(2, b"two\n").unwrap());
    until("both are written", || (keeper.status().unwrap().inputs_written == 2).then_some(()));
    keeper.close_input().unwrap();
    let record = place.end_of(&launch);
    assert_eq!(record.exit(), Some(Exit::Code(0)));
    assert_eq!(read(&launch, "stdout"), "one\ntwo\n");
}

#[test]
fn a_program_can_have_a_terminal() {
    let place = Place::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && read line && echo got $line";
    let launch = Launch { terminal: Some((33, 99)), input: Input::Pipe, ..place.script("a", script) };
    place.launch(&launch);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    keeper.input(1, b"hello\n").unwrap();
    let record = place.end_of(&launch);
    assert_eq!(record.exit(), Some(Exit::Code(0)));
    let text = read(&launch, "stdout");
    assert!(text.contains("33 99") && text.contains("got hello"), "{text:?}");
}

#[test]
fn c14_a_namespace_dies_as_a_unit_and_reports_the_true_exit() {
    let place = Place::new();
    let script = format!("echo $$; {LEAVE}; exit 4");
    let launch = Launch { at_most: Level::Namespace, leftover_ms: 20, ..place.script("a", &script) };
    let launched = place.launch(&launch);
    let record = place.end_of(&launch);
    assert_eq!(launched.level, Level::Namespace);
    assert_eq!(read(&launch, "stdout"), "2\n", "the leader is pid 2, after the init");
    assert_eq!((record.exit(), record.receipt.proof), (Some(Exit::Code(4)), Proof::NamespaceGone));
    assert!(record.receipt.leftovers.iter().any(|process| process.command == "sleep 100"), "{record:?}");
    assert!(!launched.leader.is_alive());
    let launch = Launch { at_most: Level::Namespace, ..place.script("b", "sleep 100") };
    let launched = place.launch(&launch);
    let record = place.stop(&launch, true);
    assert_eq!(record.exit(), Some(Exit::Signal(9)));
    assert!(!launched.leader.is_alive());
}

#[test]
fn a_program_on_a_terminal_sees_the_end_of_its_input() {
    let place = Place::new();
    let launch = Launch { terminal: Some((24, 80)), input: Input::Pipe, ..place.script("a", "cat") };
    place.launch(&launch);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    keeper.input(1, b"hello\n").unwrap();
    keeper.close_input().unwrap();
    assert_eq!(place.end_of(&launch).exit(), Some(Exit::Code(0)));
}
