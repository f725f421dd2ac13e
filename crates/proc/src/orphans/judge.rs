//! Decides whether a process is a leak, from a snapshot and the facts about it. Makes no system calls.
//!
//! A leak is a process that has no possible use any more. One that may be intentional is in doubt: it is listed, and ended only if named
//! explicitly. One that has an owner is neither.

use super::facts::{Facts, Mark};
use super::known;
use super::snapshot::Snapshot;

/// The kind of an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An agent.
    Agent,
    /// An MCP server.
    Server,
    /// A command that an agent ran, or what such a command left behind.
    Tool,
}

/// A process without a parent that may be a leak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) kind: Kind,
    /// Why it may be intentional.
    pub(super) doubt: Option<String>,
}

/// A running agent: its pid and the name by which it is known.
pub(super) type Agent = (i32, &'static str);

/// Judges a process, given the running agents. `None` means that it is irrelevant or has an owner.
pub(super) fn judge(pid: i32, facts: &Facts, seen: &Snapshot, agents: &[Agent]) -> Option<Judgement> {
    if facts.is_attempt || facts.is_in_container || !seen.is_orphan(pid) {
        return None;
    }
    let kind = match (facts.known, facts.mark) {
        (Some(name), _) if known::is_server(name) => Kind::Server,
        (Some(_), _) => Kind::Agent,
        (None, Some(_)) => Kind::Tool,
        (None, None) => return None,
    };
    if let Some(Mark { pid: Some(agent), .. }) = facts.mark
        && seen.is_older(agent, pid)
    {
        // Its agent still runs and may need it.
        return None;
    }
    let doubt = doubt(pid, kind, facts, seen, agents);
    Some(Judgement { kind, doubt })
}

/// Returns why a process may be intentional.
fn doubt(pid: i32, kind: Kind, facts: &Facts, seen: &Snapshot, agents: &[Agent]) -> Option<String> {
    if let Some(unit) = &facts.unit {
        return Some(format!("it is part of {unit}"));
    }
    if seen.holds_terminals(pid) {
        return Some("a process below it has a terminal".to_owned());
    }
    if facts.ignores_hangup {
        return Some("it ignores SIGHUP, as if started with nohup".to_owned());
    }
    match facts.mark {
        // A server can get no more requests. An agent may already have all the instructions it needs.
        _ if facts.is_input_closed && kind == Kind::Server => None,
        Some(mark) => {
            let may_want_it = |(other, name): &&Agent| {
                *other != pid && name.starts_with(mark.agent) && seen.is_older(*other, pid)
            };
            // An agent whose mark has a pid was looked up before.
            let (other, name) = agents.iter().find(may_want_it).filter(|_| mark.pid.is_none())?;
            Some(format!("{name} runs (pid {other}) and may have started it"))
        }
        None => match seen.leader_of(pid) {
            Some((leader, _)) if leader == pid => Some("it leads its own session, as services do".to_owned()),
            Some((leader, process)) => {
                let name: String =
                    process.comm.chars().map(|char| if char.is_control() { '?' } else { char }).collect();
                Some(format!("its session is still alive: {name} (pid {leader})"))
            }
            None => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::SeenProcess;
    use super::*;
    use crate::identity::Stat;

    /// One process of a snapshot: pid, parent, session, start, terminal.
    type Row = (i32, i32, i32, u64, i32);

    const LEAK: i32 = 50;

    /// The snapshot of each case: a shell in a terminal, a session without its leader, and the process to judge.
    fn snapshot(judged: Row, others: &[Row]) -> Snapshot {
        let all = [(1, 0, 1, 0, 0), (10, 1, 10, 5, 34_816)];
        let seen = |(pid, parent, session, start_ticks, terminal): &Row| {
            let stat = Stat {
                state: 'S',
                parent: *parent,
                session: *session,
                terminal: *terminal,
                threads: 1,
                start_ticks: *start_ticks,
            };
            let comm = if *pid == 10 { "bash" } else { "node" };
            (*pid, SeenProcess { stat, comm: comm.to_owned() })
        };
        Snapshot { processes: all.iter().chain([&judged]).chain(others).map(seen).collect() }
    }

    #[track_caller]
    fn check(judged: Row, others: &[Row], agents: &[Agent], facts: &Facts, expected: Option<(Kind, &str)>) {
        let found = judge(LEAK, facts, &snapshot(judged, others), agents);
        match (&found, expected) {
            (None, None) => {}
            (Some(Judgement { kind, doubt: None }), Some((expected, ""))) if *kind == expected => {}
            (Some(Judgement { kind, doubt: Some(doubt) }), Some((expected, words)))
                if *kind == expected && !words.is_empty() && doubt.contains(words) => {}
            _ => panic!("{found:?}, and not {expected:?}"),
        }
    }

    /// In a session whose leader is gone.
    const LEFT: Row = (LEAK, 1, 40, 100, 0);

    fn known(name: &'static str) -> Facts {
        Facts { known: Some(name), ..Facts::default() }
    }

    fn marked(agent: &'static str, pid: Option<i32>) -> Facts {
        Facts { mark: Some(Mark { agent, pid }), ..Facts::default() }
    }

    #[test]
    fn a_process_left_by_an_ended_session_is_a_leak() {
        check(LEFT, &[], &[], &known("claude"), Some((Kind::Agent, "")));
        check(LEFT, &[], &[], &known("mcp-server-*"), Some((Kind::Server, "")));
        check(LEFT, &[], &[], &marked("codex", None), Some((Kind::Tool, "")));
        check(
            LEFT,
            &[],
            &[],
            &Facts { mark: marked("claude", None).mark, ..known("mcp-remote") },
            Some((Kind::Server, "")),
        );
    }

    #[test]
    fn an_irrelevant_or_owned_process_is_not_listed() {
        check(LEFT, &[], &[], &Facts::default(), None);
        check((LEAK, 10, 10, 100, 0), &[], &[], &known("claude"), None);
        check(LEFT, &[], &[], &Facts { is_attempt: true, ..known("claude") }, None);
        check(LEFT, &[], &[], &Facts { is_in_container: true, ..marked("claude", Some(59)) }, None);
    }

    #[test]
    fn a_process_of_a_running_agent_belongs_to_it() {
        let agent = (60, 10, 10, 90, 34_816);
        check(LEFT, &[agent], &[(60, "claude")], &marked("claude", Some(60)), None);
        // The pid was reused.
        let later = (60, 10, 10, 101, 34_816);
        check(LEFT, &[later], &[(60, "claude")], &marked("claude", Some(60)), Some((Kind::Tool, "")));
        // A running agent that is not the one in the mark is irrelevant.
        check(LEFT, &[agent], &[(60, "claude")], &marked("claude", Some(59)), Some((Kind::Tool, "")));
        // A mark without a pid: any older agent of that name may have started it.
        check(
            LEFT,
            &[agent],
            &[(60, "gemini-cli")],
            &marked("gemini", None),
            Some((Kind::Tool, "gemini-cli runs (pid 60)")),
        );
        check(LEFT, &[agent], &[(60, "codex")], &marked("gemini", None), Some((Kind::Tool, "")));
        check(LEFT, &[later], &[(60, "gemini-cli")], &marked("gemini", None), Some((Kind::Tool, "")));
    }

    #[test]
    fn a_process_that_may_be_intentional_is_in_doubt() {
        let in_terminal = (LEAK, 1, 10, 100, 34_816);
        let apart = (LEAK, 1, LEAK, 100, 0);
        let input_closed = Facts { is_input_closed: true, ..known("mcp-server-*") };
        check(
            in_terminal,
            &[],
            &[],
            &known("mcp-server-*"),
            Some((Kind::Server, "its session is still alive: bash (pid 10)")),
        );
        check(apart, &[], &[], &known("claude"), Some((Kind::Agent, "leads its own session")));
        check(in_terminal, &[], &[], &input_closed, Some((Kind::Server, "")));
        check(apart, &[], &[], &input_closed, Some((Kind::Server, "")));
        let agent_alone = Facts { is_input_closed: true, ..known("claude") };
        check(in_terminal, &[], &[], &agent_alone, Some((Kind::Agent, "its session is still alive")));
        let agent = (60, 10, 10, 90, 34_816);
        let server_of_gemini = Facts { mark: marked("gemini", None).mark, ..input_closed.clone() };
        check(LEFT, &[agent], &[(60, "gemini-cli")], &server_of_gemini, Some((Kind::Server, "")));
        // A mark outweighs the session: the agent is gone.
        check(in_terminal, &[], &[], &marked("claude", Some(59)), Some((Kind::Tool, "")));
        check(apart, &[], &[], &marked("claude", Some(59)), Some((Kind::Tool, "")));
        for facts in [known("claude"), marked("claude", Some(59)), input_closed] {
            let kind = if facts.mark.is_some() {
                Kind::Tool
            } else if facts.is_input_closed {
                Kind::Server
            } else {
                Kind::Agent
            };
            check(LEFT, &[], &[], &Facts { ignores_hangup: true, ..facts.clone() }, Some((kind, "nohup")));
            let unit = Some("agent.service".to_owned());
            check(LEFT, &[], &[], &Facts { unit, ..facts.clone() }, Some((kind, "part of agent.service")));
            // As with a tmux server started by an agent: a person may work below it.
            let window = (70, LEAK, 70, 110, 34_817);
            check(LEFT, &[window], &[], &facts, Some((kind, "has a terminal")));
        }
    }
}
