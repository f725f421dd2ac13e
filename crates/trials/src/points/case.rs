//! One launch and what is done to its keeper, and how a command line names that.

use lastword_core::receipt::Level;

use crate::random::Random;
use crate::tracer::{Aim, Blow, Plan, Point, Role, Side};

/// Errors, by the names people know.
const ERRNOS: &[(i32, &str)] = &[
    (libc::EIO, "EIO"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EMFILE, "EMFILE"),
    (libc::EINTR, "EINTR"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
];

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
    /// Its lease ends while it runs.
    Lease,
}

impl Variant {
    pub(super) const ALL: [Variant; 5] =
        [Variant::Run, Variant::Stop, Variant::Exec, Variant::Orphan, Variant::Lease];

    pub(super) fn word(self) -> &'static str {
        match self {
            Variant::Run => "run",
            Variant::Stop => "stop",
            Variant::Exec => "exec",
            Variant::Orphan => "orphan",
            Variant::Lease => "lease",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Variant> {
        Variant::ALL.into_iter().find(|variant| variant.word() == word)
    }
}

const LEVELS: [(Level, &str); 4] = [
    (Level::Subreaper, "subreaper"),
    (Level::Landlock, "landlock"),
    (Level::Cgroup, "cgroup"),
    (Level::Namespace, "namespace"),
];

pub(super) fn level_word(level: Level) -> &'static str {
    LEVELS.iter().find(|(known, _)| *known == level).map_or("none", |(_, word)| word)
}

pub(super) fn level_of(word: &str) -> Option<Level> {
    LEVELS.iter().find(|(_, known)| *known == word).map(|(level, _)| *level)
}

/// One launch and what is done to its keeper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) variant: Variant,
    pub(super) level: Level,
    pub(super) plan: Plan,
}

impl Case {
    pub(super) fn new(variant: Variant, level: Level, role: Role, point: Point, blow: Blow) -> Case {
        let first = Aim { role, point, side: Side::Entry, blow };
        Case { variant, level, plan: Plan { first, times: 1, then: None } }
    }

    /// Returns the one command that does the same again.
    pub(super) fn command(&self) -> String {
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
            words += &format!(" --errno {}", errno_word(errno));
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

/// Returns the name of an error.
pub(super) fn errno_word(errno: i32) -> String {
    match ERRNOS.iter().find(|(known, _)| *known == errno) {
        Some((_, word)) => (*word).to_owned(),
        None => errno.to_string(),
    }
}

pub(super) fn errno_of(word: &str) -> Option<i32> {
    let named = ERRNOS.iter().find(|(_, known)| *known == word).map(|(errno, _)| *errno);
    named.or_else(|| word.parse().ok())
}

/// Reads a flag that names one of a few things.
pub(super) fn chosen<T>(
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
pub(super) fn below(random: &mut Random, end: usize) -> usize {
    random.below(end as u64) as usize
}
