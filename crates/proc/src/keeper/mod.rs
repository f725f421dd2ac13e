//! What runs in the keeper's own processes: nursery, guard and shim. One thread each, always.

mod control;
pub(crate) mod guard;
pub(crate) mod input;
mod levels;
pub(crate) mod output;
mod requests;
mod shim;
mod spawn;
mod stop;

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitCode;

use levels::Levels;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use crate::claim::VERSION;
use crate::identity::boot_id;
use crate::launch::Launch;
use crate::line::Line;
use crate::sys::{self, Fork};

pub use output::SLACK_BYTES;

/// Longest launch: an argument list and an environment may have some megabytes, not more.
const LAUNCH_BYTES_MAX: u64 = 8 << 20;

/// Runs as a nursery, on the socket that is this process's standard input: tests what this machine can do, says so, then
/// forks a guard for each message until its daemon is gone.
pub fn run() -> ExitCode {
    sys::close_from(3);
    sys::set_name(c"lw-nursery");
    let Ok(socket) = own_socket() else { return ExitCode::from(74) };
    let levels = Levels::find();
    // Read once, here: every fork has it then.
    let _ = boot_id();
    sys::set_undumpable();
    sys::ignore_children();
    let hello = levels.write(Line::new("hello").with("version", VERSION));
    if rustix::net::send(&socket, hello.to_string().as_bytes(), SendFlags::NOSIGNAL).is_err() {
        return ExitCode::from(74);
    }
    while let Some((launch, reply)) = receive(&socket) {
        match sys::fork() {
            Ok(Fork::Child) => {
                drop(socket);
                guard::begin(launch, levels, reply)
            }
            Ok(Fork::Parent(_)) => {}
            Err(error) => {
                answer(&reply, &refused(&format!("cannot fork: {error}")));
            }
        }
    }
    ExitCode::SUCCESS
}

/// Takes the socket from its place as standard input, and leaves nothing of the daemon's behind there.
fn own_socket() -> std::io::Result<OwnedFd> {
    // SAFETY: descriptor zero is what the daemon gave us, and nothing else uses it yet.
    let given = unsafe { BorrowedFd::borrow_raw(0) };
    let socket = rustix::io::fcntl_dupfd_cloexec(given, 3)?;
    spawn::detach_stdio()?;
    Ok(socket)
}

/// Waits for a message: a launch and where to answer. `None` when the daemon is gone.
fn receive(socket: &OwnedFd) -> Option<(OwnedFd, OwnedFd)> {
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut word = [0; 64];
        let mut into = [std::io::IoSliceMut::new(&mut word)];
        let received = rustix::net::recvmsg(socket, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        match received {
            Ok(message) if message.bytes == 0 => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        let fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let mut fds = fds.flatten();
        if let (Some(launch), Some(reply)) = (fds.next(), fds.next()) {
            return Some((launch, reply));
        }
    }
}

/// Answers a launch. Whoever asked may be gone; the folder says the same.
fn answer(reply: &OwnedFd, text: &str) {
    let text = format!("{text}done\n");
    let _ = rustix::io::retry_on_intr(|| rustix::io::write(reply, text.as_bytes()));
}

/// Returns the answer that nothing was started.
fn refused(words: &str) -> String {
    Line::new("refused").with("words", words).to_string()
}

/// Reads a launch from the memory it was sent in.
fn read_launch(fd: OwnedFd) -> Option<Launch> {
    let mut text = String::new();
    let mut file = File::from(fd);
    file.rewind().ok()?;
    // One byte more than may be: what was cut short could still be read, and would run as something else.
    let read = file.take(LAUNCH_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    if read as u64 > LAUNCH_BYTES_MAX {
        return None;
    }
    Launch::decode(&text)
}
