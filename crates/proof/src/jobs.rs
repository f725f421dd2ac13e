//! Valid facts and appends, quickly made, for everything that proves something about stored jobs.
//!
//! Facts are built here without asking a decision: a store must cope with any log the fold accepts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_core::decide::claim::Claimant;
use lastword_core::event::{
    Abandoned, AttemptEnded, CancelRequested, Commit, InputDelivered, LastWord, LateReported, LaunchIntended,
    Launched, LimitChanged, Released, RetryScheduled, SessionStarted, Spent, Stored, Submitted, TurnEnded,
    TurnEnding, TurnStarted, Usage,
};
use lastword_core::life::Place;
use lastword_core::limits::Limit;
use lastword_core::outcome::{Asked, Begun, Cause, Outcome};
use lastword_core::receipt::{Level, Proof, Receipt, Tree};
use lastword_core::spec::{ProviderSession, Spec, Work};
use lastword_core::{
    Append, AppendId, AttemptNo, Awake, Fact, Fence, Illegal, InputNo, Job, JobId, OwnerId, Timestamp, TurnNo,
};
use lastword_store::{Journal, Renew};

/// When every case begins: a fixed moment, so that nothing depends on the clock of the machine.
pub const NOW: Timestamp = Timestamp(1_794_700_800_000);

/// Returns the `n`th job id. A later one is newer.
pub fn id(n: u64) -> JobId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    JobId::new(0, NOW.plus_ms(n), random)
}

/// Registers an owner on the host `here`, with this lease.
pub async fn register(
    journal: &impl Journal,
    owner: &str,
    lease_ms: u64,
) -> lastword_store::Result<Claimant> {
    let (owner, place) = (OwnerId(owner.into()), Place::new("here", "boot"));
    let host = place.host.clone();
    let renew = Renew { owner: owner.clone(), place, incarnation: None, lease_ms };
    let incarnation = journal.renew(renew).await?.incarnation;
    Ok(Claimant { owner, incarnation, host, boot: None })
}

/// Returns an append id that is unique in this process and distinct from the ids that owners count themselves.
pub fn append_id() -> AppendId {
    static MADE: AtomicU64 = AtomicU64::new(0);
    AppendId((1 << 127) | u128::from(MADE.fetch_add(1, Ordering::Relaxed)))
}

/// Returns the spec of a plain command in `queue`.
pub fn spec(queue: &str) -> Spec {
    Spec { group: queue.to_owned(), ..Spec::command(["true"], "/") }
}

/// Returns the spec of an agent in `queue`.
pub fn agent(queue: &str) -> Spec {
    Spec {
        work: Work::Agent {
            provider: "codex".to_owned(),
            prompt: "tidy up".to_owned(),
            terms: Box::default(),
        },
        ..spec(queue)
    }
}

/// Returns the conversation that agents of [`agent`] name by `reference`.
pub fn conversation(reference: &str) -> ProviderSession {
    ProviderSession { provider: "codex".to_owned(), reference: reference.to_owned() }
}

/// Returns the fact that opens a log.
pub fn submitted(spec: Spec) -> Fact {
    let limits = spec.limits;
    Submitted { spec: Arc::new(spec), by: "tester".to_owned(), limits, carried: None }.into()
}

/// Returns the append that submits the `n`th job at `at`, and the job.
pub fn submit(n: u64, spec: Spec, at: Timestamp) -> (Append, Job) {
    let facts = vec![submitted(spec)];
    Append::new(&Job::unborn(id(n)), None, append_id(), at, facts).expect("a submission opens a log")
}

/// Returns the append of `facts` to `job`, under a fresh id, and the job after it.
///
/// # Panics
/// If the facts cannot follow.
pub fn append(job: &Job, fence: Option<&Fence>, facts: Vec<Fact>) -> (Append, Job) {
    try_append(job, fence, facts).expect("the facts follow from the log")
}

/// Returns the append of `facts` to `job`, or why there is none.
pub fn try_append(job: &Job, fence: Option<&Fence>, facts: Vec<Fact>) -> Result<(Append, Job), Illegal> {
    // One millisecond per event makes the times of a log as distinct as those of a real one.
    Append::new(job, fence, append_id(), NOW.plus_ms(1_000 + job.version.0), facts)
}

/// Returns what an owner writes of an ordinary life once it has claimed `job`: one list per append.
pub fn life(job: &Job) -> Vec<Vec<Fact>> {
    let attempt = next_attempt(job);
    vec![vec![launch_intended(job)], vec![launched(attempt)], vec![spent(1), spent(2)], completion(attempt)]
}

/// Returns what an owner writes of an agent's life with one turn, in which its provider names the conversation.
pub fn agent_life(job: &Job, reference: &str) -> Vec<Vec<Fact>> {
    let (attempt, turn) = (next_attempt(job), job.turns.next());
    vec![
        vec![launch_intended(job)],
        vec![launched(attempt), session_started(attempt, reference)],
        vec![turn_started(turn)],
        vec![spent(3)],
        vec![turn_completed(turn, reference)],
        completion(attempt),
    ]
}

/// Returns the number of the attempt that would follow.
pub fn next_attempt(job: &Job) -> AttemptNo {
    AttemptNo(job.attempts.len() as u32 + 1)
}

/// Returns the number of the newest attempt.
pub fn newest_attempt(job: &Job) -> AttemptNo {
    AttemptNo(job.attempts.len() as u32)
}

