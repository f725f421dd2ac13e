//! Lines typed at our terminal: answers to the question that is shown, or messages while there is none. Whatever was typed before a question
//! was shown is discarded.
//!
//! Standard input is never read ahead: we never buffer a second line.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::tcgetpgrp;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::ui;

/// Bytes per read. A terminal returns at most one line per read, and no line is longer.
const LINE_MAX: usize = 4096;

/// How often a background process checks whether it is in the foreground; there is no event for it.
const FOREGROUND_CHECK: Duration = Duration::from_millis(200);

/// The terminal on standard input.
#[derive(Default)]
pub(super) struct Typed {
    /// A thread that waits until there is something to read, without reading it.
    readable: Option<JoinHandle<bool>>,
    /// An incomplete line.
    incomplete: Vec<u8>,
    /// The beginning of the line was discarded, so its rest is no line.
    is_rest: bool,
    /// Input must still be discarded, because we were in the background when it should have been.
    stale: bool,
}

/// What was typed until Enter.
pub(super) enum Line {
    /// All of it.
    Whole(String),
    /// What followed after its beginning was discarded: it is discarded, too.
    Rest(String),
}

impl Typed {
    /// Returns the terminal if we are in its foreground: a background process that reads from it is stopped.
    pub(super) fn open() -> Option<Typed> {
        is_in_foreground().then(Typed::default)
    }

    /// Discards what was typed so far, and returns it. Called once a question is on the screen, so that every byte read later was typed
    /// after it.
    pub(super) fn discard(&mut self) -> String {
        let mut typed = std::mem::take(&mut self.incomplete);
        self.stale = !is_in_foreground();
        if !self.stale {
            typed.extend(ui::take_typed());
        }
        self.is_rest = typed.last().map_or(self.is_rest, |last| *last != b'\n');
        String::from_utf8_lossy(&typed).into_owned()
    }

    /// Returns the next line; `None` if the input has ended. Cancel-safe.
    pub(super) async fn next_line(&mut self) -> Option<Line> {
        loop {
            self.readable.get_or_insert_with(|| spawn_blocking(|| is_readable(None))).await.ok()?;
            self.readable = None;
            if !is_in_foreground() {
                tokio::time::sleep(FOREGROUND_CHECK).await;
                continue;
            }
            // The input may have been discarded meanwhile, and a read would block.
            if !is_readable(Some(&Timespec::default())) {
                continue;
            }
            if self.stale {
                self.discard();
                // An empty line means nothing.
                return Some(Line::Whole(String::new()));
            }
            let mut buffer = [0; LINE_MAX];
            let read = rustix::io::read(rustix::stdio::stdin(), &mut buffer).ok().filter(|read| *read > 0)?;
            self.incomplete.extend_from_slice(&buffer[..read]);
            if let Some(end) = self.incomplete.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&self.incomplete[..end]).into_owned();
                self.incomplete.drain(..=end);
                let is_rest = std::mem::take(&mut self.is_rest);
                return Some(if is_rest { Line::Rest(line) } else { Line::Whole(line) });
            }
        }
    }
}

fn is_in_foreground() -> bool {
    tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Waits until standard input can be read; reports whether it can.
fn is_readable(timeout: Option<&Timespec>) -> bool {
    let stdin = rustix::stdio::stdin();
    let mut polled = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
    poll(&mut polled, timeout).is_ok_and(|count| count > 0)
}
