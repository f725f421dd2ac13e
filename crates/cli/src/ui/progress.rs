//! A line that changes in place while something takes long; only where a person watches.

use std::io::Write as _;

use super::Ui;
use crate::text::clean::cut;

/// The line. Dropping it wipes it.
pub(crate) struct Progress {
    on: bool,
    width: usize,
    shown: bool,
}

impl Progress {
    /// Returns a line that shows itself only to a person.
    pub(crate) fn new(ui: &Ui) -> Progress {
        Progress { on: ui.watched, width: ui.width.min(200), shown: false }
    }

    /// Replaces what the line says.
    pub(crate) fn show(&mut self, text: &str) {
        if self.on {
            let text = cut(text, self.width.saturating_sub(1));
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
            self.shown = true;
        }
    }

    /// Wipes the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
