//! Checks the user's service manager: our units, and whether it keeps running after logout.

use std::path::{Path, PathBuf};

use super::check::Check;
use crate::daemon::install;
use crate::environment;
use crate::paths::Paths;

/// Where packages install units for all users.
const PACKAGED: [&str; 2] = ["/usr/lib/systemd/user", "/etc/systemd/user"];

/// One file per user whose service manager keeps running after logout.
const LINGER: &str = "/var/lib/systemd/linger";

pub(super) fn units(paths: &Paths) -> Check {
    let own = install::folder().ok();
    let folders = own.clone().into_iter().chain(PACKAGED.map(PathBuf::from));
    let Some((folder, unit)) = folders
        .filter_map(|folder| {
            Some((folder.clone(), std::fs::read_to_string(folder.join(install::SERVICE)).ok()?))
        })
        .next()
    else {
        return Check::ok("service", "no units installed; the daemon starts with the first command");
    };
    let again = "lastword daemon install";
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let name = folder.join(install::SERVICE);
    let name = name.display();
    if value("KillMode") != Some("process") {
        let text = format!("{name} lacks KillMode=process, so stopping it would kill all jobs");
        return Check::fail("service", text).remedy(again);
    }
    let program = value("ExecStart").and_then(program_of);
    if let Some(program) = program.filter(|program| !program.is_file()) {
        return Check::fail("service", format!("{name} starts {}, which does not exist", program.display()))
            .remedy(again);
    }
    let listens = std::fs::read_to_string(folder.join(install::SOCKET)).unwrap_or_default();
    let elsewhere = listens.lines().filter_map(|line| line.strip_prefix("ListenStream=")).find(|place| {
        let place = place.replace("%%", "%");
        !place.contains("%t") && Path::new(&place) != paths.socket
    });
    if let Some(place) = elsewhere {
        let text = format!("its socket is {place}, but commands use {}", paths.socket.display());
        return Check::warn("service", text).remedy(again);
    }
    let wanted = format!("sockets.target.wants/{}", install::SOCKET);
    let is_enabled = own.into_iter().chain(PACKAGED.map(PathBuf::from)).any(|folder| {
        // The link itself: it may point to the unit of a package.
        folder.join(&wanted).symlink_metadata().is_ok()
    });
    match is_enabled {
        true => Check::ok("service", format!("{name} is enabled")),
        false => Check::warn("service", format!("{name} is installed but not enabled"))
            .remedy(format!("systemctl --user enable --now {}", install::SOCKET)),
    }
}

/// Returns the program of an `ExecStart` line.
fn program_of(line: &str) -> Option<PathBuf> {
    let word = match line.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => line.split_ascii_whitespace().next()?,
    };
    Some(PathBuf::from(word.replace("%%", "%")))
}

pub(super) fn linger() -> Check {
    let manager = environment::get_os("XDG_RUNTIME_DIR").map(|dir| Path::new(&dir).join("systemd/private"));
    if !manager.is_some_and(|manager| manager.exists()) {
        return Check::ok(
            "linger",
            "no service manager is running for this user, so logging out ends no jobs",
        );
    }
    let user = crate::daemon::names::user_name(rustix::process::geteuid().as_raw());
    match user {
        Some(user) if Path::new(LINGER).join(&user).exists() => {
            Check::ok("linger", "jobs keep running when you log out")
        }
        _ => Check::warn("linger", "your service manager stops when you log out, and your jobs with it")
            .remedy("loginctl enable-linger"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_unit_is_parsed() {
        assert_eq!(
            program_of("\"/opt/my tools/100%%/lastword\" daemon run"),
            Some("/opt/my tools/100%/lastword".into())
        );
        assert_eq!(program_of("/usr/bin/lastword daemon run"), Some("/usr/bin/lastword".into()));
        assert_eq!(program_of(""), None);
    }
}
