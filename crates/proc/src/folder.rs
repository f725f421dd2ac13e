//! The folder of one attempt, held open by a descriptor. Each record in it is published once.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, ResolveFlags};

use crate::{clock, limits};

/// Access for this user only.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// The size limit of a record. The longest is an exit record with its list of processes.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// The initial buffer size: most records are shorter.
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

/// The result of publishing a record.
#[derive(Debug)]
pub(crate) enum Published {
    /// Published.
    Ours(File),
    /// A record of that name exists already.
    Taken,
}

impl Folder {
    /// Creates the folder with mode 0700, or opens it if it exists.
    pub fn create(path: &Path) -> io::Result<Folder> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Folder::open_ours(path),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder that we created below a private one. Restores its mode if it was changed: the job's tree can change it, and must not
    /// prevent us from reading how it ended.
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

    /// Opens the folder. Fails if it belongs to another user or is accessible to others.
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

    /// Returns a path through the descriptor, for system calls that take only paths.
    pub fn path_of(&self, name: &str) -> String {
        use std::os::fd::AsRawFd as _;
        format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd())
    }

    /// Publishes a record under a name that can be taken only once: writes a draft, then hard-links it.
    ///
    /// With `lock`, the file is locked before it becomes visible, and stays locked as long as any process holds it open.
    pub(crate) fn publish(
        &self,
        name: &str,
        body: &[u8],
        durable: Durable,
        lock: bool,
    ) -> io::Result<Published> {
        // Named after the thread: two threads of one process may publish at once. A leftover draft of that name has no owner.
        let draft = format!("{name}.{}.tmp", rustix::thread::gettid().as_raw_nonzero());
        let mut result = limits::retried(|| {
            let _ = self.remove(&draft);
            self.publish_draft(&draft, name, body, durable, lock)
        });
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::PermissionDenied) {
            // Only the job's own tree can have changed the folder's mode.
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

    /// Flushes a published file, then the folder. Costs two disk flushes even if both are clean.
    pub(crate) fn sync(&self, name: &str) -> io::Result<()> {
        sync(&self.open_at(name, OFlags::RDONLY)?)?;
        self.sync_names()
    }

    /// Flushes the folder's directory entries.
    fn sync_names(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Opens a file of the folder. Follows no symbolic link and refuses anything but a regular file.
    pub(crate) fn open_at(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = if flags.contains(OFlags::CREATE) { PRIVATE } else { Mode::empty() };
        let fd = match rustix::fs::openat2(&self.fd, name, flags, mode, ResolveFlags::BENEATH) {
            // A sandbox does not know the call. `openat` is safe here: our names contain no slash.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
                rustix::fs::openat(&self.fd, name, flags, mode)?
            }
            other => other?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} is not a regular file")));
        }
        Ok(File::from(fd))
    }

    /// Reads a record; `None` if there is none.
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

    /// Locks the folder itself for as long as this process or a fork of it lives. Unlike a claim file, the tree cannot replace the folder
    /// without changing its path. On file systems without such locks, the claim's lock has to do.
    pub(crate) fn lock(&self) {
        /// Attempts, 1 ms apart. Readers hold the lock only for an instant.
        const ATTEMPTS: usize = 50;
        for _ in 0..ATTEMPTS {
            match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                _ => return,
            }
            clock::pause(1);
        }
    }

    /// Reports whether a keeper holds the folder's lock.
    pub(crate) fn is_locked(&self) -> bool {
        is_locked(&self.fd).unwrap_or(false)
    }

    /// Returns the folder, or the one that now has its path if it was deleted; that one is created if need be.
    pub(crate) fn or_again(self, path: &Path) -> Folder {
        if !self.is_removed() {
            return self;
        }
        Folder::create_again(path).unwrap_or(self)
    }

    /// Creates a deleted folder again, and those above it.
    pub(crate) fn create_again(path: &Path) -> io::Result<Folder> {
        use std::os::unix::fs::DirBuilderExt as _;
        if let Some(above) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above)?;
        }
        Folder::create(path)
    }

    /// Reports whether the folder has this file under this name.
    pub(crate) fn has(&self, name: &str, file: &File) -> bool {
        let named = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(stat)) = (named, rustix::fs::fstat(file)) else { return false };
        (named.st_dev, named.st_ino) == (stat.st_dev, stat.st_ino)
    }

    /// Reports whether the folder was deleted: nothing can be published in it any more.
    pub(crate) fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Reports whether a regular file has this name. Follows no symbolic link.
    pub(crate) fn is_plain(&self, name: &str) -> io::Result<bool> {
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile)
    }

    /// Renames whatever has this name out of the way.
    pub(crate) fn set_aside(&self, name: &str) -> io::Result<()> {
        let aside = format!("{name}.aside.{}", clock::boot_ns());
        Ok(rustix::fs::renameat(&self.fd, name, &self.fd, aside)?)
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }
}

/// Flushes a file's data.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    // `fdatasync` also flushes the file's length; its other metadata does not matter here.
    Ok(rustix::fs::fdatasync(file)?)
}

/// Reports whether another process holds a lock on a file or folder.
pub(crate) fn is_locked(fd: impl AsFd) -> io::Result<bool> {
    // Shared, so that two concurrent readers do not take each other for a keeper.
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            rustix::fs::flock(&fd, FlockOperation::Unlock)?;
            Ok(false)
        }
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
