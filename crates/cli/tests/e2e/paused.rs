//! Jobs that pause at a limit: the pause is a question, answered with a higher limit or denied.

use serde_json::{Value, json};

use crate::agents::{define_agent, until_asks};
use crate::home::{Home, is_alive, until};
use crate::terminal::Screen;

/// Starts a command that exceeds its limit on output, and returns its id and its question.
fn paused(home: &Home, words: &[&str]) -> (String, Value) {
    let script = "head -c 4096 /dev/zero | tr '\\0' '\\n'; until [ -e end ]; do sleep 0.01; done";
    let asked = ["run", "-d", "--output-max", "1k", "--ask-at-limit", "10m"];
    let id = home.ok(&[&asked[..], words, &["sh", "-c", script]].concat());
    let question = until("it is paused", || {
        let questions = home.json(&["question", &id])["items"].clone();
        questions.get(0).cloned()
    });
    (id, question)
}

#[test]
fn a_pause_is_a_question_that_is_answered_with_a_higher_limit() {
    let home = Home::new();
    let (id, question) = paused(&home, &["--name", "big"]);
    assert_eq!(question["kind"], "limit", "{question}");
    let limit = &question["limit"];
    assert_eq!((&limit["limit"], &limit["allowed"]), (&json!("output"), &json!(1024)), "{question}");
    let name = question["id"].as_str().unwrap();
    let shown = home.ok(&["show", "big"]);
    assert!(shown.starts_with(&format!("big ({})  needs input", &id[24..])), "{shown}");
    assert!(shown.contains("│ the output limit is used up: 4K of 1K"), "{shown}");
    assert!(shown.contains(&format!("lastword answer big {name} VALUE    # the new limit")), "{shown}");
    assert!(shown.contains("# stopped if not answered within"), "{shown}");
    for (value, why) in [("2k", "more than that is used up already"), ("lots", "`lots` is not a size")] {
        let output = home.run(&["answer", "big", name, value]);
        assert!(output.code == 2 && output.stderr.contains(why), "{output:?}");
    }
    let output = home.run(&["approve", "big", name]);
    assert!(output.code == 125 && output.stderr.contains("its new value"), "{output:?}");
    let output = home.run(&["answer", "big", name, "1M"]);
    let said = format!("big ({}) continues; its output limit is 1M\n", &id[24..]);
    assert_eq!((output.code, output.stderr), (0, said));
    until("it continues", || home.json(&["show", "big"])["paused"].is_null().then_some(()));
    let shown = home.ok(&["show", "big"]);
    assert!(shown.contains("limits    output 1M") && !shown.contains("needs input"), "{shown}");
    assert_eq!(home.json(&["question", "big"])["items"], json!([]));
    assert_eq!(home.run(&["answer", "big", name, "2M"]).code, 125, "it is answered once");
    std::fs::write(home.work().join("end"), "").unwrap();
    assert_eq!(home.run(&["wait", "big"]).code, 0);
}

#[test]
fn zero_removes_the_limit_at_which_a_job_is_paused() {
    let home = Home::new();
    let (id, question) = paused(&home, &["--name", "big"]);
    let output = home.run(&["answer", "big", question["id"].as_str().unwrap(), "0"]);
    let said = format!("big ({}) continues; its output limit is removed\n", &id[24..]);
    assert_eq!((output.code, output.stderr), (0, said));
    std::fs::write(home.work().join("end"), "").unwrap();
    assert_eq!(home.run(&["wait", "big"]).code, 0);
}

#[test]
fn a_denied_limit_ends_the_job_by_its_limit() {
    let home = Home::new();
    let (id, question) = paused(&home, &[]);
    home.ok(&["deny", &id, question["id"].as_str().unwrap()]);
    let output = home.run(&["wait", &id]);
    assert_eq!(output.code, 1, "{output:?}");
    let job = home.json(&["show", &id]);
    assert_eq!((&job["outcome"], &job["cause"]), (&json!("over_budget"), &json!("limit_output")), "{job}");
}

