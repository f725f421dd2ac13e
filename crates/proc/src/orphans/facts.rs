//! What can be read about one process without a parent: what it is, what started it, and what it still belongs to.

use std::fs;
use std::path::PathBuf;

use super::known;
use super::snapshot::Snapshot;
use crate::launch::MARKER;
use crate::proc_files;

/// Variables that agents set for what they start, the agent's name, and variables that hold its pid, possibly within a socket path.
const MARKS: &[(&str, &str, &[&str])] = &[
    ("CLAUDECODE", "claude", &["CLAUDE_PID", "CLAUDE_CODE_MESSAGING_SOCKET"]),
    ("OPENCODE", "opencode", &["OPENCODE_PID"]),
    ("CODEX_THREAD_ID", "codex", &[]),
    ("GEMINI_CLI", "gemini", &[]),
];

/// The bit of SIGHUP in a signal mask.
const HANGUP: u64 = 1;

/// An agent's mark in an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The agent's name.
    pub(super) agent: &'static str,
    /// The agent's pid, if the mark contains it.
    pub(super) pid: Option<i32>,
}

/// The facts about one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The name by which it is known as an agent or MCP server.
    pub(super) known: Option<&'static str>,
    /// The mark of the agent that started it, directly or indirectly.
    pub(super) mark: Option<Mark>,
    /// It carries the marker of an attempt of ours, so the attempt's owner is responsible for it.
    pub(super) is_attempt: bool,
    /// It is in another PID namespace, as in a container, whose creator is responsible for it.
    pub(super) is_in_container: bool,
    /// It ignores SIGHUP, as a process started with `nohup` does.
    pub(super) ignores_hangup: bool,
    /// The systemd service that it belongs to.
    pub(super) unit: Option<String>,
    /// Its stdin is a pipe whose other end is closed.
    pub(super) is_input_closed: bool,
}

impl Facts {
    pub(super) fn of(pid: i32, argv: &[String], seen: &Snapshot) -> Facts {
        let comm = seen.processes.get(&pid).map_or("", |process| process.comm.as_str());
        let exe = proc_files::link(pid, "exe");
        let known = known::name_of(argv, comm, exe.as_deref());
        let environ = proc_files::read(pid, "environ", u64::MAX).unwrap_or_default();
        let mark = mark_in(&environ);
        if known.is_none() && mark.is_none() {
            return Facts::default();
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Facts {
            known,
            mark,
            is_attempt: value(&environ, MARKER).is_some(),
            is_in_container: is_in_container(pid),
            ignores_hangup: ignored & HANGUP != 0,
            unit: unit_in(&groups),
            is_input_closed: known.is_some() && is_input_closed(pid, seen),
        }
    }
}

/// Returns the mark of an agent, preferring one with a pid.
fn mark_in(environ: &[u8]) -> Option<Mark> {
    let pid = |name: &&str| {
        let text = std::str::from_utf8(value(environ, name)?).ok()?;
        text.rsplit('/').next()?.trim_end_matches(".sock").parse().ok()
    };
    let found = MARKS.iter().filter(|(name, ..)| value(environ, name).is_some_and(|value| !value.is_empty()));
    let mut marks = found.map(|(_, agent, by)| Mark { agent, pid: by.iter().find_map(pid) });
    // An agent started by another agent leaves two marks; one with a pid can be looked up.
    let first = marks.next()?;
    Some(if first.pid.is_some() { first } else { marks.find(|mark| mark.pid.is_some()).unwrap_or(first) })
}

fn value<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environ.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Reports whether a process is in another PID namespace.
fn is_in_container(pid: i32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    namespace(&pid.to_string()).is_some_and(|other| Some(other) != namespace("self"))
}

/// Returns the service that a process belongs to, below the user's service manager or beside it.
fn unit_in(groups: &str) -> Option<String> {
    let path = groups.lines().find_map(|line| {
        line.strip_prefix("0::").or_else(|| line.split_once(":name=systemd:").map(|(_, path)| path))
    })?;
    let parts: Vec<&str> = path.split('/').collect();
    let manager = parts.iter().rposition(|part| part.starts_with("user@") && part.ends_with(".service"));
    let below = &parts[manager.map_or(0, |at| at + 1)..];
    below.iter().find(|part| part.ends_with(".service")).map(|part| (*part).to_owned())
}

/// Reports whether a process reads from a pipe that no process outside its tree holds open.
fn is_input_closed(pid: i32, seen: &Snapshot) -> bool {
    let input = link(pid, "0").filter(|input| input.to_string_lossy().starts_with("pipe:"));
    let Some(input) = input else { return false };
    let own = seen.below(pid);
    let others = seen.processes.keys().filter(|other| **other != pid && !own.contains(other));
    !others.into_iter().any(|other| holds(*other, &input))
}

fn holds(pid: i32, file: &PathBuf) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|found| found == *file))
}

fn link(pid: i32, fd: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_recognised_by_its_mark_in_the_environment() {
        let mark = |environ: &str| mark_in(environ.replace(' ', "\0").as_bytes());
        assert_eq!(mark("PATH=/bin HOME=/root"), None);
        assert_eq!(mark("XCLAUDECODE=1 CLAUDECODE_X=1 CLAUDECODE="), None);
        assert_eq!(mark("A=1 CLAUDECODE=1 CLAUDE_PID=77"), Some(Mark { agent: "claude", pid: Some(77) }));
        let of_server = mark("CLAUDECODE=1 CLAUDE_CODE_MESSAGING_SOCKET=/tmp/cc/78.sock");
        assert_eq!(of_server, Some(Mark { agent: "claude", pid: Some(78) }));
        let unclear = mark("CLAUDECODE=1 CLAUDE_CODE_MESSAGING_SOCKET=/tmp/cc/a7.sock");
        assert_eq!(unclear, Some(Mark { agent: "claude", pid: None }));
        assert_eq!(mark("GEMINI_CLI=1"), Some(Mark { agent: "gemini", pid: None }));
        let nested = mark("CODEX_THREAD_ID=0a GEMINI_CLI=1 OPENCODE=1 OPENCODE_PID=8");
        assert_eq!(nested, Some(Mark { agent: "opencode", pid: Some(8) }));
    }

    #[test]
    fn a_service_is_distinguished_from_a_session_and_from_the_manager() {
        for (groups, unit) in [
            ("0::/user.slice/user-7.slice/session-3.scope\n", None),
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/run-1.scope\n", None),
            ("0::/user.slice/user-7.slice/user@7.service/init.scope\n", None),
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/agent.service\n", Some("agent.service")),
            ("0::/system.slice/agent.service/below\n", Some("agent.service")),
            ("4:pids:/x\n1:name=systemd:/system.slice/cron.service\n", Some("cron.service")),
            ("0::/\n", None),
            ("", None),
        ] {
            assert_eq!(unit_in(groups).as_deref(), unit, "{groups}");
        }
    }
}
