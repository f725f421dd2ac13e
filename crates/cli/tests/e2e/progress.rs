//! `progress`: what a job says of its own work.

use crate::executable::lastword;
use crate::home::{Home, until};

/// Runs a script as a job, in which `LW` is this program.
fn inside(home: &Home, name: &str, script: &str) -> String {
    let script = script.replace("LW ", &format!("{} ", lastword()));
    home.ok(&["run", "-d", "--name", name, "--", "sh", "-c", &script])
}

#[test]
fn a_job_says_how_far_it_is_and_what_its_result_is() {
    let home = Home::new();
    let go = home.path().join("go");
    let script = format!(
        "LW progress 'module 3 of 12'; until [ -e {} ]; do sleep 0.01; done; echo noise; \
         echo 'all 41 tests pass' | LW progress 'checked everything' --result -",
        go.display()
    );
    inside(&home, "worker", &script);
    let listed = until("it says how far it is", || {
        Some(home.ok(&["ls"])).filter(|listed| listed.contains("module 3 of 12: sh -c"))
    });
    assert!(listed.contains("running"), "{listed}");
    assert!(
        home.ok(&["show", "worker"]).contains("progress  module 3 of 12"),
        "{}",
        home.ok(&["show", "worker"])
    );
    std::fs::write(&go, "").unwrap();
    home.ok(&["wait", "worker"]);
    assert_eq!(home.ok(&["result", "worker"]), "all 41 tests pass");
    assert_eq!(home.json(&["result", "worker"])["text"], "noise\n");
    assert!(home.ok(&["logs", "worker"]).contains("noise"));
    let events = home.ok(&["events", "worker", "--type", "progress_reported", "--json"]);
    assert!(
        events.contains("progress: `module 3 of 12`") && events.contains("a result of 18 bytes"),
        "{events}"
    );
    assert!(!home.ok(&["ls", "-a"]).contains("checked everything"), "it has ended, and that is what matters");
}

#[test]
fn progress_that_cannot_be_said_is_refused_with_the_reason() {
    let home = Home::new();
    let output = home.run(&["progress", "hello"]);
    assert!(output.code == 125 && output.stderr.contains("this one is in no job"), "{output:?}");
    assert!(output.stderr.contains("lastword run -- PROGRAM"), "{output:?}");
    let output = home.run(&["progress"]);
    assert!(output.code == 2 && output.stderr.contains("<TEXT>"), "{output:?}");
    let big = home.path().join("big");
    std::fs::write(&big, "x".repeat((64 << 10) + 1)).unwrap();
    let output = home.run(&["progress", "--result", big.to_str().unwrap()]);
    assert!(output.code == 2 && output.stderr.contains("larger than 64 KiB"), "{output:?}");
    inside(&home, "chatty", "LW progress \"$(printf 'one\\ntwo')\" 2>&1 || echo refused");
    home.ok(&["wait", "chatty"]);
    assert!(home.ok(&["logs", "chatty"]).contains("refused"), "{}", home.ok(&["logs", "chatty"]));
    assert!(home.ok(&["logs", "chatty"]).contains("in one line of text"), "{}", home.ok(&["logs", "chatty"]));
}
