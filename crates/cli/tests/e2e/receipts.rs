//! What a stop says of itself, while it lasts and afterwards: its numbers add up.

use serde_json::{Value, json};

use crate::agents::define_agent;
use crate::home::{Home, is_alive, run_command, until};
use crate::run::parent;

/// Parses a time of the API.
fn ms(time: &Value) -> u64 {
    serde_json::from_value::<lastword_api::Time>(time.clone()).unwrap().0
}

#[test]
fn an_ended_job_has_no_process_alive() {
    let home = Home::new();
    let (id, _) = home.start_with_pids("echo $$; sleep 100", 1);
    let job = home.json(&["cancel", &id]);
    assert_eq!((&job["phase"], &job["stop"]["rung"]), (&json!("ended"), &json!("term")), "{job}");
    assert_eq!((&job["stop"]["alive"], &job["stop"]["pids"]), (&Value::Null, &json!([])), "{job}");
}

#[test]
fn a_stop_that_waits_only_for_its_record_has_no_process_alive() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100 & echo $!; wait", 2);
    // A folder in the place of the record's temporary file.
    let obstacle = format!("jobs/{id}/1/exit.{}.tmp", parent(pids[0]));
    std::fs::create_dir(home.state().join(&obstacle)).unwrap();
    assert_eq!(home.run(&["cancel", "--no-wait", &id]).code, 124);
    until("its processes are gone", || pids.iter().all(|pid| !is_alive(*pid)).then_some(()));
    let job = until("its keeper says so", || {
        let job = home.json(&["show", &id]);
        (job["stop"]["rung"] == "term" && job["stop"]["alive"] == 0).then_some(job)
    });
    let output = home.run(&["cancel", "--timeout", "1ms", &id]);
    std::fs::remove_dir(home.state().join(&obstacle)).unwrap();
    assert_eq!((&job["phase"], &job["stop"]["pids"]), (&json!("stopping"), &json!([])), "{job}");
    assert!(output.code == 124 && output.stdout.contains("stopping with TERM, none alive"), "{output:?}");
    assert_eq!(home.run(&["wait", &id]).code, 3);
}

#[test]
fn the_receipt_of_an_agent_counts_from_the_request_and_has_every_rung() {
    let home = Home::new();
    define_agent(&home);
    let id = home.ok(&["run", "-d", "--agent", "echo", "--grace", "300ms", "deaf"]);
    until("the agent is deaf", || home.ok(&["logs", &id]).contains("deaf").then_some(()));
    let job = home.json(&["cancel", &id]);
    let receipt = &job["attempts"][0]["receipt"];
    let rungs = receipt["rungs"].as_array().unwrap();
    let names: Vec<&str> = rungs.iter().map(|taken| taken["rung"].as_str().unwrap()).collect();
    assert_eq!(names, ["interrupt", "term", "kill"], "{receipt}");
    let requested = ms(&job["stop"]["requested_at"]);
    let after: Vec<u64> = rungs.iter().map(|taken| ms(&taken["at"]) - requested).collect();
    assert!(after.is_sorted() && after[1] >= 5_000, "{after:?}: an agent has five seconds to react");
    let total = receipt["asked_to_empty_ms"].as_u64().unwrap();
    assert!(total >= after[2], "{total} ms in total, but KILL after {after:?}");
    let mut command = home.command(&["show", &id]);
    command.env("COLUMNS", "200");
    let shown = run_command(command).stdout;
    assert!(shown.contains("took      interrupt, then TERM after 5"), "{shown}");
}
