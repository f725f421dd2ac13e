//! `fault-points`: each durable or resource call of guard and shim fails once.

use lastword_core::receipt::Level;

use super::WORKERS;
use super::bug::{self, Bug};
use super::case::{Case, Variant, below, chosen, errno_of, level_of};
use super::crew::Crew;
use super::harness::Recovery;
use crate::args::Args;
use crate::place;
use crate::random::Random;
use crate::tracer::{Blow, Plan, Point, Role, name_of, number_of};

const WITH_VALUE: &[&str] = &[
    "--role",
    "--variant",
    "--level",
    "--call",
    "--nth",
    "--errno",
    "--times",
    "--points",
    "--bug",
    "--seed",
    "--workers",
];

/// Calls in a row that find the disk full or no descriptor left: such a state seldom ends after one.
const LASTING: usize = 4;

/// Faults of each row in the short form, which is part of every change's checks.
const POINTS: usize = 40;

/// Calls that touch the disk or take something the system can run out of, and how each can fail.
const CALLS: &[(&[&str], &[i32])] = &[
    (
        &["openat", "openat2", "memfd_create", "mkdirat", "mkdir"],
        &[libc::EIO, libc::ENOSPC, libc::EMFILE, libc::EINTR],
    ),
    (
        &[
            "write",
            "pwrite64",
            "writev",
            "pwritev",
            "fallocate",
            "ftruncate",
            "sendmsg",
            "sendto",
            "linkat",
            "link",
        ],
        &[libc::EIO, libc::ENOSPC, libc::EINTR, libc::EAGAIN],
    ),
    (&["fsync", "fdatasync"], &[libc::EIO, libc::ENOSPC, libc::EINTR]),
    (&["unlinkat", "unlink", "rename", "renameat2", "rmdir", "flock"], &[libc::EIO, libc::EINTR]),
    (&["read", "pread64", "recvfrom", "recvmsg", "getdents64"], &[libc::EIO, libc::EINTR, libc::EAGAIN]),
    (
        &[
            "pipe2",
            "socket",
            "socketpair",
            "accept4",
            "signalfd4",
            "timerfd_create",
            "epoll_create1",
            "pidfd_open",
            "fcntl",
            "dup3",
        ],
        &[libc::EMFILE, libc::ENOMEM, libc::EINTR],
    ),
    (&["bind", "listen"], &[libc::EIO, libc::ENOSPC, libc::ENOMEM]),
    (&["clone", "clone3", "fork", "vfork"], &[libc::EAGAIN, libc::ENOMEM]),
    (&["poll", "ppoll"], &[libc::EINTR, libc::ENOMEM]),
    (&["wait4", "waitid"], &[libc::EINTR]),
];

/// Runs the verb.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let args = Args::new(words, WITH_VALUE, &["--all"])?;
    let workers = args.value("--workers", WORKERS)?;
    if let Some(name) = args.text("--bug") {
        return Bug::named(bug::OF_FAULTS, name)?.is_caught(workers, where_bugs_show);
    }
    let folder = place::temporary("fault-points")?;
    let crew = Crew::new(folder.path(), workers, Recovery::Locate, |_| {})?;
    let is_single = args.text("--call").is_some() && args.text("--errno").is_some();
    if is_single {
        crew.each(&[single(&args)?])?;
    } else {
        rows(&crew, &args)?;
    }
    crew.table().print();
    let holds = crew.table().holds();
    drop(crew);
    let is_whole = !is_single && args.text("--role").is_none();
    let mut caught = true;
    for bug in bug::OF_FAULTS.iter().filter(|_| is_whole) {
        caught &= bug.is_caught(workers, where_bugs_show)?;
    }
    Ok(holds && caught)
}

/// Reads one fault from the command line, as a complaint prints it.
fn single(args: &Args<'_>) -> Result<Case, String> {
    let role = chosen(args, "--role", Role::parse)?.ok_or("--call needs --role")?;
    let call = chosen(args, "--call", number_of)?.ok_or("which --call?")?;
    let errno = chosen(args, "--errno", errno_of)?.ok_or("which --errno?")?;
    let variant = chosen(args, "--variant", Variant::parse)?.unwrap_or(Variant::Run);
    let level = chosen(args, "--level", level_of)?.unwrap_or(Level::Cgroup);
    let mut case =
        Case::new(variant, level, role, Point::NthOf(call, args.value("--nth", 1)?), Blow::Fail(errno));
    case.plan.times = args.value("--times", 1)?;
    Ok(case)
}

/// Lets every call of every role fail in every way, or some of each row.
fn rows(crew: &Crew, args: &Args<'_>) -> Result<(), String> {
    let roles = chosen(args, "--role", Role::parse)?.map_or(vec![Role::Shim, Role::Guard], |role| vec![role]);
    let variants =
        chosen(args, "--variant", Variant::parse)?.map_or(Variant::ALL.to_vec(), |variant| vec![variant]);
    let levels = chosen(args, "--level", level_of)?.map_or(crew.levels(), |level| vec![level]);
    let only = chosen(args, "--call", number_of)?;
    let mut random = Random::new(args.value("--seed", 1)?);
    for role in roles {
        for &variant in &variants {
            for &level in &levels {
                let mut cases = Vec::new();
                let mut counts = std::collections::BTreeMap::<u64, usize>::new();
                for call in crew.list(variant, level, role)? {
                    let nth = counts.entry(call.number).or_default();
                    *nth += 1;
                    let wanted = only.is_none_or(|only| only == call.number);
                    for errno in errnos_of(call.number).iter().filter(|_| wanted) {
                        let point = Point::NthOf(call.number, *nth);
                        let case = Case::new(variant, level, role, point, Blow::Fail(*errno));
                        cases.push(case);
                        if [libc::ENOSPC, libc::EMFILE].contains(errno) {
                            cases.push(Case { plan: Plan { times: LASTING, ..case.plan }, ..case });
                        }
                    }
                }
                if !args.has("--all") {
                    let points = args.value("--points", POINTS)?.min(cases.len());
                    let (all, step) = (cases.len(), cases.len() / points.max(1));
                    cases = (0..points)
                        .map(|number| {
                            cases[(number * all / points + below(&mut random, step.max(1))).min(all - 1)]
                        })
                        .collect();
                }
                crew.each(&cases)?;
            }
        }
    }
    Ok(())
}

fn errnos_of(number: u64) -> &'static [i32] {
    let name = name_of(number);
    CALLS.iter().find(|(names, _)| names.contains(&name.as_str())).map_or(&[], |(_, errnos)| errnos)
}

/// Returns where a bug is seeded: one fault that the job survives, and one that refuses the launch.
fn where_bugs_show(level: Level) -> Vec<Case> {
    let interrupted = Point::NthOf(libc::SYS_pwrite64 as u64, 1);
    let unopened = Point::NthOf(libc::SYS_openat2 as u64, 1);
    vec![
        Case::new(Variant::Run, level, Role::Shim, interrupted, Blow::Fail(libc::EINTR)),
        Case::new(Variant::Run, level, Role::Guard, unopened, Blow::Fail(libc::EIO)),
    ]
}
