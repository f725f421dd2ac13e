//! After a reboot. A file bind-mounted over the kernel's boot id, in a mount namespace, stands in for the next boot; killing everything
//! before is real.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::home::{CommandOutput, Home, is_alive, kill, pids_in, signal, until};

/// Kills everything at once, as a power cut does, and runs a command in what looks like the next boot.
fn after_reboot(home: &Home, ask: &str) -> CommandOutput {
    // Stopped first, until no process is left that could start another or see another die.
    let mut stopped = BTreeMap::new();
    until("everything is stopped", || {
        home.alive().keys().for_each(|pid| signal(*pid, Signal::STOP));
        let before = std::mem::replace(&mut stopped, home.alive());
        before.keys().eq(stopped.keys())
    });
    stopped.keys().for_each(|pid| kill(*pid));
    until("everything is gone", || home.alive().is_empty());
    let boot = home.path("boot_id");
    std::fs::write(&boot, "11111111-2222-4333-8444-555555555555\n").unwrap();
    // The daemon runs in this namespace and is stopped in it.
    let script = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id\n{ask}\n\"$LASTWORD\" daemon stop --cancel-jobs >/dev/null",
        boot.display()
    );
    CommandOutput::of(home.shell_apart(&script).output().unwrap())
}

#[test]
fn a_job_of_an_earlier_boot_is_lost_with_a_reason() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: another boot id needs root");
    }
    let home = Home::new();
    let pids = home.path("pids");
    let job = home.start(&format!("echo $$ > {}; sleep 100", pids.display()));
    let leader = pids_in(&pids, 1)[0];
    let output = after_reboot(&home, &format!("\"$LASTWORD\" show {job} --json"));
    assert!(!is_alive(leader));
    let shown: serde_json::Value = serde_json::from_str(&output.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", output.out, output.err));
    assert_eq!((&shown["phase"], &shown["outcome"]), (&"ended".into(), &"lost".into()), "{shown}");
    assert_eq!(shown["attempts"][0]["receipt"]["proof"], "boot_changed", "{shown}");
}

#[test]
fn a_job_of_an_earlier_boot_is_retried_if_allowed() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: another boot id needs root");
    }
    let home = Home::new();
    let pids = home.path("pids");
    // The first attempt hangs, the second completes.
    let script = format!("echo $$ >> {0}; [ $(wc -l < {0}) = 2 ] || sleep 100", pids.display());
    let job = home.start_with(&["--retry=1", "--retry-when-lost", "--backoff=1ms"], &script);
    pids_in(&pids, 1);
    let output = after_reboot(&home, &format!("\"$LASTWORD\" wait {job}; \"$LASTWORD\" show {job} --json"));
    let shown: serde_json::Value = serde_json::from_str(output.out.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| {
            let begins = output.out.find('{').unwrap_or(0);
            serde_json::from_str(&output.out[begins..]).unwrap()
        });
    assert_eq!(shown["outcome"], "completed", "{shown}");
    let proofs: Vec<_> =
        shown["attempts"].as_array().unwrap().iter().map(|a| a["receipt"]["proof"].clone()).collect();
    assert_eq!(proofs[0], "boot_changed", "{shown}");
    assert_eq!(proofs.len(), 2);
}
