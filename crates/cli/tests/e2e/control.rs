//! `limit`, `group`, `retry`, `rm`, `prune`, `abandon`.

use crate::home::{Home, is_alive, until};
use crate::plain::plain;

#[test]
fn limits_of_a_running_job_can_be_changed_and_are_enforced() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    assert!(home.ok(&["limit", &id]).ends_with("  none"));
    insta::assert_snapshot!("limit_set", plain(&home, &home.ok(&["limit", &id, "wall=2h", "output=50M"])));
    assert!(home.ok(&["limit", &id, "output=0"]).ends_with("  wall 2h"));
    assert!(is_alive(pids[0]));
    home.ok(&["limit", &id, "wall=1ms"]);
    let output = home.run(&["wait", &id]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stdout.contains("timed out at its wall-clock limit"), "{output:?}");
    assert!(!is_alive(pids[0]));
    let output = home.run(&["limit", &id, "wall=2h"]);
    assert!(output.code == 125 && output.stderr.contains("ended"), "{output:?}");
}

#[test]
fn default_limits_come_from_the_settings_and_a_job_overrides_them() {
    let home = Home::empty();
    home.ok(&["config", "set", "limits.wall", "300ms"]);
    home.serve();
    assert_eq!(home.run(&["run", "--grace", "50ms", "sleep", "100"]).code, 124);
    assert_eq!(home.run(&["run", "--wall", "0", "sleep", "0.5"]).code, 0, "0 removes the limit");
}

#[test]
fn groups_are_created_changed_paused_and_removed() {
    let home = Home::empty();
    home.ok(&["config", "set", "slots", "7"]);
    home.serve();
    home.ok(&["group", "set", "build", "--slots", "2"]);
    home.ok(&["group", "set", "free", "--slots", "none"]);
    home.ok(&["group", "pause", "build"]);
    insta::assert_snapshot!("group_ls", home.ok(&["group", "ls"]));
    let groups = home.json(&["group", "ls"])["items"].clone();
    assert_eq!(groups.as_array().unwrap().len(), 3);
    let id = home.ok(&["run", "-d", "--group", "build", "true"]);
    assert_eq!(home.run(&["wait", "--timeout", "200ms", &id]).code, 124, "a paused group starts nothing");
    assert_eq!(home.json(&["show", &id])["waits"]["for"], "paused");
    assert!(home.ok(&["show", &id]).contains("waiting: its group is paused"));
    let output = home.run(&["group", "rm", "build"]);
    assert_eq!(output.stderr, "lastword: a live job is in this group: cancel it or wait for it first\n");
    home.ok(&["group", "resume", "build"]);
    assert_eq!(home.run(&["wait", &id]).code, 0);
    home.ok(&["run", "--group", "new", "true"]);
    let new = home.json(&["group", "ls"])["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["name"] == "new")
        .cloned();
    assert_eq!(new.unwrap()["slots"], 1, "a new group has one slot");
    home.ok(&["group", "rm", "free"]);
    let output = home.run(&["group", "rm", "default"]);
    assert_eq!((output.code, output.stderr.as_str()), (2, "lastword: the default group stays\n"));
    for verb in ["rm", "pause", "resume"] {
        let output = home.run(&["group", verb, "nowhere"]);
        assert_eq!(output.code, 125, "{output:?}");
        assert!(output.stderr.contains("no group `nowhere`"), "{output:?}");
    }
    assert!(!home.ok(&["group", "ls"]).contains("nowhere"), "a typo creates no group");
    assert_eq!(home.run(&["group", "set", "build", "--slots", "0"]).code, 2);
}

#[test]
fn slots_limit_how_many_jobs_run_at_once() {
    let home = Home::new();
    home.ok(&["group", "set", "two", "--slots", "2"]);
    let go = home.path().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let jobs: Vec<String> =
        (0..4).map(|_| home.ok(&["run", "-d", "--group", "two", "sh", "-c", &script])).collect();
    home.until_phase(&jobs[0], "running");
    home.until_phase(&jobs[1], "running");
    let phase = |id: &String| home.json(&["show", id])["phase"].as_str().unwrap().to_owned();
    assert_eq!((phase(&jobs[2]), phase(&jobs[3])), ("queued".to_owned(), "queued".to_owned()));
    std::fs::write(&go, "").unwrap();
    for job in &jobs {
        assert_eq!(home.run(&["wait", job]).code, 0);
    }
}

#[test]
fn a_retry_has_the_current_environment() {
    let home = Home::new();
    assert_eq!(home.run(&["run", "sh", "-c", "echo $COLOUR"]).stdout, "\n");
    let mut command = home.command(&["retry"]);
    command.env("COLOUR", "green");
    assert_eq!(crate::home::run_command(command).stdout, "green\n");
}

#[test]
fn an_ended_job_can_be_retried() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--name", "again", "sh", "-c", "echo out; exit 4"]);
    home.run(&["wait", &id]);
    let output = home.run(&["retry", &id]);
    assert_eq!((output.code, output.stdout.as_str()), (4, "out\n"), "{output:?}");
    let job = home.json(&["show", "@last"]);
    assert_eq!(job["retry_of"], id);
    let detached = home.ok(&["retry", "-d", &id]);
    assert!(detached.starts_with("job_") && detached != id);
    home.run(&["wait", &detached]);
    let running = home.start("sleep 100");
    let output = home.run(&["retry", &running]);
    assert_eq!(output.code, 125, "{output:?}");
}

