//! What each job of a run is: drawn from the seed and the job's number, so that a run can be repeated job by job.

use crate::random::Random;

/// Kinds of adversaries that this run uses. Left out: those that need something outside their tree, and the two that
/// root can only hold with a cap on processes; `burst` stands for them.
pub(crate) const ADVERSARIES: [&str; 18] = [
    "family",
    "own-session",
    "daemon",
    "daemon-alone",
    "daemon-bare",
    "undumpable",
    "deaf",
    "own-groups",
    "runner",
    "runner-sessions",
    "burst",
    "stopped",
    "zombies",
    "blocked-writers",
    "pipe-holder",
    "thread-forks",
    "subreaper",
    "respawners",
];

/// A group in which few jobs run at once.
pub(crate) const NARROW: &str = "narrow";

/// How many run at once there.
pub(crate) const NARROW_SLOTS: u32 = 3;

/// The code with which an attempt fails that is to be tried again.
pub(crate) const TRY_AGAIN: i32 = 75;

/// One job, before it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) number: u64,
    pub(crate) work: Work,
    /// Asked for at the command line, not through the API.
    pub(crate) by_command: bool,
    pub(crate) narrow: bool,
    pub(crate) priority: i64,
    /// Attempts beyond the first.
    pub(crate) retries: u64,
    pub(crate) wall_ms: Option<u64>,
    /// How many numbers before this one is the job it waits for, and whether that one must complete.
    pub(crate) after: Option<(u64, bool)>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) murder: Option<Murder>,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Says numbered lines and exits.
    Canary(Canary),
    /// Does not want to die.
    Adversary(&'static str),
}

/// A job whose every line and whose end is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    pub(crate) lines: u64,
    pub(crate) pause_us: u64,
    /// The code of its last attempt.
    pub(crate) code: i32,
    /// Attempts that fail before.
    pub(crate) fails: u64,
    /// Lines it wants to hear before it exits.
    pub(crate) inputs: u64,
}

/// That a job is cancelled while it runs, or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) after_ms: u64,
    pub(crate) force: bool,
    pub(crate) by_command: bool,
}

/// That a job's keeper is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Murder {
    pub(crate) after_ms: u64,
    pub(crate) guard: bool,
    pub(crate) shim: bool,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) seed: u64,
    /// Of a hundred jobs, so many are adversaries.
    pub(crate) adversaries: u64,
    /// Of a thousand jobs, so many lose a keeper.
    pub(crate) murders: u64,
    /// Whether jobs are cancelled.
    pub(crate) cancels: bool,
}

impl Mix {
    /// The mix of a real run.
    pub(crate) fn of(seed: u64) -> Mix {
        Mix { seed, adversaries: 35, murders: 10, cancels: true }
    }

    /// Returns the job of this number.
    pub(crate) fn order(&self, number: u64) -> Order {
        let mut random = Random::new(self.seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
        let is_adversary = random.chance(self.adversaries);
        // Together a fifth of all jobs.
        let cancelled = self.cancels && random.chance(if is_adversary { 40 } else { 9 });
        let cancel = cancelled.then(|| Cancel {
            after_ms: random.below(2_500),
            force: random.chance(50),
            by_command: random.chance(30),
        });
        let by_chance = random.below(1_000) < self.murders;
        let is_sure = self.murders > 0 && is_sure_to_lose_its_keeper(number);
        let murdered = by_chance || is_sure;
        let murder = murdered.then(|| {
            let which = random.below(4);
            Murder { after_ms: 100 + random.below(1_000), guard: which != 0, shim: which == 0 || which == 3 }
        });
        let mut order = Order {
            number,
            work: Work::Adversary(ADVERSARIES[random.below(ADVERSARIES.len() as u64) as usize]),
            by_command: random.chance(50),
            narrow: random.chance(15),
            priority: random.below(5) as i64 - 2,
            retries: 0,
            wall_ms: None,
            after: (number > 10 && random.chance(8)).then(|| (1 + random.below(6), random.chance(50))),
            cancel,
            murder,
        };
        match is_adversary {
            _ if is_sure => {
                order = Order { narrow: false, after: None, cancel: None, ..order };
                order.work =
                    Work::Canary(Canary { lines: 100, pause_us: 40_000, code: 0, fails: 0, inputs: 0 });
            }
            // An adversary that is not cancelled runs into its limit; none ends by itself before that.
            true => order.wall_ms = Some(if cancelled { 8_000 } else { 200 + random.below(1_800) }),
            false => {
                let (canary, retries) = canary(&mut random);
                order.work = Work::Canary(canary);
                order.retries = retries;
                order.wall_ms = random.chance(6).then(|| 50 + random.below(500));
            }
        }
        order
    }
}

/// Reports whether a job is one of the few that live long enough to lose their keeper on any machine: a run in which no keeper died has shown
/// nothing about it.
fn is_sure_to_lose_its_keeper(number: u64) -> bool {
    number.is_multiple_of(10) && (10..=100).contains(&number)
}

/// Draws a canary, and how often it may be tried again.
fn canary(random: &mut Random) -> (Canary, u64) {
    let lines = 3 + random.below(180);
    // A few live through the deaths of several daemons.
    let lasts_us = if random.chance(4) { 20_000_000 } else { 30_000 + random.below(2_500_000) };
    let code = if random.chance(60) { 0 } else { 1 + random.below(70) as i32 };
    let retries = if random.chance(15) { 1 + random.below(3) } else { 0 };
    // At times more failures than tries, so that the job fails for good.
    let fails = if retries > 0 { random.below(retries + 2) } else { 0 };
    let inputs = if retries == 0 && random.chance(12) { 1 + random.below(4) } else { 0 };
    (Canary { lines, pause_us: lasts_us / lines, code, fails, inputs }, retries)
}

impl Order {
    /// Returns the name under which the job's signs of life are kept.
    pub(crate) fn life(&self) -> String {
        format!("{}.life", self.number)
    }

    /// Returns the canary, if it is one.
    pub(crate) fn canary(&self) -> Option<&Canary> {
        match &self.work {
            Work::Canary(canary) => Some(canary),
            Work::Adversary(_) => None,
        }
    }

    /// Names the kind of work.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.work {
            Work::Canary(_) => "canary",
            Work::Adversary(kind) => kind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_are_one_job() {
        let (mix, other) = (Mix::of(7), Mix::of(8));
        assert!((0..500).all(|number| mix.order(number) == mix.order(number)));
        assert!((0..500).any(|number| mix.order(number) != other.order(number)));
    }

    #[test]
    fn a_run_has_its_share_of_everything() {
        let mix = Mix::of(1);
        let orders: Vec<Order> = (0..20_000).map(|number| mix.order(number)).collect();
        let share =
            |is: fn(&Order) -> bool| orders.iter().filter(|order| is(order)).count() as f64 / 20_000.0;
        let near = |share: f64, aim: f64| (share - aim).abs() < aim / 8.0;
        assert!(near(share(|order| order.canary().is_none()), 0.35));
        assert!(near(share(|order| order.cancel.is_some()), 0.20));
        assert!(near(share(|order| order.murder.is_some()), 0.01));
        assert!(near(share(|order| order.by_command), 0.5));
        assert!(ADVERSARIES.iter().all(|kind| orders.iter().any(|order| order.kind() == *kind)));
        let killed = |order: &Order| order.murder.is_none_or(|murder| murder.guard || murder.shim);
        assert!(orders.iter().all(killed));
    }
}
