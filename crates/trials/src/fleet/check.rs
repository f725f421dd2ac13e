//! The checker of a history. It is pure: it reads evidence and returns what is wrong.

use super::canary::Run;
use super::evidence::{Answered, Evidence, Logged};

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// Two processes of one job were alive at the same time.
    Overlap,
    /// A job has two last words, or something happened to it after the first.
    SecondLastWord,
    /// An acknowledged request is not in the log.
    Loss,
    /// The log has a success that no process had.
    FalseSuccess,
    /// A job did not end in time.
    Late,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) rule: Rule,
    pub(super) what: String,
}

/// What the checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) violations: Vec<Violation>,
    /// Acknowledged requests that are gone, in a history whose journal lost writes.
    pub(super) losses: Vec<String>,
}

/// Judges a history.
pub(super) fn check(evidence: &Evidence) -> Findings {
    let mut findings = Findings::default();
    overlaps(evidence, &mut findings);
    endings(evidence, &mut findings);
    losses(evidence, &mut findings);
    successes(evidence, &mut findings);
    in_time(evidence, &mut findings);
    findings
}

impl Findings {
    fn add(&mut self, rule: Rule, what: String) {
        self.violations.push(Violation { rule, what });
    }

    /// Adds something that only a journal that lost writes may have done.
    fn lost(&mut self, evidence: &Evidence, rule: Rule, what: String) {
        match evidence.lost_writes {
            true => self.losses.push(what),
            false => self.add(rule, what),
        }
    }
}

/// No two processes of a job live at the same time, not for a moment.
fn overlaps(evidence: &Evidence, findings: &mut Findings) {
    for (place, one) in evidence.runs.iter().enumerate() {
        for other in &evidence.runs[place + 1..] {
            let meet = one.first_ns <= other.last_ns && other.first_ns <= one.last_ns;
            if one.job == other.job && meet {
                let from = one.first_ns.max(other.first_ns);
                let for_ms = (one.last_ns.min(other.last_ns) - from) / 1_000_000;
                let what =
                    format!("{}: {} and {} for {for_ms} ms from {from}", one.job, name(one), name(other));
                findings.add(Rule::Overlap, what);
            }
        }
    }
}

fn name(run: &Run) -> String {
    format!("attempt {} on {} ({})", run.attempt, run.host, run.process)
}

/// A job has one last word. Nothing follows it, and it is the one that clients were told.
fn endings(evidence: &Evidence, findings: &mut Findings) {
    for logged in &evidence.log {
        let job = &logged.job;
        let endings = logged.endings().count();
        if endings > 1 {
            findings.add(Rule::SecondLastWord, format!("{job} has {endings} last words"));
        }
        let after = logged.facts.iter().skip_while(|fact| fact.kind != "last_word");
        for fact in after.filter(|fact| !["last_word", "late_reported"].contains(&fact.kind.as_str())) {
            findings.add(Rule::SecondLastWord, format!("{job}: {} after its last word", fact.kind));
        }
    }
    for answer in &evidence.answers {
        let Answered::Ended(told) = &answer.what else { continue };
        let logged = evidence.logged(&answer.job);
        let now = logged.and_then(|logged| logged.endings().next());
        if now.is_some_and(|now| now != told) {
            let what = format!("{} ended {now:?}; a client was told {told}", answer.job);
            findings.lost(evidence, Rule::SecondLastWord, what);
        }
        let again = evidence.runs.iter().find(|run| run.job == answer.job && run.last_ns > answer.at_ns);
        if let Some(run) = again {
            let what = format!("{}: {} lived after a client was told that it ended", answer.job, name(run));
            // What was told may be lost; that nothing is alive may not.
            match run.first_ns > answer.at_ns {
                true => findings.lost(evidence, Rule::SecondLastWord, what),
                false => findings.add(Rule::SecondLastWord, what),
            }
        }
    }
}

/// What was acknowledged is in the log.
fn losses(evidence: &Evidence, findings: &mut Findings) {
    for answer in &evidence.answers {
        let logged = evidence.logged(&answer.job);
        let kept = match &answer.what {
            Answered::Submitted => logged.is_some(),
            Answered::Cancelled => logged.is_some_and(|logged| logged.has("cancel_requested")),
            Answered::Ended(_) => logged.is_some_and(|logged| logged.endings().next().is_some()),
        };
        if !kept {
            let what = format!("{}: {:?} was acknowledged and is not in the log", answer.job, answer.what);
            findings.lost(evidence, Rule::Loss, what);
        }
    }
}

