//! What a state folder is for: the daemon of a laptop, a server of a fleet, or a worker. One folder is never two of them: the jobs that a
//! worker's keepers hold mean nothing to a daemon with a journal of its own.

use std::io;
use std::path::Path;

use lastword_api::Code;

use crate::failure::Failure;
use crate::paths::Paths;

/// The name of the file that says so. A folder without one is that of a daemon.
const FILE: &str = "role";

/// What a state folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Daemon,
    Server,
    Worker,
}

impl Role {
    /// Returns the word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Daemon => "daemon",
            Role::Server => "server",
            Role::Worker => "worker",
        }
    }

    /// Returns the role of a state folder.
    pub(crate) fn of(paths: &Paths) -> Role {
        match std::fs::read_to_string(paths.in_state(FILE)).as_deref().map(str::trim) {
            Ok("server") => Role::Server,
            Ok("worker") => Role::Worker,
            _ => Role::Daemon,
        }
    }

    /// Makes a state folder one of this role, unless it has another.
    pub(super) fn settle(self, paths: &Paths) -> Result<(), Failure> {
        let (role, state) = (Role::of(paths), &paths.state);
        if role == self && (role != Role::Daemon || !paths.in_state(FILE).exists()) {
            return Ok(());
        }
        let is_used = role != Role::Daemon || state.join("journal.db").exists();
        if is_used {
            let text = format!("the state folder {} is that of a {}", state.display(), role.name());
            return Err(Failure::new(Code::Conflict, text).next(match role {
                Role::Daemon => "choose another one for it with LASTWORD_HOME",
                Role::Server => "lastword serve    # starts the server; LASTWORD_HOME chooses another folder",
                Role::Worker => {
                    "lastword worker    # starts the worker; LASTWORD_HOME chooses another folder"
                }
            }));
        }
        write(&paths.in_state(FILE), self.name()).map_err(|error| {
            Failure::new(Code::Unavailable, format!("{}: {error}", paths.in_state(FILE).display()))
        })
    }
}

fn write(file: &Path, name: &str) -> io::Result<()> {
    let part = file.with_extension("part");
    std::fs::write(&part, format!("{name}\n"))?;
    std::fs::rename(part, file)
}
