//! What is known about one job from both sides: what was asked and done to it, what it noted itself, and what the product
//! says. Judges look at this and at nothing else.

use serde_json::Value;

use super::canary::Life;
use super::plan::Order;

/// One job, ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) order: Order,
    pub(crate) id: String,
    pub(crate) acts: Acts,
    /// When its last word was first seen, on the boot clock.
    pub(crate) seen_ns: u64,
    /// Its processes that were alive right then.
    pub(crate) alive: Vec<i32>,
    pub(crate) life: Life,
    pub(crate) told: Told,
    /// What `logs` printed for it, if that was tried: stdout and stderr.
    pub(crate) logs: Option<[Vec<u8>; 2]>,
    /// Nothing may have removed output of it before that was read.
    pub(crate) whole: bool,
}

/// What was done to a job, and what could not be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acts {
    /// A client asked for its end, heard or not.
    pub(crate) cancel_sent: bool,
    /// When that request was acknowledged.
    pub(crate) cancelled_ns: Option<u64>,
    /// A keeper of it was killed.
    pub(crate) murdered: bool,
    /// The disk was full at some moment of its life.
    pub(crate) disk_full: bool,
    /// The job it waited for.
    pub(crate) dependency: Option<Dependency>,
    /// Its new limit on time, and whether that was accepted.
    pub(crate) limit: Option<(u64, bool)>,
    /// The label that it got later.
    pub(crate) label: Option<String>,
    /// What other requests with its key were answered: the id of a job, or the code of a refusal.
    pub(crate) same_key: Vec<String>,
    /// What a request with its key was answered after its removal.
    pub(crate) key_later: Option<String>,
    /// Inputs that were accepted.
    pub(crate) inputs: u64,
    /// The exit code of a `wait` for it.
    pub(crate) waited: Option<i32>,
}

/// What is known of a job that another one waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) id: String,
    /// It had to complete.
    pub(crate) must: bool,
    /// How it ended, if anything read that before its removal.
    pub(crate) outcome: Option<String>,
    /// Its removal was asked for.
    pub(crate) may_be_gone: bool,
    /// Its last sign of life.
    pub(crate) last_ns: u64,
}

/// Everything that the product says about an ended job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Read {
    pub(crate) told: Told,
    /// What `logs` printed for it, if that was tried: stdout and stderr.
    pub(crate) logs: Option<[Vec<u8>; 2]>,
    /// Nothing may have removed output of it before.
    pub(crate) whole: bool,
}

/// What the product says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) phase: String,
    pub(crate) outcome: String,
    pub(crate) cause: String,
    pub(crate) attempts: Vec<Try>,
    /// Its log: what each event is, and its data.
    pub(crate) log: Vec<(String, Value)>,
}

/// What it says about one attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Try {
    pub(crate) no: u64,
    pub(crate) outcome: String,
    pub(crate) exit: Option<Exit>,
    /// Why it did not start; empty if it did.
    pub(crate) error: String,
    /// Why its keeper ended it by itself; empty if it did not.
    pub(crate) keeper_stop: String,
    /// Empty if there is no receipt.
    pub(crate) proof: String,
    pub(crate) certain: bool,
    /// Whether it admits that output was lost.
    pub(crate) output_lost: bool,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    /// Bytes that were left out of what was read.
    pub(crate) skipped: u64,
}

/// How a leader exited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i64),
    Signal(i64),
}

impl Told {
    /// Reads a job as the API tells it; its output and its log are read apart.
    pub(crate) fn of(job: &Value) -> Told {
        let attempts = job["attempts"].as_array().map(Vec::as_slice).unwrap_or_default();
        Told {
            phase: text(&job["phase"]),
            outcome: text(&job["outcome"]),
            cause: text(&job["cause"]),
            attempts: attempts.iter().map(Try::of).collect(),
            log: Vec::new(),
        }
    }
}

impl Try {
    fn of(attempt: &Value) -> Try {
        let receipt = &attempt["receipt"];
        let exit = &attempt["exit"];
        Try {
            no: attempt["no"].as_u64().unwrap_or(0),
            outcome: text(&attempt["outcome"]),
            exit: exit["code"].as_i64().map(Exit::Code).or(exit["signal"].as_i64().map(Exit::Signal)),
            error: text(&attempt["error"]),
            keeper_stop: text(&receipt["keeper_stop"]),
            proof: text(&receipt["proof"]),
            certain: receipt["certain"] == Value::Bool(true),
            output_lost: receipt["output"]["lost"] == Value::Bool(true),
            ..Try::default()
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_the_api_tells_it() {
        let told = Told::of(&serde_json::json!({
            "phase": "ended", "outcome": "failed", "cause": "agent",
            "attempts": [
                {"no": 1, "outcome": "failed", "exit": {"code": 75, "signal": null},
                 "receipt": {"proof": "no_children", "certain": true, "output": {"lost": false}}},
                {"no": 2, "outcome": null, "exit": null, "receipt": null},
            ],
        }));
        assert_eq!(
            (told.phase.as_str(), told.outcome.as_str(), told.cause.as_str()),
            ("ended", "failed", "agent")
        );
        assert_eq!(told.attempts[0].exit, Some(Exit::Code(75)));
        assert!(told.attempts[0].certain && !told.attempts[0].output_lost);
        assert_eq!((told.attempts[1].exit, told.attempts[1].proof.as_str()), (None, ""));
    }
}