#[test]
fn the_question_of_an_agent_at_its_limit_is_among_its_questions() {
    let home = Home::new();
    define_agent(&home);
    let words = ["run", "-d", "--agent", "echo", "--turns", "1", "--ask-at-limit", "10m", "wait"];
    let id = home.ok(&words);
    until("it works", || (home.json(&["show", &id])["session"]["active_turn"] == 1).then_some(()));
    home.ok(&["send", &id, "second"]);
    home.ok(&["interrupt", &id]);
    let question = until_asks(&home, &id, 1).remove(0);
    assert_eq!(
        (&question["kind"], &question["limit"]["measured"]),
        (&json!("limit"), &json!(2)),
        "{question}"
    );
    // The second turn has not begun.
    assert_eq!(question["text"], "the turns limit is used up: 1 of 1");
    let shown = home.ok(&["question", &id]);
    assert!(shown.contains("the turns limit is used up: 1 of 1"), "{shown}");
    assert!(shown.contains("# stopped if not answered within"), "{shown}");
    home.ok(&["answer", &id, question["id"].as_str().unwrap(), "2"]);
    assert_eq!(home.run(&["wait", &id]).code, 0);
    assert!(home.ok(&["logs", &id]).contains("did: second"), "{}", home.ok(&["logs", &id]));
}

#[test]
fn at_a_terminal_the_new_limit_is_typed() {
    let home = Home::new();
    let (id, _) = paused(&home, &["--name", "big"]);
    let mut screen = Screen::start(&home, (24, 80), &["attach", "big"]);
    screen.until_shown("type the new limit, or [n] to stop the job");
    assert!(screen.so_far().contains("the output limit is used up: 4K of 1K"), "{}", screen.so_far());
    // If output arrives after the question, it is shown again and the line before counts for nothing.
    for (line, shown) in [("lots\n", "`lots` is not a size"), ("1M\n", "big continues")] {
        until(shown, || {
            let is_shown = screen.so_far().contains(shown);
            if !is_shown {
                screen.write(line);
            }
            is_shown.then_some(())
        });
    }
    std::fs::write(home.work().join("end"), "").unwrap();
    screen.end();
    assert_eq!(home.json(&["show", &id])["outcome"], "completed");
}

#[test]
fn a_job_at_its_output_limit_is_paused_until_the_limit_is_raised() {
    let home = Home::new();
    // Counts in a file as fast as it can, also in another session, and ends when told to.
    let script = "echo 0 > near; echo 0 > far; \
                  count() { n=0; while [ ! -e end ]; do n=$((n+1)); echo $n > $1; done; }; \
                  setsid sh -c 'n=0; while [ ! -e end ]; do n=$((n+1)); echo $n > far; done' & \
                  head -c 4096 /dev/zero; count near; wait";
    let asked = ["run", "-d", "--output-max", "1k", "--ask-at-limit", "10m", "sh", "-c", script];
    let id = home.ok(&asked);
    let paused = |home: &Home| {
        let job = home.json(&["show", &id]);
        (!job["paused"].is_null()).then_some(job)
    };
    let job = until("it is paused", || paused(&home));
    assert_eq!((&job["phase"], &job["paused"]["limit"]), (&"running".into(), &"output".into()));
    assert!(home.ok(&["show", &id]).contains("the output limit is used up: 4K of 1K"));
    let counts = || ["near", "far"].map(|name| std::fs::read_to_string(home.work().join(name)).unwrap());
    // The pause is in the log before it takes effect.
    let mut before = counts();
    until("neither process counts", || {
        home.ok(&["run", "true"]);
        let now = counts();
        let same = now == before;
        before = now;
        same.then_some(())
    });
    // It stays paused after a crash of the daemon.
    home.kill_daemon();
    until("it is found again", || paused(&home));
    home.ok(&["run", "true"]);
    assert_eq!(counts(), before);
    home.ok(&["limit", &id, "output=1M"]);
    until("it continues", || (counts()[0] != before[0] && counts()[1] != before[1]).then_some(()));
    std::fs::write(home.work().join("end"), "").unwrap();
    assert_eq!(home.run(&["wait", &id]).code, 0);
    let kinds = home.ok(&["events", &id]);
    assert!(
        kinds.contains("paused") && kinds.contains("unpaused") && !kinds.contains("limit_fired"),
        "{kinds}"
    );
}

#[test]
fn a_paused_job_can_be_cancelled_and_leaves_nothing_running() {
    let home = Home::new();
    let script = "echo $$; setsid sleep 1000 & echo $!; head -c 4096 /dev/zero | tr '\\0' '\\n'; sleep 1000";
    let id = home.ok(&["run", "-d", "--output-max", "1k", "--ask-at-limit", "10m", "sh", "-c", script]);
    until("it is paused", || (!home.json(&["show", &id])["paused"].is_null()).then_some(()));
    let pids = home.pids_of(&id, 2);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    home.ok(&["cancel", &id]);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    assert_eq!(home.run(&["wait", &id]).code, 3);
}
