//! The machine was restarted. A file in the place of the kernel's boot id, in a mount namespace, stands in for the boot; that
//! everything was killed before is real.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::home::{Home, Said, is_alive, kill, pids_in, signal, until};

/// Ends everything at once, as a power cut does, and asks the next daemon, in what looks like the next boot.
fn after_reboot(home: &Home, ask: &str) -> Said {
    // Stopped first, until nobody is left who could start another or see another die.
    let mut stopped = BTreeMap::new();
    until("everything stands still", || {
        home.alive().keys().for_each(|pid| signal(*pid, Signal::STOP));
        let before = std::mem::replace(&mut stopped, home.alive());
        before.keys().eq(stopped.keys())
    });
    stopped.keys().for_each(|pid| kill(*pid));
    until("everything is gone", || home.alive().is_empty());
    let boot = home.path("boot_id");
    std::fs::write(&boot, "11111111-2222-4333-8444-555555555555\n").unwrap();
    // The daemon stays in this namespace, and is asked and stopped in it.
    let script = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id\n{ask}\n\"$LASTWORD\" daemon stop --cancel-jobs >/dev/null",
        boot.display()
    );
    Said::of(home.shell_apart(&script).output().unwrap())
}

#[test]
fn a_job_of_an_earlier_boot_is_lost_and_says_why() {
    if !rustix::process::geteuid().is_root() {
        return println!("not tried: another boot id needs root");
    }
    let home = Home::new();
    let pids = home.path("pids");
    let job = home.start(&format!("echo $$ > {}; sleep 100", pids.display()));
    let leader = pids_in(&pids, 1)[0];
    let said = after_reboot(&home, &format!("\"$LASTWORD\" show {job} --json"));
    assert!(!is_alive(leader));
    let shown: serde_json::Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}{}", said.out, said.err));
    assert_eq!((&shown["phase"], &shown["outcome"]), (&"ended".into(), &"lost".into()), "{shown}");
    assert_eq!(shown["attempts"][0]["receipt"]["proof"], "boot_changed", "{shown}");
}

#[test]
fn a_job_of_an_earlier_boot_is_tried_again_if_it_may_be() {
    if !rustix::process::geteuid().is_root() {
        return println!("not tried: another boot id needs root");
    }
    let home = Home::new();
    let pids = home.path("pids");
    // The first attempt hangs, the second comes to its end.
    let script = format!("echo $$ >> {0}; [ $(wc -l < {0}) = 2 ] || sleep 100", pids.display());
    let job = home.start_with(&["--retry=1", "--retry-when-lost", "--backoff=1ms"], &script);
    pids_in(&pids, 1);
    let said = after_reboot(&home, &format!("\"$LASTWORD\" wait {job}; \"$LASTWORD\" show {job} --json"));
    let shown: serde_json::Value = serde_json::from_str(said.out.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| {
            let begins = said.out.find('{').unwrap_or(0);
            serde_json::from_str(&said.out[begins..]).unwrap()
        });
    assert_eq!(shown["outcome"], "completed", "{shown}");
    let proofs: Vec<_> =
        shown["attempts"].as_array().unwrap().iter().map(|a| a["receipt"]["proof"].clone()).collect();
    assert_eq!(proofs[0], "boot_changed", "{shown}");
    assert_eq!(proofs.len(), 2);
}
