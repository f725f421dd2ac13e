//! `cancel`: what it ends, prints and leaves alone.

use crate::home::{Home, is_alive, until};
use crate::plain::plain;

/// A tree of three processes: one ignores TERM, one left the session.
const STUBBORN: &str = "echo $$; (trap '' TERM; echo $(exec sh -c 'echo $PPID'); while :; do sleep 1; done) & \
                        setsid sh -c 'echo $$; sleep 100' & wait";

#[test]
fn c14_c21_a_cancel_ends_the_whole_tree_and_shows_the_receipt() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--name", "stubborn", "--grace", "300ms", "sh", "-c", STUBBORN]);
    let pids = home.pids_of(&id, 3);
    let output = home.run(&["cancel", "stubborn"]);
    assert_eq!(output.code, 0, "{output:?}");
    for pid in &pids {
        assert!(!is_alive(*pid), "{pid} is alive after {output:?}");
        assert!(output.stdout.contains(&pid.to_string()), "{pid} is not in the receipt: {output:?}");
    }
    // How long the request was on its way is said if it was long.
    let took = output.stdout.lines().find_map(|line| line.trim_start().strip_prefix("took")).unwrap();
    let (term, kill) = took.split_once(", then KILL after ").expect("first one, then the other");
    assert!(term.trim_start().starts_with("TERM") && kill.ends_with(" in total"), "{output:?}");
    assert!(output.stdout.contains("nothing is left running"), "{output:?}");
    assert_eq!(home.run(&["wait", &id]).code, 3);
}

#[test]
fn a_forced_cancel_goes_straight_to_kill() {
    let home = Home::new();
    for verb in [&["cancel", "--force"][..], &["kill"], &["stop", "-f"]] {
        let (id, pids) = home.start_with_pids("trap '' TERM; echo $$; sleep 100", 1);
        let job = &home.json(&[verb, &[&id]].concat())["items"][0];
        assert!(!is_alive(pids[0]));
        let rungs = &job["attempts"][0]["receipt"]["rungs"];
        assert_eq!((rungs.as_array().unwrap().len(), &rungs[0]["rung"]), (1, &"kill".into()), "{job}");
    }
}

#[test]
fn c10_an_ended_job_is_not_changed_by_a_cancel() {
    let home = Home::new();
    home.ok(&["run", "--name", "done", "true"]);
    let before = home.json(&["show", "done"]);
    for _ in 0..2 {
        let output = home.run(&["cancel", "done"]);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.stdout.contains("had already ended: completed"), "{output:?}");
    }
    assert_eq!(home.json(&["show", "done"]), before);
}

#[test]
fn c84_a_cancel_stops_what_a_finished_command_left_and_does_not_change_its_outcome() {
    let home = Home::new();
    for (code, ending) in [(0, "completed"), (3, "failed")] {
        let script = format!("echo $$; sleep 100 & echo $!; exit {code}");
        let id = home.ok(&["run", "-d", "--grace", "60s", "sh", "-c", &script]);
        let pids = home.pids_of(&id, 2);
        until("the command has exited", || (!is_alive(pids[0])).then_some(()));
        let output = home.run(&["cancel", &id]);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.stdout.contains(&format!("{ending}: it had finished")), "{output:?}");
        assert!(!is_alive(pids[1]));
        let job = home.json(&["show", &id]);
        assert_eq!(
            (&job["outcome"], &job["attempts"][0]["receipt"]["found"]),
            (&ending.into(), &1.into()),
            "{job}"
        );
        let events = home.ok(&["events", &id, "--json"]);
        assert!(events.contains(r#""cut_short":"user""#), "{events}");
    }
}

#[test]
fn c8_a_queued_job_is_cancelled_at_once_and_never_starts() {
    let home = Home::new();
    home.ok(&["group", "set", "none", "--slots", "1"]);
    home.ok(&["group", "pause", "none"]);
    let id = home.ok(&["run", "-d", "--group", "none", "touch", "ran"]);
    let output = home.run(&["cancel", &id]);
    insta::assert_snapshot!("cancel_queued", plain(&home, &output.stdout));
    home.ok(&["group", "resume", "none"]);
    home.ok(&["run", "--group", "none", "true"]);
    assert!(!home.work().join("ran").exists());
}

#[test]
fn c17_a_stop_that_exceeds_the_timeout_is_reported_as_stopping() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--grace", "1h", "sh", "-c", "trap '' TERM; echo $$; sleep 1000; :"]);
    let pid = home.pids_of(&id, 1)[0];
    // The first of them may come back before the first signal was sent.
    until("the processes are named", || {
        let output = home.run(&["cancel", &id, "--timeout", "300ms"]);
        assert_eq!(output.code, 124, "{output:?}");
        let words = format!("stopping with TERM, 2 alive: pid {pid}, ");
        output.stdout.contains(&words).then_some(())
    });
    assert!(is_alive(pid));
    let output = home.run(&["cancel", &id, "--no-wait"]);
    assert!(output.code == 124 && output.stdout.contains("stopping"), "{output:?}");
    assert_eq!(home.run(&["cancel", &id, "--force"]).code, 0);
    assert!(!is_alive(pid));
}

#[test]
fn an_unknown_job_does_not_prevent_others_from_being_cancelled() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let output = home.run(&["cancel", "nobody", &id, "no-one"]);
    assert_eq!(output.code, 125, "{output:?}");
    assert!(output.stderr.contains("`nobody`") && output.stderr.contains("`no-one`"), "{output:?}");
    assert!(output.stdout.contains("cancelled while running") && !is_alive(pids[0]), "{output:?}");
}

#[test]
fn jobs_are_cancelled_by_group_or_label_and_others_are_not() {
    let home = Home::new();
    home.ok(&["group", "set", "wide", "--slots", "none"]);
    let start = |label: &str| {
        home.ok(&["run", "-d", "--group", "wide", "-l", label, "sh", "-c", "echo $$; sleep 100"])
    };
    let (red, blue, other) = (start("colour=red"), start("colour=blue"), home.start("echo $$; sleep 100"));
    let pid = |id: &str| home.pids_of(id, 1)[0];
    let pids = [pid(&red), pid(&blue), pid(&other)];
    home.ok(&["cancel", "--label", "colour=red"]);
    assert_eq!(pids.map(is_alive), [false, true, true]);
    home.ok(&["cancel", "--group", "wide"]);
    assert_eq!(pids.map(is_alive), [false, false, true]);
    let output = home.run(&["cancel", "--all"]);
    assert_eq!((output.code, pids.map(is_alive)), (0, [false, false, false]));
    let output = home.run(&["cancel", "--all"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, "no job to cancel\n"));
}