/// A job that completed has a process that did.
fn successes(evidence: &Evidence, findings: &mut Findings) {
    for logged in evidence.log.iter().filter(|logged| logged.endings().any(|ending| ending == "completed")) {
        let ran = evidence.runs.iter().any(|run| run.job == logged.job && run.code == Some(0));
        if !ran {
            findings.add(Rule::FalseSuccess, format!("{} completed, and no process of it did", logged.job));
        }
    }
}

/// Every job ends in time: no client that asks later is told that it has not.
fn in_time(evidence: &Evidence, findings: &mut Findings) {
    for logged in &evidence.log {
        let due = evidence.begins_ns(logged) + evidence.patience_ns + logged.runs_ns;
        if logged.endings().next().is_none() {
            let last = logged.facts.last().map_or("nothing", |fact| fact.kind.as_str());
            findings.add(Rule::Late, format!("{} has not ended; the last of it is {last}", logged.job));
        } else if logged.unended_ns > due {
            let late = (logged.unended_ns - due) / 1_000_000;
            findings.add(Rule::Late, format!("{} ended more than {late} ms too late", logged.job));
        }
    }
}

/// Returns how long after the last fault the slowest job was still told not to have ended, beside its own run time.
pub(super) fn slowest_ns(evidence: &Evidence) -> u64 {
    let took = |logged: &Logged| {
        logged.unended_ns.saturating_sub(evidence.begins_ns(logged)).saturating_sub(logged.runs_ns)
    };
    evidence.log.iter().map(took).max().unwrap_or(0)
}

impl Evidence {
    /// Returns from when on a job has its time: the last fault is over, and it is submitted.
    fn begins_ns(&self, logged: &Logged) -> u64 {
        self.faults.iter().map(|fault| fault.to_ns).max().unwrap_or(0).max(logged.submitted_ns())
    }

    pub(super) fn logged(&self, job: &str) -> Option<&Logged> {
        self.log.iter().find(|logged| logged.job == job)
    }
}

