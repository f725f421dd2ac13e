//! Scans and ends real leaked processes, and lookalikes.

#![expect(clippy::disallowed_methods, reason = "the leaked processes must not have a keeper")]

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::command::argv_of;
use super::snapshot::{OURS, SeenProcess, Snapshot};
use super::{Kind, end, scan};
use crate::identity::{Identity, Stat};

/// A uid that owns nothing.
const UNUSED_UID: u32 = 54_321;

/// A process of a test, killed by identity when dropped.
struct Started(Identity);

impl Started {
    fn is_shown(&self) -> bool {
        scan().unwrap().iter().any(|orphan| orphan.identity == self.0)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let mut all = Snapshot::take().unwrap().below(self.0.pid);
        all.retain(|_| self.0.is_alive());
        let below: Vec<Identity> = all.into_iter().filter_map(Identity::of).collect();
        for identity in below.iter().chain([&self.0]) {
            let _ = identity.signal(Signal::KILL);
        }
    }
}

/// Copies a shell under another name into a folder, to run commands under that name.
fn program(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::copy("/bin/sh", &path).unwrap();
    path
}

/// Runs a shell command in its own session and returns the background process it left; the command must end in `&`.
fn leak(command: &mut Command, line: &str) -> Started {
    let mut shell = command.arg("-c").arg(format!("{line} echo $!")).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    shell.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(shell.wait().unwrap().success(), "{line}");
    Started(Identity::of(said.trim().parse().unwrap()).unwrap())
}

fn in_session() -> Command {
    let mut command = Command::new("setsid");
    // The test runner itself may have been started with nohup, or by an agent.
    command.args(["--wait", "env", "--default-signal=HUP", "/bin/sh"]);
    for mark in ["CLAUDECODE", "OPENCODE", "CODEX_THREAD_ID", "GEMINI_CLI"] {
        command.env_remove(mark);
    }
    command
}

/// Polls a condition that must become true.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        #[expect(clippy::disallowed_methods, reason = "pause between polls")]
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn below(started: &Started) -> usize {
    Snapshot::take().unwrap().below(started.0.pid).len()
}

#[test]
fn a_leak_is_listed_and_ended_with_its_descendants() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "mcp-server-leak").display().to_string();
    let cwd = folder.path().canonicalize().unwrap();
    let line = format!("{server} -c 'sleep 300 & sleep 300; :' >/dev/null 2>&1 &");
    let leaked = leak(in_session().current_dir(&cwd), &line);
    wait_until("both children run", || below(&leaked) == 2);
    wait_until("it is listed", || leaked.is_shown());
    let shown = scan().unwrap().into_iter().find(|orphan| orphan.identity == leaked.0).unwrap();
    assert_eq!((shown.cwd, shown.descendants), (Some(cwd), 2));
    assert_eq!((shown.kind, shown.agent, shown.doubt), (Kind::Server, None, None));
    assert!(shown.command.starts_with(&server), "{}", shown.command);
    assert!(
        shown.resident_bytes > 0 && shown.age < Duration::from_secs(60),
        "{shown:?}",
        shown = (shown.resident_bytes, shown.age)
    );

    let mut pids = Snapshot::take().unwrap().below(leaked.0.pid);
    pids.insert(0, leaked.0.pid);
    let ended = end(&leaked.0, Duration::from_secs(10)).unwrap().unwrap();
    let mut named: Vec<i32> = ended.processes.iter().map(|process| process.pid).collect();
    assert_eq!(named[0], leaked.0.pid);
    named.sort_unstable();
    pids.sort_unstable();
    assert_eq!(named, pids);
    assert_eq!((ended.killed, ended.left), (vec![], vec![]), "TERM was enough");
    for process in &ended.processes {
        let same = Stat::of(process.pid).filter(|stat| stat.start_ticks == process.start_ticks);
        assert!(same.is_none_or(|stat| stat.is_dead()), "{process:?}");
    }
    assert_eq!(end(&leaked.0, Duration::ZERO).unwrap(), None, "gone");
}

