//! The judge's own control group: whatever is forked inside is counted by the kernel, whatever a keeper believes.
//!
//! ```text
//! observer (root's)          no process of its own, only below
//! └── ward                   the driver, the nursery and all they fork; the user's, if there is one
//!     ├── escape             where an adversary may move itself
//!     └── …                  what a keeper makes
//! ```

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;

/// How many processes may live in a ward: as many as the storm asks for, and the keeper's own. Root is bound by nothing
/// else.
const PROCESSES_MAX: u32 = 200;

/// How long the killed may take to go once nothing can stop them.
const CLEARING: Duration = Duration::from_secs(10);

/// A control group that is watched.
pub(crate) struct Observer {
    path: PathBuf,
    /// Where the number of processes is capped, if that is another hierarchy.
    pids: Option<PathBuf>,
}

impl Observer {
    /// Makes one, with a ward that belongs to `owner`.
    pub(crate) fn new(name: &str, owner: Option<u32>) -> Result<Observer, String> {
        let top = unified()?;
        // Refused where it is on already, or not to be had.
        let _ = fs::write(top.join("cgroup.subtree_control"), "+pids");
        let path = top.join(format!("lastword-torture-{}-{name}", std::process::id()));
        make(&path)?;
        let mut observer = Observer { path, pids: None };
        for folder in [observer.ward(), observer.escape()] {
            make(&folder)?;
            for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
                if owner.is_some() {
                    let file = folder.join(file);
                    chown(&file, owner, owner).map_err(|error| at(&file, &error))?;
                }
            }
        }
        observer.cap()?;
        Ok(observer)
    }

    /// Returns the group that is handed to the driver on trial.
    pub(crate) fn ward(&self) -> PathBuf {
        self.path.join("ward")
    }

    /// Returns the group into which an adversary may move itself.
    pub(crate) fn escape(&self) -> PathBuf {
        self.ward().join("escape")
    }

    /// Puts a process, and what it forks from now on, inside.
    pub(crate) fn admit(&self, pid: u32) -> Result<(), String> {
        for group in [Some(&self.ward()), self.pids.as_ref()].into_iter().flatten() {
            let file = group.join("cgroup.procs");
            fs::write(&file, pid.to_string()).map_err(|error| at(&file, &error))?;
        }
        Ok(())
    }

    /// Returns all processes that live inside, without zombies.
    pub(crate) fn members(&self) -> Vec<i32> {
        let mut members = Vec::new();
        collect(&self.path, &mut members);
        members
    }

    /// Kills every process but `kept`. Freezes the group first, so that no process forks meanwhile.
    pub(crate) fn clear(&self, kept: &[i32]) -> Result<(), String> {
        let freeze = self.path.join("cgroup.freeze");
        let strangers = || self.members().into_iter().filter(|pid| !kept.contains(pid)).collect::<Vec<_>>();
        let gone = clock::until(CLEARING, Duration::from_millis(1), || {
            if strangers().is_empty() {
                return Some(());
            }
            let _ = fs::write(&freeze, "1");
            for pid in strangers() {
                // SAFETY: takes numbers. No process inside can exit and release its pid while it is frozen.
                unsafe {
                    libc::kill(pid, libc::SIGKILL);
                }
            }
            let _ = fs::write(&freeze, "0");
            None
        });
        gone.ok_or_else(|| format!("{}: {:?} cannot be killed", self.path.display(), strangers()))
    }

    /// Caps the number of processes, where this machine can: as root nothing else binds a storm.
    fn cap(&mut self) -> Result<(), String> {
        let unified = self.path.join("pids.max");
        if unified.exists() {
            return fs::write(&unified, PROCESSES_MAX.to_string()).map_err(|error| at(&unified, &error));
        }
        let hierarchy = Path::new("/sys/fs/cgroup/pids");
        let name = self.path.file_name().ok_or("a group has a name")?;
        if !hierarchy.is_dir() {
            return Err("nothing here can cap the number of processes, so no storm is let loose".into());
        }
        let group = hierarchy.join(name);
        make(&group)?;
        let file = group.join("pids.max");
        fs::write(&file, PROCESSES_MAX.to_string()).map_err(|error| at(&file, &error))?;
        self.pids = Some(group);
        Ok(())
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let _ = self.clear(&[]);
        // A group can be removed a moment after the last process in it has gone.
        let removed = || remove(&self.path).is_ok().then_some(());
        let _ = clock::until(Duration::from_secs(1), Duration::from_millis(1), removed);
        if let Some(pids) = &self.pids {
            let removed = || fs::remove_dir(pids).is_ok().then_some(());
            let _ = clock::until(Duration::from_secs(1), Duration::from_millis(1), removed);
        }
    }
}

fn collect(group: &Path, members: &mut Vec<i32>) {
    let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    // One that is reaped while the list is made is listed as 0, which as a target means us.
    members.extend(list.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    for inner in groups_in(group) {
        collect(&inner, members);
    }
}

fn remove(group: &Path) -> std::io::Result<()> {
    for inner in groups_in(group) {
        remove(&inner)?;
    }
    fs::remove_dir(group)
}

fn groups_in(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Returns where the control groups of version 2 are mounted. The top, not the group of this process: only there may
/// processes and a cap for others stand side by side.
pub(crate) fn unified() -> Result<PathBuf, String> {
    let mounts =
        fs::read_to_string("/proc/self/mounts").map_err(|error| format!("/proc/self/mounts: {error}"))?;
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.find(|fields| fields.get(2) == Some(&"cgroup2"));
    let mount = mount.ok_or("no control groups of version 2 are mounted, and the judge needs them")?;
    Ok(PathBuf::from(mount[1]))
}

fn make(group: &Path) -> Result<(), String> {
    fs::create_dir(group).map_err(|error| at(group, &error))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error} (the judge needs root for its control group)", path.display())
}
