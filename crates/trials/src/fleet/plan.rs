//! What happens in a history, from its seed: jobs, cancels and faults, each with its moment.

use super::canary::Song;
use super::fault::{FAULTS, Fault, PHASES, Phase};
use super::orders::{Order, Strike, Timing};
use super::script::Script;
use crate::random::Random;

/// The jobs of a history.
const JOBS: u64 = 12;

/// In which span jobs are submitted.
const SUBMITS_MS: u64 = 6_000;

/// The pause before a second attempt.
const BACKOFF_MS: u64 = 1_000;

/// A history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) jobs: Vec<Order>,
    pub(super) faults: Vec<Strike>,
    /// It strikes faults of its own, one after the other.
    pub(super) script: Option<Script>,
}

/// What a history is restricted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Only {
    Fault(Fault),
    Script(Script),
}

impl Only {
    /// Returns what has this name.
    pub(super) fn named(name: &str) -> Option<Only> {
        let fault = FAULTS.iter().find(|(_, known)| *known == name).map(|(fault, _)| Only::Fault(*fault));
        fault.or_else(|| Script::named(name).map(Only::Script))
    }
}

impl Plan {
    /// Makes the plan of a seed. `only` leaves no other faults than this one, and jobs that insist; or is a script.
    pub(super) fn of(seed: u64, timing: Timing, only: Option<Only>) -> Plan {
        let only = match only {
            Some(Only::Script(script)) => {
                return Plan { seed, jobs: script.jobs(), faults: Vec::new(), script: Some(script) };
            }
            Some(Only::Fault(fault)) => Some(fault),
            None => None,
        };
        let mut random = Random::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0xf1ee7);
        let mut jobs = orders(&mut random);
        if only.is_some() {
            jobs.iter_mut().for_each(Order::insist);
        }
        // One fault is of the seed's turn, so that a run of many seeds meets each about as often.
        let mut chosen = vec![only.unwrap_or(FAULTS[(seed % FAULTS.len() as u64) as usize].0)];
        let count = 3 + random.below(2) as usize;
        while chosen.len() < count {
            let fault = only.unwrap_or(random.pick(&FAULTS).0);
            let replaces = chosen.iter().any(|fault| fault.replaces_database());
            let fault = if fault.replaces_database() && replaces { Fault::KillDatabase } else { fault };
            chosen.push(fault);
        }
        let first_worker = random.below(3) as usize;
        let faults = chosen.into_iter().enumerate();
        let mut faults: Vec<Strike> = faults
            .map(|(place, fault)| strike(&mut random, fault, &jobs, timing, first_worker + place))
            .collect();
        if only.is_some() {
            // As long as it takes to give its jobs to others, and longer.
            let long_ms = timing.lease_ms + timing.margin_ms + 3_500;
            let freezes =
                |fault| matches!(fault, Fault::FreezeWorker | Fault::FreezeShim | Fault::FreezeBoth);
            for strike in &mut faults {
                strike.for_ms = strike.for_ms.max(if freezes(strike.fault) { long_ms } else { 1_500 });
            }
        }
        Plan { seed, jobs, faults, script: None }
    }

    /// Reports whether its journal waits for its standby before it acknowledges anything.
    pub(super) fn is_synchronous(&self) -> bool {
        self.faults.iter().any(|strike| strike.fault == Fault::Promote)
    }

    /// Returns how long a job may run in all, with what it waits for.
    pub(super) fn runs_ms(&self, place: usize) -> u64 {
        let order = &self.jobs[place];
        let attempts = u64::from(order.attempts.max(1));
        let longest = order.song.runs_ms.max(order.song.fails_after_ms) + order.song.lingers_ms;
        let own = attempts * longest + (attempts - 1) * order.backoff_ms * 2;
        own + order.after.map_or(0, |other| self.runs_ms(other))
    }
}

fn orders(random: &mut Random) -> Vec<Order> {
    let mut orders: Vec<Order> = Vec::new();
    for place in 0..JOBS as usize {
        // Every third is long: faults that last as long as a lease find it alive.
        let is_long = place % 3 == 0;
        let runs_ms = if is_long { 2_500 + random.below(3_500) } else { 100 + random.below(1_200) };
        let at_ms = random.below(SUBMITS_MS);
        let attempts = 1 + random.below(3) as u32;
        let fails = if !is_long && random.chance(50) { random.below(u64::from(attempts) + 1) } else { 0 };
        let cancel = random.chance(30).then(|| at_ms + 50 + random.below(runs_ms + 1_000));
        orders.push(Order {
            at_ms,
            server: random.below(2) as usize,
            song: Song { runs_ms, fails, fails_after_ms: runs_ms, lingers_ms: random.below(800) },
            attempts,
            backoff_ms: BACKOFF_MS,
            when_lost: random.chance(60),
            // An earlier one of the plan is not always an earlier one in time.
            after: (place > 0 && random.chance(25)).then(|| random.below(place as u64) as usize),
            cancel_at_ms: cancel,
            on_cue: false,
        });
    }
    // What another waits for is submitted first.
    for place in 0..orders.len() {
        if let Some(other) = orders[place].after {
            orders[place].at_ms = orders[place].at_ms.max(orders[other].at_ms + 200);
        }
    }
    orders
}

