//! Landlock's signal scope: keeps a tree from signalling its keeper.
//!
//! Landlock restricts neither files nor ports here. A process in the scope, and everything it starts, can only signal processes in the
//! same scope.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::process::{Pid, test_kill_process};

use super::self_test::{daemonise, in_child, kill_and_reap, sleep_until_killed};

/// `struct landlock_ruleset_attr`.
#[repr(C)]
struct Ruleset {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `LANDLOCK_SCOPE_SIGNAL`, available since version 6 of the ABI.
const SCOPE_SIGNAL: u64 = 1 << 1;
const VERSION_MIN: libc::c_long = 6;
/// `LANDLOCK_CREATE_RULESET_VERSION`.
const ASK_VERSION: u32 = 1;

/// Puts this process and everything it will start into a scope of its own.
///
/// Called in a child before its exec. Without `no_new_privs`, the kernel allows it only to root.
pub(crate) fn restrict() -> io::Result<()> {
    // SAFETY: asking for the version passes no structure.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<Ruleset>(), 0_usize, ASK_VERSION)
    };
    if version < 0 {
        return Err(io::Error::last_os_error());
    }
    if version < VERSION_MIN {
        let why = format!(
            "Landlock ABI {version} has no signal scope; {VERSION_MIN} or later is needed (Linux 6.12)"
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let rules = Ruleset { handled_access_fs: 0, handled_access_net: 0, scoped: SCOPE_SIGNAL };
    // SAFETY: the kernel reads a structure of the given size, which outlives the call.
    let fd = unsafe {
        let size = size_of::<Ruleset>();
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const rules, size, 0_u32)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor for us, so it has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    // SAFETY: an open descriptor and no flags.
    match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd.as_raw_fd(), 0_u32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that processes in the scope, daemonized ones included, cannot signal us but can signal each other.
///
/// `restrict` is a parameter so that a test can make this fail.
pub(crate) fn self_test(restrict: fn() -> io::Result<()>) -> Result<(), String> {
    let outside = rustix::process::getpid();
    in_child(|| {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| format!("prctl(PR_SET_CHILD_SUBREAPER): {error}"))?;
        rustix::thread::set_no_new_privs(true).map_err(|error| format!("no_new_privs: {error}"))?;
        restrict().map_err(|error| format!("Landlock: {error}"))?;
        let (mut reader, mut answer) = io::pipe().map_err(|error| format!("pipe: {error}"))?;
        let daemon = daemonise(|_| {
            let _ = answer.write_all(&[u8::from(is_refused(outside))]);
            sleep_until_killed()
        })?;
        let mut refused = [0];
        let heard = reader.read_exact(&mut refused);
        // First, because a scope that forbids this would leave the daemon behind.
        kill_and_reap(daemon).map_err(|error| format!("within the scope: {error}"))?;
        heard.map_err(|error| format!("the daemon did not answer: {error}"))?;
        match (is_refused(outside), refused) {
            (true, [1]) => Ok(()),
            (false, _) => Err("a process in the scope can signal out of it".to_owned()),
            (true, _) => Err("a daemon started in the scope can signal out of it".to_owned()),
        }
    })
}

/// Reports whether the kernel forbids us to signal a live process.
fn is_refused(pid: Pid) -> bool {
    test_kill_process(pid) == Err(rustix::io::Errno::PERM)
}
