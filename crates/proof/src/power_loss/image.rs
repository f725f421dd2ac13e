//! A disk that can lose power: an ext4 file system in a file, mounted by a loop device.
//!
//! A copy of the file holds what the file system has handed to its device, and nothing of what it only holds in
//! memory: that is what a power cut leaves, on a disk that keeps what it was given. A disk that loses writes it was
//! not yet told to flush would be harsher; this one is not.
//!
//! Needs root and loop devices. Everything is unmounted and removed when it goes out of scope.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Room for a store and its log; sparse, so that only what is used is copied.
const IMAGE_BYTES: u64 = 256 << 20;

/// How often a copy is taken again because the kernel wrote to the device meanwhile. It does so every few seconds.
const COPIES_MAX: u32 = 20;

/// A mounted image.
#[derive(Debug)]
pub struct Image {
    // Unmounted in `drop`, before the folder is removed.
    folder: TempDir,
    device: String,
}

impl Image {
    /// Makes an empty file system and mounts it.
    pub fn make() -> io::Result<Image> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("image");
        File::create_new(&file)?.set_len(IMAGE_BYTES)?;
        // Without lazy initialisation the kernel does not write to the device by itself later on.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-E", options]).arg(&file))?;
        Image::mount(folder)
    }

    fn mount(folder: TempDir) -> io::Result<Image> {
        let point = folder.path().join("mounted");
        fs::create_dir(&point)?;
        let file = folder.path().join("image");
        let device = run(Command::new("losetup").args(["--find", "--show"]).arg(&file))?;
        let image = Image { folder, device: device.trim().to_owned() };
        run(Command::new("mount").args(["-o", "noatime"]).arg(&image.device).arg(&point))?;
        Ok(image)
    }

    /// Returns the folder to work in.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Copies the image as it is on its device at this moment and mounts the copy, which replays the journal of
    /// the file system as a boot would. All processes that write to the image must be stopped.
    pub fn after_power_loss(&self) -> io::Result<Image> {
        let folder = tempfile::tempdir()?;
        let copy = folder.path().join("image");
        for _ in 0..COPIES_MAX {
            let before = self.writes()?;
            run(Command::new("cp").arg("--sparse=always").arg(self.folder.path().join("image")).arg(&copy))?;
            // Writes of the kernel's own, meanwhile, would make this an image of no single moment.
            if self.writes()? == before {
                return Image::mount(folder);
            }
        }
        Err(io::Error::other("the device was written to during every copy"))
    }

    /// Counts what was written to the device: requests done, sectors, requests under way.
    fn writes(&self) -> io::Result<[u64; 3]> {
        let name = Path::new(&self.device).file_name().ok_or_else(|| io::Error::other("no device"))?;
        let stat = fs::read_to_string(Path::new("/sys/block").join(name).join("stat"))?;
        let numbers: Vec<u64> = stat.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        match numbers[..] {
            [_, _, _, _, done, _, sectors, _, under_way, ..] if under_way == 0 => {
                Ok([done, sectors, under_way])
            }
            [_, _, _, _, _, _, _, _, under_way, ..] => Ok([u64::MAX, u64::MAX, under_way]),
            _ => Err(io::Error::other(format!("{}: cannot read its counters", self.device))),
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Each is tried, whatever became of the one before.
        let _ = run(Command::new("umount").arg(self.path()));
        let _ = run(Command::new("losetup").arg("--detach").arg(&self.device));
    }
}

/// Runs a tool and returns what it says; its complaint is the error.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("{}: {complaint}", command.get_program().to_string_lossy())))
}
