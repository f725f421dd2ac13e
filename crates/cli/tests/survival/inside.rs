//! Requests from inside a job.

use crate::home::{Home, is_alive};

#[test]
fn no_daemon_is_started_from_inside_a_job() {
    let home = Home::new();
    let other = home.path("other");
    let script = format!("unset LASTWORD_JOB_ID; LASTWORD_HOME={} exec \"$LASTWORD\" ls", other.display());
    let output = home.run(&["run", "--", "sh", "-c", &script]);
    assert_eq!(output.code, 125, "{}{}", output.out, output.err);
    assert!(output.err.contains("inside a job"), "{}", output.err);
    assert!(!other.join("journal.db").exists(), "nothing was started there");
}

#[test]
fn a_job_may_control_its_children_but_no_other_jobs() {
    let home = Home::new();
    home.ok(&["daemon", "start", "--set", "slots=4"]);
    let other = home.start("sleep 100");
    let leader = home.leader(&other);
    let inside =
        |command: &str| home.run(&["run", "--", "sh", "-c", &format!("exec \"$LASTWORD\" {command}")]);
    for command in [
        format!("cancel {other} --force"),
        format!("limit {other} wall=1s"),
        format!("rm {other}"),
        "daemon stop".to_owned(),
        "prune --older-than 0s --yes".to_owned(),
        "group set default --slots 1".to_owned(),
    ] {
        let output = inside(&command);
        assert_eq!(output.code, 125, "{command}: {}{}", output.out, output.err);
        assert!(output.err.contains("not allowed from inside "), "{command}: {}", output.err);
    }
    assert!(is_alive(leader));
    let output = inside("run -- sh -c 'echo from a child; exit 9'");
    assert_eq!((output.code, output.out.trim()), (9, "from a child"), "{}", output.err);
    let child = home.show("@last");
    assert!(child["parent"].as_str().is_some_and(|parent| parent.starts_with("job_")), "{child}");
}
