//! A status line that is rewritten in place during long operations, if a person is watching.

use std::io::Write as _;

use super::Ui;
use crate::text::clean::cut;

/// The status line. Dropping it erases it.
pub(crate) struct Progress {
    on: bool,
    width: usize,
    shown: bool,
}

impl Progress {
    /// Returns a status line, inactive unless a person is watching.
    pub(crate) fn new(ui: &Ui) -> Progress {
        Progress { on: ui.watched, width: ui.width.min(200), shown: false }
    }

    /// Replaces its text.
    pub(crate) fn show(&mut self, text: &str) {
        if self.on {
            let text = cut(text, self.width.saturating_sub(1));
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K{text}");
            self.shown = true;
        }
    }

    /// Erases it.
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