#[test]
fn a_retry_says_that_it_does_not_wait_for_other_jobs() {
    let home = Home::new();
    let base = home.start("sleep 100");
    home.ok(&["run", "-d", "--name", "next", "--after", &base, "true"]);
    home.ok(&["cancel", "next"]);
    let output = home.run(&["retry", "next"]);
    assert_eq!(output.code, 0, "{output:?}");
    let said = format!("ran after {}; its retry does not wait", &base[24..]);
    assert!(output.stderr.starts_with("lastword: next (") && output.stderr.contains(&said), "{output:?}");
    assert_eq!(home.run(&["retry", "@last"]).stderr, "");
}

#[test]
fn a_limit_that_fired_is_not_changed_and_its_rung_is_recorded_once() {
    let home = Home::new();
    // It ignores TERM and stops only when told to.
    let script = "trap '' TERM; until [ -e end ]; do sleep 0.01; done";
    let words = ["run", "-d", "--name", "busy", "--wall", "300ms", "--grace", "10m", "sh", "-c", script];
    let id = home.ok(&words);
    until("TERM was sent", || home.ok(&["events", &id]).contains("rung_climbed").then_some(()));
    for change in ["wall=0", "wall=1h"] {
        let output = home.run(&["limit", "busy", change]);
        assert_eq!(output.code, 125, "{output:?}");
        let said =
            format!("lastword: busy ({}) has reached that limit already, and is being stopped\n", &id[24..]);
        assert_eq!(output.stderr, said);
    }
    std::fs::write(home.work().join("end"), "").unwrap();
    assert_eq!(home.run(&["wait", &id]).code, 1);
    let events = home.ok(&["events", &id]);
    assert_eq!(events.matches("rung_climbed").count(), 1, "{events}");
}

#[test]
fn a_limit_of_agents_is_refused_for_a_command() {
    let home = Home::new();
    let id = home.start("sleep 100");
    for change in ["turns=3", "tokens=100", "money=1", "turn=1m"] {
        let output = home.run(&["limit", &id, change]);
        assert!(output.code == 125 && output.stderr.contains("no agent"), "{output:?}");
    }
    assert!(home.ok(&["limit", &id, "turns=0"]).ends_with("  none"));
}

#[test]
fn a_deleted_job_is_gone_with_its_output() {
    let home = Home::new();
    let id = home.start("echo kept; echo $$");
    home.ok(&["wait", &id]);
    assert!(home.jobs().join(&id).exists());
    home.ok(&["rm", &id]);
    assert_eq!(home.run(&["show", &id]).code, 125);
    assert!(!home.jobs().join(&id).exists());
    let (running, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let output = home.run(&["rm", &running]);
    assert!(output.code == 125 && output.stderr.contains("rm --force"), "{output:?}");
    assert!(is_alive(pids[0]));
    let output = home.run(&["rm", "--force", "nobody", &running, "no-one"]);
    assert_eq!(output.code, 125, "two do not exist");
    assert!(output.stderr.contains("`nobody`") && output.stderr.contains("`no-one`"), "{output:?}");
    assert!(!is_alive(pids[0]), "the third is deleted anyway");
    assert_eq!(home.run(&["show", &running]).code, 125);
}

#[test]
fn c45_prune_keeps_running_jobs_and_unread_results_and_reports_it() {
    let home = Home::new();
    let (read, unread) = (home.start("exit 0"), home.start("exit 0"));
    let (running, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    home.ok(&["wait", &read]);
    home.ok(&["seen", &read]);
    crate::home::until("both have ended", || {
        (home.json(&["ls", "-a", "--phase", "ended"])["items"].as_array().unwrap().len() == 2).then_some(())
    });
    let output = home.run(&["prune", "--older-than", "0"]);
    assert_eq!(output.code, 2, "there is no terminal to ask: {output:?}");
    let output = home.run(&["prune", "--older-than", "0", "--dry-run"]);
    insta::assert_snapshot!("prune_dry_run", format!("{}{}", output.stdout, output.stderr));
    let output = home.run(&["prune", "--older-than", "0", "-y"]);
    insta::assert_snapshot!("prune", format!("{}{}", output.stdout, output.stderr));
    assert_eq!(home.run(&["show", &read]).code, 125);
    assert!(is_alive(pids[0]));
    assert_eq!(home.json(&["prune", "--older-than", "0", "--unread", "-y"])["removed"], 1);
    assert_eq!(home.run(&["logs", &unread]).code, 125);
    assert_eq!(home.json(&["show", &running])["phase"], "running");
    assert_eq!(home.ok(&["prune", "-y"]), "0 ended jobs deleted");
}

#[test]
fn abandon_asks_first_and_ends_a_job_that_is_reachable() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let output = home.run(&["abandon", &id]);
    assert!(output.code == 2 && output.stderr.contains("-y"), "{output:?}");
    assert!(is_alive(pids[0]));
    home.ok(&["abandon", &id, "-y"]);
    assert_eq!(home.run(&["wait", &id]).code, 1);
    assert!(!is_alive(pids[0]), "its keeper is reachable and ends it");
    let job = home.json(&["show", &id]);
    assert_eq!((&job["outcome"], &job["cause"]), (&"lost".into(), &"abandoned".into()), "{job}");
}
