//! `daemon`: started automatically and by hand, stopped, shown, and refused.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;

use crate::executable::lastword;
use crate::home::{Home, is_alive, run_command, signal, until};
use crate::plain::{plain, plain_text};

#[test]
fn a_daemon_starts_automatically_and_reports_its_status() {
    let home = Home::new();
    let before = home.run(&["daemon", "status"]);
    assert_eq!(before.code, 1, "{before:?}");
    assert_eq!(
        before.stderr,
        "lastword: no daemon is running\n  lastword daemon start    # or any other command, which starts one when needed\n"
    );
    home.ok(&["run", "true"]);
    let status = plain(&home, &home.ok(&["daemon", "status"]));
    insta::assert_snapshot!(
        "daemon_status",
        status
            .replace("contained in a control group", "<level>")
            .replace("contained by its keeper, which it cannot signal", "<level>")
            .replace("contained by its keeper", "<level>")
    );
    let pid = home.daemon_pid();
    let output = home.run(&["daemon", "start"]);
    assert_eq!(output.stderr, format!("a daemon is already running (pid {pid})\n"));
    assert_eq!(home.run(&["daemon", "stop"]).stderr, "daemon stopped; jobs keep running\n");
    assert!(!is_alive(pid));
    let output = home.run(&["daemon", "stop"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, "no daemon is running\n"));
    home.ok(&["daemon", "start"]);
    assert_ne!(home.daemon_pid(), pid);
    let other = home.daemon_pid();
    home.ok(&["daemon", "restart"]);
    assert!(!is_alive(other) && home.daemon_pid() != other);
}

#[test]
fn a_home_may_be_a_symbolic_link() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    let link = home.path().join("link");
    std::os::unix::fs::symlink(home.state(), &link).unwrap();
    let mut command = home.command(&["ls", "-a", "-q"]);
    command.env("LASTWORD_HOME", &link);
    let listed = run_command(command);
    assert_eq!((listed.code, listed.stdout.lines().count()), (0, 1), "{listed:?}");
}

#[test]
fn a_restart_does_not_disturb_running_commands() {
    let home = Home::new();
    home.ok(&["daemon", "start"]);
    // A `run` may start the next daemon before the restart does; that is not the one that was asked to stop.
    for _ in 0..8 {
        let restarting = home.spawn(&["daemon", "restart"]);
        for _ in 0..6 {
            let output = home.run(&["run", "true"]);
            assert_eq!(output.code, 0, "{output:?}");
        }
        let output = restarting.end();
        assert_eq!(output.code, 0, "{output:?}");
    }
}

#[test]
fn no_daemon_is_started_if_autostart_is_disabled() {
    let home = Home::empty();
    let mut command = home.command(&["ls"]);
    command.env("LASTWORD_NO_AUTOSTART", "1");
    let refused = run_command(command);
    assert_eq!(refused.code, 125);
    assert!(
        refused.stderr.contains("LASTWORD_NO_AUTOSTART") && refused.stderr.contains("lastword daemon start"),
        "{refused:?}"
    );
    assert!(!home.state().exists(), "nothing was created");
}

#[test]
fn a_stopped_daemon_leaves_its_jobs_running_or_cancels_them() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    home.ok(&["daemon", "stop"]);
    assert!(is_alive(pids[0]));
    assert_eq!(home.json(&["show", &id])["phase"], "running", "the next daemon has taken it over");
    let stopped = home.run(&["daemon", "stop", "--cancel-jobs"]);
    assert_eq!(stopped.stderr, "all jobs were cancelled, and the daemon was stopped\n");
    assert!(!is_alive(pids[0]));
    let job = home.json(&["show", &id]);
    assert_eq!((&job["outcome"], &job["cause"]), (&"cancelled".into(), &"shutdown".into()), "{job}");
}

#[test]
fn one_signal_stops_a_daemon_and_two_cancel_its_jobs() {
    let home = Home::new();
    let mut foreground = home.command(&["daemon", "run"]);
    let mut child = foreground.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    until("it listens", || home.state().join("lastword.sock").exists().then_some(()));
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    assert_eq!(home.daemon_pid(), pid);
    signal(pid, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(is_alive(pids[0]));
    assert_eq!(home.json(&["show", &id])["phase"], "running");
    // A second signal before it has stopped cancels its jobs.
    let daemon = home.daemon_pid();
    let log = home.state().join("daemon.log");
    until("it is gone", || {
        if is_alive(daemon) {
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_raw(daemon).unwrap(), Signal::TERM);
        }
        (!is_alive(daemon)).then_some(())
    });
    if std::fs::read_to_string(&log).unwrap().contains("second stop signal") {
        assert!(!is_alive(pids[0]));
        assert_eq!(home.json(&["show", &id])["cause"], "shutdown");
    }
}

