//! The daemon's side of the nursery: starts it once, then launches trees through it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lastword_core::receipt::Level;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::MemfdFlags;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::claim::Leader;
use crate::clock;
use crate::error::Error;
use crate::folder::Folder;
use crate::identity::Identity;
use crate::launch::Launch;
use crate::level::Finding;
use crate::limits::Limits;
use crate::line_format::Line;
use crate::spelling;

/// The size limit of the nursery's first message: one field per level.
const HELLO_BYTES_MAX: usize = 8 << 10;

/// How long a nursery may take for its self-tests, which usually take milliseconds. Its starter waits that long.
const HELLO_TIMEOUT: Duration = Duration::from_secs(20);

/// A running nursery. Dropping it ends it; trees started through it keep running.
#[derive(Debug)]
pub struct Nursery {
    socket: OwnedFd,
    process: Child,
    levels: Vec<Finding>,
    /// Its resource limits when it was ready; those of jobs derive from them.
    limits: Limits,
}

/// A running tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// The guard, which exits last.
    pub guard: Identity,
    /// The shim.
    pub shim: Identity,
    /// The leader: the first process of the tree.
    pub leader: Identity,
    /// How it is contained.
    pub level: Level,
    /// When it was launched, in milliseconds of the awake clock.
    pub launched: u64,
    /// What of its attributes could not be given to it, for people.
    pub withheld: Option<String>,
}

impl Nursery {
    /// Starts a nursery from an executable that implements [`crate::KEEPER_VERB`].
    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    pub fn start(executable: &Path) -> Result<Nursery, Error> {
        let mut command = Command::new(executable);
        command.arg(crate::KEEPER_VERB).env_clear();
        Nursery::start_by(command, HELLO_TIMEOUT)
    }

