//! The daemon's side of the nursery: starts it once, launches through it.

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
use crate::line::Line;
use crate::words;

/// Bytes of the nursery's first message: a line about each level.
const HELLO_BYTES_MAX: usize = 8 << 10;

/// How long a nursery may try what this machine can do, which takes milliseconds. Whoever starts one waits for it.
const HELLO_MAX: Duration = Duration::from_secs(20);

/// A nursery. Dropping it ends it; the trees that were started through it go on.
#[derive(Debug)]
pub struct Nursery {
    socket: OwnedFd,
    process: Child,
    levels: Vec<Finding>,
}

/// A level, and why this machine does not have it.
pub type Finding = (Level, Result<(), String>);

/// A tree that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Who guards it; it goes last.
    pub guard: Identity,
    /// Who keeps it.
    pub shim: Identity,
    /// The first process of the tree.
    pub leader: Identity,
    /// How it is held.
    pub level: Level,
    /// When it was launched, in milliseconds of the awake clock.
    pub launched: u64,
}

impl Nursery {
    /// Starts a nursery from an executable that knows the keeper's verb.
    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    pub fn start(executable: &Path) -> Result<Nursery, Error> {
        let mut command = Command::new(executable);
        command.arg(crate::KEEPER_VERB).env_clear();
        Nursery::start_by(command, HELLO_MAX)
    }

    /// Starts a nursery in a scope of its own, delegated by the user's service manager that is found in `runtime_dir`: there,
    /// trees can have control groups without root, and outlive the service that started them.
    #[expect(clippy::disallowed_methods, reason = "this is where processes are started")]
    pub fn start_in_scope(executable: &Path, runtime_dir: &Path) -> Result<Nursery, Error> {
        let mut command = Command::new("systemd-run");
        command.args(["--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"]);
        command.arg(executable).arg(crate::KEEPER_VERB);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("XDG_RUNTIME_DIR", runtime_dir);
        Nursery::start_by(command, HELLO_MAX)
    }

    fn start_by(mut command: Command, within: Duration) -> Result<Nursery, Error> {
        let what = || format!("cannot start {}", command.get_program().display());
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .map_err(|error| Error::io(what())(error.into()))?;
        let what = what();
        command.current_dir("/").stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(Error::io(what))?;
        // The command holds our copy of the nursery's end: kept, it would hide that the nursery is gone.
        drop(command);
        let mut nursery = Nursery { socket, process, levels: Vec::new() };
        nursery.levels = nursery.hear_hello(within)?;
        Ok(nursery)
    }

    fn hear_hello(&self, within: Duration) -> Result<Vec<Finding>, Error> {
        let mut word = [PollFd::new(&self.socket, PollFlags::IN)];
        let left = clock::span(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
        if rustix::io::retry_on_intr(|| poll(&mut word, Some(&left))) == Ok(0) {
            let text = format!("it did not say hello within {} s", within.as_secs());
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
            .filter(|hello| hello.word() == "hello")
            .ok_or_else(|| Error::NurseryGone("it ended before it said hello".to_owned()))?;
        let levels = [Level::Subreaper, Level::Landlock, Level::Cgroup, Level::Namespace];
        let test = |level: Level| match hello.text(words::of_level(level)) {
            Some("ok") => (level, Ok(())),
            Some(why) => (level, Err(why.to_owned())),
            None => (level, Err("it was not tried".to_owned())),
        };
        Ok(levels.into_iter().map(test).collect())
    }

    /// Returns what this machine was found to be able to do, and why not the rest.
    pub fn findings(&self) -> &[Finding] {
        &self.levels
    }

    /// Returns the levels that stood their test, weakest first.
    pub fn levels(&self) -> Vec<Level> {
        self.levels.iter().filter(|(_, test)| test.is_ok()).map(|(level, _)| *level).collect()
    }

    /// Returns the number of its process.
    pub fn pid(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// Starts a tree, and returns when its program runs or cannot. Its folder is made if it is not there.
    pub fn launch(&self, launch: &Launch) -> Result<Launched, Error> {
        self.send(launch)?.wait(&launch.dir)
    }

    /// Sends a launch, without waiting for its answer.
    pub fn send(&self, launch: &Launch) -> Result<Pending, Error> {
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
        // It ends when its socket does; killing it is only faster, and as harmless.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A launch that was sent.
#[derive(Debug)]
pub struct Pending {
    answer: File,
}

impl Pending {
    /// Waits for the answer. `dir` is named if there is none.
    pub fn wait(mut self, dir: &Path) -> Result<Launched, Error> {
        let mut text = String::new();
        let _ = self.answer.read_to_string(&mut text);
        let unclear = || Error::Unclear(dir.to_owned());
        let text = text.strip_suffix("done\n").ok_or_else(unclear)?;
        let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
        let line = |word: &str| lines.iter().find(|line| line.word() == word);
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a nursery that hangs has to be started")]
    fn a_nursery_that_says_nothing_is_not_waited_for_and_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("pid");
        let mut silent = Command::new("sh");
        silent.arg("-c").arg(r#"echo $$ > "$0"; exec sleep 100"#).arg(&told);
        let begun = std::time::Instant::now();
        let error = Nursery::start_by(silent, Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("did not say hello within 1 s"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
        let pid: i32 = std::fs::read_to_string(told).unwrap().trim().parse().unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
