//! The process that started a daemon, and what it is told.

use std::path::PathBuf;

use super::start::{READY, StartProblem};
use crate::environment;
use crate::failure::Failure;

/// The process that started the daemon and waits for its report.
#[derive(Clone)]
pub(super) struct Starter {
    pub(super) detached: bool,
    /// Which program says so.
    pub(super) name: &'static str,
    pub(super) socket: PathBuf,
}

impl Starter {
    /// Reports the outcome of the start. A detached daemon writes one line to its starter and closes the pipe. A daemon that is ready also
    /// notifies the service manager and, in the foreground, says so on stderr.
    pub(super) fn report(&self, line: &str) {
        use std::io::Write as _;
        if self.detached {
            let _ = writeln!(std::io::stdout().lock(), "{line}");
            // The starter reads until the pipe closes.
            if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(&null);
            }
        }
        if line == READY {
            notify_service_manager();
            if !self.detached {
                let socket = self.socket.display();
                let _ = writeln!(
                    std::io::stderr().lock(),
                    "the {} is listening on {socket}; Ctrl-C stops it, and jobs keep running",
                    self.name
                );
            }
        }
    }

    /// Reports a failure to the starter and the log, and returns it.
    pub(super) fn refuse(&self, failure: Failure) -> Failure {
        tracing::error!("cannot start: {}", failure.text());
        if self.detached {
            let problem = StartProblem { problem: (*failure.problem).clone(), next: failure.next.clone() };
            self.report(&serde_json::to_string(&problem).unwrap_or_default());
        }
        failure
    }
}

/// Notifies the service manager that the daemon is ready, as `sd_notify` does. A path that begins with `@` is an abstract address.
fn notify_service_manager() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(place) = environment::get("NOTIFY_SOCKET") else { return };
    let address = match place.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&place),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1\n", &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}
