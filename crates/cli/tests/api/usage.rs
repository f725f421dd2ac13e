//! Sums over jobs.

use serde_json::{Value, json};

use super::Home;

#[test]
fn what_jobs_spent_is_summed_up_by_what_is_asked_for() {
    let home = Home::new();
    let daemon = home.start();
    let run = |group: &str, script: &str| {
        let mut asked = daemon.script(script);
        asked["group"] = json!(group);
        daemon.submit(&asked)
    };
    let ended = [run("left", "exit 0"), run("left", "exit 3"), run("right", "exit 0")];
    ended.iter().for_each(|id| drop(daemon.end_of(id)));
    let live = run("right", "sleep 100");
    daemon.start_of(&live);
    let sums = |query: &str| daemon.client.get(&format!("/v1/usage?{query}")).expect(200)["items"].clone();
    let all = &sums("")[0];
    assert_eq!((&all["jobs"], &all["live"]), (&json!(4), &json!(1)));
    assert_eq!(all["outcomes"], json!({ "completed": 2, "failed": 1 }));
    assert_eq!(all["spent"], json!({ "tokens_in": 0, "tokens_out": 0, "money_micros": 0 }));
    let by_group = sums("by=group");
    let of = |sum: &Value| (sum["group"].clone(), sum["jobs"].clone(), sum["live"].clone());
    let found: Vec<_> = by_group.as_array().unwrap().iter().map(of).collect();
    assert_eq!(found, [(json!("left"), json!(2), json!(0)), (json!("right"), json!(2), json!(1))]);
    let today = daemon.client.get(&format!("/v1/jobs/{}", ended[0])).expect(200)["ended_at"].clone();
    let by_day = sums("by=day,agent,conversation");
    assert_eq!(by_day[0]["day"], today.as_str().unwrap()[..10]);
    assert_eq!(
        (&by_day[0]["agent"], &by_day[0]["conversation"]),
        (&json!(""), &json!("")),
        "they are commands"
    );
    assert_eq!(by_day[0].get("group"), None, "it was not asked for");
    // What ended before does not count, and what lives does.
    let later = &sums("since=2099-01-01T00:00:00Z")[0];
    assert_eq!((&later["jobs"], &later["live"]), (&json!(1), &json!(1)));
    for query in ["by=tea", "by=", "by=day,", "since=tea"] {
        assert_eq!(daemon.client.get(&format!("/v1/usage?{query}")).status, 400, "{query}");
    }
}
