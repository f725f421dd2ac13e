//! Resource limits of our own processes, which any process of the user may lower.
//!
//! A soft limit that was lowered is raised again. A hard limit cannot be raised without privileges: a nursery is replaced by one with the
//! daemon's limits, and a daemon reports it.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::attributes::{RESOURCES, is_more};
use crate::sys;

/// The limits at the start of this process, or of the process it was forked from.
static AT_START: OnceLock<Limits> = OnceLock::new();

/// The limits of a process at some moment; empty if it is gone.
#[derive(Debug, Default)]
pub(crate) struct Limits(Vec<Rlimit>);

impl Limits {
    /// Returns those of another process.
    pub(crate) fn of(pid: i32) -> Limits {
        let all: io::Result<Vec<Rlimit>> =
            RESOURCES.iter().map(|(_, resource)| sys::limit_of(pid, *resource)).collect();
        Limits(all.unwrap_or_default())
    }

    fn own() -> Limits {
        Limits(RESOURCES.iter().map(|(_, resource)| getrlimit(*resource)).collect())
    }

    fn each(&self) -> impl Iterator<Item = (&'static str, Resource, Rlimit)> {
        RESOURCES.iter().zip(&self.0).map(|((name, resource), limit)| (*name, *resource, *limit))
    }

    /// Describes the limits, soft or hard, that are lower than others; `None` if there is none.
    pub(crate) fn below(&self, others: &Limits) -> Option<String> {
        let lower = self.each().zip(&others.0).filter_map(|((name, _, now), before)| {
            let soft = now.current.filter(|_| is_more(before.current, now.current));
            let hard = now.maximum.filter(|_| is_more(before.maximum, now.maximum));
            hard.or(soft).map(|value| format!("{name} to {value}"))
        });
        let lower: Vec<String> = lower.collect();
        (!lower.is_empty()).then(|| lower.join(", "))
    }
}

/// Remembers the present limits of this process. Called once, early.
pub fn remember() {
    AT_START.get_or_init(Limits::own);
}

/// Raises soft limits to what they were at the start, as far as the hard limits allow. Reports whether it raised one.
pub fn restore() -> bool {
    let mut raised = false;
    for (_, resource, before) in AT_START.get().into_iter().flat_map(Limits::each) {
        let now = getrlimit(resource);
        let most = if is_more(before.current, now.maximum) { now.maximum } else { before.current };
        if is_more(most, now.current) {
            raised |= setrlimit(resource, Rlimit { current: most, ..now }).is_ok();
        }
    }
    raised
}

/// Describes the limits of this process that are lower than at its start; `None` if there is none.
pub fn lowered() -> Option<String> {
    Limits::own().below(AT_START.get()?)
}

/// Tries something, and once more if it failed at a limit that could be raised again.
pub fn retried<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match attempt() {
        Err(error) if is_limit(&error) && restore() => attempt(),
        other => other,
    }
}

/// Appends to a file; what was written before a limit was reached is not repeated.
pub(crate) fn append(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    retried(|| {
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

/// Reports whether something failed at a limit of this process on descriptors or file sizes, which waiting does not lift.
pub(crate) fn is_limit(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::EFBIG))
}
