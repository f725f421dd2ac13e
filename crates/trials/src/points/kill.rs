//! `kill-points`: kill -9 of a keeper's process at its system calls, then recovery.

use lastword_core::receipt::Level;

use super::WORKERS;
use super::bug::{self, Bug};
use super::case::{Case, Variant, below, chosen, level_of};
use super::crew::Crew;
use super::harness::Recovery;
use crate::args::Args;
use crate::place;
use crate::random::Random;
use crate::tracer::{Blow, Point, Role, Side};

const WITH_VALUE: &[&str] = &[
    "--role",
    "--variant",
    "--level",
    "--at",
    "--side",
    "--then",
    "--points",
    "--pairs",
    "--bug",
    "--seed",
    "--workers",
];

/// Points of each row in the short form, which is part of every change's checks.
const POINTS: usize = 24;

/// Pairs in the short form.
const PAIRS: usize = 80;

/// Pairs that a seeded bug is given to be caught: the first writes of the job's output.
const BUG_PAIRS: usize = 4;

/// Runs the verb.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, WITH_VALUE, &["--all"])?;
    let workers = args.value("--workers", WORKERS)?;
    if let Some(name) = args.text("--bug") {
        return Bug::named(bug::OF_KILLS, name)?.is_caught(workers, where_bugs_show);
    }
    let folder = place::temporary("kill-points")?;
    let crew = Crew::new(folder.path(), workers, Recovery::Locate, |_| {})?;
    if args.text("--at").is_some() {
        crew.each(&[single(&args)?])?;
    } else {
        rows(&crew, &args)?;
        pairs(&crew, &args, args.value("--pairs", if args.has("--all") { PAIRS * 10 } else { PAIRS })?)?;
    }
    crew.table().print();
    let holds = crew.table().holds();
    drop(crew);
    let is_whole = args.text("--at").is_none() && args.text("--role").is_none();
    let mut caught = true;
    for bug in bug::OF_KILLS.iter().filter(|_| is_whole) {
        caught &= bug.is_caught(workers, where_bugs_show)?;
    }
    Ok(holds && caught)
}

/// Reads one point from the command line, as a complaint prints it.
fn single(args: &Args<'_>) -> Result<Case, String> {
    let role = chosen(args, "--role", Role::parse)?.ok_or("--at needs --role")?;
    let variant = chosen(args, "--variant", Variant::parse)?.unwrap_or(Variant::Run);
    let level = chosen(args, "--level", level_of)?.unwrap_or(Level::Cgroup);
    let mut case = Case::new(variant, level, role, Point::Nth(args.value("--at", 1)?), Blow::Kill);
    case.plan.first.side = match args.text("--side") {
        None | Some("entry") => Side::Entry,
        Some("exit") => Side::Exit,
        Some(other) => return Err(format!("--side {other}: entry or exit")),
    };
    if args.text("--then").is_some() {
        case.plan.then = Some((other(role), args.value("--then", 1)?));
    }
    Ok(case)
}

fn other(role: Role) -> Role {
    match role {
        Role::Shim => Role::Guard,
        Role::Guard | Role::Nursery => Role::Shim,
    }
}

/// Kills one role at a time: at every point, or at some of each row.
fn rows(crew: &Crew, args: &Args<'_>) -> Result<(), String> {
    let roles = chosen(args, "--role", Role::parse)?
        .map_or(vec![Role::Shim, Role::Guard, Role::Nursery], |role| vec![role]);
    let variants =
        chosen(args, "--variant", Variant::parse)?.map_or(Variant::ALL.to_vec(), |variant| vec![variant]);
    let levels = chosen(args, "--level", level_of)?.map_or(crew.levels(), |level| vec![level]);
    let mut random = Random::new(args.value("--seed", 1)?);
    for role in roles {
        for &variant in &variants {
            for &level in &levels {
                if role == Role::Nursery && level != levels[0] {
                    continue; // It does the same for every level.
                }
                let calls = crew.list(variant, level, role)?.len();
                let at = |nth, side| {
                    let mut case = Case::new(variant, level, role, Point::Nth(nth), Blow::Kill);
                    case.plan.first.side = side;
                    case
                };
                if args.has("--all") {
                    crew.series(|nth| at(nth, Side::Entry))?;
                    crew.series(|nth| at(nth, Side::Exit))?;
                } else {
                    let points = args.value("--points", POINTS)?.min(calls);
                    let spread = |number: usize| 1 + (number * calls + below(&mut random, calls)) / points;
                    let points: Vec<usize> = (0..points).map(spread).collect();
                    let cases = points
                        .iter()
                        .map(|nth| at(*nth, if nth % 4 == 0 { Side::Exit } else { Side::Entry }));
                    crew.each(&cases.collect::<Vec<_>>())?;
                }
            }
        }
    }
    Ok(())
}

/// Kills both, one after the other, at points drawn by lot: the first anywhere, the second wherever it is then.
fn pairs(crew: &Crew, args: &Args<'_>, pairs: usize) -> Result<(), String> {
    let levels = crew.levels();
    let mut random = Random::new(args.value("--seed", 1)?);
    let mut cases = Vec::new();
    for variant in [Variant::Run, Variant::Stop] {
        let shim = crew.list(variant, levels[0], Role::Shim)?.len();
        // As an orphan's guard it does all that it ever does after its shim.
        let guard = crew.list(Variant::Orphan, levels[0], Role::Guard)?;
        let waits =
            guard.iter().position(|call| call.number == libc::SYS_wait4 as u64).map_or(1, |at| at + 1);
        for number in 0..pairs.div_ceil(2) {
            // Both can be met only after the guard has forked, and then it waits.
            let (role, first, then) = match number % 2 {
                0 => (Role::Shim, 1 + below(&mut random, shim), guard.len().saturating_sub(waits).max(1)),
                _ => (Role::Guard, waits, shim),
            };
            let level = levels[below(&mut random, levels.len())];
            let mut case = Case::new(variant, level, role, Point::Nth(first), Blow::Kill);
            case.plan.then = Some((other(role), 1 + below(&mut random, then)));
            cases.push(case);
        }
    }
    crew.each(&cases)
}

/// Returns where a bug is seeded: both are killed while the job writes, so it has its children and there is something to
/// be wrong about.
fn where_bugs_show(level: Level) -> Vec<Case> {
    let pair = |nth| {
        let point = Point::NthOf(libc::SYS_pwrite64 as u64, nth);
        let mut case = Case::new(Variant::Stop, level, Role::Shim, point, Blow::Kill);
        case.plan.then = Some((Role::Guard, 1));
        case
    };
    (1..=BUG_PAIRS).map(pair).collect()
}
