//! Checks this machine: containment levels, git, kernel, resource limits. Detected by trying, not from versions, where possible.

use std::time::Duration;

use lastword_core::receipt::Level;
use lastword_proc::Tool;
use rustix::process::{Resource, getrlimit};

use super::check::{Check, Status};
use crate::daemon::service::nursery;
use crate::environment;
use crate::ui::describe;

/// How long git may take to print its version.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The first git that can apply a job's changes through a private index.
const GIT_MIN: (u32, u32) = (2, 32);

/// The oldest supported kernel.
const KERNEL_MIN: (u32, u32) = (5, 10);

/// The daemon needs one or two descriptors per live job.
const FILES_MIN: u64 = 4_096;

/// A job is two keeper processes and whatever it starts.
const PROCESSES_MIN: u64 = 1_024;

/// Tests all containment levels, as a daemon does when it starts.
pub(super) fn containment() -> Vec<Check> {
    let nursery = match nursery() {
        Ok(nursery) => nursery,
        Err(error) => {
            let text = format!("cannot start a keeper: {error}");
            return vec![
                Check::fail("containment", text)
                    .remedy("lastword daemon run    # shows the error in the foreground"),
            ];
        }
    };
    nursery.findings().iter().map(|(level, test)| finding(*level, test)).collect()
}

fn finding(level: Level, test: &Result<(), String>) -> Check {
    let (id, able, lacking, status) = match level {
        Level::None | Level::Subreaper => (
            "containment.subreaper",
            "orphaned processes are reparented to their keeper",
            "orphaned processes are not reparented to their keeper",
            Status::Fail,
        ),
        Level::Landlock => (
            "containment.landlock",
            "jobs cannot signal their keepers",
            "jobs can signal their keepers (Landlock needs Linux 6.12)",
            Status::Warn,
        ),
        Level::Cgroup => (
            "containment.cgroup",
            "each job has its own control group and is killed as a unit",
            "jobs have no control groups and are killed process by process",
            Status::Warn,
        ),
        // Opt-in, so not having it is fine.
        Level::Namespace => (
            "containment.namespace",
            "jobs can have their own PID namespace",
            "jobs cannot have their own PID namespace, which is optional",
            Status::Ok,
        ),
    };
    match (test, level) {
        (Ok(()), _) => Check::ok(id, able),
        (Err(why), Level::Cgroup) => Check::new(id, status, format!("{lacking}: {why}"))
            .remedy("lastword daemon install    # needs systemd running for your user"),
        (Err(why), _) => Check::new(id, status, format!("{lacking}: {why}")),
    }
}

/// Counts processes leaked by other tools.
pub(super) fn orphans() -> Check {
    match lastword_proc::orphans::scan() {
        Ok(found) => match found.iter().filter(|orphan| orphan.doubt.is_none()).count() as u64 {
            0 => Check::ok("orphans", "no leaked processes of agents"),
            leaks => Check::warn(
                "orphans",
                describe::count(leaks, "leaked process of another tool", "leaked processes of other tools"),
            )
            .remedy("lastword doctor --orphans"),
        },
        Err(error) => Check::warn("orphans", format!("cannot read the process list: {error}")),
    }
}

pub(super) fn git() -> Check {
    let install = "install git with your package manager";
    let tool = Tool {
        program: "git".as_ref(),
        arguments: vec!["--version".into()],
        folder: "/".as_ref(),
        env: environment::all(),
        input: None,
        time_max: ANSWER_MAX,
    };
    let printed = match tool.run() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
        }
        Ok(output) => {
            return Check::warn("git", format!("cannot get its version: {}", output.status)).remedy(install);
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = "not installed; only --worktree needs it";
            return Check::warn("git", text).remedy(install);
        }
        Err(error) => {
            return Check::warn("git", format!("cannot get its version: {error}")).remedy(install);
        }
    };
    let version = printed.strip_prefix("git version ").unwrap_or(&printed);
    match numbers(version) {
        Some(found) if found >= GIT_MIN => Check::ok("git", version),
        _ => Check::warn(
            "git",
            format!("{version} is too old; {}.{} or later is needed", GIT_MIN.0, GIT_MIN.1),
        )
        .remedy(install),
    }
}

pub(super) fn kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    match numbers(&release) {
        Some(found) if found >= KERNEL_MIN => Check::ok("kernel", format!("Linux {release}")),
        _ => {
            let text =
                format!("Linux {release} is too old; {}.{} or later is needed", KERNEL_MIN.0, KERNEL_MIN.1);
            Check::fail("kernel", text).remedy("upgrade the kernel")
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
    let nofile = match most < FILES_MIN {
        true => Check::warn(
            "limits.files",
            format!("only {most} open files, which limits the number of concurrent jobs"),
        )
        .remedy("ulimit -Hn 65536    # as root, or in /etc/security/limits.conf"),
        false => Check::ok("limits.files", format!("{} open files", amount(most))),
    };
    let by_user = getrlimit(Resource::Nproc).current.unwrap_or(u64::MAX);
    let by_group = pids_max().unwrap_or(u64::MAX);
    let most = by_user.min(by_group);
    let pids = match most < PROCESSES_MIN {
        true => Check::warn(
            "limits.processes",
            format!("only {most} processes, including jobs and their keepers"),
        )
        .remedy(if by_group < by_user {
            "raise pids.max of the container or slice"
        } else {
            "ulimit -u unlimited"
        }),
        false => Check::ok("limits.processes", format!("{} processes", amount(most))),
    };
    vec![nofile, pids]
}

fn amount(number: u64) -> String {
    if number == u64::MAX { "unlimited".to_owned() } else { number.to_string() }
}

/// Returns the process limit of our control group, if it has one.
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
    fn versions_are_parsed() {
        assert_eq!(numbers("2.39.5"), Some((2, 39)));
        assert_eq!(numbers("6.18.44-fc-v310"), Some((6, 18)));
        assert_eq!(numbers("2.52.0.windows.1"), Some((2, 52)));
        assert_eq!(numbers("unknown"), None);
    }
}
