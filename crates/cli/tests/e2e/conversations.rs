//! Conversations: an agent that has ended goes on as another job, with one name, one worktree, one budget and one set of rules.

use serde_json::{Value, json};

use crate::agents::{define_agent, start, until_asks, with_agent};
use crate::home::{Home, until};
use crate::worktree::Repository;

/// Sends a message to a conversation whose newest job has ended, waits for the job that it becomes, and returns that one.
fn go_on(home: &Home, name: &str, text: &str) -> Value {
    let before = home.json(&["show", name])["id"].as_str().unwrap().to_owned();
    let sent = home.json(&["send", name, text]);
    let id = sent["job"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned();
    assert_ne!(id, before);
    home.run(&["wait", &id]);
    home.json(&["show", &id])
}

#[test]
fn c92_a_message_to_an_agent_that_has_ended_continues_its_conversation() {
    let home = with_agent();
    let first = start(&home, &["--name", "docs", "hello"]);
    home.ok(&["wait", "docs"]);
    let output = home.run(&["send", "docs", "and", "again"]);
    assert_eq!(output.code, 0, "{output:?}");
    home.ok(&["wait", "docs"]);
    let second = home.json(&["show", "docs"]);
    let short = second["short"].as_str().unwrap();
    let said = format!("goes on as {short}; `lastword attach {short}` follows it");
    assert!(output.stderr.contains(&said), "{output:?}");
    assert_ne!(second["id"], first, "the name means the newest job");
    assert_eq!((&second["agent"]["prompt"], &second["name"]), (&json!("and again"), &json!("docs")));
    assert_eq!(second["session"]["resumed_from"], "conversation-1");
    let place = &second["conversation"];
    assert_eq!((&place["id"], &place["number"], &place["after"]), (&json!(first), &json!(2), &json!(first)));
    // Any of its jobs means the conversation, and each job keeps its own ending.
    let old = home.json(&["show", &first]);
    assert_eq!((&old["outcome"], &old["conversation"]["continued_by"]), (&json!("completed"), &second["id"]));
    let third = go_on(&home, &first, "once more");
    assert_eq!(third["conversation"]["number"], 3);
    assert_eq!(third["conversation"]["after"], second["id"]);
    let listed = home.json(&["conversation", "ls"]);
    let listed = listed["items"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["jobs"], &listed[0]["used"]["turns"]), (&json!(3), &json!(3)));
    assert_eq!(listed[0]["newest"]["id"], third["id"]);
    let shown = home.json(&["conversation", "show", &first]);
    let jobs: Vec<&Value> = shown["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!(jobs, [&json!(first), &second["id"], &third["id"]]);
}

#[test]
fn c92_a_conversation_has_one_worktree_which_diff_and_apply_mean() {
    let repository = Repository::new();
    let home = &repository.home;
    define_agent(home);
    let output =
        repository.lastword(&["run", "--worktree", "--agent", "echo", "--name", "fix", "only a plan"]);
    assert_eq!(output.code, 0, "{output:?}");
    // The first turn changed nothing, and its worktree is still there.
    let path = home.json(&["show", "fix"])["worktree"]["path"].as_str().unwrap().to_owned();
    assert!(std::path::Path::new(&path).is_dir());
    let second = go_on(home, "fix", "write one");
    assert_eq!((&second["worktree"]["path"], &second["outcome"]), (&json!(path), &json!("completed")));
    let diff = repository.lastword(&["diff", "fix", "--stat"]);
    assert!(diff.code == 0 && diff.stdout.contains(" one "), "{diff:?}");
    let applied = repository.lastword(&["apply", "fix"]);
    assert!(applied.code == 0 && applied.stdout.contains("1 file was changed"), "{applied:?}");
    assert_eq!(repository.read("one"), "write one");
    let third = home.ok(&["resume", "-d", "fix", "write two"]);
    home.ok(&["wait", &third]);
    let diff = repository.lastword(&["diff", &third]);
    assert!(diff.stdout.contains("write one") && diff.stdout.contains("write two"), "{diff:?}");
    // The same by the first job: it is about the conversation.
    let first = home.json(&["conversation", "show", "fix"])["id"].as_str().unwrap().to_owned();
    assert_eq!(repository.lastword(&["diff", &first]).stdout, diff.stdout);
    let applied = repository.lastword(&["apply", "fix"]);
    assert!(applied.code == 0 && applied.stdout.contains("1 file was changed"), "{applied:?}");
    let removed = home.run(&["rm", "fix"]);
    assert!(removed.code == 0 && removed.stderr.contains("a conversation of 3 jobs"), "{removed:?}");
    assert!(repository.left().is_empty(), "{:?}", repository.left());
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "");
}

