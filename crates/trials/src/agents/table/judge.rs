//! The judge of conversations: what the log of a job may look like when it is over, whatever its agent did.
//!
//! It is asked about every job of every cell. Each of its rules is shown to fail by a log that was doctored against it.

use std::collections::BTreeMap;

use lastword_client::jobs;
use serde_json::Value;

use super::setup::Setup;

/// The promises that it knows.
pub(super) const PROMISES: &[u16] = &[56, 69, 70, 76, 77, 78, 79, 81, 82];

/// Facts by which an agent tells of the turn it works on.
const OF_A_TURN: &[&str] = &["item_completed", "question_asked"];

/// Facts that may follow a last word: none changes how the job ended.
const AFTER_THE_END: &[&str] = &["late_reported", "continued", "limit_changed", "rule_removed"];

/// States of a session in which no turn is active.
const AT_REST: &[&str] = &["ready", "interrupted", "stopped", "errored"];

/// Looks at every job of a setup.
pub(super) fn judge(setup: &Setup) -> Result<(), String> {
    let newest = jobs::Filter { limit: Some(50), ..jobs::Filter::default() };
    let page = setup.product.client().call(&jobs::list(&newest).untyped())?;
    let rows = page["items"].as_array().filter(|rows| !rows.is_empty()).ok_or("there is no job to judge")?;
    for job in rows {
        let id = job["id"].as_str().ok_or_else(|| format!("a job without an id: {job}"))?;
        let job = setup.product.client().call(&jobs::show(id).untyped())?;
        let facts = setup.job(id.to_owned()).facts()?;
        conversation(&facts).and_then(|turns| at_rest(&job, &turns)).map_err(|why| format!("{id}: {why}"))?;
    }
    Ok(())
}

/// Follows a log, and returns how each turn ended.
fn conversation(facts: &[Value]) -> Result<BTreeMap<u64, String>, String> {
    let (mut active, mut ended, mut is_over) = (None, BTreeMap::new(), false);
    for fact in facts {
        let (kind, data) = (fact["type"].as_str().unwrap_or_default(), &fact["data"]);
        let turn = data["turn"].as_u64();
        if is_over && !AFTER_THE_END.contains(&kind) {
            return Err(format!("{kind} after the last word"));
        }
        match (kind, active) {
            ("turn_started", Some(active)) => {
                return Err(format!("turn {turn:?} began while {active} was active"));
            }
            ("turn_started", None) => match turn {
                Some(turn) if !ended.contains_key(&turn) => active = Some(turn),
                other => return Err(format!("turn {other:?} began again")),
            },
            ("turn_ended", _) => {
                let ending = data["ending"].as_str().unwrap_or_default().to_owned();
                if turn.is_none() || turn != active {
                    return Err(format!("turn {turn:?} ended {ending}, and {active:?} was active"));
                }
                if (ending == "completed") != data["usage"].is_object() {
                    return Err(format!("turn {turn:?} ended {ending} and left {}", data["usage"]));
                }
                ended.extend(active.take().map(|turn| (turn, ending)));
            }
            ("session_changed", Some(active)) if AT_REST.iter().any(|state| data["state"] == *state) => {
                return Err(format!("the session is {} with turn {active} active", data["state"]));
            }
            ("attempt_ended" | "last_word", Some(active)) => {
                return Err(format!("{kind} with turn {active} active"));
            }
            (of_a_turn, None) if OF_A_TURN.contains(&of_a_turn) => {
                return Err(format!("{of_a_turn} outside a turn: {data}"));
            }
            _ => {}
        }
        is_over |= kind == "last_word";
    }
    if is_over { Ok(ended) } else { Err("it has no last word".to_owned()) }
}