fn strike(random: &mut Random, fault: Fault, jobs: &[Order], timing: Timing, worker: usize) -> Strike {
    let phase = match random.pick(&PHASES).0 {
        Phase::Idle if fault.is_of_keeper() => Phase::Running,
        phase => phase,
    };
    let aim = aim(random, phase, jobs);
    let order = &jobs[aim];
    let at_ms = match phase {
        Phase::Queued | Phase::Launching => order.at_ms + random.below(60),
        Phase::Running => order.at_ms + 150 + random.below(order.song.runs_ms),
        Phase::Stopping => order.cancel_at_ms.unwrap_or(order.at_ms) + 30 + random.below(300),
        Phase::Between => order.at_ms + order.song.runs_ms + 150 + random.below(BACKOFF_MS),
        Phase::Idle => random.below(300),
    };
    let past_lease = timing.lease_ms + random.below(timing.margin_ms + 2_500);
    let short = if random.chance(30) { past_lease } else { 1_500 };
    let for_ms = match fault {
        Fault::KillShim | Fault::KillGuard => 0,
        Fault::FreezeWorker | Fault::FreezeShim | Fault::FreezeBoth => past_lease,
        // Some are over before anything notices, most are not.
        Fault::CutToServers | Fault::CutFromServers | Fault::CutDatabase => 300 + random.below(past_lease),
        Fault::PromoteBehind | Fault::Restore => 500 + random.below(2_000),
        Fault::Clone => past_lease,
        _ => 100 + random.below(short),
    };
    Strike {
        fault,
        at_ms,
        at_launch: phase == Phase::Launching,
        for_ms,
        aim,
        worker: worker % 3,
        server: random.below(2) as usize,
        forward: random.chance(50),
    }
}

/// Returns a job that is likely to be in this phase some time.
fn aim(random: &mut Random, phase: Phase, jobs: &[Order]) -> usize {
    let fits = |order: &Order| match phase {
        Phase::Queued => order.after.is_some(),
        Phase::Launching => order.after.is_none(),
        Phase::Running => order.song.runs_ms >= 1_000,
        Phase::Stopping => order.cancel_at_ms.is_some_and(|at| at < order.at_ms + order.song.runs_ms),
        Phase::Between => order.song.fails > 0 && order.attempts > 1 && order.after.is_none(),
        Phase::Idle => true,
    };
    let fitting: Vec<usize> = (0..jobs.len()).filter(|place| fits(&jobs[*place])).collect();
    match fitting.is_empty() {
        true => random.below(jobs.len() as u64) as usize,
        false => *random.pick(&fitting),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const TIMING: Timing = Timing { lease_ms: 3_000, margin_ms: 2_000 };

    #[test]
    fn a_seed_is_a_plan() {
        assert_eq!(Plan::of(7, TIMING, None), Plan::of(7, TIMING, None));
        assert_ne!(Plan::of(7, TIMING, None), Plan::of(8, TIMING, None));
    }

    #[test]
    fn every_plan_has_three_faults_and_replaces_its_database_once() {
        for seed in 0..200 {
            let plan = Plan::of(seed, TIMING, None);
            assert!(plan.faults.len() >= 3 && plan.jobs.len() == JOBS as usize);
            let replaced = plan.faults.iter().filter(|strike| strike.fault.replaces_database()).count();
            assert!(replaced <= 1, "{seed}: {replaced}");
            let at = |place: usize| plan.jobs[place].at_ms;
            let waits_for_earlier =
                |place: usize| plan.jobs[place].after.is_none_or(|other| at(other) < at(place));
            assert!((0..plan.jobs.len()).all(waits_for_earlier));
        }
    }

    #[test]
    fn as_many_seeds_as_faults_meet_all_of_them() {
        let met: BTreeSet<Fault> =
            (0..18).flat_map(|seed| Plan::of(seed, TIMING, None).faults).map(|strike| strike.fault).collect();
        assert_eq!(met.len(), FAULTS.len());
    }
}
