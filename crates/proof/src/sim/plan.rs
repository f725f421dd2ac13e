//! What a schedule is about: its jobs, drawn from the seed.

use std::sync::Arc;

use lastword_core::limits::{Limit, Limits};
use lastword_core::spec::{Dependency, Io, Needs, OnPartition, RetryPolicy, Spec, Work};
use lastword_core::{JobId, Timestamp};

use crate::random::Random;

/// Jobs of one schedule: one or two that are submitted, and perhaps one that tries an ended one again.
pub(super) const JOBS_MAX: usize = 3;

/// The queue of every job.
pub(super) const QUEUE: &str = "q";

/// The jobs of a schedule.
pub(super) struct Plan {
    /// Their ids; the last is for a retry.
    pub(super) ids: [JobId; JOBS_MAX],
    /// Specs of those that are submitted from the start.
    pub(super) specs: Vec<Arc<Spec>>,
    /// Whether a keeper refuses a second launch in the same place. Where it does not, looking first must be enough.
    pub(super) guarded: bool,
    /// Whether a host may go for good.
    pub(super) host_may_go: bool,
    /// Whether a host may be cloned. Then no job runs on without a lease: its tree on a host that is cut off cannot be told from one that
    /// a reboot ended.
    pub(super) host_may_be_cloned: bool,
    /// Whether a server may take over without the last writes. Then no job runs on without a lease, which would be the only bound of a tree
    /// whose launch is lost.
    pub(super) writes_may_be_lost: bool,
}

impl Plan {
    /// Draws a plan.
    pub(super) fn draw(random: &mut Random) -> Plan {
        let id = |no: u8| JobId::new(0, Timestamp(1_000 + u64::from(no)), [no; 10]);
        let ids = [id(0), id(1), id(2)];
        // Looked at and not drawn, so that a seed without lost writes is what it was before there were any.
        let lost = (random.clone().draw() >> 32).is_multiple_of(5);
        let cloned = random.chance(15);
        let leased = cloned || lost;
        let mut specs = vec![Arc::new(spec(random, Vec::new(), leased))];
        if random.chance(40) {
            let on = *random.pick(&[Needs::Success, Needs::AnyEnd]);
            let after = random.chance(50).then_some(Dependency { job: ids[0], on });
            specs.push(Arc::new(spec(random, after.into_iter().collect(), leased)));
        }
        let (guarded, host_may_go) = (random.chance(50), random.chance(6));
        Plan { ids, specs, guarded, host_may_go, host_may_be_cloned: cloned, writes_may_be_lost: lost }
    }
}

fn spec(random: &mut Random, after: Vec<Dependency>, leased: bool) -> Spec {
    let agent = random.chance(65);
    // Looked at and not drawn, as above.
    let stays_open = agent && (random.clone().draw() >> 16).is_multiple_of(3);
    let work = match agent {
        true => Work::Agent { provider: "a".to_owned(), prompt: "p".to_owned(), terms: Box::default() },
        false => Work::Command { argv: vec!["c".to_owned()] },
    };
    let mut limits = limits(random, agent);
    if stays_open {
        limits.set(Limit::Idle, [1_500, 60_000][usize::from(random.clone().draw().is_multiple_of(2))]);
    }
    Spec {
        work,
        stays_open,
        io: if agent { Io::Null } else { Io::Pipe },
        limits,
        retry: RetryPolicy {
            attempts_max: 1 + random.below(3) as u32,
            relaunches_max: random.below(3) as u32,
            backoff_ms: 300,
            backoff_max_ms: 1_000,
            when_lost: random.chance(50),
        },
        after,
        not_before: random.chance(10).then_some(Timestamp(crate::world::host::EPOCH_MS + 1_500)),
        on_partition: if random.chance(30) && !leased { OnPartition::Keep } else { OnPartition::Stop },
        ..blank()
    }
}

fn limits(random: &mut Random, agent: bool) -> Limits {
    let mut limits = Limits { wall_ms: Some(0), stall_ms: Some(0), ..Limits::default() };
    if random.chance(30) {
        limits.set(Limit::Wall, 1_000 + random.below(6_000));
    }
    if agent && random.chance(30) {
        limits.set(Limit::Stall, 1_000 + random.below(4_000));
    }
    if agent && random.chance(20) {
        let limit = *random.pick(&[Limit::Output, Limit::Turns, Limit::Tokens, Limit::Money]);
        limits.set(limit, 1 + random.below(3) * if limit == Limit::Turns { 1 } else { 20 });
    }
    limits
}

fn blank() -> Spec {
    Spec { group: QUEUE.to_owned(), ..Spec::command([""; 0], "") }
}

/// Returns the spec of nothing in particular.
pub(super) fn blank_spec() -> Arc<Spec> {
    Arc::new(blank())
}
