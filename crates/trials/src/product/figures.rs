//! What the kernel says of processes: which are alive, how much memory and how many descriptors they have, what time they used.

use std::fs;
use std::path::Path;

/// Clock ticks per second in `/proc`: Linux shows 100 to every process.
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// Nanoseconds of such a tick.
pub(crate) const TICK_NS: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// Memory of a process, in kB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) proportional: u64,
    pub(crate) private: u64,
    /// Neither of the executable nor of any other file.
    pub(crate) anonymous: u64,
}

/// What `/proc/PID/stat` says, as far as it is asked for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    /// Its threads that have not exited, and its main thread, whose state may be that of a zombie while others run.
    pub(crate) threads: u64,
    /// Time used in user and kernel mode.
    pub(crate) cpu_ticks: u64,
    /// When it started, since boot.
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// Reads it, if there is such a process.
    pub(crate) fn of(pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name of a program may hold spaces and brackets: fields are counted from its last bracket.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            cpu_ticks: number(11)? + number(12)?,
            threads: number(17)?,
            start_ticks: number(19)?,
        })
    }

    /// Reports whether anything of it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x') || self.threads > 1
    }
}

/// Returns the numbers of all processes.
pub(crate) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the numbers of all processes that run, zombies left out.
pub(crate) fn living() -> Vec<i32> {
    all().into_iter().filter(|pid| Stat::of(*pid).is_some_and(|stat| stat.is_alive())).collect()
}

/// Returns the children of a process that are dead and were not waited for.
pub(crate) fn zombies_of(parent: i32) -> usize {
    let of = |pid: &i32| Stat::of(*pid).is_some_and(|stat| stat.parent == parent && !stat.is_alive());
    all().iter().filter(|pid| of(pid)).count()
}

/// Reports whether a process runs this program.
pub(crate) fn runs(pid: i32, program: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
}

/// Returns what a process has resident, in kB.
pub(crate) fn resident_kb(pid: i32) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

/// Returns the time that a process has run, threads that are gone included.
pub(crate) fn run_ns(pid: i32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.cpu_ticks * TICK_NS)
}

/// Returns the most that a process ever had resident, in kB: the kernel keeps it, so that no look can miss it.
pub(crate) fn most_resident_kb(pid: i32) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

/// Returns the memory of a process. Only root may ask about one that has closed itself to others.
pub(crate) fn memory(pid: i32) -> Option<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(Memory {
        resident: field(&text, "Rss:")?,
        proportional: field(&text, "Pss:")?,
        private: field(&text, "Private_Clean:")? + field(&text, "Private_Dirty:")?,
        anonymous: field(&text, "Anonymous:")?,
    })
}

/// Returns how many descriptors a process has open.
pub(crate) fn descriptors(pid: i32) -> Option<usize> {
    fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let text = "7 (a) R (b) c)) S 3 7 9 0 -1 4194560 1 2 3 4 50 6 7 8 20 0 1 0 123456 0 0";
        let stat = Stat { state: 'S', parent: 3, threads: 1, cpu_ticks: 56, start_ticks: 123_456 };
        assert_eq!(Stat::parse(text), Some(stat));
    }

    #[test]
    fn this_process_has_memory_descriptors_and_a_start() {
        let own = std::process::id() as i32;
        assert!(living().contains(&own));
        assert!(resident_kb(own).unwrap() > 100);
        assert!(memory(own).unwrap().private > 10);
        assert!(descriptors(own).unwrap() >= 3);
        let ticks = crate::clock::boot_ns() / TICK_NS;
        assert!((1..=ticks).contains(&Stat::of(own).unwrap().start_ticks));
        assert!(runs(own, &std::env::current_exe().unwrap()));
    }
}
