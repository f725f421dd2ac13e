//! Stopping a tree, whatever it does about it: C12 to C17, C21 and C87.

use std::time::{Duration, Instant};

use lastword_core::receipt::{Exit, Level, Proof, Rung};
use lastword_proc::{ExitRecord, Identity, Keeper, Launch, Located, Stop, boot_id, exit_record, locate};
use rustix::process::Signal;

use crate::common::{FORCE, Place, until};

/// A grace period that no test waits for.
const LONG_MS: u64 = 60_000;

/// A parent and a child that ignore TERM, and what they wait for: four processes.
const DEAF: &str = "trap '' TERM INT HUP; echo $$
    sh -c 'echo $$; while :; do sleep 1000; done' &
    while :; do sleep 1000; done";

const POLITE: Stop<'static> = Stop { cause: "cancel", force: false, local: false, term_ms: None };

/// Waits for the exit record, and checks that no process was alive when it was published.
fn last_word(launch: &Launch, tree: &[Identity]) -> ExitRecord {
    let record = until("the last word", || exit_record(&launch.dir).expect("it can be read"));
    let left: Vec<i32> =
        tree.iter().filter(|process| process.open().is_some()).map(|process| process.pid).collect();
    assert_eq!(left, Vec::<i32>::new(), "alive when the record was published: {record:?}");
    record
}

fn keeper(launch: &Launch) -> Keeper {
    Keeper::connect(&launch.dir, launch.epoch).expect("a keeper")
}

fn rungs(record: &ExitRecord) -> Vec<Rung> {
    record.receipt.rungs.iter().map(|taken| taken.rung).collect()
}

fn killed_by(signal: Signal) -> Option<Exit> {
    Some(Exit::Signal(signal.as_raw()))
}

#[test]
fn c12_a_silent_agent_in_a_long_call_is_stopped_at_once() {
    let place = Place::new();
    let launch = Launch { term_ms: LONG_MS, ..place.script("a", "exec sleep 1000") };
    let leader = place.launch(&launch).leader;
    let asked = Instant::now();
    keeper(&launch).stop(POLITE).expect("a stop");
    let record = last_word(&launch, &[leader]);
    assert!(asked.elapsed() < Duration::from_millis(LONG_MS / 2), "it took too long");
    assert_eq!(record.receipt.output.seen, 0, "it wrote nothing");
}

#[test]
fn c13_every_rung_is_tried_and_bounded() {
    let place = Place::new();
    let launch = Launch { term_ms: 300, ..place.script("a", DEAF) };
    place.launch(&launch);
    let tree = place.pids(&launch, 2);
    let mut keeper = keeper(&launch);
    keeper.interrupt().expect("an interrupt");
    keeper.stop(POLITE).expect("a stop");
    let record = last_word(&launch, &tree);
    assert_eq!(rungs(&record), [Rung::Interrupt, Rung::Term, Rung::Kill]);
    let took = record.receipt.asked_to_empty_ms.expect("it was asked");
    assert!((300..LONG_MS).contains(&took), "{took} ms from TERM to the end");
    assert_eq!(record.receipt.exit, killed_by(Signal::KILL));
}

/// A child, a grandchild, one in another session, and one that forked twice.
const RELATIVES: &str = "echo $$
    sh -c 'echo $$; sh -c \"echo 3; sleep 1000; true\" & wait' &
    setsid sh -c 'echo $$; sleep 1000; true' &
    (setsid sh -c '(echo 5; sleep 1000; true) &' &)
    wait";

#[test]
fn c14_nothing_survives_the_last_word_at_any_level() {
    let place = Place::new();
    let levels = place.nursery.levels();
    assert!(levels.contains(&Level::Subreaper), "{levels:?}");
    for level in levels {
        let launch = Launch { at_most: level, ..place.script(&format!("{level:?}"), RELATIVES) };
        place.launch(&launch);
        place.pids(&launch, 5);
        // In a namespace they know themselves by other pids, so they are found from outside.
        let tree = living(&launch);
        assert!(tree.len() >= 5, "{tree:?}");
        keeper(&launch).stop(FORCE).expect("a stop");
        let record = last_word(&launch, &tree);
        assert_eq!(record.receipt.level, level);
        assert!(record.receipt.proof.is_certain(), "{record:?}");
    }
}

/// Returns all processes that run in the folder of a launch.
fn living(launch: &Launch) -> Vec<Identity> {
    let processes = std::fs::read_dir("/proc").expect("a /proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_here =
        |pid: &i32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == launch.cwd);
    pids.filter(is_here).filter_map(Identity::of).collect()
}