#[test]
fn c13_a_leak_that_ignores_term_is_killed_with_processes_it_starts_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "weather-mcp").display().to_string();
    let line = format!("{server} -c 'trap \"\" TERM; while :; do sleep 0.02; done' >/dev/null 2>&1 &");
    let leaked = leak(&mut in_session(), &line);
    wait_until("it is listed and has a child", || leaked.is_shown() && below(&leaked) > 0);
    let ended = end(&leaked.0, Duration::from_millis(200)).unwrap().unwrap();
    assert!(ended.killed.contains(&leaked.0.pid), "{ended:?}");
    assert_eq!(ended.left, Vec::<i32>::new());
    assert!(!leaked.0.is_alive());
    wait_until("all its processes are gone", || {
        let seen = Snapshot::take().unwrap();
        ended.processes.iter().all(|process| {
            seen.processes.get(&process.pid).is_none_or(|now| now.stat.start_ticks != process.start_ticks)
        })
    });
}

#[test]
fn a_keeper_below_a_leak_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "mcp-server-asks").display().to_string();
    let keeper = program(folder.path(), "lw-guard").display().to_string();
    let line = format!(
        "{server} -c '{keeper} -c \"sleep 300; :\" & echo $! >{server}.pid; sleep 300; :' >/dev/null 2>&1 &"
    );
    let leaked = leak(&mut in_session(), &line);
    let mut kept = None;
    wait_until("the keeper exists", || {
        let pid =
            std::fs::read_to_string(format!("{server}.pid")).ok().and_then(|pid| pid.trim().parse().ok());
        kept = pid.and_then(Identity::of);
        kept.is_some()
    });
    let kept = Started(kept.unwrap());
    wait_until("the keeper runs", || below(&kept) == 1);
    wait_until("it is listed", || leaked.is_shown() && below(&leaked) == 1);
    let ended = end(&leaked.0, Duration::from_secs(10)).unwrap().unwrap();
    assert_eq!(ended.processes.len(), 2, "{ended:?}");
    assert!(!leaked.0.is_alive());
    assert!(kept.0.is_alive() && below(&kept) == 1, "the keeper and its tree are still running");
    assert_ne!(Stat::of(kept.0.pid).unwrap().state, 'T');
}

#[test]
fn a_process_with_a_live_parent_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "mcp-server-kept");
    let line = ["-c", "sleep 300; :"];
    let mut child = Command::new(&server).args(line).spawn().unwrap();
    let mut apart = Command::new("setsid").arg(&server).args(line).spawn().unwrap();
    for child in [&child, &apart] {
        let started = Started(Identity::of(child.id().cast_signed()).unwrap());
        wait_until("it runs", || below(&started) == 1);
        assert!(!started.is_shown());
        assert_eq!(end(&started.0, Duration::ZERO).unwrap(), None);
        assert!(started.0.is_alive(), "it was not signalled");
    }
    child.wait().unwrap();
    apart.wait().unwrap();
}

#[test]
fn another_program_under_a_known_name_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let claude = folder.path().join("claude");
    std::fs::write(&claude, "words").unwrap();
    let reader = leak(&mut in_session(), &format!("tail -f {} >/dev/null 2>&1 &", claude.display()));
    // Bash can set `argv[0]` of the program it executes.
    let mut bash = Command::new("setsid");
    let borrowed = leak(bash.arg("--wait").arg("bash"), "(exec -a claude sleep 300) >/dev/null 2>&1 &");
    for started in [reader, borrowed] {
        wait_until("it runs as an orphan", || {
            let seen = Snapshot::take().unwrap();
            let argv = argv_of(started.0.pid).unwrap_or_default().concat();
            seen.is_orphan(started.0.pid) && argv.contains("claude") && !argv.contains("exec")
        });
        assert!(!started.is_shown());
        assert_eq!(end(&started.0, Duration::ZERO).unwrap(), None);
        assert!(started.0.is_alive(), "it was not signalled");
    }
}

