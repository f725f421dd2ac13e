//! Judges of one job.

use super::{Violation, explained, log};
use crate::chaos::canary::{ERROR_EVERY, line};
use crate::chaos::evidence::{Case, Exit, Try};
use crate::chaos::plan::{Canary, TRY_AGAIN};

/// A judge and the promise it knows.
type Judge = (&'static str, fn(&Case) -> Result<(), String>);

#[rustfmt::skip] // One row, one judge.
pub(crate) const JUDGES: &[Judge] = &[
    ("nothing alive", nothing_alive),
    ("one at a time", one_at_a_time),
    ("outcome", outcome),
    ("cancel", cancel),
    ("exit", exit),
    ("attempts", attempts),
    ("output", output),
    ("inputs", inputs),
    ("receipt", receipt),
    ("wait", wait),
    ("logs", logs),
    ("log", log::one_last_word),
    ("dependency", log::dependency),
    ("changes", log::changes),
    ("key", log::key),
];

/// How long a launch that was under way may take to be seen once a cancel was acknowledged.
const UNDER_WAY_NS: u64 = 2_000_000_000;

/// How much earlier than its limit a job may seem to have been stopped: the limit counts from the launch, what is known here
/// from the first note, and between the two lies whatever else this machine had to do.
const EARLY_NS: u64 = 1_000_000_000;

/// Hears every judge.
pub(crate) fn judge(case: &Case) -> Vec<Violation> {
    let name = |why: String| format!("job {} ({}, {}): {why}", case.order.number, case.order.kind(), case.id);
    let heard = JUDGES.iter().filter_map(|(judge, hear)| Some((*judge, hear(case).err()?)));
    heard.map(|(judge, why)| Violation { judge, what: name(why) }).collect()
}

/// Nothing lives after the last word: no process that ever noted something is alive, and none notes anything later.
fn nothing_alive(case: &Case) -> Result<(), String> {
    if !case.alive.is_empty() {
        return Err(format!("alive after the last word: {:?}", case.alive));
    }
    let late = case.life.last_ns().saturating_sub(case.seen_ns);
    match late {
        0 => Ok(()),
        late => Err(format!("a sign of life {} ms after the last word was seen", late / 1_000_000)),
    }
}

/// At most one attempt at a time, and each is started once.
fn one_at_a_time(case: &Case) -> Result<(), String> {
    let attempts: Vec<_> = case.life.attempts.iter().collect();
    for (no, attempt) in &attempts {
        if attempt.births.len() > 1 {
            return Err(format!("attempt {no} was started {} times", attempt.births.len()));
        }
    }
    for pair in attempts.windows(2) {
        let ((no, earlier), (_, later)) = (pair[0], pair[1]);
        if later.first_ns <= earlier.last_ns {
            return Err(format!("attempt {no} still lived when the next one began"));
        }
    }
    Ok(())
}

/// The outcome is one that what happened can explain.
fn outcome(case: &Case) -> Result<(), String> {
    let (order, acts, told) = (&case.order, &case.acts, &case.told);
    if told.phase != "ended" {
        return Err(format!("its last word was seen, and it is said to be {}", told.phase));
    }
    if matches!(told.cause.as_str(), "dependency" | "dependency_removed") {
        // Whether that is true is for another judge.
        return explained(case.life.pids.is_empty(), "ended for its dependency, and lived");
    }
    let last = case.life.attempts.values().next_back();
    match told.outcome.as_str() {
        "completed" => {
            let did = order.canary().is_none() || last.is_some_and(|attempt| attempt.ends == Some(0));
            explained(did || acts.murdered, "said to have completed, and did not")
        }
        "failed" if told.cause == "launch" => {
            let error = told.attempts.last().map_or("", |attempt| &attempt.error);
            let complaint = format!("could not be started, and nothing stood in the way: {error}");
            explained(acts.disk_full, &complaint)
        }
        "failed" => {
            let did = last.is_some_and(|attempt| attempt.ends.is_some_and(|code| code != 0));
            explained(did || order.canary().is_none() || acts.murdered, "said to have failed, and did not")
        }
        "cancelled" => explained(acts.cancel_sent, "cancelled, and nobody asked for it"),
        "timed_out" => timed_out(case),
        "lost" => {
            let last = told.attempts.last().map(|attempt| (&attempt.proof, &attempt.keeper_stop));
            explained(acts.murdered, &format!("lost, and its keeper was left alone: {last:?}"))
        }
        other => Err(format!("ended as {other:?}")),
    }
}

fn timed_out(case: &Case) -> Result<(), String> {
    // The least that it ever had.
    let limits = [case.order.wall_ms, case.acts.limit.map(|(wall_ms, _)| wall_ms)];
    let Some(wall_ms) = limits.into_iter().flatten().min() else {
        return Err("timed out, and had no limit".to_owned());
    };
    let first = case.life.attempts.values().next_back().map(|attempt| attempt.first_ns);
    let lasted = case.seen_ns.saturating_sub(first.unwrap_or(0));
    let enough = lasted + EARLY_NS >= wall_ms * 1_000_000;
    explained(enough, &format!("timed out after {} ms, allowed were {wall_ms}", lasted / 1_000_000))
}

/// A cancel that was acknowledged holds: it ends the job, and nothing is started after it.
fn cancel(case: &Case) -> Result<(), String> {
    let Some(acknowledged) = case.acts.cancelled_ns else { return Ok(()) };
    let late = |first: u64| first > acknowledged + UNDER_WAY_NS;
    if let Some((no, _)) = case.life.attempts.iter().find(|(_, attempt)| late(attempt.first_ns)) {
        return Err(format!("attempt {no} was started after the cancel was acknowledged"));
    }
    let ended_itself = case.life.attempts.values().next_back().is_some_and(|attempt| attempt.ends.is_some());
    let had_to_run_on = case.order.canary().is_some() && !ended_itself && !case.acts.murdered;
    let other = matches!(case.told.outcome.as_str(), "completed" | "failed")
        && !matches!(case.told.cause.as_str(), "dependency" | "dependency_removed" | "launch");
    explained(
        !(had_to_run_on && other),
        &format!("cancelled while it ran, and ended as {}", case.told.outcome),
    )
}

/// Exit codes are true.
fn exit(case: &Case) -> Result<(), String> {
    if case.order.canary().is_none() || case.acts.murdered {
        return Ok(());
    }
    for attempt in &case.told.attempts {
        let by_itself = matches!(attempt.outcome.as_str(), "completed" | "failed");
        let noted = case.life.attempts.get(&attempt.no).and_then(|noted| noted.ends);
        let noted = noted.map(|code| Exit::Code(i64::from(code)));
        let started = case.life.attempts.contains_key(&attempt.no);
        if by_itself && started && attempt.exit != noted {
            return Err(format!("attempt {} exited with {noted:?}, told was {:?}", attempt.no, attempt.exit));
        }
    }
    Ok(())
}

/// As many attempts as were to be made, where nothing came in between.
fn attempts(case: &Case) -> Result<(), String> {
    let Case { order, acts, told, .. } = case;
    let unlimited = order.wall_ms.is_none() && acts.limit.is_none();
    let undisturbed = !acts.cancel_sent && !acts.murdered && !acts.disk_full && unlimited;
    let never_began = matches!(told.cause.as_str(), "dependency" | "dependency_removed");
    let Some(canary) = order.canary().filter(|_| undisturbed && !never_began) else {
        return Ok(());
    };
    // What was intended and never started, because its daemon died in between, is intended once more and counts for nothing.
    let begun = told.attempts.iter().filter(|attempt| attempt.proof != "never_started");
    let (expected, made) = (expected_attempts(canary, order.retries), begun.count() as u64);
    explained(made == expected, &format!("{made} attempts were made, and {expected} asked for"))?;
    let noted = case.life.attempts.len() as u64;
    explained(noted == made, &format!("{made} attempts are told of, and {noted} were lived"))
}

/// Returns how many attempts a canary takes.
fn expected_attempts(canary: &Canary, retries: u64) -> u64 {
    let code = |attempt: u64| if attempt <= canary.fails { TRY_AGAIN } else { canary.code };
    (1..=retries + 1).find(|attempt| code(*attempt) == 0).unwrap_or(retries + 1)
}

/// Every line that was said is there, once and in order; where some is missing, that is admitted, and has its reason.
fn output(case: &Case) -> Result<(), String> {
    if case.order.canary().is_none() || !case.whole {
        return Ok(());
    }
    for attempt in &case.told.attempts {
        if attempt.output_lost && !case.acts.murdered && !case.acts.disk_full {
            return Err(format!(
                "attempt {} admits that output was lost, and nothing had happened",
                attempt.no
            ));
        }
        let Some(noted) = case.life.attempts.get(&attempt.no) else { continue };
        if attempt.output_lost {
            continue;
        }
        // A canary killed between printing a line and noting it has printed one more.
        let unnoted = u64::from(noted.ends.is_none());
        for (stream, every, bytes) in [("out", 1, &attempt.out), ("err", ERROR_EVERY, &attempt.err)] {
            let wanted = (noted.said / every, (noted.said + unnoted) / every);
            lines(attempt, stream, every, wanted, bytes)?;
        }
    }
    Ok(())
}

/// Holds what was recorded of a stream against what was said: every line `every` to at least the first of `wanted`.
fn lines(attempt: &Try, stream: &str, every: u64, wanted: (u64, u64), bytes: &[u8]) -> Result<(), String> {
    let what = || format!("attempt {}, {stream}", attempt.no);
    if attempt.skipped > 0 {
        return Err(format!("{}: {} bytes were left out", what(), attempt.skipped));
    }
    let text = String::from_utf8_lossy(bytes);
    let said = text.split_inclusive('\n').filter(|line| !line.starts_with("heard "));
    let mut count = 0;
    for (found, number) in said.zip(1_u64..) {
        let expected = line(stream, attempt.no, number * every);
        if found != expected {
            return Err(format!("{}: line {number} is {found:?}, said was {expected:?}", what()));
        }
        count = number;
    }
    let (least, most) = wanted;
    match (least..=most).contains(&count) {
        true => Ok(()),
        false => Err(format!("{}: {count} lines are there, said were {least}", what())),
    }
}

/// Every input that was accepted is heard once, in order.
fn inputs(case: &Case) -> Result<(), String> {
    if case.acts.murdered || !case.whole {
        return Ok(());
    }
    let Some(attempt) = case.told.attempts.first() else { return Ok(()) };
    let text = String::from_utf8_lossy(&attempt.out);
    let heard: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("heard ")).collect();
    let expected: Vec<String> = (1..=heard.len()).map(|number| format!("input {number}")).collect();
    explained(heard == expected, &format!("heard {heard:?}"))?;
    let lived = case.life.attempts.get(&attempt.no);
    let missing = lived.is_some_and(|lived| lived.ends.is_some()) && (heard.len() as u64) < case.acts.inputs;
    explained(
        !missing || attempt.output_lost,
        &format!("{} inputs were accepted, {heard:?} heard", case.acts.inputs),
    )
}

