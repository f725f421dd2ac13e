//! Process identity: boot id, pid, start time and, where the kernel has one, the inode of the pidfd.
//!
//! A pid alone identifies nothing, because the kernel reuses it. Code here opens a process first and compares its identity after, so a
//! signal reaches the intended process or none.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::line_format::Line;

/// The identity of a process, unique for all time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The boot id of the machine.
    pub boot: String,
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The inode of its pidfd, unique within a boot. `None` on kernels before 6.9.
    pub inode: Option<u64>,
}

impl Identity {
    /// Returns the identity of the process that has this pid now; `None` if there is none or its identity is uncertain.
    pub fn of(pid: i32) -> Option<Identity> {
        if boot_id() == UNKNOWN_BOOT {
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

    /// Returns the identity of this process. Fails when no descriptor is left to read it.
    pub fn own() -> io::Result<Identity> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        Identity::of(pid)
            .ok_or_else(|| io::Error::other("this process cannot read its own identity in /proc"))
    }

    /// Opens the process; `None` if it is gone, even if its pid was reused.
    pub fn open(&self) -> Option<OwnedFd> {
        if self.boot != boot_id() {
            return None;
        }
        let fd = pidfd(self.pid)?;
        let is_same = match (self.inode, inode_of(&fd)) {
            // The inode suffices, and is available even where `hidepid` hides the keeper's `/proc` entry from its own user.
            (Some(known), Some(now)) => known == now,
            // Read after opening: if the pid was reused in between, the start time is later.
            _ => Stat::of(self.pid)?.start_ticks == self.start_ticks,
        };
        is_same.then_some(fd)
    }

    /// Reports whether it is running, not a zombie.
    pub fn is_alive(&self) -> bool {
        let Some(fd) = self.open() else { return false };
        // A pidfd becomes readable when its process dies, reaped or not.
        let mut death = [PollFd::new(&fd, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut death, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))) == Ok(0)
    }

    /// Sends a signal; returns `false` if the process is gone.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        match self.open() {
            Some(fd) => send(&fd, signal),
            None => Ok(false),
        }
    }

    /// Adds the identity to a line.
    pub(crate) fn write(&self, line: Line) -> Line {
        line.with("boot", &self.boot)
            .with("pid", self.pid)
            .with("start", self.start_ticks)
            .with_some("inode", self.inode)
    }

    /// Parses an identity from a line.
    pub(crate) fn read(line: &Line) -> Option<Identity> {
        Some(Identity {
            boot: line.text("boot")?.to_owned(),
            pid: line.get("pid")?,
            start_ticks: line.get("start")?,
            inode: line.get("inode"),
        })
    }
}

/// Sends a signal through a pidfd; returns `false` if the process is gone.
pub(crate) fn send(fd: &OwnedFd, signal: Signal) -> io::Result<bool> {
    match pidfd_send_signal(fd, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens the process that has this pid now.
pub(crate) fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// Stands for a boot id that cannot be read at the moment. It equals no boot id, and reading is tried again.
pub(crate) const UNKNOWN_BOOT: &str = "unknown";

/// Returns the id of this boot, or `UNKNOWN_BOOT` while it cannot be read.
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return boot;
    }
    match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(text) => BOOT.get_or_init(|| text.trim().to_owned()),
        Err(_) => UNKNOWN_BOOT,
    }
}

/// Returns the inode of a pidfd on pidfs, where it identifies the process; `None` on other file systems.
fn inode_of(fd: &OwnedFd) -> Option<u64> {
    /// `PID_FS_MAGIC`.
    const PIDFS: u64 = 0x5049_4446;
    let on_pidfs = rustix::fs::fstatfs(fd).is_ok_and(|fs| fs.f_type as u64 == PIDFS);
    on_pidfs.then(|| rustix::fs::fstat(fd).ok().map(|stat| stat.st_ino)).flatten()
}

/// The size limit of `/proc/PID/stat`: about fifty numbers of at most twenty digits.
const STAT_BYTES_MAX: usize = 2 << 10;

/// The fields of `/proc/PID/stat` that are needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Its terminal device; 0 if none.
    pub(crate) terminal: i32,
    /// Its threads that have not exited, and its main thread.
    pub(crate) threads: u64,
    pub(crate) start_ticks: u64,
}

impl Stat {
    /// Reads the status of a process; `None` if there is none.
    pub(crate) fn of(pid: i32) -> Option<Stat> {
        // A single read: the kernel generates the file on each, and every pass reads it for every process.
        let mut stat = [0; STAT_BYTES_MAX];
        let read = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
        Stat::parse(&stat[..read])
    }

    /// Parses the fields after the last `)`, because the program name may contain spaces and brackets.
    fn parse(stat: &[u8]) -> Option<Stat> {
        let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
        let fields = std::str::from_utf8(stat.get(after..)?).ok()?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        let terminal = fields.next()?.parse().ok()?;
        let threads = fields.nth(12)?.parse().ok()?;
        let start_ticks = fields.nth(1)?.parse().ok()?;
        Some(Stat { state, parent, session, terminal, threads, start_ticks })
    }

    /// Reports whether it is a zombie or dead. The state is that of its main thread, which may exit before the others: a process is alive
    /// while any of its threads is.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_is_parsed() {
        let text = b"7 (a) R (b) c)) S 3 7 9 34816 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0 0";
        let stat = Stat::parse(text).unwrap();
        let expected =
            Stat { state: 'S', parent: 3, session: 9, terminal: 34_816, threads: 1, start_ticks: 123_456 };
        assert_eq!(stat, expected);
    }

    #[test]
    fn c87_a_process_is_alive_while_any_of_its_threads_is() {
        let stat = |state, threads| Stat { state, threads, ..Stat::of(1).unwrap() };
        for (state, threads, dead) in
            [('S', 1, false), ('R', 9, false), ('Z', 1, true), ('X', 0, true), ('Z', 2, false)]
        {
            assert_eq!(stat(state, threads).is_dead(), dead, "{state} with {threads}");
        }
    }

    #[test]
    fn this_process_is_alive_and_its_identity_round_trips() {
        let own = Identity::own().unwrap();
        assert!(own.is_alive());
        assert_eq!(Identity::read(&own.write(Line::new("keeper"))), Some(own));
    }

    #[test]
    fn c22_another_start_boot_or_inode_is_another_process() {
        let own = Identity::own().unwrap();
        let later = Identity { start_ticks: own.start_ticks + 1, ..own.clone() };
        let elsewhere = Identity { boot: "another".to_owned(), ..own.clone() };
        let recycled = Identity { inode: own.inode.map(|inode| inode + 1), ..own.clone() };
        assert_eq!(later.open().is_none(), own.inode.is_none(), "the inode decides where there is one");
        let later = Identity { inode: None, ..later };
        assert!(later.open().is_none());
        assert!(elsewhere.open().is_none());
        assert_eq!(recycled.open().is_none(), own.inode.is_some());
        assert!(!later.signal(Signal::KILL).unwrap(), "this process must not be signalled");
    }
}
