//! What a person has read: endings are marked by what is shown at a terminal, and by nothing else.

use crate::home::Home;
use crate::terminal::shown_at_terminal;

fn unread(home: &Home) -> usize {
    home.json(&["ls", "--unread"])["items"].as_array().unwrap().len()
}

#[test]
fn c61_an_ending_is_unread_until_a_person_has_looked() {
    let home = Home::new();
    for words in [&["show"][..], &["result"], &["wait"], &["attach"], &["cancel"]] {
        let id = home.start("exit 3");
        let words = [words, &[&id]].concat();
        home.run(&["wait", &id]);
        home.run(&words);
        home.run(&[&words[..], &["--json"]].concat());
        shown_at_terminal(&home, &["ls", "-a"], &[]);
        shown_at_terminal(&home, &[&words[..], &["--json"]].concat(), &[]);
        shown_at_terminal(&home, &words, &[("CLAUDECODE", "1")]);
        shown_at_terminal(&home, &[&words[..], &["| cat"]].concat(), &[]);
        assert_eq!(unread(&home), 1, "{words:?} by a program or an agent marks nothing, nor does a list");
        shown_at_terminal(&home, &words, &[]);
        assert_eq!(unread(&home), 0, "{words:?} at a terminal");
    }
    shown_at_terminal(&home, &["run", "false"], &[]);
    assert_eq!(unread(&home), 0, "a person watched it end");
    for _ in 0..3 {
        home.run(&["run", "false"]);
    }
    assert_eq!(unread(&home), 3);
    home.ok(&["seen", "@last"]);
    assert_eq!(home.json(&["seen", "--all"])["seen"], 2);
    assert_eq!(unread(&home), 0);
    let live = home.start("sleep 100");
    home.run(&["run", "false"]);
    let refused = home.run(&["seen", &live, "@last", "nobody"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert_eq!(unread(&home), 0, "the others are marked: {refused:?}");
    assert!(refused.stderr.contains("has not ended"), "{refused:?}");
}

#[test]
fn c62_a_list_of_live_jobs_names_what_ended_unread() {
    let home = Home::new();
    home.run(&["run", "--name", "old", "sh", "-c", "exit 4"]);
    home.run(&["run", "--name", "new", "true"]);
    let shown = shown_at_terminal(&home, &["ls"], &[]);
    assert!(
        shown.contains("ended, not read: old (failed), new (completed); `lastword ls --unread`"),
        "{shown}"
    );
    assert_eq!(home.run(&["ls"]).stderr, "no jobs queued or running; `lastword ls -a` includes ended ones\n");
    let listed = home.ok(&["ls", "--unread"]);
    assert!(listed.contains("new") && listed.contains("old"), "{listed}");
    home.ok(&["seen", "--all"]);
    let shown = shown_at_terminal(&home, &["ls"], &[]);
    assert!(!shown.contains("not read"), "{shown}");
}

#[test]
fn a_list_is_filtered_by_folder_and_time() {
    let home = Home::new();
    let inner = home.work().join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    home.run(&["run", "--name", "here", "true"]);
    home.run(&["run", "--name", "inner", "-C", inner.to_str().unwrap(), "true"]);
    let names = |words: &[&str]| -> Vec<String> {
        let page = home.json(&[&["ls", "-a"], words].concat());
        page["items"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["--folder", "."]), ["inner", "here"]);
    assert_eq!(names(&["--folder", inner.to_str().unwrap()]), ["inner"]);
    assert_eq!(names(&["--folder", "inner/.."]), ["inner", "here"]);
    assert_eq!(names(&["--since", "1h"]), ["inner", "here"]);
    assert_eq!(names(&["--parent", "here"]), [""; 0]);
    assert_eq!(home.run(&["ls", "--parent", "nobody"]).code, 125);
    assert_eq!(home.run(&["events", "here", "--folder", "."]).code, 2);
    let told = home.ok(&["events", "--folder", "inner", "--type", "last_word", "--since", "1h"]);
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn labels_are_changed_while_a_job_lives() {
    let home = Home::new();
    let id = home.ok(&["run", "-d", "--name", "job", "--label", "team=core", "sleep", "100"]);
    assert_eq!(home.ok(&["label", "job", "stage=review", "team=docs"]), "stage=review\nteam=docs");
    assert_eq!(home.ok(&["ls", "-q", "--label", "stage=review"]), id);
    assert_eq!(home.ok(&["label", "job", "--remove", "team"]), "stage=review");
    assert_eq!(home.ok(&["ls", "-q", "--label", "team=docs"]), "");
    assert_eq!(home.ok(&["label", "job"]), "stage=review");
    let told = home.ok(&["events", "job", "--type", "labels_changed"]);
    assert_eq!(told.lines().count(), 2, "{told}");
    assert_eq!(home.run(&["label", "job", "a=b", "--remove", "a"]).code, 2);
    home.ok(&["kill", "job"]);
    let refused = home.run(&["label", "job", "a=b"]);
    assert_eq!(refused.code, 125, "{refused:?}");
    let again = home.ok(&["retry", "-d", "job"]);
    assert_eq!(home.ok(&["label", &again]), "stage=review", "a repeated job has its labels");
}
