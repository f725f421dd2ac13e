//! Evidence that was doctored, one lie at a time: honest evidence must pass every judge, and each lie must be caught by the
//! judge it is meant for. A judge that cannot fail has shown nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::run::{Logged, Need, Run, Sample};
use super::{Violation, job, run};
use crate::chaos::canary::{Attempt, ERROR_EVERY, Life, line};
use crate::chaos::evidence::{Acts, Case, Dependency, Exit, Told, Try};
use crate::chaos::members::Member;
use crate::chaos::plan::{Canary, LABEL, Order, Work};

const MS: u64 = 1_000_000;

/// A lie about one job: the judge that must catch it, what it is, and how it is told.
type OfJob = (&'static str, &'static str, fn(&mut Case));

#[rustfmt::skip] // One row, one lie.
const OF_JOB: &[OfJob] = &[
    ("nothing alive", "a process outlives the last word", |case| case.alive.push(4_711)),
    ("nothing alive", "a sign of life after the last word", |case| sign(case, 12, case.seen_ns + 1)),
    ("one at a time", "two attempts live at once", |case| life(case, 2).first_ns = 150 * MS),
    ("one at a time", "an attempt is started twice", |case| born(case, 1, 99)),
    ("outcome", "said to have completed, and failed", |case| life(case, 2).ends = Some(3)),
    ("outcome", "cancelled, and nobody asked", |case| case.told.outcome = "cancelled".to_owned()),
    ("outcome", "lost, and nobody killed its keeper", |case| case.told.outcome = "lost".to_owned()),
    ("outcome", "timed out without a limit", |case| case.told.outcome = "timed_out".to_owned()),
    ("outcome", "timed out hours too early", |case| {
        case.told.outcome = "timed_out".to_owned();
        case.order.wall_ms = Some(3_600_000);
    }),
    ("outcome", "could not be started, with room on the disk", |case| {
        case.told.outcome = "failed".to_owned();
        case.told.cause = "launch".to_owned();
    }),
    ("outcome", "ended for a dependency, and lived", |case| case.told.cause = "dependency".to_owned()),
    ("outcome", "a last word, and still running", |case| case.told.phase = "running".to_owned()),
    ("cancel", "a cancel that was acknowledged and forgotten", |case| {
        case.acts.cancelled_ns = Some(120 * MS);
        life(case, 2).ends = None;
    }),
    ("cancel", "started after its cancel was acknowledged", |case| {
        case.acts.cancelled_ns = Some(1);
        let late = life(case, 2);
        (late.first_ns, late.last_ns) = (4_000 * MS, 4_100 * MS);
        case.seen_ns = 5_000 * MS;
    }),
    ("exit", "another exit code", |case| case.told.attempts[0].exit = Some(Exit::Code(1))),
    ("exit", "a signal for an exit code", |case| case.told.attempts[1].exit = Some(Exit::Signal(9))),
    ("attempts", "an attempt too many", |case| {
        let again = Try { no: 3, ..case.told.attempts[1].clone() };
        case.told.attempts.push(again);
    }),
    ("attempts", "a retry that was never made", |case| drop(case.told.attempts.pop())),
    ("output", "the last line is missing", |case| cut_last_line(&mut case.told.attempts[1].out)),
    ("output", "the last line of stderr is missing", |case| cut_last_line(&mut case.told.attempts[1].err)),
    ("output", "a line in the middle is missing", |case| drop(case.told.attempts[0].out.drain(61..122))),
    ("output", "a line is there twice", |case| {
        let first = case.told.attempts[0].out[..61].to_vec();
        case.told.attempts[0].out.splice(0..0, first);
    }),
    ("output", "half a line is missing", |case| case.told.attempts[0].out.truncate(100)),
    ("output", "bytes were left out", |case| case.told.attempts[0].skipped = 7),
    ("output", "a loss is admitted without a reason", |case| case.told.attempts[0].output_lost = true),
    ("output", "a keeper was killed, output is missing, and nobody says so", |case| {
        case.acts.murdered = true;
        cut_last_line(&mut case.told.attempts[0].out);
    }),
    ("inputs", "an input is heard twice", |case| case.told.attempts[0].out.extend(b"heard input 1\nheard input 1\n")),
    ("inputs", "an input was accepted and never heard", |case| case.acts.inputs = 2),
    ("wait", "`wait` says that it failed", |case| case.acts.waited = Some(1)),
    ("wait", "`wait` says that it was cancelled", |case| case.acts.waited = Some(3)),
    ("logs", "`logs` leaves a line out", |case| {
        let last = &case.told.attempts[1];
        case.logs = Some([last.out.clone(), Vec::new()]);
    }),
    ("logs", "`logs` says that bytes are missing, and none are", |case| {
        let last = &case.told.attempts[1];
        let notice = b"lastword: 4.0 KiB of stdout are not kept, and are left out here\n".to_vec();
        case.logs = Some([last.out.clone(), [notice, last.err.clone()].concat()]);
    }),
    ("log", "no last word in its log", |case| drop(case.told.log.pop())),
    ("log", "two last words in its log", |case| {
        let last = case.told.log[case.told.log.len() - 1].clone();
        case.told.log.push(last);
    }),
    ("log", "something follows the last word", |case| case.told.log.push(("labels_changed".to_owned(), Value::Null))),
    ("log", "the log has another ending", |case| case.told.outcome = "failed".to_owned()),
    ("dependency", "ended for a dependency it never had", |case| {
        case.acts.dependency = None;
        end_for(case, "dependency");
    }),
    ("dependency", "ended for a dependency that completed", |case| end_for(case, "dependency")),
    ("dependency", "ended for a removed dependency, which is there", |case| end_for(case, "dependency_removed")),
    ("dependency", "cancelled for a removed one, which might have failed", |case| {
        other(case).may_be_gone = true;
        other(case).must = false;
        end_for(case, "dependency_removed");
    }),
    ("dependency", "ran although the other one failed", |case| other(case).outcome = Some("failed".to_owned())),
    ("dependency", "ran while the other one lived", |case| other(case).last_ns = 150 * MS),
    ("dependency", "the log has another ending of the other one", |case| settled(case)["outcome"] = json!("lost")),
    ("dependency", "the log calls a job removed that is there", |case| case.told.log[1].0 = "dependency_removed".to_owned()),
    ("changes", "a limit was accepted and forgotten", |case| case.acts.limit = Some((901, true))),
    ("changes", "a label was accepted and forgotten", |case| case.acts.label = Some("other".to_owned())),
    ("key", "one key, two jobs", |case| case.acts.same_key.push("job_6".to_owned())),
    ("key", "a key starts its work again after a removal", |case| case.acts.key_later = Some("job_7".to_owned())),
    ("receipt", "no receipt", |case| case.told.attempts[0].proof.clear()),
    ("receipt", "best effort, and nobody killed its keeper", |case| case.told.attempts[1].certain = false),
    ("receipt", "never started, and lived", |case| case.told.attempts[1].proof = "never_started".to_owned()),
    ("receipt", "an attempt nobody tells of", |case| {
        case.life.attempts.insert(7, Attempt { first_ns: 700 * MS, last_ns: 701 * MS, ..Attempt::default() });
    }),
];

