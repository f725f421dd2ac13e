//! Bugs on purpose: switches by which the trials break one rule of the keeper at a time.
//!
//! Without the feature `seeded` every switch is a constant `false` and the compiler removes it; what ships is built without.

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// What is in a file is not flushed, be it output or a record.
    NoFileSync,
    /// That a record is in its folder is not flushed.
    NoFolderSync,
}

impl Bug {
    /// Every bug.
    pub const ALL: &'static [Bug] = &[Bug::NoFileSync, Bug::NoFolderSync];

    /// Returns the bug's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Bug::NoFileSync => "no-file-sync",
            Bug::NoFolderSync => "no-folder-sync",
        }
    }
}

/// Reports whether a bug is switched on.
#[cfg(not(feature = "seeded"))]
#[inline(always)]
pub const fn on(_: Bug) -> bool {
    false
}

#[cfg(feature = "seeded")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    /// The bug that is on, by its number plus one; zero is none.
    static ON: AtomicU8 = AtomicU8::new(0);

    /// Reports whether a bug is switched on.
    #[inline]
    pub fn on(bug: Bug) -> bool {
        ON.load(Ordering::Relaxed) == bug as u8 + 1
    }

    /// Switches one bug on, or all off, for the whole process and what it forks.
    pub fn switch(bug: Option<Bug>) {
        ON.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
    }
}

#[cfg(feature = "seeded")]
pub use switch::{on, switch};
