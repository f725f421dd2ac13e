//! What a tree is started with, and the names of what some kinds exec.

use crate::canary::Canary;

/// A process that only writes heartbeats.
pub(crate) const REPLACED: &str = "replaced";

/// The same as a setuid program, which runs as another user if the kernel permits it.
pub(crate) const OTHER_USER: &str = "other-user";

/// The arguments of a tree.
pub(crate) struct Arguments {
    pub(crate) canary: Canary,
    /// The canary file, for processes that call exec.
    pub(crate) path: String,
    /// What a tree needs to escape: a setuid copy of this program, or a control group.
    pub(crate) outside: Option<String>,
}