#[test]
fn c15_the_exit_of_the_agent_is_seen_while_another_process_holds_its_output() {
    let place = Place::new();
    let script = "setsid sh -c 'echo $$; sleep 1000; true' & read -r _ < gate; exit 7";
    let launch = Launch { leftover_ms: LONG_MS, ..place.script("a", script) };
    rustix::fs::mkfifoat(rustix::fs::CWD, place.dir("gate"), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .expect("a gate");
    place.launch(&launch);
    let holder = place.pids(&launch, 1);
    std::fs::write(place.dir("gate"), "go\n").expect("the gate opens");
    let mut keeper = keeper(&launch);
    let seen = until("the exit of the leader", || keeper.status().expect("a status").exited);
    assert_eq!(seen, Exit::Code(7));
    assert!(holder[0].is_alive(), "it holds the pipe");
    keeper.stop(FORCE).expect("a stop");
    assert_eq!(last_word(&launch, &holder).receipt.exit, Some(Exit::Code(7)));
}

#[test]
fn c16_no_timer_writes_the_last_word_of_a_live_tree() {
    let place = Place::new();
    let launch = Launch { term_ms: LONG_MS, ..place.script("a", DEAF) };
    place.launch(&launch);
    let tree = place.pids(&launch, 2);
    // It must stop at once, but its record is not due before it is empty.
    let mut keeper = keeper(&launch);
    keeper.deadline(Some(lastword_proc::clock::awake_ms())).expect("a deadline");
    until("the stop begins", || (keeper.status().expect("a status").phase == "stopping").then_some(()));
    assert!(tree.iter().all(Identity::is_alive));
    assert_eq!(exit_record(&launch.dir).expect("it can be read"), None);
    keeper.stop(FORCE).expect("a stop");
    let record = last_word(&launch, &tree);
    assert!(
        matches!(record.receipt.proof, Proof::NoChildren | Proof::CgroupEmptyAndNoChildren),
        "{record:?}"
    );
    assert_eq!(rungs(&record), [Rung::Term, Rung::Kill]);
}

#[test]
fn c17_a_slow_stop_reports_what_is_still_alive() {
    let place = Place::new();
    let launch = Launch { term_ms: LONG_MS, ..place.script("a", DEAF) };
    place.launch(&launch);
    let tree = place.pids(&launch, 2);
    let mut keeper = keeper(&launch);
    assert_eq!(keeper.status().expect("a status").phase, "running");
    keeper.stop(POLITE).expect("a stop");
    let status = keeper.status().expect("a status");
    assert_eq!((status.phase.as_str(), status.rung), ("stopping", Some(Rung::Term)));
    assert!(
        tree.iter().all(|process| status.pids.contains(&process.pid)),
        "{tree:?} are alive but not in {status:?}"
    );
    assert_eq!(exit_record(&launch.dir).expect("it can be read"), None);
    // A forced stop does not wait for the rest of the grace.
    keeper.stop(FORCE).expect("a stop");
    let record = last_word(&launch, &tree);
    assert!(record.receipt.asked_to_empty_ms.is_some_and(|took| took < LONG_MS), "{record:?}");
}

#[test]
fn c21_the_receipt_names_processes_rungs_proof_and_time() {
    let place = Place::new();
    let launch = Launch { term_ms: 300, ..place.script("a", DEAF) };
    let launched = place.launch(&launch);
    let tree = place.pids(&launch, 2);
    until("all four are running", || (living(&launch).len() >= 4).then_some(()));
    keeper(&launch).stop(POLITE).expect("a stop");
    let record = last_word(&launch, &tree);
    let receipt = &record.receipt;
    for process in &tree {
        let named = receipt.processes.iter().find(|named| named.pid == process.pid);
        let named = named.unwrap_or_else(|| panic!("{} is not in {receipt:?}", process.pid));
        assert_eq!(named.start_ticks, process.start_ticks);
        assert!(named.command.starts_with("sh -c"), "{named:?}");
    }
    assert!(record.receipt.found >= 4, "two shells and what they wait for: {record:?}");
    assert_eq!(rungs(&record), [Rung::Term, Rung::Kill]);
    assert_eq!(receipt.level, launched.level);
    assert!(receipt.proof.is_certain());
    assert!(receipt.asked_to_empty_ms.is_some_and(|took| (300..LONG_MS).contains(&took)), "{receipt:?}");
    assert_eq!(receipt.exit, killed_by(Signal::KILL));
}

/// A process whose main thread has exited: `/proc` shows it as a zombie, and it runs. It prints its pid, then reacts to TERM.
const WITHOUT_MAIN_THREAD: &str = "
import ctypes, os, signal, threading, time
def live():
    while ') Z ' not in open('/proc/self/stat').read():
        time.sleep(0.001)
    print(os.getpid(), flush=True)
    signal.sigwait({signal.SIGTERM})
    os._exit(7)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
threading.Thread(target=live).start()
ctypes.CDLL(None).syscall(93 if os.uname().machine == 'aarch64' else 60, 0)
";

#[test]
fn c87_a_process_whose_main_thread_has_exited_gets_term_and_is_in_the_receipt() {
    let place = Place::new();
    let script = format!("exec python3 -c \"{WITHOUT_MAIN_THREAD}\"");
    let launch = Launch { term_ms: LONG_MS, ..place.script("a", &script) };
    place.launch(&launch);
    let tree = place.pids(&launch, 1);
    keeper(&launch).stop(POLITE).expect("a stop");
    let record = last_word(&launch, &tree);
    assert_eq!((record.receipt.exit, rungs(&record)), (Some(Exit::Code(7)), vec![Rung::Term]));
    let listed: Vec<i32> = record.receipt.processes.iter().map(|process| process.pid).collect();
    assert!(listed.contains(&tree[0].pid), "{record:?}");
    assert!(record.receipt.processes.iter().any(|process| process.command.contains("import ctypes")));
}

#[test]
fn c87_a_process_whose_main_thread_has_exited_is_swept_after_both_keepers_died() {
    let place = Place::new();
    let script = format!("setsid python3 -c \"{WITHOUT_MAIN_THREAD}\" & wait");
    let launch = Launch { at_most: Level::Subreaper, ..place.script("a", &script) };
    let launched = place.launch(&launch);
    let tree = place.pids(&launch, 1);
    for keeper in [&launched.guard, &launched.shim] {
        assert!(keeper.signal(Signal::KILL).expect("a signal"));
    }
    let located = until("both are gone", || match locate(&launch.dir, boot_id()).expect("it is found") {
        Located::Alive(_) => None,
        other => Some(other),
    });
    let Located::Vanished(record) = located else { panic!("{located:?}") };
    assert!(!tree[0].is_alive(), "{record:?}");
    assert!(record.receipt.processes.iter().any(|process| process.pid == tree[0].pid), "{record:?}");
}