/// A lie about a run.
type OfRun = (&'static str, &'static str, fn(&mut Run));

#[rustfmt::skip] // One row, one lie.
const OF_RUN: &[OfRun] = &[
    ("one last word", "no last word", |run| run.journal[0].last_words = 0),
    ("one last word", "two last words", |run| run.journal[1].last_words = 2),
    ("one last word", "a job goes on after its last word", |run| run.journal[1].afterthoughts = 1),
    ("no job lost or doubled", "an acknowledged job is not in the journal", |run| drop(run.journal.remove(0))),
    ("no job lost or doubled", "one request, two jobs", |run| run.journal[1].number = Some(0)),
    ("no job lost or doubled", "refused, and taken", |run| drop(run.acknowledged.remove(&1))),
    ("removed", "a job is removed before its end", |run| {
        run.journal.remove(0);
        run.removed.insert("job_0".to_owned(), false);
    }),
    ("feed", "a last word that the feed skips", |run| _ = run.feed.remove("job_0")),
    ("feed", "a last word that the feed tells twice", |run| told(run, "job_1", 2)),
    ("no job stuck", "a job that never ends", |run| run.stuck.push("job_1 running".to_owned())),
    ("nothing left", "a process is left", |run| run.left.push("4711 sleep".to_owned())),
    ("memory", "a daemon that grows", |run| grow(run, |sample, by| sample.resident_kb += 40 * by)),
    ("descriptors", "a daemon that never closes", |run| grow(run, |sample, by| sample.descriptors += by / 4)),
    ("zombies", "a daemon that does not wait for its children", |run| grow(run, |sample, by| sample.zombies += by)),
    ("faults took place", "a run without faults", |run| run.tally[0].count = 0),
];

