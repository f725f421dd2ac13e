//! Parties: what attempts are made against.

use std::path::Path;

/// What an attempt is made against.
pub(super) trait Parties {
    /// Returns the folder of everything of it.
    fn place(&self) -> &Path;

    /// Shows what was said on one line, harmless, since much of it was written by an attacker, and without where all of this is.
    fn shown(&self, text: &str) -> String {
        let text = text.trim().replace(&self.place().display().to_string(), "…");
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    }
}
