//! The answer to a launch, through the pipe that came with it.

use std::os::fd::OwnedFd;

use crate::line_format::Line;

/// Answers a launch. If the daemon is gone, the folder says the same.
pub(super) fn send(reply: &OwnedFd, text: &str) {
    let text = format!("{text}done\n");
    let _ = rustix::io::retry_on_intr(|| rustix::io::write(reply, text.as_bytes()));
}

/// Returns the answer to a launch that started nothing.
pub(super) fn refused(words: &str) -> String {
    Line::new("refused").with("words", words).to_string()
}