/// Tells every lie, and returns for each the judge that must catch it, what it is, and the violations found.
pub(crate) fn tell() -> Vec<(&'static str, &'static str, Vec<Violation>)> {
    let of_job = OF_JOB.iter().map(|(judge, what, doctor)| {
        let mut case = honest_case();
        doctor(&mut case);
        (*judge, *what, job::judge(&case))
    });
    let of_run = OF_RUN.iter().map(|(judge, what, doctor)| {
        let mut run = honest_run();
        doctor(&mut run);
        (*judge, *what, run::judge(&run))
    });
    of_job.chain(of_run).collect()
}

fn sign(case: &mut Case, pid: i32, at_ns: u64) {
    case.life.pids.insert(pid, at_ns);
}

fn born(case: &mut Case, attempt: u64, pid: i32) {
    life(case, attempt).births.insert(pid);
}

fn told(run: &mut Run, id: &str, times: u64) {
    run.feed.insert(id.to_owned(), times);
}

fn life(case: &mut Case, attempt: u64) -> &mut Attempt {
    case.life.attempts.entry(attempt).or_default()
}

fn other(case: &mut Case) -> &mut Dependency {
    case.acts.dependency.get_or_insert_default()
}

fn settled(case: &mut Case) -> &mut Value {
    &mut case.told.log[1].1
}

/// Makes it a job that never began, for this reason.
fn end_for(case: &mut Case, cause: &str) {
    case.told.cause = cause.to_owned();
    case.life = Life::default();
}

fn cut_last_line(bytes: &mut Vec<u8>) {
    bytes.pop();
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(end);
}

fn grow(run: &mut Run, by: fn(&mut Sample, u64)) {
    let all = run.samples.values_mut().flat_map(|samples| samples.iter_mut().zip(0..));
    for (sample, number) in all {
        by(sample, number);
    }
}

/// A canary that failed once and completed then, twelve lines each.
pub(crate) fn honest_case() -> Case {
    const LINES: u64 = 12;
    let canary = Canary { lines: LINES, pause_us: 0, code: 0, fails: 1, inputs: 0 };
    let order = Order {
        number: 5,
        work: Work::Canary(canary),
        by_command: false,
        narrow: false,
        priority: 0,
        retries: 2,
        wall_ms: None,
        after: None,
        cancel: None,
        murder: None,
        limit: None,
        label_ms: None,
        twice: false,
        seen: false,
        again: false,
        remove: None,
        prune_ms: None,
    };
    let attempt = |pid: i32, from_ms: u64, ends: i32| Attempt {
        births: BTreeSet::from([pid]),
        first_ns: from_ms * MS,
        last_ns: (from_ms + 90) * MS,
        said: LINES,
        heard: 0,
        ends: Some(ends),
    };
    let all = |stream: &str, no: u64, every: u64| -> Vec<u8> {
        (1..=LINES / every).flat_map(|number| line(stream, no, number * every).into_bytes()).collect()
    };
    let told = |no: u64, outcome: &str, code: i64| Try {
        no,
        outcome: outcome.to_owned(),
        exit: Some(Exit::Code(code)),
        error: String::new(),
        keeper_stop: String::new(),
        proof: "no_children".to_owned(),
        certain: true,
        output_lost: false,
        out: all("out", no, 1),
        err: all("err", no, ERROR_EVERY),
        skipped: 0,
    };
    let log = [
        ("submitted", Value::Null),
        ("dependency_settled", json!({ "job": "job_4", "outcome": "completed" })),
        ("limit_changed", json!({ "limit": "wall", "value": 900 })),
        ("labels_changed", json!({ "labels": { LABEL: "5" } })),
        ("last_word", json!({ "outcome": "completed" })),
    ];
    Case {
        order,
        id: "job_5".to_owned(),
        acts: Acts {
            dependency: Some(Dependency {
                id: "job_4".to_owned(),
                must: true,
                outcome: Some("completed".to_owned()),
                may_be_gone: false,
                last_ns: 50 * MS,
            }),
            label: Some("5".to_owned()),
            same_key: vec!["job_5".to_owned()],
            key_later: Some("removed".to_owned()),
            ..Acts::default()
        },
        seen_ns: 400 * MS,
        alive: Vec::new(),
        life: Life {
            pids: BTreeMap::from([(10, 190 * MS), (11, 390 * MS)]),
            attempts: BTreeMap::from([(1, attempt(10, 100, 75)), (2, attempt(11, 300, 0))]),
        },
        told: Told {
            phase: "ended".to_owned(),
            outcome: "completed".to_owned(),
            cause: "finished".to_owned(),
            attempts: vec![told(1, "failed", 75), told(2, "completed", 0)],
            log: log.map(|(kind, data)| (kind.to_owned(), data)).into(),
        },
        logs: None,
        whole: true,
    }
}

