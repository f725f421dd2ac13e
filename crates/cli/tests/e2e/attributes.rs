//! Umask, resource limits and nice value: a job gets those of the command that submitted it, not the daemon's.

use std::process::Command;

use crate::home::{Home, Output, run_command};

/// Prints the attributes of a job.
const PROBE: &str = "umask; ulimit -n; nice";

/// Runs `lastword` in a shell after a setup command.
fn after(home: &Home, first: &str, words: &[&str]) -> Output {
    let inner = home.command(words);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{first} \"$0\" \"$@\"")).arg(inner.get_program()).args(inner.get_args());
    command.current_dir(home.work()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(std::process::Stdio::null());
    run_command(command)
}

#[test]
fn a_job_has_the_umask_limits_and_nice_value_of_its_caller() {
    let home = Home::new();
    let started = after(&home, "umask 077; ulimit -S -n 512; exec", &["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let caller = "umask 027; ulimit -n 123; exec nice -n 3";
    let run = after(&home, caller, &["run", "--", "sh", "-c", PROBE]);
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("0027\n123\n3\n", ""));
    // They are stored until the job runs, whichever daemon starts it.
    let later = after(&home, caller, &["run", "-d", "--delay", "1s", "--", "sh", "-c", PROBE]);
    home.ok(&["daemon", "restart"]);
    let id = later.stdout.trim_end();
    home.ok(&["wait", id]);
    assert_eq!(home.ok(&["logs", id]), "0027\n123\n3");
    let again = after(&home, "umask 002; ulimit -n 77; exec nice -n 4", &["retry", id]);
    assert_eq!(again.stdout, "0002\n77\n4\n", "a retry has those of its own caller");
    let job = home.json(&["show", id]);
    assert_eq!(job["attempts"][0].get("withheld"), None, "{job}");
}

#[test]
fn the_files_of_the_keeper_stay_private_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let run = after(&home, "umask 0; exec", &["run", "--", "sh", "-c", "echo x | tee made"]);
    assert_eq!(run.code, 0, "{run:?}");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.work().join("made")), 0o666);
    let mut folders = vec![home.state()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            assert_eq!(mode(&path) & 0o077, 0, "{} is open to others", path.display());
            folders.extend(path.is_dir().then_some(path));
        }
    }
}

#[test]
fn attributes_that_an_unprivileged_daemon_cannot_set_are_reported() {
    let home = Home::new();
    // Root can raise limits unless the capability is dropped; others never can.
    let unprivileged = match rustix::process::geteuid().is_root() {
        true => "exec setpriv --bounding-set=-sys_resource,-sys_nice",
        false => "exec",
    };
    let poor = format!("ulimit -n 256; renice -n 2 -p $$ >/dev/null; {unprivileged}");
    let started = after(&home, &poor, &["daemon", "start"]);
    assert_eq!(started.code, 0, "{started:?}");
    let caller = format!("ulimit -n 1024; {unprivileged}");
    let run = after(&home, &caller, &["run", "--name", "rich", "--", "sh", "-c", PROBE]);
    assert_eq!(run.stdout, "0022\n256\n2\n", "as far as possible: {run:?}");
    let withheld = "nofile 1024:1024 (has 256:256), nice 0 (has 2)";
    let line = format!("lastword: the daemon could not give the job all of your limits: {withheld}\n");
    assert_eq!(run.stderr, line);
    assert_eq!(home.json(&["show", "rich"])["attempts"][0]["withheld"], withheld);
    assert!(home.ok(&["show", "rich"]).contains(withheld));
    let poorer = after(&home, "ulimit -n 99; exec nice -n 5", &["run", "--", "sh", "-c", PROBE]);
    assert_eq!((poorer.stdout.as_str(), poorer.stderr.as_str()), ("0022\n99\n5\n", ""));
}
