//! Control groups (v2): one leaf per tree, frozen and killed as a unit.
//!
//! An empty leaf alone does not prove that a tree is gone, because a process may have been moved out; it complements the walk. Leaves are
//! created below the keeper's own group, where that is delegated to us.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::process::Signal;

use super::self_test::{in_child, kill_and_reap, set_alarm, sleep_until_killed, wait_for};
use crate::identity::{pidfd, send};
use crate::sys;

/// The name prefix of our leaves, so that a forged path cannot name a foreign group.
const PREFIX: &str = "lastword-";

/// The length limit of a leaf's name.
const NAME_BYTES_MAX: usize = 64;

/// Groups below a leaf that are removed at most. Leftover empty groups cost little; removing without end would delay the exit record.
const GROUPS_MAX: usize = 10_000;

/// How long the self-test waits for a group to be frozen or empty. It waits up to three times within [`super::self_test::TEST_SECONDS`].
const SELF_TEST_WAIT: Duration = Duration::from_secs(3);

/// The size limit of `cgroup.events`: two lines, with room for more.
const EVENTS_BYTES_MAX: usize = 512;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The group in which leaves are created.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
}

impl Base {
    /// Finds our own group and checks that leaves can be created in it.
    pub(crate) fn find() -> Result<Base, String> {
        let read = |path| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let path = own_group(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
            .ok_or("this process is not in a control group (v2) that is mounted here")?;
        Base::at(path)
    }

    /// Uses the group at `path` if leaves can be created in it.
    pub(crate) fn at(path: PathBuf) -> Result<Base, String> {
        let base = Base { path };
        let probe = base.leaf(&format!("probe-{}", std::process::id()));
        let removed = probe.and_then(|leaf| leaf.remove());
        removed.map_err(|error| {
            let path = base.path.display();
            format!("{path}: cannot create a group here ({error}); a service needs Delegate=yes")
        })?;
        Ok(base)
    }

    /// Returns the path of the leaf of that name, whether it exists or not.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{PREFIX}{name}"))
    }

    /// Creates a leaf. Fails if it exists.
    pub(crate) fn leaf(&self, name: &str) -> io::Result<Leaf> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
            let why = format!(
                "{name:?} cannot name a control group: letters, digits, - and _, at most {NAME_BYTES_MAX}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let path = self.path_of(name);
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755))?;
        Leaf::open(&path)
    }

    /// Checks that a process can join a leaf, that freezing and killing the leaf affects it, and that the leaf reports it.
    pub(crate) fn self_test(&self) -> Result<(), String> {
        self.self_test_with(Leaf::join, Leaf::kill)
    }

    /// The self-test with its two steps as parameters, so that a test can leave out each.
    pub(super) fn self_test_with(&self, join: Step, kill: Step) -> Result<(), String> {
        in_child(|| {
            let leaf = self.leaf(&format!("test-{}", std::process::id()));
            let leaf = leaf.map_err(|error| format!("creating a leaf: {error}"))?;
            let found = try_leaf(&leaf, join, kill);
            let cleaned = leaf.kill().and_then(|()| leaf.wait_until("populated 0", SELF_TEST_WAIT));
            let removed = cleaned.and_then(|_| leaf.remove());
            found?;
            removed.map_err(|error| format!("removing the leaf: {error}"))
        })
    }
}

/// A step of the self-test.
pub(super) type Step = fn(&Leaf) -> io::Result<()>;