/// Two jobs, and a daemon that stays as it is.
fn honest_run() -> Run {
    let logged = |number: u64| Logged {
        id: format!("job_{number}"),
        number: Some(number),
        last_words: 1,
        afterthoughts: 0,
    };
    let sample = |number: u64| Sample {
        at_s: number as f64,
        pid: 1,
        resident_kb: 15_000 + number * 7 % 50,
        descriptors: 30 + number * 5 % 9,
        zombies: 0,
    };
    Run {
        acknowledged: (0..2).map(|number| (number, format!("job_{number}"))).collect(),
        unanswered: BTreeSet::new(),
        journal: (0..2).map(logged).collect(),
        feed: (0..2).map(|number| (format!("job_{number}"), 1)).collect(),
        removed: BTreeMap::new(),
        stuck: Vec::new(),
        left: Vec::new(),
        samples: BTreeMap::from([(Member::Daemon, (0..200).map(sample).collect())]),
        tally: vec![Need { what: "daemons killed", count: 4, least: 1 }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn honest_evidence_passes_every_judge() {
        assert_eq!(job::judge(&honest_case()), []);
        assert_eq!(run::judge(&honest_run()), []);
    }

    #[test]
    fn every_lie_is_caught_by_its_judge() {
        for (judge, what, caught) in tell() {
            assert!(caught.iter().any(|violation| violation.judge == judge), "{judge}: {what}: {caught:?}");
        }
    }

    #[test]
    fn every_judge_has_a_lie_to_catch() {
        let told: BTreeSet<&str> = tell().into_iter().map(|(judge, _, _)| judge).collect();
        let names = job::JUDGES.iter().map(|(name, _)| name).chain(run::JUDGES.iter().map(|(name, _)| name));
        for name in names {
            assert!(told.contains(name), "nothing makes `{name}` fail");
        }
    }

    #[test]
    fn what_the_commands_say_is_held_against_the_api() {
        let mut said = honest_case();
        said.acts.waited = Some(0);
        said.acts.limit = Some((900, true));
        let last = &said.told.attempts[1];
        said.logs = Some([last.out.clone(), last.err.clone()]);
        assert_eq!(job::judge(&said), []);
    }

    #[test]
    fn what_happened_to_a_job_excuses_it() {
        let mut killed = honest_case();
        killed.acts.murdered = true;
        cut_last_line(&mut killed.told.attempts[1].out);
        killed.told.attempts[1].output_lost = true;
        killed.told.attempts[1].certain = false;
        assert_eq!(job::judge(&killed), []);
        let mut full = honest_case();
        full.acts.disk_full = true;
        full.told.attempts[0].output_lost = true;
        full.told.attempts[0].out.clear();
        assert_eq!(job::judge(&full), []);
    }

    #[test]
    fn what_logs_says_of_missing_bytes_is_not_taken_for_what_the_job_wrote() {
        // Found by a run of two hours: a block was lost while the disk was full.
        let mut full = honest_case();
        full.acts.disk_full = true;
        let last = &mut full.told.attempts[1];
        (last.output_lost, last.skipped) = (true, 4096);
        let notice = b"lastword: 4.0 KiB of stdout are not kept, and are left out here\n".to_vec();
        full.logs = Some([last.out.clone(), [notice, last.err.clone()].concat()]);
        assert_eq!(job::judge(&full), []);
    }
}
