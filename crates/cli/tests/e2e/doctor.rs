//! `doctor`: on a healthy installation, with each part broken, and after its suggested fixes.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::executable::lastword;
use crate::home::{Home, is_alive, run_command, signal, until};
use crate::plain::plain_text;

/// A uid that owns nothing.
const NOBODYS_UID: u32 = 54_321;

/// Returns the result of one check.
fn check(home: &Home, id: &str) -> Value {
    let output = home.run(&["doctor", "--json"]);
    let list: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let items = list["items"].as_array().unwrap();
    let failed = items.iter().any(|item| item["status"] == "fail");
    assert_eq!(output.code, i32::from(failed), "{output:?}");
    items.iter().find(|item| item["id"] == id).unwrap_or_else(|| panic!("{id}: {list}")).clone()
}

fn status(home: &Home, id: &str) -> String {
    check(home, id)["status"].as_str().unwrap().to_owned()
}

/// Returns a screen without lines that depend on this machine.
fn screen(home: &Home, text: &str) -> String {
    let machine =
        ["containment", "git", "kernel", "limits", "disk", "linger", "needs systemd", "orphans", "agent"];
    let lines = text.lines().filter(|line| !machine.iter().any(|word| line.contains(word)));
    plain_text(home, &lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn doctor_creates_nothing_in_a_fresh_home() {
    let home = Home::empty();
    let looked = home.run(&["doctor"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    assert!(looked.stderr.starts_with("no check failed; "), "{looked:?}");
    insta::assert_snapshot!("doctor_fresh", screen(&home, &looked.stdout));
    assert!(!home.state().exists(), "it started no daemon");
}

#[test]
fn doctor_does_not_disturb_a_running_daemon() {
    let home = Home::new();
    let (id, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let pid = home.daemon_pid();
    let looked = home.run(&["doctor"]);
    assert_eq!(looked.code, 0, "{looked:?}");
    let text =
        looked.stdout.replace(&pid.to_string(), "<pid>").replace(env!("CARGO_PKG_VERSION"), "<version>");
    let sizes = text.lines().map(|line| match line.split_once("intact: ") {
        Some((before, _)) => format!("{before}intact: <sizes>"),
        None => line.to_owned(),
    });
    insta::assert_snapshot!("doctor_at_work", screen(&home, &sizes.collect::<Vec<_>>().join("\n")));
    assert_eq!(home.daemon_pid(), pid);
    assert!(is_alive(pids[0]));
    assert_eq!(home.json(&["show", &id])["phase"], "running");
}

#[test]
fn the_ids_in_json_output_are_stable() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    let list = home.json(&["doctor"]);
    assert!(list["next_cursor"].is_null());
    let items = list["items"].as_array().unwrap();
    let fields: Vec<&String> = items[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["fixed", "id", "remedy", "status", "text"]);
    let ids: Vec<&str> = items.iter().map(|item| item["id"].as_str().unwrap()).collect();
    // The ids of installed agents contain their names.
    let ids: Vec<&str> = ids.into_iter().filter(|id| !id.starts_with("agent.")).collect();
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
            "trees",
            "containment.subreaper",
            "containment.landlock",
            "containment.cgroup",
            "containment.namespace",
            "service",
            "agents",
            "linger",
            "git",
            "kernel",
            "orphans",
            "limits.files",
            "limits.processes",
        ]
    );
}

/// Writes the first turn of a recorded session when it has read a message, as Claude Code does.
const RECORDED: &str = r#"
import json, sys
while json.loads(sys.stdin.readline())["type"] != "user":
    pass
lines = iter(open(sys.argv[1]).read().splitlines())
while json.loads(next(lines)[2:])["type"] != "user":
    pass
for line in lines:
    print(line[2:], flush=True)
    if json.loads(line[2:])["type"] == "result":
        break
sys.stdin.read()
"#;

#[test]
fn claude_answers_if_its_first_turn_completes() {
    let home = Home::new();
    let streams = concat!(env!("CARGO_MANIFEST_DIR"), "/../agents/tests/streams");
    let agent = |name: &str, stream: &str| {
        let command = ["python3", "-c", RECORDED, &format!("{streams}/{stream}")];
        format!("[{name}]\ndialect = 'claude'\ncommand = {}\n", serde_json::to_string(&command).unwrap())
    };
    let known = agent("works", "claude-turns.txt") + &agent("fails", "claude-errors.txt");
    crate::agents::define(&home, &known);
    let list: serde_json::Value =
        serde_json::from_str(&home.run(&["doctor", "--json", "--agents"]).stdout).unwrap();
    let check = |id: &str| {
        let check = list["items"].as_array().unwrap().iter().find(|item| item["id"] == id).unwrap();
        (check["status"].as_str().unwrap().to_owned(), check["text"].as_str().unwrap().to_owned())
    };
    let (status, text) = check("agent.works");
    let answers = text.ends_with("answers, session 14c8c3d7-5005-4076-8620-6a17d82e562c");
    assert!(status == "ok" && answers, "{status}: {text}");
    let (status, text) = check("agent.fails");
    assert!(status == "warn" && text.contains("API Error: 500"), "{status}: {text}");
}

#[test]
fn a_hanging_daemon_is_detected_and_the_remedy_works() {
    let home = Home::new();
    let (_, pids) = home.start_with_pids("echo $$; sleep 100", 1);
    let pid = home.daemon_pid();
    signal(pid, Signal::STOP);
    let hung = check(&home, "daemon");
    assert_eq!(hung["status"], "fail", "{hung}");
    let remedy = hung["remedy"].as_str().unwrap();
    assert!(remedy.starts_with(&format!("kill -KILL {pid} ")), "{remedy}");
    signal(pid, Signal::KILL);
    let gone = until("its lock is released", || {
        let look = check(&home, "daemon");
        look["text"].as_str().unwrap().contains("did not stop normally").then_some(look)
    });
    assert_eq!((&gone["status"], &gone["remedy"]), (&"warn".into(), &"lastword daemon start".into()));
    home.ok(&["daemon", "start"]);
    assert_eq!(status(&home, "daemon"), "ok");
    assert!(is_alive(pids[0]), "the job keeps running");
    home.ok(&["daemon", "stop"]);
    assert_eq!(status(&home, "daemon"), "ok", "a stopped daemon is not an error");
}

#[test]
fn a_daemon_of_another_version_and_a_foreign_listener_are_detected() {
    for (answer, id, status, words) in [
        (
            "HTTP/1.1 200 OK\r\nlastword-version: 99.0.0\r\ncontent-length: 2\r\n\r\n{}",
            "version",
            "warn",
            "99.0.0",
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "daemon", "fail", "is not a Lastword daemon"),
        ("", "daemon", "fail", "does not answer"),
    ] {
        let home = Home::empty();
        let other = crate::strangers::stand_in(&home, answer);
        let look = check(&home, id);
        other.join().unwrap();
        assert_eq!(look["status"], status, "{look}");
        assert!(look["text"].as_str().unwrap().contains(words), "{look}");
        std::fs::remove_file(home.state().join("lastword.sock")).unwrap();
    }
}

#[test]
fn a_folder_with_other_things_in_it_is_not_closed() {
    let home = Home::empty();
    std::fs::create_dir_all(home.state()).unwrap();
    std::fs::write(home.state().join("theirs"), "").unwrap();
    std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(home.run(&["doctor", "--fix"]).code, 1);
    assert_eq!(std::fs::metadata(home.state()).unwrap().permissions().mode() & 0o777, 0o755);
    let found = check(&home, "state");
    assert!(found["status"] == "fail" && !found["remedy"].as_str().unwrap().contains("chmod"), "{found}");
}

#[test]
fn files_accessible_to_others_are_detected_and_fixed_on_request() {
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
        "nothing is left to fix"
    );
}

#[test]
fn a_damaged_journal_is_detected_with_and_without_a_daemon_and_not_changed() {
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
    assert_eq!(std::fs::read(&file).unwrap(), damaged, "a damaged journal is not changed");
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
fn invalid_settings_and_units_that_would_kill_jobs_are_detected() {
    let home = Home::empty();
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
    for (from, to) in [("KillMode=process", "KillMode=mixed"), (lastword(), "/gone/lastword")] {
        std::fs::write(&service, unit.replace(from, to)).unwrap();
        let look = check(&home, "service");
        assert_eq!(
            (&look["status"], &look["remedy"]),
            (&"fail".into(), &"lastword daemon install".into()),
            "{look}"
        );
    }
    home.ok(&["daemon", "install"]);
    assert_eq!(status(&home, "service"), "ok", "the remedy works");
}

#[test]
fn doctor_works_inside_a_job_and_without_git() {
    let home = Home::new();
    let program = lastword();
    let inside = home.run(&["run", program, "doctor", "--json"]);
    assert_eq!(inside.code, 0, "{inside:?}");
    let mut command = home.command(&["doctor", "--json"]);
    command.env("PATH", "/nowhere");
    let without = run_command(command);
    assert_eq!(without.code, 0, "{without:?}");
    let list: Value = serde_json::from_str(&without.stdout).unwrap();
    let git = list["items"].as_array().unwrap().iter().find(|item| item["id"] == "git").unwrap().clone();
    assert_eq!(git["status"], "warn", "{git}");
}

#[test]
fn any_user_can_run_doctor_and_a_read_only_home_is_detected() {
    let home = Home::new();
    home.ok(&["run", "true"]);
    home.ok(&["daemon", "stop"]);
    if !rustix::process::geteuid().is_root() {
        let command = home.command(&["doctor", "--json"]);
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o500)).unwrap();
        assert_eq!(looked_at(command, &["state", "journal"]), ["fail", "ok"], "it is readable nevertheless");
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
        return;
    }
    // The executable may be in a folder that other users cannot access.
    let public = tempfile::tempdir().unwrap();
    std::fs::set_permissions(public.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = public.path().join("lastword");
    let looking = home.command(&["doctor", "--json"]);
    std::fs::copy(looking.get_program(), &program).unwrap();
    let as_nobody = || {
        let mut command = std::process::Command::new(&program);
        command.args(looking.get_args()).stdin(std::process::Stdio::null());
        command.envs(looking.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.uid(NOBODYS_UID).gid(NOBODYS_UID).current_dir("/");
        command
    };
    // The folder of the test is private, so other users cannot reach the home at all.
    assert_eq!(looked_at(as_nobody(), &["state"]), ["fail"]);
    let mut command = as_nobody();
    command.env("LASTWORD_HOME", "/not/to/be/made");
    assert_eq!(looked_at(command, &["state"]), ["fail"]);
    // Root can write anywhere except on a read-only mount.
    let mut command = std::process::Command::new("unshare");
    let script = r#"mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@""#;
    command.args(["--mount", "sh", "-c", script]).arg(home.state());
    command.arg(looking.get_program()).args(looking.get_args());
    command.envs(looking.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(looked_at(command, &["state", "journal"]), ["fail", "ok"], "it is readable nevertheless");
}

/// Runs a failing `doctor` and returns the status of some checks.
fn looked_at(command: std::process::Command, ids: &[&str]) -> Vec<String> {
    let output = run_command(command);
    assert_eq!(output.code, 1, "{output:?}");
    let list: Value =
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let items = list["items"].as_array().unwrap();
    let status = |id: &&str| {
        items.iter().find(|item| item["id"] == *id).unwrap()["status"].as_str().unwrap().to_owned()
    };
    ids.iter().map(status).collect()
}

/// A leaked process, killed when dropped.
struct Left(lastword_proc::Identity);

impl Drop for Left {
    fn drop(&mut self) {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.0.pid));
        let children = children.unwrap_or_default();
        let below: Vec<_> = children
            .split_whitespace()
            .filter_map(|pid| lastword_proc::Identity::of(pid.parse().ok()?))
            .collect();
        for one in below.iter().chain([&self.0]) {
            let _ = one.signal(Signal::KILL);
        }
    }
}

/// Leaks a process whose session has ended.
fn leave(home: &Home, line: &str, env: &[(&str, &str)]) -> Left {
    let mut command = std::process::Command::new("setsid");
    command.args([
        "--wait",
        "env",
        "--default-signal=HUP",
        "sh",
        "-c",
        &format!("{line} >/dev/null 2>&1 & echo $!"),
    ]);
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(env.iter().copied()).current_dir(home.work());
    let left = run_command(command);
    assert_eq!(left.code, 0, "{left:?}");
    let pid = left.stdout.trim().parse().unwrap();
    // Before its program runs, it looks like the shell.
    until("its program runs", || {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
        (!["sh", "nohup"].contains(&name.trim())).then_some(())
    });
    Left(lastword_proc::Identity::of(pid).unwrap())
}

/// Waits until an orphan is listed, and returns its row.
fn shown(home: &Home, left: &Left) -> Value {
    until("it is listed", || {
        let list = home.json(&["doctor", "--orphans"]);
        list["items"].as_array().unwrap().iter().find(|item| item["pid"] == left.0.pid).cloned()
    })
}

#[test]
fn c22_orphans_of_agents_are_listed_and_ended_only_by_identity() {
    let home = Home::new();
    let server = home.path().join("mcp-server-left");
    std::fs::copy("/bin/sh", &server).unwrap();
    let line = format!("{} -c 'sleep 300; :'", server.display());
    let gone = i32::MAX.to_string();
    let of_claude = [("CLAUDECODE", "1"), ("CLAUDE_PID", gone.as_str())];
    let (leak, namesake) = (leave(&home, &line, &[]), leave(&home, &line, &[]));
    let tool = leave(&home, "sleep 300", &of_claude);
    let meant = leave(&home, "nohup sleep 301", &of_claude);
    let look_alike = leave(&home, "sleep 302", &[]);

    let found = shown(&home, &leak);
    assert_eq!(
        (&found["kind"], &found["agent"], &found["doubt"]),
        (&"server".into(), &Value::Null, &Value::Null)
    );
    assert_eq!(found["folder"], home.work().display().to_string());
    assert!(
        found["memory_bytes"].as_u64().unwrap() > 0 && found["age_ms"].as_u64().unwrap() < 60_000,
        "{found}"
    );
    let found = shown(&home, &tool);
    assert_eq!(
        (&found["kind"], &found["agent"], &found["doubt"]),
        (&"tool".into(), &"claude".into(), &Value::Null)
    );
    let found = shown(&home, &meant);
    assert!(found["doubt"].as_str().unwrap().contains("nohup"), "{found}");
    let mut command = home.command(&["doctor", "--orphans"]);
    command.env("COLUMNS", "300");
    let listed = run_command(command).stdout;
    // Compared by pid: other users may run the same tests.
    let pids: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let shown = [&leak, &namesake, &tool, &meant, &look_alike]
        .map(|left| pids.iter().filter(|pid| **pid == left.0.pid.to_string()).count());
    assert_eq!(shown, [1, 1, 1, 1, 0], "{listed}");
    let look = check(&home, "orphans");
    assert_eq!((&look["status"], &look["remedy"]), (&"warn".into(), &"lastword doctor --orphans".into()));

    // No signal is sent to a process that is not an orphan, has another start time, or was not named.
    for refused in
        [look_alike.0.pid.to_string(), "1".to_owned(), format!("{}:{}", leak.0.pid, leak.0.start_ticks + 1)]
    {
        let output =
            home.run(&["doctor", "--orphans", "--reap", &tool.0.pid.to_string(), "--reap", &refused]);
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.stderr.contains("no signal was sent"), "{output:?}");
    }
    for words in [&["--reap-all"][..], &["--reap", "mcp-server-left"], &["--reap-all", "--reap", "1"]] {
        assert_eq!(home.run(&[&["doctor", "--orphans"], words].concat()).code, 2, "{words:?}");
    }
    let all = [&leak, &namesake, &tool, &meant, &look_alike];
    assert!(all.iter().all(|left| left.0.is_alive()), "no signal was sent");

    let named = format!("{}:{}", leak.0.pid, leak.0.start_ticks);
    let ended = home.json(&["doctor", "--orphans", "--reap", &named]);
    let ended = &ended["items"][0];
    assert_eq!(
        (&ended["pid"], &ended["ended"]["left"]),
        (&leak.0.pid.into(), &Value::Array(vec![])),
        "{ended}"
    );
    assert_eq!(ended["ended"]["processes"].as_array().unwrap().len(), 2, "with its child: {ended}");
    assert!(!leak.0.is_alive());
    let told = home.ok(&[
        "doctor",
        "--orphans",
        "--reap",
        &tool.0.pid.to_string(),
        "--reap",
        &meant.0.pid.to_string(),
    ]);
    assert!(told.contains("tool of claude  ended by TERM") && told.contains("sleep 301"), "{told}");
    assert!(!tool.0.is_alive() && !meant.0.is_alive());
    assert!(namesake.0.is_alive() && look_alike.0.is_alive(), "a similar name is no reason");
}
