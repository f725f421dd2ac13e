//! Stopping: really ending the work, C12 to C17 and C21.

use std::time::{Duration, Instant};

use lastword_core::receipt::{Exit, Level, Proof, Rung};
use lastword_proc::{Launch, Stop, ended};

use crate::rig::Rig;

/// A grace that no test waits for: who needs it is late by a minute.
const LONG_MS: u64 = 60_000;

/// A child that hears no polite signal, and its parent that hears none either.
const DEAF: &str = "trap '' TERM INT HUP; echo $$ >> pids
    sh -c 'echo $$ >> pids; while :; do sleep 1000; done' &
    while :; do sleep 1000; done";

fn politely(rig: &Rig, no: u32, script: &str, term_ms: u64) -> Launch {
    Launch { term_ms, ..rig.script(no, script) }
}

#[test]
fn c12_a_silent_agent_in_a_long_call_is_stopped_at_once() {
    let rig = Rig::new();
    let tree = rig.start(&politely(&rig, 1, "echo $$ >> pids; exec sleep 1000", LONG_MS), 1);
    let asked = Instant::now();
    tree.keeper().stop(Stop { cause: "user", ..Stop::default() }).expect("it is heard");
    let record = tree.last_word();
    assert!(asked.elapsed() < Duration::from_millis(LONG_MS / 2), "it waited for something");
    assert_eq!(record.receipt.exit, Some(Exit::Signal(libc::SIGTERM)));
    assert_eq!(record.receipt.output.seen, 0, "it was silent to the end");
}

#[test]
fn c13_work_that_ignores_every_polite_signal_is_killed_after_its_grace() {
    let rig = Rig::new();
    let tree = rig.start(&politely(&rig, 1, DEAF, 300), 2);
    let mut keeper = tree.keeper();
    keeper.interrupt().expect("it is heard");
    keeper.stop(Stop { cause: "user", ..Stop::default() }).expect("it is heard");
    let record = tree.last_word();
    let rungs: Vec<Rung> = record.receipt.rungs.iter().map(|taken| taken.rung).collect();
    assert_eq!(rungs, [Rung::Interrupt, Rung::Term, Rung::Kill]);
    let [_, term, kill] = record.receipt.rungs[..] else { panic!("three rungs") };
    let grace = kill.at.0.saturating_sub(term.at.0);
    assert!((250..LONG_MS).contains(&(grace as u64)), "the grace was {grace} ms");
    assert_eq!(record.receipt.exit, Some(Exit::Signal(libc::SIGKILL)));
}

/// A child, a grandchild, one in a session of its own, and one that forked twice.
const RELATIVES: &str = "echo $$ >> pids
    sh -c 'echo $$ >> pids; sh -c \"echo \\$\\$ >> pids; sleep 1000\" & wait' &
    setsid sh -c 'echo $$ >> pids; sleep 1000; true' &
    (setsid sh -c '(echo $$ >> pids; sleep 1000; true) &' &)
    wait";

#[test]
fn c14_nothing_that_was_started_outlives_the_last_word() {
    let rig = Rig::new();
    let levels = rig.nursery.levels();
    assert!(levels.contains(&Level::Subreaper), "{levels:?}");
    for (level, no) in levels.into_iter().zip(1..) {
        let tree = rig.start(&Launch { at_most: level, ..rig.script(no, RELATIVES) }, 5);
        assert!(tree.processes.len() >= 5, "{:?}", tree.processes);
        tree.keeper().stop(Stop { cause: "user", force: true, ..Stop::default() }).expect("it is heard");
        let record = tree.last_word();
        assert_eq!(record.receipt.level, level);
        assert!(record.receipt.proof.is_certain(), "{record:?}");
    }
}

