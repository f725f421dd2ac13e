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

/// The label that a job gets later.
pub(crate) const LABEL: &str = "later";

/// The number of a job that repeats another one is that one's and this.
pub(crate) const AGAIN: u64 = 1 << 32;

/// The number of a job in a row that waits for another one is that one's and a multiple of this.
const ROW: u64 = 1 << 40;

/// How many rows wait for one job, and how many jobs each has at most.
const ROWS: u64 = 3;
const ROW_MAX: u64 = 12;

/// How long a job lasts at most that a row waits for.
const ROW_LASTS_MAX_MS: u64 = 2_600;

/// Every so many jobs there is a prune.
const PRUNE_EVERY: u64 = 12;

/// How far back a job looks for one to wait for.
const BACK_MAX: u64 = 8;

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
    pub(crate) after: Option<After>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) murder: Option<Murder>,
    pub(crate) limit: Option<Limit>,
    /// That it gets another label, after so many milliseconds.
    pub(crate) label_ms: Option<u64>,
    /// Asked for twice at once, with one key.
    pub(crate) twice: bool,
    /// Marked as seen once it has ended.
    pub(crate) seen: bool,
    /// Run again once it has ended.
    pub(crate) again: bool,
    pub(crate) remove: Option<Remove>,
    /// That everything is removed then that ended so many milliseconds ago.
    pub(crate) prune_ms: Option<u64>,
}

/// That a job waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After {
    /// How many numbers before.
    pub(crate) back: u64,
    /// The other one must complete.
    pub(crate) must: bool,
    pub(crate) moment: Moment,
    /// How long after that moment.
    pub(crate) delay_us: u64,
}

/// When a job that waits for another one is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// At its own time: the other one is mostly live.
    Whenever,
    /// While the other one ends.
    Ending,
    /// When it has ended.
    Ended,
    /// Beside its removal.
    Going,
    /// After its removal.
    Gone,
}

/// That the limit on a job's time is changed, whatever its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) after_ms: u64,
    pub(crate) wall_ms: u64,
    pub(crate) by_command: bool,
}

/// That a job is removed once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remove {
    pub(crate) after_ms: u64,
    pub(crate) by_command: bool,
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
    /// Whether most wait for another one, and are changed, repeated and removed.
    pub(crate) changes: bool,
    /// Whether commands wait for some of them.
    pub(crate) waits: bool,
}

impl Mix {
    /// The mix of a real run.
    pub(crate) fn of(seed: u64) -> Mix {
        Mix { seed, adversaries: 35, murders: 10, cancels: true, changes: true, waits: true }
    }

    /// Returns the job of this number.
    pub(crate) fn order(&self, number: u64) -> Order {
        let mut order = self.alone(number);
        let is_sure = self.murders > 0 && is_sure_to_lose_its_keeper(number);
        let mut random = self.random(number, 0x6166_7465);
        if !is_sure && number > BACK_MAX && random.chance(if self.changes { 60 } else { 8 }) {
            order.after = Some(self.after(number, &mut random));
            // What others may wait for does not wait for long.
            if let Work::Canary(canary) = &mut order.work {
                canary.pause_us = canary.pause_us.min(2_500_000 / canary.lines);
            }
        }
        if self.changes && !is_sure {
            self.change(&mut order);
        }
        order
    }

    /// Returns what is random about one side of a job.
    fn random(&self, number: u64, side: u64) -> Random {
        Random::new(self.seed.wrapping_mul(0x1_0000_0001).wrapping_add(number) ^ (side << 16))
    }

    /// Draws the job to wait for, and the moment: for most of them one at which something happens to the other job.
    fn after(&self, number: u64, random: &mut Random) -> After {
        let moment = match random.below(100) {
            _ if !self.changes => Moment::Whenever,
            0..25 => Moment::Whenever,
            25..70 => Moment::Ending,
            70..75 => Moment::Ended,
            75..95 => Moment::Going,
            _ => Moment::Gone,
        };
        let fits = |back: &u64| {
            let other = self.alone(number - back);
            match moment {
                Moment::Ending => other.lasts_ms().is_some_and(|ms| (300..2_500).contains(&ms)),
                Moment::Going | Moment::Gone => self.removal(number - back).is_some(),
                Moment::Whenever | Moment::Ended => true,
            }
        };
        let backs: Vec<u64> = (1..=BACK_MAX).filter(fits).collect();
        let back = match backs.len() as u64 {
            0 => 1 + random.below(BACK_MAX),
            count => backs[random.below(count) as usize],
        };
        let delay_us = random.below(if moment == Moment::Going { 15_000 } else { 10_000 });
        After { back, must: random.chance(50), moment, delay_us }
    }

    /// Draws whether a job is removed; of its own, since those that wait for it ask, too.
    fn removal(&self, number: u64) -> Option<Remove> {
        let mut random = self.random(number, 0x7265_6d6f);
        let is_sure = self.murders > 0 && is_sure_to_lose_its_keeper(number);
        let removed = self.changes && !is_sure && random.chance(25);
        removed.then(|| Remove { after_ms: random.below(300), by_command: random.chance(30) })
    }

