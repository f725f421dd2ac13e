//! The budget of a group for a day.

use crate::agents::define;
use crate::home::{Home, until};

/// Defines the scripted agent as one that reports what it costs.
fn define_paid(home: &Home) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_agent.py");
    let paid = format!("[paid]\ndialect = 'acp'\ncommand = ['python3', '{script}']\nmeasures = ['money']\n");
    define(home, &paid);
}

fn start(home: &Home, words: &[&str]) -> String {
    home.ok(&[&["run", "-d", "--group", "night", "--agent", "paid"], words].concat())
}

fn until_spent(home: &Home, id: &str) {
    until("it has spent something", || {
        let job = home.json(&["show", id]);
        (job["spent"]["money_micros"] != 0).then_some(())
    });
}

#[test]
fn c90_a_budget_of_a_group_stops_every_agent_of_it_and_starts_no_other() {
    let home = Home::new();
    define_paid(&home);
    home.ok(&["group", "set", "night", "--slots", "3", "--money-per-day", "5"]);
    let cheap = start(&home, &["spend 2\nwait"]);
    until_spent(&home, &cheap);
    let idle = home.ok(&["run", "-d", "--group", "night", "sleep", "100"]);
    home.until_phase(&idle, "running");
    let dear = start(&home, &["spend 4\nwait"]);
    for id in [&cheap, &dear] {
        let output = home.run(&["wait", id]);
        assert_eq!(output.code, 1, "{output:?}");
        let job = home.json(&["show", id]);
        assert_eq!((&job["outcome"], &job["cause"]), (&"over_budget".into(), &"limit_group_money".into()));
        let fired = home.ok(&["events", id]);
        assert!(fired.contains("$6.00 of $5.00"), "{fired}");
        let shown = home.ok(&["show", id]);
        assert!(shown.contains("turn 1    stopped by the budget of its group"), "{shown}");
    }
    assert_eq!(home.json(&["show", &idle])["phase"], "running", "a command spends nothing");
    // The queue is closed until tomorrow, and says so.
    let next = start(&home, &["more"]);
    let job = home.json(&["show", &next]);
    assert_eq!((&job["phase"], &job["waits"]["for"]), (&"queued".into(), &"budget".into()));
    assert!(job["waits"]["until"].is_string(), "{job}");
    let shown = home.ok(&["show", &next]);
    assert!(shown.contains("budget spent, new one in"), "{shown}");
    let groups = home.ok(&["group", "ls"]);
    assert!(groups.contains("$6.00 of $5.00") && groups.contains("closed until tomorrow"), "{groups}");
    // A daemon that starts again knows it, too.
    home.restart(&[]);
    assert_eq!(home.json(&["show", &next])["waits"]["for"], "budget");
    // More money opens the group.
    home.ok(&["group", "set", "night", "--money-per-day", "20"]);
    assert_eq!(home.run(&["wait", &next]).code, 0);
    assert_eq!(home.json(&["show", &next])["outcome"], "completed");
    // What each agent and day cost, live jobs included.
    let used = home.ok(&["usage", "--by", "group,agent"]);
    let line = used.lines().find(|line| line.contains("$6.00")).unwrap_or_else(|| panic!("{used}"));
    assert!(line.starts_with("paid ") && line.contains("night"), "{used}");
    let command = used.lines().find(|line| line.starts_with("- ")).unwrap_or_else(|| panic!("{used}"));
    assert_eq!(command.split_whitespace().skip(2).take(2).collect::<Vec<_>>(), ["1", "1"], "it runs: {used}");
    let output = home.run(&["usage", "--by", "moon"]);
    assert!(output.code == 2 && output.stderr.contains("day, agent, group, conversation"), "{output:?}");
    home.ok(&["cancel", &idle]);
}

