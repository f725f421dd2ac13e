//! One launch after the other, each struck at another system call of its keeper, then found by whoever comes next.
//!
//! * `kill-points`: kill -9 of guard, shim or nursery at a call; `fault-points`: the call fails.
//! * What a job does is in `leader`, one attempt from launch to last word in `stand`, what must hold in `judge`.

mod bug;
mod crew;
pub(crate) mod fault;
mod judge;
pub(crate) mod kill;
pub(crate) mod leader;
mod stand;
mod table;

use lastword_core::receipt::Level;

use crate::random::Random;
use crate::tracer::{Aim, Blow, Plan, Point, Role, Side};

/// Attempts side by side: one for each of two cores.
const WORKERS: usize = 2;

/// What a job does, and what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Variant {
    /// It ends by itself, and leaves children behind.
    Run,
    /// It is stopped.
    Stop,
    /// There is no such program.
    Exec,
    /// Its shim is killed while it runs, so that everything is left to the guard.
    Orphan,
}

impl Variant {
    const ALL: [Variant; 4] = [Variant::Run, Variant::Stop, Variant::Exec, Variant::Orphan];

    fn word(self) -> &'static str {
        match self {
            Variant::Run => "run",
            Variant::Stop => "stop",
            Variant::Exec => "exec",
            Variant::Orphan => "orphan",
        }
    }

    fn parse(word: &str) -> Option<Variant> {
        Variant::ALL.into_iter().find(|variant| variant.word() == word)
    }
}

const LEVELS: [(Level, &str); 4] = [
    (Level::Subreaper, "subreaper"),
    (Level::Landlock, "landlock"),
    (Level::Cgroup, "cgroup"),
    (Level::Namespace, "namespace"),
];

fn level_word(level: Level) -> &'static str {
    LEVELS.iter().find(|(known, _)| *known == level).map_or("none", |(_, word)| word)
}

fn level_of(word: &str) -> Option<Level> {
    LEVELS.iter().find(|(_, known)| *known == word).map(|(level, _)| *level)
}

/// One launch and what is done to its keeper.
#[derive(Clone, Copy, Debug)]
struct Case {
    variant: Variant,
    level: Level,
    plan: Plan,
}

impl Case {
    fn new(variant: Variant, level: Level, role: Role, point: Point, blow: Blow) -> Case {
        let first = Aim { role, point, side: Side::Entry, blow };
        Case { variant, level, plan: Plan { first, times: 1, then: None } }
    }

    /// Returns the one command that does the same again.
    fn command(&self) -> String {
        let Aim { role, point, side, blow } = self.plan.first;
        let verb = if matches!(blow, Blow::Fail(_)) { "fault-points" } else { "kill-points" };
        let mut words = format!("cargo xtask {verb} --role {}", role.word());
        match point {
            Point::Nth(nth) => words += &format!(" --at {nth}"),
            Point::NthOf(kind, nth) => {
                words += &format!(" --call {} --nth {nth}", crate::tracer::name_of(kind))
            }
        }
        if side == Side::Exit {
            words += " --side exit";
        }
        if let Blow::Fail(errno) = blow {
            words += &format!(" --errno {}", fault::errno_word(errno));
        }
        if self.plan.times > 1 {
            words += &format!(" --times {}", self.plan.times);
        }
        if let Some((_, after)) = self.plan.then {
            words += &format!(" --then {after}");
        }
        words + &format!(" --variant {} --level {}", self.variant.word(), level_word(self.level))
    }
}

/// Reads a flag that names one of a few things.
fn chosen<T>(
    args: &crate::args::Args<'_>,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    match args.text(name) {
        None => Ok(None),
        Some(word) => {
            parse(word).map(Some).ok_or_else(|| format!("{name} {word}: there is none of that name"))
        }
    }
}

/// Draws a place below `end`, which is not zero.
fn below(random: &mut Random, end: usize) -> usize {
    random.below(end as u64) as usize
}
