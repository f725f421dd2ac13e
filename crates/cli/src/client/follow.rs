//! Prints the output of a job: what is recorded now, its last lines, or all of it until the job ends.

use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use lastword_api::{Event, Job, Receipt};
use lastword_client::events::Filter;
use lastword_client::output::{self, Part, Piece};

use super::Client;
use crate::failure::Failure;
use crate::text::clean::{Cleaner, Colours, clean};
use crate::text::modes::Modes;
use crate::text::size;
use crate::text::transcript::Transcript;
use crate::ui::Ui;

/// Bytes read for each of the last lines. If the lines are longer on average, fewer of them are found and the first is incomplete.
const TAIL_LINE_BYTES: u64 = 2 << 10;

/// The most bytes that one call reads. The daemon returns no more.
const PIECE_BYTES_MAX: u64 = 256 << 10;

/// How long the daemon waits for more output before it replies with none. Shorter than the minute that it allows.
const WAIT_MS: u64 = 25_000;

/// A stream of a job, and our own of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(crate) const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    fn is_terminal(self) -> bool {
        match self {
            Stream::Stdout => std::io::stdout().is_terminal(),
            Stream::Stderr => std::io::stderr().is_terminal(),
        }
    }
}

/// How a job's output is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// An agent's output as readable text; without control characters if we print to a terminal.
    Ours,
    /// An agent's output as it is; without control characters if we print to a terminal.
    Raw,
    /// The job was given our terminal: every byte as it is.
    Given,
}

/// Bytes of jobs that were shown at a terminal by this command.
static SHOWN_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns how many bytes of jobs were shown at a terminal so far. A question that was on the screen before may have been pushed away.
pub(crate) fn shown_bytes() -> u64 {
    SHOWN_BYTES.load(Ordering::Relaxed)
}

/// Copies a job's output to our own stream of the same name: unchanged to a file or a pipe, and to a terminal without control characters other
/// than colours, since the job could manipulate it otherwise.
#[derive(Debug)]
pub(crate) struct Passage {
    stream: Stream,
    /// Renders an agent's output as readable text.
    transcript: Option<Transcript>,
    cleaner: Option<Cleaner>,
    given: Option<GivenTerminal>,
}

/// Our terminal, which the job was given. Dropping it undoes what the job changed.
#[derive(Debug, Default)]
struct GivenTerminal(Modes);

impl Drop for GivenTerminal {
    fn drop(&mut self) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(self.0.undo().as_bytes()).and_then(|()| out.flush());
    }
}

impl Passage {
    /// Returns a passage to our own stream.
    pub(crate) fn open(ui: &Ui, stream: Stream, terminal: Terminal) -> Passage {
        let style = if stream == Stream::Stdout { ui.out } else { ui.err };
        let colours = if style.on { Colours::Kept } else { Colours::Dropped };
        let (cleaner, given) = match (terminal, stream) {
            _ if !stream.is_terminal() => (None, None),
            (Terminal::Given, Stream::Stdout) => (None, Some(GivenTerminal::default())),
            (Terminal::Given, Stream::Stderr) => (None, None),
            _ => (Some(Cleaner::new(colours)), None),
        };
        Passage { stream, transcript: None, cleaner, given }
    }

    /// Renders the output as readable text if the job is an agent. Agents speak their protocol on standard output only. That text has no
    /// colours: commands, paths and titles are among it.
    fn with_transcript(mut self, job: &Job) -> Passage {
        self.transcript = Transcript::of(job).filter(|_| self.stream == Stream::Stdout);
        if let (Some(_), Some(cleaner)) = (&self.transcript, &mut self.cleaner) {
            *cleaner = Cleaner::new(Colours::Dropped);
        }
        self
    }