#[test]
fn c90_an_agent_that_does_not_report_money_is_refused_in_a_group_that_limits_it() {
    let home = Home::new();
    home.ok(&["group", "set", "night", "--money-per-day", "5"]);
    let words = ["run", "-d", "--delay", "1h", "--group", "night", "--agent", "gemini", "go"];
    let output = home.run(&words);
    assert!(output.code == 2 && output.stderr.contains("the budget of its group"), "{output:?}");
    home.ok(&["group", "set", "night", "--money-per-day", "none", "--tokens-per-day", "10"]);
    let output = home.run(&words);
    assert!(output.code == 2 && output.stderr.contains("does not report its tokens"), "{output:?}");
    home.ok(&["group", "set", "night", "--tokens-per-day", "none"]);
    assert_eq!(home.run(&words).code, 0);
}

#[test]
fn a_job_that_asks_at_its_limit_goes_on_when_the_budget_of_its_group_is_raised() {
    let home = Home::new();
    define_paid(&home);
    home.ok(&["group", "set", "night", "--money-per-day", "5"]);
    let id = start(&home, &["--ask-at-limit", "1h", "spend 6\nask ls"]);
    until("it is paused", || (home.json(&["show", &id])["paused"] != serde_json::Value::Null).then_some(()));
    // The question says what raises the budget, and takes no limit of the job.
    let asked = home.ok(&["question", &id]);
    assert!(
        asked.contains("the money that its group may spend in a day is used up: $6.00 of $5.00"),
        "{asked}"
    );
    assert!(asked.contains("lastword group set night --money-per-day VALUE"), "{asked}");
    let question = home.json(&["show", &id])["paused"]["question"].as_str().unwrap().to_owned();
    let output = home.run(&["answer", &id, &question, "9"]);
    assert!(output.code != 0 && output.stderr.contains("`lastword group set`"), "{output:?}");
    home.ok(&["group", "set", "night", "--money-per-day", "7"]);
    until("it goes on", || (home.json(&["show", &id])["paused"] == serde_json::Value::Null).then_some(()));
    home.ok(&["cancel", &id]);
}

#[test]
fn a_budget_must_be_an_amount() {
    let home = Home::new();
    for words in [
        &["group", "set", "night"][..],
        &["group", "set", "night", "--money-per-day", "0"],
        &["group", "set", "night", "--money-per-day", "cheap"],
        &["group", "set", "night", "--money-per-day", "-1"],
        &["group", "set", "night", "--tokens-per-day", "0"],
        &["group", "set", "night", "--tokens-per-day", "1.5"],
    ] {
        let output = home.run(words);
        assert_eq!(output.code, 2, "{words:?} {output:?}");
    }
    let output = home.run(&["group", "pause", "night"]);
    assert_ne!(output.code, 0, "nothing was created: {output:?}");
    home.ok(&["group", "set", "night", "--tokens-per-day", "9"]);
    let group = home.json(&["group", "ls"])["items"][1].clone();
    assert_eq!((&group["slots"], &group["day_tokens"]), (&1.into(), &9.into()), "{group}");
}

#[test]
fn an_agent_that_claims_to_have_spent_everything_harms_no_other_job() {
    let home = Home::new();
    define_paid(&home);
    for _ in 0..3 {
        let output = home.run(&["run", "--group", "night", "--agent", "paid", "spend 1e300"]);
        assert_eq!(output.code, 0, "{output:?}");
        home.ok(&["logs", "@last"]);
    }
    home.restart(&[]);
    let groups = home.ok(&["group", "ls"]);
    assert!(groups.contains("$2305843009213.693952"), "{groups}");
    for budget in ["--money-per-day", "--tokens-per-day"] {
        let output = home.run(&["group", "set", "night", budget, "4611686018427387904"]);
        assert!(output.code == 2 && !output.stderr.contains("damaged"), "{output:?}");
    }
}

#[test]
fn a_limit_below_what_is_used_up_is_said_to_stop_the_job() {
    let home = Home::new();
    define_paid(&home);
    let id = start(&home, &["spend 2\nwait"]);
    until_spent(&home, &id);
    let output = home.run(&["limit", &id, "money=3"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    let output = home.run(&["limit", &id, "money=1"]);
    let said = "lastword: the money limit is used up already, $2.00 of $1.00: the job is stopped";
    assert!(output.code == 0 && output.stderr.starts_with(said), "{output:?}");
    home.run(&["wait", &id]);
    assert_eq!(home.json(&["show", &id])["cause"], "limit_money");
}
