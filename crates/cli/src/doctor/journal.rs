//! The journal: whether it is sound, how large it is, and whether the clock agrees with when it was written.

use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, UNIX_EPOCH};

use lastword_store::sqlite::{Examined, examine as look};

use super::{Check, shown};
use crate::paths::Paths;
use crate::text::moment::now_ms;
use crate::text::{duration, size};

/// How long the journal is looked through. A gigabyte takes a few seconds; who has more is not kept waiting.
const LOOK_MAX: Duration = Duration::from_secs(20);

/// A write-ahead log stays at a few megabytes while it is emptied now and then.
const LOG_LARGE: u64 = 256 << 20;

/// A clock that is this far behind the last write was set back.
const BEHIND_MAX_MS: u64 = 60_000;

/// No clock that was ever set shows less: 2026-01-01.
const EARLIEST_MS: u64 = 1_767_225_600_000;

pub(super) fn examine(paths: &Paths) -> Vec<Check> {
    // A look leaves a file for its locks beside the journal, which its owner could not use if it were ours.
    let owner = std::fs::metadata(&paths.state).map(|found| found.uid());
    if owner.is_ok_and(|owner| owner != rustix::process::geteuid().as_raw()) {
        let text = "was not looked at: its folder belongs to somebody else";
        return vec![Check::warn("journal", text), clock(None)];
    }
    let file = paths.in_state("journal.db");
    match look(&paths.state, LOOK_MAX) {
        Ok(None) => vec![Check::ok("journal", "is not there yet"), clock(None)],
        Ok(Some(examined)) => {
            let written = examined.written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let written = written.and_then(|at| u64::try_from(at.as_millis()).ok());
            vec![sound(&examined), clock(written)]
        }
        Err(lastword_store::Error::Corrupt(why)) => {
            let file = shown(&file);
            let remedy = format!(
                "put a backup in the place of {file}, or: mv {file} {file}.damaged    # with its -wal; jobs are forgotten then"
            );
            vec![Check::fail("journal", format!("is damaged: {why}")).remedy(remedy), clock(None)]
        }
        Err(error) => vec![Check::fail("journal", format!("cannot be read: {error}")), clock(None)],
    }
}

fn sound(examined: &Examined) -> Check {
    let sizes = format!("{}, log {}", size::show(examined.bytes), size::show(examined.log_bytes));
    if examined.log_bytes > LOG_LARGE {
        return Check::warn("journal", format!("is sound, and its log is not emptied: {sizes}"))
            .remedy("lastword daemon restart    # empties it; jobs go on meanwhile");
    }
    match examined.whole {
        true => Check::ok("journal", format!("is sound: {sizes}")),
        false => {
            let time = LOOK_MAX.as_secs();
            Check::ok("journal", format!("no damage in the part that was read in {time} s: {sizes}"))
        }
    }
}

fn clock(written_ms: Option<u64>) -> Check {
    let remedy = "timedatectl set-ntp true";
    let now = now_ms();
    match written_ms {
        _ if now < EARLIEST_MS => {
            Check::warn("clock", "was never set: it shows a day before this program was made").remedy(remedy)
        }
        Some(written) if written > now + BEHIND_MAX_MS => {
            let behind = duration::show_ms(written - now);
            Check::warn("clock", format!("was set back: the journal was written {behind} from now"))
                .remedy(remedy)
        }
        Some(_) => Check::ok("clock", "agrees with the journal"),
        None => Check::ok("clock", "is set"),
    }
}