fn try_leaf(leaf: &Leaf, join: Step, kill: Step) -> Result<(), String> {
    let say = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let (mut reader, mut writer) = io::pipe().map_err(say("pipe"))?;
    let child = match sys::fork().map_err(say("fork"))? {
        sys::Fork::Parent(child) => child,
        sys::Fork::Child => {
            set_alarm();
            if join(leaf).is_ok() {
                let _ = writer.write_all(&[1]);
                sleep_until_killed();
            }
            sys::exit(1)
        }
    };
    drop(writer);
    reader.read_exact(&mut [0]).map_err(say("a process could not join its leaf"))?;
    let found = (|| {
        if leaf.is_empty().map_err(say("cgroup.events"))?
            || leaf.pids().map_err(say("cgroup.procs"))? != [child]
        {
            return Err("a process that joined is not in its leaf".to_owned());
        }
        leaf.freeze().map_err(say("cgroup.freeze"))?;
        if !leaf.wait_until("frozen 1", SELF_TEST_WAIT).map_err(say("cgroup.events"))? {
            return Err("a frozen leaf does not report it".to_owned());
        }
        kill(leaf).map_err(say("cgroup.kill"))?;
        match leaf.wait_until("populated 0", SELF_TEST_WAIT).map_err(say("cgroup.events"))? {
            true => Ok(()),
            false => Err("a killed leaf is not empty".to_owned()),
        }
    })();
    match found {
        Ok(()) => match wait_for(child)? {
            libc::SIGKILL => Ok(()),
            status => Err(format!("a process killed with its leaf ended with status {status:#x}")),
        },
        Err(why) => kill_and_reap(child).and(Err(why)),
    }
}

/// The group of one tree, held open by a descriptor.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
    fd: OwnedFd,
    /// `cgroup.events`, kept open so that a process out of descriptors can still see the group become empty.
    events: File,
}

impl Leaf {
    /// Opens an existing leaf. Refuses anything that is not a leaf of ours.
    pub(crate) fn open(path: &Path) -> io::Result<Leaf> {
        /// `CGROUP2_SUPER_MAGIC`.
        const CGROUP2: u64 = 0x6367_7270;
        let is_plain = path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
        let is_ours =
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        let fd = rustix::fs::open(path, FOLDER | OFlags::RDONLY, Mode::empty())?;
        let is_group = rustix::fs::fstatfs(&fd)?.f_type as u64 == CGROUP2;
        if !(is_plain && is_ours && is_group) {
            let why = format!("{} is not a control group of a keeper", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let events = open_at(fd.as_fd(), "cgroup.events", OFlags::RDONLY)?;
        Ok(Leaf { path: path.to_owned(), fd, events })
    }

    /// Returns its path.
    #[cfg(test)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Forks a child into it.
    pub(crate) fn fork(&self) -> io::Result<sys::Fork> {
        sys::fork_into(self.fd.as_fd())
    }

    /// Moves this process into it. Called in a child before its exec if it could not be forked into the group.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.write("cgroup.procs", "0")
    }

    /// Freezes all its processes at once. Frozen processes can still be killed.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "1")
    }

    /// Thaws all its processes.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "0")
    }

    /// Kills all processes in it and below it at once.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match self.write("cgroup.kill", "1") {
            // Linux 5.10 to 5.13 do not have this file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.kill_each(),
            done => done,
        }
    }

    /// Kills processes in it and below it one by one. Misses those born meanwhile: repeat until the leaf is empty.
    pub(super) fn kill_each(&self) -> io::Result<()> {
        each_below(self.fd.as_fd(), &mut |group| {
            for pid in pids_of(group)? {
                let Some(fd) = pidfd(pid) else { continue };
                // Checked again after opening: a reused pid is not in the group.
                if pids_of(group)?.contains(&pid) {
                    send(&fd, Signal::KILL)?;
                }
            }
            Ok(())
        })
    }

    /// Reports whether no process is in it or below it.
    pub(crate) fn is_empty(&self) -> io::Result<bool> {
        let mut events = [0; EVENTS_BYTES_MAX];
        match self.events.read_at(&mut events, 0) {
            Ok(read) => Ok(says(&String::from_utf8_lossy(&events[..read]), "populated 0")),
            // It was removed, which the kernel allows only for an empty group.
            Err(error) if is_removed(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the pids of the processes directly in it.
    pub(crate) fn pids(&self) -> io::Result<Vec<i32>> {
        pids_of(self.fd.as_fd())
    }

    /// Waits until `cgroup.events` contains `line`; returns `false` on timeout.
    pub(crate) fn wait_until(&self, line: &str, timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout;
        loop {
            let mut file = open_at(self.fd.as_fd(), "cgroup.events", OFlags::RDONLY)?;
            let mut events = String::new();
            file.read_to_string(&mut events)?;
            let left = until.saturating_duration_since(Instant::now());
            if says(&events, line) || left.is_zero() {
                return Ok(says(&events, line));
            }
            let left = rustix::time::Timespec::try_from(left).map_err(io::Error::other)?;
            // The kernel wakes us for a change after the read.
            let _ = poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&left));
        }
    }

    /// Removes it and the groups that the tree created below it. It must be empty.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for _ in 0..GROUPS_MAX {
            match rustix::fs::rmdir(&self.path) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => return Ok(()),
                Err(rustix::io::Errno::BUSY) => {}
                Err(error) => return Err(error.into()),
            }
            remove_a_lowest(self.fd.as_fd())?;
        }
        Err(io::Error::other(format!("{}: more than {GROUPS_MAX} groups below", self.path.display())))
    }

    fn write(&self, file: &str, word: &str) -> io::Result<()> {
        open_at(self.fd.as_fd(), file, OFlags::WRONLY)?.write_all(word.as_bytes())
    }
}

