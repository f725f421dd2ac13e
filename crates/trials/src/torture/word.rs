//! The last word, as far as the judge holds it to account.

use std::path::Path;

use lastword_core::receipt::Level;

use super::standin;

/// What was published.
pub(crate) struct Word {
    /// When, on the boot clock, by its own account.
    pub(crate) at_ns: u64,
}

impl Word {
    /// Reads it from the attempt's folder.
    pub(crate) fn read(folder: &Path, of_standin: bool) -> Option<Word> {
        match of_standin {
            true => standin::spoken_at(folder).map(|at_ns| Word { at_ns }),
            false => None,
        }
    }

    /// Says what is wrong with it if the tree was to be held at `level`.
    pub(crate) fn wrong_for(&self, _: Level) -> Option<String> {
        None
    }
}
