//! Judges of a job's log: its one last word, the reasons of a job that waited for another one, and what was accepted for it.

use serde_json::Value;

use super::explained;
use crate::chaos::evidence::Case;
use crate::chaos::plan::LABEL;

/// One last word, nothing but late reports after it, and the job says the same.
pub(super) fn one_last_word(case: &Case) -> Result<(), String> {
    let log = &case.told.log;
    let words: Vec<usize> = (0..log.len()).filter(|at| log[*at].0 == "last_word").collect();
    let [word] = words[..] else { return Err(format!("{} last words in its log", words.len())) };
    let after = log[word + 1..].iter().find(|(kind, _)| kind != "late_reported");
    explained(after.is_none(), &format!("{after:?} after its last word"))?;
    let (said, told) = (&log[word].1["outcome"], &case.told.outcome);
    explained(said == told, &format!("its last word is {said}, and it is said to be {told}"))
}

/// What is said about the job that this one waited for is true, and decides whether it ran.
pub(super) fn dependency(case: &Case) -> Result<(), String> {
    let told = &case.told;
    let (failed, removed) = (told.cause == "dependency", told.cause == "dependency_removed");
    let Some(other) = &case.acts.dependency else {
        return explained(!failed && !removed, "ended for a dependency it never had");
    };
    for (kind, data) in told.log.iter().filter(|(_, data)| data["job"] == *other.id) {
        match kind.as_str() {
            "dependency_settled" => {
                let is_true = other.outcome.as_ref().is_none_or(|outcome| data["outcome"] == **outcome);
                let (said, was) = (&data["outcome"], &other.outcome);
                explained(
                    is_true,
                    &format!("its log says that {} ended as {said}, it did as {was:?}", other.id),
                )?;
            }
            "dependency_removed" => {
                explained(
                    other.may_be_gone,
                    &format!("its log says that {} is gone, and it is there", other.id),
                )?;
            }
            _ => {}
        }
    }
    let unmet = other.must && other.outcome.as_deref() != Some("completed");
    let known_unmet = unmet && other.outcome.is_some();
    let was = format!("{other:?}");
    explained(!failed || unmet, &format!("ended for its dependency, which was met: {was}"))?;
    explained(!removed || (other.must && other.may_be_gone), &format!("its dependency is there: {was}"))?;
    if failed || removed {
        return Ok(());
    }
    explained(!known_unmet || case.life.pids.is_empty(), &format!("ran, and was not to: {was}"))?;
    let first = case.life.attempts.values().map(|attempt| attempt.first_ns).min();
    let early = first.is_some_and(|first| first < other.last_ns);
    explained(!early, &format!("ran before the other one had ended: {was}"))
}

/// What was accepted is in the log.
pub(super) fn changes(case: &Case) -> Result<(), String> {
    let has = |kind: &str, is: &dyn Fn(&Value) -> bool| {
        case.told.log.iter().any(|(found, data)| found == kind && is(data))
    };
    if let Some((wall_ms, true)) = case.acts.limit {
        let is_it = |data: &Value| data["limit"] == "wall" && data["value"] == wall_ms;
        let is_there = has("limit_changed", &is_it) || case.order.wall_ms == Some(wall_ms);
        explained(is_there, &format!("its limit was changed to {wall_ms} ms, and its log lacks that"))?;
    }
    if let Some(value) = &case.acts.label {
        let is_there = has("labels_changed", &|data| data["labels"][LABEL] == **value);
        explained(is_there, "a label was accepted, and its log lacks it")?;
    }
    Ok(())
}

/// A key names one job, and after its removal none.
pub(super) fn key(case: &Case) -> Result<(), String> {
    let other = case.acts.same_key.iter().find(|answer| **answer != case.id);
    explained(other.is_none(), &format!("its key was answered with {other:?}, too"))?;
    match case.acts.key_later.as_deref() {
        None | Some("removed") => Ok(()),
        Some(answer) => Err(format!("removed, and its key is answered with {answer}")),
    }
}
