//! In which phase jobs were when a fault struck, read off the log.

use super::evidence::{Evidence, Logged, Struck};
use super::fault::Phase;

/// Returns the phases that jobs were in when a fault struck: all jobs, or those of the worker that was struck.
pub(super) fn phases(evidence: &Evidence, struck: &Struck) -> Vec<Phase> {
    let mut phases: Vec<Phase> =
        evidence.log.iter().filter_map(|logged| phase(evidence, logged, struck)).collect();
    if !phases.iter().any(|phase| phase.is_held()) {
        phases.push(Phase::Idle);
    }
    phases.sort_unstable();
    phases.dedup();
    phases
}

fn phase(evidence: &Evidence, logged: &Logged, struck: &Struck) -> Option<Phase> {
    let at = struck.from_ns;
    let (mut phase, mut holder) = (None, "");
    for fact in logged.facts.iter().take_while(|fact| fact.at_ns <= at) {
        phase = match (fact.kind.as_str(), phase) {
            ("submitted" | "released", _) => Some(Phase::Queued),
            ("claimed", _) => {
                holder = fact.detail.as_str();
                Some(Phase::Launching)
            }
            ("launch_intended", _) => Some(Phase::Launching),
            ("launched" | "adopted", _) => Some(Phase::Running),
            ("cancel_requested", Some(Phase::Launching | Phase::Running)) => Some(Phase::Stopping),
            ("stop_began" | "rung_climbed", _) => Some(Phase::Stopping),
            ("attempt_ended" | "retry_scheduled", _) => Some(Phase::Between),
            ("last_word", _) => None,
            (_, phase) => phase,
        };
    }
    // Its first sign of life is earlier than the fact about it.
    let lives = |logged: &Logged| {
        evidence.runs.iter().any(|run| run.job == logged.job && run.first_ns <= at && at <= run.last_ns)
    };
    if phase == Some(Phase::Launching) && lives(logged) {
        phase = Some(Phase::Running);
    }
    phase.filter(|phase| !phase.is_held() || struck.worker.is_none_or(|worker| worker == holder))
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Fact;
    use super::super::fault::{Fault, PHASES};
    use super::*;

    #[test]
    fn a_phase_is_read_off_the_log() {
        let fact = |kind: &str, at_ns, detail: &str| Fact { kind: kind.into(), at_ns, detail: detail.into() };
        let facts = vec![
            fact("submitted", 10, ""),
            fact("claimed", 20, "w1"),
            fact("launched", 30, ""),
            fact("attempt_ended", 40, ""),
            fact("claimed", 50, "w2"),
            fact("launched", 60, ""),
            fact("cancel_requested", 70, ""),
            fact("last_word", 80, "cancelled"),
        ];
        let log = vec![Logged { job: "a".into(), facts, unended_ns: 0, runs_ns: 0 }];
        let evidence = Evidence { log, ..Evidence::default() };
        let at = |from_ns, worker| {
            phases(&evidence, &Struck { fault: Fault::KillWorker, worker, from_ns, to_ns: from_ns })
        };
        let seen = [5, 15, 25, 35, 45, 55, 65, 75, 85].map(|ns| at(ns, None).first().copied());
        let [queued, launching, running, stopping, between, idle] = PHASES.map(|(phase, _)| Some(phase));
        assert_eq!(seen, [idle, queued, launching, running, between, launching, running, stopping, idle]);
        assert_eq!(at(65, Some("w2")), [Phase::Running]);
        assert_eq!(at(65, Some("w1")), [Phase::Idle], "another worker has it");
        assert_eq!(at(45, Some("w1")), [Phase::Between, Phase::Idle], "no worker has it");
    }
}
