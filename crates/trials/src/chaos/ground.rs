//! Where a run takes place: a small file system of its own, so that it can be really full and its files can be closed even to
//! root, and a folder beside it for what the judges must be able to write in any case.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, IFlags, fallocate, ioctl_getflags, ioctl_setflags, statvfs};
use tempfile::TempDir;

use crate::place;

/// What is there for the journal and for what is running.
const BYTES_LEAST: u64 = 1 << 30;

/// What an ended job leaves, on the average of all kinds and with room to spare: its output, some small files, and its events.
const BYTES_EACH: u64 = 480 << 10;

/// The ground. Unmounted and removed when it goes.
pub(crate) struct Ground {
    // The mount goes before the folder it is in.
    mount: Option<Mount>,
    folder: TempDir,
}

/// A mounted image.
struct Mount {
    point: PathBuf,
    device: String,
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Processes that still have a file open there keep the file system; it is gone when they are.
        let _ = tool(Command::new("umount").arg("--lazy").arg(&self.point));
        let _ = tool(Command::new("losetup").arg("--detach").arg(&self.device));
    }
}

impl Ground {
    /// Makes it, with room for so many jobs. Where a file system cannot be mounted there is only a folder, and the disk
    /// is never full.
    pub(crate) fn make(jobs: u64) -> Result<(Ground, Result<(), String>), String> {
        let folder = place::temporary("chaos")?;
        for name in ["state", "notes"] {
            fs::create_dir(folder.path().join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        let (mount, is_small) = match mount(folder.path(), BYTES_LEAST + jobs * BYTES_EACH) {
            Ok(mount) => (Some(mount), Ok(())),
            Err(error) => (None, Err(error.to_string())),
        };
        Ok((Ground { mount, folder }, is_small))
    }

    /// Returns the folder of everything.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder on the small file system.
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// Returns the folder for signs of life.
    pub(crate) fn notes(&self) -> PathBuf {
        self.path().join("notes")
    }

    /// Fills the small file system until nothing fits any more.
    pub(crate) fn fill(&self) -> Result<Ballast, String> {
        if self.mount.is_none() {
            return Err("the state is on no file system of its own".to_owned());
        }
        Ballast::load(&self.state().join("ballast")).map_err(|error| format!("no ballast: {error}"))
    }

    /// Returns a journal that cannot be written, once [`ReadOnly::again`] was called.
    pub(crate) fn read_only(&self, home: &Path) -> ReadOnly {
        ReadOnly { files: ["journal.db", "journal.db-wal"].map(|name| home.join(name)) }
    }

    /// Reports whether files can be closed to root here, too.
    pub(crate) fn can_close(&self) -> Result<(), String> {
        let file = self.state().join("closed");
        fs::write(&file, "").map_err(|error| error.to_string())?;
        let closed = immutable(&file, true).and_then(|()| immutable(&file, false));
        closed.and_then(|()| fs::remove_file(&file)).map_err(|error| error.to_string())
    }
}

fn mount(folder: &Path, bytes: u64) -> io::Result<Mount> {
    let (image, point) = (folder.join("image"), folder.join("state"));
    File::create_new(&image)?.set_len(bytes)?;
    // No blocks are reserved for root, which often runs this; and an inode for every two blocks, since most files are small.
    let options = "lazy_itable_init=1,lazy_journal_init=1";
    tool(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-i", "8192", "-E", options]).arg(&image))?;
    let device = tool(Command::new("losetup").args(["--find", "--show"]).arg(&image))?;
    let mount = Mount { point, device: device.trim().to_owned() };
    tool(Command::new("mount").args(["-o", "noatime"]).arg(&mount.device).arg(&mount.point))?;
    // It is empty apart from this, and everything in it is the run's.
    fs::remove_dir(mount.point.join("lost+found"))?;
    Ok(mount)
}

/// A file that takes all the room there is. Removed when it goes.
pub(crate) struct Ballast {
    path: PathBuf,
    file: File,
}

impl Ballast {
    fn load(path: &Path) -> io::Result<Ballast> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let mut ballast = Ballast { path: path.to_owned(), file };
        let mut at = 0;
        // In halves: what is said to be free is never free to the last block.
        let mut piece = statvfs(path).map(|room| room.f_bavail * room.f_frsize)?;
        while piece >= 1 << 20 {
            match fallocate(ballast.file.as_fd(), FallocateFlags::empty(), at, piece) {
                Ok(()) => at += piece,
                Err(_) => piece /= 2,
            }
        }
        io::Seek::seek(&mut ballast.file, io::SeekFrom::Start(at))?;
        ballast.top_up()?;
        Ok(ballast)
    }

    /// Takes what was given free since.
    pub(crate) fn top_up(&mut self) -> io::Result<()> {
        loop {
            match self.file.write(&[1; 4096]) {
                Ok(4096) => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A journal whose files cannot be written, not even by root with a descriptor from before. They can be again when it is dropped.
pub(crate) struct ReadOnly {
    files: [PathBuf; 2],
}

impl ReadOnly {
    /// Closes the files that are there now.
    pub(crate) fn again(&self) -> io::Result<()> {
        self.set(true)
    }

    fn set(&self, closed: bool) -> io::Result<()> {
        for file in &self.files {
            match immutable(file, closed) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        if let Err(error) = self.set(false) {
            eprintln!("the journal stays closed: {error}");
        }
    }
}

fn immutable(file: &Path, closed: bool) -> io::Result<()> {
    let file = File::open(file)?;
    let mut flags = ioctl_getflags(&file)?;
    flags.set(IFlags::IMMUTABLE, closed);
    Ok(ioctl_setflags(&file, flags)?)
}

/// Runs a tool and returns what it says; its complaint is the error.
fn tool(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(io::Error::other(format!("{}: {complaint}", command.get_program().to_string_lossy())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_journal_is_written_by_nobody_until_it_is_given_back() {
        let (ground, is_small) = Ground::make(1).unwrap();
        if is_small.is_err() {
            assert!(!rustix::process::geteuid().is_root(), "root can mount");
            return;
        }
        ground.can_close().unwrap();
        let path = ground.state().join("journal.db");
        let mut open = File::create(&path).unwrap();
        let closed = ground.read_only(&ground.state());
        closed.again().unwrap();
        assert!(open.write(b"x").is_err() && File::create(&path).is_err());
        drop(closed);
        open.write_all(b"x").unwrap();
    }

    #[test]
    fn a_full_ground_has_no_room_and_an_emptied_one_has() {
        let (ground, is_small) = Ground::make(1).unwrap();
        if let Err(why) = is_small {
            assert!(!rustix::process::geteuid().is_root(), "root can mount: {why}");
            assert!(ground.fill().is_err());
            return;
        }
        let (first, second) = (ground.state().join("first"), ground.state().join("second"));
        let ballast = ground.fill().unwrap();
        let full = fs::write(&first, [7; 9_000]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        fs::write(ground.notes().join("beside"), "there is room").unwrap();
        drop(ballast);
        fs::write(&second, [7; 9_000]).unwrap();
    }
}
