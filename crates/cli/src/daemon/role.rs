//! What a state folder is for: the daemon of a laptop, a server of a fleet, or a worker. One folder is never two of them: the jobs that a
//! worker's keepers hold mean nothing to a daemon with a journal of its own.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
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

    /// Returns the command that starts it.
    pub(crate) fn start(self) -> &'static str {
        match self {
            Role::Daemon => "lastword daemon start",
            Role::Server => "lastword serve",
            Role::Worker => "lastword worker",
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
    pub(crate) fn settle(self, paths: &Paths) -> Result<(), Failure> {
        let (role, state) = (Role::of(paths), &paths.state);
        if role == self && (role != Role::Daemon || !paths.in_state(FILE).exists()) {
            return Ok(());
        }
        let is_used = role != Role::Daemon || state.join("journal.db").exists();
        if is_used {
            let text = format!("the state folder {} is that of a {}", state.display(), role.name());
            return Err(Failure::new(Code::Conflict, text).next(match role {
                Role::Daemon => "choose another one for it with LASTWORD_HOME".to_owned(),
                Role::Server | Role::Worker => {
                    let (start, name) = (role.start(), role.name());
                    format!("{start}    # starts the {name}; LASTWORD_HOME chooses another folder")
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
    let mut options = std::fs::OpenOptions::new();
    let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    written.write_all(format!("{name}\n").as_bytes())?;
    std::fs::rename(part, file)
}
