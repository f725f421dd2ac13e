//! What this machine can do for us: hold trees, run git, open files; found out by trying, not by version numbers.

use std::time::Duration;

use lastword_core::receipt::Level;
use lastword_proc::Tool;
use rustix::process::{Resource, getrlimit};

use super::{Check, Status};
use crate::daemon::run::nursery;
use crate::environment;
use crate::ui::words;

/// How long git may take to say its version.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The first git that brings over what a job has changed, in an index apart.
const GIT_LEAST: (u32, u32) = (2, 32);

/// The first kernel that this was written for.
const KERNEL_LEAST: (u32, u32) = (5, 10);

/// The daemon holds a descriptor or two for each live job.
const FILES_LEAST: u64 = 4_096;

/// A job is two keepers and whatever it starts.
const PROCESSES_LEAST: u64 = 1_024;

/// Tries every level that a tree can be held with, as a daemon does when it starts.
pub(super) fn containment() -> Vec<Check> {
    let nursery = match nursery() {
        Ok(nursery) => nursery,
        Err(error) => {
            let text = format!("no keeper can be started: {error}");
            return vec![
                Check::fail("containment", text)
                    .remedy("lastword daemon run    # shows why, in the foreground"),
            ];
        }
    };
    nursery.findings().iter().map(|(level, test)| finding(*level, test)).collect()
}

fn finding(level: Level, test: &Result<(), String>) -> Check {
    let (id, able, lacking, status) = match level {
        Level::None | Level::Subreaper => (
            "containment.subreaper",
            "a keeper gets back what forks away",
            "a keeper does not get back what forks away",
            Status::Fail,
        ),
        Level::Landlock => (
            "containment.landlock",
            "a tree cannot signal its keeper",
            "a tree can signal its keeper (Landlock from Linux 6.12 on)",
            Status::Warn,
        ),
        Level::Cgroup => (
            "containment.cgroup",
            "a tree has a control group of its own, and ends at one stroke",
            "trees have no control group, and are ended one process after the other",
            Status::Warn,
        ),
        // Only for those who ask for it, so nobody misses it.
        Level::Namespace => (
            "containment.namespace",
            "a tree can have a namespace of its own",
            "no namespaces for trees, which only who asks for one needs",
            Status::Ok,
        ),
    };
    match (test, level) {
        (Ok(()), _) => Check::ok(id, format!("{able}; tried")),
        (Err(why), Level::Cgroup) => Check::new(id, status, format!("{lacking}: {why}"))
            .remedy("run it where systemd runs for your user: lastword daemon install"),
        (Err(why), _) => Check::new(id, status, format!("{lacking}: {why}")),
    }
}

/// Counts what other tools left behind.
pub(super) fn orphans() -> Check {
    match lastword_proc::orphans::scan() {
        Ok(found) => match found.iter().filter(|orphan| orphan.doubt.is_none()).count() as u64 {
            0 => Check::ok("orphans", "no agent has leaked anything"),
            leaks => {
                Check::warn("orphans", format!("{} of other tools", words::count(leaks, "leak", "leaks")))
                    .remedy("lastword doctor --orphans")
            }
        },
        Err(error) => Check::warn("orphans", format!("the processes cannot be read: {error}")),
    }
}

pub(super) fn git() -> Check {
    let install = "install git with the package manager of this machine";
    let asked = Tool {
        program: "git".as_ref(),
        arguments: vec!["--version".into()],
        folder: "/".as_ref(),
        env: environment::all(),
        input: None,
        time_max: ANSWER_MAX,
    };
    let said = match asked.run() {
        Ok(said) if said.status.success() => String::from_utf8_lossy(&said.stdout).trim_end().to_owned(),
        Ok(said) => {
            return Check::warn("git", format!("does not say its version: {}", said.status)).remedy(install);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = "is not installed; only work in worktrees needs it";
            return Check::warn("git", text).remedy(install);
        }
        Err(error) => {
            return Check::warn("git", format!("does not say its version: {error}")).remedy(install);
        }
    };
    let version = said.strip_prefix("git version ").unwrap_or(&said);
    match numbers(version) {
        Some(found) if found >= GIT_LEAST => Check::ok("git", version),
        _ => Check::warn("git", format!("{version} is older than {}.{}", GIT_LEAST.0, GIT_LEAST.1))
            .remedy(install),
    }
}

pub(super) fn kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    match numbers(&release) {
        Some(found) if found >= KERNEL_LEAST => Check::ok("kernel", format!("Linux {release}")),
        _ => {
            let text = format!(
                "Linux {release}; this is written for {}.{} and newer",
                KERNEL_LEAST.0, KERNEL_LEAST.1
            );
            Check::fail("kernel", text).remedy("upgrade the kernel of this machine")
        }
    }
}

/// Returns the first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

pub(super) fn limits() -> Vec<Check> {
    let files = getrlimit(Resource::Nofile);
    let most = files.maximum.or(files.current).unwrap_or(u64::MAX);
    let nofile = match most < FILES_LEAST {
        true => Check::warn(
            "limits.files",
            format!("only {most} open files: enough for fewer jobs at once than that"),
        )
        .remedy("ulimit -Hn 65536    # as root, or in /etc/security/limits.conf"),
        false => Check::ok("limits.files", format!("{} open files", amount(most))),
    };
    let by_user = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    let by_group = pids_max().unwrap_or(u64::MAX);
    let most = by_user.min(by_group);
    let pids = match most < PROCESSES_LEAST {
        true => {
            Check::warn("limits.processes", format!("only {most} processes, jobs and their keepers included"))
                .remedy(if by_group < by_user {
                    "raise pids.max of the container or slice"
                } else {
                    "ulimit -u unlimited"
                })
        }
        false => Check::ok("limits.processes", format!("{} processes", amount(most))),
    };
    vec![nofile, pids]
}

fn amount(number: u64) -> String {
    if number == u64::MAX { "any number of".to_owned() } else { number.to_string() }
}

/// Returns how many processes the control group of this one may have, where one says so.
fn pids_max() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folders =
        std::path::Path::new(own).ancestors().map(|above| format!("/sys/fs/cgroup{}", above.display()));
    folders
        .filter_map(|folder| std::fs::read_to_string(format!("{folder}/pids.max")).ok()?.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        assert_eq!(numbers("2.39.5"), Some((2, 39)));
        assert_eq!(numbers("6.18.44-fc-v310"), Some((6, 18)));
        assert_eq!(numbers("2.52.0.windows.1"), Some((2, 52)));
        assert_eq!(numbers("unknown"), None);
    }
}
