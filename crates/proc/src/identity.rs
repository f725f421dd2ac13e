//! Who a process is: boot, number, start, and the inode of its pidfd where the kernel has one.
//!
//! A number alone is nobody: it is given to another process sooner or later. Whatever is signalled here was opened first and
//! compared after, so that the signal reaches the process that was meant, or nobody.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::line::Line;

/// A process, for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Which boot of this machine.
    pub boot: String,
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The inode of its pidfd: never given twice in a boot. Kernels before 6.9 have none.
    pub inode: Option<u64>,
}

impl Identity {
    /// Returns who has this number now. `None` if nobody has, or if it cannot be said for certain who.
    pub fn of(pid: i32) -> Option<Identity> {
        if boot_id() == NO_BOOT {
            return None;
        }
        let fd = pidfd(pid)?;
        let stat = Stat::of(pid)?;
        Some(Identity {
            boot: boot_id().to_owned(),
            pid,
            start_ticks: stat.start_ticks,
            inode: inode_of(&fd),
        })
    }

    /// Returns this process. Whoever cannot say who it is, for want of a descriptor, could not be found again either.
    pub fn own() -> io::Result<Identity> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Identity::of(pid)
            .ok_or_else(|| io::Error::other("this process cannot read its own identity in /proc"))
    }

    /// Opens the process, if it is still the one that is meant. `None` means it is gone, whoever has its number now.
    pub fn open(&self) -> Option<OwnedFd> {
        if self.boot != boot_id() {
            return None;
        }
        let fd = pidfd(self.pid)?;
        let is_same = match (self.inode, inode_of(&fd)) {
            // Enough by itself, and known of processes that `/proc` hides: a keeper, from its own user, with `hidepid`.
            (Some(known), Some(now)) => known == now,
            // Compared after the opening: a number that was given away in between shows a later start.
            _ => Stat::of(self.pid)?.start_ticks == self.start_ticks,
        };
        is_same.then_some(fd)
    }

    /// Reports whether it runs: there, and not a zombie.
    pub fn is_alive(&self) -> bool {
        let Some(fd) = self.open() else { return false };
        // Readable from its death on, reaped or not.
        let mut death = [PollFd::new(&fd, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut death, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))) == Ok(0)
    }

    /// Signals it. `false` means that it was gone.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match self.open() {
            Some(fd) => send(&fd, signal),
            None => Ok(false),
        }
    }

    /// Adds it to a line.
    pub(crate) fn write(&self, line: Line) -> Line {
        line.with("boot", &self.boot)
            .with("pid", self.pid)
            .with("start", self.start_ticks)
            .with_some("inode", self.inode)
    }

    /// Reads it from a line.
    pub(crate) fn read(line: &Line) -> Option<Identity> {
        Some(Identity {
            boot: line.text("boot")?.to_owned(),
            pid: line.get("pid")?,
            start_ticks: line.get("start")?,
            inode: line.get("inode"),
        })
    }
}

/// Signals through a pidfd. `false` means that the process was gone.
pub(crate) fn send(fd: &OwnedFd, signal: Signal) -> io::Result<bool> {
    match pidfd_send_signal(fd, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens whoever has this number now.
pub(crate) fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// The id of no boot: what cannot be read now is asked for again, and compared with nothing meanwhile.
pub(crate) const NO_BOOT: &str = "unknown";

/// Returns the id of this boot, or a word that no boot has while that cannot be read.
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return boot;
    }
    match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(text) => BOOT.get_or_init(|| text.trim().to_owned()),
        Err(_) => NO_BOOT,
    }
}

/// Returns the inode of a pidfd where it means something: on the file system that gives each process its own.
fn inode_of(fd: &OwnedFd) -> Option<u64> {
    /// `PID_FS_MAGIC`.
    const PIDFS: u64 = 0x5049_4446;
    let on_pidfs = rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_type as u64 == PIDFS);
    on_pidfs.then(|| rustix::fs::fstat(fd).ok().map(|stat| stat.st_ino)).flatten()
}

/// Longer than any `/proc/PID/stat`: some fifty numbers of at most twenty digits.
const STAT_BYTES_MAX: usize = 2 << 10;

/// The part of `/proc/PID/stat` that is needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// The number of its terminal; zero is none.
    pub(crate) terminal: i32,
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// Reads it, if there is such a process.
    pub(crate) fn of(pid: i32) -> Option<Stat> {
        // One read: it is made anew for each, and looked at for every process of every pass.
        let mut stat = [0; STAT_BYTES_MAX];
        let read = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
        Stat::parse(&stat[..read])
    }

    /// The name of a program may hold spaces and brackets, so the fields are counted from its last bracket.
    fn parse(stat: &[u8]) -> Option<Stat> {
        let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
        let fields = std::str::from_utf8(stat.get(after..)?).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let terminal = fields.next()?.parse().ok()?;
        let start_ticks = fields.nth(14)?.parse().ok()?;
        Some(Stat { state, parent, session, terminal, start_ticks })
    }

    /// Reports whether nothing of it runs any more.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_brackets_hides_nothing() {
        let text = b"7 (a) R (b) c)) S 3 7 9 34816 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(stat, Stat { state: 'S', parent: 3, session: 9, terminal: 34_816, start_ticks: 123_456 });
    }

    #[test]
    fn this_process_is_itself_and_alive() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        assert_eq!(Identity::read(&own.write(Line::new("keeper"))), Some(own));
    }

    #[test]
    fn c22_another_start_boot_or_inode_is_somebody_else() {
        let own = Identity::own().unwrap();
        let later = Identity { start_ticks: own.start_ticks + 1, ..own.clone() };
        let elsewhere = Identity { boot: "another".to_owned(), ..own.clone() };
        let recycled = Identity { inode: own.inode.map(|inode| inode + 1), ..own.clone() };
        assert_eq!(later.open().is_none(), own.inode.is_none(), "the inode says more than the start");
        let later = Identity { inode: None, ..later };
        assert!(later.open().is_none());
        assert!(elsewhere.open().is_none());
        assert_eq!(recycled.open().is_none(), own.inode.is_some());
        assert!(!later.signal(Signal::KILL).unwrap(), "nobody was signalled, least of all this process");
    }
}
