//! Lists: pages, filters, references.

use serde_json::json;

use super::{Home, each, kill_keeper};
use crate::common::until;

#[test]
fn pages_add_up_to_the_list_newest_first() {
    let home = Home::new();
    let daemon = home.start();
    let ended = |_| {
        let id = daemon.run("exit 0");
        daemon.end_of(&id);
        id
    };
    let mut ids: Vec<String> = (0..7).map(ended).collect();
    ids.reverse();
    let whole = daemon.client.get("/v1/jobs").expect(200);
    assert_eq!(each(&whole, "id"), ids);
    assert_eq!(whole["next_cursor"], json!(null));
    let (mut found, mut path, mut pages) = (Vec::new(), "/v1/jobs?limit=3".to_owned(), 0);
    loop {
        let page = daemon.client.get(&path).expect(200);
        found.extend(each(&page, "id").into_iter().map(str::to_owned));
        pages += 1;
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/jobs?limit=3&cursor={cursor}");
    }
    assert_eq!((found, pages), (ids, 3));
}

#[test]
fn c62_a_job_that_just_ended_is_in_the_next_list() {
    let home = Home::new();
    let daemon = home.start();
    for _ in 0..3 {
        let id = daemon.run("sleep 100");
        drop(kill_keeper(&home, &daemon.start_of(&id)));
        let ended = daemon.client.get("/v1/jobs?phase=ended&limit=1").expect(200);
        assert_eq!((each(&ended, "id"), &ended["unsettled"]), (vec![id.as_str()], &json!(false)));
        assert_eq!(
            each(&daemon.client.get("/v1/jobs?phase=queued,launching,running").expect(200), "id"),
            [""; 0]
        );
    }
}

/// The public report: a job that was started long ago dies behind twelve that ended later, and is on no page.
#[test]
fn c62_an_old_job_that_just_died_is_the_first_of_a_short_list() {
    let home = Home::new();
    let daemon = home.start();
    let old = daemon.run("sleep 100");
    let started = daemon.start_of(&old);
    for _ in 0..12 {
        let id = daemon.run("exit 0");
        daemon.end_of(&id);
    }
    drop(kill_keeper(&home, &started));
    for query in ["limit=8", "limit=1&unread=true", "limit=1&changed_since=2026-01-01T00:00:00Z"] {
        let page = daemon.client.get(&format!("/v1/jobs?{query}")).expect(200);
        let first = &page["items"][0];
        assert_eq!((&first["id"], &first["outcome"]), (&json!(old), &json!("lost")), "{query}");
        assert_eq!(first["unread"], true, "reading it before marked nothing");
    }
    assert_eq!(daemon.client.post(&format!("/v1/jobs/{old}:seen"), &json!({})).status, 204);
    let page = daemon.client.get("/v1/jobs?limit=12").expect(200);
    assert!(!each(&page, "id").contains(&old.as_str()), "endings that were not read come first");
    let rest = daemon.client.get("/v1/jobs?unread=false").expect(200);
    assert_eq!(each(&rest, "id"), [old.as_str()]);
    let live = daemon.run("sleep 100");
    assert_eq!(
        daemon.client.post(&format!("/v1/jobs/{live}:seen"), &json!({})).problem(),
        (409, "not_ended".to_owned())
    );
}

