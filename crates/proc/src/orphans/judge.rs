//! Leak or not: decided from a picture of the processes and what was read about one of them. No system calls here.
//!
//! A leak is what nobody can want any more. Whatever could be meant to go on is in doubt: it is shown, and ended only
//! when somebody names it. What has an owner is neither.

use super::facts::{Facts, Mark};
use super::{Kind, Snapshot, known};
use crate::seeded::{self, Bug};

/// A process without a parent that may be a leak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) kind: Kind,
    /// Why it may be there on purpose.
    pub(super) doubt: Option<String>,
}

/// An agent that runs: its number, and the name by which it is known.
pub(super) type Agent = (i32, &'static str);

/// Judges a process. `agents` are those that run. `None` means that it is none of our business, or has an owner.
pub(super) fn judge(pid: i32, facts: &Facts, seen: &Snapshot, agents: &[Agent]) -> Option<Judged> {
    if facts.is_attempt || facts.is_elsewhere || !seen.is_orphan(pid) {
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
        // Whoever started it runs and may still want it.
        return None;
    }
    let doubt = doubt(pid, kind, facts, seen, agents).filter(|_| !seeded::on(Bug::NoDoubts));
    Some(Judged { kind, doubt })
}

/// Says why a process may be there on purpose.
fn doubt(pid: i32, kind: Kind, facts: &Facts, seen: &Snapshot, agents: &[Agent]) -> Option<String> {
    if let Some(unit) = &facts.unit {
        return Some(format!("it is part of {unit}"));
    }
    if seen.holds_terminals(pid) {
        return Some("somebody has a terminal open below it".to_owned());
    }
    if facts.ignores_hangup {
        return Some("it ignores hanging up, as what was started by nohup does".to_owned());
    }
    match facts.mark {
        // A server does what it is asked, and nobody will ever ask it again. An agent may have been told all it needs.
        _ if facts.is_unheard && kind == Kind::Server => None,
        Some(mark) => {
            let may_want_it = |(other, name): &&Agent| {
                *other != pid && name.starts_with(mark.agent) && seen.is_older(*other, pid)
            };
            // One that says its number was looked up before.
            let (other, name) = agents.iter().find(may_want_it).filter(|_| mark.pid.is_none())?;
            Some(format!("{name} runs (pid {other}) and may have started it"))
        }
        None => match seen.leader_of(pid) {
            Some((leader, _)) if leader == pid => {
                Some("it leads a session of its own, as services do".to_owned())
            }
            Some((leader, process)) => {
                let name: String =
                    process.comm.chars().map(|char| if char.is_control() { '?' } else { char }).collect();
                Some(format!("its session lives: {name} (pid {leader})"))
            }
            None => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Seen;
    use super::*;
    use crate::identity::Stat;

    /// A process of a picture: number, parent, session, start, terminal.
    type Row = (i32, i32, i32, u64, i32);

    const LEAK: i32 = 50;

    /// The picture that every case begins with: a shell in a terminal, a session without its leader, and one that is judged.
    fn picture(judged: Row, others: &[Row]) -> Snapshot {
        let all = [(1, 0, 1, 0, 0), (10, 1, 10, 5, 34_816)];
        let seen = |(pid, parent, session, start_ticks, terminal): &Row| {
            let stat = Stat {
                state: 'S',
                parent: *parent,
                session: *session,
                terminal: *terminal,
                start_ticks: *start_ticks,
            };
            let comm = if *pid == 10 { "bash" } else { "node" };
            (*pid, Seen { stat, comm: comm.to_owned() })
        };
        Snapshot { processes: all.iter().chain([&judged]).chain(others).map(seen).collect() }
    }

    #[track_caller]
    fn check(judged: Row, others: &[Row], agents: &[Agent], facts: &Facts, expected: Option<(Kind, &str)>) {
        let found = judge(LEAK, facts, &picture(judged, others), agents);
        match (&found, expected) {
            (None, None) => {}
            (Some(Judged { kind, doubt: None }), Some((expected, ""))) if *kind == expected => {}
            (Some(Judged { kind, doubt: Some(doubt) }), Some((expected, words)))
                if *kind == expected && !words.is_empty() && doubt.contains(words) => {}
            _ => panic!("{found:?}, and not {expected:?}"),
        }
    }

    /// In a session whose leader is gone, as whoever started it is.
    const LEFT: Row = (LEAK, 1, 40, 100, 0);

    fn known(name: &'static str) -> Facts {
        Facts { known: Some(name), ..Facts::default() }
    }

    fn marked(agent: &'static str, pid: Option<i32>) -> Facts {
        Facts { mark: Some(Mark { agent, pid }), ..Facts::default() }
    }

    #[test]
    fn what_is_left_of_a_session_that_ended_is_a_leak() {
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
    fn what_is_nobodys_business_is_not_shown() {
        check(LEFT, &[], &[], &Facts::default(), None);
        check((LEAK, 10, 10, 100, 0), &[], &[], &known("claude"), None);
        check(LEFT, &[], &[], &Facts { is_attempt: true, ..known("claude") }, None);
        check(LEFT, &[], &[], &Facts { is_elsewhere: true, ..marked("claude", Some(59)) }, None);
    }

    #[test]
    fn what_an_agent_that_runs_has_started_is_its_own() {
        let agent = (60, 10, 10, 90, 34_816);
        check(LEFT, &[agent], &[(60, "claude")], &marked("claude", Some(60)), None);
        // Another has its number by now.
        let later = (60, 10, 10, 101, 34_816);
        check(LEFT, &[later], &[(60, "claude")], &marked("claude", Some(60)), Some((Kind::Tool, "")));
        // One that runs and is not the one that says its number has nothing to do with it.
        check(LEFT, &[agent], &[(60, "claude")], &marked("claude", Some(59)), Some((Kind::Tool, "")));
        // Without a number, whoever could have started it may want it.
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
    fn what_may_be_meant_to_go_on_is_in_doubt() {
        let in_terminal = (LEAK, 1, 10, 100, 34_816);
        let apart = (LEAK, 1, LEAK, 100, 0);
        let unheard = Facts { is_unheard: true, ..known("mcp-server-*") };
        check(
            in_terminal,
            &[],
            &[],
            &known("mcp-server-*"),
            Some((Kind::Server, "its session lives: bash (pid 10)")),
        );
        check(apart, &[], &[], &known("claude"), Some((Kind::Agent, "a session of its own")));
        check(in_terminal, &[], &[], &unheard, Some((Kind::Server, "")));
        check(apart, &[], &[], &unheard, Some((Kind::Server, "")));
        let told = Facts { is_unheard: true, ..known("claude") };
        check(in_terminal, &[], &[], &told, Some((Kind::Agent, "its session lives")));
        let agent = (60, 10, 10, 90, 34_816);
        let unheard_of_gemini = Facts { mark: marked("gemini", None).mark, ..unheard.clone() };
        check(LEFT, &[agent], &[(60, "gemini-cli")], &unheard_of_gemini, Some((Kind::Server, "")));
        // An agent's mark says more than a session: its agent is gone.
        check(in_terminal, &[], &[], &marked("claude", Some(59)), Some((Kind::Tool, "")));
        check(apart, &[], &[], &marked("claude", Some(59)), Some((Kind::Tool, "")));
        for facts in [known("claude"), marked("claude", Some(59)), unheard] {
            let kind = if facts.mark.is_some() {
                Kind::Tool
            } else if facts.is_unheard {
                Kind::Server
            } else {
                Kind::Agent
            };
            check(LEFT, &[], &[], &Facts { ignores_hangup: true, ..facts.clone() }, Some((kind, "nohup")));
            let unit = Some("agent.service".to_owned());
            check(LEFT, &[], &[], &Facts { unit, ..facts.clone() }, Some((kind, "part of agent.service")));
            // As a server of tmux that was started from an agent: somebody works below it.
            let window = (70, LEAK, 70, 110, 34_817);
            check(LEFT, &[window], &[], &facts, Some((kind, "a terminal open below it")));
        }
    }
}
