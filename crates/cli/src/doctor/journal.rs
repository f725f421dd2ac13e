//! Checks the journal: integrity, size, and whether the clock agrees with its last write.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, UNIX_EPOCH};

use lastword_store::sqlite::{Examined, examine};

use super::check::Check;
use crate::paths::Paths;
use crate::text::moment::now_ms;
use crate::text::shell::quoted;
use crate::text::{duration, size};

/// The time limit of the integrity check. A gigabyte takes a few seconds.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// A write-ahead log usually stays at a few megabytes.
const LOG_LARGE: u64 = 256 << 20;

/// A clock that is this far behind the last write was set back.
const BEHIND_MAX_MS: u64 = 60_000;

/// No correctly set clock shows an earlier time: 2026-01-01.
const EARLIEST_MS: u64 = 1_767_225_600_000;

pub(super) fn check(paths: &Paths) -> Vec<Check> {
    // Opening the journal creates a lock file beside it, which its owner could not use if it were ours.
    let owner = std::fs::metadata(&paths.state).map(|found| found.uid());
    if owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw()) {
        let text = "not checked: its folder belongs to another user";
        return vec![Check::warn("journal", text), clock(None)];
    }
    let file = paths.in_state("journal.db");
    match examine(&paths.state, CHECK_TIMEOUT) {
        Ok(None) => vec![Check::ok("journal", "does not exist yet"), clock(None)],
        Ok(Some(examined)) => {
            let written = examined.written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let written = written.and_then(|at| u64::try_from(at.as_millis()).ok());
            vec![intact(&examined), clock(written)]
        }
        Err(lastword_store::Error::Corrupt(why)) => {
            let file = quoted(&file);
            let remedy = format!(
                "restore {file} from a backup, or: mv {file} {file}.damaged    # and its -wal; all jobs are then forgotten"
            );
            vec![Check::fail("journal", format!("damaged: {why}")).remedy(remedy), clock(None)]
        }
        Err(error) => vec![Check::fail("journal", format!("cannot be read: {error}")), clock(None)],
    }
}

fn intact(examined: &Examined) -> Check {
    let sizes = format!("{}, log {}", size::show(examined.bytes), size::show(examined.log_bytes));
    if examined.log_bytes > LOG_LARGE {
        return Check::warn("journal", format!("intact, but its write-ahead log keeps growing: {sizes}"))
            .remedy("lastword daemon restart    # truncates it; jobs keep running");
    }
    match examined.whole {
        true => Check::ok("journal", format!("intact: {sizes}")),
        false => {
            let time = CHECK_TIMEOUT.as_secs();
            Check::ok("journal", format!("no damage found within {time} s: {sizes}"))
        }
    }
}

fn clock(written_ms: Option<u64>) -> Check {
    let remedy = "timedatectl set-ntp true";
    let now = now_ms();
    match written_ms {
        _ if now < EARLIEST_MS => {
            Check::warn("clock", "was never set: it shows a date before this program was built")
                .remedy(remedy)
        }
        Some(written) if written > now + BEHIND_MAX_MS => {
            let behind = duration::show_ms(written - now);
            Check::warn("clock", format!("was set back: the journal was last written {behind} in the future"))
                .remedy(remedy)
        }
        Some(_) => Check::ok("clock", "agrees with the journal"),
        None => Check::ok("clock", "is set"),
    }
}