#[test]
fn a_list_and_the_feed_are_filtered_by_folder_parent_and_time() {
    let home = Home::new();
    let daemon = home.start();
    let from = |folder: &str| {
        let folder = home.path(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut asked = daemon.script("exit 0");
        asked["cwd"] = json!(folder);
        daemon.submit(&asked)
    };
    let (inner, outer, other) = (from("src/a/b"), from("src/a"), from("src/ab"));
    [&inner, &outer, &other].iter().for_each(|id| drop(daemon.end_of(id)));
    let folder = |folder: &str| home.path(folder).to_str().unwrap().to_owned();
    for (query, expected) in [
        (format!("cwd={}", folder("src/a")), vec![&inner, &outer]),
        (format!("cwd={}/", folder("src/ab")), vec![&other]),
        (format!("cwd={}", folder("nowhere")), vec![]),
        (format!("parent={inner}"), vec![]),
        ("changed_since=2099-01-01T00:00:00Z".to_owned(), vec![]),
    ] {
        let page = daemon.client.get(&format!("/v1/jobs?{query}")).expect(200);
        let mut found = each(&page, "id");
        found.sort_unstable();
        assert_eq!(found, expected, "{query}");
        let query = query.replace("changed_since", "since");
        let feed = daemon.client.get(&format!("/v1/events?type=last_word&{query}")).expect(200);
        let mut told = each(&feed, "job");
        told.sort_unstable();
        assert_eq!(told, expected, "{query}");
    }
    let events =
        daemon.client.get(&format!("/v1/jobs/{inner}/events?since=2099-01-01T00:00:00Z")).expect(200);
    assert_eq!(each(&events, "type"), [""; 0]);
    // The parent need not be there any more.
    assert_eq!(daemon.client.request("DELETE", &format!("/v1/jobs/{inner}"), &[], b"").status, 204);
    for path in [format!("/v1/jobs?parent={inner}"), format!("/v1/events?parent={inner}")] {
        assert_eq!(daemon.client.get(&path).status, 200, "{path}");
    }
    for bad in [
        "waiting=true&unread=true",
        "cursor=job_x",
        "cursor=9-1-1-job_x",
        "changed_since=yesterday",
        "waiting=2",
        "parent=nobody",
    ] {
        let answer = daemon.client.get(&format!("/v1/jobs?{bad}"));
        assert!(matches!(answer.status, 400 | 404), "{bad}: {}", answer.status);
    }
}

#[test]
fn a_list_is_filtered_by_phase_outcome_group_label_and_name() {
    let home = Home::new();
    let daemon = home.start();
    let submit = |script: &str, name: &str, group: &str| {
        let mut asked = daemon.script(script);
        asked["name"] = json!(name);
        asked["group"] = json!(group);
        asked["labels"] = json!({ "for": name });
        daemon.submit(&asked)
    };
    // One after the other: lists are in the order of their ends.
    let good = submit("exit 0", "a", "x");
    daemon.end_of(&good);
    let bad = submit("exit 1", "b", "y");
    daemon.end_of(&bad);
    let live = submit("sleep 100", "c", "x");
    daemon.start_of(&live);
    for (query, expected) in [
        ("phase=ended", vec![&bad, &good]),
        ("phase=running,queued", vec![&live]),
        ("outcome=failed", vec![&bad]),
        ("outcome=completed&group=x", vec![&good]),
        // The one that ended was not read.
        ("group=x", vec![&good, &live]),
        ("label=for=b", vec![&bad]),
        ("name=c", vec![&live]),
        ("name=missing", vec![]),
    ] {
        let page = daemon.client.get(&format!("/v1/jobs?{query}")).expect(200);
        assert_eq!(each(&page, "id"), expected, "{query}");
    }
}

#[test]
fn a_job_is_found_by_id_part_of_it_name_or_as_the_last() {
    let home = Home::new();
    let daemon = home.start();
    let named = |name: &str| {
        let mut asked = daemon.script("exit 0");
        asked["name"] = json!(name);
        daemon.submit(&asked)
    };
    let (older, newer) = (named("tidy"), named("tidy"));
    let last = daemon.run("exit 0");
    for (reference, expected) in [
        (older.as_str(), &older),
        (&older[older.len() - 8..], &older),
        (&newer[newer.len() - 8..newer.len() - 3], &newer),
        ("tidy", &newer),
        ("@last", &last),
    ] {
        let job = daemon.client.get(&format!("/v1/jobs/{reference}")).expect(200);
        assert_eq!(job["id"], json!(expected), "{reference}");
    }
    let ambiguous = daemon.client.get(&format!("/v1/jobs/{}", &older[..6]));
    assert_eq!(ambiguous.problem(), (409, "ambiguous".to_owned()));
    let candidates = json!({ "items": ambiguous.json()["candidates"] });
    assert_eq!(each(&candidates, "id").len(), 3, "{candidates}");
    assert_eq!(each(&candidates, "phase").len(), 3);
}

#[test]
fn c45_read_results_are_pruned_and_unread_ones_counted() {
    let home = Home::new();
    let daemon = home.start();
    let (read, unread) = (daemon.run("exit 0"), daemon.run("exit 0"));
    daemon.end_of(&read);
    until("both have ended", || {
        (each(&daemon.client.get("/v1/jobs?phase=ended").expect(200), "id").len() == 2).then_some(())
    });
    for path in ["", "/result", "/output", "/events"] {
        daemon.client.get(&format!("/v1/jobs/{unread}{path}"));
    }
    assert_eq!(daemon.client.post(&format!("/v1/jobs/{read}:seen"), &json!({})).status, 204);
    let pruned = daemon.client.post("/v1/jobs:prune", &json!({ "dry_run": true })).expect(200);
    assert_eq!(pruned, json!({ "removed": 1, "kept_unread": 1, "kept_unsaved": 0, "kept_in_use": 0 }));
    let pruned = daemon.client.post("/v1/jobs:prune", &json!({})).expect(200);
    assert_eq!(pruned, json!({ "removed": 1, "kept_unread": 1, "kept_unsaved": 0, "kept_in_use": 0 }));
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{read}")).problem(), (404, "not_found".to_owned()));
    let pruned = daemon.client.post("/v1/jobs:prune", &json!({ "unread": true })).expect(200);
    assert_eq!(pruned, json!({ "removed": 1, "kept_unread": 0, "kept_unsaved": 0, "kept_in_use": 0 }));
    assert_eq!(daemon.client.get(&format!("/v1/jobs/{unread}")).status, 404);
}