    /// Passes on a piece of output. A piece may end in the middle of a line or a character.
    pub(crate) fn pass_on(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        // Render first: the text of an agent may contain control characters.
        let rendered = self.transcript.as_mut().map(|transcript| transcript.render(bytes));
        let bytes = rendered.as_ref().map_or(bytes, String::as_bytes);
        let cleaned = self.cleaner.as_mut().map(|cleaner| cleaner.clean(bytes));
        let bytes = cleaned.as_ref().map_or(bytes, String::as_bytes);
        if let Some(given) = &mut self.given {
            given.0.follow(bytes);
        }
        if self.cleaner.is_some() {
            SHOWN_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        match self.stream {
            Stream::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(bytes)?;
                Ok(out.flush()?)
            }
            Stream::Stderr => Ok(std::io::stderr().lock().write_all(bytes)?),
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
    /// Reads a piece. With `wait`, the daemon replies when there is output, when there will be none, or after `WAIT_MS`.
    async fn read(&self, client: &Client, offset: u64, wait: bool) -> Result<Piece, Failure> {
        let wait_ms = wait.then_some(WAIT_MS);
        self.read_part(client, Part { offset: Some(offset), wait_ms, ..Part::default() }).await
    }

    /// Reads a part of this recording: fills in its stream and attempt.
    async fn read_part(&self, client: &Client, part: Part<'_>) -> Result<Piece, Failure> {
        let (stream, attempt) = (Some(self.stream.name()), Some(self.attempt));
        let part = Part { stream, attempt, limit: Some(PIECE_BYTES_MAX), ..part };
        client.call(&output::read(&self.job, &part)).await
    }

    /// Passes on the output from an offset on: with `follow` until it ends, otherwise what is recorded now. With a job in `agent`, its
    /// output is rendered as readable text.
    pub(crate) async fn pass_on(
        &self,
        client: &Client,
        from: u64,
        follow: bool,
        agent: Option<&Job>,
    ) -> Result<(), Failure> {
        let passage = Passage::open(client.ui(), self.stream, Terminal::Ours);
        let passage = match agent {
            Some(job) => passage.with_transcript(job),
            None => passage,
        };
        self.pass_through(client, from, follow, passage).await
    }

    /// Does the same, to an open passage.
    async fn pass_through(
        &self,
        client: &Client,
        from: u64,
        follow: bool,
        mut passage: Passage,
    ) -> Result<(), Failure> {
        let mut offset = from;
        loop {
            let piece = self.read(client, offset, follow).await?;
            if piece.skipped > 0 {
                let skipped = size::show(piece.skipped);
                client.ui().say(&format!(
                    "lastword: {skipped} of {} are not kept, and are left out here",
                    self.stream.name()
                ));
            }
            passage.pass_on(&piece.bytes)?;
            offset = piece.next;
            if piece.is_end || (!follow && piece.bytes.is_empty()) {
                return Ok(());
            }
        }
    }

    /// Returns the offset of the last `lines` lines, and those lines as recorded now.
    pub(crate) async fn tail(&self, client: &Client, lines: usize) -> Result<(u64, Vec<u8>), Failure> {
        let bytes = (lines as u64).saturating_mul(TAIL_LINE_BYTES).min(PIECE_BYTES_MAX);
        let piece = self.read_part(client, Part { tail: Some(bytes), ..Part::default() }).await?;
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

/// Passes on the output of a job, attempt by attempt, until the job has ended; returns the ended job. `from` has the offsets at which to
/// start in stdout and stderr of the current attempt; later attempts start at 0.
pub(crate) async fn to_the_end(
    client: &Client,
    job: Job,
    from: [u64; 2],
    terminal: Terminal,
) -> Result<Job, Failure> {
    // The newest attempt whose output was passed on.
    let mut shown = job.attempts.last().map_or(0, |attempt| attempt.no);
    say_withheld(client, job.attempts.last().and_then(|attempt| attempt.withheld.as_deref()));
    if let Some(attempt) = job.attempts.last().filter(|attempt| attempt.has_run()) {
        pass_on_both(client, &job, attempt.no, from, terminal).await?;
    } else {
        // It has no recording yet; the event of its launch shows it.
        shown = shown.saturating_sub(1);
    }
    let mut events = client.follow_job(&job.id, &Filter::default(), Some(job.version.saturating_sub(1)));
    while let Some(event) = events.next().await? {
        let begun = event.attempt.filter(|_| has_recording(&event));
        if let Some(attempt) = begun.filter(|attempt| *attempt > shown) {
            shown = attempt;
            say_withheld(client, event.data["withheld"].as_str());
            pass_on_both(client, &job, attempt, [0, 0], terminal).await?;
        }
    }
    client.job(&job.id).await
}

/// Prints which of our resource limits, and whether our nice value, the job could not be given.
fn say_withheld(client: &Client, withheld: Option<&str>) {
    if let Some(withheld) = withheld {
        let withheld = clean(withheld);
        client
            .ui()
            .say(&format!("lastword: the daemon could not give the job all of your limits: {withheld}"));
    }
}

/// Reports whether an event shows that its attempt has a recording. If the daemon was killed during the launch, the end of the attempt is
/// the only event that does.
fn has_recording(event: &Event) -> bool {
    let receipt = || serde_json::from_value::<Receipt>(event.data["receipt"].clone());
    match event.kind.as_str() {
        "launched" | "adopted" => true,
        "attempt_ended" => receipt().is_ok_and(|receipt| receipt.has_seen_a_tree()),
        _ => false,
    }
}

/// Passes on both streams of an attempt until they end.
async fn pass_on_both(
    client: &Client,
    job: &Job,
    attempt: u32,
    from: [u64; 2],
    terminal: Terminal,
) -> Result<(), Failure> {
    let recording = |stream: Stream| Recording { job: job.id.clone(), attempt, stream };
    let (out, err) = (recording(Stream::Stdout), recording(Stream::Stderr));
    let passage = |stream: Stream| match terminal {
        Terminal::Raw => Passage::open(client.ui(), stream, terminal),
        _ => Passage::open(client.ui(), stream, terminal).with_transcript(job),
    };
    tokio::try_join!(
        out.pass_through(client, from[0], true, passage(Stream::Stdout)),
        err.pass_through(client, from[1], true, passage(Stream::Stderr))
    )?;
    Ok(())
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