/// Descends to a group without subgroups and removes it. Needs two descriptors, whatever the depth.
fn remove_a_lowest(top: BorrowedFd<'_>) -> io::Result<()> {
    let mut above = None;
    let mut group = top.try_clone_to_owned()?;
    while let Some(name) = groups_in(group.as_fd())?.into_iter().next() {
        let below = rustix::fs::openat(&group, &name, FOLDER | OFlags::RDONLY, Mode::empty())?;
        above = Some((group, name));
        group = below;
    }
    match above {
        Some((above, name)) => Ok(rustix::fs::unlinkat(&above, &name, AtFlags::REMOVEDIR)?),
        None => Err(rustix::io::Errno::BUSY.into()),
    }
}

/// Calls a function for a group and each group below it, up to [`GROUPS_MAX`].
fn each_below(top: BorrowedFd<'_>, act: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut left = GROUPS_MAX;
    let mut paths = vec![PathBuf::from(".")];
    while let (Some(path), Some(fewer)) = (paths.pop(), left.checked_sub(1)) {
        left = fewer;
        let group = match rustix::fs::openat(top, &path, FOLDER | OFlags::RDONLY, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => continue,
            group => group?,
        };
        match act(group.as_fd()) {
            Err(error) if is_removed(&error) => continue,
            done => done?,
        }
        paths.extend(groups_in(group.as_fd())?.iter().map(|name| path.join(name)));
    }
    Ok(())
}

/// Returns the names of a group's direct subgroups.
fn groups_in(group: BorrowedFd<'_>) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(group)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if entry.file_type() == FileType::Directory && name != "." && name != ".." {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

/// Returns the pids in a group, without processes of other pid namespaces, which read as 0.
fn pids_of(group: BorrowedFd<'_>) -> io::Result<Vec<i32>> {
    let pids = read_at(group, "cgroup.procs")?;
    Ok(pids.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect())
}

fn read_at(group: BorrowedFd<'_>, file: &str) -> io::Result<String> {
    let mut text = String::new();
    open_at(group, file, OFlags::RDONLY)?.read_to_string(&mut text)?;
    Ok(text)
}

fn open_at(group: BorrowedFd<'_>, file: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(group, file, flags, Mode::empty())?))
}

fn says(events: &str, line: &str) -> bool {
    events.lines().any(|said| said == line)
}

fn is_removed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// Returns the path of our own group, from the mount table and `/proc/self/cgroup`.
fn own_group(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let own = Path::new(cgroup.lines().find_map(|line| line.strip_prefix("0::"))?);
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = mount.split(' ').skip(3).map(unescape);
        let (root, point) = (fields.next()?, fields.next()?);
        // A container may have only part of the hierarchy mounted, and its own group may be outside that part.
        let below = own.strip_prefix(root).ok()?;
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain.then(|| Path::new(&point).join(below))
    })
}

/// Decodes the octal escapes of `mountinfo`, such as `\040` for a space.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (digits, part.get(3..)) {
            (Some(byte), Some(rest)) => {
                plain.push(char::from(byte));
                plain.push_str(rest);
            }
            _ => plain.push_str(part),
        }
    }
    plain
}