/// Compares a job as it is shown with its log: its session has no active turn and no open questions.
fn at_rest(job: &Value, turns: &BTreeMap<u64, String>) -> Result<(), String> {
    let session = &job["session"];
    if session.is_null() && turns.is_empty() {
        return Ok(());
    }
    let shown: BTreeMap<u64, String> = session["turns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|turn| Some((turn["turn"].as_u64()?, turn["ending"].as_str()?.to_owned())))
        .collect();
    if shown != *turns {
        return Err(format!("its turns are shown as {shown:?}, and ended {turns:?}"));
    }
    if !session["active_turn"].is_null()
        || !["stopped", "errored"].iter().any(|state| session["state"] == *state)
    {
        return Err(format!("its session is {}, in turn {}", session["state"], session["active_turn"]));
    }
    if session["questions"].as_array().is_none_or(|questions| !questions.is_empty()) {
        return Err(format!("it still asks: {}", session["questions"]));
    }
    let has_completed = turns.values().any(|ending| ending == "completed");
    if !has_completed && !session["resume_reference"].is_null() {
        return Err("it can be resumed, and no turn was completed".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A conversation as it should be.
    fn sound() -> (Vec<Value>, Value) {
        let fact = |kind: &str, data: Value| json!({ "type": kind, "data": data });
        let facts = vec![
            fact("session_started", json!({ "reference": "s" })),
            fact("turn_started", json!({ "turn": 1 })),
            fact("item_completed", json!({ "title": "ls" })),
            fact("turn_ended", json!({ "turn": 1, "ending": "interrupted", "usage": null })),
            fact("turn_started", json!({ "turn": 2 })),
            fact("turn_ended", json!({ "turn": 2, "ending": "completed", "usage": { "tokens_in": 1 } })),
            fact("attempt_ended", json!({})),
            fact("last_word", json!({ "outcome": "completed" })),
        ];
        let job = json!({ "session": {
            "state": "stopped", "active_turn": null, "questions": [], "resume_reference": "s",
            "turns": [{ "turn": 1, "ending": "interrupted" }, { "turn": 2, "ending": "completed" }],
        }});
        (facts, job)
    }

    fn judged(facts: &[Value], job: &Value) -> Result<(), String> {
        conversation(facts).and_then(|turns| at_rest(job, &turns))
    }

    #[test]
    fn a_sound_conversation_is_sound() {
        let (facts, job) = sound();
        assert_eq!(judged(&facts, &job), Ok(()));
    }

    #[test]
    fn a_doctored_log_is_noticed() {
        type Doctor = fn(&mut Vec<Value>);
        let doctored: [(Doctor, &str); 11] = [
            (|log| drop(log.remove(3)), "turn Some(2) began while 1 was active"),
            (|log| log.insert(4, log[3].clone()), "turn Some(1) ended interrupted, and None was active"),
            (|log| log.insert(2, log[1].clone()), "turn Some(1) began while 1 was active"),
            (|log| log[4]["data"]["turn"] = json!(1), "turn Some(1) began again"),
            (|log| log[5]["data"]["usage"] = json!(null), "turn Some(2) ended completed and left null"),
            (|log| log[3]["data"]["usage"] = json!({}), "turn Some(1) ended interrupted and left {}"),
            (|log| log.swap(3, 4), "turn Some(2) began while 1 was active"),
            (|log| log.insert(4, log[2].clone()), "item_completed outside a turn"),
            (
                |log| log.insert(2, json!({ "type": "session_changed", "data": { "state": "ready" } })),
                "the session is \"ready\" with turn 1 active",
            ),
            (|log| drop(log.remove(5)), "attempt_ended with turn 2 active"),
            (|log| log.push(log[7].clone()), "last_word after the last word"),
        ];
        for (doctor, noticed) in doctored {
            let (mut facts, job) = sound();
            doctor(&mut facts);
            let why = judged(&facts, &job).unwrap_err();
            assert!(why.contains(noticed), "{why}");
        }
    }

    #[test]
    fn a_job_that_is_shown_otherwise_is_noticed() {
        let doctored = [
            ("state", json!("running"), "its session is \"running\""),
            ("active_turn", json!(2), "in turn 2"),
            ("questions", json!([{ "id": "q" }]), "it still asks"),
            ("turns", json!([]), "its turns are shown as {}"),
        ];
        for (field, value, noticed) in doctored {
            let (facts, mut job) = sound();
            job["session"][field] = value;
            let why = judged(&facts, &job).unwrap_err();
            assert!(why.contains(noticed), "{why}");
        }
        let (mut facts, mut job) = sound();
        facts[5]["data"] = json!({ "turn": 2, "ending": "agent_exit", "usage": null });
        job["session"]["turns"][1]["ending"] = json!("agent_exit");
        assert_eq!(judged(&facts, &job), Err("it can be resumed, and no turn was completed".to_owned()));
    }
}
