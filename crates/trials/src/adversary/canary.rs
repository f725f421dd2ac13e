//! The heartbeat of every process here.

use std::ffi::CString;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::process;
use crate::record::{Record, SIZE};

/// How often a process writes a heartbeat, in microseconds. A process that survives a last word by this much is noticed.
const EVERY_US: u32 = 1_000;

/// The file that this process, and its children after a fork, append to.
#[derive(Clone, Copy)]
pub(crate) struct Canary(i32);

/// Where the timer's handler writes. A handler has no arguments.
static TIMED: AtomicI32 = AtomicI32::new(-1);

impl Canary {
    /// Opens the file. The judge has created it.
    pub(crate) fn open(path: &str) -> Option<Canary> {
        let path = CString::new(path).ok()?;
        // SAFETY: the path ends with a zero and outlives the call.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC) };
        (fd >= 0).then_some(Canary(fd))
    }

    /// Writes one heartbeat.
    pub(crate) fn sing(self) {
        self.append(false);
    }

    /// Reports that the tree is complete: a stop from now on meets all of it.
    pub(crate) fn settled(self) {
        self.append(true);
    }

    /// Does nothing but write heartbeats.
    pub(crate) fn sing_on(self) -> ! {
        loop {
            process::rest_us(EVERY_US);
            self.sing();
        }
    }

    /// Writes heartbeats from a timer, so that they continue while the process is blocked in a call.
    pub(crate) fn sing_by_timer(self) {
        TIMED.store(self.0, Ordering::Relaxed);
        // SAFETY: the handler only writes to a descriptor, which is allowed in one; the structures outlive the calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_timer as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_SIGNAL;
            event.sigev_signo = libc::SIGUSR1;
            let mut timer: libc::timer_t = std::ptr::null_mut();
            libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
            let every = libc::timespec { tv_sec: 0, tv_nsec: i64::from(EVERY_US) * 1_000 };
            let times = libc::itimerspec { it_interval: every, it_value: every };
            libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut());
        }
    }

    fn append(self, settled: bool) {
        let bytes = bytes_of(Record { pid: process::own_pid() as u32, settled, at_ns: process::boot_ns() });
        // SAFETY: the bytes outlive the call. The result is ignored: there is nothing to do about a failure.
        unsafe {
            libc::write(self.0, bytes.as_ptr().cast(), bytes.len());
        }
    }
}

fn bytes_of(record: Record) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..4].copy_from_slice(&record.pid.to_le_bytes());
    bytes[4] = u8::from(record.settled);
    bytes[8..].copy_from_slice(&record.at_ns.to_le_bytes());
    bytes
}

extern "C" fn on_timer(_: i32) {
    Canary(TIMED.load(Ordering::Relaxed)).sing();
}
