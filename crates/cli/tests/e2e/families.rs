//! Families: jobs that a process inside another job submits end with that one, unless they were told to stay, and are waited for.

use serde_json::{Value, json};

use crate::executable::lastword;
use crate::home::{Home, is_alive, until};

/// Returns a script in which `LW` stands for the command.
fn inside(script: &str) -> String {
    script.replace("LW ", &format!("{} ", lastword()))
}

/// Starts a job that starts others from inside.
fn parent(home: &Home, script: &str) -> String {
    home.ok(&["run", "-d", "--name", "parent", "--", "sh", "-c", &inside(script)])
}

/// Waits until there is a job of this name that runs, and returns it.
fn running(home: &Home, name: &str) -> Value {
    until("it runs", || {
        let listed = home.json(&["ls", "--all", "--name", name]);
        let row = listed["items"].as_array().and_then(|rows| rows.first().cloned())?;
        (row["phase"] == "running").then(|| home.json(&["show", row["id"].as_str().unwrap()]))
    })
}

fn pid(job: &Value) -> i32 {
    job["attempts"][0]["pid"].as_i64().unwrap() as i32
}

#[test]
fn a_cancelled_job_ends_the_jobs_inside_it_before_its_last_word() {
    let home = Home::new();
    let inner = "LW run -d --name grandchild -- sleep 1000; sleep 1000";
    parent(&home, &format!("LW run -d --name child -- sh -c '{inner}'; sleep 1000"));
    let (grandchild, child) = (running(&home, "grandchild"), running(&home, "child"));
    assert_eq!((&child["tied"], &grandchild["parent"]), (&json!(true), &child["id"]));
    let tree = home.ok(&["ls", "--tree"]);
    let titles: Vec<&str> =
        tree.lines().skip(1).map(|line| line.rsplit("  ").next().unwrap_or(line)).collect();
    assert!(titles[1].trim_start().starts_with("└ sh") && tree.contains("  └ sleep 1000"), "{tree}");
    home.ok(&["cancel", "parent"]);
    for (name, job) in [("grandchild", &grandchild), ("child", &child)] {
        let ended = home.json(&["show", name]);
        assert_eq!(
            (&ended["outcome"], &ended["cause"]),
            (&json!("cancelled"), &json!("parent_gone")),
            "{name}"
        );
        assert!(!is_alive(pid(job)), "{name}");
    }
    let at = |name: &str| home.json(&["show", name])["ended_at"].as_str().unwrap().to_owned();
    assert!(at("grandchild") <= at("child") && at("child") <= at("parent"));
    let ended = home.json(&["show", "parent"]);
    assert_eq!(ended["children"]["stopped"], json!([child["id"]]));
    let short = child["short"].as_str().unwrap();
    assert!(home.ok(&["show", "parent"]).contains(&format!("stopped   {short}, because it ended")));
}

#[test]
fn a_job_that_completed_waits_for_the_jobs_inside_it_and_holds_no_slot() {
    let home = Home::new();
    home.ok(&["group", "set", "gpu", "--slots", "1"]);
    let go = home.path().join("go");
    let waits = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let script = format!("LW run -d -g gpu --name child -- sh -c '{waits}' 2>said");
    let id = home.ok(&[
        "run",
        "-d",
        "-g",
        "gpu",
        "--name",
        "parent",
        "-C",
        home.path().to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &inside(&script),
    ]);
    running(&home, "child");
    let said = std::fs::read_to_string(home.path().join("said")).unwrap();
    assert_eq!(said, format!("tied to {}: ends with it (--keep to detach)\n", &id[id.len() - 8..]));
    let waiting = home.json(&["show", "parent"]);
    assert_eq!((&waiting["phase"], &waiting["waits"]["for"]), (&json!("running"), &json!("children")));
    assert!(home.ok(&["show", "parent"]).contains("it ends after the jobs it started: child"));
    std::fs::write(&go, "").unwrap();
    home.ok(&["wait", "parent"]);
    let (child, ended) = (home.json(&["show", "child"]), home.json(&["show", "parent"]));
    assert_eq!((&ended["outcome"], &child["outcome"]), (&json!("completed"), &json!("completed")));
    assert!(child["ended_at"].as_str() <= ended["ended_at"].as_str());
}

#[test]
fn a_job_that_fails_or_reaches_a_limit_ends_the_jobs_inside_it() {
    let home = Home::new();
    let fails = |name: &str| format!("LW run -d --name {name} -- sleep 1000 && exit 3");
    home.run(&["run", "--name", "fails", "sh", "-c", &inside(&fails("of-failed"))]);
    let words = ["run", "--name", "late", "--wall", "400ms", "sh", "-c"];
    home.run(
        &[&words[..], &[inside("LW run -d --name of-late -- sleep 1000; sleep 1000").as_str()]].concat(),
    );
    for (parent, child, outcome) in [("fails", "of-failed", "failed"), ("late", "of-late", "timed_out")] {
        assert_eq!(home.json(&["show", parent])["outcome"], outcome);
        let child = home.json(&["show", child]);
        assert_eq!((&child["outcome"], &child["cause"]), (&json!("cancelled"), &json!("parent_gone")));
    }
}

#[test]
fn a_kept_job_outlives_its_parent_which_names_it() {
    let home = Home::new();
    parent(&home, "LW run -d --keep --name child -- sleep 1000; sleep 1000");
    let child = running(&home, "child");
    assert_eq!(child["tied"], json!(null));
    home.ok(&["cancel", "parent"]);
    assert!(is_alive(pid(&child)));
    let ended = home.json(&["show", "parent"]);
    assert_eq!(ended["children"]["kept"], json!([child["id"]]));
    home.ok(&["cancel", "child"]);
}

/// The daemon may die at any moment: the next one knows the children by the log of their parent.
#[test]
fn jobs_end_with_a_parent_that_dies_while_no_daemon_runs() {
    let home = Home::new();
    let id = parent(&home, "LW run -d --name child -- sleep 1000; sleep 1000");
    let child = running(&home, "child");
    let leader = pid(&home.json(&["show", &id]));
    home.kill_daemon();
    crate::home::signal(leader, rustix::process::Signal::KILL);
    until("it is gone", || (!is_alive(leader)).then_some(()));
    home.run(&["wait", &id]);
    assert_eq!(home.json(&["show", &id])["outcome"], "failed");
    assert_eq!(home.json(&["show", "child"])["cause"], "parent_gone");
    assert!(!is_alive(pid(&child)));
}

#[test]
fn a_family_asks_for_no_more_than_its_parent_has_and_is_bounded() {
    let home = Home::new();
    // Each starts the next one inside itself, until one is refused.
    let nest = "LW run -d --name \"level-$1\" -- sh nest $(($1 + 1)) 2>>said; sleep 1000";
    std::fs::write(home.path().join("nest"), inside(nest)).unwrap();
    let folder = home.path().to_str().unwrap().to_owned();
    home.ok(&["run", "-d", "--name", "top", "-C", &folder, "--", "sh", "nest", "1"]);
    let refused = until("one is refused", || {
        let said = std::fs::read_to_string(home.path().join("said")).ok()?;
        said.contains("at most 4 are allowed").then_some(said)
    });
    assert_eq!(refused.matches("tied to").count(), 3, "{refused}");
    assert_eq!(home.json(&["ls"])["items"].as_array().unwrap().len(), 4);
    home.ok(&["cancel", "top", "--force"]);
    assert_eq!(home.ok(&["ls", "-q"]), "");
}
