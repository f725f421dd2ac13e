//! The folder of one attempt, held by a descriptor: what is published there is published once.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, ResolveFlags};

use crate::clock;
use crate::seeded::{self, Bug};

/// Ours alone.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Records longer than this are not ours: the longest is an exit with its list of processes.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// Most records are shorter, and are read at once.
const RECORD_BYTES_USUAL: usize = 2 << 10;

/// An attempt's folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

/// Whether a published record must survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    Yes,
    No,
}

/// What came of publishing.
#[derive(Debug)]
pub(crate) enum Published {
    /// It is there, and it is ours.
    Ours(File),
    /// Somebody was first.
    Taken,
}

impl Folder {
    /// Makes the folder with mode 0700, or opens it if it is there.
    pub fn create(path: &Path) -> io::Result<Folder> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Folder::open_ours(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder that we made below another private one. If somebody has changed its mode since, that is undone: a tree may,
    /// and must not keep its own ending from being read.
    pub(crate) fn open_ours(path: &Path) -> io::Result<Folder> {
        use std::os::fd::AsRawFd as _;
        if let Ok(folder) = Folder::open(path) {
            return Ok(folder);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        if rustix::fs::fstat(&fd)?.st_uid == rustix::process::geteuid().as_raw() {
            rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), Mode::RWXU)?;
        }
        Folder::open(path)
    }

    /// Opens the folder. One that is not a folder, not ours or open to others is refused.
    pub fn open(path: &Path) -> io::Result<Folder> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&fd)?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o077 != 0 {
            let why = format!("{} must belong to this user, with mode 0700", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(Folder { fd })
    }

    /// Returns a path through the descriptor, for calls that take nothing else.
    pub fn path_of(&self, name: &str) -> String {
        use std::os::fd::AsRawFd as _;
        format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd())
    }

    /// Publishes a record under a name that nobody can take twice: written under another name first, then linked.
    ///
    /// With `lock`, the file is locked before it can be seen, and stays so for as long as any process holds it open.
    pub(crate) fn publish(
        &self,
        name: &str,
        body: &[u8],
        durable: Durable,
        lock: bool,
    ) -> io::Result<Published> {
        // By thread: two of one process may look at a folder at once. What a former one with our number left behind is nobody's.
        let draft = format!("{name}.{}.tmp", rustix::thread::gettid().as_raw_nonzero());
        let _ = self.remove(&draft);
        let mut result = self.publish_draft(&draft, name, body, durable, lock);
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::PermissionDenied) {
            // Its mode was changed under us: by its own tree, since nobody else can.
            rustix::fs::fchmod(&self.fd, Mode::RWXU)?;
            result = self.publish_draft(&draft, name, body, durable, lock);
        }
        let _ = self.remove(&draft);
        if durable == Durable::Yes && matches!(result, Ok(Published::Ours(_))) {
            self.sync_names()?;
        }
        result
    }

    fn publish_draft(
        &self,
        draft: &str,
        name: &str,
        body: &[u8],
        durable: Durable,
        lock: bool,
    ) -> io::Result<Published> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::APPEND;
        let mut file = self.open_at(draft, flags)?;
        file.write_all(body)?;
        if lock {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        }
        if durable == Durable::Yes {
            sync(&file)?;
        }
        match rustix::fs::linkat(&self.fd, draft, &self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(Published::Ours(file)),
            Err(rustix::io::Errno::EXIST) => Ok(Published::Taken),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes what was published durable: the file, then the folder. Costs two flushes of the disk, even if it is already.
    pub(crate) fn sync(&self, name: &str) -> io::Result<()> {
        sync(&self.open_at(name, OFlags::RDONLY)?)?;
        self.sync_names()
    }

    /// Makes durable what is in the folder under which name.
    fn sync_names(&self) -> io::Result<()> {
        match seeded::on(Bug::NoFolderSync) {
            true => Ok(()),
            false => Ok(rustix::fs::fsync(&self.fd)?),
        }
    }

    /// Opens a file of the folder. What is not a plain file of ours is refused, and no link is followed.
    pub(crate) fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = if flags.contains(OFlags::CREATE) { PRIVATE } else { Mode::empty() };
        let fd = match rustix::fs::openat2(&self.fd, name, flags, mode, ResolveFlags::BENEATH) {
            // A sandbox that does not know the call; the name is ours and has no slash.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                rustix::fs::openat(&self.fd, name, flags, mode)?
            }
            other => other?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} is not a plain file")));
        }
        Ok(File::from(fd))
    }

    /// Reads a record, if it is there.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<(File, String)>> {
        let file = match self.open_at(name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::with_capacity(RECORD_BYTES_USUAL);
        (&file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Some((file, String::from_utf8_lossy(&bytes).into_owned())))
    }

    /// Locks the folder itself, for as long as this process or one that it forks lives. Unlike a claim, it cannot be replaced
    /// by another without its path being another's. Where a file system refuses, the claim's lock is all there is.
    pub(crate) fn hold(&self) {
        /// Who looks holds it for an instant. Longer than this many of them is no instant.
        const TRIES: usize = 50;
        for _ in 0..TRIES {
            match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                _ => return,
            }
            clock::pause(1);
        }
    }

    /// Reports whether somebody holds the folder.
    pub(crate) fn is_held(&self) -> bool {
        is_locked(&self.fd).unwrap_or(false)
    }

    /// Reports whether the folder was removed: nothing can be published in it, and nobody will look.
    pub(crate) fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Reports whether a plain file has this name. No link is followed.
    pub(crate) fn is_plain(&self, name: &str) -> io::Result<bool> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile)
    }

    /// Gives another name to what lies under this one, whatever it is.
    pub(crate) fn set_aside(&self, name: &str) -> io::Result<()> {
        let aside = format!("{name}.aside.{}", clock::boot_ns());
        Ok(rustix::fs::renameat(&self.fd, name, &self.fd, aside)?)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }
}

/// Makes what is in a file durable.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    match seeded::on(Bug::NoFileSync) {
        true => Ok(()),
        // The length of a file is flushed with its bytes, and nothing else of what is known about it matters.
        false => Ok(rustix::fs::fdatasync(file)?),
    }
}

/// Reports whether another process holds a lock on a file or folder.
pub(crate) fn is_locked(fd: impl AsFd) -> io::Result<bool> {
    // Shared, so that two who look do not take each other for a keeper.
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            rustix::fs::flock(&fd, FlockOperation::Unlock)?;
            Ok(false)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
