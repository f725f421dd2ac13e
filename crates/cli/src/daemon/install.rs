//! `daemon install`: units for the user's service manager. The socket exists from login on, the daemon starts with the first command, and
//! jobs outlive both.

use std::path::{Path, PathBuf};

use lastword_api::Code;

use super::start::executable;
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::ui::{JsonList, Ui};

pub(crate) const SERVICE: &str = "lastword.service";
pub(crate) const SOCKET: &str = "lastword.socket";

/// Returns the two units. `home` is the state folder if it was chosen with `LASTWORD_HOME`; `listen` is the path of the socket, escaped
/// for a unit.
fn units(executable: &Path, home: Option<&Path>, listen: &str) -> [(&'static str, String); 2] {
    let exec = quote(&executable.display().to_string());
    let environment = home.map_or_else(String::new, |home| {
        format!("Environment={}\n", quote(&format!("LASTWORD_HOME={}", home.display())))
    });
    let service = format!(
        "[Unit]\n\
         Description=Lastword, supervisor for coding agents and background jobs\n\
         Requires={SOCKET}\n\
         After={SOCKET}\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={exec} daemon run\n\
         {environment}Restart=on-failure\n\
         # Stop only the daemon: jobs keep running, and the next daemon takes them over.\n\
         KillMode=process\n\
         # Jobs get control groups of their own below that of this unit.\n\
         Delegate=yes\n\
         \n\
         [Install]\n\
         Also={SOCKET}\n"
    );
    let socket = format!(
        "[Unit]\n\
         Description=Socket of Lastword\n\
         \n\
         [Socket]\n\
         ListenStream={listen}\n\
         SocketMode=0600\n\
         DirectoryMode=0700\n\
         \n\
         [Install]\n\
         WantedBy=sockets.target\n"
    );
    [(SERVICE, service), (SOCKET, socket)]
}

/// Quotes a word for a unit file.
fn quote(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// Returns the folder of the user's units.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    let config = environment::get_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let config = config.or_else(|| std::env::home_dir().map(|home| home.join(".config")));
    let none = || Failure::new(Code::Invalid, "no home folder found: set HOME");
    Ok(config.ok_or_else(none)?.join("systemd/user"))
}

/// Writes the units and prints how to enable them.
pub(crate) fn install(paths: &Paths, ui: &Ui) -> Outcome {
    let folder = folder()?;
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::new(Code::Unavailable, format!("{path}: {error}"))
    };
    std::fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let executable = executable().map_err(failed(Path::new("this program")))?;
    let home = environment::get_os("LASTWORD_HOME").map(|_| paths.state.as_path());
    let listen = paths.socket.display().to_string().replace('%', "%%");
    let mut written = Vec::new();
    for (name, text) in units(&executable, home, &listen) {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
        written.push(path.display().to_string());
    }
    print(&written, ui)?;
    ui.say("now run:");
    if crate::lock::is_held(paths) {
        ui.say("  lastword daemon stop        # the running daemon; jobs keep running");
    }
    ui.say("  systemctl --user daemon-reload");
    ui.say(&format!("  systemctl --user enable --now {SOCKET}"));
    ui.say("  loginctl enable-linger      # keeps jobs running after you log out");
    Ok(0)
}

/// Prints the paths of units.
fn print(paths: &[String], ui: &Ui) -> Result<(), Failure> {
    match ui.json {
        true => ui.print_json(&JsonList { items: paths, next_cursor: None }),
        false => paths.iter().try_for_each(|path| ui.print(path)),
    }
}

/// Removes the units and prints how to disable them.
pub(crate) fn uninstall(ui: &Ui) -> Outcome {
    let folder = folder()?;
    let mut removed = Vec::new();
    for name in [SERVICE, SOCKET] {
        let path = folder.join(name);
        match std::fs::remove_file(&path) {
            Ok(()) => removed.push(path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::new(Code::Unavailable, format!("{}: {error}", path.display())));
            }
        }
    }
    print(&removed, ui)?;
    match removed.len() {
        0 => ui.say(&format!("there are no units in {}", folder.display())),
        _ => ui.say(&format!(
            "now run:\n  systemctl --user disable --now {SOCKET} {SERVICE}\n  systemctl --user daemon-reload"
        )),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The package installs the units for all users.
    #[test]
    fn the_packaged_units_are_up_to_date() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
        for (name, text) in units(Path::new("/usr/bin/lastword"), None, "%t/lastword/lastword.sock") {
            assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap_or_default(), text, "{name}");
        }
    }

    #[test]
    fn stopping_the_unit_stops_only_the_daemon() {
        let [(_, service), (_, socket)] =
            units(Path::new("/opt/my tools/100%/lastword"), Some(Path::new("/lw")), "/run/lastword.sock");
        for line in [
            "ExecStart=\"/opt/my tools/100%%/lastword\" daemon run",
            "Environment=\"LASTWORD_HOME=/lw\"",
            "KillMode=process",
            "Delegate=yes",
            "Type=notify",
        ] {
            assert!(service.lines().any(|found| found == line), "{line} in\n{service}");
        }
        for line in ["ListenStream=/run/lastword.sock", "SocketMode=0600", "DirectoryMode=0700"] {
            assert!(socket.lines().any(|found| found == line), "{line} in\n{socket}");
        }
    }
}