/// Every attempt has a receipt, and it is certain as long as its keepers lived.
fn receipt(case: &Case) -> Result<(), String> {
    for attempt in &case.told.attempts {
        if attempt.proof.is_empty() {
            return Err(format!("attempt {} has no receipt", attempt.no));
        }
        if !attempt.certain && !case.acts.murdered {
            return Err(format!("attempt {}: {}, and its keeper was left alone", attempt.no, attempt.proof));
        }
        if attempt.proof == "never_started" && case.life.attempts.contains_key(&attempt.no) {
            return Err(format!("attempt {} is said never to have started, and lived", attempt.no));
        }
    }
    let untold = case.life.attempts.keys().find(|no| !case.told.attempts.iter().any(|told| told.no == **no));
    explained(untold.is_none(), &format!("attempt {untold:?} lived, and nobody tells of it"))
}

/// `wait` exits with what the outcome asks for.
fn wait(case: &Case) -> Result<(), String> {
    let Some(code) = case.acts.waited else { return Ok(()) };
    let expected = match case.told.outcome.as_str() {
        "completed" => 0,
        "cancelled" => 3,
        _ => 1,
    };
    explained(code == expected, &format!("ended as {}, and `wait` exited with {code}", case.told.outcome))
}

/// `logs` prints the newest attempt as the API has it.
fn logs(case: &Case) -> Result<(), String> {
    if !case.whole {
        return Ok(());
    }
    let (Some([out, err]), Some(last)) = (&case.logs, case.told.attempts.last()) else { return Ok(()) };
    // What never started has no output, and `logs` says that instead.
    let (none, started) = (Vec::new(), last.proof != "never_started");
    let err = if started { err } else { &none };
    // Where bytes are missing, it says so beside what the job itself wrote there.
    let err = if last.skipped > 0 { &without_notices(err) } else { err };
    for (stream, printed, recorded) in [("out", out, &last.out), ("err", err, &last.err)] {
        let same = printed.iter().zip(recorded).take_while(|(one, other)| one == other).count();
        let after = String::from_utf8_lossy(&printed[same..]);
        let what = format!(
            "`logs` prints {} bytes of std{stream}, recorded are {}; from {same} on it says {after:?}",
            printed.len(),
            recorded.len()
        );
        explained(printed == recorded, &what)?;
    }
    Ok(())
}

/// Returns what was printed without the lines by which the product says that bytes are missing.
fn without_notices(printed: &[u8]) -> Vec<u8> {
    let is_notice = |line: &&[u8]| {
        let line = String::from_utf8_lossy(line);
        line.starts_with("lastword: ") && line.ends_with(" are not kept, and are left out here\n")
    };
    printed
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !is_notice(line))
        .flatten()
        .copied()
        .collect()
}