#[test]
fn an_orphan_of_another_user_is_not_listed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = program(folder.path(), "mcp-server-foreign").display().to_string();
    let mut other = in_session();
    other.uid(UNUSED_UID).gid(UNUSED_UID).current_dir("/");
    let leaked = leak(&mut other, &format!("{server} -c 'sleep 300; :' >/dev/null 2>&1 &"));
    wait_until("it runs as an orphan", || {
        Snapshot::take().unwrap().is_orphan(leaked.0.pid) && below(&leaked) == 1
    });
    assert!(!leaked.is_shown());
    assert_eq!(end(&leaked.0, Duration::ZERO).unwrap(), None);
    assert!(leaked.0.is_alive());
}

#[test]
fn a_command_of_an_agent_is_a_leak_only_once_the_agent_is_gone() {
    let line = "sleep 300 >/dev/null 2>&1 &";
    let mut agent = Command::new("sleep").arg("300").spawn().unwrap();
    let own = leak(in_session().env("CLAUDECODE", "1").env("CLAUDE_PID", agent.id().to_string()), line);
    let left = leak(in_session().env("CLAUDECODE", "1").env("CLAUDE_PID", i32::MAX.to_string()), line);
    let plain = leak(&mut in_session(), line);
    let kept = leak(in_session().env("CLAUDECODE", "1").env(crate::MARKER, "/of/an/attempt"), line);
    wait_until("it is listed", || left.is_shown());
    let shown = scan().unwrap().into_iter().find(|orphan| orphan.identity == left.0).unwrap();
    assert_eq!((shown.kind, shown.agent, shown.doubt), (Kind::Tool, Some("claude"), None));
    for other in [&own, &plain, &kept] {
        assert!(!other.is_shown());
        assert_eq!(end(&other.0, Duration::ZERO).unwrap(), None);
        assert!(other.0.is_alive(), "it was not signalled");
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
    wait_until("it is listed once its agent is gone", || own.is_shown());
    assert!(end(&own.0, Duration::from_secs(10)).unwrap().is_some());
    assert!(!own.0.is_alive() && plain.0.is_alive() && kept.0.is_alive() && left.0.is_alive());
}

#[test]
fn a_process_in_a_container_is_not_listed() {
    // Without namespaces, this user has no containers either.
    let made =
        Command::new("unshare").args(["--user", "--map-root-user", "--pid", "--fork", "true"]).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "mcp-server-inside").display().to_string();
    let line =
        format!("unshare --user --map-root-user --pid --fork {server} -c 'sleep 300; :' >/dev/null 2>&1 &");
    let outer = leak(&mut in_session(), &line);
    let mut inner = None;
    wait_until("it runs inside", || {
        let below = Snapshot::take().unwrap().below(outer.0.pid);
        inner = below
            .into_iter()
            .find(|pid| argv_of(*pid).is_some_and(|argv| argv[0] == server))
            .and_then(Identity::of);
        inner.is_some()
    });
    let inner = Started(inner.unwrap());
    // Killing `unshare` orphans the process inside.
    outer.0.signal(Signal::KILL).unwrap();
    wait_until("it has lost its parent", || Snapshot::take().unwrap().is_orphan(inner.0.pid));
    assert!(!inner.is_shown());
    assert_eq!(end(&inner.0, Duration::ZERO).unwrap(), None);
    assert!(inner.0.is_alive(), "it was not signalled");
}

