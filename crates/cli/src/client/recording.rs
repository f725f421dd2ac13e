//! Reads recordings: the output of a job's attempts.

use std::io::IsTerminal as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lastword_api::Code;
use lastword_client::output::{self, Part, Piece};

use super::Client;
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::text::size;

/// Bytes read for each of the last lines. If the lines are longer on average, fewer of them are found and the first is incomplete.
const TAIL_LINE_BYTES: u64 = 2 << 10;

/// The most bytes that one call reads. The daemon returns no more.
const PIECE_BYTES_MAX: u64 = 256 << 10;

/// How long the daemon waits for more output before it replies with none. Shorter than the minute that it allows.
const WAIT_MS: u64 = 25_000;

/// Between two reads while the host that has the output is away.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

/// A stream of a job, and our own of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(crate) const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    pub(super) fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    pub(super) fn is_terminal(self) -> bool {
        match self {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        }
    }
}

/// A recording: one stream of one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) job: String,
    pub(crate) attempt: u32,
    pub(crate) stream: Stream,
}

impl Recording {
    /// Reads a piece. With `wait`, the daemon replies when there is output, when there will be none, or after `WAIT_MS`. If the host that has
    /// the output is away, this then waits for it until the attempt has ended.
    pub(super) async fn read(&self, client: &Client, offset: u64, wait: bool) -> Result<Piece, Failure> {
        let wait_ms = wait.then_some(WAIT_MS);
        let part = Part { offset: Some(offset), wait_ms, ..Part::default() };
        match wait {
            true => self.read_when_back(client, part).await,
            false => self.read_part(client, part).await,
        }
    }

    /// Reads a part. If the host that has the output is away, waits for it until the attempt has ended, and then there is nothing more.
    async fn read_when_back(&self, client: &Client, part: Part<'_>) -> Result<Piece, Failure> {
        let offset = part.offset.unwrap_or(0);
        loop {
            let failure = match self.read_part(client, part).await {
                Err(failure) if failure.problem.code == Code::HostAway => failure,
                read => {
                    client.is_host_away.store(false, Ordering::Relaxed);
                    return read;
                }
            };
            if !client.is_host_away.swap(true, Ordering::Relaxed) {
                client.ui().say(&format!("lastword: waiting: {}", clean(&failure.problem.detail)));
            }
            let job = client.job(&self.job).await?;
            let attempt = job.attempts.iter().find(|attempt| attempt.no == self.attempt);
            if job.is_ended() || attempt.is_none_or(|attempt| attempt.ended_at.is_some()) {
                return Ok(Piece {
                    bytes: Default::default(),
                    next: offset,
                    skipped: 0,
                    size: offset,
                    is_end: true,
                });
            }
            tokio::time::sleep(AWAY_PAUSE).await;
        }
    }

    /// Reads a part of this recording: fills in its stream and attempt.
    async fn read_part(&self, client: &Client, part: Part<'_>) -> Result<Piece, Failure> {
        let (stream, attempt) = (Some(self.stream.name()), Some(self.attempt));
        let part = Part { stream, attempt, limit: Some(PIECE_BYTES_MAX), ..part };
        client.call(&output::read(&self.job, &part)).await
    }

    /// Returns the offset of the last `lines` lines, and those lines as recorded now. With `wait`, waits for a host that is away.
    pub(crate) async fn tail(
        &self,
        client: &Client,
        lines: usize,
        wait: bool,
    ) -> Result<(u64, Vec<u8>), Failure> {
        let bytes = (lines as u64).saturating_mul(TAIL_LINE_BYTES).min(PIECE_BYTES_MAX);
        let part = Part { tail: Some(bytes), ..Part::default() };
        let piece = match wait {
            true => self.read_when_back(client, part).await?,
            false => self.read_part(client, part).await?,
        };
        let begin = piece.next - piece.bytes.len() as u64;
        let cut = last_lines(&piece.bytes, lines);
        Ok((begin + cut as u64, piece.bytes[cut..].to_vec()))
    }
}

/// Returns the index at which the last `lines` lines of a text begin.
fn last_lines(bytes: &[u8], lines: usize) -> usize {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match lines {
        0 => bytes.len(),
        _ => breaks.nth(lines - 1).map_or(0, |(at, _)| at + 1),
    }
}

/// Prints how much of a recording is missing.
pub(super) fn say_skipped(client: &Client, stream: Stream, skipped: u64) {
    if skipped > 0 {
        let (skipped, name) = (size::show(skipped), stream.name());
        client.ui().say(&format!("lastword: {skipped} of {name} are not kept, and are left out here"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_with_or_without_a_break_at_the_end() {
        for (text, lines, rest) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\nc\n", 9, "a\nb\nc\n"),
            ("a\n\n\n", 2, "\n\n"),
            ("", 3, ""),
            ("a\nb\n", 0, ""),
        ] {
            assert_eq!(&text[last_lines(text.as_bytes(), lines)..], rest, "{lines} of {text:?}");
        }
    }
}
