//! Scripts: histories whose faults are aimed, each at a rule that faults at random moments seldom meet. A script waits for what it reads off the log, the notes of
//! canaries and a worker's folder. It is judged like every history, and nothing is wrong with it unless its rule is broken.

use std::time::{Duration, Instant};

use super::canary::Song;
use super::fault::Fault;
use super::orders::Order;
use super::stage::Stage;
use crate::clock;

/// A script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    LostClaims,
    ForgottenClaims,
    LateReply,
    LateKeeper,
    LateClaim,
}

/// Every script, with its name.
#[rustfmt::skip] // One row, one script.
pub(super) const SCRIPTS: [(Script, &str); 5] = [
    (Script::LostClaims, "claims lost by a failover"),
    (Script::ForgottenClaims, "claims lost by a snapshot"),
    (Script::LateReply, "renewal answered late"),
    (Script::LateKeeper, "keeper late by less than the margin"),
    (Script::LateClaim, "claim answered late"),
];

/// The lease of workers in most scripts; where nothing else takes long; and beside which a failover is short.
const LEASE_MS: u64 = 5_000;
const SHORT_LEASE_MS: u64 = 3_000;
const SHORTER_LEASE_MS: u64 = 4_000;
const LONG_LEASE_MS: u64 = 8_000;

/// How long a worker is frozen that is to read an answer late. After 5 s without a word it would close its connection first.
const FROZEN: Duration = Duration::from_millis(3_700);

/// How long before a request its answer is cut off. TCP sends what follows a request without an answer for as long as that, and no longer.
const AHEAD_MS: u64 = 150;

/// How long the attempt runs that is to meet another one.
const LONG_MS: u64 = 20_000;

impl Script {
    pub(super) fn named(name: &str) -> Option<Script> {
        SCRIPTS.iter().find(|(_, known)| *known == name).map(|(script, _)| *script)
    }

    pub(super) fn lease_ms(self) -> u64 {
        match self {
            Script::LostClaims => LONG_LEASE_MS,
            Script::LateKeeper => SHORT_LEASE_MS,
            Script::LateClaim => SHORTER_LEASE_MS,
            _ => LEASE_MS,
        }
    }

    /// Returns the jobs that it needs.
    pub(super) fn jobs(self) -> Vec<Order> {
        let fails_once = Song { runs_ms: LONG_MS, fails: 1, fails_after_ms: 100, lingers_ms: 0 };
        let order = Order {
            at_ms: 0,
            server: 0,
            song: fails_once,
            attempts: 6,
            backoff_ms: 2_000,
            when_lost: true,
            after: None,
            cancel_at_ms: None,
            on_cue: self == Script::LateReply || self == Script::LateClaim,
        };
        match self {
            // All of them are between two attempts at the same time.
            Script::LostClaims | Script::ForgottenClaims => vec![Order { backoff_ms: 5_000, ..order }; 8],
            Script::LateClaim => vec![order],
            Script::LateReply | Script::LateKeeper => {
                vec![Order { song: Song { fails: 0, ..fails_once }, backoff_ms: 1, ..order }]
            }
        }
    }

    pub(super) fn play(self, stage: &mut Stage<'_>) -> Result<(), String> {
        match self {
            Script::LostClaims => lost_claims(stage, Fault::PromoteBehind),
            Script::ForgottenClaims => lost_claims(stage, Fault::Restore),
            Script::LateReply => late_reply(stage),
            Script::LateKeeper => late_keeper(stage),
            Script::LateClaim => late_claim(stage),
        }
    }
}

/// Jobs are claimed and run, and the database forgets their claims.
fn lost_claims(stage: &mut Stage<'_>, fault: Fault) -> Result<(), String> {
    let all = 8;
    stage.until("every job has failed once", |stage| {
        stage.with_facts("attempt_ended", 1).filter(|count| *count == all)
    })?;
    let lost = stage.strike(fault, 0)?;
    if stage.with_facts("claimed", 2) != Some(0) {
        return Err("a second attempt was faster than the fault".to_owned());
    }
    stage.until("every job runs again", |stage| (stage.alive().len() == all).then_some(()))?;
    stage.end(lost)
}

/// A renewal is stored, and its answer reaches the worker when others are about to end its life. What it launches then must not have a lease.
fn late_reply(stage: &mut Stage<'_>) -> Result<(), String> {
    let others = stage.leave_one_worker()?;
    let first = stage.until("the worker has a beat", |stage| stage.beat(0))?;
    let before = stage.until("it was renewed", |stage| stage.beat(0).filter(|beat| *beat > first))?;
    clock::rest(Duration::from_millis(LEASE_MS / 3 - AHEAD_MS));
    let begin = Instant::now();
    let cut = stage.strike(Fault::CutFromServers, 0)?;
    stage.until("a renewal is stored", |stage| stage.beat(0).filter(|beat| *beat > before))?;
    let frozen = stage.strike(Fault::FreezeWorker, 0)?;
    stage.end(cut)?;
    stage.cue();
    stage.rest_until(begin, FROZEN);
    stage.end(frozen)?;
    stage.until("it runs", |stage| stage.alive().pop())?;
    let frozen = stage.strike(Fault::FreezeWorker, 0)?;
    stage.end_all(others)?;
    stage.until("it runs elsewhere", |stage| (stage.runs() > 1).then_some(()))?;
    clock::rest(Duration::from_millis(500));
    stage.end(frozen)
}

/// The guard of a tree is gone, and its shim ends it later than at its lease's end, but before the margin is over.
fn late_keeper(stage: &mut Stage<'_>) -> Result<(), String> {
    stage.until("it runs", |stage| stage.alive().pop())?;
    let frozen = stage.strike_keeper(Fault::FreezeBoth)?;
    let killed = stage.strike_keeper(Fault::KillGuard)?;
    let end_ms = stage.until("its lease is known", Stage::lease_end)?;
    let thaw_ms = end_ms + 2_200;
    clock::rest(Duration::from_millis(thaw_ms.saturating_sub(clock::boot_ns() / 1_000_000)));
    stage.end(frozen)?;
    stage.end(killed)
}

/// A claim is stored, and its answer is read when the lease is over. What is launched then must not run.
fn late_claim(stage: &mut Stage<'_>) -> Result<(), String> {
    let others = stage.leave_one_worker()?;
    stage.cue();
    stage.until("it has failed once", |stage| {
        stage.with_facts("attempt_ended", 1).filter(|count| *count == 1)
    })?;
    let due_ms = stage.until("it is due", Stage::due_ms)?;
    clock::rest(Duration::from_millis(due_ms.saturating_sub(AHEAD_MS)));
    let begin = Instant::now();
    let cut = stage.strike(Fault::CutFromServers, 0)?;
    stage.until("it is claimed again", |stage| stage.with_facts("claimed", 2).filter(|count| *count == 1))?;
    let frozen = stage.strike(Fault::FreezeWorker, 0)?;
    stage.end(cut)?;
    // Its lease is over by then.
    stage.rest_until(begin, FROZEN);
    stage.end(frozen)?;
    stage.until("it runs", |stage| stage.alive().pop())?;
    let frozen = stage.strike(Fault::FreezeWorker, 0)?;
    stage.end_all(others)?;
    stage.until("it runs elsewhere", |stage| (stage.runs() > 2).then_some(()))?;
    clock::rest(Duration::from_millis(500));
    stage.end(frozen)
}
