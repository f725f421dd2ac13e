//! What can be read about one process without a parent: what it is, who started it, and what it still belongs to.

use std::fs;
use std::path::PathBuf;

use super::{Snapshot, known};
use crate::launch::MARKER;

/// Agents write into the environment of what they start that they did; some say by which process, be it in the name of a socket.
const MARKS: &[(&str, &str, &[&str])] = &[
    ("CLAUDECODE", "claude", &["CLAUDE_PID", "CLAUDE_CODE_MESSAGING_SOCKET"]),
    ("OPENCODE", "opencode", &["OPENCODE_PID"]),
    ("CODEX_THREAD_ID", "codex", &[]),
    ("GEMINI_CLI", "gemini", &[]),
];

/// The bit of SIGHUP in a mask of signals.
const HANGUP: u64 = 1;

/// An agent's mark in an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Which agent.
    pub(super) agent: &'static str,
    /// The number of its process, where it says so.
    pub(super) pid: Option<i32>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The name by which it is known as an agent or a tool server.
    pub(super) known: Option<&'static str>,
    /// Which agent started it, or whatever started it.
    pub(super) mark: Option<Mark>,
    /// It carries the marker of an attempt of ours: whoever owns the attempt sees to it.
    pub(super) is_attempt: bool,
    /// It is in a namespace of its own, as in a container: numbers mean something else there, and whoever made it sees to it.
    pub(super) is_elsewhere: bool,
    /// It does not care for hanging up, as what was started by `nohup` does not.
    pub(super) ignores_hangup: bool,
    /// The unit of a service manager that it belongs to.
    pub(super) unit: Option<String>,
    /// Its standard input is a pipe, and nobody is left who could write to it.
    pub(super) is_unheard: bool,
}

impl Facts {
    pub(super) fn of(pid: i32, argv: &[String], seen: &Snapshot) -> Facts {
        let comm = seen.processes.get(&pid).map_or("", |process| process.comm.as_str());
        let exe = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let known = known::name_of(argv, comm, exe.as_deref());
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
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
            is_elsewhere: is_elsewhere(pid),
            ignores_hangup: ignored & HANGUP != 0,
            unit: unit_in(&groups),
            is_unheard: known.is_some() && is_unheard(pid, seen),
        }
    }
}

/// Returns the mark of an agent; the most telling first.
fn mark_in(environ: &[u8]) -> Option<Mark> {
    let pid = |name: &&str| {
        let said = std::str::from_utf8(value(environ, name)?).ok()?;
        said.rsplit('/').next()?.trim_end_matches(".sock").parse().ok()
    };
    let found = MARKS.iter().filter(|(name, ..)| value(environ, name).is_some_and(|value| !value.is_empty()));
    let mut marks = found.map(|(_, agent, by)| Mark { agent, pid: by.iter().find_map(pid) });
    // One agent started by another leaves two marks; that with a number can be looked up.
    let first = marks.next()?;
    Some(if first.pid.is_some() { first } else { marks.find(|mark| mark.pid.is_some()).unwrap_or(first) })
}

fn value<'a>(environ: &'a [u8], name: &str) -> Option<&'a [u8]> {
    environ.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Reports whether a process has other numbers for processes than we have.
fn is_elsewhere(pid: i32) -> bool {
    let space = |who: &str| fs::read_link(format!("/proc/{who}/ns/pid")).ok();
    space(&pid.to_string()).is_some_and(|space_of_it| Some(space_of_it) != space("self"))
}

/// Returns the service that a process is in, below the user's service manager or beside it.
fn unit_in(groups: &str) -> Option<String> {
    let path = groups.lines().find_map(|line| {
        line.strip_prefix("0::").or_else(|| line.split_once(":name=systemd:").map(|(_, path)| path))
    })?;
    let parts: Vec<&str> = path.split('/').collect();
    let manager = parts.iter().rposition(|part| part.starts_with("user@") && part.ends_with(".service"));
    let below = &parts[manager.map_or(0, |at| at + 1)..];
    below.iter().find(|part| part.ends_with(".service")).map(|part| (*part).to_owned())
}

/// Reports whether a process reads from a pipe that nobody outside its tree holds: whoever spoke to it is gone.
fn is_unheard(pid: i32, seen: &Snapshot) -> bool {
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
    fn an_agent_is_told_by_what_it_left_in_the_environment() {
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
    fn a_service_is_told_from_a_session_and_from_the_manager_itself() {
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