impl Logged {
    pub(super) fn submitted_ns(&self) -> u64 {
        self.facts.first().map_or(0, |fact| fact.at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::{Answer, Fact, Struck};
    use super::super::fault::Fault;
    use super::*;

    fn run(attempt: u64, host: &str, first_ns: u64, last_ns: u64) -> Run {
        let process = format!("boot-of-{host}.{first_ns}");
        Run { job: "a".into(), attempt, host: host.into(), process, first_ns, last_ns, code: Some(0) }
    }

    fn fact(kind: &str, at_ns: u64, detail: &str) -> Fact {
        Fact { kind: kind.into(), at_ns, detail: detail.into() }
    }

    fn answer(what: Answered, at_ns: u64) -> Answer {
        Answer { job: "a".into(), what, at_ns }
    }

    /// A history in which nothing is wrong: two attempts, a cancel that came too late to matter, and an ending that was read.
    fn sound() -> Evidence {
        let facts = vec![
            fact("submitted", 1, ""),
            fact("claimed", 5, "w1"),
            fact("cancel_requested", 30, ""),
            fact("last_word", 45, "completed"),
        ];
        Evidence {
            runs: vec![run(1, "w1", 10, 20), run(2, "w2", 25, 40)],
            answers: vec![
                answer(Answered::Submitted, 2),
                answer(Answered::Cancelled, 31),
                answer(Answered::Ended("completed".into()), 50),
            ],
            log: vec![Logged { job: "a".into(), facts, unended_ns: 44, runs_ns: 20 }],
            faults: vec![Struck { fault: Fault::KillWorker, worker: Some("w1"), from_ns: 15, to_ns: 22 }],
            lost_writes: false,
            patience_ns: 10,
        }
    }

    fn rules(change: impl FnOnce(&mut Evidence)) -> (Vec<Rule>, usize) {
        let mut evidence = sound();
        change(&mut evidence);
        let findings = check(&evidence);
        let mut rules: Vec<Rule> = findings.violations.iter().map(|violation| violation.rule).collect();
        rules.dedup();
        (rules, findings.losses.len())
    }

    #[test]
    fn a_sound_history_has_nothing_wrong() {
        assert_eq!(rules(|_| {}), (vec![], 0));
    }

    #[test]
    fn one_moment_of_two_processes_is_an_overlap() {
        assert_eq!(rules(|evidence| evidence.runs[0].last_ns = 25), (vec![Rule::Overlap], 0));
        // The same attempt twice: one of them belongs to writes that were lost.
        let twice = |evidence: &mut Evidence| {
            evidence.lost_writes = true;
            evidence.runs = vec![run(1, "w1", 10, 20), run(1, "w1", 12, 14)];
        };
        assert_eq!(rules(twice), (vec![Rule::Overlap], 0));
        let another = |evidence: &mut Evidence| evidence.runs[0].job = "b".into();
        assert_eq!(rules(another), (vec![], 0), "another job may");
    }

    #[test]
    fn a_last_word_is_the_last_and_the_only_one() {
        let second = |evidence: &mut Evidence| evidence.log[0].facts.push(fact("last_word", 60, "failed"));
        assert_eq!(rules(second).0, [Rule::SecondLastWord]);
        let more = |evidence: &mut Evidence| evidence.log[0].facts.push(fact("launched", 60, ""));
        assert_eq!(rules(more).0, [Rule::SecondLastWord]);
        let late = |evidence: &mut Evidence| evidence.log[0].facts.push(fact("late_reported", 60, ""));
        assert_eq!(rules(late).0, []);
    }

    #[test]
    fn what_a_client_was_told_of_an_ending_stays_true() {
        let other = |evidence: &mut Evidence| evidence.answers[2].what = Answered::Ended("cancelled".into());
        assert_eq!(rules(other).0, [Rule::SecondLastWord]);
        let again = |evidence: &mut Evidence| evidence.runs.push(run(3, "w3", 60, 70));
        assert_eq!(rules(again).0, [Rule::SecondLastWord]);
        let lossy = |evidence: &mut Evidence| {
            evidence.lost_writes = true;
            evidence.runs.push(run(3, "w3", 60, 70));
        };
        assert_eq!(rules(lossy), (vec![], 1), "its ending was lost");
        let alive = |evidence: &mut Evidence| {
            evidence.lost_writes = true;
            evidence.runs[1].last_ns = 55;
        };
        assert_eq!(rules(alive).0, [Rule::SecondLastWord], "it was alive when its end was told");
    }

    #[test]
    fn an_acknowledged_request_is_in_the_log() {
        let no_job = |evidence: &mut Evidence| evidence.log.clear();
        assert_eq!(rules(no_job).0, [Rule::Loss]);
        let no_cancel = |evidence: &mut Evidence| {
            evidence.log[0].facts.remove(2);
        };
        assert_eq!(rules(no_cancel), (vec![Rule::Loss], 0));
        let lossy = |evidence: &mut Evidence| {
            evidence.lost_writes = true;
            evidence.log.clear();
        };
        assert_eq!(rules(lossy), (vec![], 3));
    }

    #[test]
    fn a_success_is_one_of_a_process() {
        let stopped = |evidence: &mut Evidence| evidence.runs[1].code = None;
        assert_eq!(rules(stopped).0, [], "the first attempt exited with zero");
        let none = |evidence: &mut Evidence| evidence.runs.iter_mut().for_each(|run| run.code = Some(75));
        assert_eq!(rules(none).0, [Rule::FalseSuccess]);
    }

    #[test]
    fn every_job_ends_in_time() {
        let just = |evidence: &mut Evidence| evidence.log[0].unended_ns = 22 + 10 + 20;
        assert_eq!(rules(just).0, []);
        let late = |evidence: &mut Evidence| evidence.log[0].unended_ns = 22 + 10 + 20 + 1;
        assert_eq!(rules(late).0, [Rule::Late]);
        let never = |evidence: &mut Evidence| {
            evidence.log[0].facts.pop();
            evidence.answers.pop();
        };
        assert_eq!(rules(never).0, [Rule::Late]);
    }
}