    /// Starts a nursery in a scope of its own, delegated by the user's service manager in `runtime_dir`. Its trees can then have control
    /// groups without root, and outlive the service that started them.
    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    pub fn start_in_scope(executable: &Path, runtime_dir: &Path) -> Result<Nursery, Error> {
        let mut command = Command::new("systemd-run");
        command.args(["--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]);
        command.arg(executable).arg(crate::KEEPER_VERB);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("XDG_RUNTIME_DIR", runtime_dir);
        Nursery::start_by(command, HELLO_TIMEOUT)
    }

    fn start_by(command: Command, within: Duration) -> Result<Nursery, Error> {
        Nursery::spawn(command)?.until_ready(within)
    }

    /// Starts the process, which reports its levels later.
    fn spawn(mut command: Command) -> Result<Nursery, Error> {
        let what = || format!("cannot start {}", command.get_program().display());
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(|error| Error::io(what())(error.into()))?;
        let what = what();
        command.current_dir("/").stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(Error::io(what))?;
        // The command holds a copy of the nursery's end of the socket, which would hide that the nursery exited.
        drop(command);
        Ok(Nursery { socket, process, levels: Vec::new(), limits: Limits::default() })
    }

    /// Waits until it has reported its levels.
    fn until_ready(mut self, within: Duration) -> Result<Nursery, Error> {
        self.levels = self.read_hello(within)?;
        self.limits = Limits::of(self.pid());
        Ok(self)
    }

    fn read_hello(&self, within: Duration) -> Result<Vec<Finding>, Error> {
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        let left = clock::timespec(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
        if rustix::io::retry_on_intr(|| poll(&mut ready, Some(&left))) == Ok(0) {
            let text = format!("it did not report within {} s", within.as_secs());
            return Err(Error::NurseryGone(text));
        }
        let mut bytes = vec![0; HELLO_BYTES_MAX];
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(&self.socket, bytes.as_mut_slice(), RecvFlags::empty())
        });
        let received = received.map_or(0, |(received, _)| received);
        let hello =
            std::str::from_utf8(&bytes[..received]).ok().and_then(|text| Line::parse(text.trim_end()));
        let hello = hello
            .filter(|hello| hello.kind() == "hello")
            .ok_or_else(|| Error::NurseryGone("it exited before it reported".to_owned()))?;
        let levels = [Level::Subreaper, Level::Landlock, Level::Cgroup, Level::Namespace];
        let test = |level: Level| match hello.text(spelling::level_name(level)) {
            Some("ok") => (level, Ok(())),
            Some(why) => (level, Err(why.to_owned())),
            None => (level, Err("it was not tested".to_owned())),
        };
        Ok(levels.into_iter().map(test).collect())
    }

    /// Returns each level, or why this machine does not have it.
    pub fn findings(&self) -> &[Finding] {
        &self.levels
    }

    /// Returns the available levels, weakest first.
    pub fn levels(&self) -> Vec<Level> {
        self.levels.iter().filter(|(_, test)| test.is_ok()).map(|(level, _)| *level).collect()
    }

    /// Returns its pid.
    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// Starts a tree and waits until its program runs or has failed to. Creates the folder if needed.
    pub fn launch(&self, launch: &Launch) -> Result<Launched, Error> {
        self.send(launch)?.wait(&launch.dir)
    }

    /// Sends a launch without waiting for the answer.
    pub fn send(&self, launch: &Launch) -> Result<Pending, Error> {
        if let Some(lowered) = Limits::of(self.pid()).below(&self.limits) {
            return Err(Error::NurseryGone(format!("another process lowered its limits: {lowered}")));
        }
        let what = || format!("cannot launch into {}", launch.dir.display());
        Folder::create(&launch.dir).map_err(Error::io(what()))?;
        let memory = rustix::fs::memfd_create("lastword-launch", MemfdFlags::CLOEXEC)
            .map_err(|error| Error::io(what())(error.into()))?;
        let mut memory = File::from(memory);
        memory.write_all(launch.encode().as_bytes()).map_err(Error::io(what()))?;
        let (answer, reply) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| Error::io(what())(error.into()))?;
        let fds = [memory.as_fd(), reply.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let word = [std::io::IoSlice::new(b"launch")];
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, &word, &mut ancillary, SendFlags::NOSIGNAL)
        })
        .map_err(|error| Error::NurseryGone(error.to_string()))?;
        Ok(Pending { answer: File::from(answer) })
    }
}

impl Drop for Nursery {
    fn drop(&mut self) {
        // It exits when its socket closes; killing it is merely faster, and harmless.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A launch that was sent and not answered yet.
#[derive(Debug)]
pub struct Pending {
    answer: File,
}

impl Pending {
    /// Waits for the answer. `dir` goes into the error if there is none.
    pub fn wait(mut self, dir: &Path) -> Result<Launched, Error> {
        let mut text = String::new();
        let _ = self.answer.read_to_string(&mut text);
        let unclear = || Error::Unclear(dir.to_owned());
        let text = text.strip_suffix("done\n").ok_or_else(unclear)?;
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        let line = |word: &str| lines.iter().find(|line| line.kind() == word);
        if let Some(refused) = line("refused") {
            return Err(Error::Refused(refused.text("words").unwrap_or("no reason was given").to_owned()));
        }
        let identity = |word: &str| line(word).and_then(Identity::read).ok_or_else(unclear);
        let leader = line("leader").and_then(Leader::read).ok_or_else(unclear)?;
        Ok(Launched {
            guard: identity("guard")?,
            shim: identity("shim")?,
            leader: leader.identity,
            level: leader.level,
            launched: leader.launched,
            withheld: leader.withheld,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test starts a nursery that hangs")]
    fn a_silent_nursery_is_killed_after_its_timeout() {
        let mut silent = Command::new("sleep");
        silent.arg("100");
        let nursery = Nursery::spawn(silent).unwrap();
        let pid = nursery.pid();
        let begun = std::time::Instant::now();
        let error = nursery.until_ready(Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("did not report within 1 s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
