//! Where things are kept: settings that read, a state folder that is private and can be written to, room on its disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, access};

use super::{Check, shown};
use crate::environment;
use crate::paths::Paths;
use crate::settings::Settings;
use crate::text::size;

/// Less than this, and an output or a commit is soon the one that does not fit.
const ROOM_LOW: u64 = 1 << 30;

/// Less than this, and nothing more can be promised.
const ROOM_NONE: u64 = 32 << 20;

/// A job takes a handful of files; with fewer than this many left, a busy day uses them up.
const FILES_LOW: u64 = 10_000;

/// File systems on which locks and shared memory are not what a journal needs, by the number that the kernel gives them.
const REMOTE: [(u64, &str); 7] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x7461_636f, "OCFS2"),
];

/// What is in memory only.
const TMPFS: u64 = 0x0102_1994;

pub(super) fn settings(paths: &Paths) -> Check {
    let file = paths.config.display();
    match Settings::load(&paths.config, &environment::settings(), &[]) {
        Ok(_) if paths.config.exists() => Check::ok("settings", format!("{file} reads")),
        Ok(_) => Check::ok("settings", format!("all at their defaults; {file} is not there")),
        Err(bad) => Check::fail("settings", bad.to_string())
            .remedy(format!("edit {}, or unset the variable that is named", shown(&paths.config))),
    }
}

pub(super) fn state(paths: &Paths) -> Check {
    let folder = &paths.state;
    let name = folder.display();
    let elsewhere = "export LASTWORD_HOME=…    # a folder of your own that can be written to";
    let found = match std::fs::metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = nearest(folder);
            return match access(above, Access::WRITE_OK) {
                Ok(()) => Check::ok("state", format!("{name} is not there yet; the first daemon makes it")),
                Err(error) => {
                    let above = above.display();
                    Check::fail("state", format!("{name} cannot be made: {above}: {error}")).remedy(elsewhere)
                }
            };
        }
        Err(error) => return Check::fail("state", format!("{name}: {error}")).remedy(elsewhere),
    };
    if !found.is_dir() {
        return Check::fail("state", format!("{name} is not a folder"))
            .remedy(format!("mv {0} {0}.aside", shown(folder)));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        let text = format!("{name} belongs to user {}, and is not used", found.uid());
        return Check::fail("state", text).remedy(elsewhere);
    }
    if found.mode() & 0o077 != 0 {
        let text = format!("others may look into {name} (mode {:o})", found.mode() & 0o777);
        return Check::fail("state", text).private(folder, 0o700);
    }
    if let Err(error) = access(folder, Access::WRITE_OK | Access::READ_OK | Access::EXEC_OK) {
        return Check::fail("state", format!("{name} cannot be written to: {error}")).remedy(elsewhere);
    }
    match kind(folder) {
        Some(kind) if kind == TMPFS => {
            Check::warn("state", format!("{name} is in memory: it is gone with the next boot"))
                .remedy(elsewhere)
        }
        Some(kind) => match REMOTE.iter().find(|(number, _)| *number == kind) {
            Some((_, kind)) => {
                let text = format!(
                    "{name} is on {kind}, where locks may not hold: keep it on a disk of this machine"
                );
                Check::warn("state", text).remedy(elsewhere)
            }
            None => Check::ok("state", format!("{name} is private and can be written to")),
        },
        None => Check::ok("state", format!("{name} is private")),
    }
}

pub(super) fn disk(paths: &Paths) -> Check {
    let place = nearest(&paths.state);
    let found = match rustix::fs::statvfs(place) {
        Ok(found) => found,
        Err(error) => {
            let text = format!("{}: cannot say how much room there is: {error}", place.display());
            return Check::warn("disk", text);
        }
    };
    let room = found.f_bavail.saturating_mul(found.f_frsize);
    let free = format!("{} free", size::show(room));
    let prune = "lastword prune    # forgets old jobs; or make room otherwise";
    // A file system that counts no files has none to run out of.
    let few_files = found.f_files > 0 && found.f_favail < FILES_LOW;
    match room {
        0..ROOM_NONE => Check::fail("disk", format!("the disk is full: {free}")).remedy(prune),
        ROOM_NONE..ROOM_LOW => Check::warn("disk", format!("the disk is nearly full: {free}")).remedy(prune),
        _ if few_files => {
            let text = format!("{free}, and room for {} more files only", found.f_favail);
            Check::warn("disk", text).remedy(prune)
        }
        _ => Check::ok("disk", free),
    }
}

/// Returns the folder, or the nearest above it that is there.
fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"))
}

/// Returns what the kernel calls the file system of a folder.
fn kind(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statfs(folder).ok()?;
    // The numbers have 32 bits, and some systems hand them out with a sign.
    Some(u64::from(found.f_type as u32))
}
