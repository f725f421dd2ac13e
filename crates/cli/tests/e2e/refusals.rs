//! Refusals name a job as its user does: by the name it was given, with its short id, and say what to do next.

use crate::agents::{define, start, until_asks, with_agent};
use crate::home::Home;

/// What is refused, of which job, and words of the reason.
const REFUSED: &[(&str, &str, &str)] = &[
    ("send done x", "done", "has ended"),
    ("interrupt done", "done", "has ended"),
    ("approve done q1-0000", "done", "has ended"),
    ("limit done wall=1h", "done", "has ended"),
    ("resume done again", "done", "it runs a command, not an agent"),
    ("diff done", "done", "worktree"),
    ("apply done", "done", "worktree"),
    ("logs done --attempt 7", "done", "there is no attempt 7"),
    ("rm live", "live", "has not ended yet"),
    ("retry live", "live", "has not ended yet"),
    ("result live", "live", "has not ended"),
    ("send live x", "live", "no input: it was not started with a pipe or a terminal"),
    ("interrupt live", "live", "no active turn"),
    ("approve live q1-0000", "live", "no open question"),
    ("attach -i live", "live", "reads no input"),
    ("resume asker again", "asker", "has not ended yet"),
    ("approve asker q1-0000", "asker", "no open question of that name"),
    ("rule rm asker r7", "asker", "no rule"),
    ("send asker --eof", "asker", "no input to close"),
];

#[test]
fn a_refusal_names_its_job_as_its_user_does() {
    let home = with_agent();
    home.ok(&["run", "--name", "done", "true"]);
    home.ok(&["run", "-d", "--name", "live", "sleep", "100"]);
    start(&home, &["--name", "asker", "ask make test"]);
    until_asks(&home, "asker", 1);
    for (line, name, reason) in REFUSED {
        let words: Vec<&str> = line.split(' ').collect();
        let output = home.run(&words);
        assert_ne!(output.code, 0, "{line}: {output:?}");
        let job = home.json(&["show", name]);
        let (id, short) = (job["id"].as_str().unwrap(), job["short"].as_str().unwrap());
        let first = output.stderr.lines().next().unwrap();
        assert!(first.contains(reason), "{line}: {output:?}");
        assert!(first.contains(&format!("{name} ({short})")), "{line}: {output:?}");
        assert!(!output.stderr.contains(id), "{line}: {output:?}");
    }
    let output = home.run(&["show", "dune"]);
    assert!(
        output.stderr.contains("no job matches `dune`") && output.stderr.contains("did you mean `done`?"),
        "{output:?}"
    );
    // A program gets the id.
    let problem = home.run(&["--json", "interrupt", "live"]).stderr;
    let problem: serde_json::Value = serde_json::from_str(problem.trim_end()).unwrap();
    assert_eq!(problem["job"], home.json(&["show", "live"])["id"]);
}

#[test]
fn a_name_that_means_a_newer_job_is_in_parentheses() {
    let home = with_agent();
    let first = home.ok(&["run", "-d", "--name", "twin", "true"]);
    home.ok(&["wait", "twin"]);
    let second = home.ok(&["retry", "-d", "twin"]);
    home.ok(&["wait", "twin"]);
    home.ok(&["run", "--name", "other", "true"]);
    assert_eq!(home.json(&["show", "twin"])["id"], second.as_str());
    let list = home.ok(&["ls", "-a"]);
    let name = |id: &str| {
        let line = list.lines().find(|line| line.starts_with(&id[id.len() - 8..])).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!((name(&first), name(&second)), ("(twin)".to_owned(), "twin".to_owned()), "{list}");
    assert!(list.contains(" other "), "{list}");
}

#[test]
fn another_number_of_answers_than_are_asked_for_is_refused_with_that_number() {
    let home = Home::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/scripted_asker.py");
    define(&home, &format!("[asker]\ndialect = 'codex'\ncommand = ['python3', '{script}']\n"));
    let id = home.ok(&["run", "-d", "--agent", "asker", "both which store"]);
    let question = until_asks(&home, &id, 1).remove(0);
    let name = question["id"].as_str().unwrap();
    let output = home.run(&["answer", &id, name, "SQLite"]);
    let why = "asks for 2 answers, but there are 1; put quotes around each";
    assert!(output.code == 2 && output.stderr.contains(why), "{output:?}");
    home.ok(&["answer", &id, name, "SQLite", "one file"]);
    assert_eq!(home.run(&["wait", &id]).code, 0);
}
