//! Requests from inside a job.

use crate::home::{Home, is_alive};

#[test]
fn no_daemon_is_started_from_inside_a_job() {
    let home = Home::new();
    let other = home.path("other");
    let script = format!("unset LASTWORD_JOB_ID; LASTWORD_HOME={} exec \"$LASTWORD\" ls", other.display());
    let said = home.say(&["run", "--", "sh", "-c", &script]);
    assert_eq!(said.code, 125, "{}{}", said.out, said.err);
    assert!(said.err.contains("inside a job"), "{}", said.err);
    assert!(!other.join("journal.db").exists(), "nothing was started there");
}

#[test]
fn a_job_may_control_its_children_but_no_other_jobs() {
    let home = Home::new();
    home.good(&["daemon", "start", "--set", "slots=4"]);
    let other = home.start("sleep 100");
    let leader = home.leader(&other);
    let inside =
        |command: &str| home.say(&["run", "--", "sh", "-c", &format!("exec \"$LASTWORD\" {command}")]);
    for command in [
        format!("cancel {other} --force"),
        format!("limit {other} wall=1s"),
        format!("rm {other}"),
        "daemon stop".to_owned(),
        "prune --older-than 0s --yes".to_owned(),
        "group set default --slots 1".to_owned(),
    ] {
        let said = inside(&command);
        assert_eq!(said.code, 125, "{command}: {}{}", said.out, said.err);
        assert!(said.err.contains("from inside job_"), "{command}: {}", said.err);
    }
    assert!(is_alive(leader));
    let said = inside("run -- sh -c 'echo from a child; exit 9'");
    assert_eq!((said.code, said.out.trim()), (9, "from a child"), "{}", said.err);
    let child = home.show("@last");
    assert!(child["parent"].as_str().is_some_and(|parent| parent.starts_with("job_")), "{child}");
}
