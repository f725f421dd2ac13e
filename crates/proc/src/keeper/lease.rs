//! The lease of one tree, as guard and shim each keep it: a file that says until when, and a timer of the boot clock. Another file is
//! followed when a later life of the worker adopts the tree; the shim hears of it, and tells its guard through a pipe.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::event::Timespec;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock;
use crate::lease::LeaseFile;
use crate::line_format::Line;

/// The lease of a tree; by default it has none, and may run for ever.
#[derive(Debug, Default)]
pub(super) struct Lease {
    file: Option<LeaseFile>,
    /// What the file said when it was read last, in milliseconds of the boot clock.
    until: u64,
    /// Expires then. `poll` counts only time awake; this timer also expires while the machine sleeps.
    timer: Option<OwnedFd>,
}

impl Lease {
    /// Follows a lease file from now on.
    pub(super) fn follow(file: Option<LeaseFile>) -> Lease {
        let mut lease = Lease { file, ..Lease::default() };
        if lease.file.is_some() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            lease.timer = timerfd_create(TimerfdClockId::Boottime, flags).ok();
            lease.look();
        }
        lease
    }

    /// Reports whether the lease is over. Once the known time has passed, the file is read again: it was renewed in most cases.
    pub(super) fn is_over(&mut self) -> bool {
        if self.file.is_none() || clock::boot_ms() < self.until {
            return false;
        }
        self.look();
        clock::boot_ms() >= self.until
    }

    /// Reports whether it follows this file.
    pub(super) fn follows(&self, file: Option<&LeaseFile>) -> bool {
        self.file.as_ref() == file
    }

    /// Returns until when it is known to last.
    pub(super) fn until(&self) -> Option<u64> {
        self.file.as_ref().map(|_| self.until)
    }

    /// Returns what becomes readable when it is time to ask again.
    pub(super) fn timer(&self) -> Option<BorrowedFd<'_>> {
        self.timer.as_ref().map(|timer| timer.as_fd())
    }

    /// Returns the time until then, in case the timer could not be created.
    pub(super) fn pause_ms(&self) -> Option<u64> {
        self.until().map(|until| until.saturating_sub(clock::boot_ms()))
    }

    /// Reads the file and sets the timer.
    fn look(&mut self) {
        self.until = self.file.as_ref().and_then(LeaseFile::read).unwrap_or(0);
        let Some(timer) = &self.timer else { return };
        let (seconds, ms) = (self.until / 1000, self.until % 1000);
        // Never zero, which would disarm the timer.
        let value = Timespec { tv_sec: seconds as i64, tv_nsec: ms as i64 * 1_000_000 + 1 };
        let when = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        let _ = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &when);
    }
}

/// The shim's end of the pipe.
#[derive(Debug)]
pub(super) struct LeaseTeller(OwnedFd);

/// The guard's end of the pipe; empty once the shim has closed its own.
#[derive(Debug)]
pub(super) struct LeaseListener(Option<OwnedFd>);

/// Creates the pipe. It is private to the two, so the tree cannot forge what goes through it, and a full disk cannot hold it up.
pub(super) fn pipe() -> io::Result<(LeaseListener, LeaseTeller)> {
    let (listener, teller) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok((LeaseListener(Some(listener)), LeaseTeller(teller)))
}

impl LeaseTeller {
    /// Tells the guard which file to follow. Fails if the guard has not listened for hundreds of them: it is frozen.
    pub(super) fn tell(&self, file: Option<&LeaseFile>) -> io::Result<()> {
        // Shorter than the request that it comes from, and so than what a pipe takes whole or not at all.
        let line = Line::new("lease").with_bytes_some("file", file.map(LeaseFile::path)).to_string();
        match retry_on_intr(|| rustix::io::write(&self.0, line.as_bytes())) {
            // Without a guard, the shim keeps the lease alone.
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl LeaseListener {
    /// Returns the file that the shim named last, if it named any since the last call.
    pub(super) fn newest(&mut self) -> Option<Option<LeaseFile>> {
        let (mut text, mut chunk) = (Vec::new(), [0; 512]);
        while let Some(pipe) = &self.0 {
            match retry_on_intr(|| rustix::io::read(pipe, &mut chunk)) {
                Ok(0) => self.0 = None,
                Ok(read) => text.extend_from_slice(&chunk[..read]),
                Err(_) => break,
            }
        }
        let line = String::from_utf8_lossy(&text).lines().last().and_then(Line::parse)?;
        Some(line.bytes("file").map(|path| LeaseFile::new(OsStr::from_bytes(path))))
    }

    /// Returns what becomes readable when the shim names another file.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|pipe| pipe.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guard_hears_the_file_that_was_named_last() {
        let (mut listener, teller) = pipe().unwrap();
        assert_eq!(listener.newest(), None);
        let file = LeaseFile::new("/leases/with space/7");
        teller.tell(None).unwrap();
        teller.tell(Some(&file)).unwrap();
        assert_eq!(listener.newest(), Some(Some(file.clone())));
        assert_eq!(listener.newest(), None);
        teller.tell(Some(&file)).unwrap();
        teller.tell(None).unwrap();
        assert_eq!(listener.newest(), Some(None));
        // A frozen guard does not hold up its shim.
        let told = (0..100_000).take_while(|_| teller.tell(Some(&file)).is_ok()).count();
        assert!((100..100_000).contains(&told), "{told}");
        assert_eq!(listener.newest(), Some(Some(file)));
        drop(teller);
        assert_eq!((listener.newest(), listener.poll_fd().is_none()), (None, true));
    }

    #[test]
    fn a_renewed_lease_is_not_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = LeaseFile::new(folder.path().join("1"));
        file.write(clock::boot_ms()).unwrap();
        let mut lease = Lease::follow(Some(file.clone()));
        assert!(lease.is_over());
        file.write(clock::boot_ms() + 60_000).unwrap();
        assert!(!lease.is_over());
        assert!(lease.pause_ms().is_some_and(|ms| ms > 30_000));
        std::fs::remove_file(file.path()).unwrap();
        assert!(!lease.is_over(), "it is not read before the known time has passed");
        assert!(Lease::follow(Some(file)).is_over(), "a missing file is no lease");
        assert!(!Lease::follow(None).is_over(), "a tree without a lease may run");
    }
}
