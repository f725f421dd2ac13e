//! `doctor`: sound, broken piece by piece, and mended by what it says.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::home::{Home, is_alive, said, signal, until};
use crate::plain::plain_text;

/// A user that owns nothing.
const NOBODYS_UID: u32 = 54_321;

/// Returns what the look at one thing found.
fn check(home: &Home, id: &str) -> Value {
    let said = home.run(&["doctor", "--json"]);
    let list: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let items = list["items"].as_array().unwrap();
    let failed = items.iter().any(|item| item["status"] == "fail");
    assert_eq!(said.code, i32::from(failed), "{said:?}");
    items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}: {list}")).clone()
}

fn status(home: &Home, id: &str) -> String {
    check(home, id)["status"].as_str().unwrap().to_owned()
}

/// Returns a screen without what this machine is like.
fn screen(home: &Home, text: &str) -> String {
    let machine = ["containment", "git", "kernel", "limits", "disk", "linger", "run it where"];
    let lines = text.lines().filter(|line| !machine.iter().any(|word| line.contains(word)));
    plain_text(home, &lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_fresh_home_is_sound_and_nothing_is_made() {
    let home = Home::new();
    let looked = home.run(&["doctor"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert!(looked.stderr.starts_with("nothing failed; "), "{looked:?}");
    insta::assert_snapshot!("doctor_fresh", screen(&home, &looked.stdout));
    assert!(!home.state().exists(), "no daemon was started for it");
}

#[test]
fn a_daemon_at_work_is_not_disturbed() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let pid = home.daemon_pid();
    let looked = home.run(&["doctor"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    let text =
        looked.stdout.replace(&pid.to_string(), "<pid>").replace(env!("CARGO_PKG_VERSION"), "<version>");
    let sizes = text.lines().map(|line| match line.split_once("is sound: ") {
        Some((before, _)) => format!("{before}is sound: <sizes>"),
        None => line.to_owned(),
    });
    insta::assert_snapshot!("doctor_at_work", screen(&home, &sizes.collect::<Vec<_>>().join("\n")));
    assert_eq!(home.daemon_pid(), pid);
    assert!(is_alive(pids[0]));
    assert_eq!(home.json(&["show", &id])["phase"], "running");
}

#[test]
fn what_is_printed_for_programs_keeps_its_names() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    let list = home.json(&["doctor"]);
    assert!(list["next_cursor"].is_null());
    let items = list["items"].as_array().unwrap();
    let fields: Vec<&String> = items[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["fixed", "id", "remedy", "status", "text"]);
    let ids: Vec<&str> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        [
            "settings",
            "state",
            "disk",
            "daemon",
            "version",
            "socket",
            "journal",
            "clock",
            "containment.subreaper",
            "containment.landlock",
            "containment.cgroup",
            "containment.namespace",
            "service",
            "linger",
            "git",
            "kernel",
            "limits.files",
            "limits.processes",
        ]
    );
}

#[test]
fn a_daemon_that_hangs_is_found_and_the_remedy_helps() {
    let home = Home::new();
    let (_, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let pid = home.daemon_pid();
    signal(pid, Signal::STOP);
    let hung = check(&home, "daemon");
    assert_eq!(hung["status"], "fail", "{hung}");
    let remedy = hung["remedy"].as_str().unwrap();
    assert!(remedy.starts_with(&format!("kill -KILL {pid} ")), "{remedy}");
    signal(pid, Signal::KILL);
    let gone = until("its lock is gone", || {
        let look = check(&home, "daemon");
        look["text"].as_str().unwrap().contains("did not stop in order").then_some(look)
    });
    assert_eq!((&gone["status"], &gone["remedy"]), (&"warn".into(), &"lastword daemon start".into()));
    home.ok(&["daemon", "start"]);
    assert_eq!(status(&home, "daemon"), "ok");
    assert!(is_alive(pids[0]), "the job went on");
    home.ok(&["daemon", "stop"]);
    assert_eq!(status(&home, "daemon"), "ok", "one that was stopped is not missed");
}

#[test]
fn what_others_may_look_at_is_found_and_mended_if_asked() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    let loosen = |name: &str, mode: u32| {
        std::fs::set_permissions(home.state().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    loosen("", 0o755);
    assert_eq!(status(&home, "state"), "fail");
    let mended = home.run(&["doctor", "--fix"]);
    assert_eq!(mended.code, 0, "{mended:?}");
    let lines = mended.stdout.lines().skip_while(|line| !line.contains("  state  "));
    let shown = plain_text(&home, &lines.take(2).collect::<Vec<_>>().join("\n"));
    insta::assert_snapshot!("doctor_mended", shown);
    assert_eq!(std::fs::metadata(home.state()).unwrap().permissions().mode() & 0o777, 0o700);
    loosen("lastword.sock", 0o666);
    assert_eq!(
        check(&home, "socket")["remedy"],
        format!("chmod 600 {}/lastword.sock", home.state().display())
    );
    home.ok(&["doctor", "--fix"]);
    assert_eq!(status(&home, "socket"), "ok");
    let again = home.json(&["doctor", "--fix"]);
    assert!(
        again["items"].as_array().unwrap().iter().all(|item| item["fixed"].is_null()),
        "nothing is left to do"
    );
}

#[test]
fn a_damaged_journal_is_found_with_a_daemon_and_without_and_is_left_as_it_is() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    home.ok(&["daemon", "stop"]);
    let file = home.state().join("journal.db");
    let sound = std::fs::read(&file).unwrap();
    let mut damaged = sound.clone();
    damaged[4096..4160].fill(0xa5);
    std::fs::write(&file, &damaged).unwrap();
    let look = check(&home, "journal");
    assert_eq!(look["status"], "fail", "{look}");
    assert!(look["remedy"].as_str().unwrap().contains("backup"), "{look}");
    home.run(&["doctor", "--fix"]);
    assert_eq!(std::fs::read(&file).unwrap(), damaged, "nothing was mended that needs a person");
    std::fs::write(&file, "not a database").unwrap();
    assert_eq!(status(&home, "journal"), "fail");
    std::fs::write(&file, &sound).unwrap();
    assert_eq!(status(&home, "journal"), "ok");
    home.ok(&["daemon", "start"]);
    std::fs::write(&file, &damaged).unwrap();
    assert_eq!(status(&home, "journal"), "fail");
    std::fs::write(&file, &sound).unwrap();
}

#[test]
fn settings_that_do_not_read_and_units_that_would_end_jobs_are_found() {
    let home = Home::new();
    std::fs::DirBuilder::new().mode(0o700).create(home.state()).unwrap();
    std::fs::write(home.state().join("config.toml"), "slotz = 3\n").unwrap();
    let look = check(&home, "settings");
    assert!(look["status"] == "fail" && look["text"].as_str().unwrap().contains("slots"), "{look}");
    std::fs::remove_file(home.state().join("config.toml")).unwrap();

    home.ok(&["daemon", "install"]);
    let folder = home.path().join(".config/systemd/user");
    let look = check(&home, "service");
    let enable = "systemctl --user enable --now lastword.socket";
    assert_eq!((&look["status"], &look["remedy"]), (&"warn".into(), &enable.into()), "{look}");
    std::fs::create_dir(folder.join("sockets.target.wants")).unwrap();
    let wanted = folder.join("sockets.target.wants/lastword.socket");
    std::os::unix::fs::symlink(folder.join("lastword.socket"), wanted).unwrap();
    assert_eq!(status(&home, "service"), "ok");
    let service = folder.join("lastword.service");
    let unit = std::fs::read_to_string(&service).unwrap();
    for (from, to) in
        [("KillMode=process", "KillMode=mixed"), (env!("CARGO_BIN_EXE_lastword"), "/gone/lastword")]
    {
        std::fs::write(&service, unit.replace(from, to)).unwrap();
        let look = check(&home, "service");
        assert_eq!(
            (&look["status"], &look["remedy"]),
            (&"fail".into(), &"lastword daemon install".into()),
            "{look}"
        );
    }
    home.ok(&["daemon", "install"]);
    assert_eq!(status(&home, "service"), "ok", "the remedy helps");
}

#[test]
fn it_works_inside_a_job_and_where_no_git_is() {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_lastword");
    let inside = home.run(&["run", program, "doctor", "--json"]);
    assert_eq!(inside.code, 0, "{inside:?}");
    let mut command = home.command(&["doctor", "--json"]);
    command.env("PATH", "/nowhere");
    let without = said(command);
    assert_eq!(without.code, 0, "{without:?}");
    let list: Value = serde_json::from_str(&without.stdout).unwrap();
    let git = list["items"].as_array().unwrap().iter().find(|item| item["id"] == "git").unwrap().clone();
    assert_eq!(git["status"], "warn", "{git}");
}

#[test]
fn any_user_may_ask_and_a_home_that_cannot_be_written_to_is_found() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    home.ok(&["daemon", "stop"]);
    let mut command = home.command(&["doctor", "--json"]);
    if !rustix::process::geteuid().is_root() {
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o500)).unwrap();
        assert_eq!(looked_at(command, &["state", "journal"]), ["fail", "ok"], "it can be read all the same");
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
        return;
    }
    // The folder of the test is closed to others: for them there is no way to the home at all.
    command.uid(NOBODYS_UID).gid(NOBODYS_UID).current_dir("/");
    assert_eq!(looked_at(command, &["state"]), ["fail"]);
    let mut command = home.command(&["doctor", "--json"]);
    command.uid(NOBODYS_UID).gid(NOBODYS_UID).current_dir("/").env("LASTWORD_HOME", "/not/to/be/made");
    assert_eq!(looked_at(command, &["state"]), ["fail"]);
    // Root may write anywhere but to what is mounted for reading only.
    let looking = home.command(&["doctor", "--json"]);
    let mut command = std::process::Command::new("unshare");
    let script = r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@""#;
    command.args(["--mount", "sh", "-c", script]).arg(home.state());
    command.arg(looking.get_program()).args(looking.get_args());
    command.envs(looking.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(looked_at(command, &["state", "journal"]), ["fail", "ok"], "it can be read all the same");
}

/// Runs a look that finds something wrong, and returns what it says of some things.
fn looked_at(command: std::process::Command, ids: &[&str]) -> Vec<String> {
    let said = said(command);
    assert_eq!(said.code, 1, "{said:?}");
    let list: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let items = list["items"].as_array().unwrap();
    let status = |id: &&str| {
        items.iter().find(|item| item["id"] == *id).unwrap()["status"].as_str().unwrap().to_owned()
    };
    ids.iter().map(status).collect()
}
