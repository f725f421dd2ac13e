//! Checks files and folders: valid settings, a private and writable state folder, free disk space.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, access};

use super::check::{Check, is_lastwords};
use crate::lock;
use crate::paths::Paths;
use crate::settings::Settings;
use crate::text::shell::quoted;
use crate::text::size;

/// Below this, output or a commit may soon not fit.
const ROOM_LOW: u64 = 1 << 30;

/// Below this, nothing can be guaranteed any more.
const ROOM_NONE: u64 = 32 << 20;

/// A job needs a handful of files; fewer than this may be used up in a day.
const FILES_LOW: u64 = 10_000;

/// File systems whose locks or shared memory are unsuitable for a journal, by magic number.
const REMOTE: [(u64, &str); 7] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x7461_636f, "OCFS2"),
];

/// The magic number of tmpfs.
const TMPFS: u64 = 0x0102_1994;

pub(super) fn settings(paths: &Paths) -> Check {
    let file = paths.config.display();
    let settings = Settings::of_process(paths, &[]);
    let running = lock::settings_in_force(paths);
    match settings.map(|settings| settings.not_in_force(&running)) {
        Ok(lines) if !lines.is_empty() => Check::warn("settings", lines.join("; ")),
        Ok(_) if paths.config.exists() => Check::ok("settings", format!("{file} is valid")),
        Ok(_) => Check::ok("settings", format!("all defaults; {file} does not exist")),
        Err(bad) => Check::fail("settings", bad.to_string())
            .remedy(format!("edit {}, or unset the variable", quoted(&paths.config))),
    }
}

pub(super) fn state(paths: &Paths) -> Check {
    let folder = &paths.state;
    let name = folder.display();
    let elsewhere = "export LASTWORD_HOME=…    # a writable folder of your own";
    let found = match std::fs::metadata(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = nearest(folder);
            return match access(above, Access::WRITE_OK) {
                Ok(()) => {
                    Check::ok("state", format!("{name} does not exist yet; the first daemon creates it"))
                }
                Err(error) => {
                    let above = above.display();
                    Check::fail("state", format!("{name} cannot be created: {above}: {error}"))
                        .remedy(elsewhere)
                }
            };
        }
        Err(error) => return Check::fail("state", format!("{name}: {error}")).remedy(elsewhere),
    };
    if !found.is_dir() {
        return Check::fail("state", format!("{name} is not a folder"))
            .remedy(format!("mv {0} {0}.aside", quoted(folder)));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        let text = format!("{name} belongs to another user (uid {})", found.uid());
        return Check::fail("state", text).remedy(elsewhere);
    }
    if found.mode() & 0o077 != 0 {
        let text = format!("{name} is accessible to others (mode {:o})", found.mode() & 0o777);
        let check = Check::fail("state", text);
        // A folder with other things in it, such as /tmp, is not ours to close.
        return if is_lastwords(folder) { check.private(folder, 0o700) } else { check.remedy(elsewhere) };
    }
    if let Err(error) = access(folder, Access::WRITE_OK | Access::READ_OK | Access::EXEC_OK) {
        return Check::fail("state", format!("{name} is not writable: {error}")).remedy(elsewhere);
    }
    match kind(folder) {
        Some(kind) if kind == TMPFS => {
            Check::warn("state", format!("{name} is in memory (tmpfs) and is lost at the next boot"))
                .remedy(elsewhere)
        }
        Some(kind) => match REMOTE.iter().find(|(number, _)| *number == kind) {
            Some((_, kind)) => {
                let text = format!("{name} is on {kind}, where locks are unreliable; use a local disk");
                Check::warn("state", text).remedy(elsewhere)
            }
            None => Check::ok("state", format!("{name} is private and writable")),
        },
        None => Check::ok("state", format!("{name} is private")),
    }
}

pub(super) fn disk(paths: &Paths) -> Check {
    let place = nearest(&paths.state);
    let found = match rustix::fs::statvfs(place) {
        Ok(found) => found,
        Err(error) => {
            let text = format!("{}: cannot determine the free space: {error}", place.display());
            return Check::warn("disk", text);
        }
    };
    let room = found.f_bavail.saturating_mul(found.f_frsize);
    let free = format!("{} free", size::show(room));
    let prune = "lastword prune    # deletes old jobs; or free space otherwise";
    // Some file systems have no limit on files.
    let few_files = found.f_files > 0 && found.f_favail < FILES_LOW;
    match room {
        0..ROOM_NONE => Check::fail("disk", format!("the disk is full: {free}")).remedy(prune),
        ROOM_NONE..ROOM_LOW => Check::warn("disk", format!("the disk is nearly full: {free}")).remedy(prune),
        _ if few_files => {
            let text = format!("{free}, but room for only {} more files", found.f_favail);
            Check::warn("disk", text).remedy(prune)
        }
        _ => Check::ok("disk", free),
    }
}

/// Returns the folder, or its nearest existing ancestor.
fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"))
}

/// Returns the magic number of a folder's file system.
fn kind(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statfs(folder).ok()?;
    // The numbers have 32 bits, and are sign-extended on some systems.
    Some(u64::from(found.f_type as u32))
}