#[test]
fn c92_nothing_of_a_conversation_is_removed_while_one_of_its_jobs_lives() {
    let home = with_agent();
    let first = start(&home, &["--name", "docs", "hello"]);
    home.ok(&["wait", "docs"]);
    home.ok(&["send", "docs", "wait"]);
    until("the next job works", || {
        (home.json(&["show", "docs"])["session"]["active_turn"] == 1).then_some(())
    });
    for words in
        [&["rm", &first][..], &["rm", "docs"], &["rm", "--force", &first], &["conversation", "rm", &first]]
    {
        let output = home.run(words);
        assert_eq!(output.code, 125, "{words:?}: {output:?}");
    }
    let pruned = home.json(&["prune", "--older-than", "0s", "--unread", "--unsaved", "--yes"]);
    assert_eq!(pruned["removed"], 0, "{pruned}");
    assert_eq!(home.json(&["conversation", "show", &first])["jobs"].as_array().unwrap().len(), 2);
    home.ok(&["conversation", "rm", "--force", &first]);
    assert_eq!(home.ok(&["ls", "-a", "-q"]), "");
}

#[test]
fn c92_a_budget_counts_over_the_conversation_until_it_is_raised() {
    let home = with_agent();
    start(&home, &["--name", "docs", "--turns", "2", "hello"]);
    home.ok(&["wait", "docs"]);
    assert_eq!(go_on(&home, "docs", "again")["outcome"], "completed");
    let refused = home.run(&["send", "docs", "more"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    for words in ["used up its limit `turns`", "lastword limit docs", "lastword conversation show docs"] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    assert_eq!(home.json(&["conversation", "show", "docs"])["jobs"].as_array().unwrap().len(), 2);
    home.ok(&["limit", "docs", "turns=3"]);
    let third = go_on(&home, "docs", "more");
    assert_eq!((&third["outcome"], &third["limits"]["turns"]), (&json!("completed"), &json!(3)));
    assert!(home.run(&["resume", "-d", "docs", "more"]).stderr.contains("used up its limit `turns`"));
}

#[test]
fn c92_a_rule_holds_for_the_whole_conversation() {
    let home = with_agent();
    let id = start(&home, &["--name", "docs", "ask make test"]);
    let asked = until_asks(&home, &id, 1);
    home.ok(&["approve", "--always", &id, asked[0]["id"].as_str().unwrap()]);
    home.ok(&["wait", &id]);
    let second = go_on(&home, "docs", "ask make test");
    assert_eq!((&second["outcome"], second["rules"].as_array().unwrap().len()), (&json!("completed"), 1));
    // It can be taken back between two jobs.
    home.ok(&["rule", "rm", "docs", second["rules"][0]["id"].as_str().unwrap()]);
    home.ok(&["send", "docs", "ask make test"]);
    until("the agent asks again", || {
        let asked = home.json(&["show", "docs"])["session"]["questions"].as_array().map_or(0, Vec::len);
        (asked == 1).then_some(())
    });
    home.ok(&["cancel", "docs"]);
}

/// Of messages that come at once, one makes the next job, and the others reach it or one after it: each is in exactly one turn.
#[test]
fn messages_at_once_make_one_chain_and_none_is_lost() {
    let home = with_agent();
    start(&home, &["--name", "docs", "hello"]);
    home.ok(&["wait", "docs"]);
    let texts: Vec<String> = (0..8).map(|n| format!("message {n}")).collect();
    let senders: Vec<_> = texts.iter().map(|text| home.spawn(&["send", "docs", text])).collect();
    for sender in senders {
        let output = sender.end();
        assert_eq!(output.code, 0, "{output:?}");
    }
    home.run(&["wait", "docs"]);
    let shown = home.json(&["conversation", "show", "docs"]);
    let jobs = shown["jobs"].as_array().unwrap();
    assert_eq!(shown["used"]["turns"], 9, "{shown}");
    let log: String = jobs.iter().map(|job| home.ok(&["logs", job["id"].as_str().unwrap()])).collect();
    for text in &texts {
        assert_eq!(log.matches(&format!("did: {text}\n")).count(), 1, "{text}: {log}");
    }
}

#[test]
fn c53_the_wall_clock_of_a_command_counts_over_its_attempts() {
    let home = Home::new();
    let script = "echo x >> tries; sleep 0.4; exit 1";
    let words = ["run", "--wall", "1s", "--retry", "9", "--backoff", "1ms", "sh", "-c", script];
    let output = home.run(&words);
    assert_eq!(output.code, 124, "{output:?}");
    let job = home.json(&["show", "@last"]);
    assert_eq!((&job["outcome"], &job["cause"]), (&json!("timed_out"), &json!("limit_wall")));
    let ran: u64 = job["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| {
            let at = |name: &str| {
                attempt[name]
                    .as_str()
                    .unwrap_or_else(|| panic!("{attempt}"))
                    .parse::<jiff::Timestamp>()
                    .unwrap()
                    .as_millisecond()
            };
            (at("ended_at") - at("launched_at")) as u64
        })
        .sum();
    assert!(job["attempts"].as_array().unwrap().len() >= 2 && ran >= 900, "{ran}: {job}");
}