    /// Draws what is changed about a job, and what is done to it when it has ended.
    fn change(&self, order: &mut Order) {
        let mut random = self.random(order.number, 0x6368_616e);
        // Odd, so that it is never what the job had.
        let wall_ms = match order.canary() {
            None => 201 + 2 * random.below(900),
            Some(_) if random.chance(30) => 101 + 2 * random.below(400),
            Some(_) => 20_001 + 2 * random.below(20_000),
        };
        let (after_ms, by_command) = (random.below(2_500), random.chance(30));
        order.limit = random.chance(25).then_some(Limit { after_ms, wall_ms, by_command });
        order.label_ms = random.chance(10).then(|| random.below(2_500));
        order.twice = !order.by_command && random.chance(40);
        order.seen = random.chance(10);
        // Those that hear need to be spoken to; and adversaries sign where the first of them did.
        order.again = random.chance(25) && order.canary().is_some_and(|canary| canary.inputs == 0);
        order.remove = self.removal(order.number);
        let ages_ms = [3_000, 8_000, 30_000];
        order.prune_ms =
            (order.number % PRUNE_EVERY == PRUNE_EVERY / 2).then(|| ages_ms[random.below(3) as usize]);
    }

    /// Returns the job of this number by itself.
    fn alone(&self, number: u64) -> Order {
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
            after: None,
            cancel,
            murder,
            limit: None,
            label_ms: None,
            twice: false,
            seen: false,
            again: false,
            remove: None,
            prune_ms: None,
        };
        match is_adversary {
            _ if is_sure => {
                order = Order { narrow: false, cancel: None, ..order };
                order.work =
                    Work::Canary(Canary { lines: 100, pause_us: 40_000, code: 0, fails: 0, inputs: 0 });
            }
            // An adversary that is not cancelled runs into its limit; none ends by itself before that.
            true => order.wall_ms = Some(if cancelled { 8_000 } else { 200 + 2 * random.below(900) }),
            false => {
                let (canary, retries) = canary(&mut random);
                order.work = Work::Canary(canary);
                order.retries = retries;
                order.wall_ms = random.chance(6).then(|| 50 + 2 * random.below(250));
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
    /// Returns the order for a job that repeats this one: it is left alone.
    pub(crate) fn repeated(&self) -> Order {
        Order {
            number: self.number + AGAIN,
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
            ..self.clone()
        }
    }

    /// Returns the orders for rows of short jobs that wait for this one, submitted one after the other while it ends. None if that moment
    /// cannot be foreseen.
    pub(crate) fn rows(&self) -> Vec<Vec<Order>> {
        if self.after.is_some() || self.lasts_ms().is_none_or(|ms| ms > ROW_LASTS_MAX_MS) {
            return Vec::new();
        }
        let nth = |nth: u64| Order {
            number: self.number + nth * ROW,
            work: Work::Canary(Canary { lines: 3, pause_us: 0, code: 0, fails: 0, inputs: 0 }),
            by_command: false,
            narrow: false,
            retries: 0,
            wall_ms: None,
            after: Some(After {
                back: nth * ROW,
                must: nth.is_multiple_of(2),
                moment: Moment::Ending,
                delay_us: 0,
            }),
            ..self.repeated()
        };
        (0..ROWS).map(|row| (1..=ROW_MAX).map(|place| nth(row * ROW_MAX + place)).collect()).collect()
    }

    /// Returns how long a canary lasts that has one attempt, if nothing comes in between.
    fn lasts_ms(&self) -> Option<u64> {
        let canary = self.canary().filter(|canary| canary.inputs == 0 && self.retries == 0)?;
        Some(canary.lines * canary.pause_us / 1_000)
    }

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
    fn what_is_to_be_removed_is_known_to_those_that_wait_for_it() {
        let mix = Mix::of(3);
        for order in (0..2_000).map(|number| mix.order(number)) {
            if let Some(after) = order.after.filter(|after| after.moment == Moment::Going) {
                let around = (1..=BACK_MAX).any(|back| mix.removal(order.number - back).is_some());
                assert_eq!(mix.order(order.number - after.back).remove.is_some(), around);
            }
        }
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
        assert!(near(share(|order| order.after.is_some()), 0.6));
        assert!(near(share(|order| order.remove.is_some()), 0.25));
        assert!(near(share(|order| order.limit.is_some()), 0.25));
        assert!(near(share(|order| order.twice), 0.2));
        assert!(near(share(|order| order.prune_ms.is_some()), 1.0 / 12.0));
        let at = |moment: Moment| {
            let is_at = |order: &&Order| order.after.is_some_and(|after| after.moment == moment);
            orders.iter().filter(is_at).count() as f64 / 20_000.0
        };
        assert!(near(at(Moment::Ending), 0.27) && near(at(Moment::Going), 0.12));
        assert!(ADVERSARIES.iter().all(|kind| orders.iter().any(|order| order.kind() == *kind)));
        let killed = |order: &Order| order.murder.is_none_or(|murder| murder.guard || murder.shim);
        assert!(orders.iter().all(killed));
    }
}