/// The next attempt is about to start.
pub fn launch_intended(job: &Job) -> Fact {
    LaunchIntended {
        attempt: next_attempt(job),
        epoch: job.epoch,
        limits: job.limits,
        boot: Some("boot-1".into()),
    }
    .into()
}

/// The attempt's tree is there.
pub fn launched(attempt: AttemptNo) -> Fact {
    let tree = Tree {
        boot: "boot-1".to_owned(),
        pid: 4_711,
        start_ticks: 99,
        level: Level::Subreaper,
        withheld: None,
    };
    Launched { attempt, tree, awake: Awake(5_000) }.into()
}

/// The owner gives the job back.
pub fn released(job: &Job) -> Fact {
    Released { epoch: job.epoch }.into()
}

/// Something was spent.
pub fn spent(tokens: u64) -> Fact {
    Spent { offset: tokens, usage: Usage { tokens_in: tokens, ..Usage::default() }, overcounted_micros: 0 }
        .into()
}

/// The agent has a session, by this name.
pub fn session_started(attempt: AttemptNo, reference: &str) -> Fact {
    SessionStarted { attempt, offset: 1, reference: Some(reference.to_owned()), resumed_from: None }.into()
}

/// An input was given to the agent.
pub fn input_delivered(input: InputNo) -> Fact {
    InputDelivered { input }.into()
}

/// A turn began.
pub fn turn_started(turn: TurnNo) -> Fact {
    TurnStarted { offset: 2, turn, awake: None }.into()
}

/// A turn was completed.
pub fn turn_completed(turn: TurnNo, reference: &str) -> Fact {
    let commit = Commit { messages: 2, resume: Some(reference.to_owned()), ..Commit::default() };
    TurnEnded {
        offset: 3,
        turn,
        ending: TurnEnding::Completed,
        error: None,
        commit: Some(commit),
        acknowledged: None,
        awake: None,
        active_ms: None,
    }
    .into()
}

/// The attempt ended, with nothing left of it.
pub fn attempt_ended(attempt: AttemptNo, outcome: Outcome, cause: Cause) -> Fact {
    AttemptEnded {
        attempt,
        outcome,
        cause,
        error: None,
        receipt: Receipt::bare(Proof::NoChildren),
        cut_short: None,
        ran_ms: None,
    }
    .into()
}

/// The newest attempt, and with it the job, completed.
pub fn completed(job: &Job) -> Vec<Fact> {
    completion(newest_attempt(job))
}

fn completion(attempt: AttemptNo) -> Vec<Fact> {
    vec![attempt_ended(attempt, Outcome::Completed, Cause::Finished), last_word(Some(attempt))]
}

/// Another attempt follows.
pub fn retry_scheduled(attempt: AttemptNo, due: Timestamp) -> Fact {
    RetryScheduled { attempt, due }.into()
}

/// The job completed.
pub fn last_word(attempt: Option<AttemptNo>) -> Fact {
    LastWord { outcome: Outcome::Completed, cause: Cause::Finished, attempt, requested_at: None, by: None }
        .into()
}

/// The job was cancelled before anything of it was started.
pub fn cancelled_before_start() -> Fact {
    LastWord {
        outcome: Outcome::Cancelled(Begun::BeforeStart),
        cause: Cause::User,
        attempt: None,
        requested_at: Some(NOW),
        by: Some("tester".to_owned()),
    }
    .into()
}

/// A client asked for the end of an attempt.
pub fn cancel_requested() -> Fact {
    CancelRequested { by: "tester".to_owned(), asked: Asked::User, force: false }.into()
}

/// A person gave up on the host.
pub fn abandoned() -> Fact {
    Abandoned { by: "tester".to_owned() }.into()
}

/// A client changed the wall-clock limit: a request that fits any live job.
pub fn limit_changed(value: u64) -> Fact {
    LimitChanged { by: "tester".to_owned(), limit: Limit::Wall, value }.into()
}

/// Something was reported too late.
pub fn late_reported(job: &Job) -> Fact {
    LateReported { epoch: job.epoch, what: "exited with 0".to_owned() }.into()
}

/// A fact of a build that does not exist yet. Its spaces and the order of its keys are part of it.
pub fn unknown() -> Fact {
    let body = r#"{ "z": 1,  "a": [true, null], "number": 12345678901234567890123 }"#.to_owned();
    Fact::Unknown(Stored { kind: "teleported".to_owned(), version: 3, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastword_core::event::Claimed;
    use lastword_core::{Epoch, HostId, Incarnation, OwnerId};

    fn claimed(job: &Job) -> Job {
        let fact = Claimed {
            owner: OwnerId("ann".into()),
            incarnation: Incarnation { instance: 1, number: 1 },
            host: HostId("here".into()),
            epoch: Epoch(1),
        };
        append(job, None, vec![fact.into()]).1
    }

    #[test]
    fn both_lives_end_in_a_last_word() {
        for (spec, lives) in [
            (spec("q"), life as fn(&Job) -> _),
            (agent("q"), (|job: &Job| agent_life(job, "thread")) as fn(&Job) -> _),
        ] {
            let mut job = claimed(&submit(1, spec, NOW).1);
            let fence = job.holder.clone().expect("it was claimed").fence;
            for facts in lives(&job) {
                job = append(&job, Some(&fence), facts).1;
            }
            assert!(job.is_ended());
        }
    }

    #[test]
    fn ids_are_newer_with_their_number() {
        assert!((1..300).all(|n| id(n) < id(n + 1)));
    }
}