#[test]
fn c15_a_process_that_holds_the_output_neither_keeps_the_job_nor_hides_its_exit() {
    let rig = Rig::new();
    let script = "setsid sh -c 'echo $$ >> pids; sleep 1000; true' & until [ -s pids ]; do :; done; exit 7";
    let launch = Launch { leftover_ms: 500, ..rig.script(1, script) };
    let tree = rig.start(&launch, 1);
    let record = tree.last_word();
    assert_eq!(record.receipt.exit, Some(Exit::Code(7)));
    let leftovers: Vec<i32> = record.receipt.leftovers.iter().map(|process| process.pid).collect();
    assert!(leftovers.contains(&tree.noted[0]), "{leftovers:?}");
}

#[test]
fn c16_the_last_word_comes_only_after_the_tree_was_seen_empty() {
    let rig = Rig::new();
    let tree = rig.start(&politely(&rig, 1, DEAF, 200), 2);
    assert_eq!(ended(&tree.dir).expect("it can be read"), None, "the tree runs");
    // No timer writes it: the keeper's own deadline is long over while the tree has its grace.
    let now = lastword_proc::clock::awake_ms();
    tree.keeper().deadline(Some(now)).expect("it is heard");
    let record = tree.last_word();
    assert!(
        matches!(record.receipt.proof, Proof::NoChildren | Proof::CgroupEmptyAndNoChildren),
        "{record:?}"
    );
    let wait = record.receipt.asked_to_empty_ms.expect("it was stopped");
    assert!(wait >= 200, "empty after {wait} ms, before its grace was over");
}

#[test]
fn c17_a_stop_that_takes_long_is_answered_with_what_is_still_alive() {
    let rig = Rig::new();
    let tree = rig.start(&politely(&rig, 1, DEAF, LONG_MS), 2);
    let mut keeper = tree.keeper();
    assert_eq!(keeper.status().expect("it answers").phase, "running");
    keeper.stop(Stop { cause: "user", ..Stop::default() }).expect("it is heard");
    let status = keeper.status().expect("it answers");
    assert_eq!(status.phase, "stopping");
    assert_eq!(status.rung, Some(Rung::Term));
    for pid in &tree.noted {
        assert!(status.pids.contains(pid), "{pid} lives and is not in {status:?}");
    }
    assert_eq!(ended(&tree.dir).expect("it can be read"), None);
    // Asked again with force, it does not wait for the rest of the grace.
    keeper.stop(Stop { cause: "user", force: true, ..Stop::default() }).expect("it is heard");
    let record = tree.last_word();
    assert!(record.receipt.asked_to_empty_ms.expect("it was stopped") < LONG_MS);
}

#[test]
fn c21_the_receipt_names_processes_rungs_proof_and_time() {
    let rig = Rig::new();
    let tree = rig.start(&politely(&rig, 1, DEAF, 100), 2);
    tree.keeper().stop(Stop { cause: "user", ..Stop::default() }).expect("it is heard");
    let record = tree.last_word();
    let receipt = &record.receipt;
    assert!(tree.noted.iter().all(|pid| tree.processes.iter().any(|process| process.pid == *pid)));
    for process in &tree.processes {
        let named = receipt.processes.iter().find(|named| named.pid == process.pid);
        let named = named.unwrap_or_else(|| panic!("{} is not in {receipt:?}", process.pid));
        assert_eq!(named.start_ticks, process.start_ticks);
        assert!(named.command.contains("sh") || named.command.contains("sleep 1000"), "{named:?}");
    }
    assert!(record.found >= 4, "two shells and what they wait for: {record:?}");
    let rungs: Vec<Rung> = receipt.rungs.iter().map(|taken| taken.rung).collect();
    assert_eq!(rungs, [Rung::Term, Rung::Kill]);
    assert_eq!(receipt.level, tree.launched.level);
    assert!(receipt.proof.is_certain());
    assert!(receipt.asked_to_empty_ms.is_some_and(|took| (100..LONG_MS).contains(&took)), "{receipt:?}");
    assert_eq!(receipt.exit, Some(Exit::Signal(libc::SIGKILL)));
}