#[test]
fn a_process_started_with_nohup_or_in_a_live_session_is_in_doubt() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "mcp-server-meant").display().to_string();
    let line = format!("nohup {server} -c 'sleep 300; :' >/dev/null 2>&1 &");
    let meant = leak(&mut in_session(), &line);
    let doubt_of = |started: &Started| {
        let shown = scan().unwrap().into_iter().find(|orphan| orphan.identity == started.0);
        shown.and_then(|shown| shown.doubt)
    };
    wait_until("it is in doubt", || doubt_of(&meant).is_some_and(|doubt| doubt.contains("nohup")));
    // The shell survives; the subshell that started the server does not.
    let mut shell = in_session();
    let line = format!("({server} -c 'sleep 300; :' >/dev/null 2>&1 & echo $!); read wait");
    let mut shell = shell.arg("-c").arg(line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut said).unwrap();
    let beside = Started(Identity::of(said.trim().parse().unwrap()).unwrap());
    wait_until("it is in doubt", || {
        doubt_of(&beside).is_some_and(|doubt| doubt.contains("its session is still alive: sh"))
    });
    drop(shell.stdin.take());
    shell.wait().unwrap();
    wait_until("its session is over", || beside.is_shown() && doubt_of(&beside).is_none());
}

#[test]
fn a_server_with_closed_input_is_a_leak_in_any_session() {
    let folder = tempfile::tempdir().unwrap();
    let server = program(folder.path(), "mcp-server-deaf").display().to_string();
    // It leads its own session, and reads from a pipe that this process holds open at first.
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = Command::new("env");
    let line = format!("exec 3<&0; setsid {server} -c 'read never; sleep 300; :' <&3 >/dev/null 2>&1 &");
    command.args(["--default-signal=HUP", "/bin/sh"]).stdin(reader);
    for mark in ["CLAUDECODE", "OPENCODE", "CODEX_THREAD_ID", "GEMINI_CLI"] {
        command.env_remove(mark);
    }
    let started = leak(&mut command, &line);
    drop(command);
    let doubt = || {
        let shown = scan().unwrap().into_iter().find(|orphan| orphan.identity == started.0);
        shown.map(|shown| shown.doubt)
    };
    wait_until("it is in doubt", || {
        doubt().flatten().is_some_and(|doubt| doubt.contains("leads its own session"))
    });
    drop(writer);
    wait_until("it is a leak", || doubt() == Some(None));
}

/// Returns a snapshot of processes given as pid, parent, session and name.
fn snapshot(processes: &[(i32, i32, i32, &str)]) -> Snapshot {
    let seen = |(pid, parent, session, comm): &(i32, i32, i32, &str)| {
        let stat =
            Stat { state: 'S', parent: *parent, session: *session, terminal: 0, threads: 1, start_ticks: 1 };
        (*pid, SeenProcess { stat, comm: (*comm).to_owned() })
    };
    Snapshot { processes: processes.iter().map(seen).collect() }
}

#[test]
fn an_orphan_is_recognised_by_parent_and_session() {
    let seen = snapshot(&[
        (1, 0, 1, "init"),
        (10, 1, 10, "systemd"),
        (20, 1, 19, "claude"),
        (21, 10, 19, "claude"),
        (22, 10, 22, "claude"),
        (23, 10, 10, "claude"),
        (30, 22, 22, "node"),
        (31, 22, 29, "node"),
        (40, 10, 30, "claude"),
    ]);
    let orphans: Vec<i32> =
        [1, 10, 20, 21, 22, 23, 30, 31, 40, 99].into_iter().filter(|pid| seen.is_orphan(*pid)).collect();
    // By this rule 10 is one, though not an agent; 40 is in a session whose leader's pid was reused.
    assert_eq!(orphans, [10, 20, 21, 31, 40]);
}

#[test]
fn a_process_below_a_keeper_is_never_an_orphan() {
    let with = |keeper: &str| {
        let seen =
            snapshot(&[(1, 0, 1, "init"), (5, 1, 4, keeper), (6, 5, 4, "shim"), (7, 6, 99, "mcp-server-x")]);
        seen.is_orphan(7)
    };
    assert!(with("supervisor"), "below another program it would be one");
    for keeper in OURS {
        assert!(!with(keeper), "{keeper}");
    }
}
