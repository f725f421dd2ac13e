//! The living processes of a job.

use serde_json::{Value, json};

use super::Home;
use crate::common::until;

/// Starts a shell with two children, one of which leaves the session.
const TREE: &str = "setsid sleep 1001 & sleep 1002 & echo ready; wait";

fn of<'a>(items: &'a [Value], command: &str) -> &'a Value {
    let mut found = items.iter().filter(|item| item["command"] == command);
    let one = found.next().unwrap_or_else(|| panic!("{command}: {items:?}"));
    assert!(found.next().is_none(), "{command}: {items:?}");
    one
}

/// To look at a job that is being launched must not keep it from being started.
#[test]
fn a_look_at_the_processes_of_a_job_that_is_launched_disturbs_nothing() {
    let home = Home::new();
    let daemon = home.start();
    for _ in 0..20 {
        let id = daemon.run("exit 0");
        let path = format!("/v1/jobs/{id}/processes");
        while daemon.client.get(&format!("/v1/jobs/{id}")).expect(200)["phase"] != "ended" {
            daemon.client.get(&path).expect(200);
        }
        let job = daemon.end_of(&id);
        assert_eq!(
            (&job["outcome"], &job["attempts"].as_array().unwrap().len()),
            (&json!("completed"), &1),
            "{job}"
        );
    }
}

#[test]
fn the_processes_of_a_job_are_its_tree_as_it_is() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run(TREE);
    let path = format!("/v1/jobs/{id}/processes");
    // `setsid` becomes `sleep` in the end.
    let items = until("all of them run", || {
        let found = daemon.client.get(&path).expect(200);
        assert_eq!(found["more"], false);
        let items = found["items"].as_array().unwrap().clone();
        items
            .iter()
            .any(|item| item["command"] == "sleep 1001" && item["left_session"] == true)
            .then_some(items)
    });
    let job = daemon.start_of(&id);
    let shell = of(&items, &format!("sh -c {TREE}"));
    assert_eq!((&shell["pid"], &shell["parent"]), (&job["attempts"][0]["pid"], &json!(null)));
    for (command, has_left) in [("sleep 1001", true), ("sleep 1002", false)] {
        let sleep = of(&items, command);
        assert_eq!((&sleep["parent"], &sleep["left_session"]), (&shell["pid"], &json!(has_left)), "{sleep}");
        assert!(sleep["resident_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{sleep}");
        assert!(sleep["started_at"].as_str() >= job["submitted_at"].as_str().map(|at| &at[..19]), "{sleep}");
    }
    assert_eq!(items.len(), 3, "the keeper is no part of it: {items:?}");
    daemon.client.post(&format!("/v1/jobs/{id}:cancel"), &json!({ "force": true })).expect(202);
    daemon.end_of(&id);
    assert_eq!(daemon.client.get(&path).expect(200), json!({ "items": [], "more": false }));
    assert_eq!(daemon.client.get("/v1/jobs/missing/processes").status, 404);
}