#[test]
fn the_log_is_reopened_on_sighup() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    let (log, moved) = (home.state().join("daemon.log"), home.state().join("moved"));
    std::fs::rename(&log, &moved).unwrap();
    signal(home.daemon_pid(), Signal::HUP);
    until("there is a new log", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("reopened")).then_some(())
    });
    assert!(std::fs::read_to_string(&moved).unwrap().contains(" is listening"));
    let mode = std::fs::metadata(&log).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn all_files_of_a_daemon_are_private() {
    let home = Home::new();
    let id = home.start("echo secret");
    home.ok(&["wait", &id]);
    let mut folders = vec![home.state(), home.worker()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.path());
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert_eq!(std::fs::metadata(home.state()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_first_command_shows_why_a_daemon_cannot_start() {
    let home = Home::new();
    std::fs::create_dir(home.state()).unwrap();
    std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = home.run(&["ls"]);
    assert_eq!(refused.code, 125);
    insta::assert_snapshot!("folder_not_private", plain_text(&home, &refused.stderr));
    std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(home.state().join("journal.db"), "not a database").unwrap();
    let refused = home.run(&["run", "true"]);
    assert_eq!(refused.code, 125);
    insta::assert_snapshot!("journal_damaged", plain_text(&home, &refused.stderr));
    let refused = home.run(&["--json", "ls"]);
    let problem: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap();
    assert_eq!((&problem["code"], refused.code), (&"corrupt".into(), 125));
    std::fs::remove_file(home.state().join("journal.db")).unwrap();
    home.ok(&["ls"]);
}

#[test]
fn settings_can_be_overridden_for_one_daemon() {
    let home = Home::new();
    home.ok(&["daemon", "start", "--set", "slots=9"]);
    assert_eq!(home.json(&["group", "ls"])["items"][0]["slots"], 9);
    home.ok(&["daemon", "stop"]);
    let refused = home.run(&["daemon", "start", "--set", "slotz=9"]);
    assert!(refused.code == 125 && refused.stderr.contains("did you mean `slots`"), "{refused:?}");
    assert_eq!(home.run(&["daemon", "run", "--set", "slots"]).code, 2);
}

#[test]
fn units_are_installed_and_removed() {
    let home = Home::empty();
    let written = home.run(&["daemon", "install"]);
    assert_eq!(written.code, 0, "{written:?}");
    insta::assert_snapshot!("install", plain_text(&home, &format!("{}{}", written.stdout, written.stderr)));
    let folder = home.path().join(".config/systemd/user");
    let service = std::fs::read_to_string(folder.join("lastword.service")).unwrap();
    insta::assert_snapshot!("service", plain_text(&home, &service.replace(lastword(), "<lastword>")));
    insta::assert_snapshot!(
        "socket",
        plain_text(&home, &std::fs::read_to_string(folder.join("lastword.socket")).unwrap())
    );
    home.ok(&["daemon", "uninstall"]);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    assert_eq!(home.run(&["daemon", "uninstall"]).code, 0);
}

#[test]
fn a_daemon_that_always_dies_is_not_restarted_forever() {
    let home = Home::new();
    let listed = home.command(&["ls"]);
    // With this limit, the kernel kills a process that writes to a file: the daemon, before it can report.
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(r#"ulimit -f 0; exec "$0" ls"#).arg(listed.get_program());
    command.envs(listed.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let refused = run_command(command);
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("died while starting"), "{refused:?}");
    assert_eq!(home.run(&["ls"]).code, 0, "and it leaves nothing behind that prevents the next start");
}

#[test]
fn a_daemon_does_not_inherit_loader_variables_from_its_client() {
    let home = Home::new();
    let mut command = home.command(&["daemon", "start"]);
    command.env("LD_LIBRARY_PATH", "/nowhere").env("LD_AUDIT", "/nowhere/evil.so").env("MINE", "kept");
    assert_eq!(run_command(command).code, 0);
    let env = std::fs::read(format!("/proc/{}/environ", home.daemon_pid())).unwrap();
    let env = String::from_utf8_lossy(&env).replace('\0', "\n");
    assert!(env.contains("MINE=kept") && !env.contains("LD_"), "{env}");
}
