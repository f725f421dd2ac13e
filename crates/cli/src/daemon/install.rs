//! `daemon install`: units for the user's service manager. The socket is there from login on; the daemon starts with the first
//! command, and trees outlive both.

use std::path::{Path, PathBuf};

use lastword_api::Code;

use super::start::executable;
use crate::environment;
use crate::failure::{Failure, Outcome};
use crate::paths::Paths;
use crate::ui::Ui;

pub(crate) const SERVICE: &str = "lastword.service";
pub(crate) const SOCKET: &str = "lastword.socket";

/// Returns the two units, for an executable, a state folder of one's own if that was chosen, and a place to listen as a unit
/// writes it.
fn units(executable: &Path, home: Option<&Path>, listen: &str) -> [(&'static str, String); 2] {
    let exec = quote(&executable.display().to_string());
    let environment = home.map_or_else(String::new, |home| {
        format!("Environment={}\n", quote(&format!("LASTWORD_HOME={}", home.display())))
    });
    let service = format!(
        "[Unit]\n\
         Description=Lastword, the supervisor that tells the truth about its jobs\n\
         Requires={SOCKET}\n\
         After={SOCKET}\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={exec} daemon run\n\
         {environment}Restart=on-failure\n\
         # Only the daemon is stopped with its unit: jobs go on, and the next daemon adopts them.\n\
         KillMode=process\n\
         # Jobs are held in control groups of their own below this unit's.\n\
         Delegate=yes\n\
         \n\
         [Install]\n\
         Also={SOCKET}\n"
    );
    let socket = format!(
        "[Unit]\n\
         Description=Where Lastword listens\n\
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

/// Writes a word for a unit: in quotes, with what has a meaning there made plain.
fn quote(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// Returns the folder of the user's units.
pub(crate) fn folder() -> Result<PathBuf, Failure> {
    let config = environment::get_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let config = config.or_else(|| std::env::home_dir().map(|home| home.join(".config")));
    let none = || Failure::new(Code::Invalid, "there is no home folder: set HOME");
    Ok(config.ok_or_else(none)?.join("systemd/user"))
}

/// Writes the units and says what to run.
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
    for (name, text) in units(&executable, home, &listen) {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(failed(&path))?;
        ui.print(&path.display().to_string())?;
    }
    ui.say("now run:");
    if crate::lock::is_held(paths) {
        ui.say("  lastword daemon stop        # the one that runs; jobs go on");
    }
    ui.say("  systemctl --user daemon-reload");
    ui.say(&format!("  systemctl --user enable --now {SOCKET}"));
    ui.say("  loginctl enable-linger      # if jobs are to go on after you log out");
    Ok(0)
}

/// Removes the units and says what to run.
pub(crate) fn uninstall(ui: &Ui) -> Outcome {
    let folder = folder()?;
    let mut removed = 0;
    for name in [SERVICE, SOCKET] {
        let path = folder.join(name);
        match std::fs::remove_file(&path) {
            Ok(()) => {
                removed += 1;
                ui.print(&path.display().to_string())?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Failure::new(Code::Unavailable, format!("{}: {error}", path.display())));
            }
        }
    }
    match removed {
        0 => ui.say(&format!("there are no units of Lastword in {}", folder.display())),
        _ => ui.say(&format!(
            "now run:\n  systemctl --user disable --now {SOCKET} {SERVICE}\n  systemctl --user daemon-reload"
        )),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for everybody on a machine, in the folder where packages put units.
    #[test]
    fn the_units_of_the_package_are_those_that_are_written_here() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
        for (name, text) in units(Path::new("/usr/bin/lastword"), None, "%t/lastword/lastword.sock") {
            assert_eq!(std::fs::read_to_string(folder.join(name)).unwrap_or_default(), text, "{name}");
        }
    }

    #[test]
    fn only_the_daemon_is_stopped_with_its_unit() {
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
