//! What a job costs beside time: CPU, flushes, memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lastword_proc::{Keeper, Launch, Launched, Nursery, Stop};

use super::folders::Folders;
use crate::statistics::goal;
use crate::{clock, leader};

/// How long the last processes of a bench may take to go. A group that is left after that is only a name.
const GROUP_EMPTY_MAX: Duration = Duration::from_secs(10);

/// Private memory of guard and shim together, at most.
const PRIVATE_MAX_KB: u64 = 400;

/// What is there once, however many jobs there are.
const NURSERY: &str = "nursery, one for all";

/// Jobs that sleep at once while their memory is read.
const SLEEPERS: usize = 20;

/// Counts the CPU time of this process and of everything it starts, whichever process reaps it: a control group of its own.
pub(super) struct Cpu {
    group: Option<PathBuf>,
}

impl Cpu {
    /// Moves this process into a group for as long as the value lives. Without the right to, nothing is counted.
    pub(super) fn here() -> Cpu {
        let parents = ["/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let group = parents.iter().find_map(|parent| {
            let group = Path::new(parent).join(format!("lastword-bench-{}", std::process::id()));
            fs::create_dir(&group).ok()?;
            let moved = fs::write(group.join("cgroup.procs"), "0");
            if moved.is_err() || read_used_ms(&group).is_none() {
                let _ = fs::remove_dir(&group);
                return None;
            }
            Some(group)
        });
        if group.is_none() {
            println!("CPU is not counted: that needs the right to make a control group");
        }
        Cpu { group }
    }

    /// Returns what was used until now.
    pub(super) fn used_ms(&self) -> Option<f64> {
        read_used_ms(self.group.as_deref()?)
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        let Some(group) = &self.group else { return };
        let parent = group.parent().unwrap_or(group);
        let _ = fs::write(parent.join("cgroup.procs"), "0");
        // What was started in it may still be on its way out.
        clock::until(GROUP_EMPTY_MAX, Duration::from_millis(10), || fs::remove_dir(group).ok());
    }
}

fn read_used_ms(group: &Path) -> Option<f64> {
    if let Ok(ns) = fs::read_to_string(group.join("cpuacct.usage")) {
        return ns.trim().parse::<f64>().ok().map(|ns| ns / 1e6);
    }
    let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
    let us = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    us.parse::<f64>().ok().map(|us| us / 1e3)
}

/// Counts the flushes from outside and prints them. Returns those of a job that is cancelled and wrote nothing.
pub(super) fn syncs() -> Result<f64, String> {
    const JOBS: usize = 20;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut each = f64::NAN;
    for part in ["jobs", "cancels"] {
        let temp = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let status = Command::new("strace")
            .args(["-f", "-c", "-e", "trace=fsync,fdatasync,sync,syncfs,sync_file_range,msync", "-o"])
            .arg(temp.path())
            .arg(&own)
            .args(["bench-part", part, &JOBS.to_string()])
            .stdout(Stdio::null())
            .status();
        if !status.is_ok_and(|status| status.success()) {
            println!("flushes are not counted: that needs strace");
            return Ok(f64::NAN);
        }
        let text = fs::read_to_string(temp.path()).map_err(|error| error.to_string())?;
        let calls = calls(&text);
        let list: Vec<String> = calls.iter().map(|(name, count)| format!("{name} {count}")).collect();
        each = calls.values().sum::<u64>() as f64 / JOBS as f64;
        println!("flushes of {JOBS} {part}: {} = {each:.2} each (strace -f -c)", list.join(", "));
    }
    Ok(each)
}

/// Reads the summary of strace: the count stands fourth, the name last.
fn calls(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words.last().filter(|name| name.contains("sync"))?;
            Some(((*name).to_owned(), words.get(3)?.parse().ok()?))
        })
        .collect()
}

/// Jobs that sleep, until the value goes.
struct Sleepers(Vec<(PathBuf, Launched)>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for (folder, _) in &self.0 {
            if let Ok(mut keeper) = Keeper::connect(folder, 0) {
                let _ = keeper.stop(Stop { cause: "cancel", force: true, ..Stop::default() });
            }
        }
    }
}

/// Reads the memory of keepers whose jobs sleep.
pub(super) fn memory(keeper: &Path, folders: &Folders) -> Result<bool, String> {
    let folder = folders.folder()?;
    let nursery = Nursery::start(keeper).map_err(|error| error.to_string())?;
    let mut sleepers = Sleepers(Vec::new());
    for job in 0..SLEEPERS {
        let launch = Launch::new(folder.join(format!("job-{job}")), leader::argv(&["sleep"])?);
        let launched = nursery.launch(&launch).map_err(|error| error.to_string())?;
        sleepers.0.push((launch.dir, launched));
    }
    println!("\n{:<20} {:>10} {:>10} {:>10} {:>10}", "memory, kB", "resident", "PSS", "private", "dirty");
    let pids = |of: fn(&Launched) -> i32| sleepers.0.iter().map(|(_, launched)| of(launched)).collect();
    let groups: [(&str, Vec<i32>); 3] = [
        ("guard", pids(|launched| launched.guard.pid)),
        ("shim", pids(|launched| launched.shim.pid)),
        (NURSERY, vec![nursery.pid()]),
    ];
    let mut private = 0;
    for (name, pids) in groups {
        let Ok([rss, pss, clean, dirty]) = mean(&pids) else {
            println!("memory is not read: a keeper's is closed to everybody but root");
            return Ok(true);
        };
        println!("{name:<20} {rss:>10} {pss:>10} {:>10} {dirty:>10}", clean + dirty);
        private += if name == NURSERY { 0 } else { clean + dirty };
    }
    let fine = private <= PRIVATE_MAX_KB;
    println!(
        "private memory per job, guard and shim together: {private} kB (goal at most {PRIVATE_MAX_KB}; mean of {SLEEPERS}){}",
        goal(fine)
    );
    Ok(fine)
}

/// Returns what the kernel says of the processes' memory, in kB: resident, proportional, private clean, private dirty.
fn mean(pids: &[i32]) -> io::Result<[u64; 4]> {
    let mut sums = [0; 4];
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        for (sum, name) in sums.iter_mut().zip(["Rss:", "Pss:", "Private_Clean:", "Private_Dirty:"]) {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            *sum +=
                line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(sums.map(|sum| sum / pids.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_counted() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ------------------\n\
                     75.00    0.003000         100        30           fsync\n\
                     25.00    0.001000         100        10         1 fdatasync\n\
                    100.00    0.004000                    40         1 total\n";
        assert_eq!(calls(text), BTreeMap::from([("fdatasync".to_owned(), 10), ("fsync".to_owned(), 30)]));
    }
}
